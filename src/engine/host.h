/* host.h - what engines on the host share: rows in plain memory, optimiser steps over the workers, batches
 * from bytes. */
#ifndef VECHE_ENGINE_HOST_H
#define VECHE_ENGINE_HOST_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/pool.h"
#include "base/rng.h"
#include "engine/engine.h"

struct host {
    struct engine engine; /* first: a struct host * is a struct engine * */
    struct pool *pool;    /* owned */
    enum isa isa;         /* of the loops, the best there is unless the setup says otherwise */
    bool alone;           /* steps and mixes by the caller alone: somebody else is on the other cores */
    struct block memory;  /* owned: all rows */
    float **rows
        [N_ROWS]; /* [replicas + spare], owned together: where each lies in the memory, of stride[row] floats */
    size_t stride[N_ROWS]; /* a multiple of 16 */
};

/* Sets up the shared part; rows start as zeros, slots as the optimiser says. */
fault host_init(struct host *h, const struct engine_ops *ops, const struct engine_setup *setup);
void host_release(struct host *h);

/* Bytes of the replicas' rows; spare rows take memory only once they are written. */
size_t host_row_bytes(const struct host *h);

static inline float *host_row(const struct host *h, enum row row, size_t replica)
{
    return h->rows[row][replica];
}

/* Ready-made entries for struct engine_ops. */
fault host_update(struct engine *e, const struct update *updates, size_t n);
fault host_mix(struct engine *e, const struct blend *blends, size_t n);
fault host_read(struct engine *e, enum row row, size_t replica, float *floats);
fault host_write(struct engine *e, enum row row, size_t replica, const float *floats);
float *host_floats(struct engine *e, enum row row, size_t replica);
void host_exchange(struct engine *e, enum row row, size_t a, size_t b);

/* into = sum of weights[i] * from[i] over n floats, in this order and to the bits of host_mix, by the calling
 * thread. There is one term or more; `into` may be one of them, else it overlaps none. */
void host_blend(float *into, const float *const *from, const float *weights, size_t n_terms, size_t n);

/* The sum of a[i] b[i] over n floats, in double: blocks of fixed size from the first float on, each summed in a fixed order
 * (loops.c), and one after the other. So it has the same bits with any instruction set, by whichever thread. */
double host_dot(const float *a, const float *b, size_t n);

/* One sample as normalised floats [c][h][w], from its bytes, as its pick says. */
void host_sample(const struct samples *s, const uint8_t *bytes, struct pick pick, float *out);

/* Of several threads' faults the first to come is kept. */
void host_keep_first(_Atomic(fault) *kept, fault f);

/* Whether dropout keeps element i (of the whole batch, [sample][c][h][w]); the same on every engine. `key` is
 * rng_hash(the lesson's seed, the op's number). */
static inline bool dropout_keeps(uint64_t key, double rate, size_t i)
{
    return (double)(rng_hash(key, i) >> 40) >= rate * 0x1p24;
}

#endif
