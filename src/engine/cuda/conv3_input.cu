/* conv3_input.cu - the gradient of a convolution's input.
 *
 *   dx[p][c] = sum over taps and k of dy[p above tap][k] w[k][c][tap]
 *
 * dy is made on the way in from the gradient behind the batchnorm that follows. On the way out dx is completed: what
 * other readers of x sent back is added, x's own relu lets it pass or not, and the sums for the batchnorm that made x
 * are gathered.
 */
#include "engine/cuda/conv3.cuh"

extern __shared__ __align__(16) char conv3_memory[];

/* Completes and stores eight channels of dx. */
template <int C> struct completion {
    const bf16 *other, *z, *before;
    bf16 *out;
    const float *scale; /* [2][C] of the batchnorm before, in device memory */
    bool relu;
    __device__ __forceinline__ completion(const struct conv3_call &c, size_t first, size_t first_other)
    {
        other = c.other ? (const bf16 *)c.other + first_other : NULL;
        z = c.z ? (const bf16 *)c.z + first : NULL;
        before = c.before ? (const bf16 *)c.before + first : NULL;
        out = (bf16 *)c.out + first;
        scale = c.norm.lines + (blockIdx.z * (size_t)NORM_LINES + NORM_SCALE) * C;
        relu = c.before_relu;
    }
    /* `from`: where what comes from other readers lies, or -1 */
    __device__ __forceinline__ void operator()(size_t at, long long from, int channel, float *value,
                                               struct lane_sums *sums) const
    {
        float f[8];
        uint4 y = before ? load_eight(before, at) : make_uint4(0, 0, 0, 0);
        if (other && from >= 0) {
            unpack(load_eight(other, (size_t)from), f);
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[i] += f[i];
        }
        if (z) {
            unpack(load_eight(z, at), f);
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[i] = f[i] > 0 ? value[i] : 0;
        }
        unpack(y, f);
        if (relu) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[i] = fmaf(f[i], scale[channel + i], scale[C + channel + i]) > 0 ? value[i] : 0;
        }
        uint4 q = pack(value);
        store_eight(out, at, q);
        unpack(q, value);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sums->a[i] += value[i];
            sums->b[i] += value[i] * f[i];
        }
    }
};

template <class S> static __device__ __forceinline__ gradient_source start(const struct conv3_call &c, room3<S> &room)
{
    size_t first = blockIdx.z * (size_t)c.batch * S::SIDE * S::SIDE * S::C;
    struct gradient_source source = {(const bf16 *)c.g + first, (const bf16 *)c.y + first, room.lines, S::C};
    copy_lines(room.lines, c.y_norm, S::C, NORM_BACK_G, 3);
    begin3<S>(room, (const bf16 *)c.weight + blockIdx.z * c.weight_stride);
    __syncthreads();
    return source;
}

/* The sums over one group, if they are wanted. `side` of the input. */
template <class S>
static __device__ __forceinline__ void keep_sums(const struct conv3_call &c, const room3<S> &room,
                                                 const struct lane_sums &sums, uint32_t group)
{
    uint32_t groups = groups_of<S>(c.batch);
    if (c.norm.lines)
        gather_sums<S>(room, sums, c.norm.partial + (blockIdx.z * (size_t)groups + group) * 2 * S::K);
    __syncthreads();
}

template <class S>
static __device__ __forceinline__ void finish(const struct conv3_call &c, const room3<S> &room, double pixels)
{
    uint32_t groups = groups_of<S>(c.batch);
    if (!c.norm.lines || !is_last_block(c.norm.count))
        return;
    double *all = (double *)room.sums;
    add_groups(c.norm.partial + blockIdx.z * (size_t)groups * 2 * S::K, groups, S::K, room.scratch, all);
    finish_backward(&c.norm, c.seats[blockIdx.z], S::K, (double)c.batch * pixels, all);
}

/* Stride 1: a convolution of dy with the weights turned round (prepare_weights). */
template <class S> static __device__ __forceinline__ void input_gradient(const struct conv3_call &c)
{
    room3<S> room(conv3_memory);
    int warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    struct gradient_source source = start<S>(c, room);
    size_t first = blockIdx.z * (size_t)c.batch * S::PIXELS * S::K;
    completion<S::K> complete(c, first, first);
    for (uint32_t group = blockIdx.x; group < groups_of<S>(c.batch); group += gridDim.x) {
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
                    size_t at = ((size_t)group * S::GROUP * S::PIXELS + p) * S::K + k;
                    if (group * S::GROUP + p / S::PIXELS < c.batch)
                        complete(at, (long long)at, k, value, &sums);
                });
            }
        }
        keep_sums<S>(c, room, sums, group);
    }
    finish<S>(c, room, S::PIXELS);
}

/* Stride 2: the input's pixels fall into four classes by the parity of row and column, and each class meets its own
 * taps: an even row the middle one, an odd row the outer two. A shortcut beside the convolution sent something to the
 * class (even, even) alone, on half of its twice as many channels. */
template <class S> static __device__ __forceinline__ void input_gradient_strided(const struct conv3_call &c)
{
    room3<S> room(conv3_memory);
    constexpr int SIDE = 2 * S::OUT; /* of the input; S::OUT is that of a class */
    int warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    struct gradient_source source = start<S>(c, room);
    size_t first = blockIdx.z * (size_t)c.batch * SIDE * SIDE * S::K;
    completion<S::K> complete(c, first, first / 2);
    for (uint32_t group = blockIdx.x; group < groups_of<S>(c.batch); group += gridDim.x) {
        struct lane_sums sums;
        clear(&sums);
        fill3<S>(room, source, group * S::GROUP, c.batch);
        __syncthreads();
#pragma unroll
        for (int parity = 0; parity < 4; parity++) {
            const int py = parity / 2, px = parity % 2;
            for (int m0 = wm * S::MB; m0 < S::TILES; m0 += S::WM * S::MB) {
                float sum[S::MB][S::NT][4] = {};
                unsigned pixels[S::MB];
#pragma unroll
                for (int m = 0; m < S::MB; m++)
                    pixels[m] = pixel_of_lane<S>(room, m0 + m);
#pragma unroll
                for (int ky = 0; ky < 3; ky++)
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) {
                        if ((ky != 1) != py || (kx != 1) != px)
                            continue;
                        const int row = 1 + (ky == 0), column = 1 + (kx == 0); /* counted from the rim */
                        slide_tap<S, S::MB>(sum, pixels, (row * S::WIDE + column) * S::PITCH,
                                            weights_of_lane<S>(room, wn), 8 - (ky * 3 + kx));
                    }
#pragma unroll
                for (int m = 0; m < S::MB; m++) {
                    if (m0 + m >= S::TILES)
                        break;
                    deliver3<S>(room, sum[m], m0 + m, wn, [&](int p, int k, float *value) {
                        size_t n = (size_t)group * S::GROUP + p / S::PIXELS;
                        int y = p / S::OUT % S::OUT, x = p % S::OUT;
                        size_t at = ((n * SIDE + 2 * y + py) * SIDE + 2 * x + px) * S::K + k;
                        long long from = ((n * S::OUT + y) * S::OUT + x) * 2 * S::K + S::K / 2 + k;
                        if (n < c.batch)
                            complete(at, parity == 0 ? from : -1, k, value, &sums);
                    });
                }
            }
        }
        keep_sums<S>(c, room, sums, group);
    }
    finish<S>(c, room, SIDE * SIDE);
}

#define INPUT(in, out, side, stride, pad, n, wm, wn, mb)                                                     \
    extern "C" __global__ void __launch_bounds__(32 * wm * wn)                                               \
        conv3_input_##in##_##out##_##side##_##stride##_##pad(const __grid_constant__ struct conv3_call c)    \
    {                                                                                                        \
        input_gradient<shape3<out, in, CONV3_SIDE_OUT(side, stride, pad), 2 - pad, side, 1, n, wm, wn, mb>>(c); \
    }
#define INPUT_STRIDED(in, out, side, stride, pad, n, wm, wn, mb)                                             \
    extern "C" __global__ void __launch_bounds__(32 * wm * wn)                                               \
        conv3_input_##in##_##out##_##side##_##stride##_##pad(const __grid_constant__ struct conv3_call c)    \
    {                                                                                                        \
        input_gradient_strided<shape3<out, in, side / 2, 1, side / 2, 1, n, wm, wn, mb>>(c);                 \
    }

CONV3_INPUT(INPUT)
CONV3_INPUT_STRIDED(INPUT_STRIDED)
