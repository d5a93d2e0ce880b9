/* patch_weight.cu - the gradient of the weights of patch.cu's convolutions.
 *
 *   dw[o][i][tap] = sum over pictures and pixels of dy[p][o] x[p under tap][i]
 *
 * A block takes a stretch of patches, of CHANNELS channels of x and as many of dy, and leaves its sums in a
 * place of its own; add_stretches adds the stretches in order. The next patch is on its way while this one is
 * multiplied. A warp keeps nine taps of 16 x 16 channels; warps with the same channels take every so-manieth
 * step of pixels and are added in order.
 */
#include "engine/cuda/patch.cuh"

SHARED_MEMORY(patch_memory);

enum { THREADS = 32 * PATCH_WEIGHT_WARPS };

template <class KIND, int CHANNELS> struct gradient {
    typedef typename KIND::number number;
    static const int WIDTH = PATCH_WEIGHT_WIDTH(CHANNELS), ACROSS = WIDTH + 2 * PATCH_RIM,
                     PITCH = PATCH_WEIGHT_PITCH(CHANNELS), TILES = CHANNELS / 16,
                     SHARES = PATCH_WEIGHT_WARPS / (TILES * TILES), STEPS = PATCH_LINES * WIDTH / KIND::STEP;
    static_assert(2 * PATCH_WEIGHT_BUFFER(CHANNELS) * sizeof(number) <= PATCH_WEIGHT_SHARED, "");

    const struct call &c;
    const number *x, *dy; /* of this seat */
    uint32_t in, out;     /* the first channels of this block */
    int of_in, of_out, share;

    __device__ __forceinline__ gradient(const struct call &call) : c(call)
    {
        int warp = threadIdx.x / 32;
        uint32_t across = (c.out.c + CHANNELS - 1) / CHANNELS;
        x = (const number *)at_seat(c.seats, c.x[0], c.in, c.batch).at;
        dy = (const number *)at_seat(c.seats, c.dy, c.out, c.batch).at;
        in = blockIdx.x / across * CHANNELS;
        out = blockIdx.x % across * CHANNELS;
        of_in = warp % TILES * 16;
        of_out = warp / TILES % TILES * 16;
        share = warp / (TILES * TILES);
    }

    static __device__ __forceinline__ number *x_of(int buffer)
    {
        return (number *)patch_memory + buffer * PATCH_WEIGHT_BUFFER(CHANNELS);
    }
    static __device__ __forceinline__ number *dy_of(int buffer)
    {
        return x_of(buffer) + PATCH_PIXELS(WIDTH) * PITCH;
    }

    __device__ __forceinline__ void copy(uint32_t patch, int buffer) const
    {
        struct corner at = corner_of<WIDTH>(c.in, patch);
        copy_patch<number, WIDTH, PATCH_RIM, CHANNELS, PITCH, THREADS>(x_of(buffer), x, c.in, at, in);
        copy_patch<number, WIDTH, 0, CHANNELS, PITCH, THREADS>(dy_of(buffer), dy, c.out, at, out);
    }

    /* One patch's products. */
    __device__ __forceinline__ void slide(float (*sum)[2][4], int buffer) const
    {
        for (int step = share; step < STEPS; step += SHARES) {
            int p = step * KIND::STEP + KIND::first_k();
            const number *at =
                x_of(buffer) + (p / WIDTH * ACROSS + p % WIDTH) * PITCH + of_in + KIND::first_row();
            unsigned raw[4];
            KIND::load_second_turned(raw,
                                     dy_of(buffer) + (step * KIND::STEP + KIND::second_k()) * PITCH + of_out +
                                         KIND::second_row(),
                                     PITCH);
            typename KIND::factor y(raw);
#pragma unroll
            for (int tap = 0; tap < PATCH_TAPS; tap++) {
                KIND::load_first_turned(raw, at + (tap / PATCH_SIDE * ACROSS + tap % PATCH_SIDE) * PITCH,
                                        PITCH);
                typename KIND::factor x_here(raw);
                KIND::add(sum[tap], x_here, y);
            }
        }
    }

    /* Shared memory is [warp][tap][number of a lane][lane] now, a tap padded so that nine of them meet nine
     * banks. */
    __device__ __forceinline__ void deliver(const float (*sum)[2][4], float *to) const
    {
        float *all = (float *)patch_memory;
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PATCH_TAPS * 8; i++)
            all[(warp * PATCH_TAPS + i / 8) * PATCH_WEIGHT_SUMS + i % 8 * 32 + lane] =
                sum[i / 8][i / 4 % 2][i % 4];
        __syncthreads();
        for (int i = threadIdx.x; i < CHANNELS * CHANNELS * PATCH_TAPS; i += THREADS) {
            int tap = i % PATCH_TAPS, ci = i / PATCH_TAPS % CHANNELS, co = i / PATCH_TAPS / CHANNELS;
            int number_of = co % 16 / 8 * 4 + ci % 16 / 8 * 2 + co % 2, of_lane = ci % 8 * 4 + co % 8 / 2;
            const float *at = all + (((co / 16 * TILES + ci / 16) * PATCH_TAPS + tap) * PATCH_WEIGHT_SUMS +
                                     number_of * 32 + of_lane);
            float total = 0;
#pragma unroll
            for (int s = 0; s < SHARES; s++)
                total += at[s * TILES * TILES * PATCH_TAPS * PATCH_WEIGHT_SUMS];
            if (in + ci < c.in.c && out + co < c.out.c)
                to[((out + co) * (size_t)c.in.c + in + ci) * PATCH_TAPS + tap] = total;
        }
    }

    __device__ __forceinline__ void run(void) const
    {
        uint32_t across = (c.in.w + WIDTH - 1) / WIDTH, down = (c.in.h + PATCH_LINES - 1) / PATCH_LINES,
                 all = c.batch * across * down, each = (all + c.splits - 1) / c.splits;
        uint32_t patch = blockIdx.y * each, end = min(patch + each, all);
        float sum[PATCH_TAPS][2][4] = {};
        if (patch < end)
            copy(patch, 0);
        for (int buffer = 0; patch < end; patch++, buffer ^= 1) {
            wait_for_copies();
            __syncthreads();
            if (patch + 1 < end)
                copy(patch + 1, buffer ^ 1);
            slide(sum, buffer);
        }
        deliver(sum, stretch_place(&c, (size_t)c.out.c * c.in.c * PATCH_TAPS, blockIdx.y));
    }
};

#define KERNEL(kind, channels)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                 \
        patch_back_weight_##kind##_##channels(const __grid_constant__ struct call c)                         \
    {                                                                                                        \
        gradient<in_##kind, channels>(c).run();                                                              \
    }

KERNEL(fp32, 16)
KERNEL(fp32, 32)
KERNEL(bf16, 16)
KERNEL(bf16, 32)
