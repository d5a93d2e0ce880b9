/* lanes.h - sixteen numbers at once, of either kind, in plain C with the compilers' vector types.
 *
 * Kernels are written once as inline bodies over (number, n lanes) and instantiated by LANES for the cases
 * that matter; the last, general one takes any number of lanes. bf16 rounds to nearest, ties to even, as the
 * hardware does.
 */
#ifndef VECHE_ENGINE_DNNL_LANES_H
#define VECHE_ENGINE_DNNL_LANES_H

#include <stdint.h>
#include <string.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "engine/dnnl/api.h"

/* How vectors are passed to functions depends on the instruction set; these are all inlined, so nothing is
 * passed. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float lanes __attribute__((vector_size(64)));
typedef int32_t lane_bits __attribute__((vector_size(64)));
typedef uint32_t lane_words __attribute__((vector_size(64)));
typedef uint16_t lane_halves __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))

/* Calls body(..., number, n) with both as constants where that makes fast code. */
#define LANES(body, number, n, ...)                                                                          \
    do {                                                                                                     \
        if ((n) == 16 && (number) == NUMBER_F32)                                                             \
            body(__VA_ARGS__, NUMBER_F32, 16);                                                               \
        else if ((n) == 16)                                                                                  \
            body(__VA_ARGS__, NUMBER_BF16, 16);                                                              \
        else if ((n) == 8 && (number) == NUMBER_F32)                                                         \
            body(__VA_ARGS__, NUMBER_F32, 8);                                                                \
        else if ((n) == 8)                                                                                   \
            body(__VA_ARGS__, NUMBER_BF16, 8);                                                               \
        else if ((n) == 1 && (number) == NUMBER_F32)                                                         \
            body(__VA_ARGS__, NUMBER_F32, 1);                                                                \
        else                                                                                                 \
            body(__VA_ARGS__, number, n);                                                                    \
    } while (0)

INLINE lanes lanes_load(const void *p, size_t at, enum number number, size_t n)
{
    lanes v = {0};
    if (number == NUMBER_F32) {
        memcpy(&v, (const float *)p + at, n * sizeof(float));
        return v;
    }
    lane_halves h = {0};
    memcpy(&h, (const uint16_t *)p + at, n * sizeof(uint16_t));
    return (lanes)(__builtin_convertvector(h, lane_words) << 16);
}

#ifdef __AVX512BF16__
INLINE lane_halves lanes_round(lanes v)
{
    return (lane_halves)_mm512_cvtneps_pbh((__m512)v);
}
#else
INLINE lane_halves lanes_round(lanes v)
{
    lane_words w = (lane_words)v;
    lane_words rounded = (w + 0x7fff + ((w >> 16) & 1)) >> 16;
    lane_words is_nan = (lane_words)(v != v);
    return __builtin_convertvector((rounded & ~is_nan) | (0x7fc0 & is_nan), lane_halves);
}
#endif

INLINE void lanes_store(void *p, size_t at, lanes v, enum number number, size_t n)
{
    if (number == NUMBER_F32) {
        memcpy((float *)p + at, &v, n * sizeof(float));
        return;
    }
    lane_halves h = lanes_round(v);
    memcpy((uint16_t *)p + at, &h, n * sizeof(uint16_t));
}

INLINE lanes lanes_all(float x)
{
    return (lanes){0} + x;
}

/* v where `mask` is set, else 0. */
INLINE lanes lanes_where(lane_bits mask, lanes v)
{
    return (lanes)((lane_bits)v & mask);
}

INLINE lanes lanes_relu(lanes v)
{
    return lanes_where(v > 0, v);
}

#endif
