/* steps.c - one step of each optimiser, in PyTorch's formulation; a hot file (base/isa.h).
 *
 * With g the gradient, theta the parameters, lambda the weight decay, and products of numbers with arrays
 * meant element by element:
 *
 *   sgd      g += lambda theta;  b = mu b + g;  theta -= lr b            (Nesterov: theta -= lr (g + mu b))
 *   adagrad  g += lambda theta;  s += g^2;  theta -= lr / (1 + (t-1) decay) * g / (sqrt(s) + eps)
 *   rmsprop  g += lambda theta;  s = alpha s + (1-alpha) g^2;  b = mu b + g / (sqrt(s) + eps);  theta -= lr b
 *   adam     g += lambda theta;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
 *            theta -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *   adamw    theta -= lr lambda theta;  then adam with lambda = 0
 *
 * Scalars are worked out in double and rounded once; arrays are fp32. Every loop is one statement after
 * another on element i alone, with no fused or reordered arithmetic: vector lanes and the scalar tail round
 * alike, and a span cut anywhere gives the same bits.
 */
#include "optim/steps.h"

#include <math.h>

#include "optim/rules.h"

static void sgd_plain(float lr, float decay, size_t n, float *restrict theta, const float *restrict g)
{
    for (size_t i = 0; i < n; i++)
        theta[i] -= lr * (g[i] + decay * theta[i]);
}

static void sgd_momentum(float lr, float mu, float decay, size_t n, float *restrict theta,
                         const float *restrict g, float *restrict b)
{
    for (size_t i = 0; i < n; i++) {
        b[i] = mu * b[i] + (g[i] + decay * theta[i]);
        theta[i] -= lr * b[i];
    }
}

static void sgd_nesterov(float lr, float mu, float decay, size_t n, float *restrict theta,
                         const float *restrict g, float *restrict b)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * theta[i];
        b[i] = mu * b[i] + gi;
        theta[i] -= lr * (gi + mu * b[i]);
    }
}

void FOR_ISA(sgd_step)(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                       float *const slot[OPTIM_SLOTS])
{
    (void)t;
    const struct sgd_settings *s = settings;
    float rate = (float)lr, mu = (float)s->momentum, decay = (float)s->weight_decay;
    if (s->momentum == 0)
        sgd_plain(rate, decay, n, theta, g);
    else if (s->nesterov)
        sgd_nesterov(rate, mu, decay, n, theta, g, slot[0]);
    else
        sgd_momentum(rate, mu, decay, n, theta, g, slot[0]);
}

static void adagrad_loop(float lr, float decay, float eps, size_t n, float *restrict theta,
                         const float *restrict g, float *restrict sum)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * theta[i];
        sum[i] += gi * gi;
        theta[i] -= lr * gi / (sqrtf(sum[i]) + eps);
    }
}

void FOR_ISA(adagrad_step)(const void *settings, double lr, uint64_t t, size_t n, float *theta,
                           const float *g, float *const slot[OPTIM_SLOTS])
{
    const struct adagrad_settings *s = settings;
    double rate = lr / (1 + (double)(t - 1) * s->lr_decay);
    adagrad_loop((float)rate, (float)s->weight_decay, (float)s->eps, n, theta, g, slot[0]);
}

static void rmsprop_plain(float lr, float alpha, float rest, float decay, float eps, size_t n,
                          float *restrict theta, const float *restrict g, float *restrict square)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * theta[i];
        square[i] = alpha * square[i] + rest * gi * gi;
        theta[i] -= lr * gi / (sqrtf(square[i]) + eps);
    }
}

static void rmsprop_momentum(float lr, float alpha, float rest, float mu, float decay, float eps, size_t n,
                             float *restrict theta, const float *restrict g, float *restrict square,
                             float *restrict b)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * theta[i];
        square[i] = alpha * square[i] + rest * gi * gi;
        b[i] = mu * b[i] + gi / (sqrtf(square[i]) + eps);
        theta[i] -= lr * b[i];
    }
}

void FOR_ISA(rmsprop_step)(const void *settings, double lr, uint64_t t, size_t n, float *theta,
                           const float *g, float *const slot[OPTIM_SLOTS])
{
    (void)t;
    const struct rmsprop_settings *s = settings;
    float rate = (float)lr, alpha = (float)s->alpha, rest = (float)(1 - s->alpha);
    float mu = (float)s->momentum, decay = (float)s->weight_decay, eps = (float)s->eps;
    if (s->momentum == 0)
        rmsprop_plain(rate, alpha, rest, decay, eps, n, theta, g, slot[0]);
    else
        rmsprop_momentum(rate, alpha, rest, mu, decay, eps, n, theta, g, slot[0], slot[1]);
}

/* What adam and adamw have in common; `keep` is what decoupled decay leaves of theta, `decay` goes into g. */
struct adam_scalars {
    float step, keep, decay, beta1, rest1, beta2, rest2, root2, eps;
};

static struct adam_scalars adam_scalars(const struct adam_settings *s, double lr, uint64_t t)
{
    double correction1 = 1 - pow(s->beta1, (double)t), correction2 = 1 - pow(s->beta2, (double)t);
    return (struct adam_scalars){
        .step = (float)(lr / correction1),
        .keep = 1,
        .beta1 = (float)s->beta1,
        .rest1 = (float)(1 - s->beta1),
        .beta2 = (float)s->beta2,
        .rest2 = (float)(1 - s->beta2),
        .root2 = (float)sqrt(correction2),
        .eps = (float)s->eps,
    };
}

static void adam_loop(struct adam_scalars s, size_t n, float *restrict theta, const float *restrict g,
                      float *restrict m, float *restrict v)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + s.decay * theta[i];
        m[i] = s.beta1 * m[i] + s.rest1 * gi;
        v[i] = s.beta2 * v[i] + s.rest2 * gi * gi;
        theta[i] = s.keep * theta[i] - s.step * m[i] / (sqrtf(v[i]) / s.root2 + s.eps);
    }
}

void FOR_ISA(adam_step)(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                        float *const slot[OPTIM_SLOTS])
{
    const struct adam_settings *s = settings;
    struct adam_scalars scalars = adam_scalars(s, lr, t);
    scalars.decay = (float)s->weight_decay;
    adam_loop(scalars, n, theta, g, slot[0], slot[1]);
}

void FOR_ISA(adamw_step)(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                         float *const slot[OPTIM_SLOTS])
{
    const struct adam_settings *s = settings;
    struct adam_scalars scalars = adam_scalars(s, lr, t);
    scalars.keep = (float)(1 - lr * s->weight_decay);
    adam_loop(scalars, n, theta, g, slot[0], slot[1]);
}
