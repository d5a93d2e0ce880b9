/* rng.c - xoshiro256** and what is drawn from it. */
#include "base/rng.h"

#include <math.h>

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

struct rng rng_stream(uint64_t seed, uint32_t agent, enum rng_purpose purpose, uint64_t index)
{
    uint64_t key = rng_hash(rng_hash(rng_hash(seed, agent), (uint64_t)purpose), index);
    struct rng r;
    for (uint64_t i = 0; i < 4; i++)
        r.s[i] = rng_hash(key, i);
    return r;
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    uint64_t uneven = -n % n; /* 2^64 mod n: draws below it would favour small results */
    uint64_t x;
    do
        x = rng_next(r);
    while (x < uneven);
    return x % n;
}

double rng_uniform(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

double rng_normal(struct rng *r)
{
    double u = 1 - rng_uniform(r), v = rng_uniform(r); /* Box-Muller; the second value is let go */
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void rng_shuffle(struct rng *r, uint32_t *items, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(r, i);
        uint32_t t = items[i - 1];
        items[i - 1] = items[j];
        items[j] = t;
    }
}
