/* patch.cu - 3x3 convolutions with stride 1 and a rim of one, and the gradients of their inputs: the same
 * convolution of the output's gradient, with the weights turned round.
 *
 * A block makes a patch of one picture, eight lines of WIDTH pixels, for COLUMNS channels: 4096 sums, by
 * warps of 32 x 16 as in multiply.cuh. The input under it, with the rim, lies in shared memory for so many
 * channels at a time as make a piece, one pixel a row: the tensor cores' loads name every row by itself, so a
 * tap is nothing but another first pixel, and each number is fetched once for all nine. Channels are
 * multiples of four.
 */
#include "engine/cuda/multiply.cuh"

enum { SIDE = 3, RIM = 1 };

/* What is convolved with what, for one seat. */
struct work {
    struct numbers in, out;
    uint32_t n_in, n_out, h, w; /* channels; both have as many pixels */
    const float *weight, *bias; /* bias may be NULL */
    uint32_t out_step, in_step; /* from one channel's weights to the next's */
};

template <bool BACK> static __device__ __forceinline__ struct work my_work(const struct call &c)
{
    struct work k;
    struct seat seat = my_seat(&c);
    uint32_t of_output = c.in.c * SIDE * SIDE, of_input = SIDE * SIDE;
    k.in = BACK ? at_seat(c.dy, c.out, c.batch) : at_seat(c.x[0], c.in, c.batch);
    k.out = BACK ? at_seat(c.dx[0], c.in, c.batch) : at_seat(c.y, c.out, c.batch);
    k.n_in = BACK ? c.out.c : c.in.c;
    k.n_out = BACK ? c.in.c : c.out.c;
    k.h = c.in.h;
    k.w = c.in.w;
    k.weight = in_row(seat.params, c.weight);
    k.bias = BACK ? NULL : in_row(seat.params, c.bias);
    k.out_step = BACK ? of_input : of_output;
    k.in_step = BACK ? of_output : of_input;
    return k;
}

struct corner { /* of this block's patch, and its first channel */
    uint32_t picture, y, x, channel;
};

template <int COLUMNS> struct shape {
    enum {
        WIDTH = TILE / COLUMNS / PATCH_LINES,
        ACROSS = WIDTH + 2 * RIM,
        PIXELS = ACROSS * (PATCH_LINES + 2 * RIM)
    };
    static __device__ __forceinline__ struct corner my_corner(const struct work &k)
    {
        uint32_t i = blockIdx.x, parts = (k.n_out + COLUMNS - 1) / COLUMNS, part = i % parts;
        uint32_t across = (k.w + WIDTH - 1) / WIDTH, down = (k.h + PATCH_LINES - 1) / PATCH_LINES;
        i /= parts;
        struct corner at = {i / across / down, i / across % down * PATCH_LINES, i % across * WIDTH,
                            part * COLUMNS};
        return at;
    }
};

/* The input of channels from c0 on. */
template <class KIND, int COLUMNS>
static __device__ __forceinline__ void fill_patch(const struct work &k, struct corner at, uint32_t c0,
                                                  char *tile)
{
    typedef shape<COLUMNS> s;
    const int fours = KIND::DEEP / 4, all = s::PIXELS * fours;
#pragma unroll
    for (int first = 0; first < all; first += TILE_THREADS) {
        int i = first + threadIdx.x, pixel = i / fours, q = i % fours * 4;
        uint32_t y = at.y + pixel / s::ACROSS - RIM,
                 x = at.x + pixel % s::ACROSS - RIM; /* -1 is beyond every edge */
        bool inside = y < k.h && x < k.w && c0 + q < k.n_in;
        float4 v = inside ? get_four(k.in, (((size_t)at.picture * k.h + y) * k.w + x) * k.n_in + c0 + q)
                          : make_float4(0, 0, 0, 0);
        if (i < all)
            KIND::store((typename KIND::number *)(tile + pixel * ROW_BYTES) + q, v);
    }
}

/* The weights of one line of taps, [kx][output][input]. */
template <class KIND, int COLUMNS, bool BACK>
static __device__ __forceinline__ void fill_weights(const struct work &k, struct corner at, uint32_t c0,
                                                    int ky, char *tile)
{
    const int all = SIDE * COLUMNS * KIND::DEEP;
#pragma unroll
    for (int i = threadIdx.x; i < all; i += TILE_THREADS) { /* neighbours in memory first */
        int kx = i % SIDE, j = i / SIDE, n = BACK ? j % COLUMNS : j / KIND::DEEP,
            c = BACK ? j / COLUMNS : j % KIND::DEEP;
        int tap = BACK ? (SIDE - 1 - ky) * SIDE + SIDE - 1 - kx : ky * SIDE + kx;
        bool inside = at.channel + n < k.n_out && c0 + c < k.n_in;
        ((typename KIND::number *)(tile + (kx * COLUMNS + n) * ROW_BYTES))[c] =
            inside ? k.weight[(at.channel + n) * k.out_step + (c0 + c) * k.in_step + tap] : 0.0f;
    }
}

template <class KIND, int COLUMNS, bool BACK>
static __device__ __forceinline__ void convolve(const struct call &c)
{
    typedef shape<COLUMNS> s;
    __shared__ __align__(16) char xs[s::PIXELS * ROW_BYTES], ws[SIDE * COLUMNS * ROW_BYTES];
    struct work k = my_work<BACK>(c);
    struct corner at = s::my_corner(k);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps_across = COLUMNS / WARP_COLUMNS;
    int wm = warp / warps_across * WARP_ROWS, wn = warp % warps_across * WARP_COLUMNS;
    unsigned x_at[2], w_at = shared_at(ws) + (wn + lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = wm + 16 * i + lane % 16;
        x_at[i] = shared_at(xs) + (row / s::WIDTH * s::ACROSS + row % s::WIDTH) * ROW_BYTES + lane / 16 * 16;
    }
    float sum[2][2][4] = {};
    for (uint32_t c0 = 0; c0 < k.n_in; c0 += KIND::DEEP) {
        __syncthreads();
        fill_patch<KIND, COLUMNS>(k, at, c0, xs);
        for (int ky = 0; ky < SIDE; ky++) {
            if (ky > 0)
                __syncthreads();
            fill_weights<KIND, COLUMNS, BACK>(k, at, c0, ky, ws);
            __syncthreads();
            unsigned line = ky * s::ACROSS * ROW_BYTES;
#pragma unroll
            for (int j = 0; j < SIDE * (PIECE_BYTES / STEP_BYTES); j++) {
                int kx = j % SIDE, step = j / SIDE * STEP_BYTES;
                unsigned raw[4];
                load_matrices(raw, w_at + kx * COLUMNS * ROW_BYTES + step);
                typename KIND::factor w(raw);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    load_matrices(raw, x_at[i] + line + kx * ROW_BYTES + step);
                    typename KIND::factor x(raw);
                    KIND::add(sum[i][0], x, w, 0);
                    KIND::add(sum[i][1], x, w, 1);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int row = wm + i / 4 * 16 + i % 2 * 8 + lane / 4, half = i / 2 % 2;
        uint32_t y = at.y + row / s::WIDTH, x = at.x + row % s::WIDTH,
                 n = at.channel + wn + half * 8 + lane % 4 * 2;
        const float *two = sum[i / 4][half] + i % 2 * 2;
        if (y < k.h && x < k.w && n < k.n_out)
            put_two(k.out, (((size_t)at.picture * k.h + y) * k.w + x) * k.n_out + n,
                    two[0] + (k.bias ? k.bias[n] : 0), two[1] + (k.bias ? k.bias[n + 1] : 0));
    }
}

#define KERNEL(name, kind, columns, back)                                                                    \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS, in_##kind::BLOCKS)                            \
        name##_##kind##_##columns(const __grid_constant__ struct call c)                                     \
    {                                                                                                        \
        convolve<in_##kind, columns, back>(c);                                                               \
    }
#define BOTH(kind, columns)                                                                                  \
    KERNEL(patch_forward, kind, columns, false)                                                              \
    KERNEL(patch_back_input, kind, columns, true)

BOTH(fp32, 16)
BOTH(fp32, 32)
BOTH(fp32, 64)
BOTH(bf16, 16)
BOTH(bf16, 32)
BOTH(bf16, 64)
