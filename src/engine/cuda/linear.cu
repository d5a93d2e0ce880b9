/* linear.cu - linear layers with few outputs, the last one mostly: too little work for tiles.
 *
 * Inputs are lines of numbers in device order, [h][w][c], which the weights count as [c][h][w].
 */
#include "engine/cuda/device.cuh"

static __device__ __forceinline__ size_t in_weights(struct dims d, uint32_t j)
{
    uint32_t pixels = d.h * d.w;
    return pixels == 1 ? j : (size_t)(j % d.c) * pixels + j / d.c;
}

/* A warp for each output: lanes take every 32nd input, and are added in a tree of fixed shape. */
extern "C" __global__ void linear_few_forward(struct call c)
{
    struct seat seat = my_seat(&c);
    struct numbers x = at_seat(c.seats, c.x[0], c.in, c.batch), y = at_seat(c.seats, c.y, c.out, c.batch);
    const float *weight = in_row(seat.params, c.weight), *bias = in_row(seat.params, c.bias);
    size_t n_in = size_of(c.in);
    for (size_t i = my_first() / 32; i < (size_t)c.batch * c.out.c; i += my_step() / 32) {
        size_t n = i / c.out.c, o = i % c.out.c;
        float sum = 0;
        for (size_t j = threadIdx.x % 32; j < n_in; j += 32)
            sum += get(x, n * n_in + j) * weight[o * n_in + in_weights(c.in, j)];
        for (int over = 16; over > 0; over /= 2)
            sum += __shfl_xor_sync(~0u, sum, over);
        if (threadIdx.x % 32 == 0)
            put(y, i, sum + (bias ? bias[o] : 0));
    }
}

extern "C" __global__ void linear_few_back_input(struct call c)
{
    struct numbers dy = at_seat(c.seats, c.dy, c.out, c.batch), dx = at_seat(c.seats, c.dx[0], c.in, c.batch);
    const float *weight = in_row(my_seat(&c).params, c.weight);
    size_t n_in = size_of(c.in);
    for (size_t i = my_first(); i < c.batch * n_in; i += my_step()) {
        size_t n = i / n_in, j = in_weights(c.in, i % n_in);
        float sum = 0;
#pragma unroll 4
        for (uint32_t o = 0; o < c.out.c; o++)
            sum += get(dy, n * c.out.c + o) * weight[o * n_in + j];
        put(dx, i, sum);
    }
}

/* A block takes 32 inputs of one output: eight lines of threads share the batch and are added in order. The gradient of
 * the bias rides along: it is that of an input that is always 1. */
extern "C" __global__ void linear_few_back_weight(struct call c)
{
    __shared__ float sums[8][33];
    struct seat seat = my_seat(&c);
    struct numbers dy = at_seat(c.seats, c.dy, c.out, c.batch), x = at_seat(c.seats, c.x[0], c.in, c.batch);
    float *dweight = in_row(seat.grads, c.weight), *dbias = in_row(seat.grads, c.bias);
    size_t n_in = size_of(c.in), across = (n_in + 32) / 32, o = blockIdx.x / across;
    uint32_t lane = threadIdx.x % 32, line = threadIdx.x / 32;
    size_t j = blockIdx.x % across * 32 + lane;
    float sum = 0;
#pragma unroll 4
    for (uint32_t n = line; n < c.batch; n += 8)
        sum += get(dy, n * (size_t)c.out.c + o) * (j < n_in ? get(x, n * n_in + j) : 1);
    sums[line][lane] = sum;
    __syncthreads();
    if (line > 0 || j > n_in || (j == n_in && !dbias))
        return;
    for (uint32_t i = 1; i < 8; i++)
        sum += sums[i][lane];
    if (j < n_in)
        put_gradient(seat, dweight + o * n_in + in_weights(c.in, j), sum);
    else
        put_gradient(seat, dbias + o, sum);
}
