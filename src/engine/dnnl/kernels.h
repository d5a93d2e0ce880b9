/* kernels.h - what several ops' files share. */
#ifndef VECHE_ENGINE_DNNL_KERNELS_H
#define VECHE_ENGINE_DNNL_KERNELS_H

#include "engine/dnnl/program.h"

/* to = a + b, over the samples of a chunk; `to` may be one of them. */
void add_two(const struct layout *l, size_t n_samples, const void *a, const void *b, void *to);

/* Jobs of an add that has no batchnorm fused into it; the second masks dy into its tensor's own buffer. */
void add_chunk(const struct task *t, const struct op_unit *u);
void relu_back_chunk(const struct task *t, const struct op_unit *u);

/* Of a batchnorm, for the convolutions that do a part of its work: y = scale x + shift ... */
struct norm_vectors {
    const float *scale, *shift; /* one of each for every channel */
};
struct norm_vectors norm_vectors(const struct task *t, const struct op_unit *norm);
/* ... and this chunk's sums of x and x^2, cleared. */
struct norm_sums {
    double *first, *second;
};
struct norm_sums norm_clear_sums(const struct task *t, const struct op_unit *norm);

/* Of a batchnorm, as a convolution of our own would do it that is in another part: the chunk's sums, and y. */
void conv_sums_chunk(const struct task *t, const struct op_unit *norm);
void conv_load_chunk(const struct task *t, const struct op_unit *norm);

/* Jobs of an add into which the end of a batchnorm is fused: both forward in one pass, and both backward up
 * to the batchnorm's sums, which are finished after the phase with the batchnorm's own unit. */
void norm_apply_add_chunk(const struct task *t, const struct op_unit *u);
void norm_back_add_chunk(const struct task *t, const struct op_unit *u);
void norm_finish_back(const struct task *t, const struct op_unit *norm);

#endif
