/* fold.c - which ops do a part of their neighbours' work, so that fewer numbers go through memory.
 *
 *   batchnorm -> add               the add scales, shifts, adds and applies its relu in one pass, and the
 * gradient of its output, masked, serves both of its inputs batchnorm, relu -> convolution the convolution
 * scales and shifts what it loads; the output is never stored convolution -> batchnorm       the sums for
 * mean and variance are gathered as the convolution stores; on the way back it makes the batchnorm's gradient
 * from what it loads
 *   ... -> convolution             the last convolution to add to a tensor's gradient applies the relu's mask
 * and gathers the sums for the batchnorm behind it as it stores
 *
 * The last three need our own convolutions (conv_own.c). What is folded changes roundings, not results, and
 * follows from the graph alone.
 */
#include "engine/dnnl/program.h"

/* The only op that reads a tensor, or NULL. */
static struct unit *only_reader(const struct program *p, int tensor)
{
    const struct graph *g = p->setup->graph;
    for (size_t i = 0; i < g->n_ops && g->tensors[tensor].n_uses == 1; i++)
        if (g->ops[i].in[0] == tensor || g->ops[i].in[1] == tensor)
            return &p->units[i];
    return NULL;
}

static struct unit *producer(const struct program *p, int tensor)
{
    int op = p->setup->graph->tensors[tensor].producer;
    return op < 0 ? NULL : &p->units[op];
}

/* Whether no later step adds to the gradient of u's input. */
static bool is_last_to_add(const struct program *p, const struct unit *u)
{
    const struct graph *g = p->setup->graph;
    int tensor = u->op->in[0], last = -1;
    for (size_t i = p->plan.n_forward; i < p->plan.n_steps; i++) {
        const struct step *s = &p->plan.steps[i];
        if ((s->wanted[0] && g->ops[s->op].in[0] == tensor) ||
            (s->wanted[1] && g->ops[s->op].in[1] == tensor))
            last = s->op;
    }
    return last == (int)u->index;
}

static void fold_add(struct program *p, struct unit *add)
{
    struct unit *norm = producer(p, add->op->in[0]);
    if (!norm || norm->op->kind != OP_BATCHNORM || norm->op->relu || !only_reader(p, add->op->in[0]))
        return;
    add->fused = norm;
    norm->fused = add;
}

static void fold_conv(struct program *p, struct unit *conv)
{
    struct unit *before = producer(p, conv->op->in[0]), *after = only_reader(p, conv->op->out);
    if (before && before->op->kind == OP_BATCHNORM && before->op->relu && only_reader(p, conv->op->in[0])) {
        conv->folds.load = before;
        before->folds.is_applied = true;
    }
    if (p->is_learning && after && after->op->kind == OP_BATCHNORM) {
        conv->folds.sums = conv->folds.back = after;
        after->folds.is_summed = after->folds.is_backed = true;
    }
    bool has_norm =
        before &&
        (before->op->kind == OP_BATCHNORM ? !before->fused : before->op->kind == OP_ADD && before->fused);
    if (conv->wanted[0] && has_norm && is_last_to_add(p, conv)) {
        conv->folds.gate = before;
        before->folds.is_gated = true;
    }
}

void fold(struct program *p)
{
    size_t n = p->setup->graph->n_ops;
    for (size_t i = 0; i < n; i++)
        if (p->units[i].op->kind == OP_ADD)
            fold_add(p, &p->units[i]);
    for (size_t i = 0; i < n; i++)
        if (p->units[i].maker == &own_conv_maker)
            fold_conv(p, &p->units[i]);
}
