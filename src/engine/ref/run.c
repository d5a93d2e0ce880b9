/* run.c - one batch through the network, step by step as the plan says. */
#include "base/rng.h"
#include "engine/ref/ref.h"

static const struct ref_row *const ref_rows[N_OPS] = {
    [OP_CONV] = &ref_conv,       [OP_BATCHNORM] = &ref_batchnorm,   [OP_LINEAR] = &ref_linear,
    [OP_ADD] = &ref_add,         [OP_CONCAT] = &ref_concat,         [OP_RELU] = &ref_relu,
    [OP_TANH] = &ref_tanh,       [OP_SIGMOID] = &ref_sigmoid,       [OP_MAXPOOL] = &ref_maxpool,
    [OP_AVGPOOL] = &ref_avgpool, [OP_GLOBALPOOL] = &ref_globalpool, [OP_SHORTCUT] = &ref_shortcut,
    [OP_DROPOUT] = &ref_dropout, [OP_RESHAPE] = &ref_reshape,       [OP_CROSS_ENTROPY] = &ref_cross_entropy,
    [OP_MSE] = &ref_mse,         [OP_HINGE] = &ref_hinge,           [OP_LOGISTIC] = &ref_logistic,
};

static real *in_memory(const struct ref_pass *p, size_t at)
{
    return at == PLAN_NOWHERE ? NULL : (real *)((unsigned char *)p->memory + at);
}

static void find_parameters(const struct ref_pass *p, struct ref_call *c)
{
    const struct graph *g = p->graph;
    const struct op *op = c->op;
    if (op->weight >= 0) {
        c->weight = p->params + g->params[op->weight].offset;
        c->dweight = p->grads ? p->grads + g->params[op->weight].offset : NULL;
    }
    if (op->bias >= 0) {
        c->bias = p->params + g->params[op->bias].offset;
        c->dbias = p->grads ? p->grads + g->params[op->bias].offset : NULL;
    }
    if (op->mean >= 0) {
        c->mean = p->stats + g->stats[op->mean].offset;
        c->var = p->stats + g->stats[op->var].offset;
    }
}

static struct ref_call make_call(const struct ref_pass *p, const struct step *s)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[s->op];
    struct ref_call c = {.op = op, .batch = p->batch, .in = g->tensors[op->in[0]].shape, .labels = p->labels};
    c.learning = p->grads != NULL;
    c.key = rng_hash(p->seed, (uint64_t)s->op);
    for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
        c.x[k] = in_memory(p, p->plan->value_at[op->in[k]]);
        c.dx[k] = s->wanted[k] ? in_memory(p, p->plan->grad_at[op->in[k]]) : NULL;
        c.adds[k] = s->adds[k];
    }
    if (op->out >= 0) {
        c.out = g->tensors[op->out].shape;
        c.y = in_memory(p, p->plan->value_at[op->out]);
        c.dy = in_memory(p, p->plan->grad_at[op->out]);
    }
    find_parameters(p, &c);
    return c;
}

/* Where the floats end whose gradients are still to be made when `done` steps are. */
static size_t final_from(const struct ref_pass *p, size_t done)
{
    size_t from = 0;
    for (size_t i = done; i < p->plan->n_steps; i++) {
        size_t end = op_floats_end(p->graph, &p->graph->ops[p->plan->steps[i].op]);
        from = end > from ? end : from;
    }
    return from;
}

void ref_run(struct ref_pass *p)
{
    size_t told = lesson_untold(p->graph);
    for (size_t i = 0; i < p->plan->n_steps; i++) {
        const struct step *s = &p->plan->steps[i];
        struct ref_call c = make_call(p, s);
        const struct ref_row *row = ref_rows[c.op->kind];
        (s->back ? row->backward : row->forward)(&c);
        if (op_rows[c.op->kind].is_loss && !s->back) {
            p->loss = c.loss;
            p->hits = c.hits;
        }
        if (p->lesson)
            lesson_tell(p->lesson, final_from(p, i + 1), &told);
    }
}

void ref_sizes(const struct graph *g, size_t batch, size_t *n_bytes)
{
    for (size_t t = 0; t < g->n_tensors; t++)
        n_bytes[t] = batch * shape_size(g->tensors[t].shape) * sizeof(real);
}
