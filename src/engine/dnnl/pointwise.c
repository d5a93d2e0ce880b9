/* pointwise.c - ops that work number by number: add, relu, tanh, sigmoid, dropout; and reshape.
 *
 * A chunk's samples lie end to end, so most of these loop over the numbers without asking what they are.
 * Padding lanes hold zeros; only sigmoid would not keep them so.
 */
#include <math.h>

#include "engine/dnnl/kernels.h"
#include "engine/dnnl/lanes.h"
#include "engine/host.h"

static size_t numbers(const struct layout *l, size_t n_samples)
{
    return l->sample_step * n_samples;
}

/* Calls body(..., at, number, n) for all numbers, sixteen at a time. */
#define EACH(body, kind, count, ...)                                                                         \
    do {                                                                                                     \
        size_t each_at = 0, each_n = (count);                                                                \
        if ((kind) == NUMBER_F32)                                                                            \
            for (; each_at + 16 <= each_n; each_at += 16)                                                    \
                body(__VA_ARGS__, each_at, NUMBER_F32, 16);                                                  \
        else                                                                                                 \
            for (; each_at + 16 <= each_n; each_at += 16)                                                    \
                body(__VA_ARGS__, each_at, NUMBER_BF16, 16);                                                 \
        if (each_at < each_n)                                                                                \
            body(__VA_ARGS__, each_at, kind, each_n - each_at);                                              \
    } while (0)

INLINE void add_at(const void *a, const void *b, void *y, bool relu, size_t at, enum number number, size_t n)
{
    lanes v = lanes_load(a, at, number, n) + lanes_load(b, at, number, n);
    lanes_store(y, at, relu ? lanes_relu(v) : v, number, n);
}

void add_two(const struct layout *l, size_t n_samples, const void *a, const void *b, void *to)
{
    EACH(add_at, l->number, numbers(l, n_samples), a, b, to, false);
}

void add_chunk(const struct task *t, const struct op_unit *u)
{
    const void *a = task_chunk(t, u->x[0]), *b = task_chunk(t, u->x[1]);
    EACH(add_at, u->out.number, numbers(&u->out, t->n), a, b, task_chunk(t, u->y), u->op->relu);
}

INLINE void masked_at(const void *y, const void *dy, void *g, size_t at, enum number number, size_t n)
{
    lane_bits passes = lanes_load(y, at, number, n) > 0;
    lanes_store(g, at, lanes_where(passes, lanes_load(dy, at, number, n)), number, n);
}

void relu_back_chunk(const struct task *t, const struct op_unit *u)
{
    void *g = task_chunk(t, t->program->grads[u->op->out]);
    EACH(masked_at, u->out.number, numbers(&u->out, t->n), task_chunk(t, u->y), task_chunk(t, u->dy), g);
}

INLINE void pointwise_at(enum op_kind kind, const void *x, void *y, size_t at, enum number number, size_t n)
{
    lanes v = lanes_load(x, at, number, n);
    if (kind == OP_RELU)
        v = lanes_relu(v);
    else
        for (size_t i = 0; i < n; i++)
            v[i] = kind == OP_TANH ? tanhf(v[i]) : 1 / (1 + expf(-v[i]));
    lanes_store(y, at, v, number, n);
}

/* Zeros into the lanes beyond the last channel. */
static void clear_padding(const struct layout *l, size_t n_samples, void *y)
{
    size_t g = l->groups - 1, real = l->shape.c - g * l->lanes, size = number_size(l->number);
    if (real == l->last_lanes)
        return;
    for (size_t i = 0; i < n_samples; i++)
        for (size_t p = 0; p < l->pixels; p++) {
            size_t at = i * l->sample_step + g * l->group_step + p * l->pixel_step + real;
            memset((char *)y + at * size, 0, (l->last_lanes - real) * size);
        }
}

static void pointwise_chunk(const struct task *t, const struct op_unit *u)
{
    const void *x = task_chunk(t, u->x[0]);
    void *y = task_chunk(t, u->y);
    EACH(pointwise_at, u->out.number, numbers(&u->out, t->n), u->op->kind, x, y);
    if (u->op->kind == OP_SIGMOID)
        clear_padding(&u->out, t->n, y);
}

INLINE void pointwise_back_at(enum op_kind kind, const void *out, const void *dy, void *dx, size_t at,
                              enum number number, size_t n)
{
    lanes y = lanes_load(out, at, number, n), g = lanes_load(dy, at, number, n);
    if (kind == OP_RELU)
        g = lanes_where(y > 0, g);
    else
        g *= kind == OP_TANH ? 1 - y * y : y * (1 - y);
    lanes_store(dx, at, g, number, n);
}

static void pointwise_back_chunk(const struct task *t, const struct op_unit *u)
{
    const void *y = task_chunk(t, u->y), *dy = task_chunk(t, u->dy);
    EACH(pointwise_back_at, u->out.number, numbers(&u->out, t->n), u->op->kind, y, dy,
         task_chunk(t, u->dx[0]));
}

static void pointwise_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
    job_chunk(p, pointwise_chunk, u);
}

static void pointwise_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->y);
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    job_chunk(p, pointwise_back_chunk, u);
}

const struct op_maker pointwise_maker = {.forward = pointwise_forward, .backward = pointwise_backward};

struct drop {
    uint64_t key, bound; /* dropped where hash >> 40 < bound */
    float factor;
};

/* The mask follows from an element's place in [sample][c][h][w], whatever the order in memory. */
INLINE void drop_group(const struct layout *l, size_t sample, const struct drop *d, const void *from,
                       void *to, size_t g, enum number number, size_t n)
{
    size_t local = g * l->group_step, logical = (sample * l->shape.c + g * l->lanes) * l->pixels;
    for (size_t p = 0; p < l->pixels; p++) {
        float factor[MOST_LANES] = {0};
        for (size_t i = 0; i < n; i++)
            factor[i] = rng_hash(d->key, logical + i * l->pixels + p) >> 40 >= d->bound ? d->factor : 0;
        size_t at = local + p * l->pixel_step;
        lanes_store(to, at, lanes_load(from, at, number, n) * lanes_load(factor, 0, NUMBER_F32, n), number,
                    n);
    }
}

static void drop(const struct task *t, const struct op_unit *u, int from, int to)
{
    double rate = t->program->is_learning ? u->op->rate : 0;
    struct drop d = {rng_hash(t->frame->seed, u->op->key), (uint64_t)ceil(rate * 0x1p24),
                     (float)(1 / (1 - rate))};
    for (size_t i = t->first; i < t->first + t->n; i++)
        for (size_t g = 0; g < u->out.groups; g++)
            LANES(drop_group, u->out.number, layout_lanes(&u->out, g), &u->out, t->frame->first_sample + i,
                  &d, task_at(t, from, i), task_at(t, to, i), g);
}

static void dropout_chunk(const struct task *t, const struct op_unit *u)
{
    drop(t, u, u->x[0], u->y);
}

static void dropout_back_chunk(const struct task *t, const struct op_unit *u)
{
    drop(t, u, u->dy, u->dx[0]);
}

static void dropout_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
    job_chunk(p, dropout_chunk, u);
}

static void dropout_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    job_chunk(p, dropout_back_chunk, u);
}

const struct op_maker dropout_maker = {.forward = dropout_forward, .backward = dropout_backward};

/* Reshape goes by way of the flat order, which both shapes share. */
static void reshape_chunk(const struct task *t, const struct op_unit *u)
{
    float *flat = task_kept(t, t->program->flat);
    for (size_t i = t->first; i < t->first + t->n; i++) {
        layout_unpack(&u->in, task_at(t, u->x[0], i), flat);
        layout_pack(&u->out, flat, task_at(t, u->y, i));
    }
}

static void reshape_back_chunk(const struct task *t, const struct op_unit *u)
{
    float *flat = task_kept(t, t->program->flat);
    for (size_t i = t->first; i < t->first + t->n; i++) {
        layout_unpack(&u->out, task_at(t, u->dy, i), flat);
        layout_pack(&u->in, flat, task_at(t, u->dx[0], i));
    }
}

static void reshape_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
    job_chunk(p, reshape_chunk, u);
}

static void reshape_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    job_chunk(p, reshape_back_chunk, u);
}

const struct op_maker reshape_maker = {.forward = reshape_forward, .backward = reshape_backward};
