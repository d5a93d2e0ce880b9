/* conv3_weight.cu - the gradient of a convolution's weights.
 *
 *   dw[k][c][tap] = sum over pictures and pixels of dy[p][k] x[p under tap][c]
 *
 * A block takes a share of its seat's pictures, strip by strip, and leaves its sums in a row of gradients of its own;
 * sum_stretches adds the shares in order. A warp keeps nine taps of 16 x 16 channels; warps that share these take every
 * so-manieth tile of pixels and are added in order.
 */
#include "engine/cuda/conv3.cuh"

SHARED_MEMORY(conv3_memory);

template <int C, int K, int SIDE, int STRIDE, int PAD, int STRIPS, int SHARE, int PARTS> struct weight3 {
    static constexpr int OUT = CONV3_SIDE_OUT(SIDE, STRIDE, PAD), ROWS = OUT / STRIPS, TILES = ROWS * OUT / 16;
    static constexpr int CT = C / 16, KT = K / 16, WARPS = CT * KT * SHARE, THREADS = 32 * WARPS;
    typedef lines3<C, SIDE, PAD, ROWS, STRIDE, 1, STRIPS, THREADS> X;
    static constexpr int Q = CONV3_PITCH(K), YV = K / 8, YN = ROWS * OUT * YV, YPER = (YN + THREADS - 1) / THREADS;
    static constexpr int KP = K / PARTS; /* output channels that leave at a time */
    static_assert(OUT % STRIPS == 0 && ROWS * OUT % 16 == 0, "strips and tiles are whole");
    static_assert(KP % 16 == 0, "a warp's channels leave together");

    bf16 *x, *dy; /* shared: [HIGH][WIDE][PITCH], [ROWS][OUT][Q] */
    float *x_lines, *y_lines;

    __device__ __forceinline__ weight3()
    {
        x = (bf16 *)conv3_memory;
        dy = x + X::WIDE * X::HIGH * X::PITCH;
        x_lines = (float *)(conv3_memory + CONV3_SHARED_WEIGHT(C, K, SIDE, STRIDE, PAD, STRIPS, SHARE, PARTS)) -
                  2 * C - 3 * K;
        y_lines = x_lines + 2 * C;
    }

    __device__ __forceinline__ void fetch_gradient(gradient_source::raw *raw, const gradient_source &source,
                                                   size_t strip) const
    {
#pragma unroll
        for (int a = 0; a < YPER; a++) {
            int i = threadIdx.x + a * THREADS;
            if (YN % THREADS == 0 || i < YN)
                raw[a] = source.fetch((strip * YN + i) * 8);
        }
    }

    __device__ __forceinline__ void fill_gradient(const gradient_source::raw *raw, const gradient_source &source) const
    {
#pragma unroll
        for (int a = 0; a < YPER; a++) {
            int i = threadIdx.x + a * THREADS;
            if (YN % THREADS == 0 || i < YN)
                *(uint4 *)(dy + i / YV * Q + i % YV * 8) = source.change(raw[a], i % YV * 8);
        }
    }

    /* One strip's products. */
    __device__ __forceinline__ void slide(float (*sum)[2][4], int ct, int kt, int share) const
    {
        int lane = threadIdx.x % 32;
        for (int tile = share; tile < TILES; tile += SHARE) {
            unsigned a[2][4], b[4];
            int p = tile * 16 + lane % 8 + lane / 16 * 8, row = p / OUT, column = p % OUT;
            unsigned at = shared_at(x + (row * STRIDE * X::WIDE + column * STRIDE) * X::PITCH + ct * 16 +
                                    lane / 8 % 2 * 8);
            load_matrices_turned(b, shared_at(dy + (tile * 16 + lane % 16) * Q + kt * 16 + lane / 16 * 8));
            load_matrices_turned(a[0], at);
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                if (tap < 8)
                    load_matrices_turned(a[(tap + 1) % 2],
                                         at + ((tap + 1) / 3 * X::WIDE + (tap + 1) % 3) * X::PITCH * 2);
                multiply_add(sum[tap][0], a[tap % 2], b[0], b[1]);
                multiply_add(sum[tap][1], a[tap % 2], b[2], b[3]);
            }
        }
    }

    /* Adds the warps that share channels and writes [K][in][9], as the gradients' row has it, a part of the K at a
     * time. Shared memory is [SHARE][KP][C][9] now. */
    __device__ __forceinline__ void deliver(const float (*sum)[2][4], int ct, int kt, int share, int in,
                                            float *out) const
    {
        for (int part = 0; part < PARTS; part++) {
            __syncthreads();
            if (PARTS == 1 || kt * 16 / KP == part)
                put(sum, ct, kt - part * (KP / 16), share);
            __syncthreads();
            add_shares(in, out + (size_t)part * KP * in * 9);
        }
    }

    __device__ __forceinline__ void put(const float (*sum)[2][4], int ct, int kt, int share) const
    {
        float *all = (float *)conv3_memory;
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int c = ct * 16 + lane / 4 + j / 2 * 8, k = kt * 16 + n * 8 + lane % 4 * 2 + j % 2;
                    all[((share * KP + k) * C + c) * 9 + tap] = sum[tap][n][j];
                }
    }

    __device__ __forceinline__ void add_shares(int in, float *out) const
    {
        const float *all = (const float *)conv3_memory;
        for (int i = threadIdx.x; i < KP * C * 9; i += THREADS) {
            float total = 0;
#pragma unroll
            for (int s = 0; s < SHARE; s++)
                total += all[s * KP * C * 9 + i];
            if (i / 9 % C < in)
                out[(i / (9 * C) * in + i / 9 % C) * 9 + i % 9] = total;
        }
    }

    __device__ __forceinline__ void run(const struct conv3_call &c) const
    {
        int warp = threadIdx.x / 32, share = warp / (CT * KT), ct = warp % CT, kt = warp / CT % KT;
        uint32_t each = (c.batch + c.splits - 1) / c.splits, n = blockIdx.x * each * STRIPS;
        uint32_t end = min((blockIdx.x + 1) * each, c.batch) * STRIPS; /* strips */
        size_t first = blockIdx.z * (size_t)c.batch;
        struct values_source values = {(const bf16 *)c.x + first * SIDE * SIDE * C, c.x_norm ? x_lines : NULL, C};
        struct gradient_source gradients = {(const bf16 *)c.g + first * OUT * OUT * K,
                                            (const bf16 *)c.y + first * OUT * OUT * K, y_lines, K};
        values_source::raw x_raw[X::PER];
        gradient_source::raw y_raw[YPER];
        float sum[9][2][4] = {};
        if (n < end) {
            fetch3<X>(x_raw, values, n / STRIPS, n % STRIPS, c.batch);
            fetch_gradient(y_raw, gradients, n);
        }
        if (c.x_norm)
            copy_lines(x_lines, c.x_norm, C, NORM_SCALE, 2);
        copy_lines(y_lines, c.y_norm, K, NORM_BACK_G, 3);
        for (int i = threadIdx.x; i < X::WIDE * X::HIGH * X::PITCH / 8; i += THREADS)
            *(uint4 *)(x + i * 8) = make_uint4(0, 0, 0, 0);
        for (; n < end; n++) {
            __syncthreads();
            fill3<X>(x, x_raw, values, n / STRIPS, n % STRIPS, c.batch);
            fill_gradient(y_raw, gradients);
            __syncthreads();
            if (n + 1 < end) {
                fetch3<X>(x_raw, values, (n + 1) / STRIPS, (n + 1) % STRIPS, c.batch);
                fetch_gradient(y_raw, gradients, n + 1);
            }
            slide(sum, ct, kt, share);
        }
        deliver(sum, ct, kt, share, c.in,
                c.stretches + (blockIdx.z * (size_t)c.most_splits + blockIdx.x) * c.stretch_stride + c.weight_at);
    }
};

#define WEIGHT(name, in, out, side, stride, pad, strips, share, parts)                                       \
    extern "C" __global__ void __launch_bounds__(32 * CONV3_WARPS_WEIGHT(in, out, share),                    \
                                                 CONV3_WARPS_WEIGHT(in, out, share) > 8 ? 1 : 2)             \
        conv3_weight_##name(const __grid_constant__ struct conv3_call c)                                     \
    {                                                                                                        \
        weight3<in, out, side, stride, pad, strips, share, parts>().run(c);                                  \
    }

CONV3_WEIGHT(WEIGHT)
