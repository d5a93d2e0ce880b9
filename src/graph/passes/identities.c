/* identities.c - an op that gives the numbers it reads, whatever these are, is left out.
 *
 *   dropout of rate 0; a pool whose windows are single pixels, one at each; a global pool of one pixel; a reshape to the
 *   shape that was there; a shortcut to the same pixels and channels
 *
 * Law: y = x, in lessons and exams, so readers of y may read x. (A mean makes 0 of -0, which no op tells apart.) Backward
 * dx = dy; if y was the only reader of x all gradients keep their bits. If x has other readers their gradients and those of
 * y's readers are now one sum.
 */
#include "graph/passes/passes.h"

static bool keeps_pixels(const struct op *op)
{
    return op->kernel == 1 && op->stride == 1 && op->pad == 0;
}

static bool keeps_shape(const struct graph *g, const struct op *op)
{
    struct shape x = g->tensors[op->in[0]].shape, y = g->tensors[op->out].shape;
    return x.c == y.c && x.h == y.h && x.w == y.w;
}

static bool is_identity(const struct graph *g, const struct op *op)
{
    switch (op->kind) {
    case OP_DROPOUT:
        return op->rate == 0;
    case OP_MAXPOOL:
    case OP_AVGPOOL:
        return keeps_pixels(op);
    case OP_GLOBALPOOL:
    case OP_RESHAPE:
    case OP_SHORTCUT:
        return keeps_shape(g, op);
    default:
        return false;
    }
}

void pass_identities(struct graph *g)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (is_identity(g, &g->ops[i]))
            pass_replace(g, IDENTITIES_PASS, &g->ops[i], g->ops[i].in[0]);
}
