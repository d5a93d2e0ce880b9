/* kernels.h - what several ops' files share. */
#ifndef VECHE_ENGINE_DNNL_KERNELS_H
#define VECHE_ENGINE_DNNL_KERNELS_H

#include "engine/dnnl/program.h"

/* to += from, over the samples of a chunk. */
void add_to(const struct layout *l, size_t n_samples, const void *from, void *to);

/* Jobs of an add that has no batchnorm fused into it. */
void add_chunk(const struct task *t, const struct unit *u);
void add_back_chunk(const struct task *t, const struct unit *u);

#endif
