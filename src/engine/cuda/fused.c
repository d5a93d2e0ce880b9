/* fused.c - see fused.h. */
#include "engine/cuda/fused.h"

#include <string.h>

#define NOBODY (-1)

struct conv3_row { /* one kernel of conv3.h */
    size_t in, out, side, stride, pad;
    enum cuda_kernel kernel;
    unsigned threads;
    size_t shared_bytes;
    size_t pictures, strips; /* at a time; of a picture */
};

#define FORWARD_ROW(i, o, side_, s, p, n, strips, wm, wn, mb, blocks)                                                        \
    {i, o, side_, s, p, KERNEL_conv3_forward_##i##_##o##_##side_##_##s##_##p, 32 * (wm) * (wn),              \
     CONV3_SHARED_FORWARD(i, o, side_, s, p, n, strips, wm, wn, mb), n, strips},
#define INPUT_ROW(i, o, side_, s, p, n, strips, wm, wn, mb, blocks)                                                          \
    {i, o, side_, s, p, KERNEL_conv3_input_##i##_##o##_##side_##_##s##_##p, 32 * (wm) * (wn),                \
     CONV3_SHARED_INPUT(i, o, side_, s, p, n, strips, wm, wn, mb), n, strips},
#define WEIGHT_ROW(i, o, side_, s, p, strips, share)                                                                 \
    {i, o, side_, s, p, KERNEL_conv3_weight_##i##_##o##_##side_##_##s##_##p,                                 \
     32 * CONV3_WARPS_WEIGHT(i, o, share), CONV3_SHARED_WEIGHT(i, o, side_, s, p, strips, share), 1, strips},

static const struct conv3_row forward_rows[] = {CONV3_FORWARD(FORWARD_ROW){0}};
static const struct conv3_row input_rows[] = {CONV3_INPUT(INPUT_ROW) CONV3_INPUT_STRIDED(INPUT_ROW){0}};
static const struct conv3_row weight_rows[] = {CONV3_WEIGHT(WEIGHT_ROW){0}};

struct fused {
    const struct conv3_row **forward, **input, **weight; /* [op]; NULL where it is no convolution of ours */
    int *norm;                                           /* [op]: of a convolution: the batchnorm behind it */
    int *sum;                                            /* [op]: of a batchnorm without relu: the sum that reads it */
    size_t n_convs, n_norms;
    size_t weights_at, weight_stride;         /* prepared weights: bytes; numbers of a seat */
    size_t *forward_at, *backward_at;         /* [op]: in a seat's prepared weights, numbers */
    size_t prepare_at, n_prepare_blocks;      /* table of entries, bytes */
    size_t stretches_at, most_splits;         /* bytes */
    size_t stretch_table_at, n_stretch_blocks, n_stretch_entries;
    size_t sums_at, counts_at; /* bytes; counts in a table */
    size_t input_channels;
};

static const struct conv3_row *find_row(const struct conv3_row *rows, const struct graph *g, const struct op *op)
{
    struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
    size_t c = in.c < CONV3_LEAST && g->tensors[op->in[0]].producer < 0 ? CONV3_LEAST : in.c;
    if (op->kernel != 3 || in.h != in.w)
        return NULL;
    for (const struct conv3_row *r = rows; r->in; r++)
        if (r->in == c && r->out == out.c && r->side == in.h && r->stride == op->stride && r->pad == op->pad)
            return r;
    return NULL;
}

/* ---- which graphs can be fused ----------------------------------------------------------------------------- */

static const struct op *maker(const struct graph *g, int tensor)
{
    int op = g->tensors[tensor].producer;
    return op < 0 ? NULL : &g->ops[op];
}

static bool made_by(const struct graph *g, int tensor, enum op_kind kind)
{
    const struct op *op = maker(g, tensor);
    return op && op->kind == kind;
}

/* The readers of a tensor that are of this kind; the last of them in *which. */
static int readers(const struct graph *g, int tensor, enum op_kind kind, int *which)
{
    int n = 0;
    for (size_t i = 0; i < g->n_ops; i++)
        for (int k = 0; k < 2; k++)
            if (g->ops[i].in[k] == tensor && g->ops[i].kind == kind) {
                n++;
                *which = (int)i;
            }
    return n;
}

/* Exactly these readers: n of a kind, and no others. */
static bool read_only_by(const struct graph *g, int tensor, enum op_kind kind)
{
    int which;
    return g->tensors[tensor].n_uses == 1 && readers(g, tensor, kind, &which) == 1;
}

static bool read_by_conv_and(const struct graph *g, int tensor, enum op_kind other)
{
    int which;
    return g->tensors[tensor].n_uses == 2 && readers(g, tensor, OP_CONV, &which) == 1 &&
           readers(g, tensor, other, &which) == 1;
}

static bool halves(const struct op *op, struct shape in)
{
    return op->kernel == 2 && op->stride == 2 && op->pad == 0 && in.h % 2 == 0 && in.w % 2 == 0;
}

static bool eights(size_t channels)
{
    return channels == 16 || channels == 32 || channels == 64;
}

static bool conv_fits(struct pass *p, int i)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[i];
    struct fused *f = p->fused;
    const struct tensor *in = &g->tensors[op->in[0]];
    f->forward[i] = find_row(forward_rows, g, op);
    f->weight[i] = find_row(weight_rows, g, op);
    f->input[i] = find_row(input_rows, g, op);
    if (!f->forward[i] || !f->weight[i] || (in->learns && !f->input[i]))
        return false;
    bool plain = !made_by(g, op->in[0], OP_BATCHNORM) && !made_by(g, op->in[0], OP_ADD) &&
                 !made_by(g, op->in[0], OP_SHORTCUT);
    return read_only_by(g, op->out, OP_BATCHNORM) && readers(g, op->out, OP_BATCHNORM, &f->norm[i]) == 1 &&
           (!plain || in->n_uses == 1);
}

static bool norm_fits(struct pass *p, int i)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[i];
    struct shape shape = g->tensors[op->out].shape;
    int pool;
    if (!made_by(g, op->in[0], OP_CONV) || !eights(shape.c))
        return false;
    if (!op->relu)
        return read_only_by(g, op->out, OP_ADD) && readers(g, op->out, OP_ADD, &p->fused->sum[i]) == 1;
    if (read_only_by(g, op->out, OP_MAXPOOL) && readers(g, op->out, OP_MAXPOOL, &pool) == 1)
        return halves(&g->ops[pool], shape);
    return read_only_by(g, op->out, OP_CONV) || read_by_conv_and(g, op->out, OP_ADD);
}

/* The input of a sum that is a batchnorm without relu, or NOBODY. */
static int main_input(const struct graph *g, const struct op *sum)
{
    for (int k = 0; k < 2; k++)
        if (made_by(g, sum->in[k], OP_BATCHNORM) && !maker(g, sum->in[k])->relu)
            return k;
    return NOBODY;
}

static bool add_fits(const struct graph *g, const struct op *op)
{
    int m = main_input(g, op);
    if (!op->relu || m == NOBODY)
        return false;
    int side = op->in[1 - m];
    bool good_side = made_by(g, side, OP_ADD) || made_by(g, side, OP_SHORTCUT) ||
                     (made_by(g, side, OP_BATCHNORM) && maker(g, side)->relu);
    return good_side && (read_only_by(g, op->out, OP_CONV) || read_by_conv_and(g, op->out, OP_ADD) ||
                         read_by_conv_and(g, op->out, OP_SHORTCUT) || read_only_by(g, op->out, OP_GLOBALPOOL));
}

static bool shortcut_fits(const struct graph *g, const struct op *op)
{
    struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
    return made_by(g, op->in[0], OP_ADD) && read_only_by(g, op->out, OP_ADD) && op->stride == 2 &&
           out.c == 2 * in.c && in.h % 2 == 0 && in.w % 2 == 0;
}

/* An op that is computed by itself reads nothing that is not stored. */
static bool stands_alone(const struct graph *g, const struct op *op)
{
    bool pools = op->kind == OP_GLOBALPOOL && made_by(g, op->in[0], OP_ADD);
    bool halved = op->kind == OP_MAXPOOL && made_by(g, op->in[0], OP_BATCHNORM);
    for (int k = 0; k < 2 && op->in[k] >= 0; k++)
        if (!pools && !halved &&
            (made_by(g, op->in[k], OP_CONV) || made_by(g, op->in[k], OP_BATCHNORM) ||
             made_by(g, op->in[k], OP_ADD) || made_by(g, op->in[k], OP_SHORTCUT)))
            return false;
    return true;
}

static bool op_fits(struct pass *p, int i)
{
    const struct op *op = &p->graph->ops[i];
    switch (op->kind) {
    case OP_CONV:
        p->fused->n_convs++;
        return conv_fits(p, i);
    case OP_BATCHNORM:
        p->fused->n_norms++;
        return norm_fits(p, i);
    case OP_ADD:
        return add_fits(p->graph, op);
    case OP_SHORTCUT:
        return shortcut_fits(p->graph, op);
    default:
        return stands_alone(p->graph, op);
    }
}

/* ---- where everything lies ------------------------------------------------------------------------------------ */

static bool is_stored(const struct graph *g, int tensor)
{
    return !made_by(g, tensor, OP_BATCHNORM) && !made_by(g, tensor, OP_SHORTCUT);
}

/* The gradient before a batchnorm is made by those who load it, and a sum's branches share that of the sum. */
static bool gradient_is_stored(const struct graph *g, int tensor)
{
    if (made_by(g, tensor, OP_BATCHNORM))
        return maker(g, tensor)->relu;
    return !made_by(g, tensor, OP_CONV) && !made_by(g, tensor, OP_SHORTCUT);
}

static void place_tensors(struct pass *p)
{
    const struct graph *g = p->graph;
    for (size_t t = 0; t < g->n_tensors; t++) {
        struct shape s = g->tensors[t].shape;
        size_t channels = t == 0 ? p->fused->input_channels : s.c;
        size_t n = p->n_seats * p->batch * channels * s.h * s.w * (pass_is_half(p, (int)t) ? 2 : 4);
        bool wanted = p->plan.grad_at[t] != PLAN_NOWHERE;
        p->plan.value_at[t] = is_stored(g, (int)t) ? pass_take(p, n) : 0;
        p->plan.grad_at[t] = wanted && gradient_is_stored(g, (int)t) ? pass_take(p, n) : PLAN_NOWHERE;
    }
}

static void place_weights(struct pass *p)
{
    struct fused *f = p->fused;
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const struct conv3_row *r = f->forward[i];
        if (!r)
            continue;
        f->forward_at[i] = f->weight_stride;
        f->backward_at[i] = f->weight_stride + 9 * r->in * r->out;
        f->weight_stride += 2 * 9 * r->in * r->out;
    }
    f->weights_at = pass_take(p, p->n_seats * f->weight_stride * 2);
    f->prepare_at = pass_take_table(p, f->n_convs * sizeof(struct prepare_entry));
    f->stretch_table_at = pass_take_table(p, 2 * f->n_convs * sizeof(struct stretch_entry));
}

/* Shares of the pictures, by the batch and the size of the weights alone: many for one large batch, few for the many
 * small ones of many replicas. Large weights in fewer shares: each is a whole copy of them. */
static size_t n_splits(const struct conv3_row *r, size_t batch)
{
    size_t most = r->in * r->out > 2048 ? 3 : 7;
    if (batch >= 64)
        most = batch / (r->in * r->out > 2048 ? 4 : 2);
    return batch < most ? batch : most;
}

static void place_sums(struct pass *p)
{
    struct fused *f = p->fused;
    const struct graph *g = p->graph;
    size_t most_sums = 0; /* of channels, one for every strip */
    for (size_t i = 0; i < g->n_ops; i++)
        if (f->forward[i]) {
            size_t splits = n_splits(f->weight[i], p->batch);
            size_t forward = f->forward[i]->out * f->forward[i]->strips;
            size_t input = f->input[i] ? f->input[i]->in * f->input[i]->strips : 0;
            f->most_splits = splits > f->most_splits ? splits : f->most_splits;
            most_sums = forward > most_sums ? forward : most_sums;
            most_sums = input > most_sums ? input : most_sums;
        }
    f->sums_at = pass_take(p, p->n_seats * p->batch * 2 * most_sums * sizeof(float));
    f->counts_at = pass_take_table(p, p->n_seats * sizeof(uint32_t));
    if (p->learning)
        f->stretches_at = pass_take(p, p->n_seats * f->most_splits * g->size * sizeof(float));
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == OP_BATCHNORM)
            p->moments_at[i] =
                pass_take(p, p->n_seats * NORM_LINES * g->tensors[g->ops[i].in[0]].shape.c * sizeof(float));
}

fault fused_plan(struct pass *p)
{
    const struct graph *g = p->graph;
    struct fused *f = ARENA_NEW(&p->arena, struct fused, 1);
    if (!f)
        return OUT_OF_MEMORY;
    f->forward = ARENA_NEW(&p->arena, const struct conv3_row *, g->n_ops);
    f->input = ARENA_NEW(&p->arena, const struct conv3_row *, g->n_ops);
    f->weight = ARENA_NEW(&p->arena, const struct conv3_row *, g->n_ops);
    f->norm = ARENA_NEW(&p->arena, int, g->n_ops);
    f->sum = ARENA_NEW(&p->arena, int, g->n_ops);
    f->forward_at = ARENA_NEW(&p->arena, size_t, g->n_ops);
    f->backward_at = ARENA_NEW(&p->arena, size_t, g->n_ops);
    if (!f->forward || !f->input || !f->weight || !f->norm || !f->sum || !f->forward_at || !f->backward_at)
        return OUT_OF_MEMORY;
    p->fused = f;
    bool fits = p->bf16;
    for (size_t i = 0; fits && i < g->n_ops; i++)
        fits = op_fits(p, (int)i);
    if (!fits || !f->n_convs) {
        p->fused = NULL;
        return OK;
    }
    bool fills = g->input.c < CONV3_LEAST && read_only_by(g, 0, OP_CONV);
    f->input_channels = fills ? CONV3_LEAST : g->input.c;
    p->n_bytes = 0;
    place_tensors(p);
    place_weights(p);
    place_sums(p);
    p->plan.n_bytes = p->n_bytes;
    return OK;
}

size_t fused_input_channels(const struct pass *p)
{
    return p->fused->input_channels;
}

size_t fused_extra_launches(const struct pass *p)
{
    return 2 + p->fused->n_norms;
}

/* ---- launches -------------------------------------------------------------------------------------------------- */

static void *at(const struct pass_places *places, size_t offset)
{
    return (void *)(uintptr_t)(places->memory + offset);
}

static void *table_at(const struct pass *p, size_t offset)
{
    return (void *)(uintptr_t)(p->tables + offset);
}

static const struct seat *seats_of(const struct pass_places *places)
{
    return (const struct seat *)(uintptr_t)places->seats;
}

static void *value(const struct pass *p, const struct pass_places *places, int tensor)
{
    return at(places, p->plan.value_at[tensor]);
}

static float *lines(const struct pass *p, const struct pass_places *places, int norm)
{
    return at(places, p->moments_at[norm]);
}

static struct norm_sums sums_of(const struct pass *p, const struct pass_places *places, int norm)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[norm];
    return (struct norm_sums){.lines = lines(p, places, norm),
                              .partial = at(places, p->fused->sums_at),
                              .count = table_at(p, p->fused->counts_at),
                              .weight = g->params[op->weight].offset,
                              .bias = g->params[op->bias].offset,
                              .mean = g->stats[op->mean].offset,
                              .var = g->stats[op->var].offset,
                              .eps = op->eps,
                              .momentum = op->momentum};
}

/* The gradient behind a batchnorm: its own, or that of the sum it goes into. */
static void *gradient_behind(const struct pass *p, const struct pass_places *places, int norm)
{
    const struct op *op = &p->graph->ops[norm];
    int tensor = op->relu ? op->out : p->graph->ops[p->fused->sum[norm]].out;
    return at(places, p->plan.grad_at[tensor]);
}

/* Fills in how a convolution finds its input: stored, or a batchnorm's that is still to be normalised. */
static void set_input(const struct pass *p, const struct pass_places *places, int tensor, struct conv3_call *c)
{
    const struct op *norm = maker(p->graph, tensor);
    if (norm && norm->kind == OP_BATCHNORM) {
        c->x = value(p, places, norm->in[0]);
        c->x_norm = lines(p, places, (int)(norm - p->graph->ops));
    } else {
        c->x = value(p, places, tensor);
    }
}

static struct conv3_call conv3_call(const struct pass *p, const struct pass_places *places)
{
    return (struct conv3_call){.seats = seats_of(places),
                               .batch = (uint32_t)p->batch,
                               .weight_stride = p->fused->weight_stride,
                               .bias = CUDA_NONE};
}

static void add_conv3(struct pass *p, const struct conv3_row *r, const struct conv3_call *call)
{
    struct launch *l = pass_launch(p, r->kernel, 1, r->threads, r->shared_bytes);
    l->groups = (unsigned)((p->batch + r->pictures - 1) / r->pictures * r->strips);
    l->args.conv3 = *call;
}

static void conv_forward(struct pass *p, const struct pass_places *places, int i)
{
    const struct op *op = &p->graph->ops[i];
    struct conv3_call c = conv3_call(p, places);
    set_input(p, places, op->in[0], &c);
    c.weight = (char *)at(places, p->fused->weights_at) + 2 * p->fused->forward_at[i];
    c.out = value(p, places, op->out);
    if (op->bias >= 0)
        c.bias = p->graph->params[op->bias].offset;
    if (p->learning)
        c.norm = sums_of(p, places, p->fused->norm[i]);
    add_conv3(p, p->fused->forward[i], &c);
}

static void set_gradient(const struct pass *p, const struct pass_places *places, int i, struct conv3_call *c)
{
    int norm = p->fused->norm[i];
    c->g = gradient_behind(p, places, norm);
    c->y = value(p, places, p->graph->ops[i].out);
    c->y_norm = lines(p, places, norm);
}

/* What must happen to the gradient of a convolution's input before it is complete. */
static void set_completion(const struct pass *p, const struct pass_places *places, int tensor, struct conv3_call *c)
{
    const struct graph *g = p->graph;
    const struct op *made = maker(g, tensor);
    int other;
    if (readers(g, tensor, OP_ADD, &other) == 1)
        c->other = at(places, p->plan.grad_at[g->ops[other].out]);
    if (readers(g, tensor, OP_SHORTCUT, &other) == 1) {
        readers(g, g->ops[other].out, OP_ADD, &other);
        c->other = at(places, p->plan.grad_at[g->ops[other].out]);
    }
    if (made && made->kind == OP_BATCHNORM) {
        c->before = value(p, places, made->in[0]);
        c->before_relu = 1;
        c->norm = sums_of(p, places, (int)(made - g->ops));
    } else if (made && made->kind == OP_ADD) {
        const struct op *norm = maker(g, made->in[main_input(g, made)]);
        c->z = value(p, places, tensor);
        c->before = value(p, places, norm->in[0]);
        c->norm = sums_of(p, places, (int)(norm - g->ops));
    }
}

static void conv_backward(struct pass *p, const struct pass_places *places, const struct step *s)
{
    struct fused *f = p->fused;
    const struct op *op = &p->graph->ops[s->op];
    struct conv3_call c = conv3_call(p, places);
    set_gradient(p, places, s->op, &c);
    set_input(p, places, op->in[0], &c);
    c.stretches = at(places, f->stretches_at);
    c.stretch_stride = p->graph->size;
    c.weight_at = p->graph->params[op->weight].offset;
    c.splits = (uint32_t)n_splits(f->weight[s->op], p->batch);
    c.most_splits = (uint32_t)f->most_splits;
    c.in = (uint32_t)p->graph->tensors[op->in[0]].shape.c;
    struct launch *l = pass_launch(p, f->weight[s->op]->kernel, c.splits, f->weight[s->op]->threads,
                                   f->weight[s->op]->shared_bytes);
    l->args.conv3 = c;
    if (!s->wanted[0])
        return;
    c = conv3_call(p, places);
    set_gradient(p, places, s->op, &c);
    set_completion(p, places, op->in[0], &c);
    c.weight = (char *)at(places, f->weights_at) + 2 * f->backward_at[s->op];
    c.out = at(places, p->plan.grad_at[op->in[0]]);
    add_conv3(p, f->input[s->op], &c);
}

static struct dims dims_of(const struct pass *p, int tensor)
{
    struct shape s = p->graph->tensors[tensor].shape;
    return (struct dims){(uint32_t)s.c, (uint32_t)s.h, (uint32_t)s.w};
}

static void add_forward(struct pass *p, const struct pass_places *places, const struct op *op)
{
    const struct graph *g = p->graph;
    int m = main_input(g, op), side = op->in[1 - m];
    const struct op *norm = maker(g, op->in[m]), *beside = maker(g, side);
    struct fused_add_call c = {.y = value(p, places, norm->in[0]),
                               .y_norm = lines(p, places, (int)(norm - g->ops)),
                               .side = value(p, places, side),
                               .z = value(p, places, op->out),
                               .dims = dims_of(p, op->out),
                               .batch = (uint32_t)p->batch};
    if (beside->kind == OP_BATCHNORM) {
        c.side = value(p, places, beside->in[0]);
        c.side_norm = lines(p, places, (int)(beside - g->ops));
    } else if (beside->kind == OP_SHORTCUT) {
        c.side = value(p, places, beside->in[0]);
        c.shortcut = 1;
    }
    size_t n = p->batch * shape_size(g->tensors[op->out].shape) / 8;
    struct launch *l = pass_launch(p, KERNEL_fused_add, (n + 255) / 256, 256, 0);
    l->args.add = c;
}

/* A pool of what a batchnorm or a sum made; `norm` is the batchnorm whose gradient it completes. */
static void add_pool(struct pass *p, const struct pass_places *places, const struct op *op, enum cuda_kernel kernel,
                     int norm, bool back)
{
    const struct graph *g = p->graph;
    struct shape out = g->tensors[op->out].shape;
    size_t pooled = back ? p->plan.grad_at[op->out] : p->plan.value_at[op->out];
    struct fused_pool_call c = {.seats = seats_of(places),
                                .pooled = {at(places, pooled), pass_is_half(p, op->out), 0},
                                .z = value(p, places, op->in[0]),
                                .y = value(p, places, g->ops[norm].in[0]),
                                .in = dims_of(p, op->in[0]),
                                .batch = (uint32_t)p->batch,
                                .norm = sums_of(p, places, norm)};
    if (back)
        c.g = at(places, p->plan.grad_at[op->in[0]]);
    bool by_picture = kernel != KERNEL_fused_maxpool_forward;
    size_t blocks = by_picture ? p->batch : (p->batch * shape_size(out) / 8 + 255) / 256;
    struct launch *l = pass_launch(p, kernel, blocks, 256, by_picture ? 256 * 16 * sizeof(float) : 0);
    l->args.pool = c;
}

static bool pool_step(struct pass *p, const struct pass_places *places, const struct step *s)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[s->op], *made = maker(g, op->in[0]);
    if (op->kind == OP_MAXPOOL && made && made->kind == OP_BATCHNORM) {
        add_pool(p, places, op, s->back ? KERNEL_fused_maxpool_backward : KERNEL_fused_maxpool_forward,
                 (int)(made - g->ops), s->back);
        return true;
    }
    if (op->kind == OP_GLOBALPOOL && made && made->kind == OP_ADD) {
        const struct op *norm = maker(g, made->in[main_input(g, made)]);
        add_pool(p, places, op, s->back ? KERNEL_fused_globalpool_backward : KERNEL_fused_globalpool_forward,
                 (int)(norm - g->ops), s->back);
        return true;
    }
    return false;
}

bool fused_step(struct pass *p, const struct pass_places *places, const struct step *s)
{
    const struct op *op = &p->graph->ops[s->op];
    switch (op->kind) {
    case OP_CONV:
        if (s->back)
            conv_backward(p, places, s);
        else
            conv_forward(p, places, s->op);
        return true;
    case OP_ADD:
        if (!s->back)
            add_forward(p, places, op);
        return true;
    case OP_BATCHNORM:
    case OP_SHORTCUT:
        return true;
    default:
        return pool_step(p, places, s);
    }
}

/* Copies a table to its place and waits for it. */
static fault send_table(struct pass *p, size_t offset, const void *table, size_t n_bytes)
{
    TRY(CU(&p->device->driver, cuMemcpyHtoDAsync, p->tables + offset, table, n_bytes, p->device->stream));
    return device_wait(p->device);
}

fault fused_begin(struct pass *p, const struct pass_places *places)
{
    struct fused *f = p->fused;
    const struct graph *g = p->graph;
    struct prepare_entry *entries = ARENA_NEW(&p->arena, struct prepare_entry, f->n_convs);
    size_t n = 0, blocks = 0;
    if (!entries)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_ops; i++) {
        if (!f->forward[i])
            continue;
        entries[n++] = (struct prepare_entry){.from = g->params[g->ops[i].weight].offset,
                                              .in = (uint32_t)g->tensors[g->ops[i].in[0]].shape.c,
                                              .out = (uint32_t)f->forward[i]->out,
                                              .in_filled = (uint32_t)f->forward[i]->in,
                                              .first_block = (uint32_t)blocks,
                                              .forward_at = f->forward_at[i],
                                              .backward_at = f->backward_at[i]};
        blocks += f->forward[i]->out / PREPARE_CHANNELS;
    }
    TRY(send_table(p, f->prepare_at, entries, n * sizeof *entries));
    struct launch *l = pass_launch(p, KERNEL_prepare_weights, blocks, 256, 0);
    l->args.prepare = (struct prepare_call){.seats = seats_of(places),
                                            .entries = table_at(p, f->prepare_at),
                                            .n_entries = (uint32_t)n,
                                            .weights = at(places, f->weights_at),
                                            .stride = f->weight_stride};
    for (size_t i = 0; !p->learning && i < g->n_ops; i++)
        if (g->ops[i].kind == OP_BATCHNORM) {
            l = pass_launch(p, KERNEL_exam_norm, 1, 64, 0);
            l->args.exam_norm = (struct exam_norm_call){.seats = seats_of(places),
                                                        .channels = dims_of(p, g->ops[i].in[0]).c,
                                                        .norm = sums_of(p, places, (int)i)};
        }
    return OK;
}

fault fused_end(struct pass *p, const struct pass_places *places)
{
    struct fused *f = p->fused;
    const struct graph *g = p->graph;
    if (!p->learning)
        return OK;
    struct stretch_entry *entries = ARENA_NEW(&p->arena, struct stretch_entry, 2 * f->n_convs);
    size_t n = 0, blocks = 0;
    if (!entries)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_ops; i++) {
        const int params[] = {g->ops[i].weight, g->ops[i].bias};
        for (int k = 0; f->forward[i] && k < 2; k++) {
            if (params[k] < 0)
                continue;
            const struct param *param = &g->params[params[k]];
            entries[n++] = (struct stretch_entry){.first = param->offset,
                                                  .size = param->size,
                                                  .splits = k ? 0 : (uint32_t)n_splits(f->weight[i], p->batch),
                                                  .first_block = (uint32_t)blocks};
            blocks += (param->size + STRETCH_BLOCK - 1) / STRETCH_BLOCK;
        }
    }
    TRY(send_table(p, f->stretch_table_at, entries, n * sizeof *entries));
    struct launch *l = pass_launch(p, KERNEL_sum_stretches, blocks, 256, 0);
    l->args.stretch = (struct stretch_call){.seats = seats_of(places),
                                            .entries = table_at(p, f->stretch_table_at),
                                            .n_entries = (uint32_t)n,
                                            .most_splits = (uint32_t)f->most_splits,
                                            .stretches = at(places, f->stretches_at),
                                            .stretch_stride = g->size};
    return OK;
}
