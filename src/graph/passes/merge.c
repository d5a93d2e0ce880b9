/* merge.c - equal ops on equal inputs become one.
 *
 *   x -> tanh -> a            x -> tanh -> a
 *   x -> tanh -> b    =>               \-> b
 *
 * Only ops that are a fixed function of what they read: never those with parameters, which learn apart, never batchnorm, which
 * has statistics, never dropout, which is random. Inputs are equal if they are the same tensors in the same order, so of two equal branches
 * all that is fixed becomes one, from the first op on.
 *
 * Law: both outputs had the same bits, so forward nothing changes. Backward f'(x) (da + db) stands for f'(x) da + f'(x) db:
 * equal up to rounding.
 */
#include "graph/passes/passes.h"

static bool is_equal(const struct op *a, const struct op *b)
{
    return a->kind == b->kind && a->in[0] == b->in[0] && a->in[1] == b->in[1] && a->relu == b->relu &&
           a->kernel == b->kernel && a->stride == b->stride && a->pad == b->pad;
}

/* Shortcuts from one tensor may lead to different numbers of channels. */
static bool is_as_large(const struct graph *g, const struct op *a, const struct op *b)
{
    struct shape s = g->tensors[a->out].shape, t = g->tensors[b->out].shape;
    return s.c == t.c && s.h == t.h && s.w == t.w;
}

static const struct op *first_equal(const struct graph *g, const struct op *op)
{
    for (const struct op *a = g->ops; a < op; a++)
        if (is_equal(a, op) && is_as_large(g, a, op))
            return a;
    return NULL;
}

void pass_merge(struct graph *g)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i], *same = op_rows[op->kind].is_fixed ? first_equal(g, op) : NULL;
        if (same)
            pass_replace(g, MERGE_PASS, op, same->out);
    }
}
