/* fuse.c - a relu whose input is made by a batchnorm or an add, and goes nowhere else, becomes part of that op.
 *
 *   batchnorm -> relu   =>   batchnorm with relu
 *
 * Law: max(0, .) is applied to the same numbers, once, and backward the same ones are let through; so all bits stay. (Where a batchnorm's
 * result is above 0 by less than the least float, its gradient now gets through.) What other neighbours an engine computes together
 * is its own affair.
 */
#include "graph/passes/passes.h"

struct op *pass_fuses_into(const struct graph *g, const struct op *op)
{
    const struct tensor *t = &g->tensors[op->in[0]];
    if (op->kind != OP_RELU || t->producer < 0 || t->n_uses != 1)
        return NULL;
    struct op *before = &g->ops[t->producer];
    bool can = (before->kind == OP_BATCHNORM || before->kind == OP_ADD) && !before->relu;
    return can ? before : NULL;
}

void pass_fuse(struct graph *g)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        struct op *before = pass_fuses_into(g, &g->ops[i]);
        if (!before)
            continue;
        before->relu = true;
        pass_replace(g, FUSE_PASS, &g->ops[i], before->out);
    }
}
