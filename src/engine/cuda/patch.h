/* patch.h - what the host and the kernels of patch.cu and patch_weight.cu agree on; read by C and by CUDA.
 *
 * Those are 3x3 convolutions with stride 1 and a rim of one, of pictures of any size, which they cut into
 * patches: so many lines of so many pixels, and the rim around them. */
#ifndef VECHE_ENGINE_CUDA_PATCH_H
#define VECHE_ENGINE_CUDA_PATCH_H

#include "engine/cuda/call.h"

enum { PATCH_SIDE = 3, PATCH_TAPS = 9, PATCH_RIM = 1, PATCH_LINES = 8 };

/* Pixels of a patch so wide, with its rim. */
#define PATCH_PIXELS(width) (((width) + 2 * PATCH_RIM) * (PATCH_LINES + 2 * PATCH_RIM))

/* patch.cu: a block makes a tile of so many channels; rows of shared memory are pixels, and taps of an
 * output. */
enum { PATCH_THREADS = 128 };
#define PATCH_WIDTH(columns)  (TILE / (columns) / PATCH_LINES)
#define PATCH_SHARED(columns) ((PATCH_PIXELS(PATCH_WIDTH(columns)) + PATCH_TAPS * (columns)) * ROW_BYTES)

/* patch_weight.cu: a block keeps the gradients between so many channels of the input and as many of the
 * output, each warp nine taps of 16 x 16. Shared memory is two patches of both tensors in turn, and at last
 * the warps' sums. */
enum { PATCH_WEIGHT_WARPS = 8, PATCH_WEIGHT_SUMS = 265 /* of a tap: 256, and their padding */ };
#define PATCH_WEIGHT_WIDTH(channels) (256 / (channels))
#define PATCH_WEIGHT_PITCH(channels) ((channels) + LEAD_PAD)
#define PATCH_WEIGHT_BUFFER(channels)                                                                        \
    ((PATCH_PIXELS(PATCH_WEIGHT_WIDTH(channels)) + PATCH_LINES * PATCH_WEIGHT_WIDTH(channels)) *             \
     PATCH_WEIGHT_PITCH(channels))
enum { PATCH_WEIGHT_SHARED = PATCH_WEIGHT_WARPS * PATCH_TAPS * PATCH_WEIGHT_SUMS * 4 }; /* the most of all */

#endif
