/* fold.c - which ops do a part of their neighbours' work, so that fewer numbers go through memory.
 *
 *   batchnorm -> add                 the add scales, shifts, adds and applies its relu in one pass
 *   batchnorm, relu -> convolution   the convolution scales and shifts as it loads; the output is never
 *                                    stored
 *   convolution -> batchnorm         the sums for mean and variance are gathered as the convolution stores
 *
 * The last two need our own convolutions (conv_own.c), and are made by functions of theirs where a cut lies in
 * between. What is folded changes roundings, not results, and follows from the whole graph alone. Making a batchnorm's gradient in the same way, as convolutions load and
 * store, was slower: it is needed twice, and three streams from memory at a time are more than is fetched
 * ahead.
 */
#include "engine/dnnl/program.h"

/* The only op that reads a tensor, or NULL. */
static struct op_unit *only_reader(const struct program *p, int tensor)
{
    const struct graph *g = p->setup->graph;
    for (size_t i = 0; i < g->n_ops && g->tensors[tensor].n_uses == 1; i++)
        if (g->ops[i].in[0] == tensor || g->ops[i].in[1] == tensor)
            return &p->units[i];
    return NULL;
}

static struct op_unit *producer(const struct program *p, int tensor)
{
    int op = p->setup->graph->tensors[tensor].producer;
    return op < 0 ? NULL : &p->units[op];
}

static void fold_add(struct program *p, struct op_unit *add)
{
    struct op_unit *norm = producer(p, add->op->in[0]);
    if (!norm || norm->op->kind != OP_BATCHNORM || norm->op->relu || !only_reader(p, add->op->in[0]))
        return;
    add->fused = norm;
    norm->fused = add;
}

/* The whole's convolution of our own that makes a tensor, or that alone reads it; else NULL. */
static const struct op *own_conv_at(const struct program *p, int tensor, bool reads)
{
    const struct graph *whole = p->setup->graph->whole;
    for (size_t i = 0; i < whole->n_ops && whole->tensors[tensor].n_uses == 1; i++) {
        const struct op *op = &whole->ops[i];
        if (op->kind == OP_CONV && (reads ? op->in[0] : op->out) == tensor && conv_is_own(p, op))
            return op;
    }
    return NULL;
}

/* What the whole folds into a convolution that is now in another part is made by itself, from the same numbers in the same
 * order. */
static void fold_over_cut(const struct program *p, struct op_unit *norm)
{
    const struct graph *g = p->setup->graph;
    const struct op_unit *before = producer(p, norm->op->in[0]), *after = only_reader(p, norm->op->out);
    if (p->is_learning && before && before->op->kind == OP_RECEIVE)
        norm->folds.summed_before = own_conv_at(p, g->tensors[norm->op->in[0]].whole, false);
    if (norm->op->relu && after && after->op->kind == OP_SEND)
        norm->folds.applied_behind = own_conv_at(p, g->tensors[norm->op->out].whole, true);
}

static void fold_conv(struct program *p, struct op_unit *conv)
{
    struct op_unit *before = producer(p, conv->op->in[0]), *after = only_reader(p, conv->op->out);
    if (before && before->op->kind == OP_BATCHNORM && before->op->relu && only_reader(p, conv->op->in[0])) {
        conv->folds.load = before;
        before->folds.is_applied = true;
    }
    if (p->is_learning && after && after->op->kind == OP_BATCHNORM) {
        conv->folds.sums = after;
        after->folds.is_summed = true;
    }
}

void program_fold(struct program *p)
{
    size_t n = p->setup->graph->n_ops;
    for (size_t i = 0; i < n; i++)
        if (p->units[i].op->kind == OP_ADD)
            fold_add(p, &p->units[i]);
    for (size_t i = 0; i < n; i++)
        if (p->units[i].maker == &conv_own_maker)
            fold_conv(p, &p->units[i]);
    for (size_t i = 0; i < n; i++)
        if (p->units[i].op->kind == OP_BATCHNORM)
            fold_over_cut(p, &p->units[i]);
}
