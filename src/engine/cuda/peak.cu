/* peak.cu - nothing but multiply-adds, to see how many the device can do. `out` keeps the compiler from leaving them
 * out. */
#include "engine/cuda/measure.h"
#include "engine/cuda/mma.cuh"

extern "C" __global__ void peak_exact(float *out)
{
    float sum[PEAK_CHAINS], x = 1e-3f * threadIdx.x, y = 0.999f;
    for (int k = 0; k < PEAK_CHAINS; k++)
        sum[k] = k;
    for (int i = 0; i < PEAK_ROUNDS; i++)
#pragma unroll
        for (int k = 0; k < PEAK_CHAINS; k++)
            sum[k] = fmaf(sum[k], y, x);
    float all = 0;
    for (int k = 0; k < PEAK_CHAINS; k++)
        all += sum[k];
    if (all == -1)
        *out = all;
}

extern "C" __global__ void peak_tensor(float *out)
{
    float sum[PEAK_CHAINS][4] = {};
    unsigned a[4], one = 0x3f803f80u + threadIdx.x;
    for (int i = 0; i < 4; i++)
        a[i] = one + i;
    for (int i = 0; i < PEAK_ROUNDS; i++)
#pragma unroll
        for (int k = 0; k < PEAK_CHAINS; k++)
            multiply_add(sum[k], a, one, one);
    float all = 0;
    for (int k = 0; k < PEAK_CHAINS; k++)
        all += sum[k][0] + sum[k][1] + sum[k][2] + sum[k][3];
    if (all == -1)
        *out = all;
}
