/* fused.h - networks of 3x3 convolutions and batchnorms in bf16, without a tensor for every op.
 *
 *   y = conv(x)           stored; its sums are gathered as it is written
 *   n = batchnorm(y)      never stored: readers normalise y as they load it
 *   z = relu(n + side)    stored; a shortcut on the side is looked up, not stored
 *
 * Backward, the gradient g behind each batchnorm is stored once, complete (all readers' shares added, the
 * relu passed) with its sums gathered; the gradient before the batchnorm is made from g and y by those who
 * load it. A sum's two branches share one g.
 *
 * A graph is taken whole or not at all: every convolution must be one of conv3.h, followed by a batchnorm
 * that only convolutions, sums and pools read. Other ops are computed by themselves (ops.c) on stored
 * tensors.
 */
#ifndef VECHE_ENGINE_CUDA_FUSED_H
#define VECHE_ENGINE_CUDA_FUSED_H

#include "engine/cuda/launches.h"

struct conv3_row { /* one kernel of conv3.h */
    size_t in, out, side, stride, pad;
    enum cuda_kernel kernel;
    unsigned threads;
    size_t shared_bytes;
    size_t pictures, strips; /* at a time; of a picture */
};

struct fused {
    const struct conv3_row **forward, **input, **weight; /* [op]; NULL where it is no convolution of ours */
    int *norm;                                           /* [op]: of a convolution: the batchnorm behind it */
    int *sum; /* [op]: of a batchnorm without relu: the sum that reads it */
    size_t n_convs, n_norms;
    size_t input_channels;                            /* in which samples are stored */
    size_t weights_at, weight_stride;                 /* prepared weights: bytes; numbers of a seat */
    size_t *forward_at, *backward_at;                 /* [op]: in a seat's prepared weights, numbers */
    size_t sums_at;                                   /* bytes */
    size_t stretches_at, stretch_stride, most_splits; /* bytes; floats */
    size_t prepare_at, stretch_table_at, counts_at;   /* in the tables, bytes */
};

/* Places the tensors and sets p->fused if its graph can be fused; else leaves it as it is. */
fault fused_plan(struct launches *p);

/* The launches before the first step, those of a step (false: the step is not ours), those after the last. */
fault fused_begin(struct launches *p, const struct launch_places *places);
bool fused_step(struct launches *p, const struct launch_places *places, const struct step *s);
fault fused_end(struct launches *p, const struct launch_places *places);

/* The most launches beside those of steps. */
size_t fused_extra_launches(const struct launches *p);

/* Looking round in a graph: the op that made a tensor (NULL: it is the input); how many of its readers are of
 * a kind, the last of them in *which; which input of a sum is a batchnorm without relu (-1: none). */
const struct op *fused_maker(const struct graph *g, int tensor);
int fused_readers(const struct graph *g, int tensor, enum op_kind kind, int *which);
int fused_main_input(const struct graph *g, const struct op *sum);

/* Shares of the pictures in a weights' gradient, by the batch and the size of the weights alone. */
size_t fused_splits(const struct conv3_row *r, size_t batch);

#endif
