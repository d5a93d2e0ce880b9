/* fused_steps.c - the launches of a fused graph; see fused.h. */
#include "engine/cuda/fused.h"

static void *at(const struct launch_places *places, size_t offset)
{
    return (void *)(uintptr_t)(places->memory + offset);
}

static void *table_at(const struct launches *p, size_t offset)
{
    return (void *)(uintptr_t)(p->tables + offset);
}

static const struct seat *seats_of(const struct launch_places *places)
{
    return (const struct seat *)(uintptr_t)places->seats;
}

static void *value(const struct launches *p, const struct launch_places *places, int tensor)
{
    return at(places, p->plan.value_at[tensor]);
}

static float *lines(const struct launches *p, const struct launch_places *places, int norm)
{
    return at(places, p->moments_at[norm]);
}

static struct norm_sums sums_of(const struct launches *p, const struct launch_places *places, int norm)
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
static void *gradient_behind(const struct launches *p, const struct launch_places *places, int norm)
{
    const struct op *op = &p->graph->ops[norm];
    int tensor = op->relu ? op->out : p->graph->ops[p->fused->sum[norm]].out;
    return at(places, p->plan.grad_at[tensor]);
}

/* Fills in how a convolution finds its input: stored, or a batchnorm's that is still to be normalised. */
static void set_input(const struct launches *p, const struct launch_places *places, int tensor,
                      struct conv3_call *c)
{
    const struct op *norm = fused_maker(p->graph, tensor);
    if (norm && norm->kind == OP_BATCHNORM) {
        c->x = value(p, places, norm->in[0]);
        c->x_norm = lines(p, places, (int)(norm - p->graph->ops));
    } else {
        c->x = value(p, places, tensor);
    }
}

/* A tensor is read or written so many times. */
static void moves(struct launches *p, int tensor, int times)
{
    p->traffic += (double)times * (double)launches_tensor_bytes(p, tensor);
}

static struct conv3_call conv3_call(const struct launches *p, const struct launch_places *places)
{
    return (struct conv3_call){.seats = seats_of(places),
                               .batch = (uint32_t)p->batch,
                               .weight_stride = p->fused->weight_stride,
                               .bias = CUDA_NONE};
}

static void add_conv3(struct launches *p, const struct conv3_row *r, const struct conv3_call *call)
{
    struct launch *l = launches_launch(p, r->kernel, 1, r->threads, r->shared_bytes);
    l->groups = (unsigned)((p->batch + r->pictures - 1) / r->pictures * r->strips);
    l->args.conv3 = *call;
}

static void conv_forward(struct launches *p, const struct launch_places *places, int i)
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
    moves(p, op->in[0], 1);
    moves(p, op->out, 1);
}

static void set_gradient(const struct launches *p, const struct launch_places *places, int i, struct conv3_call *c)
{
    int norm = p->fused->norm[i];
    c->g = gradient_behind(p, places, norm);
    c->y = value(p, places, p->graph->ops[i].out);
    c->y_norm = lines(p, places, norm);
}

/* What must happen to the gradient of a convolution's input before it is complete. */
static void set_completion(const struct launches *p, const struct launch_places *places, int tensor,
                           struct conv3_call *c)
{
    const struct graph *g = p->graph;
    const struct op *made = fused_maker(g, tensor);
    int other;
    if (fused_readers(g, tensor, OP_ADD, &other) == 1)
        c->other = at(places, p->plan.grad_at[g->ops[other].out]);
    if (fused_readers(g, tensor, OP_SHORTCUT, &other) == 1) {
        fused_readers(g, g->ops[other].out, OP_ADD, &other);
        c->other = at(places, p->plan.grad_at[g->ops[other].out]);
    }
    if (made && made->kind == OP_BATCHNORM) {
        c->before = value(p, places, made->in[0]);
        c->before_relu = 1;
        c->norm = sums_of(p, places, (int)(made - g->ops));
    } else if (made && made->kind == OP_ADD) {
        const struct op *norm = fused_maker(g, made->in[fused_main_input(g, made)]);
        c->z = value(p, places, tensor);
        c->before = value(p, places, norm->in[0]);
        c->norm = sums_of(p, places, (int)(norm - g->ops));
    }
}

static void conv_backward(struct launches *p, const struct launch_places *places, const struct step *s)
{
    struct fused *f = p->fused;
    const struct op *op = &p->graph->ops[s->op];
    struct conv3_call c = conv3_call(p, places);
    set_gradient(p, places, s->op, &c);
    set_input(p, places, op->in[0], &c);
    c.stretches = at(places, f->stretches_at);
    c.stretch_stride = f->stretch_stride;
    c.weight_at = p->graph->params[op->weight].offset;
    c.splits = (uint32_t)fused_splits(f->weight[s->op], p->batch);
    c.most_splits = (uint32_t)f->most_splits;
    c.in = (uint32_t)p->graph->tensors[op->in[0]].shape.c;
    struct launch *l = launches_launch(p, f->weight[s->op]->kernel, c.splits, f->weight[s->op]->threads,
                                   f->weight[s->op]->shared_bytes);
    l->args.conv3 = c;
    moves(p, op->in[0], 1);
    moves(p, op->out, 2); /* the gradient behind the batchnorm, and what went into it */
    p->traffic += (double)c.splits * (double)p->graph->params[op->weight].size * sizeof(float);
    if (!s->wanted[0])
        return;
    c = conv3_call(p, places);
    set_gradient(p, places, s->op, &c);
    set_completion(p, places, op->in[0], &c);
    c.weight = (char *)at(places, f->weights_at) + 2 * f->backward_at[s->op];
    c.out = at(places, p->plan.grad_at[op->in[0]]);
    add_conv3(p, f->input[s->op], &c);
    moves(p, op->out, 2);
    moves(p, op->in[0], 1 + (c.other != NULL) + (c.z != NULL) + (c.before != NULL));
}

static struct dims dims_of(const struct launches *p, int tensor)
{
    struct shape s = p->graph->tensors[tensor].shape;
    return (struct dims){(uint32_t)s.c, (uint32_t)s.h, (uint32_t)s.w};
}

static void add_forward(struct launches *p, const struct launch_places *places, const struct op *op)
{
    const struct graph *g = p->graph;
    int m = fused_main_input(g, op), side = op->in[1 - m];
    const struct op *norm = fused_maker(g, op->in[m]), *beside = fused_maker(g, side);
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
    struct launch *l = launches_launch(p, KERNEL_fused_add, (n + 255) / 256, 256, 0);
    l->args.add = c;
    moves(p, op->out, 3);
}

/* A pool of what a batchnorm or a sum made; `norm` is the batchnorm whose gradient it completes. */
static void add_pool(struct launches *p, const struct launch_places *places, const struct op *op,
                     enum cuda_kernel kernel, int norm, bool back)
{
    const struct graph *g = p->graph;
    struct shape out = g->tensors[op->out].shape;
    size_t pooled = back ? p->plan.grad_at[op->out] : p->plan.value_at[op->out];
    struct fused_pool_call c = {.seats = seats_of(places),
                                .pooled = {.at = at(places, pooled), .half = launches_is_half(p, op->out)},
                                .z = value(p, places, op->in[0]),
                                .y = value(p, places, g->ops[norm].in[0]),
                                .in = dims_of(p, op->in[0]),
                                .batch = (uint32_t)p->batch,
                                .norm = sums_of(p, places, norm)};
    if (back)
        c.g = at(places, p->plan.grad_at[op->in[0]]);
    bool by_picture = kernel != KERNEL_fused_maxpool_forward;
    size_t blocks = by_picture ? p->batch : (p->batch * shape_size(out) / 8 + 255) / 256;
    struct launch *l = launches_launch(p, kernel, blocks, 256, by_picture ? 256 * 16 * sizeof(float) : 0);
    l->args.pool = c;
    moves(p, op->in[0], back ? 3 : 1);
    moves(p, op->out, 1);
}

static bool pool_step(struct launches *p, const struct launch_places *places, const struct step *s)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[s->op], *made = fused_maker(g, op->in[0]);
    if (op->kind == OP_MAXPOOL && made && made->kind == OP_BATCHNORM) {
        add_pool(p, places, op, s->back ? KERNEL_fused_maxpool_backward : KERNEL_fused_maxpool_forward,
                 (int)(made - g->ops), s->back);
        return true;
    }
    if (op->kind == OP_GLOBALPOOL && made && made->kind == OP_ADD) {
        const struct op *norm = fused_maker(g, made->in[fused_main_input(g, made)]);
        add_pool(p, places, op, s->back ? KERNEL_fused_globalpool_backward : KERNEL_fused_globalpool_forward,
                 (int)(norm - g->ops), s->back);
        return true;
    }
    return false;
}

bool fused_step(struct launches *p, const struct launch_places *places, const struct step *s)
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
static fault send_table(struct launches *p, size_t offset, const void *table, size_t n_bytes)
{
    TRY(CU(&p->device->driver, cuMemcpyHtoDAsync, p->tables + offset, table, n_bytes, p->device->stream));
    return device_wait(p->device);
}

fault fused_begin(struct launches *p, const struct launch_places *places)
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
    struct launch *l = launches_launch(p, KERNEL_prepare_weights, blocks, 256, 0);
    l->args.prepare = (struct prepare_call){.seats = seats_of(places),
                                            .entries = table_at(p, f->prepare_at),
                                            .n_entries = (uint32_t)n,
                                            .weights = at(places, f->weights_at),
                                            .stride = f->weight_stride};
    p->traffic +=
        4.0 * (double)f->weight_stride; /* both forms are written; as long to read the parameters */
    for (size_t i = 0; !p->learning && i < g->n_ops; i++)
        if (g->ops[i].kind == OP_BATCHNORM) {
            l = launches_launch(p, KERNEL_exam_norm, 1, 64, 0);
            l->args.exam_norm = (struct exam_norm_call){.seats = seats_of(places),
                                                        .channels = dims_of(p, g->ops[i].in[0]).c,
                                                        .norm = sums_of(p, places, (int)i)};
        }
    return OK;
}

fault fused_end(struct launches *p, const struct launch_places *places)
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
            entries[n++] =
                (struct stretch_entry){.first = param->offset,
                                       .size = param->size,
                                       .splits = k ? 0 : (uint32_t)fused_splits(f->weight[i], p->batch),
                                       .first_block = (uint32_t)blocks};
            blocks += (param->size + STRETCH_BLOCK - 1) / STRETCH_BLOCK;
        }
    }
    TRY(send_table(p, f->stretch_table_at, entries, n * sizeof *entries));
    struct launch *l = launches_launch(p, KERNEL_sum_stretches, blocks, 256, 0);
    l->args.stretch = (struct stretch_call){.seats = seats_of(places),
                                            .entries = table_at(p, f->stretch_table_at),
                                            .n_entries = (uint32_t)n,
                                            .most_splits = (uint32_t)f->most_splits,
                                            .stretches = at(places, f->stretches_at),
                                            .stretch_stride = f->stretch_stride};
    for (size_t i = 0; i < n; i++)
        p->traffic += (double)(entries[i].size * (entries[i].splits + 1) * sizeof(float));
    return OK;
}
