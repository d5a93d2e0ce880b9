/* weights.cu - convolution and linear layers of any shape, as products of described matrices (multiply.cuh).
 *
 *   forward          y[pixel][o]      = sum over (tap, i) of x[pixel under tap][i] w[o][i][tap]
 *   input gradient   dx[pixel][i]     = sum over (tap, o) of dy[pixel above tap][o] w[o][i][tap]
 *   weight gradient  dw[o][i][tap]    = sum over output pixels of dy[pixel][o] x[pixel under tap][i]
 *
 * The last sum is long and its matrix small, so it is split: each stretch of pixels has its own place, and
 * the stretches are added in order. A linear layer is the same with one pixel, its input a line of numbers in
 * device order, [h][w][c], which the weights count as [c][h][w].
 */
#include "engine/cuda/factors.cuh"
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
    l.x = at_seat(c->seats, c->x[0], c->in, c->batch);
    l.dx = at_seat(c->seats, c->dx[0], c->in, c->batch);
    l.y = at_seat(c->seats, c->y, c->out, c->batch);
    l.dy = at_seat(c->seats, c->dy, c->out, c->batch);
    l.weight = in_row(seat.params, c->weight);
    l.bias = in_row(seat.params, c->bias);
    l.taps = c->kernel * c->kernel;
    return l;
}

/* Convolutions' weights, [o][i][tap], with outputs or inputs as rows; what is left counts within taps. */
static __device__ __forceinline__ table<false> by_output(const struct call &c, const float *weight)
{
    uint32_t taps = c.kernel * c.kernel;
    return table<false>(weight, {c.out.c, c.in.c * taps}, {c.in.c, taps});
}

static __device__ __forceinline__ table<false> by_input(const struct call &c, const float *weight)
{
    uint32_t taps = c.kernel * c.kernel;
    return table<false>(weight, {c.in.c, taps}, {c.out.c, c.in.c * taps});
}

template <class KIND, int COLUMNS> static __device__ __forceinline__ void conv_forward(const struct call &c)
{
    struct layer l = my_layer(&c);
    multiply<KIND, COLUMNS>(windows(c, l.x), by_output(c, l.weight), c.batch * c.out.h * c.out.w, c.out.c,
                            c.in.c * l.taps, 1, [&](uint32_t pixel, uint32_t o, float sum) {
                                put(l.y, pixel * (size_t)c.out.c + o, sum + (l.bias ? l.bias[o] : 0));
                            });
}

template <class KIND, int COLUMNS>
static __device__ __forceinline__ void conv_back_input(const struct call &c)
{
    struct layer l = my_layer(&c);
    multiply<KIND, COLUMNS>(
        windows_above(c, l.dy), by_input(c, l.weight), c.batch * c.in.h * c.in.w, c.in.c, c.out.c * l.taps, 1,
        [&](uint32_t pixel, uint32_t i, float sum) { put(l.dx, pixel * (size_t)c.in.c + i, sum); });
}

/* The same where windows go by two: by quarters of the input, each beside the two by two output pixels it
 * has to do with. */
template <class KIND, int COLUMNS>
static __device__ __forceinline__ void conv_back_quarters(const struct call &c)
{
    struct layer l = my_layer(&c);
    uint32_t in = c.in.c;
    multiply<KIND, COLUMNS>(windows(l.dy, c.out, 2), quarters(c, l.weight), c.batch * c.out.h * c.out.w,
                            4 * in, 4 * c.out.c, 1, [&](uint32_t m, uint32_t n, float sum) {
                                size_t line = m / c.out.w * 2 + n / in / 2; /* of all pictures */
                                uint32_t x = m % c.out.w * 2 + n / in % 2;
                                put(l.dx, (line * c.in.w + x) * in + n % in, sum);
                            });
}

/* Element ((tap, i), o) of one stretch's sums goes where the gradient row wants it. */
template <class KIND, int COLUMNS>
static __device__ __forceinline__ void conv_back_weight(const struct call &c)
{
    struct layer l = my_layer(&c);
    uint32_t in = c.in.c, taps = l.taps;
    float *out = stretch_place(&c, (size_t)c.out.c * in * taps, blockIdx.y);
    multiply<KIND, COLUMNS>(windows_turned(c, l.x), lines<true>(l.dy, c.out.c), in * taps, c.out.c,
                            c.batch * c.out.h * c.out.w, c.splits, [&](uint32_t m, uint32_t o, float sum) {
                                out[((size_t)o * in + m % in) * taps + m / in] = sum;
                            });
}

/* Where the numbers of a line in device order, [h][w][c], stand in the weights' order. */
static __device__ __forceinline__ struct order in_weights(struct dims d)
{
    struct order o = {d.c, d.h * d.w};
    return o;
}

/* With splits, sums of stretches of the input go to places of their own: add_outputs. */
template <class KIND, int COLUMNS> static __device__ __forceinline__ void linear_forward(const struct call &c)
{
    struct layer l = my_layer(&c);
    uint32_t n_in = (uint32_t)size_of(c.in);
    float *place = stretch_place(&c, (size_t)c.batch * c.out.c, blockIdx.y);
    table<false> w(l.weight, {c.out.c, n_in}, in_weights(c.in));
    multiply<KIND, COLUMNS>(lines<false>(l.x, n_in), w, c.batch, c.out.c, n_in, c.splits,
                            [&](uint32_t n, uint32_t o, float sum) {
                                if (c.splits > 1)
                                    place[n * (size_t)c.out.c + o] = sum;
                                else
                                    put(l.y, n * (size_t)c.out.c + o, sum + (l.bias ? l.bias[o] : 0));
                            });
}

template <class KIND, int COLUMNS>
static __device__ __forceinline__ void linear_back_input(const struct call &c)
{
    struct layer l = my_layer(&c);
    uint32_t n_in = (uint32_t)size_of(c.in);
    table<true> w(l.weight, in_weights(c.in), {c.out.c, n_in});
    multiply<KIND, COLUMNS>(lines<false>(l.dy, c.out.c), w, c.batch, n_in, c.out.c, 1,
                            [&](uint32_t n, uint32_t j, float sum) { put(l.dx, n * (size_t)n_in + j, sum); });
}

template <class KIND, int COLUMNS>
static __device__ __forceinline__ void linear_back_weight(const struct call &c)
{
    struct layer l = my_layer(&c);
    uint32_t n_in = (uint32_t)size_of(c.in);
    struct order order = in_weights(c.in);
    struct seat seat = my_seat(&c);
    float *out = in_row(seat.grads, c.weight);
    multiply<KIND, COLUMNS>(lines<true>(l.dy, c.out.c), lines<true>(l.x, n_in), c.out.c, n_in, c.batch, 1,
                            [&](uint32_t o, uint32_t j, float sum) {
                                put_gradient(seat, out + o * (size_t)n_in + order.at(j), sum);
                            });
}

#define KERNEL(name, kind, columns)                                                                          \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS, in_##kind::BLOCKS)                            \
        name##_##kind##_##columns(const __grid_constant__ struct call c)                                     \
    {                                                                                                        \
        name<in_##kind, columns>(c);                                                                         \
    }
#define CONV(name)                                                                                           \
    KERNEL(name, fp32, 16)                                                                                   \
    KERNEL(name, fp32, 32)                                                                                   \
    KERNEL(name, fp32, 64)                                                                                   \
    KERNEL(name, bf16, 16)                                                                                   \
    KERNEL(name, bf16, 32)                                                                                   \
    KERNEL(name, bf16, 64)
#define WIDE(name)                                                                                           \
    KERNEL(name, fp32, 64)                                                                                   \
    KERNEL(name, bf16, 64)

CONV(conv_forward)
CONV(conv_back_input)
CONV(conv_back_weight)
WIDE(conv_back_quarters)
WIDE(linear_forward)
WIDE(linear_back_input)
WIDE(linear_back_weight)

extern "C" __global__ void add_outputs(struct call c)
{
    struct numbers y = at_seat(c.seats, c.y, c.out, c.batch);
    const float *bias = in_row(my_seat(&c).params, c.bias);
    size_t size = (size_t)c.batch * c.out.c;
    for (size_t i = my_first(); i < size; i += my_step()) {
        float sum = bias ? bias[i % c.out.c] : 0;
        for (uint32_t s = 0; s < c.splits; s++)
            sum += stretch_place(&c, size, s)[i];
        put(y, i, sum);
    }
}

/* The sum of n numbers that lie `step` apart, in order. Many are fetched at a time: that takes as long as one. */
static __device__ __forceinline__ float sum_apart(const float *from, uint32_t n, size_t step)
{
    enum { AT_A_TIME = 16 };
    float sum = 0;
    for (uint32_t first = 0; first < n; first += AT_A_TIME) {
        float some[AT_A_TIME];
#pragma unroll
        for (uint32_t k = 0; k < AT_A_TIME; k++)
            some[k] = first + k < n ? from[(first + k) * step] : 0;
#pragma unroll
        for (uint32_t k = 0; k < AT_A_TIME; k++)
            sum += some[k];
    }
    return sum;
}

/* The stretches of a weight gradient, added in order. */
extern "C" __global__ void add_stretches(struct call c)
{
    size_t size = (size_t)c.out.c * (c.in.c / c.groups) * c.kernel * c.kernel;
    struct seat seat = my_seat(&c);
    const float *stretches = stretch_place(&c, size, 0);
    float *out = in_row(seat.grads, c.weight);
    for (size_t i = my_first(); i < size; i += my_step())
        put_gradient(seat, out + i, sum_apart(stretches + i, c.splits, size));
}

/* d bias[o] = sum of dy over batch and pixels: 32 channels a block, 32 lines of pixels added in order. */
extern "C" __global__ void bias_gradient(struct call c)
{
    __shared__ double sums[32][33];
    struct numbers dy = at_seat(c.seats, c.dy, c.out, c.batch);
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
    struct seat seat = my_seat(&c);
    put_gradient(seat, in_row(seat.grads, c.bias) + o, (float)sum);
}
