/* conv3.cuh - pictures in shared memory, slid over by 3x3 windows on the tensor cores.
 *
 *   fetch:    the next group (some pictures, or a strip of one) from device memory into registers
 *   fill:     from there into shared memory, changed on the way (normalised, say), with a rim of zeros
 *   slide:    out[p][k] = sum over taps and c of picture[p under tap][c] w[tap][k][c], 16 pixels x 8 channels a product
 *   deliver:  sums go through shared memory, so that each lane has eight channels of a pixel in its hands
 *
 * A block keeps the weights of its seat and takes one group after another; while it slides over one, the next is
 * on its way.
 */
#ifndef VECHE_ENGINE_CUDA_CONV3_CUH
#define VECHE_ENGINE_CUDA_CONV3_CUH

#include "engine/cuda/mma.cuh"
#include "engine/cuda/sums.cuh"

/* Lines of pictures as a block loads them: HIGH lines of SIDE pixels of C channels, RIM zeros around. */
template <int C_, int SIDE_, int RIM_, int ROWS_, int STRIDE_, int GROUP_, int STRIPS_, int THREADS_> struct lines3 {
    static constexpr int C = C_, SIDE = SIDE_, RIM = RIM_, GROUP = GROUP_, STRIPS = STRIPS_, THREADS = THREADS_;
    static constexpr int DOWN = ROWS_ * STRIDE_; /* from strip to strip */
    static constexpr int HIGH = CONV3_HIGH(ROWS_, STRIDE_), WIDE = SIDE + 2 * RIM, PITCH = CONV3_PITCH(C);
    static constexpr int V = C / 8, LINE = SIDE * V; /* in eights */
    static constexpr int LOADED = STRIPS > 1 ? HIGH : SIDE < HIGH ? SIDE : HIGH - RIM;
    static constexpr int N = GROUP * LOADED * LINE, PER = (N + THREADS - 1) / THREADS;
    static_assert(GROUP == 1 || STRIPS == 1, "several pictures or a part of one");
};

/* Where the a-th eight of this thread comes from and goes to. */
template <class L> struct eight3 {
    int picture, line, column; /* of the group; line of those loaded; column in eights */
    __device__ __forceinline__ eight3(int a)
    {
        if (L::THREADS % L::LINE == 0) {
            int row = (int)threadIdx.x / L::LINE + a * (L::THREADS / L::LINE);
            column = threadIdx.x % L::LINE;
            picture = L::GROUP == 1 ? 0 : row / L::LOADED;
            line = L::GROUP == 1 ? row : row % L::LOADED;
        } else {
            int i = threadIdx.x + a * L::THREADS;
            column = i % L::LINE;
            picture = i / L::LINE / L::LOADED;
            line = i / L::LINE % L::LOADED;
        }
    }
    __device__ __forceinline__ bool exists(int a) const
    {
        return L::N % L::THREADS == 0 || (int)threadIdx.x + a * L::THREADS < L::N;
    }
    __device__ __forceinline__ int y(int strip) const
    {
        return L::STRIPS > 1 ? strip * L::DOWN + line - L::RIM : line;
    }
    __device__ __forceinline__ int inside(void) const /* shared memory, in numbers */
    {
        int down = L::STRIPS > 1 ? line : line + L::RIM;
        return ((picture * L::HIGH + down) * L::WIDE + L::RIM + column / L::V) * L::PITCH + column % L::V * 8;
    }
};

/* Reads this thread's share of a group; what lies outside the picture or the batch is left as it was. */
template <class L, class SOURCE>
static __device__ __forceinline__ void fetch3(typename SOURCE::raw *raw, const SOURCE &source, uint32_t first,
                                              int strip, uint32_t batch)
{
#pragma unroll
    for (int a = 0; a < L::PER; a++) {
        eight3<L> e(a);
        int y = e.y(strip);
        bool there = e.exists(a) && (L::STRIPS == 1 || (y >= 0 && y < L::SIDE)) &&
                     (L::GROUP == 1 || first + e.picture < batch);
        if (there)
            raw[a] = source.fetch((((size_t)first + e.picture) * L::SIDE + y) * L::LINE * 8 + e.column * 8);
    }
}

template <class L, class SOURCE>
static __device__ __forceinline__ void fill3(bf16 *pictures, const typename SOURCE::raw *raw, const SOURCE &source,
                                             uint32_t first, int strip, uint32_t batch)
{
#pragma unroll
    for (int a = 0; a < L::PER; a++) {
        eight3<L> e(a);
        int y = e.y(strip);
        bool there =
            (L::STRIPS == 1 || (y >= 0 && y < L::SIDE)) && (L::GROUP == 1 || first + e.picture < batch);
        if (e.exists(a))
            *(uint4 *)(pictures + e.inside()) =
                there ? source.change(raw[a], e.column % L::V * 8) : make_uint4(0, 0, 0, 0);
    }
}

/* C channels are loaded and K delivered; SIDE of the loaded pictures, RIM around them, OUT the side of what comes
 * out. */
template <int C_, int K_, int SIDE_, int RIM_, int OUT_, int STRIDE_, int GROUP_, int STRIPS_, int WM_, int WN_,
          int MB_>
struct shape3 {
    static constexpr int C = C_, K = K_, SIDE = SIDE_, OUT = OUT_, STRIDE = STRIDE_;
    static constexpr int GROUP = GROUP_, STRIPS = STRIPS_; /* pictures at a time, or strips of one */
    static constexpr int WM = WM_, WN = WN_, MB = MB_;     /* warps along pixels and channels, tiles at a time */
    static constexpr int WARPS = WM * WN, THREADS = 32 * WARPS, ROWS = OUT / STRIPS;
    typedef lines3<C_, SIDE_, RIM_, OUT_ / STRIPS_, STRIDE_, GROUP_, STRIPS_, 32 * WM_ * WN_> lines;
    static constexpr int PITCH = lines::PITCH, WIDE = lines::WIDE, HIGH = lines::HIGH;
    static constexpr int PIXELS = ROWS * OUT;                    /* of a picture or strip */
    static constexpr int TILES = (GROUP * PIXELS + 15) / 16;     /* of a group */
    static constexpr int NW = K / WN, NT = NW / 8, EIGHTS = NW / 8; /* channels of a warp; products; eights */
    static constexpr int TURNS = NW / 16;                           /* eights of a tile for each lane */
    static constexpr int STAGE = NW + 8;                            /* pitch */
    /* The MB tiles of a warp lie below each other where rows are whole tiles, or tiles two rows of eight. */
    static constexpr bool BELOW = STRIDE == 1 && GROUP == 1 && (OUT == 8 || OUT % 16 == 0) && TILES % MB == 0;
    static constexpr int ACROSS = BELOW && OUT >= 16 ? OUT / 16 : 1;
    static constexpr int ROUNDS = (TILES + MB - 1) / MB;
    static_assert(OUT % STRIPS == 0 && NW % 16 == 0, "whole strips, whole pairs of products");
};

/* The block's shared memory. */
template <class S> struct room3 {
    bf16 *weights;   /* [9][K][PITCH] */
    bf16 *pictures;  /* [GROUP][HIGH][WIDE][PITCH] */
    bf16 *stage;     /* of this warp: [MB][16][STAGE] */
    double *scratch; /* [THREADS] */
    float *sums;     /* [WM][2][K]; as double: [2][K] */
    float *lines;    /* [3][C] */
    __device__ __forceinline__ room3(char *memory)
    {
        weights = (bf16 *)memory;
        memory += CONV3_FACTOR(S::C, S::K);
        pictures = (bf16 *)memory;
        memory += S::GROUP * CONV3_LINES(S::C, S::WIDE, S::HIGH);
        stage = (bf16 *)memory + threadIdx.x / 32 * S::MB * 16 * S::STAGE;
        memory += CONV3_STAGE(S::K, S::WM, S::WN, S::MB);
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
    for (int i = threadIdx.x; i < S::GROUP * S::HIGH * S::WIDE * S::PITCH / 8; i += S::THREADS)
        *(uint4 *)(room.pictures + i * 8) = make_uint4(0, 0, 0, 0);
}

/* What a lane names when it loads pixels (rows of the first factor) and weights (columns of the second). */
template <class S> static __device__ __forceinline__ unsigned weights_of_lane(const room3<S> &room, int wn)
{
    int lane = threadIdx.x % 32;
    return shared_at(room.weights + (wn * S::NW + lane % 8 + lane / 16 * 8) * S::PITCH + lane / 8 % 2 * 8);
}

template <class S> static __device__ __forceinline__ unsigned pixel_of_lane(const room3<S> &room, int tile)
{
    int lane = threadIdx.x % 32, p = tile * 16 + lane % 16;
    if (S::GROUP * S::PIXELS % 16)
        p = min(p, S::GROUP * S::PIXELS - 1);
    int n = p / S::PIXELS, y = p / S::OUT % S::ROWS, x = p % S::OUT;
    return shared_at(room.pictures + ((n * S::HIGH + y * S::STRIDE) * S::WIDE + x * S::STRIDE) * S::PITCH +
                     lane / 16 * 8);
}

/* The first tile of a round; the others follow ACROSS further on each. */
template <class S> static __device__ __forceinline__ int tile_of(int round, int m)
{
    return (round / S::ACROSS * S::MB + m) * S::ACROSS + round % S::ACROSS;
}

/* All nine taps: where each shifts the window to, and which weights it has. */
template <class S> struct all_taps {
    static constexpr int N = 9;
    static __device__ __forceinline__ constexpr int shift(int t)
    {
        return (t / 3 * S::WIDE + t % 3) * S::PITCH;
    }
    static __device__ __forceinline__ constexpr int weight(int t)
    {
        return t;
    }
};

/* The products of MB tiles; the factors of a step are loaded while the last step's are multiplied. */
template <class S, class TAPS>
static __device__ __forceinline__ void slide3(float (*sum)[S::NT][4], const unsigned *pixels, unsigned weights)
{
    constexpr int DEEP = S::C / 16, STEPS = TAPS::N * DEEP;
    unsigned a[2][S::MB][4], b[2][S::NT / 2][4];
#pragma unroll
    for (int s = 0; s <= STEPS; s++) {
        if (s < STEPS) {
            const int tap = s / DEEP, c = s % DEEP * 16;
#pragma unroll
            for (int n = 0; n < S::NT / 2; n++)
                load_matrices(b[s % 2][n], weights + ((TAPS::weight(tap) * S::K + n * 16) * S::PITCH + c) * 2);
#pragma unroll
            for (int m = 0; m < S::MB; m++)
                load_matrices(a[s % 2][m], pixels[m] + (TAPS::shift(tap) + c) * 2);
        }
        if (s > 0)
#pragma unroll
            for (int m = 0; m < S::MB; m++)
#pragma unroll
                for (int n = 0; n < S::NT; n++)
                    multiply_add(sum[m][n], a[(s - 1) % 2][m], b[(s - 1) % 2][n / 2][n % 2 * 2],
                                 b[(s - 1) % 2][n / 2][n % 2 * 2 + 1]);
    }
}

/* The same with all nine taps for tiles below each other: what is loaded for one row of windows is what the rows above
 * and below it meet at other taps. `pixels` is that of the first tile. */
template <class S>
static __device__ __forceinline__ void slide_below(float (*sum)[S::NT][4], unsigned pixels, unsigned weights)
{
    constexpr bool PAIRS = S::OUT == 8; /* a tile is two rows; lanes 8 to 15 name the second */
    constexpr int LOADS = PAIRS ? S::MB + 1 : S::MB + 2, DOWN = (PAIRS ? 2 : 1) * S::WIDE * S::PITCH;
#pragma unroll
    for (int kx = 0; kx < 3; kx++)
#pragma unroll
        for (int c = 0; c < S::C; c += 16) {
            unsigned a[LOADS][4];
#pragma unroll
            for (int l = 0; l < LOADS; l++)
                load_matrices(a[l], pixels + (l * DOWN + kx * S::PITCH + c) * 2);
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
                unsigned b[S::NT / 2][4];
#pragma unroll
                for (int n = 0; n < S::NT / 2; n++)
                    load_matrices(b[n], weights + (((ky * 3 + kx) * S::K + n * 16) * S::PITCH + c) * 2);
#pragma unroll
                for (int m = 0; m < S::MB; m++) {
                    /* a pair of rows that begins with the second of one load ends with the first of the next */
                    const bool between = PAIRS && ky == 1;
                    const int l = PAIRS ? m + ky / 2 : m + ky;
                    const unsigned rows[4] = {between ? a[l][1] : a[l][0], between ? a[l + 1][0] : a[l][1],
                                              between ? a[l][3] : a[l][2], between ? a[l + 1][2] : a[l][3]};
#pragma unroll
                    for (int n = 0; n < S::NT; n++)
                        multiply_add(sum[m][n], rows, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
                }
            }
        }
}

/* The products of one round with all taps. */
template <class S>
static __device__ __forceinline__ void slide_round(const room3<S> &room, float (*sum)[S::NT][4], int round, int wn)
{
    if constexpr (S::BELOW) {
        slide_below<S>(sum, pixel_of_lane<S>(room, tile_of<S>(round, 0)), weights_of_lane<S>(room, wn));
    } else {
        unsigned pixels[S::MB];
#pragma unroll
        for (int m = 0; m < S::MB; m++)
            pixels[m] = pixel_of_lane<S>(room, tile_of<S>(round, m));
        slide3<S, all_taps<S>>(sum, pixels, weights_of_lane<S>(room, wn));
    }
}

/* The pixel of a group and the channel that this lane is handed in its turn at a tile. */
template <class S> static __device__ __forceinline__ int pixel_in_turn(int tile, int turn)
{
    return tile * 16 + (threadIdx.x % 32 + 32 * turn) / S::EIGHTS;
}

template <class S> static __device__ __forceinline__ int channel_of_lane(int wn)
{
    return wn * S::NW + threadIdx.x % S::EIGHTS * 8;
}

/* MB tiles' sums, eight channels of a pixel at a time: taker(tile of the MB, turn, values). */
template <class S, class TAKER>
static __device__ __forceinline__ void deliver3(const room3<S> &room, const float (*sum)[S::NT][4], int round,
                                                TAKER taker)
{
    int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < S::MB; m++)
#pragma unroll
        for (int n = 0; n < S::NT; n += 2)
            store_matrices(room.stage + m * 16 * S::STAGE + n * 8, S::STAGE, sum[m][n], sum[m][n + 1]);
    __syncwarp();
#pragma unroll
    for (int m = 0; m < S::MB; m++)
#pragma unroll
        for (int turn = 0; turn < S::TURNS; turn++) {
            int row = (lane + 32 * turn) / S::EIGHTS;
            bool whole = S::GROUP * S::PIXELS % 16 == 0 && S::TILES % (S::WM * S::MB) == 0;
            uint4 q = *(const uint4 *)(room.stage + (m * 16 + row) * S::STAGE + lane % S::EIGHTS * 8);
            if (whole || pixel_in_turn<S>(tile_of<S>(round, m), turn) < S::GROUP * S::PIXELS)
                taker(m, turn, q);
        }
}

/* A lane's sums over the pixels it was handed; its channels are the same all along. First eight of one kind, then
 * eight of another. */
struct lane_sums {
    float of[16];
};

static __device__ __forceinline__ void clear(struct lane_sums *s)
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        s->of[i] = 0;
}

/* Adds over the lanes that hold the same channels: at every step a lane gives half of its N numbers away and keeps the
 * other, until each has EIGHTS / 2 left. Returns the number of the first. */
template <int EIGHTS, int N = 8, int OVER = 16> static __device__ __forceinline__ int fold(struct lane_sums *s)
{
    bool upper = threadIdx.x % 32 & OVER;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float given = upper ? s->of[i] : s->of[i + N], kept = upper ? s->of[i + N] : s->of[i];
        s->of[i] = kept + __shfl_xor_sync(~0u, given, OVER);
    }
    int first = upper ? N : 0;
    if constexpr (OVER > EIGHTS)
        first += fold<EIGHTS, N / 2, OVER / 2>(s);
    return first;
}

/* The block's sums over one group into its place: lanes, then warps, in a fixed order. */
template <class S>
static __device__ __forceinline__ void gather_sums(const room3<S> &room, struct lane_sums s, float *place)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    int first = fold<S::EIGHTS>(&s);
#pragma unroll
    for (int i = 0; i < S::EIGHTS / 2; i++)
        room.sums[(wm * 2 + (first + i) / 8) * S::K + wn * S::NW + lane % S::EIGHTS * 8 + (first + i) % 8] = s.of[i];
    __syncthreads();
    for (int k = threadIdx.x; k < 2 * S::K; k += S::THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < S::WM; w++)
            sum += room.sums[w * 2 * S::K + k];
        place[k] = sum;
    }
}

/* Eight floats from shared memory, 16 bytes at a time. */
static __device__ __forceinline__ void eight_floats(const float *at, float *f)
{
    float4 low = *(const float4 *)at, high = *(const float4 *)(at + 4);
    f[0] = low.x, f[1] = low.y, f[2] = low.z, f[3] = low.w;
    f[4] = high.x, f[5] = high.y, f[6] = high.z, f[7] = high.w;
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
        float f[8], scale[8], shift[8];
        if (!lines)
            return r;
        unpack(r, f);
        eight_floats(lines + channel, scale);
        eight_floats(lines + channels + channel, shift);
#pragma unroll
        for (int i = 0; i < 8; i++)
            f[i] = fmaxf(fmaf(f[i], scale[i], shift[i]), 0.f);
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
        float f[8], e[8], a[8], b[8], d[8];
        unpack(r.g, f);
        unpack(r.y, e);
        eight_floats(lines + channel, a);
        eight_floats(lines + channels + channel, b);
        eight_floats(lines + 2 * channels + channel, d);
#pragma unroll
        for (int i = 0; i < 8; i++)
            f[i] = fmaf(a[i], f[i], fmaf(b[i], e[i], d[i]));
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

/* Groups in a batch; the first picture of a group. */
template <class S> static __device__ __forceinline__ uint32_t groups_of(uint32_t batch)
{
    return S::STRIPS > 1 ? batch * S::STRIPS : (batch + S::GROUP - 1) / S::GROUP;
}

template <class S> static __device__ __forceinline__ uint32_t first_of(uint32_t group)
{
    return S::STRIPS > 1 ? group / S::STRIPS : group * S::GROUP;
}

#endif
