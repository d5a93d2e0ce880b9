/* norm.cu - batchnorm over one seat's batch.
 *
 *   forward    sums (x, x^2 per channel, split over stretches of pixels) -> finish (mean, 1 / sigma, running
 *              statistics) -> apply
 *   backward   sums (dy, dy x^) -> finish (d weight, d bias) -> apply
 *
 * A channel has m = batch x pixels numbers. Sums are taken in double, each stretch's in a place of its own,
 * and the stretches are added in order: the same bits however blocks are scheduled. An exam uses the running
 * statistics. Channels go by fours where they can.
 */
#include "engine/cuda/device.cuh"

/* A block that sums: 32 channels at most, as many lines of pixels as there are threads for. */
enum { LANES = 32, THREADS = 256 };

struct norm {
    struct numbers x, dy, dx;
    const float *weight, *bias;
    const float *mean, *scale; /* [c] of this seat */
    size_t m;
};

static __device__ float *moments_of(const struct call *c)
{
    return (float *)at_seat(c->seats, c->moments, {c->in.c, 1, 1}, 2).at;
}

static __device__ struct norm my_norm(const struct call *c)
{
    struct norm n;
    struct seat seat = my_seat(c);
    n.x = at_seat(c->seats, c->x[0], c->in, c->batch);
    n.dy = at_seat(c->seats, c->dy, c->in, c->batch);
    n.dx = at_seat(c->seats, c->dx[0], c->in, c->batch);
    n.weight = in_row(seat.params, c->weight);
    n.bias = in_row(seat.params, c->bias);
    n.mean = moments_of(c);
    n.scale = n.mean + c->in.c;
    n.m = (size_t)c->batch * c->in.h * c->in.w;
    return n;
}

/* What a group of channels needs, from channel k on. */
template <int N> struct channels {
    uint32_t k;
    float weight[N], bias[N], mean[N], scale[N];
    __device__ __forceinline__ channels(const struct norm *n, uint32_t first) : k(first)
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            weight[j] = n->weight[k + j];
            bias[j] = n->bias[k + j];
            mean[j] = n->mean[k + j];
            scale[j] = n->scale[k + j];
        }
    }
    __device__ __forceinline__ float normal(int j, float x) const
    {
        return (x - mean[j]) * scale[j];
    }
    __device__ __forceinline__ float result(int j, float x) const
    {
        return weight[j] * normal(j, x) + bias[j];
    }
    /* What comes back through the folded relu. */
    __device__ __forceinline__ float gradient(int j, float x, float dy, bool relu) const
    {
        return relu && !(result(j, x) > 0) ? 0 : dy;
    }
};

struct pair {
    double a, b;
};

/* Where the sums of one stretch go: [seat][split][2][c] */
static __device__ double *place_of(const struct call *c, uint32_t split)
{
    return (double *)c->partial + (blockIdx.z * (size_t)c->splits + split) * 2 * c->in.c;
}

/* Sums of this block's stretch of pixels over its channels. `add(sums, i, k)` adds what lies at i, of
 * channels from k on; the lines are added in order. */
template <int N, class ADD> static __device__ void sum_stretch(const struct call *c, size_t m, ADD add)
{
    __shared__ struct pair shared[THREADS][N];
    uint32_t first = blockIdx.x * LANES, n = min((uint32_t)LANES, c->in.c - first), groups = n / N;
    uint32_t group = threadIdx.x % groups, line = threadIdx.x / groups, lines = THREADS / groups;
    size_t each = (m + c->splits - 1) / c->splits, begin = blockIdx.y * each, end = min(begin + each, m);
    struct pair sums[N] = {};
    if (line < lines)
        for (size_t pixel = begin + line; pixel < end; pixel += lines)
            add(sums, pixel * c->in.c + first + group * N, first + group * N);
    for (int j = 0; j < N; j++)
        shared[threadIdx.x][j] = sums[j];
    __syncthreads();
    if (threadIdx.x >= n)
        return;
    struct pair sum = {0, 0};
    for (uint32_t i = 0; i < lines; i++) {
        struct pair p = shared[i * groups + threadIdx.x / N][threadIdx.x % N];
        sum.a += p.a;
        sum.b += p.b;
    }
    double *out = place_of(c, blockIdx.y) + first + threadIdx.x;
    out[0] = sum.a;
    out[c->in.c] = sum.b;
}

/* All stretches of a channel, in the threads of line 0; eight lines share them and are added in order. */
static __device__ struct pair sum_of_stretches(const struct call *c, uint32_t channel)
{
    __shared__ struct pair shared[THREADS / LANES][LANES];
    uint32_t lane = threadIdx.x % LANES, line = threadIdx.x / LANES;
    struct pair sum = {0, 0};
    if (channel < c->in.c)
#pragma unroll 4
        for (uint32_t s = line; s < c->splits; s += THREADS / LANES) {
            sum.a += place_of(c, s)[channel];
            sum.b += place_of(c, s)[c->in.c + channel];
        }
    shared[line][lane] = sum;
    __syncthreads();
    for (uint32_t i = 1; i < THREADS / LANES; i++) {
        sum.a += shared[i][lane].a;
        sum.b += shared[i][lane].b;
    }
    return sum;
}

template <int N> static __device__ void forward_sums(const struct call &c)
{
    struct norm n = my_norm(&c);
    sum_stretch<N>(&c, n.m, [&](struct pair *sums, size_t i, uint32_t) {
        some<N> x = get_some<N>(n.x, i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            sums[j].a += x.of[j];
            sums[j].b += (double)x.of[j] * x.of[j];
        }
    });
}

template <int N> static __device__ void backward_sums(const struct call &c)
{
    struct norm n = my_norm(&c);
    sum_stretch<N>(&c, n.m, [&](struct pair *sums, size_t i, uint32_t k) {
        some<N> x = get_some<N>(n.x, i), dy = get_some<N>(n.dy, i);
        channels<N> of(&n, k);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float g = of.gradient(j, x.of[j], dy.of[j], c.relu);
            sums[j].a += g;
            sums[j].b += (double)g * of.normal(j, x.of[j]);
        }
    });
}

/* Calls work(i, channels) for every group of numbers; its channels are looked up again only where they
 * change. */
template <int N, class WORK>
static __device__ void each_group(const struct call &c, const struct norm *n, WORK work)
{
    uint32_t groups = c.in.c / N, end = (uint32_t)(n->m * groups), i = (uint32_t)my_first();
    channels<N> of(n, i % groups * N);
    for (; i < end; i += (uint32_t)my_step()) {
        uint32_t k = i % groups * N;
        if (k != of.k)
            of = channels<N>(n, k);
        work(i * (size_t)N, of);
    }
}

template <int N> static __device__ void apply_forward(const struct call &c)
{
    struct norm n = my_norm(&c);
    struct numbers y = at_seat(c.seats, c.y, c.in, c.batch);
    each_group<N>(c, &n, [&](size_t i, const channels<N> &of) {
        some<N> x = get_some<N>(n.x, i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float value = of.result(j, x.of[j]);
            x.of[j] = c.relu && value < 0 ? 0 : value;
        }
        put_some<N>(y, i, x);
    });
}

/* dx = weight / sigma (dy - d bias / m - x^ d weight / m) */
template <int N> static __device__ void apply_backward(const struct call &c)
{
    struct norm n = my_norm(&c);
    const float *slopes = c.slopes + blockIdx.z * 2 * (size_t)c.in.c;
    each_group<N>(c, &n, [&](size_t i, const channels<N> &of) {
        some<N> x = get_some<N>(n.x, i), dy = get_some<N>(n.dy, i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float g = of.gradient(j, x.of[j], dy.of[j], c.relu), normal = of.normal(j, x.of[j]);
            x.of[j] =
                of.weight[j] * of.scale[j] * (g - slopes[of.k + j] - normal * slopes[c.in.c + of.k + j]);
        }
        put_some<N>(n.dx, i, x);
    });
}

#define BY_FOURS(name, work)                                                                                 \
    extern "C" __global__ void name(struct call c)                                                           \
    {                                                                                                        \
        if (c.in.c % 4 == 0)                                                                                 \
            work<4>(c);                                                                                      \
        else                                                                                                 \
            work<1>(c);                                                                                      \
    }

BY_FOURS(norm_sums, forward_sums)
BY_FOURS(norm_forward, apply_forward)
BY_FOURS(norm_back_sums, backward_sums)
BY_FOURS(norm_backward, apply_backward)

extern "C" __global__ void norm_finish(struct call c)
{
    uint32_t channel = blockIdx.x * LANES + threadIdx.x % LANES;
    struct seat seat = my_seat(&c);
    struct pair sum = c.learning ? sum_of_stretches(&c, channel) : pair();
    if (channel >= c.in.c || threadIdx.x >= LANES)
        return;
    float *moments = moments_of(&c);
    float *mean = in_row(seat.stats, c.mean) + channel;
    float *var = in_row(seat.stats, c.var) + channel;
    if (!c.learning) {
        moments[channel] = *mean;
        moments[c.in.c + channel] = (float)(1 / sqrt(*var + c.eps));
        return;
    }
    double m = (double)c.batch * c.in.h * c.in.w, p = c.momentum;
    double new_mean = sum.a / m, new_var = fmax(0.0, sum.b / m - new_mean * new_mean);
    moments[channel] = (float)new_mean;
    moments[c.in.c + channel] = (float)(1 / sqrt(new_var + c.eps));
    *mean = (float)((1 - p) * *mean + p * new_mean);
    *var = (float)((1 - p) * *var + p * (m > 1 ? new_var * m / (m - 1) : 0));
}

extern "C" __global__ void norm_back_finish(struct call c)
{
    uint32_t channel = blockIdx.x * LANES + threadIdx.x % LANES;
    struct seat seat = my_seat(&c);
    struct pair sum = sum_of_stretches(&c, channel);
    if (channel >= c.in.c || threadIdx.x >= LANES)
        return;
    double m = (double)c.batch * c.in.h * c.in.w;
    put_gradient(seat, in_row(seat.grads, c.bias) + channel, (float)sum.a);
    put_gradient(seat, in_row(seat.grads, c.weight) + channel, (float)sum.b);
    float *slopes = c.slopes + blockIdx.z * 2 * (size_t)c.in.c;
    slopes[channel] = (float)(sum.a / m);
    slopes[c.in.c + channel] = (float)(sum.b / m);
}
