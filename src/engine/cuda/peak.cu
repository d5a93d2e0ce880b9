/* peak.cu - nothing but the tensor cores' multiply-adds, as multiply.cuh does them, to see how many the
 * device can do. `out` keeps the compiler from leaving them out. */
#include "engine/cuda/measure.h"
#include "engine/cuda/multiply.cuh"

template <class KIND> static __device__ __forceinline__ void multiply_only(float *out, unsigned one)
{
    float sum[PEAK_CHAINS / 2][2][4] = {};
    const unsigned raw[4] = {one, one + 1, one + 2, one + 3};
    typename KIND::factor x(raw);
    for (int i = 0; i < PEAK_ROUNDS; i++)
#pragma unroll
        for (int k = 0; k < PEAK_CHAINS / 2; k++)
            KIND::add(sum[k], x, x);
    float all = 0;
    for (int k = 0; k < PEAK_CHAINS * 4; k++)
        all += sum[k / 8][k / 4 % 2][k % 4];
    if (all == -1)
        *out = all;
}

extern "C" __global__ void peak_fp32(float *out)
{
    multiply_only<in_fp32>(out, __float_as_uint(1.1f + threadIdx.x));
}

extern "C" __global__ void peak_bf16(float *out)
{
    multiply_only<in_bf16>(out, 0x3f803f80u + threadIdx.x);
}
