/* sketch.c - collecting edges, and turning them into the sorted lists that everyone reads.
 *
 *   add, add, ... -> (reach: is it connected?) -> finish: sort, drop repetitions, neighbours by counting
 *
 * Everything is linear in the edges but the sort.
 */
#include "topology/sketch.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

fault sketch_add(struct sketch *s, size_t a, size_t b)
{
    if (a == b)
        return OK;
    if (s->n_edges == MOST_EDGES)
        return FAIL(FAULT_USAGE, "has more than %d edges, the most allowed", MOST_EDGES);
    struct edge *edges = array_with_room(s->edges, &s->room, s->n_edges + 1, sizeof *edges);
    if (!edges)
        return OUT_OF_MEMORY;
    s->edges = edges;
    s->edges[s->n_edges++] = edge_between(a, b);
    return OK;
}

void sketch_release(struct sketch *s)
{
    free(s->edges);
    *s = (struct sketch){0};
}

/* Each set of joined vertices is a tree of parents; the way up is halved while it is walked. */
static uint32_t root_of(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

fault sketch_reach(const struct sketch *s, bool *reached, size_t *first_lost)
{
    uint32_t *parent = malloc(s->n * sizeof *parent);
    if (!parent)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < s->n; i++)
        parent[i] = (uint32_t)i;
    for (size_t i = 0; i < s->n_edges; i++) {
        uint32_t a = root_of(parent, s->edges[i].a), b = root_of(parent, s->edges[i].b);
        parent[a > b ? a : b] = a > b ? b : a; /* the smallest is the root: that of 0 is 0 */
    }
    *first_lost = s->n;
    for (size_t i = s->n; i-- > 0;) {
        reached[i] = root_of(parent, (uint32_t)i) == 0;
        if (!reached[i])
            *first_lost = i;
    }
    free(parent);
    return OK;
}

static int compare_edges(const void *x, const void *y)
{
    const struct edge *p = x, *q = y;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    return (p->b > q->b) - (p->b < q->b);
}

static size_t drop_repetitions(struct edge *edges, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare_edges(&edges[kept - 1], &edges[i]) != 0)
            edges[kept++] = edges[i];
    return kept;
}

/* The edges are sorted, so filling in their order gives each vertex first its smaller neighbours, ascending,
 * then its larger ones, ascending. */
static fault list_neighbours(struct topology *t)
{
    t->first = ARENA_NEW(&t->arena, size_t, t->n + 1);
    t->neighbour = ARENA_NEW(&t->arena, uint32_t, 2 * t->n_edges + 1);
    t->edge_of = ARENA_NEW(&t->arena, uint32_t, 2 * t->n_edges + 1);
    size_t *next = malloc(t->n * sizeof *next);
    if (!t->first || !t->neighbour || !t->edge_of || !next) {
        free(next);
        return OUT_OF_MEMORY;
    }
    for (size_t e = 0; e < t->n_edges; e++) {
        t->first[t->edges[e].a + 1]++;
        t->first[t->edges[e].b + 1]++;
    }
    for (size_t i = 0; i < t->n; i++)
        t->first[i + 1] += t->first[i];
    memcpy(next, t->first, t->n * sizeof *next);
    for (size_t e = 0; e < t->n_edges; e++) {
        struct edge edge = t->edges[e];
        t->neighbour[next[edge.a]] = edge.b;
        t->edge_of[next[edge.a]++] = (uint32_t)e;
        t->neighbour[next[edge.b]] = edge.a;
        t->edge_of[next[edge.b]++] = (uint32_t)e;
    }
    free(next);
    return OK;
}

fault sketch_finish(struct sketch *s, struct topology *t)
{
    if (s->n_edges)
        qsort(s->edges, s->n_edges, sizeof *s->edges, compare_edges);
    t->n = s->n;
    t->n_edges = drop_repetitions(s->edges, s->n_edges);
    t->edges = ARENA_NEW(&t->arena, struct edge, t->n_edges + 1);
    if (!t->edges)
        return OUT_OF_MEMORY;
    if (t->n_edges)
        memcpy(t->edges, s->edges, t->n_edges * sizeof *t->edges);
    return list_neighbours(t);
}

/* The set: open addressing with linear probing. */

static uint64_t key_of(struct edge e)
{
    return ((uint64_t)e.a << 32 | e.b) + 1;
}

static size_t home_of(const struct edge_set *set, uint64_t key)
{
    return rng_hash(0, key) & set->mask;
}

static size_t slot_of(const struct edge_set *set, uint64_t key)
{
    size_t i = home_of(set, key);
    while (set->slots[i] && set->slots[i] != key)
        i = (i + 1) & set->mask;
    return i;
}

fault edge_set_init(size_t most, struct edge_set *out)
{
    size_t room = 16;
    while (room < 2 * most)
        room *= 2;
    uint64_t *slots = calloc(room, sizeof *slots);
    if (!slots)
        return OUT_OF_MEMORY;
    *out = (struct edge_set){slots, room - 1};
    return OK;
}

void edge_set_release(struct edge_set *set)
{
    free(set->slots);
    *set = (struct edge_set){0};
}

bool edge_set_has(const struct edge_set *set, struct edge e)
{
    return set->slots[slot_of(set, key_of(e))] != 0;
}

void edge_set_put(struct edge_set *set, struct edge e)
{
    set->slots[slot_of(set, key_of(e))] = key_of(e);
}

/* The hole is filled by the next entry that may stand there, and so on, so that no search ends too early. */
void edge_set_drop(struct edge_set *set, struct edge e)
{
    size_t hole = slot_of(set, key_of(e)), i = hole;
    while (set->slots[i = (i + 1) & set->mask]) {
        size_t way = (i - home_of(set, set->slots[i])) & set->mask;
        if (way >= ((i - hole) & set->mask)) {
            set->slots[hole] = set->slots[i];
            hole = i;
        }
    }
    set->slots[hole] = 0;
}
