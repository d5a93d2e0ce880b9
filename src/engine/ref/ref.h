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
    bool learning;        /* batch statistics and dropout; else running statistics, nothing dropped */
    struct shape in, out; /* in: of x[0], and but for a concat of x[1] */
    const real *x[2];     /* [batch][in]  */
    real *y;              /* [batch][out]; only read by a backward step */
    const real *dy;       /* [batch][out] */
    real *dx[2];          /* [batch][in]; NULL where it is not wanted */
    bool adds[2];         /* dx is added to what is there */
    const real *weight, *bias;
    real *dweight, *dbias;  /* overwritten */
    real *mean, *var;       /* running statistics */
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
extern const struct ref_row ref_add, ref_concat, ref_relu, ref_tanh, ref_sigmoid, ref_dropout, ref_reshape;
extern const struct ref_row ref_maxpool, ref_avgpool, ref_globalpool, ref_shortcut;
extern const struct ref_row ref_cross_entropy, ref_mse, ref_hinge, ref_logistic;

/* One pass of one batch through the network; the input lies in memory at plan->value_at[0]. */
struct ref_pass {
    const struct graph *graph;
    const struct plan *plan;
    size_t batch;
    const real *params;
    real *grads; /* overwritten; NULL: an exam */
    real *stats; /* moved, unless in an exam   */
    void *memory;
    uint16_t *labels; /* [batch] */
    uint64_t seed;
    const struct lesson *lesson; /* who is told of gradients as they become final; NULL: nobody */
    double loss;                 /* out */
    size_t hits;                 /* out */
};

void ref_run(struct ref_pass *p);

/* The sizes plan_make wants: batch x shape for every tensor. */
void ref_sizes(const struct graph *g, size_t batch, size_t *n_bytes);

static inline size_t ref_at(struct shape s, size_t n, size_t c, size_t y, size_t x)
{
    return ((n * s.c + c) * s.h + y) * s.w + x;
}

static inline void ref_put(const struct ref_call *c, int input, size_t i, double value)
{
    c->dx[input][i] = (real)(c->adds[input] ? c->dx[input][i] + value : value);
}

#endif
