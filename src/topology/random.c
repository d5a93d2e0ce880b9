/* random.c - graphs that are drawn. The same stream gives the same graph; whoever calls checks that it is
 * connected. */
#include <math.h>
#include <stdlib.h>

#include "topology/families.h"

/* Erdos and Renyi: each pair is joined with chance p. Instead of asking every pair, leap to the next that is:
 * the gaps are geometric (Batagelj and Brandes 2005), so the work grows with the edges alone. */
fault family_random(const struct sizes *z, struct rng *random, struct sketch *s)
{
    s->n = (size_t)z->n;
    double n_pairs = (double)z->n * (double)(z->n - 1) / 2, per_leap = log1p(-z->p);
    size_t row = 1, column = 0; /* pairs (row, column), column < row, in the order of rows */
    for (double done = 0;;) {
        double leap = floor(log1p(-rng_uniform(random)) / per_leap);
        done += leap + 1;
        if (!(done <= n_pairs))
            return OK;
        column += (size_t)leap;
        while (column >= row)
            column -= row++;
        TRY(sketch_add(s, row, column++));
    }
}

/* Takes two random edges (a b), (c d) and makes them (a c), (b d) where these are new: all degrees stay. */
static void exchange_ends(struct sketch *s, struct edge_set *set, struct rng *random)
{
    size_t i = rng_below(random, s->n_edges), j = rng_below(random, s->n_edges);
    struct edge p = s->edges[i], q = s->edges[j];
    if (rng_next(random) >> 63)
        q = (struct edge){q.b, q.a};
    if (i == j || p.a == q.a || p.b == q.b)
        return;
    struct edge e = edge_between(p.a, q.a), f = edge_between(p.b, q.b);
    if (edge_set_has(set, e) || edge_set_has(set, f))
        return;
    edge_set_drop(set, s->edges[i]);
    edge_set_drop(set, s->edges[j]);
    edge_set_put(set, s->edges[i] = e);
    edge_set_put(set, s->edges[j] = f);
}

/* Connected with two neighbours each: a round trip through all vertices in random order. */
static fault make_round_trip(struct rng *random, struct sketch *s)
{
    uint32_t *order = malloc(s->n * sizeof *order);
    if (!order)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < s->n; i++)
        order[i] = (uint32_t)i;
    rng_shuffle(random, order, s->n);
    fault f = OK;
    for (size_t i = 0; !f && i < s->n; i++)
        f = sketch_add(s, order[i], order[(i + 1) % s->n]);
    free(order);
    return f;
}

static fault check_degree(int64_t n, int64_t d)
{
    if (d >= n)
        return FAIL(FAULT_EXPERIMENT, "among %lld vertices none has %lld neighbours", (long long)n,
                    (long long)d);
    if (n % 2 && d % 2)
        return FAIL(FAULT_EXPERIMENT,
                    "%lld vertices cannot all have %lld neighbours: one of the two must be even",
                    (long long)n, (long long)d);
    if (d < 2 && n > d + 1)
        return FAIL(FAULT_EXPERIMENT, "with %lld neighbours each, %lld vertices are never connected",
                    (long long)d, (long long)n);
    return OK;
}

/* A ring in which everyone knows the nearest k, k / 2 on either side, and for odd k the one opposite. */
static fault make_ring(size_t k, struct sketch *s)
{
    for (size_t stride = 1; stride <= k / 2; stride++)
        for (size_t i = 0; i < s->n; i++)
            TRY(sketch_add(s, i, (i + stride) % s->n));
    for (size_t i = 0; k % 2 && i < s->n / 2; i++)
        TRY(sketch_add(s, i, i + s->n / 2));
    return OK;
}

static fault set_of(const struct sketch *s, struct edge_set *out)
{
    TRY(edge_set_init(s->n_edges, out));
    for (size_t i = 0; i < s->n_edges; i++)
        edge_set_put(out, s->edges[i]);
    return OK;
}

enum { EXCHANGES_PER_EDGE = 10 };

/* Starts from the ring and exchanges ends until nothing of it is left: in the long run the exchanges make all
 * graphs of these degrees equally likely. Two neighbours each are drawn directly, as that is hardly ever
 * connected by chance. */
fault family_regular(const struct sizes *z, struct rng *random, struct sketch *s)
{
    struct edge_set set;
    TRY(check_degree(z->n, z->k));
    s->n = (size_t)z->n;
    if (z->k == 2)
        return make_round_trip(random, s);
    TRY(make_ring((size_t)z->k, s));
    TRY(set_of(s, &set));
    for (size_t i = 0; i < EXCHANGES_PER_EDGE * s->n_edges; i++)
        exchange_ends(s, &set, random);
    edge_set_release(&set);
    return OK;
}

/* Gives edge i a new far end, unless its near end knows everyone already. */
static void rewire(struct sketch *s, struct edge_set *set, size_t near, size_t i, struct rng *random)
{
    for (size_t tries = 0; tries < 64; tries++) {
        size_t far = rng_below(random, s->n);
        if (far == near || edge_set_has(set, edge_between(near, far)))
            continue;
        edge_set_drop(set, s->edges[i]);
        edge_set_put(set, s->edges[i] = edge_between(near, far));
        return;
    }
}

/* Watts and Strogatz: the ring of k nearest neighbours, each edge's far end moved with chance p. */
fault family_small_world(const struct sizes *z, struct rng *random, struct sketch *s)
{
    struct edge_set set;
    s->n = (size_t)z->n;
    if (z->k % 2)
        return FAIL(FAULT_EXPERIMENT,
                    "the number of nearest neighbours must be even, as half stand on each side; "
                    "%lld is odd",
                    (long long)z->k);
    TRY(check_degree(z->n, z->k));
    TRY(make_ring((size_t)z->k, s));
    TRY(set_of(s, &set));
    for (size_t i = 0; i < s->n_edges; i++)
        if (rng_uniform(random) < z->p)
            rewire(s, &set, i % s->n, i, random);
    edge_set_release(&set);
    return OK;
}
