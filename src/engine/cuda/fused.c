/* fused.c - which graphs can be fused, and where their tensors lie; see fused.h. */
#include "engine/cuda/fused.h"

enum { NOBODY = -1 };

#define FORWARD_ROW(name, i, o, side_, s, p, n, strips, wm, wn, mb, blocks)                                  \
    {i,                                                                                                      \
     o,                                                                                                      \
     side_,                                                                                                  \
     s,                                                                                                      \
     p,                                                                                                      \
     KERNEL_conv3_forward_##name,                                                                            \
     32 * (wm) * (wn),                                                                                       \
     CONV3_SHARED_FORWARD(i, o, side_, s, p, n, strips, wm, wn, mb),                                         \
     n,                                                                                                      \
     strips},
#define INPUT_ROW(name, i, o, side_, s, p, n, strips, wm, wn, mb, blocks)                                    \
    {i,                                                                                                      \
     o,                                                                                                      \
     side_,                                                                                                  \
     s,                                                                                                      \
     p,                                                                                                      \
     KERNEL_conv3_input_##name,                                                                              \
     32 * (wm) * (wn),                                                                                       \
     CONV3_SHARED_INPUT(i, o, side_, s, p, n, strips, wm, wn, mb),                                           \
     n,                                                                                                      \
     strips},
#define WEIGHT_ROW(name, i, o, side_, s, p, strips, share, parts)                                            \
    {i,                                                                                                      \
     o,                                                                                                      \
     side_,                                                                                                  \
     s,                                                                                                      \
     p,                                                                                                      \
     KERNEL_conv3_weight_##name,                                                                             \
     32 * CONV3_WARPS_WEIGHT(i, o, share),                                                                   \
     CONV3_SHARED_WEIGHT(i, o, side_, s, p, strips, share, parts),                                           \
     1,                                                                                                      \
     strips},

static const struct conv3_row forward_rows[] = {CONV3_FORWARD(FORWARD_ROW){0}};
static const struct conv3_row input_rows[] = {CONV3_INPUT(INPUT_ROW) CONV3_INPUT_STRIDED(INPUT_ROW){0}};
static const struct conv3_row weight_rows[] = {CONV3_WEIGHT(WEIGHT_ROW){0}};

/* The first row for this convolution whose shared memory the device has, and a little more: kernels have
 * variables of their own there. */
static const struct conv3_row *find_row(const struct conv3_row *rows, const struct launches *p,
                                        const struct op *op)
{
    const struct graph *g = p->graph;
    size_t most = p->device->driver.shared_bytes;
    struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
    size_t c = in.c < CONV3_LEAST && g->tensors[op->in[0]].producer < 0 ? CONV3_LEAST : in.c;
    if (op->kernel != 3 || op->groups > 1 || in.h != in.w)
        return NULL;
    for (const struct conv3_row *r = rows; r->in; r++)
        if (r->in == c && r->out == out.c && r->side == in.h && r->stride == op->stride &&
            r->pad == op->pad && r->shared_bytes < most)
            return r;
    return NULL;
}

/* ---- which graphs can be fused
 * ----------------------------------------------------------------------------- */

const struct op *fused_maker(const struct graph *g, int tensor)
{
    int op = g->tensors[tensor].producer;
    return op < 0 ? NULL : &g->ops[op];
}

static bool made_by(const struct graph *g, int tensor, enum op_kind kind)
{
    const struct op *op = fused_maker(g, tensor);
    return op && op->kind == kind;
}

/* The readers of a tensor that are of this kind; the last of them in *which. */
int fused_readers(const struct graph *g, int tensor, enum op_kind kind, int *which)
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
    return g->tensors[tensor].n_uses == 1 && fused_readers(g, tensor, kind, &which) == 1;
}

static bool read_by_conv_and(const struct graph *g, int tensor, enum op_kind other)
{
    int which;
    return g->tensors[tensor].n_uses == 2 && fused_readers(g, tensor, OP_CONV, &which) == 1 &&
           fused_readers(g, tensor, other, &which) == 1;
}

static bool halves(const struct op *op, struct shape in)
{
    return op->kernel == 2 && op->stride == 2 && op->pad == 0 && in.h % 2 == 0 && in.w % 2 == 0;
}

static bool eights(size_t channels)
{
    return channels == 16 || channels == 32 || channels == 64;
}

static bool conv_fits(struct launches *p, int i)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[i];
    struct fused *f = p->fused;
    const struct tensor *in = &g->tensors[op->in[0]];
    f->forward[i] = find_row(forward_rows, p, op);
    f->weight[i] = find_row(weight_rows, p, op);
    f->input[i] = find_row(input_rows, p, op);
    if (!f->forward[i] || !f->weight[i] || (in->learns && !f->input[i]))
        return false;
    bool plain = !made_by(g, op->in[0], OP_BATCHNORM) && !made_by(g, op->in[0], OP_ADD) &&
                 !made_by(g, op->in[0], OP_SHORTCUT);
    if (g->params[op->weight].offset % 4 || (op->bias >= 0 && g->params[op->bias].offset % 4))
        return false; /* gradients are added four at a time */
    return read_only_by(g, op->out, OP_BATCHNORM) &&
           fused_readers(g, op->out, OP_BATCHNORM, &f->norm[i]) == 1 && (!plain || in->n_uses == 1);
}

static bool norm_fits(struct launches *p, int i)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[i];
    struct shape shape = g->tensors[op->out].shape;
    int pool;
    if (!made_by(g, op->in[0], OP_CONV) || !eights(shape.c))
        return false;
    if (!op->relu)
        return read_only_by(g, op->out, OP_ADD) && fused_readers(g, op->out, OP_ADD, &p->fused->sum[i]) == 1;
    if (read_only_by(g, op->out, OP_MAXPOOL) && fused_readers(g, op->out, OP_MAXPOOL, &pool) == 1)
        return halves(&g->ops[pool], shape);
    return read_only_by(g, op->out, OP_CONV) || read_by_conv_and(g, op->out, OP_ADD);
}

/* The input of a sum that is a batchnorm without relu, or NOBODY. */
int fused_main_input(const struct graph *g, const struct op *sum)
{
    for (int k = 0; k < 2; k++)
        if (made_by(g, sum->in[k], OP_BATCHNORM) && !fused_maker(g, sum->in[k])->relu)
            return k;
    return NOBODY;
}

static bool add_fits(const struct graph *g, const struct op *op)
{
    int m = fused_main_input(g, op);
    if (!op->relu || m == NOBODY)
        return false;
    int side = op->in[1 - m];
    bool good_side = made_by(g, side, OP_ADD) || made_by(g, side, OP_SHORTCUT) ||
                     (made_by(g, side, OP_BATCHNORM) && fused_maker(g, side)->relu);
    return good_side &&
           (read_only_by(g, op->out, OP_CONV) || read_by_conv_and(g, op->out, OP_ADD) ||
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

static bool op_fits(struct launches *p, int i)
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
    case OP_CONCAT: /* without it there is one chain of convolutions, each of which is the last to add to its
                       input's gradient */
        return false;
    default:
        return stands_alone(p->graph, op);
    }
}

/* ---- where everything lies
 * ------------------------------------------------------------------------------------ */

static bool is_stored(const struct graph *g, int tensor)
{
    return !made_by(g, tensor, OP_BATCHNORM) && !made_by(g, tensor, OP_SHORTCUT);
}

/* The gradient before a batchnorm is made by those who load it, and a sum's branches share that of the sum.
 */
static bool gradient_is_stored(const struct graph *g, int tensor)
{
    if (made_by(g, tensor, OP_BATCHNORM))
        return fused_maker(g, tensor)->relu;
    return !made_by(g, tensor, OP_CONV) && !made_by(g, tensor, OP_SHORTCUT);
}

static void place_tensors(struct launches *p)
{
    const struct graph *g = p->graph;
    for (size_t t = 0; t < g->n_tensors; t++) {
        struct shape s = g->tensors[t].shape;
        size_t channels = t == 0 ? p->fused->input_channels : s.c;
        size_t n = p->n_seats * p->batch * channels * s.h * s.w * (launches_is_half(p, (int)t) ? 2 : 4);
        bool wanted = p->plan.grad_at[t] != PLAN_NOWHERE;
        p->plan.value_at[t] = is_stored(g, (int)t) ? launches_take(p, n) : 0;
        p->plan.grad_at[t] = wanted && gradient_is_stored(g, (int)t) ? launches_take(p, n) : PLAN_NOWHERE;
    }
}

static void place_weights(struct launches *p)
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
    f->weights_at = launches_take(p, p->n_seats * f->weight_stride * 2);
    f->prepare_at = launches_take_table(p, f->n_convs * sizeof(struct prepare_entry));
    f->stretch_table_at = launches_take_table(p, 2 * f->n_convs * sizeof(struct stretch_entry));
}

/* Shares of the pictures, by the batch and the size of the weights alone: many for one large batch, few for
 * the many small ones of many replicas. Large weights in fewer shares: each is a whole copy of them. */
size_t fused_splits(const struct conv3_row *r, size_t batch)
{
    bool large = r->in * r->out > 2048;
    size_t most = batch < 64 ? (large ? 3 : 7) : (large ? 64 : 128);
    return batch < most ? batch : most;
}

static void place_sums(struct launches *p)
{
    struct fused *f = p->fused;
    const struct graph *g = p->graph;
    size_t most_sums = 0; /* of channels, one for every strip */
    for (size_t i = 0; i < g->n_ops; i++)
        if (f->forward[i]) {
            size_t splits = fused_splits(f->weight[i], p->batch);
            size_t forward = f->forward[i]->out * f->forward[i]->strips;
            size_t input = f->input[i] ? f->input[i]->in * f->input[i]->strips : 0;
            f->most_splits = splits > f->most_splits ? splits : f->most_splits;
            most_sums = forward > most_sums ? forward : most_sums;
            most_sums = input > most_sums ? input : most_sums;
        }
    f->sums_at = launches_take(p, p->n_seats * p->batch * 2 * most_sums * sizeof(float));
    f->counts_at = launches_take_table(p, p->n_seats * sizeof(uint32_t));
    f->stretch_stride = round_up(g->size, 4);
    if (p->learning)
        f->stretches_at = launches_take(p, p->n_seats * f->most_splits * f->stretch_stride * sizeof(float));
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == OP_BATCHNORM)
            p->moments_at[i] =
                launches_take(p, p->n_seats * NORM_LINES * g->tensors[g->ops[i].in[0]].shape.c * sizeof(float));
}

fault fused_plan(struct launches *p)
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

size_t fused_extra_launches(const struct launches *p)
{
    return 2 + p->fused->n_norms;
}
