/* linear.c - linear layers as matrix products of the whole batch with slices of the weights.
 *
 *   forward:   Y[., slice]^T = W[slice, .] X^T + bias[slice]    slices of outputs
 *   backward:  dW[slice, .] = dY[., slice]^T X                  slices of outputs
 *              dX[., slice] = dY W[., slice]                    slices of inputs
 *
 * Large weights are read once, not once for each chunk of samples, and straight from the replica's row. X and
 * dY must be plain matrices: where the tensor lies otherwise, or the numbers are bf16, a chunk job makes a
 * copy first.
 */
#include "engine/dnnl/kernels.h"
#include "engine/dnnl/lanes.h"

struct slices {
    size_t size, n; /* the last may be smaller */
};

struct linear {
    size_t n_in, n_out;
    struct slices of_out, of_in;
    enum number number;
    int x, y, dy, dx; /* buffers: the matrices, the tensors' own where they are plain */
    int weights;      /* buffer: a bf16 copy, or NO_BUFFER                            */
    bool dy_is_there; /* while building */
    struct kernel *forward[2], *gradient[2], *data[2]; /* slices of full size, and the last */
};

static struct slices cut(size_t n)
{
    enum { WIDE = 128, MOST = 8, STEP = 16 };
    size_t count = n / WIDE < 1 ? 1 : n / WIDE > MOST ? MOST : n / WIDE;
    size_t size = round_up((n + count - 1) / count, STEP);
    return (struct slices){size, (n + size - 1) / size};
}

static size_t slice_size(const struct slices *s, size_t total, size_t index)
{
    return index + 1 < s->n ? s->size : total - index * s->size;
}

static fault make_products(struct program *p, struct linear *l, bool learning, bool data)
{
    size_t batch = p->batch, n_in = l->n_in, n_out = l->n_out;
    for (int last = 0; last < 2; last++) {
        size_t outs = slice_size(&l->of_out, n_out, last ? l->of_out.n - 1 : 0);
        size_t ins = slice_size(&l->of_in, n_in, last ? l->of_in.n - 1 : 0);
        struct product_shape forward = {outs, batch, n_in, l->number, n_in, 1, 1, n_in, batch};
        struct product_shape gradient = {outs, n_in, batch, l->number, 1, n_out, n_in, 1, n_in};
        struct product_shape back = {batch, ins, n_out, l->number, n_out, 1, n_in, 1, n_in};
        TRY(kernel_product(p->onednn, &forward, &l->forward[last]));
        if (learning)
            TRY(kernel_product(p->onednn, &gradient, &l->gradient[last]));
        if (data)
            TRY(kernel_product(p->onednn, &back, &l->data[last]));
    }
    return OK;
}

static void halve_weights(const struct task *t, const struct op_unit *u);

static fault linear_prepare(struct program *p, struct op_unit *u)
{
    struct linear *l = u->own = ARENA_NEW(&p->arena, struct linear, 1);
    if (!l)
        return OUT_OF_MEMORY;
    l->n_in = shape_size(u->in.shape);
    l->n_out = u->out.shape.c;
    l->of_in = cut(l->n_in);
    l->of_out = cut(l->n_out);
    l->number = p->number;
    bool halves = l->number == NUMBER_BF16, plain_in = layout_is_flat(&u->in),
         plain_out = layout_is_flat(&u->out);
    size_t size = number_size(l->number);
    l->x = plain_in && !halves ? u->x[0] : buffer_add(p, l->n_in * size, 0);
    l->y = plain_out ? u->y : buffer_add(p, l->n_out * sizeof(float), 0);
    l->dy = plain_out && !halves ? u->dy : buffer_add(p, l->n_out * size, 0);
    l->dx = plain_in ? u->dx[0] : buffer_add(p, l->n_in * sizeof(float), 0);
    l->weights = NO_BUFFER;
    flat_reserve(p, l->of_out.size * p->batch * sizeof(float));
    if (halves) {
        l->weights = buffer_prepare(p, l->n_in * l->n_out * size);
        job_prepare(p, halve_weights, u);
    }
    return make_products(p, l, p->is_learning, u->wanted[0]);
}

static const float *weights_of(const struct task *t, const struct op_unit *u)
{
    return t->frame->params + t->program->setup->graph->params[u->op->weight].offset;
}

static void halve_weights(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    uint16_t *halves = task_kept(t, l->weights);
    const float *w = weights_of(t, u);
    size_t n = l->n_in * l->n_out, i = 0;
    for (; i + 16 <= n; i += 16)
        lanes_store(halves, i, lanes_load(w, i, NUMBER_F32, 16), NUMBER_BF16, 16);
    if (i < n)
        lanes_store(halves, i, lanes_load(w, i, NUMBER_F32, n - i), NUMBER_BF16, n - i);
}

/* The weights as the products read them, from number `at` on. */
static void *weights_at(const struct task *t, const struct op_unit *u, size_t at)
{
    const struct linear *l = u->own;
    if (l->weights != NO_BUFFER)
        return (uint16_t *)task_kept(t, l->weights) + at;
    return (void *)(weights_of(t, u) + at);
}

static void *number_at(const struct linear *l, void *numbers, size_t at)
{
    return (char *)numbers + at * number_size(l->number);
}

static void unpack_x_chunk(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_unpack_as(&u->in, task_at(t, u->x[0], i), l->number, task_at(t, l->x, i));
}

static void unpack_dy_chunk(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_unpack_as(&u->out, task_at(t, u->dy, i), l->number, task_at(t, l->dy, i));
}

static void pack_y_chunk(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_pack(&u->out, task_at(t, l->y, i), task_at(t, u->y, i));
}

static void pack_dx_chunk(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_pack(&u->in, task_at(t, l->dx, i), task_at(t, u->dx[0], i));
}

/* The product comes transposed, which is faster by a quarter (the weights need not be turned), and is turned
 * here. */
static void forward_slice(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    size_t first = t->index * l->of_out.size, n = slice_size(&l->of_out, l->n_out, t->index);
    float *turned = task_kept(t, t->program->flat), *y = (float *)task_at(t, l->y, 0) + first;
    void *args[] = {weights_at(t, u, first * l->n_in), task_at(t, l->x, 0), turned};
    kernel_run(l->forward[t->index + 1 == l->of_out.n], t->worker, args);
    const float *bias = u->op->bias < 0
                            ? NULL
                            : t->frame->params + t->program->setup->graph->params[u->op->bias].offset + first;
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < n; k++)
            y[i * l->n_out + k] = turned[k * t->n + i] + (bias ? bias[k] : 0);
}

static void bias_gradient(const struct linear *l, const void *dy, size_t batch, size_t first, size_t n,
                          float *out)
{
    for (size_t k = 0; k < n; k += MOST_LANES) {
        size_t wide = n - k < MOST_LANES ? n - k : MOST_LANES;
        lanes sum = {0};
        for (size_t i = 0; i < batch; i++)
            sum += lanes_load(dy, i * l->n_out + first + k, l->number, wide);
        lanes_store(out, k, sum, NUMBER_F32, wide);
    }
}

static void gradient_slice(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    const struct graph *g = t->program->setup->graph;
    size_t first = t->index * l->of_out.size, n = slice_size(&l->of_out, l->n_out, t->index);
    void *dy = task_at(t, l->dy, 0);
    void *args[] = {number_at(l, dy, first), task_at(t, l->x, 0),
                    t->frame->grads + g->params[u->op->weight].offset + first * l->n_in};
    kernel_run(l->gradient[t->index + 1 == l->of_out.n], t->worker, args);
    if (u->op->bias >= 0)
        bias_gradient(l, dy, t->n, first, n, t->frame->grads + g->params[u->op->bias].offset + first);
}

static void data_slice(const struct task *t, const struct op_unit *u)
{
    const struct linear *l = u->own;
    size_t first = t->index * l->of_in.size;
    void *args[] = {task_at(t, l->dy, 0), weights_at(t, u, first), (float *)task_at(t, l->dx, 0) + first};
    kernel_run(l->data[t->index + 1 == l->of_in.n], t->worker, args);
}

static void linear_forward(struct program *p, struct op_unit *u)
{
    const struct linear *l = u->own;
    if (l->x != u->x[0]) {
        buffer_use(p, u->x[0]);
        buffer_use(p, l->x);
        job_chunk(p, unpack_x_chunk, u);
    }
    phase_end(p);
    buffer_use_whole(p, l->x);
    buffer_use_whole(p, l->y);
    job_slices(p, forward_slice, u, l->of_out.n);
    phase_end(p);
    if (l->y != u->y) {
        buffer_use(p, l->y);
        buffer_use(p, u->y);
        job_chunk(p, pack_y_chunk, u);
    }
}

/* Makes dy a matrix, unless that is done. The products that read it follow in the phase after. */
static void turn_dy(struct program *p, struct op_unit *u)
{
    struct linear *l = u->own;
    if (l->dy_is_there)
        return;
    l->dy_is_there = true;
    if (l->dy != u->dy) {
        buffer_use(p, u->dy);
        buffer_use(p, l->dy);
        job_chunk(p, unpack_dy_chunk, u);
    }
    phase_end(p);
}

static void linear_gradient(struct program *p, struct op_unit *u)
{
    const struct linear *l = u->own;
    turn_dy(p, u);
    buffer_use_whole(p, l->x);
    buffer_use_whole(p, l->dy);
    job_slices(p, gradient_slice, u, l->of_out.n);
    u->final_phase = p->n_phases;
}

static void linear_backward(struct program *p, struct op_unit *u)
{
    const struct linear *l = u->own;
    if (!u->wanted[0])
        return;
    turn_dy(p, u);
    buffer_use_whole(p, l->dy);
    buffer_use_whole(p, l->dx);
    job_slices(p, data_slice, u, l->of_in.n);
    phase_end(p);
    if (l->dx != u->dx[0]) {
        buffer_use(p, l->dx);
        buffer_use(p, u->dx[0]);
        job_chunk(p, pack_dx_chunk, u);
    }
}

const struct op_maker linear_maker = {.prepare = linear_prepare,
                                      .forward = linear_forward,
                                      .weights = linear_gradient,
                                      .backward = linear_backward};
