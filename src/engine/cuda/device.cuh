/* device.cuh - what all kernels share: numbers in either precision, a seat's rows, sums in a fixed order. */
#ifndef VECHE_ENGINE_CUDA_DEVICE_CUH
#define VECHE_ENGINE_CUDA_DEVICE_CUH

#include <cuda_bf16.h>

#include "engine/cuda/call.h"

typedef __nv_bfloat16 bf16;

static __device__ __forceinline__ float get(struct numbers x, size_t i)
{
    return x.half ? __bfloat162float(((const bf16 *)x.at)[i]) : ((const float *)x.at)[i];
}

static __device__ __forceinline__ void put(struct numbers x, size_t i, float value)
{
    if (x.adds)
        value += get(x, i);
    if (x.half)
        ((bf16 *)x.at)[i] = __float2bfloat16_rn(value);
    else
        ((float *)x.at)[i] = value;
}

static __device__ __forceinline__ size_t size_of(struct dims d)
{
    return (size_t)d.c * d.h * d.w;
}

/* The tensor of this seat alone. */
static __device__ __forceinline__ struct numbers at_seat(struct numbers x, struct dims d, uint32_t batch)
{
    size_t first = blockIdx.z * (size_t)batch * size_of(d);
    x.at = x.at ? (char *)x.at + first * (x.half ? 2 : 4) : NULL;
    return x;
}

static __device__ __forceinline__ struct seat my_seat(const struct call *c)
{
    return c->seats[blockIdx.z];
}

/* Where a parameter lies in a row; NULL where the op has none. */
static __device__ __forceinline__ float *in_row(float *row, uint64_t at)
{
    return at == CUDA_NONE ? NULL : row + at;
}

/* This thread's index among those of its seat, and how many there are. */
static __device__ __forceinline__ size_t my_first(void)
{
    return blockIdx.x * (size_t)blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ size_t my_step(void)
{
    return gridDim.x * (size_t)blockDim.x;
}

/* rng_hash of base/rng.h */
static __device__ __forceinline__ uint64_t scramble(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#endif
