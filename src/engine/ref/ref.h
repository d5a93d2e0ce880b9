/* ref.h - every op as the plainest loops that compute it, and a runner that follows a plan.
 *
 * Tensors are [batch][c][h][w] and parameters as the graph lays them out. Sums are taken in double and stored
 * as `real`, which is float in the engine; the tests compile these files once more with double and judge the
 * gradients by differences, free of rounding.
 */
#ifndef VECHE_ENGINE_REF_REF_H
#define VECHE_ENGINE_REF_REF_H

#include "engine/engine.h"
#include "graph/plan.h"

#ifndef REF_REAL
#define REF_REAL float
#endif
typedef REF_REAL real;

/* What one step of one op sees. Of the pointers those that do not concern it are NULL. */
struct ref_call {
    const struct op *op;
    size_t batch;
    struct micro at; /* where these samples are in the batch of a lesson ... */
    size_t of;       /* ... which has so many */
    bool learning;   /* batch statistics and dropout; else running statistics, nothing dropped */
    struct shape in, out; /* in: of x[0], and but for a concat of x[1] */
    const real *x[2];     /* [batch][in]  */
    real *y;              /* [batch][out]; only read by a backward step */
    const real *dy;       /* [batch][out] */
    real *dx[2];          /* [batch][in]; NULL where it is not wanted */
    bool adds[2];         /* dx is added to what is there */
    const real *weight, *bias;
    real *dweight, *dbias;  /* overwritten */
    real *mean, *var;       /* running statistics */
    real *values, *slopes;  /* send, receive: where these and their gradients cross */
    const uint16_t *labels; /* [batch] */
    uint64_t key;           /* dropout */
    double loss;            /* out: a loss's forward step: the mean over the batch */
    size_t hits;            /* out: likewise */
};

typedef void ref_fn(struct ref_call *c);

struct ref_row {
    ref_fn *forward, *backward;
};

extern const struct ref_row ref_conv, ref_batchnorm, ref_linear;
extern const struct ref_row ref_add, ref_concat, ref_relu, ref_tanh, ref_sigmoid, ref_dropout, ref_reshape, ref_send,
    ref_receive;
extern const struct ref_row ref_maxpool, ref_avgpool, ref_globalpool, ref_shortcut;
extern const struct ref_row ref_cross_entropy, ref_mse, ref_hinge, ref_logistic;

/* Steps of a plan, for some samples of a batch; the input lies in memory at plan->value_at[0]. */
struct ref_walk {
    const struct graph *graph;
    const struct plan *plan;
    struct micro at; /* the samples, in a batch of ... */
    size_t of;       /* ... so many */
    const real *params;
    real *grads;         /* overwritten; NULL: an exam */
    real *gathered;      /* NULL, or where gradients are added as they are made */
    real *stats;         /* moved, unless in an exam   */
    void *kept, *memory; /* the plan's: of this micro-batch, and of whoever works */
    real *crossing[4]; /* of a part: inputs, outputs, gradients of outputs, of inputs, of this micro-batch */
    size_t most;       /* samples for which there is room there */
    uint16_t *labels;  /* [at.n] */
    uint64_t seed;
    const struct lesson *lesson; /* who is told of gradients as they become final; NULL: nobody */
    double loss;                 /* out */
    size_t hits;                 /* out */
};

/* Steps [first, end). */
void ref_take(struct ref_walk *w, size_t first, size_t end);

/* The sizes plan_make wants: batch x shape for every tensor. */
void ref_sizes(const struct graph *g, size_t batch, size_t *n_bytes);

static inline size_t ref_at(struct shape s, size_t n, size_t c, size_t y, size_t x)
{
    return ((n * s.c + c) * s.h + y) * s.w + x;
}

static inline void ref_put(const struct ref_call *c, int input, size_t i, double value)
{
    c->dx[input][i] = c->adds[input] ? c->dx[input][i] + (real)value : (real)value;
}

#endif
