/* families.c - graphs that follow from their numbers alone.
 *
 * Each rule may name a loop or the same edge twice (a cycle of two, a torus of two rows): such edges are
 * merged when the sketch is finished, so every family is sane from one vertex on.
 */
#include <math.h>

#include "topology/families.h"

fault family_path(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    for (size_t i = 1; i < s->n; i++)
        TRY(sketch_add(s, i - 1, i));
    return OK;
}

/* i and i + stride for every i, modulo n. */
static fault add_stride(struct sketch *s, size_t stride)
{
    for (size_t i = 0; i < s->n; i++)
        TRY(sketch_add(s, i, (i + stride) % s->n));
    return OK;
}

fault family_cycle(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    return add_stride(s, 1);
}

/* The cycle, and from each vertex a chord of each of K strides. Strides are spread evenly on a logarithmic
 * scale between 1 and n: near n^(j / (K + 1)), all different, and none of half the cycle, which would give
 * two vertices one chord between them. So there are n (1 + K) edges, and information travels far and near
 * alike: for 50 vertices and one stride gamma is 0.83, where strides on an even scale give 0.93. */
fault family_chords(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    size_t k = (size_t)z->k, longest = (s->n - 1) / 2, most = longest > 1 ? longest - 1 : 0, last = 1;
    if (k > most)
        return FAIL(FAULT_EXPERIMENT, "K: %zu is more than a cycle of %zu has room for, %zu", k, s->n, most);
    TRY(add_stride(s, 1));
    for (size_t j = 1; j <= k; j++) {
        size_t stride = (size_t)lround(pow((double)s->n, (double)j / (double)(k + 1)));
        stride = stride > last ? stride : last + 1;
        last = stride < longest - (k - j) ? stride : longest - (k - j);
        TRY(add_stride(s, last));
    }
    return OK;
}

fault family_complete(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    if (z->n * (z->n - 1) / 2 > MOST_EDGES)
        return FAIL(FAULT_EXPERIMENT, "has %lld edges; the most allowed is %d",
                    (long long)(z->n * (z->n - 1) / 2), MOST_EDGES);
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = i + 1; j < s->n; j++)
            TRY(sketch_add(s, i, j));
    return OK;
}

fault family_star(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    for (size_t i = 1; i < s->n; i++)
        TRY(sketch_add(s, 0, i));
    return OK;
}

fault family_tree(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    for (size_t i = 1; i < s->n; i++)
        TRY(sketch_add(s, (i - 1) / (size_t)z->k, i));
    return OK;
}

static fault check_area(const struct sizes *z)
{
    if (z->rows * z->columns > MOST_VERTICES)
        return FAIL(FAULT_EXPERIMENT, "has %lld vertices; the most allowed is %d",
                    (long long)(z->rows * z->columns), MOST_VERTICES);
    return OK;
}

fault family_grid(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    TRY(check_area(z));
    size_t rows = (size_t)z->rows, columns = (size_t)z->columns;
    s->n = rows * columns;
    for (size_t i = 0; i < s->n; i++) {
        if (i % columns + 1 < columns)
            TRY(sketch_add(s, i, i + 1));
        if (i + columns < s->n)
            TRY(sketch_add(s, i, i + columns));
    }
    return OK;
}

fault family_torus(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    TRY(check_area(z));
    size_t rows = (size_t)z->rows, columns = (size_t)z->columns;
    s->n = rows * columns;
    for (size_t i = 0; i < s->n; i++) {
        TRY(sketch_add(s, i, i - i % columns + (i + 1) % columns));
        TRY(sketch_add(s, i, (i + columns) % s->n));
    }
    return OK;
}

fault family_hypercube(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)1 << z->k;
    for (size_t i = 0; i < s->n; i++)
        for (int64_t d = 0; d < z->k; d++)
            if (!(i >> d & 1))
                TRY(sketch_add(s, i, i | (size_t)1 << d));
    return OK;
}

fault family_exponential(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    s->n = (size_t)z->n;
    for (size_t stride = 1; stride < s->n; stride *= 2)
        TRY(add_stride(s, stride));
    return OK;
}

/* Margulis, Gabber and Galil: the vertices are pairs of residues modulo k, and (x, y) meets (x + 2y, y), (x +
 * 2y + 1, y), (x, y + 2x), (x, y + 2x + 1). At most eight neighbours each, and a spectral gap that does not
 * fade with k. */
fault family_expander(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    size_t k = (size_t)lround(sqrt((double)z->n));
    s->n = (size_t)z->n;
    if (k * k != s->n) {
        size_t below = k * k < s->n ? k : k - 1;
        return FAIL(FAULT_EXPERIMENT, "an expander has a square number of vertices, such as %zu or %zu",
                    below * below, (below + 1) * (below + 1));
    }
    for (size_t x = 0; x < k; x++)
        for (size_t y = 0; y < k; y++)
            for (size_t odd = 0; odd < 2; odd++) {
                TRY(sketch_add(s, x * k + y, (x + 2 * y + odd) % k * k + y));
                TRY(sketch_add(s, x * k + y, x * k + (y + 2 * x + odd) % k));
            }
    return OK;
}
