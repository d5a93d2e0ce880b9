/* mma.cuh - the tensor cores' multiply-adds, 16 x 8 x 16 of bf16 and 16 x 8 x 8 of tf32, and loads of their
 * factors. */
#ifndef VECHE_ENGINE_CUDA_MMA_CUH
#define VECHE_ENGINE_CUDA_MMA_CUH

#include "engine/cuda/device.cuh"

static __device__ __forceinline__ unsigned shared_at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Four 8 x 8 matrices of bf16, or 8 x 4 of tf32; lane i names row i % 8 of matrix i / 8. */
static __device__ __forceinline__ void load_matrices(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

static __device__ __forceinline__ void load_matrices_turned(unsigned *r, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* d += a b; lane holds rows lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next. */
static __device__ __forceinline__ void multiply_add(float *d, const unsigned *a, unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void multiply_add_tf32(float *d, const unsigned *a, unsigned b0,
                                                         unsigned b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ unsigned to_tf32(float x)
{
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

static __device__ __forceinline__ unsigned pack_two(float low, float high)
{
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

/* The sums of two products side by side (16 x 16) as bf16 into rows of `pitch` numbers; `at` is this warp's
 * corner. */
static __device__ __forceinline__ void store_matrices(bf16 *at, int pitch, const float *left,
                                                      const float *right)
{
    int lane = threadIdx.x % 32;
    unsigned r[4] = {pack_two(left[0], left[1]), pack_two(left[2], left[3]), pack_two(right[0], right[1]),
                     pack_two(right[2], right[3])};
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                     shared_at(at + lane % 16 * pitch + lane / 16 * 8)),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
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

/* Two numbers at a time. */
static __device__ __forceinline__ unsigned add_two(unsigned a, unsigned b)
{
    unsigned sum;
    asm("{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.bf16x2 %0, %1, one, %2; }"
        : "=r"(sum)
        : "r"(a), "r"(b));
    return sum;
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
