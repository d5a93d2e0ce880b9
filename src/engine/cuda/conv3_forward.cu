/* conv3_forward.cu - y = conv(x), with x normalised on the way in and the sums for y's batchnorm on the way out. */
#include "engine/cuda/conv3.cuh"

SHARED_MEMORY(conv3_memory);

/* Stores eight channels of y and counts them. */
template <class S> struct output3 {
    bf16 *y;
    const float *bias; /* or NULL */
    __device__ __forceinline__ void operator()(size_t pixel, int channel, uint4 q, struct lane_sums *sums) const
    {
        float f[8];
        unpack(q, f);
        if (bias) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                f[i] += bias[channel + i];
            q = pack(f);
            unpack(q, f);
        }
        store_eight(y, pixel * S::K + channel, q);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sums->of[i] += f[i];
            sums->of[8 + i] += f[i] * f[i];
        }
    }
};

template <class S> static __device__ __forceinline__ void forward(const struct conv3_call &c)
{
    typedef typename S::lines L;
    room3<S> room(conv3_memory);
    struct seat seat = c.seats[blockIdx.z];
    int warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    size_t first = blockIdx.z * (size_t)c.batch;
    uint32_t groups = groups_of<S>(c.batch), group = blockIdx.x;
    struct values_source source = {(const bf16 *)c.x + first * S::SIDE * S::SIDE * S::C, NULL, S::C};
    output3<S> output = {(bf16 *)c.out + first * S::OUT * S::OUT * S::K,
                         c.bias == CUDA_NONE ? NULL : seat.params + c.bias};
    values_source::raw raw[L::PER];
    fetch3<L>(raw, source, first_of<S>(group), group % S::STRIPS, c.batch);
    if (c.x_norm) {
        copy_lines(room.lines, c.x_norm, S::C, NORM_SCALE, 2);
        source.lines = room.lines;
    }
    begin3<S>(room, (const bf16 *)c.weight + blockIdx.z * c.weight_stride);
    __syncthreads();
    for (; group < groups; group += gridDim.x) {
        struct lane_sums sums;
        uint32_t next = group + gridDim.x;
        clear(&sums);
        fill3<L>(room.pictures, raw, source, first_of<S>(group), group % S::STRIPS, c.batch);
        __syncthreads();
        if (next < groups)
            fetch3<L>(raw, source, first_of<S>(next), next % S::STRIPS, c.batch);
        for (int round = wm; round < S::ROUNDS; round += S::WM) {
            float sum[S::MB][S::NT][4] = {};
            slide_round<S>(room, sum, round, wn);
            deliver3<S>(room, sum, round, [&](int m, int turn, uint4 q) {
                uint32_t p = group * S::GROUP * S::PIXELS + pixel_in_turn<S>(tile_of<S>(round, m), turn);
                if (S::GROUP == 1 || p < c.batch * S::PIXELS)
                    output(p, channel_of_lane<S>(wn), q, &sums);
            });
        }
        if (c.norm.lines)
            gather_sums<S>(room, sums, c.norm.partial + (blockIdx.z * (size_t)groups + group) * 2 * S::K);
        __syncthreads();
    }
    if (!c.norm.lines || !is_last_block(c.norm.count))
        return;
    double *all = (double *)room.sums;
    add_groups(c.norm.partial + blockIdx.z * (size_t)groups * 2 * S::K, groups, S::K, room.scratch, all);
    finish_forward(&c.norm, seat, S::K, (double)c.batch * S::OUT * S::OUT, all);
}

#define FORWARD(name, in, out, side, stride, pad, n, strips, wm, wn, mb, blocks)                             \
    extern "C" __global__ void __launch_bounds__(32 * wm * wn, blocks)                                            \
        conv3_forward_##name(const __grid_constant__ struct conv3_call c)                                    \
    {                                                                                                        \
        forward<shape3<in, out, side, pad, CONV3_SIDE_OUT(side, stride, pad), stride, n, strips, wm, wn, mb>>(c); \
    }

CONV3_FORWARD(FORWARD)
