/* groups.cu - convolutions of groups, and their gradients, directly: few channels meet, so there is little to share.
 *
 *   y[o] = bias[o] + sum over the channels i of o's group and all taps of weight[o][i][tap] x[i under tap]
 *
 * A thread makes a number of y or of dx; for the weights' gradient a block takes 32 outputs of one i and tap over a
 * stretch of pixels, which add_stretches adds in order. Neighbours are channels. Products are in fp32, of what is stored.
 */
#include "engine/cuda/device.cuh"

enum { LANES = 32, LINES = 8 };

/* What a group reads, and what it makes. */
static __device__ uint32_t group_in(const struct call *c)
{
    return c->in.c / c->groups;
}

static __device__ uint32_t group_out(const struct call *c)
{
    return c->out.c / c->groups;
}

static __device__ size_t place(struct dims d, uint32_t n, uint32_t y, uint32_t x, uint32_t channel)
{
    return (((size_t)n * d.h + y) * d.w + x) * d.c + channel;
}

/* The input pixel under tap k of window y along one side; beyond every edge where there is none. */
static __device__ uint32_t under(const struct call *c, uint32_t y, uint32_t k)
{
    return y * c->stride + k - c->pad;
}

extern "C" __global__ void groups_forward(struct call c)
{
    struct numbers in = at_seat(c.seats, c.x[0], c.in, c.batch), out = at_seat(c.seats, c.y, c.out, c.batch);
    const float *weight = in_row(my_seat(&c).params, c.weight), *bias = in_row(my_seat(&c).params, c.bias);
    uint32_t taps = c.kernel * c.kernel;
    for (size_t i = my_first(); i < c.batch * size_of(c.out); i += my_step()) {
        uint32_t o = i % c.out.c, x = i / c.out.c % c.out.w, y = i / c.out.c / c.out.w % c.out.h,
                 n = i / size_of(c.out), first = o / group_out(&c) * group_in(&c);
        float sum = 0;
        for (uint32_t tap = 0; tap < taps; tap++) {
            uint32_t iy = under(&c, y, tap / c.kernel), ix = under(&c, x, tap % c.kernel);
            for (uint32_t k = 0; iy < c.in.h && ix < c.in.w && k < group_in(&c); k++)
                sum += weight[(o * (size_t)group_in(&c) + k) * taps + tap] *
                       get(in, place(c.in, n, iy, ix, first + k));
        }
        put(out, i, sum + (bias ? bias[o] : 0));
    }
}

/* The window that has input pixel y under its tap k along one side; beyond every edge where there is none. */
static __device__ uint32_t above(const struct call *c, uint32_t y, uint32_t k)
{
    uint32_t first = y + c->pad - k;
    return y + c->pad < k || first % c->stride ? UINT32_MAX : first / c->stride;
}

extern "C" __global__ void groups_back_input(struct call c)
{
    struct numbers dx = at_seat(c.seats, c.dx[0], c.in, c.batch), dy = at_seat(c.seats, c.dy, c.out, c.batch);
    const float *weight = in_row(my_seat(&c).params, c.weight);
    uint32_t taps = c.kernel * c.kernel;
    for (size_t i = my_first(); i < c.batch * size_of(c.in); i += my_step()) {
        uint32_t channel = i % c.in.c, x = i / c.in.c % c.in.w, y = i / c.in.c / c.in.w % c.in.h,
                 n = i / size_of(c.in), first = channel / group_in(&c) * group_out(&c);
        float sum = 0;
        for (uint32_t tap = 0; tap < taps; tap++) {
            uint32_t oy = above(&c, y, tap / c.kernel), ox = above(&c, x, tap % c.kernel);
            for (uint32_t o = first; oy < c.out.h && ox < c.out.w && o < first + group_out(&c); o++)
                sum += weight[(o * (size_t)group_in(&c) + channel % group_in(&c)) * taps + tap] *
                       get(dy, place(c.out, n, oy, ox, o));
        }
        put(dx, i, sum);
    }
}

/* One weight's share of a stretch of pixels: every `step`-th from `k` on. */
static __device__ float weight_sum(const struct call *c, uint32_t o, uint32_t channel, uint32_t tap, size_t k,
                                   size_t end, uint32_t step)
{
    struct numbers in = at_seat(c->seats, c->x[0], c->in, c->batch), dy = at_seat(c->seats, c->dy, c->out, c->batch);
    float sum = 0;
    for (; k < end; k += step) {
        uint32_t x = k % c->out.w, y = k / c->out.w % c->out.h, n = k / c->out.w / c->out.h;
        uint32_t iy = under(c, y, tap / c->kernel), ix = under(c, x, tap % c->kernel);
        if (iy < c->in.h && ix < c->in.w)
            sum += get(dy, k * c->out.c + o) * get(in, place(c->in, n, iy, ix, channel));
    }
    return sum;
}

/* blockIdx.x: 32 outputs of one channel of the group and one tap; blockIdx.y: the stretch. */
extern "C" __global__ void groups_back_weight(struct call c)
{
    __shared__ float sums[LINES][LANES];
    uint32_t taps = c.kernel * c.kernel, each = group_in(&c) * taps, lane = threadIdx.x % LANES,
             line = threadIdx.x / LANES;
    uint32_t o = blockIdx.x / each * LANES + lane, k = blockIdx.x % each / taps, tap = blockIdx.x % taps;
    size_t pixels = (size_t)c.batch * c.out.h * c.out.w, stretch = (pixels + c.splits - 1) / c.splits,
           first = blockIdx.y * stretch, end = min(first + stretch, pixels);
    bool works = o < c.out.c;
    sums[line][lane] =
        works ? weight_sum(&c, o, o / group_out(&c) * group_in(&c) + k, tap, first + line, end, LINES) : 0;
    __syncthreads();
    if (line > 0 || !works)
        return;
    float sum = 0;
    for (int i = 0; i < LINES; i++)
        sum += sums[i][lane];
    stretch_place(&c, (size_t)c.out.c * each, blockIdx.y)[(o * (size_t)group_in(&c) + k) * taps + tap] = sum;
}
