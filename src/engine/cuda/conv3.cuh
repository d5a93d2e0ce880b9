/* conv3.cuh - pictures in shared memory, slid over by 3x3 windows on the tensor cores.
 *
 *   fill:     one group of pictures into shared memory, changed on the way (normalised, say), with a rim of zeros
 *   slide:    out[p][k] = sum over taps and c of picture[p under tap][c] w[tap][k][c], 16 pixels x 8 channels a product
 *   deliver:  sums go through shared memory, so that each lane has eight channels of a pixel in its hands
 *
 * A block keeps the weights of its seat and takes one group of pictures after another.
 */
#ifndef VECHE_ENGINE_CUDA_CONV3_CUH
#define VECHE_ENGINE_CUDA_CONV3_CUH

#include "engine/cuda/mma.cuh"
#include "engine/cuda/sums.cuh"

/* C channels are loaded and K delivered; SIDE of the loaded pictures, RIM around them, OUT the side of what comes out. */
template <int C_, int K_, int SIDE_, int RIM_, int OUT_, int STRIDE_, int GROUP_, int WM_, int WN_, int MB_>
struct shape3 {
    static constexpr int C = C_, K = K_, SIDE = SIDE_, RIM = RIM_, OUT = OUT_, STRIDE = STRIDE_;
    static constexpr int GROUP = GROUP_;                   /* pictures at a time */
    static constexpr int WM = WM_, WN = WN_, MB = MB_;     /* warps along pixels and channels, tiles at a time */
    static constexpr int WARPS = WM * WN, THREADS = 32 * WARPS;
    static constexpr int PITCH = CONV3_PITCH(C), WIDE = SIDE + 2 * RIM; /* of a pixel; of a line */
    static constexpr int PIXELS = OUT * OUT, TILES = (GROUP * PIXELS + 15) / 16;
    static constexpr int NW = K / WN, NT = NW / 8;         /* channels of a warp, and in products */
    static constexpr int EIGHTS = NW / 8;
};

/* The block's shared memory. */
template <class S> struct room3 {
    bf16 *weights;   /* [9][K][PITCH] */
    bf16 *pictures;  /* [GROUP][WIDE][WIDE][PITCH] */
    float *stage;    /* of this warp: [16][NW + 4] */
    double *scratch; /* [THREADS] */
    float *sums;     /* [WM][2][K]; as double: [2][K] */
    float *lines;    /* [3][C] */
    __device__ __forceinline__ room3(char *memory)
    {
        weights = (bf16 *)memory;
        memory += CONV3_FACTOR(S::C, S::K);
        pictures = (bf16 *)memory;
        memory += S::GROUP * CONV3_PICTURE(S::C, S::SIDE, S::RIM);
        stage = (float *)memory + threadIdx.x / 32 * 16 * (S::NW + 4);
        memory += CONV3_STAGE(S::K, S::WM, S::WN);
        scratch = (double *)memory;
        sums = (float *)(scratch + S::THREADS);
        lines = sums + 2 * S::K * S::WM;
    }
};

/* Weights of this seat, and zeros wherever pictures will have their rim. */
template <class S> static __device__ __forceinline__ void begin3(const room3<S> &room, const bf16 *weights)
{
    constexpr int V = S::C / 8;
    for (int i = threadIdx.x; i < 9 * S::K * V; i += S::THREADS)
        *(uint4 *)(room.weights + i / V * S::PITCH + i % V * 8) = *(const uint4 *)(weights + i * 8);
    for (int i = threadIdx.x; i < S::GROUP * S::WIDE * S::WIDE * S::PITCH / 8; i += S::THREADS)
        *(uint4 *)(room.pictures + i * 8) = make_uint4(0, 0, 0, 0);
}

/* Where vector i of a group of pictures without rim goes in shared memory. */
template <class S> static __device__ __forceinline__ int inside3(int i)
{
    constexpr int V = S::C / 8;
    int pixel = i / V, n = pixel / (S::SIDE * S::SIDE), y = pixel / S::SIDE % S::SIDE, x = pixel % S::SIDE;
    return ((n * S::WIDE + y + S::RIM) * S::WIDE + x + S::RIM) * S::PITCH + i % V * 8;
}

/* The group's pictures; `source.fetch(i)` reads eight numbers, `source.change(raw, channel)` makes them what is wanted.
 * `first` is the group's first picture; those from `batch` on are zeros. */
template <class S, class SOURCE>
static __device__ __forceinline__ void fill3(const room3<S> &room, const SOURCE &source, uint32_t first,
                                             uint32_t batch)
{
    constexpr int V = S::C / 8, EACH = S::SIDE * S::SIDE * V, N = S::GROUP * EACH, AHEAD = 4;
    for (int i0 = threadIdx.x; i0 < N; i0 += AHEAD * S::THREADS) {
        typename SOURCE::raw raw[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            int i = i0 + a * S::THREADS;
            if (i < N && first + i / EACH < batch)
                raw[a] = source.fetch((size_t)first * EACH * 8 + (size_t)i * 8);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            int i = i0 + a * S::THREADS;
            if (i < N)
                *(uint4 *)(room.pictures + inside3<S>(i)) =
                    first + i / EACH < batch ? source.change(raw[a], i % V * 8) : make_uint4(0, 0, 0, 0);
        }
    }
}

/* What a lane names when it loads pixels (rows of the first factor) and weights (columns of the second). */
template <class S> static __device__ __forceinline__ unsigned weights_of_lane(const room3<S> &room, int wn)
{
    int lane = threadIdx.x % 32;
    return shared_at(room.weights + (wn * S::NW + lane % 8 + lane / 16 * 8) * S::PITCH + lane / 8 % 2 * 8);
}

template <class S> static __device__ __forceinline__ unsigned pixel_of_lane(const room3<S> &room, int tile)
{
    int lane = threadIdx.x % 32, p = min(tile * 16 + lane % 16, S::GROUP * S::PIXELS - 1);
    int n = p / S::PIXELS, y = p / S::OUT % S::OUT, x = p % S::OUT;
    return shared_at(room.pictures + ((n * S::WIDE + y * S::STRIDE) * S::WIDE + x * S::STRIDE) * S::PITCH +
                     lane / 16 * 8);
}

/* The products of one tap: MB tiles of pixels, shifted by `shift` numbers, times the tap's weights. */
template <class S, int MB>
static __device__ __forceinline__ void slide_tap(float (*sum)[S::NT][4], const unsigned *pixels, int shift,
                                                 unsigned weights, int tap)
{
#pragma unroll
    for (int c = 0; c < S::C; c += 16) {
        unsigned b[S::NT / 2][4];
#pragma unroll
        for (int n = 0; n < S::NT / 2; n++)
            load_matrices(b[n], weights + ((tap * S::K + n * 16) * S::PITCH + c) * 2);
#pragma unroll
        for (int m = 0; m < MB; m++) {
            unsigned a[4];
            load_matrices(a, pixels[m] + (shift + c) * 2);
#pragma unroll
            for (int n = 0; n < S::NT; n++)
                multiply_add(sum[m][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
    }
}

/* One tile's sums, eight channels of a pixel at a time: taker(pixel of the group, channel, values). */
template <class S, class TAKER>
static __device__ __forceinline__ void deliver3(const room3<S> &room, const float (*sum)[4], int tile, int wn,
                                                TAKER taker)
{
    constexpr int PITCH = S::NW + 4;
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < S::NT; n++) {
        float *at = room.stage + lane / 4 * PITCH + n * 8 + lane % 4 * 2;
        *(float2 *)at = make_float2(sum[n][0], sum[n][1]);
        *(float2 *)(at + 8 * PITCH) = make_float2(sum[n][2], sum[n][3]);
    }
    __syncwarp();
#pragma unroll
    for (int q = lane; q < 16 * S::EIGHTS; q += 32) {
        int p = tile * 16 + q / S::EIGHTS, channel = q % S::EIGHTS * 8;
        const float *at = room.stage + q / S::EIGHTS * PITCH + channel;
        float4 low = *(const float4 *)at, high = *(const float4 *)(at + 4);
        float value[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        if (p < S::GROUP * S::PIXELS)
            taker(p, wn * S::NW + channel, value);
    }
    __syncwarp();
}

/* A lane's sums over the pixels it was handed; its channels are the same all along. */
struct lane_sums {
    float a[8], b[8];
};

static __device__ __forceinline__ void clear(struct lane_sums *s)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        s->a[i] = s->b[i] = 0;
}

/* The block's sums over one group into its place: lanes, then warps, in a fixed order. */
template <class S>
static __device__ __forceinline__ void gather_sums(const room3<S> &room, struct lane_sums s, float *place)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
#pragma unroll
    for (int i = 0; i < 8; i++)
        for (int o = S::EIGHTS; o < 32; o *= 2) {
            s.a[i] += __shfl_xor_sync(~0u, s.a[i], o);
            s.b[i] += __shfl_xor_sync(~0u, s.b[i], o);
        }
    if (lane < S::EIGHTS)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            room.sums[wm * 2 * S::K + wn * S::NW + lane * 8 + i] = s.a[i];
            room.sums[(wm * 2 + 1) * S::K + wn * S::NW + lane * 8 + i] = s.b[i];
        }
    __syncthreads();
    for (int k = threadIdx.x; k < 2 * S::K; k += S::THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < S::WM; w++)
            sum += room.sums[w * 2 * S::K + k];
        place[k] = sum;
    }
}

/* Plain numbers, or those of a batchnorm's input that are normalised and pass its relu here. */
struct values_source {
    typedef uint4 raw;
    const bf16 *x;
    const float *lines; /* in shared memory: scale, shift; NULL: plain */
    int channels;
    __device__ __forceinline__ raw fetch(size_t i) const
    {
        return *(const uint4 *)(x + i);
    }
    __device__ __forceinline__ uint4 change(raw r, int channel) const
    {
        float f[8];
        if (!lines)
            return r;
        unpack(r, f);
#pragma unroll
        for (int i = 0; i < 8; i++)
            f[i] = fmaxf(fmaf(f[i], lines[channel + i], lines[channels + channel + i]), 0.f);
        return pack(f);
    }
};

/* The gradient before a batchnorm, from the one behind it and what went into it. */
struct gradient_source {
    struct raw {
        uint4 g, y;
    };
    const bf16 *g, *y;
    const float *lines; /* in shared memory: for g, for y, for 1 */
    int channels;
    __device__ __forceinline__ raw fetch(size_t i) const
    {
        raw r = {*(const uint4 *)(g + i), *(const uint4 *)(y + i)};
        return r;
    }
    __device__ __forceinline__ uint4 change(raw r, int channel) const
    {
        float f[8], e[8];
        unpack(r.g, f);
        unpack(r.y, e);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int c = channel + i;
            f[i] = fmaf(lines[c], f[i], fmaf(lines[channels + c], e[i], lines[2 * channels + c]));
        }
        return pack(f);
    }
};

/* Copies n lines of C floats of this seat's batchnorm, from line `first` on. */
static __device__ __forceinline__ void copy_lines(float *to, const float *norm, int channels, int first, int n)
{
    const float *from = norm + (blockIdx.z * (size_t)NORM_LINES + first) * channels;
    for (int i = threadIdx.x; i < n * channels; i += blockDim.x)
        to[i] = from[i];
}

template <class S> static __device__ __forceinline__ uint32_t groups_of(uint32_t batch)
{
    return (batch + S::GROUP - 1) / S::GROUP;
}

#endif
