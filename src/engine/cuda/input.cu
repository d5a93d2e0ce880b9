/* input.cu - pictures from bytes: cropped, mirrored, normalised, channels last. */
#include "engine/cuda/mma.cuh"

static __device__ __forceinline__ uint8_t byte_of(const struct gather_call *g, const struct input *from,
                                                   struct seat_pick p, uint32_t c, int y, int x)
{
    y += p.dy;
    x += p.dx;
    if (y < 0 || y >= (int)g->in.h || x < 0 || x >= (int)g->in.w)
        return 0; /* outside the picture */
    size_t column = p.flip ? g->in.w - 1 - x : x;
    return from->pixels[((p.sample * (size_t)g->in.c + c) * g->in.h + y) * g->in.w + column];
}

static __device__ __forceinline__ float normalised(const struct input *from, uint32_t c, uint8_t byte)
{
    return ((float)byte / 255.0f - from->mean[c]) / from->deviation[c];
}

static __device__ struct seat_pick pick_of(const struct gather_call *g, const struct seat *seat, uint32_t n)
{
    if (g->picks)
        return g->picks[blockIdx.z * (size_t)g->of + seat->first + n];
    struct seat_pick in_order = {seat->first + min(n, seat->counted - 1), 0, 0, 0, 0};
    return in_order;
}

/* The same in bf16, eight channels at a time; missing channels are zeros. A block first works out what each byte
 * becomes, then looks it up. A thread makes all channels of a pixel. */
extern "C" __global__ void gather_filled(const __grid_constant__ struct gather_call g)
{
    __shared__ float table[CUDA_CHANNELS][256];
    struct seat seat = g.seats[blockIdx.z];
    const struct input *from = &g.inputs[seat.source];
    uint32_t pixels = g.in.h * g.in.w;
    bf16 *x = (bf16 *)g.x.at + blockIdx.z * (size_t)g.batch * pixels * g.filled;
    uint16_t *labels = labels_at_seat(g.seats, g.labels, g.batch);
    for (uint32_t i = threadIdx.x; i < g.in.c * 256; i += blockDim.x)
        table[i / 256][i % 256] = normalised(from, i / 256, (uint8_t)(i % 256));
    __syncthreads();
    for (uint32_t i = my_first(); i < g.batch * pixels; i += my_step()) {
        uint32_t n = i / pixels, at = i % pixels;
        struct seat_pick p = pick_of(&g, &seat, n);
        for (uint32_t c = 0; c < g.filled; c += 8) {
            float f[8];
#pragma unroll
            for (uint32_t k = 0; k < 8; k++)
                f[k] = c + k < g.in.c ? table[c + k][byte_of(&g, from, p, c + k, at / g.in.w, at % g.in.w)] : 0;
            store_eight(x, (size_t)i * g.filled + c, pack(f));
        }
        if (at == 0)
            labels[n] = from->labels[p.sample];
    }
}

/* A thread makes all channels of a pixel. */
extern "C" __global__ void gather(struct gather_call g)
{
    struct dims filled = {g.filled, g.in.h, g.in.w};
    struct numbers x = at_seat(g.seats, g.x, filled, g.batch);
    uint16_t *labels = labels_at_seat(g.seats, g.labels, g.batch);
    struct seat seat = g.seats[blockIdx.z];
    const struct input *from = &g.inputs[seat.source];
    size_t pixels = (size_t)g.in.h * g.in.w;
    for (size_t i = my_first(); i < g.batch * pixels; i += my_step()) {
        uint32_t n = i / pixels, at = i % pixels;
        struct seat_pick p = pick_of(&g, &seat, n);
        for (uint32_t c = 0; x.at && c < g.filled; c++)
            put(x, i * g.filled + c,
                c < g.in.c ? normalised(from, c, byte_of(&g, from, p, c, at / g.in.w, at % g.in.w)) : 0);
        if (at == 0)
            labels[n] = from->labels[p.sample];
    }
}
