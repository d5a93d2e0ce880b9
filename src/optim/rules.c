/* rules.c - the optimisers, each in PyTorch's formulation.
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
#include "optim/rules.h"

#include <math.h>

#include "optim/optim.h"

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

static void sgd_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
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

static void adagrad_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                         float *const slot[OPTIM_SLOTS])
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

static void rmsprop_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                         float *const slot[OPTIM_SLOTS])
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

static void adam_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                      float *const slot[OPTIM_SLOTS])
{
    const struct adam_settings *s = settings;
    struct adam_scalars scalars = adam_scalars(s, lr, t);
    scalars.decay = (float)s->weight_decay;
    adam_loop(scalars, n, theta, g, slot[0], slot[1]);
}

static void adamw_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                       float *const slot[OPTIM_SLOTS])
{
    const struct adam_settings *s = settings;
    struct adam_scalars scalars = adam_scalars(s, lr, t);
    scalars.keep = (float)(1 - lr * s->weight_decay);
    adam_loop(scalars, n, theta, g, slot[0], slot[1]);
}

static bool sgd_uses(const void *settings, size_t slot)
{
    (void)slot;
    return ((const struct sgd_settings *)settings)->momentum != 0;
}

static bool rmsprop_uses(const void *settings, size_t slot)
{
    return slot == 0 || ((const struct rmsprop_settings *)settings)->momentum != 0;
}

size_t optim_rows_moved(const struct optim_settings *o)
{
    const struct optim_row *row = optim_row(o);
    size_t n = 3;
    for (size_t slot = 0; slot < row->n_slots; slot++)
        n += !row->uses_slot || row->uses_slot(o->kind.settings, slot) ? 2 : 0;
    return n;
}

static const struct optim_row sgd_row = {1, {"momentum_buffer"}, {0}, sgd_step, sgd_uses};
static const struct optim_row adagrad_row = {1, {"sum"}, {0}, adagrad_step, NULL};
static const struct optim_row rmsprop_row = {
    2, {"square_avg", "momentum_buffer"}, {0, 0}, rmsprop_step, rmsprop_uses};
static const struct optim_row adam_row = {2, {"exp_avg", "exp_avg_sq"}, {0, 0}, adam_step, NULL};
static const struct optim_row adamw_row = {2, {"exp_avg", "exp_avg_sq"}, {0, 0}, adamw_step, NULL};

/* A real setting of `owner` between min and max. Rates of decay stop short of 1, where nothing new would ever
 * count; eps stays well above the smallest fp32 number, so that it still keeps a quotient finite. */
#define REAL(owner, member, standard, least, most, words)                                                    \
    {                                                                                                        \
        .name = #member, .kind = FIELD_REAL, .offset = offsetof(struct owner, member), .fallback = standard, \
        .min = least, .max = most, .help = words                                                             \
    }
#define LR(owner)           REAL(owner, lr, NULL, 0, 1e6, "learning rate")
#define DECAY(owner, value) REAL(owner, weight_decay, value, 0, 1e6, "times theta is added to the gradient")
#define EPS(owner, value)   REAL(owner, eps, value, 1e-30, 1e6, "added to the divisor")

static const struct field sgd_fields[] = {
    LR(sgd_settings),
    REAL(sgd_settings, momentum, "0", 0, 0.9999999, "share of the last step that carries on"),
    {.name = "nesterov",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct sgd_settings, nesterov),
     .fallback = "false",
     .help = "look ahead along the momentum (requires momentum)"},
    DECAY(sgd_settings, "0"),
};

static const struct field adagrad_fields[] = {
    LR(adagrad_settings),
    REAL(adagrad_settings, lr_decay, "0", 0, 1e6, "lr is divided by 1 + lr_decay times the steps so far"),
    DECAY(adagrad_settings, "0"),
    EPS(adagrad_settings, "1e-10"),
};

static const struct field rmsprop_fields[] = {
    LR(rmsprop_settings),
    REAL(rmsprop_settings, alpha, "0.99", 0, 0.9999999, "memory of the mean square of the gradient"),
    REAL(rmsprop_settings, momentum, "0", 0, 0.9999999, "share of the last step that carries on"),
    DECAY(rmsprop_settings, "0"),
    EPS(rmsprop_settings, "1e-8"),
};

#define BETAS                                                                                                \
    REAL(adam_settings, beta1, "0.9", 0, 0.9999999, "memory of the mean gradient"),                          \
        REAL(adam_settings, beta2, "0.999", 0, 0.9999999, "memory of its mean square")

static const struct field adam_fields[] = {
    LR(adam_settings),
    BETAS,
    DECAY(adam_settings, "0"),
    EPS(adam_settings, "1e-8"),
};

static const struct field adamw_fields[] = {
    LR(adam_settings),
    BETAS,
    REAL(adam_settings, weight_decay, "0.01", 0, 1e6, "theta shrinks by lr times this each step"),
    EPS(adam_settings, "1e-8"),
};

#define KIND(word, owner, table, words)                                                                      \
    {                                                                                                        \
        .name = #word, .help = words, .fields = table, .n_fields = sizeof table / sizeof *table,             \
        .size = sizeof(struct owner), .row = &word##_row                                                     \
    }

static const struct kind rows[] = {
    KIND(sgd, sgd_settings, sgd_fields,
         "stochastic gradient descent, with momentum and Nesterov's look ahead"),
    KIND(adagrad, adagrad_settings, adagrad_fields, "steps shrink with the sum of squared gradients"),
    KIND(rmsprop, rmsprop_settings, rmsprop_fields, "steps divided by the recent size of the gradient"),
    KIND(adam, adam_settings, adam_fields, "momentum and recent size together, freed of their start at zero"),
    KIND(adamw, adam_settings, adamw_fields, "adam with weight decay apart from the gradient"),
};

const struct kinds optim_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};
