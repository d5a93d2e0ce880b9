/* rounded.h - the engine `ref` with numbers rounded to bf16 wherever the engine `cuda` rounds in that
 * precision, and nearly so the engine `dnnl`.
 *
 * Against `ref` itself a network with relus or max pools cannot be held tightly in bf16: rounding carries
 * some numbers over a kink, and their gradients go another way. This twin stands on the same side of the
 * kinks, up to the rare number that another order of summation carries to the next bf16 value.
 */
#ifndef VECHE_TESTS_ROUNDED_H
#define VECHE_TESTS_ROUNDED_H

#include "engine/engine.h"

extern const struct engine_ops engine_rounded;

/* The nearest number of bf16, of two the even one. */
float rounded(float x);

#endif
