/* norm.cu - batchnorm over one seat's batch.
 *
 *   forward    sums (x, x^2 per channel, split over stretches of pixels) -> finish (mean, 1 / sigma, running
 *              statistics) -> apply
 *   backward   sums (dy, dy x^) -> finish (d weight, d bias) -> apply
 *
 * A channel has m = batch x pixels numbers. Sums are taken in double, each stretch's in a place of its own, and the
 * stretches are added in order: the same bits however blocks are scheduled. An exam uses the running statistics.
 */
#include "engine/cuda/device.cuh"

enum { LANES = 32, LINES = 8 }; /* a block: 32 channels, 8 lines of pixels */

struct norm {
    struct numbers x, dy, dx;
    const float *weight, *bias;
    const float *mean, *scale; /* [c] of this seat */
    size_t m;
};

static __device__ struct norm my_norm(const struct call *c)
{
    struct norm n;
    struct seat seat = my_seat(c);
    n.x = at_seat(c->x[0], c->in, c->batch);
    n.dy = at_seat(c->dy, c->in, c->batch);
    n.dx = at_seat(c->dx[0], c->in, c->batch);
    n.weight = in_row(seat.params, c->weight);
    n.bias = in_row(seat.params, c->bias);
    n.mean = c->moments + blockIdx.z * 2 * (size_t)c->in.c;
    n.scale = n.mean + c->in.c;
    n.m = (size_t)c->batch * c->in.h * c->in.w;
    return n;
}

/* What comes back to number i through the folded relu. */
static __device__ float gradient_at(const struct call *c, const struct norm *n, size_t i, uint32_t channel,
                                    float *normal)
{
    *normal = (get(n->x, i) - n->mean[channel]) * n->scale[channel];
    bool passes = !c->relu || n->weight[channel] * *normal + n->bias[channel] > 0;
    return passes ? get(n->dy, i) : 0;
}

struct pair {
    double a, b;
};

/* Where the sums of one stretch go: [seat][split][2][c] */
static __device__ double *place_of(const struct call *c, uint32_t split)
{
    return (double *)c->partial + (blockIdx.z * (size_t)c->splits + split) * 2 * c->in.c;
}

/* Sums of this block's stretch of pixels over its channels; the lines are added in order. */
template <class PAIR> static __device__ void sum_stretch(const struct call *c, size_t m, PAIR pair_at)
{
    __shared__ struct pair sums[LINES][LANES];
    uint32_t lane = threadIdx.x % LANES, line = threadIdx.x / LANES, channel = blockIdx.x * LANES + lane;
    size_t each = (m + c->splits - 1) / c->splits, first = blockIdx.y * each, end = min(first + each, m);
    struct pair sum = {0, 0};
    if (channel < c->in.c)
        for (size_t k = first + line; k < end; k += LINES) {
            struct pair p = pair_at(k * c->in.c + channel, channel);
            sum.a += p.a;
            sum.b += p.b;
        }
    sums[line][lane] = sum;
    __syncthreads();
    if (line > 0 || channel >= c->in.c)
        return;
    for (uint32_t i = 1; i < LINES; i++) {
        sum.a += sums[i][lane].a;
        sum.b += sums[i][lane].b;
    }
    double *out = place_of(c, blockIdx.y);
    out[channel] = sum.a;
    out[c->in.c + channel] = sum.b;
}

static __device__ struct pair sum_of_stretches(const struct call *c, uint32_t channel)
{
    struct pair sum = {0, 0};
    for (uint32_t s = 0; s < c->splits; s++) {
        sum.a += place_of(c, s)[channel];
        sum.b += place_of(c, s)[c->in.c + channel];
    }
    return sum;
}

extern "C" __global__ void norm_sums(struct call c)
{
    struct norm n = my_norm(&c);
    sum_stretch(&c, n.m, [&](size_t i, uint32_t) {
        double x = get(n.x, i);
        struct pair p = {x, x * x};
        return p;
    });
}

extern "C" __global__ void norm_finish(struct call c)
{
    uint32_t channel = blockIdx.x * blockDim.x + threadIdx.x;
    struct seat seat = my_seat(&c);
    if (channel >= c.in.c)
        return;
    float *moments = c.moments + blockIdx.z * 2 * (size_t)c.in.c;
    float *mean = in_row(seat.stats, c.mean) + channel;
    float *var = in_row(seat.stats, c.var) + channel;
    if (!c.learning) {
        moments[channel] = *mean;
        moments[c.in.c + channel] = (float)(1 / sqrt(*var + c.eps));
        return;
    }
    double m = (double)c.batch * c.in.h * c.in.w, p = c.momentum;
    struct pair sum = sum_of_stretches(&c, channel);
    double new_mean = sum.a / m, new_var = fmax(0.0, sum.b / m - new_mean * new_mean);
    moments[channel] = (float)new_mean;
    moments[c.in.c + channel] = (float)(1 / sqrt(new_var + c.eps));
    *mean = (float)((1 - p) * *mean + p * new_mean);
    *var = (float)((1 - p) * *var + p * (m > 1 ? new_var * m / (m - 1) : 0));
}

extern "C" __global__ void norm_forward(struct call c)
{
    struct norm n = my_norm(&c);
    struct numbers y = at_seat(c.y, c.in, c.batch);
    for (size_t i = my_first(); i < n.m * c.in.c; i += my_step()) {
        uint32_t k = i % c.in.c;
        float value = n.weight[k] * ((get(n.x, i) - n.mean[k]) * n.scale[k]) + n.bias[k];
        put(y, i, c.relu && value < 0 ? 0 : value);
    }
}

extern "C" __global__ void norm_back_sums(struct call c)
{
    struct norm n = my_norm(&c);
    sum_stretch(&c, n.m, [&](size_t i, uint32_t channel) {
        float normal, dy = gradient_at(&c, &n, i, channel, &normal);
        struct pair p = {dy, (double)dy * normal};
        return p;
    });
}

extern "C" __global__ void norm_back_finish(struct call c)
{
    uint32_t channel = blockIdx.x * blockDim.x + threadIdx.x;
    struct seat seat = my_seat(&c);
    if (channel >= c.in.c)
        return;
    double m = (double)c.batch * c.in.h * c.in.w;
    struct pair sum = sum_of_stretches(&c, channel);
    in_row(seat.grads, c.bias)[channel] = (float)sum.a;
    in_row(seat.grads, c.weight)[channel] = (float)sum.b;
    float *slopes = c.slopes + blockIdx.z * 2 * (size_t)c.in.c;
    slopes[channel] = (float)(sum.a / m);
    slopes[c.in.c + channel] = (float)(sum.b / m);
}

/* dx = weight / sigma (dy - d bias / m - x^ d weight / m) */
extern "C" __global__ void norm_backward(struct call c)
{
    struct norm n = my_norm(&c);
    const float *slopes = c.slopes + blockIdx.z * 2 * (size_t)c.in.c;
    for (size_t i = my_first(); i < n.m * c.in.c; i += my_step()) {
        uint32_t k = i % c.in.c;
        float normal, dy = gradient_at(&c, &n, i, k, &normal);
        put(n.dx, i, n.weight[k] * n.scale[k] * (dy - slopes[k] - normal * slopes[c.in.c + k]));
    }
}
