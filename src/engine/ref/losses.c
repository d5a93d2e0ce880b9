/* losses.c - what is minimised: each loss of one sample, its gradient, and the mean over the batch (of which
 * these samples may be a few).
 *
 * A hit is a sample whose largest output is the label; of equal outputs the first counts as the largest.
 */
#include <math.h>

#include "engine/ref/ref.h"

static size_t largest(const real *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

typedef double sample_loss(const real *x, size_t classes, size_t label);
typedef double sample_slope(const real *x, size_t classes, size_t label, size_t i); /* d loss / d x[i] */

static void forward(struct ref_call *c, sample_loss *loss)
{
    size_t classes = shape_size(c->in);
    double sum = 0;
    c->hits = 0;
    for (size_t n = 0; n < c->batch; n++) {
        sum += loss(c->x[0] + n * classes, classes, c->labels[n]);
        c->hits += largest(c->x[0] + n * classes, classes) == c->labels[n];
    }
    c->loss = sum / (double)c->of;
}

static void backward(struct ref_call *c, sample_slope *slope)
{
    size_t classes = shape_size(c->in);
    for (size_t n = 0; n < c->batch; n++)
        for (size_t i = 0; i < classes; i++)
            ref_put(c, 0, n * classes + i,
                    slope(c->x[0] + n * classes, classes, c->labels[n], i) / (double)c->of);
}

/* log of the sum of exp(x), the largest taken out so that nothing overflows */
static double log_sum_exp(const real *x, size_t n)
{
    double most = x[largest(x, n)], sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return most + log(sum);
}

static double cross_entropy(const real *x, size_t classes, size_t label)
{
    return log_sum_exp(x, classes) - x[label];
}

static double cross_entropy_slope(const real *x, size_t classes, size_t label, size_t i)
{
    return exp(x[i] - log_sum_exp(x, classes)) - (i == label);
}

static double mse(const real *x, size_t classes, size_t label)
{
    double sum = 0;
    for (size_t i = 0; i < classes; i++) {
        double d = x[i] - (double)(i == label);
        sum += d * d;
    }
    return sum / (double)classes;
}

static double mse_slope(const real *x, size_t classes, size_t label, size_t i)
{
    return 2 * (x[i] - (double)(i == label)) / (double)classes;
}

static double hinge(const real *x, size_t classes, size_t label)
{
    double sum = 0;
    for (size_t i = 0; i < classes; i++)
        if (i != label)
            sum += fmax(0, 1 - (double)x[label] + x[i]);
    return sum / (double)classes;
}

static double hinge_slope(const real *x, size_t classes, size_t label, size_t i)
{
    double inside = 0;
    if (i != label)
        return (1 - (double)x[label] + x[i] > 0) / (double)classes;
    for (size_t k = 0; k < classes; k++)
        inside += k != label && 1 - (double)x[label] + x[k] > 0;
    return -inside / (double)classes;
}

/* log(1 + exp(-s x)) with s = 1 for the label and -1 for the others */
static double logistic(const real *x, size_t classes, size_t label)
{
    double sum = 0;
    for (size_t i = 0; i < classes; i++) {
        double z = i == label ? (double)x[i] : -(double)x[i];
        sum += fmax(0, -z) + log1p(exp(-fabs(z)));
    }
    return sum / (double)classes;
}

static double logistic_slope(const real *x, size_t classes, size_t label, size_t i)
{
    return (1 / (1 + exp(-(double)x[i])) - (i == label)) / (double)classes;
}

#define LOSS(name)                                                                                           \
    static void name##_forward(struct ref_call *c)                                                           \
    {                                                                                                        \
        forward(c, name);                                                                                    \
    }                                                                                                        \
    static void name##_backward(struct ref_call *c)                                                          \
    {                                                                                                        \
        backward(c, name##_slope);                                                                           \
    }                                                                                                        \
    const struct ref_row ref_##name = {name##_forward, name##_backward};

LOSS(cross_entropy)
LOSS(mse)
LOSS(hinge)
LOSS(logistic)
