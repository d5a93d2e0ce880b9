/* rng.h - random numbers that follow from the experiment alone.
 *
 * There is one stream for each (seed, agent, purpose, index): the order of samples in epoch 7 of agent 3, the crops
 * of round 12, the initial parameters. A stream is made where it is needed and thrown away, so nothing has to be
 * saved to go on after a stop, and no stream depends on how much another one was used.
 *
 * xoshiro256** (Blackman and Vigna 2018), seeded through splitmix64.
 */
#ifndef VECHE_BASE_RNG_H
#define VECHE_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Adding a purpose at the end keeps all older streams as they are. */
enum rng_purpose { RNG_INIT, RNG_ORDER, RNG_AUGMENT, RNG_DROPOUT, RNG_SPLIT, RNG_SYNTHETIC, RNG_LIMIT, RNG_TEST,
                   RNG_TOPOLOGY, RNG_SPEED, RNG_STRAGGLER, RNG_EVENTS, RNG_PARTNER };

struct rng {
    uint64_t s[4];
};

struct rng rng_stream(uint64_t seed, uint32_t agent, enum rng_purpose purpose, uint64_t index);
uint64_t rng_next(struct rng *r);                    /* 64 random bits                       */
uint64_t rng_below(struct rng *r, uint64_t n);       /* 0 .. n-1, without bias; n > 0        */
double rng_uniform(struct rng *r);                   /* [0, 1) with 53 bits                  */
double rng_normal(struct rng *r);                    /* mean 0, variance 1                   */
void rng_shuffle(struct rng *r, uint32_t *items, size_t n);

/* A fixed scrambling of (key, i) to 64 bits: random numbers by position, in any order, on any device. */
static inline uint64_t rng_hash(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
