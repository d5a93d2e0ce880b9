#include "strategy/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { KEPT = 16 };

struct pairs {
    const struct topology *topology; /* borrowed */
    uint64_t seed, n_pairs;
    uint32_t *drawn; /* owned: the edges of the round being sorted */
    struct kept {
        bool known;
        uint64_t round;
        size_t *first;      /* owned: [n + 1] */
        uint32_t *partners; /* owned: [2 n_pairs] */
    } kept[KEPT];
};

void pairs_free(struct pairs *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < KEPT; i++) {
        free(p->kept[i].first);
        free(p->kept[i].partners);
    }
    free(p->drawn);
    free(p);
}

fault pairs_new(const struct topology *t, uint64_t seed, uint64_t n_pairs, struct pairs **out)
{
    struct pairs *p = calloc(1, sizeof *p);
    if (!p)
        return OUT_OF_MEMORY;
    *p = (struct pairs){.topology = t, .seed = seed, .n_pairs = n_pairs};
    bool all = (p->drawn = malloc((n_pairs + 1) * sizeof *p->drawn)) != NULL;
    for (size_t i = 0; all && i < KEPT; i++) {
        p->kept[i].first = malloc((t->n + 1) * sizeof *p->kept[i].first);
        p->kept[i].partners = malloc((2 * n_pairs + 1) * sizeof *p->kept[i].partners);
        all = p->kept[i].first && p->kept[i].partners;
    }
    if (!all) {
        pairs_free(p);
        return OUT_OF_MEMORY;
    }
    *out = p;
    return OK;
}

/* Draws a round and sorts it by agent, keeping the order of the draws. */
static void draw(struct pairs *p, struct kept *kept, uint64_t k)
{
    const struct topology *t = p->topology;
    struct rng r = rng_stream(p->seed, 0, RNG_PARTNER, UINT64_MAX - k);
    size_t *first = kept->first;
    memset(first, 0, (t->n + 1) * sizeof *first);
    for (uint64_t i = 0; i < p->n_pairs; i++) {
        p->drawn[i] = (uint32_t)rng_below(&r, t->n_edges);
        first[t->edges[p->drawn[i]].a + 1]++;
        first[t->edges[p->drawn[i]].b + 1]++;
    }
    for (size_t i = 0; i < t->n; i++)
        first[i + 1] += first[i];
    for (uint64_t i = p->n_pairs;
         i-- > 0;) { /* from the end: afterwards first[i + 1] is where agent i begins */
        struct edge e = t->edges[p->drawn[i]];
        kept->partners[--first[e.a + 1]] = e.b;
        kept->partners[--first[e.b + 1]] = e.a;
    }
    memmove(first, first + 1, t->n * sizeof *first);
    first[t->n] = 2 * p->n_pairs;
    kept->known = true;
    kept->round = k;
}

const uint32_t *pairs_of_agent(struct pairs *p, uint64_t k, size_t agent, size_t *n)
{
    struct kept *kept = &p->kept[k % KEPT];
    if (!kept->known || kept->round != k)
        draw(p, kept, k);
    *n = kept->first[agent + 1] - kept->first[agent];
    return kept->partners + kept->first[agent];
}
