/* language.h - CUDA's words for a C++ compiler that knows no CUDA: a block's threads are fibers of one thread, run one after
 * the other (../threads.cpp), so shared memory is simply static. */
#ifndef VECHE_TESTS_GPU_LANGUAGE_H
#define VECHE_TESTS_GPU_LANGUAGE_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

extern char gpu_shared_memory[];
#define SHARED_MEMORY(name) static char *const name = gpu_shared_memory

struct gpu_index {
    unsigned x, y, z;
};
extern gpu_index threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class TO, class FROM> static inline TO gpu_bits(FROM x)
{
    TO y;
    static_assert(sizeof y == sizeof x, "");
    std::memcpy(&y, &x, sizeof y);
    return y;
}
static inline unsigned __float_as_uint(float x) { return gpu_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return gpu_bits<float>(x); }

template <class A, class B> static inline std::common_type_t<A, B> min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline std::common_type_t<A, B> max(A a, B b) { return a > b ? a : b; }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }

template <class T> static inline T __ldcg(const T *at) { return *at; }
template <class T> static inline T __ldcs(const T *at) { return *at; }
template <class T> static inline void __stcg(T *at, T x) { *at = x; }
static inline void __threadfence() {}
static inline unsigned atomicInc(unsigned *at, unsigned last)
{
    unsigned old = *at;
    *at = old >= last ? 0 : old + 1;
    return old;
}

void __syncthreads();

/* `from` may be NULL: zeros. */
void gpu_start_copy(char *to, const void *from, int n_bytes);
void gpu_wait_for_copies();

/* Words that all lanes of a warp put together, and what `answer` makes of them for each. */
enum { GPU_LANES = 32, GPU_WORDS = 12 };
struct gpu_words {
    unsigned of[GPU_LANES][GPU_WORDS];
};
typedef void gpu_answer(const gpu_words &all, gpu_words &out);
const unsigned *gpu_together(const unsigned *words, int n, gpu_answer *answer);

static inline void __syncwarp()
{
    gpu_together(nullptr, 0, [](const gpu_words &, gpu_words &) {});
}

static inline float __shfl_xor_sync(unsigned, float x, int over)
{
    const unsigned words[2] = {__float_as_uint(x), (unsigned)over};
    return __uint_as_float(*gpu_together(words, 2, [](const gpu_words &all, gpu_words &out) {
        for (unsigned lane = 0; lane < GPU_LANES; lane++)
            out.of[lane][0] = all.of[lane ^ all.of[lane][1]][0];
    }));
}

#endif
