/* measure.h - how long each kernel of a list of launches takes, and how fast the device can copy and multiply; read by C
 * and CUDA. */
#ifndef VECHE_ENGINE_CUDA_MEASURE_H
#define VECHE_ENGINE_CUDA_MEASURE_H

/* What a warp does: so many rounds of independent products of 16 x 8 sums. */
enum { PEAK_ROUNDS = 2048, PEAK_CHAINS = 8 };

#ifndef __CUDACC__
#include "engine/cuda/launches.h"

/* The time of every launch of the list for n seats, by kernel, longest first. */
fault measure_kernels(struct launches *p, size_t n, struct engine_work *out);

/* Ceilings: a copy from one half of n_bytes of memory to the other, and multiply-adds in registers. */
fault measure_peaks(struct device *d, bool bf16, CUdeviceptr memory, size_t n_bytes, struct engine_work *out);
#endif

#endif
