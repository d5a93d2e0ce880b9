/* rows.cu - arithmetic on the replicas' rows: optimiser steps and weighted sums.
 *
 * Built without fused multiply-adds: every product and sum rounds by itself, as on the host, so a step and a mix give
 * the same bits here as there (optim/rules.c, engine/host.c).
 */
#include "engine/cuda/device.cuh"

struct element { /* one parameter on its way through a step */
    float *theta, *slot0, *slot1;
    float g;
};

typedef void step_fn(struct element e, const float *number);

/* blockIdx.y is the entry, blockIdx.x a stretch of its span. */
template <step_fn step> static __device__ void each_element(const struct step_entry *entries)
{
    struct step_entry s = entries[blockIdx.y];
    for (size_t i = s.first + my_first(); i < s.end; i += my_step()) {
        struct element e = {s.params + i, s.slot[0] + i, s.slot[1] + i, s.grads[i]};
        step(e, s.number);
    }
}

/* number: lr, decay */
static __device__ void sgd_plain(struct element e, const float *number)
{
    *e.theta -= number[0] * (e.g + number[1] * *e.theta);
}

/* number: lr, decay, mu */
static __device__ void sgd_momentum(struct element e, const float *number)
{
    float b = number[2] * *e.slot0 + (e.g + number[1] * *e.theta);
    *e.slot0 = b;
    *e.theta -= number[0] * b;
}

static __device__ void sgd_nesterov(struct element e, const float *number)
{
    float g = e.g + number[1] * *e.theta, b = number[2] * *e.slot0 + g;
    *e.slot0 = b;
    *e.theta -= number[0] * (g + number[2] * b);
}

/* number: lr, decay, eps */
static __device__ void adagrad(struct element e, const float *number)
{
    float g = e.g + number[1] * *e.theta, sum = *e.slot0 + g * g;
    *e.slot0 = sum;
    *e.theta -= number[0] * g / (sqrtf(sum) + number[2]);
}

/* number: lr, decay, eps, alpha, 1 - alpha, mu */
static __device__ void rmsprop_plain(struct element e, const float *number)
{
    float g = e.g + number[1] * *e.theta, square = number[3] * *e.slot0 + number[4] * g * g;
    *e.slot0 = square;
    *e.theta -= number[0] * g / (sqrtf(square) + number[2]);
}

static __device__ void rmsprop_momentum(struct element e, const float *number)
{
    float g = e.g + number[1] * *e.theta, square = number[3] * *e.slot0 + number[4] * g * g;
    float b = number[5] * *e.slot1 + g / (sqrtf(square) + number[2]);
    *e.slot0 = square;
    *e.slot1 = b;
    *e.theta -= number[0] * b;
}

/* number: lr / correction1, decay, eps, keep, beta1, 1 - beta1, beta2, 1 - beta2, root of correction2 */
static __device__ void adam(struct element e, const float *number)
{
    float g = e.g + number[1] * *e.theta;
    float m = number[4] * *e.slot0 + number[5] * g, v = number[6] * *e.slot1 + number[7] * g * g;
    *e.slot0 = m;
    *e.slot1 = v;
    *e.theta = number[3] * *e.theta - number[0] * m / (sqrtf(v) / number[8] + number[2]);
}

#define STEP(name)                                                                                           \
    extern "C" __global__ void step_##name(const struct step_entry *entries)                                 \
    {                                                                                                        \
        each_element<name>(entries);                                                                         \
    }

STEP(sgd_plain)
STEP(sgd_momentum)
STEP(sgd_nesterov)
STEP(adagrad)
STEP(rmsprop_plain)
STEP(rmsprop_momentum)
STEP(adam)

/* A thread reads all terms of an element before it writes it, so a blend may read the rows it writes. */
static __device__ __forceinline__ void blend(const struct blend_entry &e, const struct blend_term *terms)
{
    for (size_t i = e.first + my_first(); i < e.end; i += my_step()) {
        float sum = terms[0].weight * terms[0].row[i];
#pragma unroll 4
        for (uint32_t t = 1; t < e.n_terms; t++)
            sum += terms[t].weight * terms[t].row[i];
        e.into[i] = sum;
        if (e.also)
            e.also[i] = sum;
    }
}

extern "C" __global__ void blend_rows(const struct blend_entry *entries, const struct blend_term *terms)
{
    struct blend_entry e = entries[blockIdx.y];
    blend(e, terms + e.first_term);
}

extern "C" __global__ void blend_few_rows(const __grid_constant__ struct few_blends few)
{
    struct blend_entry e = few.entries[blockIdx.y];
    blend(e, few.terms + e.first_term);
}

/* Sets n floats. */
extern "C" __global__ void fill_floats(float *at, size_t n, float value)
{
    for (size_t i = my_first(); i < n; i += my_step())
        at[i] = value;
}
