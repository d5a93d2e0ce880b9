/* cuda_bf16.h - numbers of bf16 as the kernels use them, for a C++ compiler that knows no CUDA. */
#ifndef VECHE_TESTS_GPU_CUDA_BF16_H
#define VECHE_TESTS_GPU_CUDA_BF16_H

#include <cstdint>

#include "language.h"

/* To nearest, ties to even. */
static inline uint16_t bits_of_bf16(float x)
{
    uint32_t u = __float_as_uint(x);
    return x != x ? 0x7fff : (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) : bits(bits_of_bf16(x)) {}
    operator float() const { return __uint_as_float((uint32_t)bits << 16); }
};

struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }

#endif
