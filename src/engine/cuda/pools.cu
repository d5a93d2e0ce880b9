/* pools.cu - the ops that make fewer pixels: max, mean and global pooling, the residual's shortcut.
 *
 * Backward goes from the input's side: a thread owns one input number and collects from the windows above it,
 * so nothing is added by two threads and the order of every sum is fixed.
 */
#include "engine/cuda/device.cuh"

struct spot { /* one number of a seat's tensor */
    uint32_t n, y, x, c;
};

static __device__ struct spot spot_of(struct dims d, uint32_t i)
{
    struct spot s;
    s.c = i % d.c;
    i /= d.c;
    s.x = i % d.w;
    i /= d.w;
    s.y = i % d.h;
    s.n = i / d.h;
    return s;
}

static __device__ size_t index_of(struct dims d, uint32_t n, uint32_t y, uint32_t x, uint32_t c)
{
    return ((n * (size_t)d.h + y) * d.w + x) * d.c + c;
}

/* The input pixels under window y along one side, cut at the picture's edges. */
struct stretch {
    uint32_t first, end;
};

static __device__ struct stretch under(const struct call *c, uint32_t y, uint32_t side)
{
    uint32_t first = y * c->stride, end = first + c->kernel;
    struct stretch s = {first < c->pad ? 0 : first - c->pad, min(end - c->pad, side)};
    return s;
}

/* The windows that lie over input pixel y along one side. */
static __device__ struct stretch above(const struct call *c, uint32_t y, uint32_t windows)
{
    uint32_t padded = y + c->pad;
    struct stretch s = {padded < c->kernel ? 0 : (padded - c->kernel) / c->stride + 1,
                        min(padded / c->stride + 1, windows)};
    return s;
}

/* The first largest pixel of a window. */
static __device__ size_t largest(const struct call *c, struct numbers x, struct spot s)
{
    struct stretch ys = under(c, s.y, c->in.h), xs = under(c, s.x, c->in.w);
    size_t best = index_of(c->in, s.n, ys.first, xs.first, s.c);
    float most = get(x, best);
    for (uint32_t i = ys.first; i < ys.end; i++)
        for (uint32_t j = xs.first; j < xs.end; j++) {
            size_t at = index_of(c->in, s.n, i, j, s.c);
            float value = get(x, at);
            if (value > most) {
                most = value;
                best = at;
            }
        }
    return best;
}

extern "C" __global__ void maxpool_forward(struct call c)
{
    struct numbers x = at_seat(c.seats, c.x[0], c.in, c.batch), y = at_seat(c.seats, c.y, c.out, c.batch);
    for (size_t i = my_first(); i < c.batch * size_of(c.out); i += my_step())
        put(y, i, get(x, largest(&c, x, spot_of(c.out, i))));
}

extern "C" __global__ void maxpool_backward(struct call c)
{
    struct numbers x = at_seat(c.seats, c.x[0], c.in, c.batch), dx = at_seat(c.seats, c.dx[0], c.in, c.batch);
    struct numbers dy = at_seat(c.seats, c.dy, c.out, c.batch);
    for (size_t i = my_first(); i < c.batch * size_of(c.in); i += my_step()) {
        struct spot s = spot_of(c.in, i);
        struct stretch ys = above(&c, s.y, c.out.h), xs = above(&c, s.x, c.out.w);
        float sum = 0;
        for (uint32_t wy = ys.first; wy < ys.end; wy++)
            for (uint32_t wx = xs.first; wx < xs.end; wx++) {
                struct spot window = {s.n, wy, wx, s.c};
                if (largest(&c, x, window) == i)
                    sum += get(dy, index_of(c.out, s.n, wy, wx, s.c));
            }
        put(dx, i, sum);
    }
}

extern "C" __global__ void avgpool_forward(struct call c)
{
    struct numbers x = at_seat(c.seats, c.x[0], c.in, c.batch), y = at_seat(c.seats, c.y, c.out, c.batch);
    for (size_t i = my_first(); i < c.batch * size_of(c.out); i += my_step()) {
        struct spot s = spot_of(c.out, i);
        struct stretch ys = under(&c, s.y, c.in.h), xs = under(&c, s.x, c.in.w);
        float sum = 0;
        for (uint32_t iy = ys.first; iy < ys.end; iy++)
            for (uint32_t ix = xs.first; ix < xs.end; ix++)
                sum += get(x, index_of(c.in, s.n, iy, ix, s.c));
        put(y, i, sum / (float)(c.kernel * c.kernel));
    }
}

extern "C" __global__ void avgpool_backward(struct call c)
{
    struct numbers dx = at_seat(c.seats, c.dx[0], c.in, c.batch), dy = at_seat(c.seats, c.dy, c.out, c.batch);
    for (size_t i = my_first(); i < c.batch * size_of(c.in); i += my_step()) {
        struct spot s = spot_of(c.in, i);
        struct stretch ys = above(&c, s.y, c.out.h), xs = above(&c, s.x, c.out.w);
        float sum = 0;
        for (uint32_t wy = ys.first; wy < ys.end; wy++)
            for (uint32_t wx = xs.first; wx < xs.end; wx++)
                sum += get(dy, index_of(c.out, s.n, wy, wx, s.c));
        put(dx, i, sum / (float)(c.kernel * c.kernel));
    }
}

extern "C" __global__ void globalpool_forward(struct call c)
{
    struct numbers x = at_seat(c.seats, c.x[0], c.in, c.batch), y = at_seat(c.seats, c.y, c.out, c.batch);
    size_t pixels = (size_t)c.in.h * c.in.w;
    for (size_t i = my_first(); i < (size_t)c.batch * c.in.c; i += my_step()) {
        float sum = 0;
        for (size_t k = 0; k < pixels; k++)
            sum += get(x, (i / c.in.c * pixels + k) * c.in.c + i % c.in.c);
        put(y, i, sum / (float)pixels);
    }
}

extern "C" __global__ void globalpool_backward(struct call c)
{
    struct numbers dx = at_seat(c.seats, c.dx[0], c.in, c.batch), dy = at_seat(c.seats, c.dy, c.out, c.batch);
    size_t pixels = (size_t)c.in.h * c.in.w;
    for (size_t i = my_first(); i < c.batch * size_of(c.in); i += my_step())
        put(dx, i, get(dy, i / (pixels * c.in.c) * c.in.c + i % c.in.c) / (float)pixels);
}

extern "C" __global__ void shortcut_forward(struct call c)
{
    struct numbers x = at_seat(c.seats, c.x[0], c.in, c.batch), y = at_seat(c.seats, c.y, c.out, c.batch);
    uint32_t before = (c.out.c - c.in.c) / 2;
    for (size_t i = my_first(); i < c.batch * size_of(c.out); i += my_step()) {
        struct spot s = spot_of(c.out, i);
        bool old = s.c >= before && s.c - before < c.in.c;
        put(y, i, old ? get(x, index_of(c.in, s.n, s.y * c.stride, s.x * c.stride, s.c - before)) : 0);
    }
}

extern "C" __global__ void shortcut_backward(struct call c)
{
    struct numbers dx = at_seat(c.seats, c.dx[0], c.in, c.batch), dy = at_seat(c.seats, c.dy, c.out, c.batch);
    uint32_t before = (c.out.c - c.in.c) / 2;
    for (size_t i = my_first(); i < c.batch * size_of(c.in); i += my_step()) {
        struct spot s = spot_of(c.in, i);
        bool taken = s.y % c.stride == 0 && s.x % c.stride == 0;
        put(dx, i, taken ? get(dy, index_of(c.out, s.n, s.y / c.stride, s.x / c.stride, s.c + before)) : 0);
    }
}
