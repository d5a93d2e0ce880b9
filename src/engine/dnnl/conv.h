/* conv.h - a convolution over one chunk of samples, whoever computes it. */
#ifndef VECHE_ENGINE_DNNL_CONV_H
#define VECHE_ENGINE_DNNL_CONV_H

#include "engine/dnnl/program.h"

/* The shape of a convolution over n samples, with layouts as the program has arranged the whole. */
struct conv_shape conv_shape_of(const struct program *p, const struct op *op, size_t n);

#endif
