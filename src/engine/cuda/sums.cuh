/* sums.cuh - sums per channel that many blocks gather: each group of pictures has its own place, and the last block of
 * a seat to finish adds the places in order. Which block that is does not matter to any bit.
 */
#ifndef VECHE_ENGINE_CUDA_SUMS_CUH
#define VECHE_ENGINE_CUDA_SUMS_CUH

#include "engine/cuda/conv3.h"
#include "engine/cuda/device.cuh"

/* True in all threads of the seat's last block; all the other blocks' places can then be read. */
static __device__ __forceinline__ bool is_last_block(uint32_t *count)
{
    __shared__ uint32_t before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        before = atomicInc(count + blockIdx.z, gridDim.x - 1);
    __syncthreads();
    __threadfence();
    return before == gridDim.x - 1;
}

enum { AT_ONCE = 8 };

/* The sums of all groups into sums[2][channels]; `scratch` holds a double for each thread. */
static __device__ __forceinline__ void add_groups(const float *partial, uint32_t groups, uint32_t channels,
                                                  double *scratch, double *sums)
{
    uint32_t columns = 2 * channels, parts = blockDim.x / columns, column = threadIdx.x % columns;
    uint32_t part = threadIdx.x / columns;
    double sum = 0;
    for (uint32_t g0 = part; part < parts && g0 < groups; g0 += AT_ONCE * parts) {
        float some[AT_ONCE]; /* loaded together: a block alone on the device waits for every load */
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            some[i] = g0 + i * parts < groups ? __ldcg(partial + (size_t)(g0 + i * parts) * columns + column) : 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            sum += some[i];
    }
    scratch[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < columns) {
        for (uint32_t i = 1; i < parts; i++)
            sum += scratch[i * columns + column];
        sums[column] = sum;
    }
    __syncthreads();
}

static __device__ __forceinline__ void write_scale(float *lines, uint32_t channels, uint32_t k, float weight,
                                                   float bias, double mean, double inverse)
{
    double scale = weight * inverse;
    lines[NORM_SCALE * channels + k] = (float)scale;
    lines[NORM_SHIFT * channels + k] = (float)(bias - mean * scale);
    lines[NORM_INVERSE * channels + k] = (float)inverse;
    lines[NORM_OFFSET * channels + k] = (float)(-mean * inverse);
}

/* From sums of y and y^2 over m numbers to the lines of forward and the running statistics. */
static __device__ __forceinline__ void finish_forward(const struct norm_sums *n, struct seat seat,
                                                      uint32_t channels, double m, const double *sums)
{
    uint32_t k = threadIdx.x;
    if (k >= channels)
        return;
    double mean = sums[k] / m, var = fmax(0.0, sums[channels + k] / m - mean * mean), p = n->momentum;
    write_scale(n->lines + blockIdx.z * (size_t)NORM_LINES * channels, channels, k, seat.params[n->weight + k],
                seat.params[n->bias + k], mean, rsqrt(var + n->eps));
    float *old_mean = seat.stats + n->mean + k, *old_var = seat.stats + n->var + k;
    *old_mean = (float)((1 - p) * *old_mean + p * mean);
    *old_var = (float)((1 - p) * *old_var + p * (m > 1 ? var * m / (m - 1) : 0));
}

/* From sums of g and g y to the gradients of weight and bias and the lines of backward. */
static __device__ __forceinline__ void finish_backward(const struct norm_sums *n, struct seat seat,
                                                       uint32_t channels, double m, const double *sums)
{
    uint32_t k = threadIdx.x;
    if (k >= channels)
        return;
    float *lines = n->lines + blockIdx.z * (size_t)NORM_LINES * channels;
    double scale = lines[NORM_SCALE * channels + k], inverse = lines[NORM_INVERSE * channels + k];
    double offset = lines[NORM_OFFSET * channels + k];
    double dbias = sums[k], dweight = inverse * sums[channels + k] + offset * sums[k];
    put_gradient(seat, seat.grads + n->bias + k, (float)dbias);
    put_gradient(seat, seat.grads + n->weight + k, (float)dweight);
    lines[NORM_BACK_G * channels + k] = (float)scale;
    lines[NORM_BACK_Y * channels + k] = (float)(-scale * inverse * dweight / m);
    lines[NORM_BACK_1 * channels + k] = (float)(-scale * (dbias + offset * dweight) / m);
}

#endif
