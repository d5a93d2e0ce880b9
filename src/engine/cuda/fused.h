/* fused.h - networks of 3x3 convolutions and batchnorms in bf16, without a tensor for every op.
 *
 *   y = conv(x)           stored; its sums are gathered as it is written
 *   n = batchnorm(y)      never stored: readers normalise y as they load it
 *   z = relu(n + side)    stored; a shortcut on the side is looked up, not stored
 *
 * Backward, the gradient g behind each batchnorm is stored once, complete (all readers' shares added, the relu passed)
 * with its sums gathered; the gradient before the batchnorm is made from g and y by those who load it. A sum's two
 * branches share one g.
 *
 * A graph is taken whole or not at all: every convolution must be one of conv3.h, followed by a batchnorm that only
 * convolutions, sums and pools read. Other ops are computed by themselves (ops.c) on stored tensors.
 */
#ifndef VECHE_ENGINE_CUDA_FUSED_H
#define VECHE_ENGINE_CUDA_FUSED_H

#include "engine/cuda/pass.h"

/* Places the pass's tensors and sets p->fused if its graph can be fused; else leaves it as it is. */
fault fused_plan(struct pass *p);

/* The launches before the first step, those of a step (false: the step is not ours), those after the last. */
fault fused_begin(struct pass *p, const struct pass_places *places);
bool fused_step(struct pass *p, const struct pass_places *places, const struct step *s);
fault fused_end(struct pass *p, const struct pass_places *places);

/* Channels in which the samples are stored. */
size_t fused_input_channels(const struct pass *p);

/* The most launches beside those of steps. */
size_t fused_extra_launches(const struct pass *p);

#endif
