/* weights.c - the ops that learn: convolution, linear, batchnorm. */
#include <math.h>

#include "engine/ref/ref.h"

/* The input pixel under window element k of output pixel y along one side; false where it is padding. */
static bool under(const struct op *op, size_t y, size_t k, size_t side, size_t *out)
{
    size_t padded = y * op->stride + k;
    *out = padded - op->pad;
    return padded >= op->pad && *out < side;
}

/* Channels that an output channel reads. */
static size_t group_in(const struct ref_call *c)
{
    return c->in.c / c->op->groups;
}

/* ... and the first of them. */
static size_t first_in(const struct ref_call *c, size_t o)
{
    return o / (c->out.c / c->op->groups) * group_in(c);
}

/* i counts within the group. */
static size_t weight_at(const struct ref_call *c, size_t o, size_t i, size_t ky, size_t kx)
{
    return ((o * group_in(c) + i) * c->op->kernel + ky) * c->op->kernel + kx;
}

/* y[o] = bias[o] + sum over i, ky, kx of weight[o][i][ky][kx] x[first + i][under the window] */
static double conv_pixel(const struct ref_call *c, size_t n, size_t o, size_t y, size_t x)
{
    double sum = c->bias ? c->bias[o] : 0;
    size_t first = first_in(c, o);
    for (size_t i = 0; i < group_in(c); i++)
        for (size_t ky = 0; ky < c->op->kernel; ky++)
            for (size_t kx = 0; kx < c->op->kernel; kx++) {
                size_t iy, ix;
                if (under(c->op, y, ky, c->in.h, &iy) && under(c->op, x, kx, c->in.w, &ix))
                    sum += (double)c->weight[weight_at(c, o, i, ky, kx)] *
                           c->x[0][ref_at(c->in, n, first + i, iy, ix)];
            }
    return sum;
}

static void conv_forward(struct ref_call *c)
{
    for (size_t n = 0; n < c->batch; n++)
        for (size_t o = 0; o < c->out.c; o++)
            for (size_t y = 0; y < c->out.h; y++)
                for (size_t x = 0; x < c->out.w; x++)
                    c->y[ref_at(c->out, n, o, y, x)] = (real)conv_pixel(c, n, o, y, x);
}

/* d loss / d weight[o][i][ky][kx]: every output pixel that used it, times what it was multiplied with. */
static double conv_weight_gradient(const struct ref_call *c, size_t o, size_t i, size_t ky, size_t kx)
{
    double sum = 0;
    size_t channel = first_in(c, o) + i;
    for (size_t n = 0; n < c->batch; n++)
        for (size_t y = 0; y < c->out.h; y++)
            for (size_t x = 0; x < c->out.w; x++) {
                size_t iy, ix;
                if (under(c->op, y, ky, c->in.h, &iy) && under(c->op, x, kx, c->in.w, &ix))
                    sum += (double)c->dy[ref_at(c->out, n, o, y, x)] *
                           c->x[0][ref_at(c->in, n, channel, iy, ix)];
            }
    return sum;
}

/* The output pixel whose window element k lies on input pixel i along one side; false where there is none. */
static bool above(const struct op *op, size_t i, size_t k, size_t side, size_t *out)
{
    size_t padded = i + op->pad;
    if (padded < k || (padded - k) % op->stride)
        return false;
    *out = (padded - k) / op->stride;
    return *out < side;
}

static double conv_input_gradient(const struct ref_call *c, size_t n, size_t i, size_t iy, size_t ix)
{
    double sum = 0;
    size_t group_out = c->out.c / c->op->groups, first = i / group_in(c) * group_out,
           within = i % group_in(c);
    for (size_t o = first; o < first + group_out; o++)
        for (size_t ky = 0; ky < c->op->kernel; ky++)
            for (size_t kx = 0; kx < c->op->kernel; kx++) {
                size_t y, x;
                if (above(c->op, iy, ky, c->out.h, &y) && above(c->op, ix, kx, c->out.w, &x))
                    sum += (double)c->weight[weight_at(c, o, within, ky, kx)] *
                           c->dy[ref_at(c->out, n, o, y, x)];
            }
    return sum;
}

static void bias_gradient(struct ref_call *c)
{
    for (size_t o = 0; c->dbias && o < c->out.c; o++) {
        double sum = 0;
        for (size_t n = 0; n < c->batch; n++)
            for (size_t y = 0; y < c->out.h; y++)
                for (size_t x = 0; x < c->out.w; x++)
                    sum += c->dy[ref_at(c->out, n, o, y, x)];
        c->dbias[o] = (real)sum;
    }
}

static void conv_backward(struct ref_call *c)
{
    bias_gradient(c);
    for (size_t o = 0; c->dweight && o < c->out.c; o++)
        for (size_t i = 0; i < group_in(c); i++)
            for (size_t ky = 0; ky < c->op->kernel; ky++)
                for (size_t kx = 0; kx < c->op->kernel; kx++)
                    c->dweight[weight_at(c, o, i, ky, kx)] = (real)conv_weight_gradient(c, o, i, ky, kx);
    for (size_t n = 0; c->dx[0] && n < c->batch; n++)
        for (size_t i = 0; i < c->in.c; i++)
            for (size_t y = 0; y < c->in.h; y++)
                for (size_t x = 0; x < c->in.w; x++)
                    ref_put(c, 0, ref_at(c->in, n, i, y, x), conv_input_gradient(c, n, i, y, x));
}

const struct ref_row ref_conv = {conv_forward, conv_backward};

static void linear_forward(struct ref_call *c)
{
    size_t n_in = shape_size(c->in), n_out = c->out.c;
    for (size_t n = 0; n < c->batch; n++)
        for (size_t o = 0; o < n_out; o++) {
            double sum = c->bias ? c->bias[o] : 0;
            for (size_t i = 0; i < n_in; i++)
                sum += (double)c->weight[o * n_in + i] * c->x[0][n * n_in + i];
            c->y[n * n_out + o] = (real)sum;
        }
}

static void linear_backward(struct ref_call *c)
{
    size_t n_in = shape_size(c->in), n_out = c->out.c;
    bias_gradient(c);
    for (size_t o = 0; c->dweight && o < n_out; o++)
        for (size_t i = 0; i < n_in; i++) {
            double sum = 0;
            for (size_t n = 0; n < c->batch; n++)
                sum += (double)c->dy[n * n_out + o] * c->x[0][n * n_in + i];
            c->dweight[o * n_in + i] = (real)sum;
        }
    for (size_t n = 0; c->dx[0] && n < c->batch; n++)
        for (size_t i = 0; i < n_in; i++) {
            double sum = 0;
            for (size_t o = 0; o < n_out; o++)
                sum += (double)c->weight[o * n_in + i] * c->dy[n * n_out + o];
            ref_put(c, 0, n * n_in + i, sum);
        }
}

const struct ref_row ref_linear = {linear_forward, linear_backward};

/* One channel's mean and 1 / sqrt(variance + eps), over batch and pixels; the biased variance. */
struct channel {
    double mean, var, scale;
};

/* The k-th of the batch * h * w numbers of channel i. */
static size_t channel_at(const struct ref_call *c, size_t i, size_t k)
{
    size_t pixels = c->in.h * c->in.w;
    return (k / pixels * c->in.c + i) * pixels + k % pixels;
}

static size_t channel_size(const struct ref_call *c)
{
    return c->batch * c->in.h * c->in.w;
}

static struct channel measure(const struct ref_call *c, size_t i)
{
    struct channel s = {0};
    size_t m = channel_size(c);
    for (size_t k = 0; k < m; k++)
        s.mean += c->x[0][channel_at(c, i, k)];
    s.mean /= (double)m;
    for (size_t k = 0; k < m; k++) {
        double d = c->x[0][channel_at(c, i, k)] - s.mean;
        s.var += d * d;
    }
    s.var /= (double)m;
    s.scale = 1 / sqrt(s.var + c->op->eps);
    return s;
}

static struct channel remembered(const struct ref_call *c, size_t i)
{
    return (struct channel){c->mean[i], c->var[i], 1 / sqrt(c->var[i] + c->op->eps)};
}

/* The running variance is unbiased; of a single number there is none, so it counts as 0. */
static void remember(struct ref_call *c, size_t i, struct channel s)
{
    double m = (double)channel_size(c), p = c->op->momentum;
    double unbiased = m > 1 ? s.var * m / (m - 1) : 0;
    c->mean[i] = (real)((1 - p) * c->mean[i] + p * s.mean);
    c->var[i] = (real)((1 - p) * c->var[i] + p * unbiased);
}

static void batchnorm_forward(struct ref_call *c)
{
    for (size_t i = 0; i < c->in.c; i++) {
        struct channel s = c->learning ? measure(c, i) : remembered(c, i);
        for (size_t k = 0; k < channel_size(c); k++) {
            size_t at = channel_at(c, i, k);
            double y = c->weight[i] * ((c->x[0][at] - s.mean) * s.scale) + c->bias[i];
            c->y[at] = (real)(c->op->relu && y < 0 ? 0 : y);
        }
        if (c->learning)
            remember(c, i, s);
    }
}

/* What comes back to the k-th number of channel i through the folded relu, and its normalised value. */
static double batchnorm_dy(const struct ref_call *c, size_t i, struct channel s, size_t k, double *normal)
{
    size_t at = channel_at(c, i, k);
    *normal = (c->x[0][at] - s.mean) * s.scale;
    bool passes = !c->op->relu || c->weight[i] * *normal + c->bias[i] > 0;
    return passes ? c->dy[at] : 0;
}

/* With x^ the normalised input and m numbers in the channel:
 *   d weight = sum dy x^,  d bias = sum dy,  dx = weight / sigma (dy - d bias / m - x^ d weight / m) */
static void batchnorm_backward(struct ref_call *c)
{
    double m = (double)channel_size(c), normal;
    for (size_t i = 0; i < c->in.c; i++) {
        struct channel s = measure(c, i);
        double dweight = 0, dbias = 0;
        for (size_t k = 0; k < channel_size(c); k++) {
            double dy = batchnorm_dy(c, i, s, k, &normal);
            dbias += dy;
            dweight += dy * normal;
        }
        c->dweight[i] = (real)dweight;
        c->dbias[i] = (real)dbias;
        for (size_t k = 0; c->dx[0] && k < channel_size(c); k++) {
            double dy = batchnorm_dy(c, i, s, k, &normal);
            ref_put(c, 0, channel_at(c, i, k),
                    c->weight[i] * s.scale * (dy - dbias / m - normal * dweight / m));
        }
    }
}

const struct ref_row ref_batchnorm = {batchnorm_forward, batchnorm_backward};
