/* instructions.cuh - what has no name in CUDA's C++: the tensor cores' multiply-adds, 16 x 8 x 16 of bf16 and 16 x 8 x 8
 * of tf32, loads and stores of their factors, copies to shared memory that nobody waits for, and arithmetic on two numbers of bf16
 * at a time. */
#ifndef VECHE_ENGINE_CUDA_INSTRUCTIONS_CUH
#define VECHE_ENGINE_CUDA_INSTRUCTIONS_CUH

static __device__ __forceinline__ unsigned shared_at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Copies 4, 8 or 16 bytes from device memory, or zeros if they are not `real`; they are there after wait_for_copies. */
template <int BYTES>
static __device__ __forceinline__ void start_copy(unsigned to, const void *from, bool real)
{
    int n = real ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(n), "n"(BYTES)
                     : "memory");
}

/* All that this thread has started; for those of others a barrier comes after it. */
static __device__ __forceinline__ void wait_for_copies(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
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

/* The same of tf32: of a float's bits the last 13 do not count. */
static __device__ __forceinline__ void multiply_add_tf32(float *d, const unsigned *a, unsigned b0,
                                                         unsigned b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if __CUDA_ARCH__ >= 900
/* Four 8 x 8 matrices of bf16 in the order load_matrices has them; lane i names row i % 8 of matrix i / 8. */
static __device__ __forceinline__ void store_eights(unsigned at, const unsigned *r)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}
#endif

/* Two numbers, rounded to bf16. */
static __device__ __forceinline__ unsigned pack_two(float low, float high)
{
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

static __device__ __forceinline__ unsigned add_two(unsigned a, unsigned b)
{
    unsigned sum;
    asm("{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.bf16x2 %0, %1, one, %2; }"
        : "=r"(sum)
        : "r"(a), "r"(b));
    return sum;
}

#endif
