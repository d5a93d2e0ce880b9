/* patch.cu - 3x3 convolutions with stride 1 and a rim of one, and the gradients of their inputs: the same
 * convolution of the output's gradient, with the weights turned round.
 *
 * A block makes a patch of one picture, eight lines of WIDTH pixels, for COLUMNS channels. The input under
 * it, with the rim, lies in shared memory for so many channels at a time as make a piece, one pixel a row:
 * the tensor cores' loads name every row by itself, so a tap is nothing but another first pixel, and each
 * number is fetched once for all nine. Beside it lie the weights of the piece, which a kernel before this one
 * has brought into their order. Four warps of 64 x 16 sums, or 32 x 32 where there are the channels for it.
 * Channels made are multiples of four, those read too in bf16, and tensors are of the kind of numbers that
 * are multiplied.
 */
#include "engine/cuda/patch.cuh"

SHARED_MEMORY(patch_memory);

/* What is convolved with what, for one seat. */
struct work {
    struct numbers in, out;
    struct dims d, made;        /* of in and of out: both have as many pixels */
    const float *weight, *bias; /* bias may be NULL */
    uint32_t out_step, in_step; /* from one channel's weights to the next's */
    char *prepared;             /* weights as [piece][tap][output][input of the piece] */
};

template <class KIND, bool BACK> static __device__ __forceinline__ struct work my_work(const struct call &c)
{
    struct work k;
    struct seat seat = my_seat(&c);
    uint32_t of_output = c.in.c * PATCH_TAPS, of_input = PATCH_TAPS;
    k.in = BACK ? at_seat(c.seats, c.dy, c.out, c.batch) : at_seat(c.seats, c.x[0], c.in, c.batch);
    k.out = BACK ? at_seat(c.seats, c.dx[0], c.in, c.batch) : at_seat(c.seats, c.y, c.out, c.batch);
    k.d = BACK ? c.out : c.in;
    k.made = BACK ? c.in : c.out;
    k.weight = in_row(seat.params, c.weight);
    k.bias = BACK ? NULL : in_row(seat.params, c.bias);
    k.out_step = BACK ? of_input : of_output;
    k.in_step = BACK ? of_output : of_input;
    uint32_t pieces = (k.d.c + KIND::DEEP - 1) / KIND::DEEP;
    k.prepared = (char *)c.partial + blockIdx.z * ((size_t)pieces * PATCH_TAPS * k.made.c * PIECE_BYTES);
    return k;
}

template <class KIND, bool BACK> static __device__ __forceinline__ void prepare(const struct call &c)
{
    struct work k = my_work<KIND, BACK>(c);
    uint32_t pieces = (k.d.c + KIND::DEEP - 1) / KIND::DEEP,
             all = pieces * PATCH_TAPS * k.made.c * KIND::DEEP;
    for (uint32_t i = (uint32_t)my_first(); i < all; i += (uint32_t)my_step()) {
        uint32_t row = i / KIND::DEEP, n = row % k.made.c, tap = row / k.made.c % PATCH_TAPS,
                 channel = row / k.made.c / PATCH_TAPS * KIND::DEEP + i % KIND::DEEP;
        ((typename KIND::number *)k.prepared)[i] =
            channel < k.d.c
                ? k.weight[n * k.out_step + channel * k.in_step + (BACK ? PATCH_TAPS - 1 - tap : tap)]
                : 0.0f;
    }
}

/* The weights of a piece, [tap][output][input]. */
template <int COLUMNS>
static __device__ __forceinline__ void copy_weights(const struct work &k, uint32_t piece, uint32_t first,
                                                    char *to)
{
    const int across = PIECE_BYTES / 16, all = PATCH_TAPS * COLUMNS * across;
    const char *from = k.prepared + (size_t)piece * PATCH_TAPS * k.made.c * PIECE_BYTES;
#pragma unroll 2
    for (int begin = 0; begin < all; begin += PATCH_THREADS) {
        int i = begin + threadIdx.x, row = i / across, q = i % across * 16, tap = row / COLUMNS;
        uint32_t n = first + row % COLUMNS;
        bool inside = n < k.made.c;
        if (all % PATCH_THREADS == 0 || i < all)
            start_copy<16>(shared_at(to + row * ROW_BYTES + q),
                           from + (inside ? (tap * k.made.c + n) * PIECE_BYTES + q : 0), inside);
    }
}

template <class KIND, int COLUMNS, bool BACK>
static __device__ __forceinline__ void convolve(const struct call &c)
{
    typedef typename KIND::number number;
    const int WIDTH = PATCH_WIDTH(COLUMNS), ACROSS = WIDTH + 2 * PATCH_RIM;
    const int HIGH = COLUMNS == 16 ? 4 : 2, WIDE = COLUMNS == 16 ? 1 : 2; /* a warp, in sixteens */
    const int warps_across = COLUMNS / (16 * WIDE);
    static_assert(PATCH_THREADS / 32 * HIGH * WIDE * 256 == TILE, "");
    char *xs = patch_memory, *ws = xs + PATCH_PIXELS(WIDTH) * ROW_BYTES;
    struct work k = my_work<KIND, BACK>(c);
    uint32_t parts = (k.made.c + COLUMNS - 1) / COLUMNS, first = blockIdx.x % parts * COLUMNS;
    struct corner at = corner_of<WIDTH>(k.d, blockIdx.x / parts);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int wm = warp / warps_across * 16 * HIGH, wn = warp % warps_across * 16 * WIDE;
    unsigned x_at[HIGH],
        w_at = shared_at(ws) + (wn + lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16;
#pragma unroll
    for (int i = 0; i < HIGH; i++) {
        int row = wm + 16 * i + lane % 16;
        x_at[i] = shared_at(xs) + (row / WIDTH * ACROSS + row % WIDTH) * ROW_BYTES + lane / 16 * 16;
    }
    float sum[HIGH][WIDE][2][4] = {};
    for (uint32_t c0 = 0; c0 < k.d.c; c0 += KIND::DEEP) {
        if (c0 > 0)
            __syncthreads();
        copy_patch<number, WIDTH, PATCH_RIM, KIND::DEEP, ROW_BYTES / (int)sizeof(number), PATCH_THREADS>(
            (number *)xs, (const number *)k.in.at, k.d, at, c0);
        copy_weights<COLUMNS>(k, c0 / KIND::DEEP, first, ws);
        wait_for_copies();
        __syncthreads();
        for (int ky = 0; ky < PATCH_SIDE; ky++) {
#pragma unroll
            for (int j = 0; j < PATCH_SIDE * (PIECE_BYTES / STEP_BYTES); j++) {
                int kx = j % PATCH_SIDE, step = j / PATCH_SIDE * STEP_BYTES;
                unsigned raw[WIDE][4];
#pragma unroll
                for (int n = 0; n < WIDE; n++)
                    load_matrices(raw[n],
                                  w_at + ((ky * PATCH_SIDE + kx) * COLUMNS + 16 * n) * ROW_BYTES + step);
                typename KIND::factor w0(raw[0]), w1(raw[WIDE - 1]);
#pragma unroll
                for (int i = 0; i < HIGH; i++) {
                    load_matrices(raw[0], x_at[i] + (ky * ACROSS + kx) * ROW_BYTES + step);
                    typename KIND::factor x(raw[0]);
                    KIND::add(sum[i][0], x, w0);
                    if (WIDE > 1)
                        KIND::add(sum[i][WIDE - 1], x, w1);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < HIGH * WIDE * 4; i++) {
        int row = wm + i / (4 * WIDE) * 16 + i % 2 * 8 + lane / 4, wide = i / 4 % WIDE, half = i / 2 % 2;
        uint32_t y = at.y + row / WIDTH, x = at.x + row % WIDTH,
                 n = first + wn + wide * 16 + half * 8 + lane % 4 * 2;
        const float *two = sum[i / (4 * WIDE)][wide][half] + i % 2 * 2;
        if (y < k.d.h && x < k.d.w && n < k.made.c)
            put_two(k.out, (((size_t)at.picture * k.d.h + y) * k.d.w + x) * k.made.c + n,
                    two[0] + (k.bias ? k.bias[n] : 0), two[1] + (k.bias ? k.bias[n + 1] : 0));
    }
}

#define KERNEL(name, kind, columns, back)                                                                    \
    extern "C" __global__ void __launch_bounds__(PATCH_THREADS, 5)                                           \
        name##_##kind##_##columns(const __grid_constant__ struct call c)                                     \
    {                                                                                                        \
        convolve<in_##kind, columns, back>(c);                                                               \
    }
#define BOTH(kind, columns)                                                                                  \
    KERNEL(patch_forward, kind, columns, false)                                                              \
    KERNEL(patch_back_input, kind, columns, true)
#define PREPARE(name, kind, back)                                                                            \
    extern "C" __global__ void name##_##kind(const __grid_constant__ struct call c)                          \
    {                                                                                                        \
        prepare<in_##kind, back>(c);                                                                         \
    }

BOTH(fp32, 16)
BOTH(fp32, 32)
BOTH(fp32, 64)
BOTH(bf16, 16)
BOTH(bf16, 32)
BOTH(bf16, 64)
PREPARE(patch_weights, fp32, false)
PREPARE(patch_weights, bf16, false)
PREPARE(patch_weights_turned, fp32, true)
PREPARE(patch_weights_turned, bf16, true)
