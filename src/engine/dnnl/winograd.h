/* winograd.h - 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3), for processors with 512-bit vectors.
 *
 * Images lie in blocks of sixteen channels, [n][c / 16][h][w][16], weights and their gradients flat,
 * [k][c][3][3]. A call computes `n` samples on the calling thread; callers share samples out among threads. A
 * call allocates nothing, keeps nothing, and gives the same bits for the same arguments; a sample's y and dx
 * do not depend on the other samples of the call. Images, transformed weights and scratch are aligned to 64
 * bytes, flat weights need not be.
 *
 * Memory is slower than these kernels, so what stands next to a convolution can be done while it loads and
 * stores: batchnorm with ReLU before it, the sums batchnorm needs after it, and their gradients on the way
 * back.
 */
#ifndef VECHE_ENGINE_DNNL_WINOGRAD_H
#define VECHE_ENGINE_DNNL_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>

struct winograd {
    size_t n;    /* samples in one call                                       */
    size_t c, k; /* channels in and out, multiples of 16                      */
    size_t h, w; /* the input's; the output is h + 2 pad - 2 by w + 2 pad - 2 */
    size_t pad;  /* 0, 1 or 2                                                 */
};

/* What becomes of an image while it is loaded; padding is zero whatever it does. All borrowed. Scales and
 * shifts have one number for each channel of the image. without `other`   relu(image * scale + shift) a
 * batchnorm and its ReLU with `other`      image * scale + other * other_scale + shift   a batchnorm's
 * gradient: dy and its input */
struct winograd_load {
    const float *scale, *shift;
    const float *other, *other_scale; /* NULL, or an image of the same sizes */
};

/* What becomes of a result while it is stored, in this order; each may be NULL. All borrowed. Images have the
 * result's sizes. Sums are over all pixels of the call's samples, one for each channel, and are added to what
 * is there. */
struct winograd_store {
    const float *bias; /* one for each channel of the result: result += bias               */
    const float *add;  /* result += add                                                    */
    const float *gate; /* zero where gate <= 0: ReLU's gradient ...                        */
    const float *gate_scale,
        *gate_shift;        /* ... or where gate * gate_scale + gate_shift <= 0; both or neither */
    double *sum, *products; /* of the result; of the result with `times`; both or neither       */
    const float *times;     /* NULL: the result itself                                          */
};

/* Whether the kernels can do these sizes. On x86-64 they are always there, compiled for AVX-512; nothing here
 * may be called on a processor without it, and nothing below where this is false. */
bool winograd_supported(const struct winograd *sizes);

/* Bytes of one transformed weight tensor, and of the scratch that any of the three passes needs. */
size_t winograd_weights_bytes(const struct winograd *sizes);
size_t winograd_scratch_bytes(const struct winograd *sizes);

/* Weights as the forward pass (or, rotated, the data gradient) reads them: once for all the calls of a
 * lesson. */
void winograd_weights_forward(const struct winograd *sizes, const float *weights, float *u);
void winograd_weights_backward(const struct winograd *sizes, const float *weights, float *u);

/* y = x * weights. `load` is for x and `store` for y; either may be NULL. */
void winograd_forward(const struct winograd *sizes, const struct winograd_load *load, const float *x,
                      const float *u, float *y, const struct winograd_store *store, void *scratch);

/* What winograd_forward makes of x as it loads it (without `other`): the same bits. */
void winograd_loaded(const struct winograd *sizes, const struct winograd_load *load, const float *x,
                     float *to);

/* The sums that winograd_forward gathers for `sum` and `products`, from a y that is there: the same bits. */
void winograd_sums(const struct winograd *sizes, const float *y, double *sum, double *products);

/* dx from dy, with the weights of winograd_weights_backward. `load` is for dy and `store` for dx. */
void winograd_backward_data(const struct winograd *sizes, const struct winograd_load *load, const float *dy,
                            const float *u, float *dx, const struct winograd_store *store, void *scratch);

/* dw from x and dy, each with its own load. Adds to dw where `add`, else overwrites it. */
void winograd_backward_weights(const struct winograd *sizes, const struct winograd_load *load_x,
                               const float *x, const struct winograd_load *load_dy, const float *dy, bool add,
                               float *dw, void *scratch);

#endif
