/* conv.c - convolutions by oneDNN, chunk by chunk.
 *
 *   prepare:   the replica's weights -> the orders its kernels read
 *   forward:   y = x * w + bias
 *   backward:  a partial gradient of w for each chunk; dx from dy
 *   one phase later: the partial gradients are summed in the chunks' order into the replica's row
 *
 * oneDNN has nothing but naive loops where a blocked x has fewer channels than a block. Such a convolution is
 * made over the blocks' padding as well, whose channels hold zeros in x and y and get zeros for weights and
 * bias. The same holds of groups that have fewer channels than a block: several are made as one, with zeros for
 * the weights between them.
 *
 * Where our own Winograd kernels (conv_own.c) are not in the build, oneDNN's are asked for by name where they
 * win: 3x3, stride 1, fp32, from 16 channels, for the data gradient from 32.
 */
#include "engine/dnnl/conv.h"

#include <string.h>

#include "engine/dnnl/kernels.h"

/* One way through a convolution that reads weights: a kernel, and the weights in the order it likes. */
struct way {
    struct kernel *kernel, *pack;
    int weights; /* buffer */
};

enum { WHOLE, TAIL, N_SIZES }; /* chunks of full size, and the last when it is smaller */

struct conv {
    size_t c_in, c_out, groups; /* channels, with those of the padding where it is widened */
    int wide;                   /* buffer: weights and bias over all of these, or NO_BUFFER */
    struct way forward[N_SIZES], data[N_SIZES];
    struct kernel *gradient[N_SIZES], *unpack;
    struct kernel *turn[N_SIZES]; /* x into the order that the gradient reads, or NULL */
    size_t gradient_bytes;        /* of one chunk's partial gradient: weights, then bias */
    size_t n_floats;              /* of the packed weight gradient                       */
    int partial;                  /* buffer: [chunk][gradient_bytes]                     */
    int spare;                    /* buffer: dx of a chunk before it is added            */
};

struct conv_shape conv_shape_of(const struct program *p, const struct op *op, size_t n)
{
    const struct graph *g = p->setup->graph->whole;
    op = &g->ops[op->number];
    struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
    return (struct conv_shape){.n = n,
                               .c_in = in.c,
                               .h_in = in.h,
                               .w_in = in.w,
                               .c_out = out.c,
                               .h_out = out.h,
                               .w_out = out.w,
                               .kernel = op->kernel,
                               .stride = op->stride,
                               .pad = op->pad,
                               .groups = op->groups,
                               .bias = op->bias >= 0,
                               .number = p->number,
                               .in = p->layouts_of_whole[op->in[0]].format,
                               .out = p->layouts_of_whole[op->out].format};
}

static struct conv_shape widened_shape(const struct program *p, const struct op_unit *u, size_t n)
{
    const struct conv *c = u->own;
    struct conv_shape s = conv_shape_of(p, u->op, n);
    s.c_in = c->c_in;
    s.c_out = c->c_out;
    s.groups = c->groups;
    return s;
}

static size_t weight_floats(const struct op_unit *u) /* as wide as it is made */
{
    const struct conv *c = u->own;
    return c->c_out * (c->c_in / c->groups) * u->op->kernel * u->op->kernel;
}

static bool suits_winograd(const struct conv_shape *s, enum conv_work work)
{
    size_t fewest = work == CONV_DATA ? 32 : 16;
    return s->number == NUMBER_F32 && s->kernel == 3 && s->stride == 1 && s->groups == 1 &&
           s->c_in >= fewest && s->c_out >= fewest;
}

/* Winograd where it wins and oneDNN has it, else direct. */
static fault best_conv(struct program *p, const struct conv_shape *s, enum conv_work work,
                       const struct kernel *like, struct kernel **out)
{
    if (suits_winograd(s, work)) {
        fault f = kernel_conv(p->onednn, s, work, true, like, out);
        if (!f)
            return OK;
        fault_drop(f);
    }
    return kernel_conv(p->onednn, s, work, false, like, out);
}

/* Whether every way through it that is wanted has more than naive loops. */
static fault is_fast(struct program *p, const struct op_unit *u, const struct conv_shape *s, bool *out)
{
    const bool wanted[] = {
        [CONV_FORWARD] = true, [CONV_DATA] = u->wanted[0], [CONV_WEIGHTS] = p->is_learning};
    bool naive = false;
    for (int work = CONV_FORWARD; !naive && work <= CONV_WEIGHTS; work++)
        if (wanted[work])
            TRY(conv_is_naive(p->onednn, s, (enum conv_work)work, NULL, &naive));
    *out = !naive;
    return OK;
}

/* The least that is fast: several groups as one; of groups of a single channel, those of a block; all as one. */
static fault widen_shape(struct program *p, const struct op_unit *u, struct conv_shape *s)
{
    const struct conv_shape narrow = *s;
    size_t in = layout_stored(&u->in), out = layout_stored(&u->out);
    bool fast = false;
    for (size_t n = narrow.groups / 2; !fast && n > 1; n--)
        if (narrow.groups % n == 0) {
            *s = narrow;
            s->groups = n;
            TRY(is_fast(p, u, s, &fast));
        }
    if (!fast && narrow.groups == narrow.c_in && narrow.groups == narrow.c_out && in % u->in.lanes == 0) {
        s->c_in = s->c_out = in;
        s->groups = in / u->in.lanes;
        TRY(is_fast(p, u, s, &fast));
    }
    if (fast)
        return OK;
    s->c_in = in;
    s->c_out = out;
    s->groups = 1;
    return OK;
}

static fault choose_width(struct program *p, const struct op_unit *u, struct conv *c)
{
    struct conv_shape s = conv_shape_of(p, u->op, p->chunk);
    bool has_padding = layout_stored(&u->in) > s.c_in || layout_stored(&u->out) > s.c_out, fast = true;
    if (has_padding || s.groups > 1)
        TRY(is_fast(p, u, &s, &fast));
    if (!fast)
        TRY(widen_shape(p, u, &s));
    c->c_in = s.c_in;
    c->c_out = s.c_out;
    c->groups = s.groups;
    c->wide = fast ? NO_BUFFER : buffer_prepare(p, (weight_floats(u) + c->c_out) * sizeof(float));
    return OK;
}

/* The weights of a way: shared with the way before it when they lie alike. */
static fault way_weights(struct program *p, struct way *w, const struct way *before)
{
    if (before && kernel_same_weights(w->kernel, before->kernel)) {
        w->weights = before->weights;
        return OK;
    }
    w->weights = buffer_prepare(p, kernel_weight_bytes(w->kernel));
    return kernel_pack(p->onednn, w->kernel, &w->pack);
}

/* With x as it lies; where oneDNN has only naive loops for that, with x as oneDNN likes it. An image of one
 * channel is such a case: its weights' gradient wants eight channels on AVX2, and in bf16 oneDNN 3 takes a
 * plain one only if it chose that itself. */
static fault make_gradient(struct program *p, const struct op_unit *u, struct conv *c, int i, size_t n)
{
    const struct kernel *like = i == WHOLE ? NULL : c->gradient[WHOLE];
    struct conv_shape s = widened_shape(p, u, n), any = s;
    struct kernel **k = &c->gradient[i];
    bool is_naive, any_is_naive = true;
    any.in = FORMAT_ANY;
    TRY(conv_is_naive(p->onednn, &s, CONV_WEIGHTS, like, &is_naive));
    if (is_naive)
        TRY(conv_is_naive(p->onednn, &any, CONV_WEIGHTS, like, &any_is_naive));
    if (any_is_naive)
        return best_conv(p, &s, CONV_WEIGHTS, like, k);
    TRY(kernel_conv(p->onednn, &any, CONV_WEIGHTS, false, like, k));
    if (kernel_format(*k) == u->in.format)
        return OK;
    flat_reserve(p, kernel_input_bytes(*k));
    return kernel_pack_input(p->onednn, *k, u->in.format, &c->turn[i]);
}

static fault make_gradients(struct program *p, const struct op_unit *u, struct conv *c)
{
    for (int i = 0; i < N_SIZES; i++) {
        size_t n = i == WHOLE ? p->chunk : p->batch % p->chunk;
        if (!n)
            continue;
        TRY(make_gradient(p, u, c, i, n));
    }
    size_t weight_bytes = kernel_weight_bytes(c->gradient[WHOLE]);
    c->n_floats = weight_bytes / sizeof(float);
    c->gradient_bytes = round_up(weight_bytes + (u->op->bias >= 0 ? c->c_out * sizeof(float) : 0), 64);
    c->partial = buffer_add(p, 0, c->gradient_bytes * p->n_chunks);
    c->spare = buffer_add(p, layout_sample_bytes(&u->in), 0);
    return kernel_unpack(p->onednn, c->gradient[WHOLE], &c->unpack);
}

static void conv_weights(const struct task *t, const struct op_unit *u);

static fault conv_prepare(struct program *p, struct op_unit *u)
{
    struct conv *c = u->own = ARENA_NEW(&p->arena, struct conv, 1);
    if (!c)
        return OUT_OF_MEMORY;
    TRY(choose_width(p, u, c));
    for (int i = 0; i < N_SIZES; i++) {
        size_t n = i == WHOLE ? p->chunk : p->batch % p->chunk;
        if (!n)
            continue;
        struct conv_shape s = widened_shape(p, u, n);
        TRY(best_conv(p, &s, CONV_FORWARD, NULL, &c->forward[i].kernel));
        TRY(way_weights(p, &c->forward[i], i ? &c->forward[WHOLE] : NULL));
        if (!u->wanted[0])
            continue;
        TRY(best_conv(p, &s, CONV_DATA, NULL, &c->data[i].kernel));
        TRY(way_weights(p, &c->data[i], i ? &c->data[WHOLE] : NULL));
    }
    if (p->is_learning)
        TRY(make_gradients(p, u, c));
    job_prepare(p, conv_weights, u);
    return OK;
}

/* Where the weights of output channel o begin among those of the wide convolution; `n` floats of them. */
static size_t wide_place(const struct op_unit *u, size_t o, size_t *n)
{
    const struct conv *c = u->own;
    size_t window = u->op->kernel * u->op->kernel, of_group = u->in.shape.c / u->op->groups;
    size_t first = o / (u->out.shape.c / u->op->groups) * of_group, wide_in = c->c_in / c->groups;
    size_t wide_first = o / (c->c_out / c->groups) * wide_in;
    *n = of_group * window;
    return (o * wide_in + first - wide_first) * window;
}

/* Weights and bias of the replica among zeros for the padding's channels, and between groups. */
static const float *widen(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    const struct graph *g = t->program->setup->graph;
    const float *weights = t->frame->params + g->params[u->op->weight].offset;
    if (c->wide == NO_BUFFER)
        return weights;
    float *wide = task_kept(t, c->wide);
    memset(wide, 0, (weight_floats(u) + c->c_out) * sizeof *wide);
    for (size_t o = 0, n; o < u->out.shape.c; o++) {
        size_t at = wide_place(u, o, &n);
        memcpy(wide + at, weights + o * n, n * sizeof *wide);
    }
    if (u->op->bias >= 0)
        memcpy(wide + weight_floats(u), t->frame->params + g->params[u->op->bias].offset,
               u->out.shape.c * sizeof *wide);
    return wide;
}

static const float *bias_of(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    if (u->op->bias < 0)
        return NULL;
    return c->wide == NO_BUFFER ? t->frame->params + t->program->setup->graph->params[u->op->bias].offset
                                : (float *)task_kept(t, c->wide) + weight_floats(u);
}

static void conv_weights(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    const float *plain = widen(t, u);
    for (int i = 0; i < N_SIZES; i++) {
        const struct way *ways[] = {&c->forward[i], &c->data[i]};
        for (int k = 0; k < 2; k++) {
            void *args[] = {(void *)plain, task_kept(t, ways[k]->weights)};
            if (ways[k]->pack)
                kernel_run(ways[k]->pack, t->worker, args);
        }
    }
}

static void forward_chunk(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    const struct way *w = &c->forward[t->n < t->program->chunk ? TAIL : WHOLE];
    void *args[] = {task_chunk(t, u->x[0]), task_kept(t, w->weights), task_chunk(t, u->y),
                    (void *)bias_of(t, u)};
    kernel_run(w->kernel, t->worker, args);
}

static void gradient_chunk(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    int size = t->n < t->program->chunk ? TAIL : WHOLE;
    char *partial = (char *)task_kept(t, c->partial) + t->index * c->gradient_bytes;
    void *x = task_chunk(t, u->x[0]);
    if (c->turn[size]) {
        void *turned = task_kept(t, t->program->flat);
        kernel_run(c->turn[size], t->worker, (void *[]){x, turned});
        x = turned;
    }
    void *args[] = {x, partial, task_chunk(t, u->dy), partial + c->n_floats * sizeof(float)};
    kernel_run(c->gradient[size], t->worker, args);
}

static void data_chunk(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    const struct way *w = &c->data[t->n < t->program->chunk ? TAIL : WHOLE];
    void *dx = task_chunk(t, u->adds[0] ? c->spare : u->dx[0]), *dy = task_chunk(t, u->dy);
    void *args[] = {dx, task_kept(t, w->weights), dy};
    kernel_run(w->kernel, t->worker, args);
    if (u->adds[0])
        add_two(&u->in, t->n, dx, task_chunk(t, u->prior[0]), task_chunk(t, u->dx[0]));
}

/* The gradient in the order of the replica's row, from the order in which it was summed. */
static void unpack_gradient(const struct task *t, const struct op_unit *u, float *packed, float *row)
{
    const struct conv *c = u->own;
    float *wide = c->wide == NO_BUFFER ? row : task_kept(t, c->wide);
    kernel_run(c->unpack, t->worker, (void *[]){packed, wide});
    for (size_t o = 0, n; wide != row && o < u->out.shape.c; o++) {
        size_t at = wide_place(u, o, &n);
        memcpy(row + o * n, wide + at, n * sizeof *row);
    }
}

static void sum_gradient(const struct task *t, const struct op_unit *u)
{
    const struct conv *c = u->own;
    const struct graph *g = t->program->setup->graph;
    char *partial = task_kept(t, c->partial);
    float *sum = (float *)partial;
    size_t n = c->n_floats + (u->op->bias >= 0 ? c->c_out : 0);
    for (size_t i = 1; i < t->program->n_chunks; i++) {
        const float *more = (const float *)(partial + i * c->gradient_bytes);
        for (size_t k = 0; k < n; k++)
            sum[k] += more[k];
    }
    unpack_gradient(t, u, sum, t->frame->grads + g->params[u->op->weight].offset);
    if (u->op->bias >= 0)
        memcpy(t->frame->grads + g->params[u->op->bias].offset, sum + c->n_floats,
               u->out.shape.c * sizeof(float));
}

static void conv_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
    job_chunk(p, forward_chunk, u);
}

static void conv_gradient(struct program *p, struct op_unit *u)
{
    const struct conv *c = u->own;
    buffer_use(p, u->x[0]);
    buffer_use(p, u->dy);
    buffer_use_whole(p, c->partial);
    job_chunk(p, gradient_chunk, u);
    buffer_use_next(p, c->partial);
    job_slices_next(p, sum_gradient, u, 1);
    u->final_phase = p->n_phases + 1;
}

static void conv_backward(struct program *p, struct op_unit *u)
{
    const struct conv *c = u->own;
    if (!u->wanted[0])
        return;
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    buffer_use(p, u->prior[0]);
    if (u->adds[0])
        buffer_use(p, c->spare);
    job_chunk(p, data_chunk, u);
}

const struct op_maker conv_maker = {.prepare = conv_prepare,
                                    .forward = conv_forward,
                                    .weights = conv_gradient,
                                    .backward = conv_backward,
                                    .takes_prior = true};
