/* blocks.h - how many blocks kernels are launched with; what ops.c and convs.c share. */
#ifndef VECHE_ENGINE_CUDA_BLOCKS_H
#define VECHE_ENGINE_CUDA_BLOCKS_H

#include "engine/cuda/launches.h"

enum { THREADS = 256, MOST_BLOCKS = 2048, LANES = 32, FOUR = 4 };
enum { PIXELS_A_SPLIT = 512 }; /* of sums over all pixels */

static inline size_t pieces(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

static inline size_t size_of(struct dims d)
{
    return (size_t)d.c * d.h * d.w;
}

/* One thread a number, or a few. */
static inline void add_values(struct launches *p, enum cuda_kernel kernel, const struct call *c, size_t n)
{
    launches_add(p, kernel, smaller(pieces(n, THREADS), MOST_BLOCKS), 1, THREADS, c);
}

/* Tiles of multiply.cuh are 16, 32 or 64 columns wide, for layers of so many channels. */
enum { WIDTHS = 3, WIDEST = WIDTHS - 1 };

static inline size_t columns_of(size_t width)
{
    return (size_t)16 << width;
}

static inline size_t n_tiles(size_t rows, size_t columns, size_t width)
{
    return pieces(rows, TILE / columns_of(width)) * pieces(columns, columns_of(width));
}

/* convs.c: the launches of a convolution, and its scratch. */
void conv_forward(struct launches *p, const struct call *c);
void conv_backward(struct launches *p, const struct call *c);
size_t conv_scratch(const struct graph *g, const struct op *op, size_t batch, bool bf16);

#endif
