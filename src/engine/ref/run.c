/* run.c - samples through the network, step by step as the plan says. */
#include "base/rng.h"
#include "engine/ref/ref.h"

static const struct ref_row *const ref_rows[N_OPS] = {
    [OP_CONV] = &ref_conv,       [OP_BATCHNORM] = &ref_batchnorm,   [OP_LINEAR] = &ref_linear,
    [OP_ADD] = &ref_add,         [OP_CONCAT] = &ref_concat,         [OP_RELU] = &ref_relu,
    [OP_TANH] = &ref_tanh,       [OP_SIGMOID] = &ref_sigmoid,       [OP_MAXPOOL] = &ref_maxpool,
    [OP_AVGPOOL] = &ref_avgpool, [OP_GLOBALPOOL] = &ref_globalpool, [OP_SHORTCUT] = &ref_shortcut,
    [OP_DROPOUT] = &ref_dropout, [OP_RESHAPE] = &ref_reshape,       [OP_CROSS_ENTROPY] = &ref_cross_entropy,
    [OP_SEND] = &ref_send,       [OP_RECEIVE] = &ref_receive,
    [OP_MSE] = &ref_mse,         [OP_HINGE] = &ref_hinge,           [OP_LOGISTIC] = &ref_logistic,
};

static real *in_memory(const struct ref_walk *w, size_t at)
{
    if (at == PLAN_NOWHERE)
        return NULL;
    bool is_kept = at < w->plan->n_kept;
    return (real *)((unsigned char *)(is_kept ? w->kept : w->memory) + at - (is_kept ? 0 : w->plan->n_kept));
}

static void find_parameters(const struct ref_walk *w, struct ref_call *c)
{
    const struct graph *g = w->graph;
    const struct op *op = c->op;
    if (op->weight >= 0) {
        c->weight = w->params + g->params[op->weight].offset;
        c->dweight = w->grads ? w->grads + g->params[op->weight].offset : NULL;
    }
    if (op->bias >= 0) {
        c->bias = w->params + g->params[op->bias].offset;
        c->dbias = w->grads ? w->grads + g->params[op->bias].offset : NULL;
    }
    if (op->mean >= 0) {
        c->mean = w->stats + g->stats[op->mean].offset;
        c->var = w->stats + g->stats[op->var].offset;
    }
}

static real *crossing(const struct ref_walk *w, enum row row, size_t at)
{
    real *row_begin = w->crossing[row - ROW_INPUTS];
    return at == NOT_LEARNT || !row_begin ? NULL : row_begin + at * w->most;
}

static void find_crossing(const struct ref_walk *w, struct ref_call *c)
{
    const struct op *op = c->op;
    if (op->crossing < 0)
        return;
    bool sends = op->kind == OP_SEND;
    const struct crossing *x = &(sends ? w->graph->sends : w->graph->receives)[op->crossing];
    c->values = crossing(w, sends ? ROW_OUTPUTS : ROW_INPUTS, x->at);
    c->slopes = crossing(w, sends ? ROW_OUTPUT_GRADS : ROW_INPUT_GRADS, x->at_grad);
}

static struct ref_call make_call(const struct ref_walk *w, const struct step *s)
{
    const struct graph *g = w->graph;
    const struct op *op = &g->ops[s->op];
    struct ref_call c = {.op = op,
                         .batch = w->at.n,
                         .at = w->at,
                         .of = w->of,
                         .in = g->tensors[op->in[0]].shape,
                         .labels = w->labels};
    c.learning = w->grads != NULL;
    c.key = rng_hash(w->seed, op->key);
    for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
        c.x[k] = in_memory(w, w->plan->value_at[op->in[k]]);
        c.dx[k] = s->wanted[k] ? in_memory(w, w->plan->grad_at[op->in[k]]) : NULL;
        c.adds[k] = s->adds[k];
    }
    if (op->out >= 0) {
        c.out = g->tensors[op->out].shape;
        c.y = in_memory(w, w->plan->value_at[op->out]);
        c.dy = in_memory(w, w->plan->grad_at[op->out]);
    }
    find_parameters(w, &c);
    if (s->back && !s->weights)
        c.dweight = c.dbias = NULL;
    find_crossing(w, &c);
    return c;
}

/* Where the floats end whose gradients are still to be made when `done` steps are. */
static size_t final_from(const struct ref_walk *w, size_t done)
{
    size_t from = 0;
    for (size_t i = done; i < w->plan->n_steps; i++) {
        const struct step *s = &w->plan->steps[i];
        size_t end = !s->back || s->weights ? op_floats_end(w->graph, &w->graph->ops[s->op]) : 0;
        from = end > from ? end : from;
    }
    return from;
}

static void gather(const struct ref_walk *w, int param)
{
    const struct param *p = &w->graph->params[param >= 0 ? param : 0];
    for (size_t i = p->offset; param >= 0 && i < p->offset + p->size; i++)
        w->gathered[i] += w->grads[i];
}

static void take_step(struct ref_walk *w, const struct step *s)
{
    struct ref_call c = make_call(w, s);
    const struct ref_row *row = ref_rows[c.op->kind];
    (s->back ? row->backward : row->forward)(&c);
    if (op_rows[c.op->kind].is_loss && !s->back) {
        w->loss = c.loss;
        w->hits = c.hits;
    }
    if (w->gathered && s->back && s->weights) {
        gather(w, c.op->weight);
        gather(w, c.op->bias);
    }
}

void ref_take(struct ref_walk *w, size_t first, size_t end)
{
    size_t told = lesson_untold(w->graph);
    for (size_t i = first; i < end; i++) {
        take_step(w, &w->plan->steps[i]);
        if (w->lesson)
            lesson_tell(w->lesson, final_from(w, i + 1), &told);
    }
}

void ref_sizes(const struct graph *g, size_t batch, size_t *n_bytes)
{
    for (size_t t = 0; t < g->n_tensors; t++)
        n_bytes[t] =
            t == 0 && !graph_reads_samples(g) ? 0 : batch * shape_size(g->tensors[t].shape) * sizeof(real);
}
