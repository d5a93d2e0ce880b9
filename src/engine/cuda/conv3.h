/* conv3.h - the convolutions that have kernels of their own, and what the host tells those; read by C and by
 * CUDA.
 *
 * They are 3x3, in bf16 on the tensor cores, and know their shape when they are compiled. Around them
 * batchnorm is never an op of its own: a convolution's last step also gathers the sums of its output, and
 * whoever loads that output normalises it on the way (fused.h).
 *
 * A batchnorm of C channels owns NORM_LINES lines of C floats for each seat:
 *
 *   forward    y -> NORM_SCALE y + NORM_SHIFT              normal(y) = NORM_INVERSE y + NORM_OFFSET
 *   backward   gradient of y = NORM_BACK_G g + NORM_BACK_Y y + NORM_BACK_1,  g the gradient of the normalised
 */
#ifndef VECHE_ENGINE_CUDA_CONV3_H
#define VECHE_ENGINE_CUDA_CONV3_H

#include "engine/cuda/call.h"

enum norm_line {
    NORM_SCALE,
    NORM_SHIFT,
    NORM_INVERSE,
    NORM_OFFSET,
    NORM_BACK_G,
    NORM_BACK_Y,
    NORM_BACK_1,
    NORM_LINES
};

enum { CONV3_LEAST = 16 }; /* channels; samples with fewer are filled up with zeros */

/* X(name, in, out, side, stride, pad, pictures, strips, warps along pixels, warps along channels, tiles at a
 * time, blocks that a multiprocessor should hold) of forward; a block takes so many pictures, or one of so
 * many strips of a picture, at a time. Of several for one shape the first is taken whose shared memory the
 * GPU has: a small one does with the 99 KiB of compute capabilities 8.6, 8.9 and 12.0. */
#define CONV3_FORWARD(X)                                                                                     \
    X(16_16_32_1_1, 16, 16, 32, 1, 1, 1, 2, 8, 1, 4, 2)                                                      \
    X(16_32_32_2_1, 16, 32, 32, 2, 1, 1, 2, 8, 1, 1, 3)                                                      \
    X(32_32_16_1_1, 32, 32, 16, 1, 1, 1, 1, 4, 2, 4, 2)                                                      \
    X(32_64_16_2_1, 32, 64, 16, 2, 1, 1, 1, 2, 4, 2, 2)                                                      \
    X(64_64_8_1_1, 64, 64, 8, 1, 1, 1, 1, 2, 4, 2, 2)                                                        \
    X(64_64_8_1_1_small, 64, 64, 8, 1, 1, 1, 2, 2, 2, 1, 1)                                                  \
    X(16_32_28_1_1, 16, 32, 28, 1, 1, 1, 2, 8, 1, 2, 2)                                                      \
    X(32_64_14_1_0, 32, 64, 14, 1, 0, 1, 1, 3, 2, 3, 2)

/* The same of the input's gradient; strips and tiles are those of the input, or of a class of its pixels. */
#define CONV3_INPUT(X)                                                                                       \
    X(16_16_32_1_1, 16, 16, 32, 1, 1, 1, 4, 8, 1, 2, 2)                                                      \
    X(32_32_16_1_1, 32, 32, 16, 1, 1, 1, 2, 4, 2, 2, 2)                                                      \
    X(64_64_8_1_1, 64, 64, 8, 1, 1, 1, 1, 2, 4, 2, 2)                                                        \
    X(64_64_8_1_1_small, 64, 64, 8, 1, 1, 1, 2, 2, 2, 1, 1)                                                  \
    X(32_64_14_1_0, 32, 64, 14, 1, 0, 1, 1, 4, 2, 1, 2)

#define CONV3_INPUT_STRIDED(X)                                                                               \
    X(16_32_32_2_1, 16, 32, 32, 2, 1, 1, 1, 8, 1, 2, 2)                                                      \
    X(32_64_16_2_1, 32, 64, 16, 2, 1, 1, 1, 4, 2, 1, 2)

/* X(name, in, out, side, stride, pad, strips, warps that share a tile's pixels, parts in which the sums
 * leave) of the weights' gradient. */
#define CONV3_WEIGHT(X)                                                                                      \
    X(16_16_32_1_1, 16, 16, 32, 1, 1, 4, 8, 1)                                                               \
    X(16_32_32_2_1, 16, 32, 32, 2, 1, 2, 4, 1)                                                               \
    X(32_32_16_1_1, 32, 32, 16, 1, 1, 2, 2, 1)                                                               \
    X(32_64_16_2_1, 32, 64, 16, 2, 1, 1, 1, 1)                                                               \
    X(64_64_8_1_1, 64, 64, 8, 1, 1, 1, 1, 1)                                                                 \
    X(64_64_8_1_1_small, 64, 64, 8, 1, 1, 1, 1, 2)                                                           \
    X(16_32_28_1_1, 16, 32, 28, 1, 1, 7, 4, 1)                                                               \
    X(32_64_14_1_0, 32, 64, 14, 1, 0, 3, 1, 1)

/* Shared memory in bytes. A pixel takes eight numbers more than it has channels, so that rows fall on other
 * banks. */
#define CONV3_SIDE_OUT(side, stride, pad) (((side) + 2 * (pad)-3) / (stride) + 1)
#define CONV3_PITCH(c)                    ((c) + 8)
#define CONV3_HIGH(rows, stride)          (((rows)-1) * (stride) + 3) /* lines under so many rows of windows */
#define CONV3_LINES(c, wide, high)        (2 * (wide) * (high)*CONV3_PITCH(c))
#define CONV3_FACTOR(c, k)                (2 * 9 * (k)*CONV3_PITCH(c))
#define CONV3_STAGE(k, wm, wn, mb)        (2 * (wm) * (wn) * (mb)*16 * ((k) / (wn) + 8))
#define CONV3_SUMS(k, wm, wn)             (4 * 2 * (k) * (wm) + 8 * 32 * (wm) * (wn))
#define CONV3_SHARED(c, k, wide, high, n, wm, wn, mb)                                                        \
    (CONV3_FACTOR(c, k) + (n)*CONV3_LINES(c, wide, high) + CONV3_STAGE(k, wm, wn, mb) +                      \
     CONV3_SUMS(k, wm, wn) + 4 * 3 * (c))
#define CONV3_SHARED_FORWARD(c, k, side, s, pad, n, strips, wm, wn, mb)                                      \
    CONV3_SHARED(c, k, (side) + 2 * (pad), CONV3_HIGH(CONV3_SIDE_OUT(side, s, pad) / (strips), s), n, wm,    \
                 wn, mb)
#define CONV3_SHARED_INPUT(c, k, side, s, pad, n, strips, wm, wn, mb)                                        \
    CONV3_SHARED(k, c, CONV3_SIDE_OUT(side, s, pad) + 2 * (2 - (pad)),                                       \
                 CONV3_HIGH((side) / (s) / (strips), 1), n, wm, wn, mb)
#define CONV3_WARPS_WEIGHT(c, k, share) ((c) / 16 * ((k) / 16) * (share))
#define CONV3_LARGER(a, b)              ((a) > (b) ? (a) : (b))
#define CONV3_SHARED_WEIGHT(c, k, side, s, pad, strips, share, parts)                                        \
    (CONV3_LARGER(                                                                                           \
         CONV3_LINES(c, (side) + 2 * (pad), CONV3_HIGH(CONV3_SIDE_OUT(side, s, pad) / (strips), s)) +        \
             CONV3_LINES(k, CONV3_SIDE_OUT(side, s, pad), CONV3_SIDE_OUT(side, s, pad) / (strips)),          \
         4 * 9 * 256 * CONV3_WARPS_WEIGHT(c, k, share) / (parts)) +                                          \
     4 * (2 * (c) + 3 * (k)))

/* A batchnorm whose sums a kernel gathers: partial sums of every group of pictures, then the last block of a
 * seat adds them in order and works out the lines. */
struct norm_sums {
    float *lines;    /* [seat][NORM_LINES][c]; NULL: no sums are wanted */
    float *partial;  /* [seat][group][2][c] */
    uint32_t *count; /* [seat]: blocks that are done; ends as it began, at zero */
    uint64_t weight, bias, mean, var;
    double eps, momentum;
};

struct conv3_call {
    const struct seat *seats;
    uint32_t batch;
    const void *x;       /* the input, as it is ...                                      */
    const float *x_norm; /* ... or still to be normalised by these lines, then relu      */
    const void *g, *y;   /* backward: gradient behind the batchnorm, and what went into it */
    const float *y_norm;
    const void *weight; /* bf16, [seat][...]: as prepare_weights leaves them             */
    uint64_t weight_stride;
    uint64_t bias; /* in the parameters' row, or CUDA_NONE                         */
    void *out;     /* forward: y; input's gradient: that gradient                  */
    struct norm_sums norm;
    /* Input's gradient: what else comes back to the input, and how it passes the input's own relu. */
    const void *other;    /* gradient that another reader of the input left, or NULL    */
    const void *z;        /* the input itself, where its relu comes last: > 0 passes    */
    const void *before;   /* what went into the batchnorm that made the input           */
    uint32_t before_relu; /* that batchnorm has the relu                                */
    /* Weights' gradient */
    float *stretches; /* [seat][most_splits][stretch_stride]: a row of gradients for each share of the
                         pictures */
    uint64_t stretch_stride, weight_at;
    uint32_t splits, most_splits;
    uint32_t in; /* channels of the input that are no filling */
};

struct prepare_entry { /* one convolution's weights, [out][in][9] floats in the row */
    uint64_t from;
    uint32_t in, out, in_filled; /* channels; in_filled: with zeros */
    uint32_t first_block;
    uint64_t forward_at, backward_at; /* in bf16 numbers, from the seat's */
};

struct prepare_call {
    const struct seat *seats;
    const struct prepare_entry *entries;
    uint32_t n_entries;
    void *weights;
    uint64_t stride;
};

struct fused_add_call { /* z = relu(normalised y + side) */
    const void *y, *side;
    const float *y_norm, *side_norm; /* side_norm: the side is still to be normalised, then relu; or NULL */
    void *z;
    struct dims dims;
    uint32_t batch, shortcut; /* shortcut: the side has twice the pixels each way and half the channels */
};

struct fused_pool_call { /* pools of normalised tensors */
    const struct seat *seats;
    struct numbers pooled; /* forward: out; backward: its gradient */
    const void *z;         /* global pool: the tensor before it, relu last */
    const void *y;         /* what went into the batchnorm before it */
    void *g;               /* backward: the gradient behind that batchnorm */
    struct dims in;
    uint32_t batch;
    struct norm_sums norm; /* its lines are read, too */
};

struct exam_norm_call { /* one batchnorm of an exam: lines from running statistics */
    const struct seat *seats;
    uint32_t channels;
    struct norm_sums norm;
};

struct stretch_entry { /* a stretch of the gradients' row that is a sum over splits, or zero */
    uint64_t first, size;
    uint32_t splits, first_block;
};

struct stretch_call {
    const struct seat *seats;
    const struct stretch_entry *entries;
    uint32_t n_entries, most_splits;
    const float *stretches; /* [seat][most_splits][stretch_stride] */
    uint64_t stretch_stride;
};

enum { STRETCH_BLOCK = 256, PREPARE_CHANNELS = 16 }; /* floats, and output channels, that one block handles */

#endif
