/* winograd.h - 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3), for processors with 512-bit vectors.
 *
 * Images lie in blocks of sixteen channels, [n][c / 16][h][w][16], weights and their gradients flat,
 * [k][c][3][3]. A call computes `n` samples on the calling thread; callers share samples out among threads. A
 * call allocates nothing, keeps nothing, and gives the same bits for the same arguments. Pointers to images,
 * to transformed weights and to scratch are aligned to 64 bytes; those to flat weights need not be.
 *
 * Folds spare passes over memory. At loading, the raw values before a batchnorm become its output after ReLU:
 * relu(x * scale[c] + shift[c]), and padding stays zero. At storing, the sums batchnorm needs are gathered.
 */
#ifndef VECHE_ENGINE_DNNL_WINOGRAD_H
#define VECHE_ENGINE_DNNL_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>

struct winograd {
    size_t n;    /* samples in one call                                          */
    size_t c, k; /* channels in and out, multiples of 16                         */
    size_t h, w; /* the input's; the output is h + 2 pad - 2 by w + 2 pad - 2    */
    size_t pad;  /* 0, 1 or 2                                                    */
};

/* What is applied to the input while it is loaded: relu(x * scale + shift); one number for each input
 * channel. */
struct winograd_affine {
    const float *scale, *shift; /* [c], borrowed */
};

/* What is gathered while the output is stored: each channel's sums over the call's samples are added here. */
struct winograd_sums {
    double *sum, *squares; /* [k], borrowed */
};

/* Whether this build has the kernels and they can do these sizes. Nothing below may be called where it is
 * false. */
bool winograd_supported(const struct winograd *sizes);

/* Bytes of one transformed weight tensor, and of the scratch that any of the three passes needs. */
size_t winograd_weights_bytes(const struct winograd *sizes);
size_t winograd_scratch_bytes(const struct winograd *sizes);

/* Weights as the forward pass (or, rotated, the data gradient) reads them: once for all the calls of a
 * lesson. */
void winograd_weights_forward(const struct winograd *sizes, const float *weights, float *u);
void winograd_weights_backward(const struct winograd *sizes, const float *weights, float *u);

/* y = x * weights. `affine` and `sums` may be NULL. */
void winograd_forward(const struct winograd *sizes, const struct winograd_affine *affine, const float *x,
                      const float *u, float *y, const struct winograd_sums *sums, void *scratch);

/* dx from dy, with the weights of winograd_weights_backward. */
void winograd_backward_data(const struct winograd *sizes, const float *dy, const float *u, float *dx,
                            void *scratch);

/* dw from x and dy; `affine` is what the forward pass applied to x, or NULL. Adds to dw where `add`, else
 * overwrites. */
void winograd_backward_weights(const struct winograd *sizes, const struct winograd_affine *affine,
                               const float *x, const float *dy, bool add, float *dw, void *scratch);

#endif
