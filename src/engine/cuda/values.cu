/* values.cu - the ops that work number by number: add, relu, tanh, sigmoid, dropout, reshape.
 *
 * Each thread takes every so-manieth number of its seat, so any number of threads will do.
 */
#include "engine/cuda/device.cuh"

/* One seat's tensors, and how many numbers each has. */
struct values {
    struct numbers x[2], y, dy, dx[2];
    size_t n;
};

static __device__ struct values my_values(const struct call *c)
{
    struct values v;
    for (int k = 0; k < 2; k++) {
        v.x[k] = at_seat(c->x[k], c->in, c->batch);
        v.dx[k] = at_seat(c->dx[k], c->in, c->batch);
    }
    v.y = at_seat(c->y, c->out, c->batch);
    v.dy = at_seat(c->dy, c->out, c->batch);
    v.n = c->batch * size_of(c->in);
    return v;
}

#define EACH(i, v) for (size_t i = my_first(); i < (v).n; i += my_step())

extern "C" __global__ void add_forward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v) {
        float sum = get(v.x[0], i) + get(v.x[1], i);
        put(v.y, i, c.relu && sum < 0 ? 0 : sum);
    }
}

extern "C" __global__ void add_backward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v) {
        float dy = c.relu && !(get(v.y, i) > 0) ? 0 : get(v.dy, i);
        for (int k = 0; k < 2; k++)
            if (v.dx[k].at)
                put(v.dx[k], i, dy);
    }
}

extern "C" __global__ void relu_forward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v) {
        float x = get(v.x[0], i);
        put(v.y, i, x < 0 ? 0 : x);
    }
}

extern "C" __global__ void relu_backward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v)
        put(v.dx[0], i, get(v.y, i) > 0 ? get(v.dy, i) : 0);
}

extern "C" __global__ void tanh_forward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v)
        put(v.y, i, tanhf(get(v.x[0], i)));
}

extern "C" __global__ void tanh_backward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v) {
        float y = get(v.y, i);
        put(v.dx[0], i, get(v.dy, i) * (1 - y * y));
    }
}

extern "C" __global__ void sigmoid_forward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v)
        put(v.y, i, 1 / (1 + expf(-get(v.x[0], i))));
}

extern "C" __global__ void sigmoid_backward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v) {
        float y = get(v.y, i);
        put(v.dx[0], i, get(v.dy, i) * (y * (1 - y)));
    }
}

/* Where number i of a batch, channels last, stands in [sample][c][h][w]. */
static __device__ size_t in_graph_order(struct dims d, size_t i)
{
    size_t pixels = (size_t)d.h * d.w, n = i / (d.c * pixels), at = i % (d.c * pixels);
    return (n * d.c + at % d.c) * pixels + at / d.c;
}

/* ... and the other way round. */
static __device__ size_t in_device_order(struct dims d, size_t i)
{
    size_t pixels = (size_t)d.h * d.w, n = i / (d.c * pixels), at = i % (d.c * pixels);
    return (n * pixels + at % pixels) * d.c + at / pixels;
}

static __device__ float dropout_factor(const struct call *c, uint64_t key, size_t i)
{
    if (!c->learning)
        return 1;
    bool keeps = (double)(scramble(key, in_graph_order(c->in, i)) >> 40) >= c->rate * 16777216.0;
    return keeps ? (float)(1 / (1 - c->rate)) : 0;
}

extern "C" __global__ void dropout_forward(struct call c)
{
    struct values v = my_values(&c);
    uint64_t key = scramble(my_seat(&c).seed, c.op);
    EACH (i, v)
        put(v.y, i, get(v.x[0], i) * dropout_factor(&c, key, i));
}

extern "C" __global__ void dropout_backward(struct call c)
{
    struct values v = my_values(&c);
    uint64_t key = scramble(my_seat(&c).seed, c.op);
    EACH (i, v)
        put(v.dx[0], i, get(v.dy, i) * dropout_factor(&c, key, i));
}

extern "C" __global__ void reshape_forward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v)
        put(v.y, in_device_order(c.out, in_graph_order(c.in, i)), get(v.x[0], i));
}

extern "C" __global__ void reshape_backward(struct call c)
{
    struct values v = my_values(&c);
    EACH (i, v)
        put(v.dx[0], i, get(v.dy, in_device_order(c.out, in_graph_order(c.in, i))));
}
