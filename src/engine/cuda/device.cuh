/* device.cuh - what all kernels share: numbers in either precision, a seat's rows, sums in a fixed order. */
#ifndef VECHE_ENGINE_CUDA_DEVICE_CUH
#define VECHE_ENGINE_CUDA_DEVICE_CUH

#include <cuda_bf16.h>

#include "engine/cuda/call.h"

typedef __nv_bfloat16 bf16;

/* As much of a block's shared memory as its launch asks for. */
#ifndef SHARED_MEMORY
#define SHARED_MEMORY(name) extern __shared__ __align__(16) char name[]
#endif

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

/* Four neighbours; i is a multiple of four, and so is the size of a seat's tensor. */
static __device__ __forceinline__ float4 get_four(struct numbers x, size_t i)
{
    if (!x.half)
        return *(const float4 *)((const float *)x.at + i);
    uint2 q = *(const uint2 *)((const bf16 *)x.at + i);
    return make_float4(__uint_as_float(q.x << 16), __uint_as_float(q.x & 0xffff0000u),
                       __uint_as_float(q.y << 16), __uint_as_float(q.y & 0xffff0000u));
}

static __device__ __forceinline__ void put_four(struct numbers x, size_t i, float4 v)
{
    if (x.adds) {
        float4 old = get_four(x, i);
        v = make_float4(v.x + old.x, v.y + old.y, v.z + old.z, v.w + old.w);
    }
    if (!x.half) {
        *(float4 *)((float *)x.at + i) = v;
        return;
    }
    __nv_bfloat162 two[2] = {__floats2bfloat162_rn(v.x, v.y), __floats2bfloat162_rn(v.z, v.w)};
    *(uint2 *)((bf16 *)x.at + i) = *(const uint2 *)two;
}

/* Two; i is even, and so is the size of a seat's tensor. */
static __device__ __forceinline__ void put_two(struct numbers x, size_t i, float a, float b)
{
    if (x.adds) {
        a += get(x, i);
        b += get(x, i + 1);
    }
    if (x.half)
        *(__nv_bfloat162 *)((bf16 *)x.at + i) = __floats2bfloat162_rn(a, b);
    else
        *(float2 *)((float *)x.at + i) = make_float2(a, b);
}

/* One number or four, for kernels that go by fours where they can. */
template <int N> struct some {
    float of[N];
};

template <int N> static __device__ __forceinline__ some<N> get_some(struct numbers x, size_t i)
{
    if constexpr (N == 4) {
        float4 v = get_four(x, i);
        return {v.x, v.y, v.z, v.w};
    } else {
        return {get(x, i)};
    }
}

template <int N> static __device__ __forceinline__ void put_some(struct numbers x, size_t i, some<N> v)
{
    if constexpr (N == 4)
        put_four(x, i, make_float4(v.of[0], v.of[1], v.of[2], v.of[3]));
    else
        put(x, i, v.of[0]);
}

static __device__ __forceinline__ size_t size_of(struct dims d)
{
    return (size_t)d.c * d.h * d.w;
}

/* The tensor of this seat alone. The shelf is read only where there is one (hence volatile): else every kernel would begin by
 * waiting for it. */
static __device__ __forceinline__ struct numbers at_seat(const struct seat *seats, struct numbers x, struct dims d,
                                                         uint32_t batch)
{
    size_t first = blockIdx.z * (size_t)batch * size_of(d) * (x.half ? 2 : 4);
    if (x.on_shelf)
        first = *(const volatile uint64_t *)&seats[blockIdx.z].shelf;
    x.at = x.at ? (char *)x.at + first : NULL;
    return x;
}

/* The labels of this seat's samples. */
static __device__ __forceinline__ uint16_t *labels_at_seat(const struct seat *seats, struct numbers labels,
                                                           uint32_t batch)
{
    return (uint16_t *)at_seat(seats, labels, {1, 1, 1}, batch).at;
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

/* One number of a gradient, complete, into the replica's row, which is read only where it must be (hence volatile). */
static __device__ __forceinline__ void put_gradient(const struct seat &seat, float *to, float value)
{
    if (seat.adds)
        value = *(const volatile float *)to + value;
    *to = value;
}

/* Where sums of a stretch go: [seat][split][size] */
static __device__ __forceinline__ float *stretch_place(const struct call *c, size_t size, uint32_t split)
{
    return (float *)c->partial + (blockIdx.z * (size_t)c->splits + split) * size;
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
