/* weights.cu - convolution and linear layers of any shape, as products of described matrices (multiply.cuh).
 *
 *   forward          y[pixel][o]      = sum over (tap, i) of x[pixel under tap][i] w[o][i][tap]
 *   input gradient   dx[pixel][i]     = sum over (tap, o) of dy[pixel above tap][o] w[o][i][tap]
 *   weight gradient  dw[o][i][tap]    = sum over output pixels of dy[pixel][o] x[pixel under tap][i]
 *
 * The last sum is long and its matrix small, so it is split: each stretch of pixels has its own place, and the
 * stretches are added in order. A linear layer is the same with one pixel, its input a line of numbers in device
 * order, [h][w][c], which the weights count as [c][h][w].
 */
#include "engine/cuda/multiply.cuh"

/* What the layers need of their call, for one seat. */
struct layer {
    struct numbers x, y, dy, dx;
    const float *weight, *bias;
    uint32_t taps;
};

static __device__ struct layer my_layer(const struct call *c)
{
    struct layer l;
    struct seat seat = my_seat(c);
    l.x = at_seat(c->x[0], c->in, c->batch);
    l.dx = at_seat(c->dx[0], c->in, c->batch);
    l.y = at_seat(c->y, c->out, c->batch);
    l.dy = at_seat(c->dy, c->out, c->batch);
    l.weight = in_row(seat.params, c->weight);
    l.bias = in_row(seat.params, c->bias);
    l.taps = c->kernel * c->kernel;
    return l;
}

/* Where sums of a stretch go: [seat][split][size] */
static __device__ float *stretch_place(const struct call *c, size_t size, uint32_t split)
{
    return (float *)c->partial + (blockIdx.z * (size_t)c->splits + split) * size;
}

struct pixel { /* of a picture in a batch: where its window begins, or where it lies */
    int n, y, x;
};

struct tap { /* one channel under one element of the window */
    uint32_t channel;
    int ky, kx;
};

static __device__ __forceinline__ struct pixel pixel_of(struct dims d, uint32_t i, uint32_t stride, uint32_t pad)
{
    struct pixel p = {(int)(i / (d.h * d.w)), (int)(i / d.w % d.h * stride) - (int)pad,
                      (int)(i % d.w * stride) - (int)pad};
    return p;
}

/* k counts channels within taps: neighbours in k are neighbours in memory. */
static __device__ __forceinline__ struct tap tap_of(uint32_t k, uint32_t channels, uint32_t kernel)
{
    uint32_t tap = k / channels;
    struct tap t = {k % channels, (int)(tap / kernel), (int)(tap % kernel)};
    return t;
}

/* (picture, window) x (tap, channel) of the input */
template <bool LEAD> struct windows {
    static const bool rows_lead = LEAD;
    struct numbers x;
    struct dims in, out;
    uint32_t kernel, stride, pad;
    __device__ __forceinline__ struct pixel row(uint32_t m) const
    {
        return pixel_of(out, m, stride, pad);
    }
    __device__ __forceinline__ struct tap column(uint32_t k) const
    {
        return tap_of(k, in.c, kernel);
    }
    __device__ __forceinline__ float at(struct pixel p, struct tap t) const
    {
        int y = p.y + t.ky, x_ = p.x + t.kx;
        if (y < 0 || y >= (int)in.h || x_ < 0 || x_ >= (int)in.w)
            return 0;
        return get(x, (((size_t)p.n * in.h + y) * in.w + x_) * in.c + t.channel);
    }
};

/* The same turned round: rows are taps. */
struct windows_turned {
    static const bool rows_lead = true;
    windows<true> w;
    __device__ __forceinline__ struct tap row(uint32_t n) const
    {
        return w.column(n);
    }
    __device__ __forceinline__ struct pixel column(uint32_t k) const
    {
        return w.row(k);
    }
    __device__ __forceinline__ float at(struct tap t, struct pixel p) const
    {
        return w.at(p, t);
    }
};

/* (picture, input pixel) x (tap, output channel): the output pixel whose window has this tap on the input pixel */
struct windows_above {
    static const bool rows_lead = false;
    struct numbers dy;
    struct dims in, out;
    uint32_t kernel, stride, pad;
    __device__ __forceinline__ struct pixel row(uint32_t m) const
    {
        struct pixel p = pixel_of(in, m, 1, 0);
        p.y += pad;
        p.x += pad;
        return p;
    }
    __device__ __forceinline__ struct tap column(uint32_t k) const
    {
        return tap_of(k, out.c, kernel);
    }
    __device__ __forceinline__ float at(struct pixel p, struct tap t) const
    {
        int y = p.y - t.ky, x = p.x - t.kx, s = (int)stride;
        if (y < 0 || x < 0 || y % s || x % s || y / s >= (int)out.h || x / s >= (int)out.w)
            return 0;
        return get(dy, (((size_t)p.n * out.h + y / s) * out.w + x / s) * out.c + t.channel);
    }
};

/* A matrix of floats in memory, element (r, k) at r * row_step + k * column_step, columns through an order. */
template <bool LEAD, class ROW, class COLUMN> struct table {
    static const bool rows_lead = LEAD;
    const float *at_;
    ROW row_at;
    COLUMN column_at;
    __device__ __forceinline__ size_t row(uint32_t r) const
    {
        return row_at(r);
    }
    __device__ __forceinline__ size_t column(uint32_t k) const
    {
        return column_at(k);
    }
    __device__ __forceinline__ float at(size_t r, size_t k) const
    {
        return at_[r + k];
    }
};

template <bool LEAD, class ROW, class COLUMN>
static __device__ table<LEAD, ROW, COLUMN> table_of(const float *at, ROW row, COLUMN column)
{
    table<LEAD, ROW, COLUMN> t = {at, row, column};
    return t;
}

/* The same of a tensor, in either precision. */
template <bool LEAD, class ROW, class COLUMN> struct lines {
    static const bool rows_lead = LEAD;
    struct numbers x;
    ROW row_at;
    COLUMN column_at;
    __device__ __forceinline__ size_t row(uint32_t r) const
    {
        return row_at(r);
    }
    __device__ __forceinline__ size_t column(uint32_t k) const
    {
        return column_at(k);
    }
    __device__ __forceinline__ float at(size_t r, size_t k) const
    {
        return get(x, r + k);
    }
};

template <bool LEAD, class ROW, class COLUMN>
static __device__ lines<LEAD, ROW, COLUMN> lines_of(struct numbers x, ROW row, COLUMN column)
{
    lines<LEAD, ROW, COLUMN> t = {x, row, column};
    return t;
}

template <bool TENSOR> static __device__ __forceinline__ void conv_forward(const struct call &c)
{
    struct layer l = my_layer(&c);
    windows<false> x = {l.x, c.in, c.out, c.kernel, c.stride, c.pad};
    size_t step = (size_t)c.in.c * l.taps;
    auto w = table_of<false>(
        l.weight, [=](uint32_t o) { return o * step; },
        [=, &c](uint32_t k) { return (size_t)(k % c.in.c) * l.taps + k / c.in.c; });
    multiply<TENSOR>(x, w, c.batch * c.out.h * c.out.w, c.out.c, c.in.c * l.taps, 1,
             [&](uint32_t pixel, uint32_t o, float sum) {
                 put(l.y, pixel * (size_t)c.out.c + o, sum + (l.bias ? l.bias[o] : 0));
             });
}

template <bool TENSOR> static __device__ __forceinline__ void conv_back_input(const struct call &c)
{
    struct layer l = my_layer(&c);
    windows_above dy = {l.dy, c.in, c.out, c.kernel, c.stride, c.pad};
    size_t step = (size_t)c.in.c * l.taps;
    auto w = table_of<false>(
        l.weight, [=](uint32_t i) { return (size_t)i * l.taps; },
        [=](uint32_t k) { return k % c.out.c * step + k / c.out.c; });
    multiply<TENSOR>(dy, w, c.batch * c.in.h * c.in.w, c.in.c, c.out.c * l.taps, 1,
             [&](uint32_t pixel, uint32_t i, float sum) { put(l.dx, pixel * (size_t)c.in.c + i, sum); });
}

/* Element (o, (tap, i)) of one stretch's sums, where the gradient row wants it. */
template <bool TENSOR> static __device__ __forceinline__ void conv_back_weight(const struct call &c)
{
    struct layer l = my_layer(&c);
    windows_turned x = {{l.x, c.in, c.out, c.kernel, c.stride, c.pad}};
    auto dy = lines_of<true>(
        l.dy, [](uint32_t o) { return (size_t)o; },
        [=](uint32_t pixel) { return pixel * (size_t)c.out.c; });
    uint32_t columns = c.in.c * l.taps;
    float *out = stretch_place(&c, (size_t)c.out.c * columns, blockIdx.y);
    multiply<TENSOR>(dy, x, c.out.c, columns, c.batch * c.out.h * c.out.w, c.splits,
             [&](uint32_t o, uint32_t n, float sum) {
                 out[o * (size_t)columns + n % c.in.c * l.taps + n / c.in.c] = sum;
             });
}

/* Where number j of a line in device order stands in the weights' order. */
static __device__ __forceinline__ size_t in_weights(struct dims d, uint32_t j)
{
    uint32_t pixels = d.h * d.w;
    return pixels == 1 ? j : (size_t)(j % d.c) * pixels + j / d.c;
}

/* With splits, sums of stretches of the input go to places of their own: add_outputs. */
template <bool TENSOR> static __device__ __forceinline__ void linear_forward(const struct call &c)
{
    struct layer l = my_layer(&c);
    size_t n_in = size_of(c.in);
    float *place = stretch_place(&c, (size_t)c.batch * c.out.c, blockIdx.y);
    auto x = lines_of<false>(
        l.x, [=](uint32_t n) { return n * n_in; }, [](uint32_t j) { return (size_t)j; });
    auto w = table_of<false>(
        l.weight, [=](uint32_t o) { return o * n_in; }, [=](uint32_t j) { return in_weights(c.in, j); });
    multiply<TENSOR>(x, w, c.batch, c.out.c, n_in, c.splits, [&](uint32_t n, uint32_t o, float sum) {
        if (c.splits > 1)
            place[n * (size_t)c.out.c + o] = sum;
        else
            put(l.y, n * (size_t)c.out.c + o, sum + (l.bias ? l.bias[o] : 0));
    });
}

template <bool TENSOR> static __device__ __forceinline__ void linear_back_input(const struct call &c)
{
    struct layer l = my_layer(&c);
    size_t n_in = size_of(c.in);
    auto dy = lines_of<false>(
        l.dy, [=](uint32_t n) { return n * (size_t)c.out.c; }, [](uint32_t o) { return (size_t)o; });
    auto w = table_of<true>(
        l.weight, [=](uint32_t j) { return in_weights(c.in, j); }, [=](uint32_t o) { return o * n_in; });
    multiply<TENSOR>(dy, w, c.batch, n_in, c.out.c, 1,
             [&](uint32_t n, uint32_t j, float sum) { put(l.dx, n * n_in + j, sum); });
}

template <bool TENSOR> static __device__ __forceinline__ void linear_back_weight(const struct call &c)
{
    struct layer l = my_layer(&c);
    size_t n_in = size_of(c.in);
    auto dy = lines_of<true>(
        l.dy, [](uint32_t o) { return (size_t)o; }, [=](uint32_t n) { return n * (size_t)c.out.c; });
    auto x = lines_of<true>(
        l.x, [](uint32_t j) { return (size_t)j; }, [=](uint32_t n) { return n * n_in; });
    float *out = in_row(my_seat(&c).grads, c.weight);
    multiply<TENSOR>(dy, x, c.out.c, n_in, c.batch, 1, [&](uint32_t o, uint32_t j, float sum) {
        out[o * n_in + in_weights(c.in, j)] = sum;
    });
}

#define BOTH(name)                                                                                           \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS) name##_exact(const __grid_constant__ struct call c) \
    {                                                                                                        \
        name<false>(c);                                                                                      \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS) name##_tensor(const __grid_constant__ struct call c) \
    {                                                                                                        \
        name<true>(c);                                                                                       \
    }

BOTH(conv_forward)
BOTH(conv_back_input)
BOTH(conv_back_weight)
BOTH(linear_forward)
BOTH(linear_back_input)
BOTH(linear_back_weight)

extern "C" __global__ void add_outputs(struct call c)
{
    struct numbers y = at_seat(c.y, c.out, c.batch);
    const float *bias = in_row(my_seat(&c).params, c.bias);
    size_t size = (size_t)c.batch * c.out.c;
    for (size_t i = my_first(); i < size; i += my_step()) {
        float sum = bias ? bias[i % c.out.c] : 0;
        for (uint32_t s = 0; s < c.splits; s++)
            sum += stretch_place(&c, size, s)[i];
        put(y, i, sum);
    }
}

/* The stretches of a weight gradient, added in order. */
extern "C" __global__ void add_stretches(struct call c)
{
    size_t size = (size_t)c.out.c * c.in.c * c.kernel * c.kernel;
    float *out = in_row(my_seat(&c).grads, c.weight);
    for (size_t i = my_first(); i < size; i += my_step()) {
        float sum = 0;
        for (uint32_t s = 0; s < c.splits; s++)
            sum += stretch_place(&c, size, s)[i];
        out[i] = sum;
    }
}

/* d bias[o] = sum of dy over batch and pixels: 32 channels a block, 32 lines of pixels added in order. */
extern "C" __global__ void bias_gradient(struct call c)
{
    __shared__ double sums[32][33];
    struct numbers dy = at_seat(c.dy, c.out, c.batch);
    uint32_t lane = threadIdx.x % 32, line = threadIdx.x / 32, o = blockIdx.x * 32 + lane;
    size_t pixels = (size_t)c.batch * c.out.h * c.out.w;
    double sum = 0;
    for (size_t k = line; o < c.out.c && k < pixels; k += 32)
        sum += get(dy, k * c.out.c + o);
    sums[line][lane] = sum;
    __syncthreads();
    if (line > 0 || o >= c.out.c)
        return;
    for (uint32_t i = 1; i < 32; i++)
        sum += sums[i][lane];
    in_row(my_seat(&c).grads, c.bias)[o] = (float)sum;
}
