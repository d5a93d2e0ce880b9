/* conv3_weight.cu - the gradient of a convolution's weights.
 *
 *   dw[k][c][tap] = sum over pictures and pixels of dy[p][k] x[p under tap][c]
 *
 * A block takes a share of its seat's pictures and leaves its sums in a row of gradients of its own; sum_stretches adds
 * the shares in order. A warp keeps nine taps of 16 x 16 channels; warps that share these take every so-manieth tile of
 * pixels and are added in order.
 */
#include "engine/cuda/conv3.cuh"

extern __shared__ __align__(16) char conv3_memory[];

template <int C, int K, int SIDE, int STRIDE, int PAD, int SHARE> struct weight3 {
    static constexpr int OUT = CONV3_SIDE_OUT(SIDE, STRIDE, PAD), TILES = OUT * OUT / 16;
    static constexpr int CT = C / 16, KT = K / 16, WARPS = CT * KT * SHARE, THREADS = 32 * WARPS;
    static constexpr int P = CONV3_PITCH(C), Q = CONV3_PITCH(K), WIDE = SIDE + 2 * PAD;
    static_assert(OUT * OUT % 16 == 0, "tiles are whole");

    bf16 *x, *dy; /* shared: [WIDE][WIDE][P], [OUT][OUT][Q] */
    float *x_lines, *y_lines;

    __device__ __forceinline__ weight3()
    {
        x = (bf16 *)conv3_memory;
        dy = x + WIDE * WIDE * P;
        x_lines = (float *)(conv3_memory + CONV3_SHARED_WEIGHT(C, K, SIDE, STRIDE, PAD, SHARE)) - 2 * C - 3 * K;
        y_lines = x_lines + 2 * C;
    }

    template <class SOURCE, int V, int N, class PLACE>
    __device__ __forceinline__ void fill(const SOURCE &source, size_t first, PLACE place) const
    {
        constexpr int AHEAD = N >= 2 * THREADS ? 2 : 1;
        for (int i0 = threadIdx.x; i0 < N; i0 += AHEAD * THREADS) {
            typename SOURCE::raw raw[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                if (i0 + a * THREADS < N)
                    raw[a] = source.fetch(first + (size_t)(i0 + a * THREADS) * 8);
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                if (i0 + a * THREADS < N)
                    *(uint4 *)place(i0 + a * THREADS) = source.change(raw[a], (i0 + a * THREADS) % V * 8);
        }
    }

    /* One picture's products. */
    __device__ __forceinline__ void slide(float (*sum)[2][4], int ct, int kt, int share) const
    {
        int lane = threadIdx.x % 32;
        for (int tile = share; tile < TILES; tile += SHARE) {
            unsigned b[4];
            load_matrices_turned(b, shared_at(dy + (tile * 16 + lane % 16) * Q + kt * 16 + lane / 16 * 8));
            int p = tile * 16 + lane % 8 + lane / 16 * 8, row = p / OUT, column = p % OUT;
            unsigned at = shared_at(x + (row * STRIDE * WIDE + column * STRIDE) * P + ct * 16 + lane / 8 % 2 * 8);
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                unsigned a[4];
                load_matrices_turned(a, at + (tap / 3 * WIDE + tap % 3) * P * 2);
                multiply_add(sum[tap][0], a, b[0], b[1]);
                multiply_add(sum[tap][1], a, b[2], b[3]);
            }
        }
    }

    /* Adds the warps that share channels and writes [K][in][9], as the gradients' row has it. Shared memory is
     * [SHARE][K][C][9] now. */
    __device__ __forceinline__ void deliver(const float (*sum)[2][4], int ct, int kt, int share, int in,
                                            float *out) const
    {
        float *all = (float *)conv3_memory;
        int lane = threadIdx.x % 32;
        __syncthreads();
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int c = ct * 16 + lane / 4 + j / 2 * 8, k = kt * 16 + n * 8 + lane % 4 * 2 + j % 2;
                    all[((share * K + k) * C + c) * 9 + tap] = sum[tap][n][j];
                }
        __syncthreads();
        for (int i = threadIdx.x; i < K * C * 9; i += THREADS) {
            float total = 0;
#pragma unroll
            for (int s = 0; s < SHARE; s++)
                total += all[s * K * C * 9 + i];
            if (i / 9 % C < in)
                out[(i / (9 * C) * in + i / 9 % C) * 9 + i % 9] = total;
        }
    }

    __device__ __forceinline__ void run(const struct conv3_call &c) const
    {
        constexpr int XV = C / 8, YV = K / 8;
        int warp = threadIdx.x / 32, share = warp / (CT * KT), ct = warp % CT, kt = warp / CT % KT;
        uint32_t each = (c.batch + c.splits - 1) / c.splits, begin = blockIdx.x * each;
        uint32_t end = min(begin + each, c.batch);
        bf16 *xs = x, *ds = dy;
        struct values_source values = {(const bf16 *)c.x, c.x_norm ? x_lines : NULL, C};
        struct gradient_source gradients = {(const bf16 *)c.g, (const bf16 *)c.y, y_lines, K};
        float sum[9][2][4] = {};
        if (c.x_norm)
            copy_lines(x_lines, c.x_norm, C, NORM_SCALE, 2);
        copy_lines(y_lines, c.y_norm, K, NORM_BACK_G, 3);
        for (int i = threadIdx.x; i < WIDE * WIDE * P / 8; i += THREADS)
            *(uint4 *)(xs + i * 8) = make_uint4(0, 0, 0, 0);
        for (uint32_t n = begin; n < end; n++) {
            size_t picture = blockIdx.z * (size_t)c.batch + n;
            __syncthreads();
            fill<values_source, XV, SIDE * SIDE * XV>(values, picture * SIDE * SIDE * C, [=](int i) {
                int p = i / XV;
                return xs + ((p / SIDE + PAD) * WIDE + p % SIDE + PAD) * P + i % XV * 8;
            });
            fill<gradient_source, YV, OUT * OUT * YV>(gradients, picture * OUT * OUT * K,
                                                      [=](int i) { return ds + i / YV * Q + i % YV * 8; });
            __syncthreads();
            slide(sum, ct, kt, share);
        }
        deliver(sum, ct, kt, share, c.in,
                c.stretches + (blockIdx.z * (size_t)c.most_splits + blockIdx.x) * c.stretch_stride + c.weight_at);
    }
};

#define WEIGHT(in, out, side, stride, pad, share)                                                            \
    extern "C" __global__ void __launch_bounds__(32 * CONV3_WARPS_WEIGHT(in, out, share), \
                                                 CONV3_WARPS_WEIGHT(in, out, share) > 8 ? 1 : 2)                    \
        conv3_weight_##in##_##out##_##side##_##stride##_##pad(const __grid_constant__ struct conv3_call c)   \
    {                                                                                                        \
        weight3<in, out, side, stride, pad, share>().run(c);                                                 \
    }

CONV3_WEIGHT(WEIGHT)
