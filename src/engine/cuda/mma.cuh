/* mma.cuh - numbers on their way to the tensor cores and back: in pairs, in eights. */
#ifndef VECHE_ENGINE_CUDA_MMA_CUH
#define VECHE_ENGINE_CUDA_MMA_CUH

#include "engine/cuda/device.cuh"
#include "engine/cuda/instructions.cuh"

/* The sums of two products side by side (16 x 16) as bf16 into rows of `pitch` numbers; `at` is this warp's
 * corner. */
static __device__ __forceinline__ void store_matrices(bf16 *at, int pitch, const float *left,
                                                      const float *right)
{
    int lane = threadIdx.x % 32;
    unsigned r[4] = {pack_two(left[0], left[1]), pack_two(left[2], left[3]), pack_two(right[0], right[1]),
                     pack_two(right[2], right[3])};
#if __CUDA_ARCH__ >= 900
    store_eights(shared_at(at + lane % 16 * pitch + lane / 16 * 8), r);
#else
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(unsigned *)(at + (lane / 4 + i % 2 * 8) * pitch + i / 2 * 8 + lane % 4 * 2) = r[i];
#endif
}

/* Eight numbers of bf16 as they lie in memory. */
static __device__ __forceinline__ void unpack(uint4 q, float *f)
{
    const unsigned two[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        f[2 * i] = __uint_as_float(two[i] << 16);
        f[2 * i + 1] = __uint_as_float(two[i] & 0xffff0000u);
    }
}

static __device__ __forceinline__ uint4 pack(const float *f)
{
    return make_uint4(pack_two(f[0], f[1]), pack_two(f[2], f[3]), pack_two(f[4], f[5]), pack_two(f[6], f[7]));
}

static __device__ __forceinline__ uint4 load_eight(const void *at, size_t i)
{
    return *(const uint4 *)((const bf16 *)at + i);
}

/* As one access of 16 bytes, past the first cache: nobody near reads it soon. */
static __device__ __forceinline__ void store_eight(void *at, size_t i, uint4 q)
{
    __stcg((uint4 *)((bf16 *)at + i), q);
}

/* Ones in all bits of a number that is not 0. */
static __device__ __forceinline__ unsigned not_zero_two(unsigned a)
{
    return ((a & 0x7fffu) ? 0xffffu : 0u) | ((a & 0x7fff0000u) ? 0xffff0000u : 0u);
}

static __device__ __forceinline__ uint4 add_eight(uint4 a, uint4 b)
{
    return make_uint4(add_two(a.x, b.x), add_two(a.y, b.y), add_two(a.z, b.z), add_two(a.w, b.w));
}

/* Those of a whose fellows in `by` are not 0; zeros for the others. */
static __device__ __forceinline__ uint4 keep_eight(uint4 a, uint4 by)
{
    return make_uint4(a.x & not_zero_two(by.x), a.y & not_zero_two(by.y), a.z & not_zero_two(by.z),
                      a.w & not_zero_two(by.w));
}

#endif
