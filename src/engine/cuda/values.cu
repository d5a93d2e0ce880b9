/* values.cu - the ops that work number by number: add, concat, relu, tanh, sigmoid, dropout, reshape; and those that carry numbers
 * to other parts and from there.
 *
 * Each thread takes every so-manieth number of its seat, or four, so any number of threads will do.
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
        v.x[k] = at_seat(c->seats, c->x[k], c->in, c->batch);
        v.dx[k] = at_seat(c->seats, c->dx[k], c->in, c->batch);
    }
    v.y = at_seat(c->seats, c->y, c->out, c->batch);
    v.dy = at_seat(c->seats, c->dy, c->out, c->batch);
    v.n = c->batch * size_of(c->in);
    return v;
}

#define EACH(i, v) for (size_t i = my_first(); i < (v).n; i += my_step())

template <int N, class OF>
static __device__ void map_some(size_t n, struct numbers out, struct numbers also, struct numbers a,
                                struct numbers b, OF of)
{
    for (size_t i = my_first() * N; i < n; i += my_step() * N) {
        some<N> x = get_some<N>(a, i), y = get_some<N>(b, i), z;
#pragma unroll
        for (int k = 0; k < N; k++)
            z.of[k] = of(x.of[k], y.of[k]);
        if (out.at)
            put_some<N>(out, i, z);
        if (also.at)
            put_some<N>(also, i, z);
    }
}

/* out = of(a, b), number by number, and the same into `also`, where there are such tensors */
template <class OF>
static __device__ void map_to_both(size_t n, struct numbers out, struct numbers also, struct numbers a,
                                   struct numbers b, OF of)
{
    if (n % 4 == 0)
        map_some<4>(n, out, also, a, b, of);
    else
        map_some<1>(n, out, also, a, b, of);
}

template <class OF>
static __device__ void map(size_t n, struct numbers out, struct numbers a, struct numbers b, OF of)
{
    struct numbers none = {};
    map_to_both(n, out, none, a, b, of);
}

extern "C" __global__ void add_forward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.y, v.x[0], v.x[1], [=](float a, float b) { return c.relu && a + b < 0 ? 0 : a + b; });
}

extern "C" __global__ void add_backward(struct call c)
{
    struct values v = my_values(&c);
    map_to_both(v.n, v.dx[0], v.dx[1], v.dy, v.y,
                [=](float dy, float y) { return c.relu && !(y > 0) ? 0 : dy; });
}

/* Input k of a concat, its shape, and where its number i stands in the output. */
static __device__ struct dims joined_dims(const struct call *c, int k)
{
    struct dims d = c->in;
    d.c = k ? c->out.c - c->in.c : c->in.c;
    return d;
}

static __device__ size_t joined_place(const struct call *c, int k, size_t i)
{
    uint32_t channels = joined_dims(c, k).c;
    return i / channels * c->out.c + (k ? c->in.c : 0) + i % channels;
}

extern "C" __global__ void concat_forward(struct call c)
{
    struct numbers y = at_seat(c.seats, c.y, c.out, c.batch);
    for (int k = 0; k < 2; k++) {
        struct numbers x = at_seat(c.seats, c.x[k], joined_dims(&c, k), c.batch);
        for (size_t i = my_first(); i < c.batch * size_of(joined_dims(&c, k)); i += my_step())
            put(y, joined_place(&c, k, i), get(x, i));
    }
}

/* Both inputs may be the same tensor: a thread owns a number of it. */
extern "C" __global__ void concat_backward(struct call c)
{
    struct numbers dy = at_seat(c.seats, c.dy, c.out, c.batch);
    for (int k = 0; k < 2; k++) {
        struct numbers dx = at_seat(c.seats, c.dx[k], joined_dims(&c, k), c.batch);
        for (size_t i = my_first(); dx.at && i < c.batch * size_of(joined_dims(&c, k)); i += my_step())
            put(dx, i, get(dy, joined_place(&c, k, i)));
    }
}

extern "C" __global__ void relu_forward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.y, v.x[0], v.x[0], [](float x, float) { return x < 0 ? 0 : x; });
}

extern "C" __global__ void relu_backward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.dx[0], v.dy, v.y, [](float dy, float y) { return y > 0 ? dy : 0; });
}

extern "C" __global__ void tanh_forward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.y, v.x[0], v.x[0], [](float x, float) { return tanhf(x); });
}

extern "C" __global__ void tanh_backward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.dx[0], v.dy, v.y, [](float dy, float y) { return dy * (1 - y * y); });
}

extern "C" __global__ void sigmoid_forward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.y, v.x[0], v.x[0], [](float x, float) { return 1 / (1 + expf(-x)); });
}

extern "C" __global__ void sigmoid_backward(struct call c)
{
    struct values v = my_values(&c);
    map(v.n, v.dx[0], v.dy, v.y, [](float dy, float y) { return dy * (y * (1 - y)); });
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

/* What is dropped goes by a number's place in the whole batch, of which the seat's samples may be a few. */
struct dropping {
    uint64_t key;
    size_t first;
};

static __device__ struct dropping my_dropping(const struct call *c)
{
    struct seat seat = my_seat(c);
    return {scramble(seat.seed, c->op), seat.first * size_of(c->in)};
}

static __device__ float dropout_factor(const struct call *c, struct dropping d, size_t i)
{
    if (!c->learning)
        return 1;
    bool keeps = (double)(scramble(d.key, d.first + in_graph_order(c->in, i)) >> 40) >= c->rate * 16777216.0;
    return keeps ? (float)(1 / (1 - c->rate)) : 0;
}

extern "C" __global__ void dropout_forward(struct call c)
{
    struct values v = my_values(&c);
    struct dropping d = my_dropping(&c);
    EACH(i, v)
    put(v.y, i, get(v.x[0], i) * dropout_factor(&c, d, i));
}

extern "C" __global__ void dropout_backward(struct call c)
{
    struct values v = my_values(&c);
    struct dropping d = my_dropping(&c);
    EACH(i, v)
    put(v.dx[0], i, get(v.dy, i) * dropout_factor(&c, d, i));
}

extern "C" __global__ void reshape_forward(struct call c)
{
    struct values v = my_values(&c);
    EACH(i, v)
    put(v.y, in_device_order(c.out, in_graph_order(c.in, i)), get(v.x[0], i));
}

extern "C" __global__ void reshape_backward(struct call c)
{
    struct values v = my_values(&c);
    EACH(i, v)
    put(v.dx[0], i, get(v.dy, in_device_order(c.out, in_graph_order(c.in, i))));
}

/* What crosses lies in the rows as it does everywhere, in the graph's order; these ops have the same shape on both sides. */
extern "C" __global__ void send_forward(struct call c)
{
    struct values v = my_values(&c);
    float *to = my_seat(&c).outputs + c.values_at;
    EACH(i, v)
    to[in_graph_order(c.in, i)] = get(v.x[0], i);
}

extern "C" __global__ void send_backward(struct call c)
{
    struct values v = my_values(&c);
    const float *from = my_seat(&c).output_grads + c.grads_at;
    EACH(i, v)
    put(v.dx[0], i, from[in_graph_order(c.in, i)]);
}

extern "C" __global__ void receive_forward(struct call c)
{
    struct values v = my_values(&c);
    const float *from = my_seat(&c).inputs + c.values_at;
    EACH(i, v)
    put(v.y, i, from[in_graph_order(c.in, i)]);
}

extern "C" __global__ void receive_backward(struct call c)
{
    struct values v = my_values(&c);
    float *to = my_seat(&c).input_grads + c.grads_at;
    EACH(i, v)
    to[in_graph_order(c.in, i)] = get(v.dy, i);
}
