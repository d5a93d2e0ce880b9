/* conv3_forward.cu - y = conv(x), with x normalised on the way in and the sums for y's batchnorm on the way out. */
#include "engine/cuda/conv3.cuh"

extern __shared__ __align__(16) char conv3_memory[];

template <class S> static __device__ __forceinline__ void forward(const struct conv3_call &c)
{
    room3<S> room(conv3_memory);
    struct seat seat = c.seats[blockIdx.z];
    int warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    size_t first = blockIdx.z * (size_t)c.batch;
    uint32_t groups = groups_of<S>(c.batch);
    struct values_source source = {(const bf16 *)c.x + first * S::SIDE * S::SIDE * S::C, NULL, S::C};
    bf16 *y = (bf16 *)c.out + first * S::PIXELS * S::K;
    const float *bias = c.bias == CUDA_NONE ? NULL : seat.params + c.bias;
    if (c.x_norm) {
        copy_lines(room.lines, c.x_norm, S::C, NORM_SCALE, 2);
        source.lines = room.lines;
    }
    begin3<S>(room, (const bf16 *)c.weight + blockIdx.z * c.weight_stride);
    __syncthreads();
    for (uint32_t group = blockIdx.x; group < groups; group += gridDim.x) {
        struct lane_sums sums;
        clear(&sums);
        fill3<S>(room, source, group * S::GROUP, c.batch);
        __syncthreads();
        for (int m0 = wm * S::MB; m0 < S::TILES; m0 += S::WM * S::MB) {
            float sum[S::MB][S::NT][4] = {};
            unsigned pixels[S::MB];
#pragma unroll
            for (int m = 0; m < S::MB; m++)
                pixels[m] = pixel_of_lane<S>(room, m0 + m);
#pragma unroll
            for (int tap = 0; tap < 9; tap++)
                slide_tap<S, S::MB>(sum, pixels, (tap / 3 * S::WIDE + tap % 3) * S::PITCH,
                                    weights_of_lane<S>(room, wn), tap);
#pragma unroll
            for (int m = 0; m < S::MB; m++) {
                if (m0 + m >= S::TILES)
                    break;
                deliver3<S>(room, sum[m], m0 + m, wn, [&](int p, int k, float *value) {
                    if (group * S::GROUP + p / S::PIXELS >= c.batch)
                        return;
                    for (int i = 0; bias && i < 8; i++)
                        value[i] += bias[k + i];
                    uint4 q = pack(value);
                    store_eight(y, ((size_t)group * S::GROUP * S::PIXELS + p) * S::K + k, q);
                    unpack(q, value);
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        sums.a[i] += value[i];
                        sums.b[i] += value[i] * value[i];
                    }
                });
            }
        }
        if (c.norm.lines)
            gather_sums<S>(room, sums, c.norm.partial + (blockIdx.z * (size_t)groups + group) * 2 * S::K);
        __syncthreads();
    }
    if (!c.norm.lines || !is_last_block(c.norm.count))
        return;
    double *all = (double *)room.sums;
    add_groups(c.norm.partial + blockIdx.z * (size_t)groups * 2 * S::K, groups, S::K, room.scratch, all);
    finish_forward(&c.norm, seat, S::K, (double)c.batch * S::PIXELS, all);
}

#define FORWARD(in, out, side, stride, pad, n, wm, wn, mb)                                                   \
    extern "C" __global__ void __launch_bounds__(32 * wm * wn)                                               \
        conv3_forward_##in##_##out##_##side##_##stride##_##pad(const __grid_constant__ struct conv3_call c)  \
    {                                                                                                        \
        forward<shape3<in, out, side, pad, CONV3_SIDE_OUT(side, stride, pad), stride, n, wm, wn, mb>>(c);    \
    }

CONV3_FORWARD(FORWARD)
