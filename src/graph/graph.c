/* graph.c - what each op keeps, the finishing touches to a graph, and how parameters start. */
#include "graph/graph.h"

#include <math.h>

#include "base/rng.h"
#include "graph/build.h"

const struct op_row op_rows[N_OPS] = {
    [OP_CONV] = {.name = "conv", .keeps_in = true},
    [OP_BATCHNORM] = {.name = "batchnorm",
                      .keeps_in = true}, /* the folded relu's mask follows from the input */
    [OP_LINEAR] = {.name = "linear", .keeps_in = true},
    [OP_ADD] = {.name = "add", .keeps_out = true, .is_fixed = true}, /* for the mask of a folded relu */
    [OP_CONCAT] = {.name = "concat", .is_fixed = true},
    [OP_RELU] = {.name = "relu", .keeps_out = true, .is_fixed = true},
    [OP_TANH] = {.name = "tanh", .keeps_out = true, .is_fixed = true},
    [OP_SIGMOID] = {.name = "sigmoid", .keeps_out = true, .is_fixed = true},
    [OP_MAXPOOL] = {.name = "maxpool", .keeps_in = true, .is_fixed = true}, /* the largest is looked for again */
    [OP_AVGPOOL] = {.name = "avgpool", .is_fixed = true},
    [OP_GLOBALPOOL] = {.name = "globalpool", .is_fixed = true},
    [OP_SHORTCUT] = {.name = "shortcut", .is_fixed = true},
    [OP_DROPOUT] = {.name = "dropout"}, /* the mask is a hash of the position */
    [OP_RESHAPE] = {.name = "reshape", .is_fixed = true},
    [OP_SEND] = {.name = "send"},
    [OP_RECEIVE] = {.name = "receive"},
    [OP_CROSS_ENTROPY] = {.name = "cross-entropy", .keeps_in = true, .is_loss = true},
    [OP_MSE] = {.name = "mse", .keeps_in = true, .is_loss = true},
    [OP_HINGE] = {.name = "hinge", .keeps_in = true, .is_loss = true},
    [OP_LOGISTIC] = {.name = "logistic", .keeps_in = true, .is_loss = true},
};

void graph_count_uses(struct graph *g)
{
    for (size_t t = 0; t < g->n_tensors; t++)
        g->tensors[t].n_uses = 0;
    for (size_t i = 0; i < g->n_ops; i++)
        for (int k = 0; k < 2; k++)
            if (g->ops[i].in[k] >= 0 && g->ops[i].kind != OP_RECEIVE)
                g->tensors[g->ops[i].in[k]].n_uses++;
}

static void find_learning(struct graph *g)
{
    for (size_t t = 1; t < g->n_tensors; t++) {
        const struct op *op = &g->ops[g->tensors[t].producer];
        g->tensors[t].learns = op->weight >= 0 || g->tensors[op->in[0]].learns ||
                               (op->in[1] >= 0 && g->tensors[op->in[1]].learns);
    }
}

double op_flops(const struct graph *g, const struct op *op)
{
    if (op->kind != OP_CONV && op->kind != OP_LINEAR)
        return 0;
    struct shape out = g->tensors[op->out].shape;
    return 2 * (double)g->params[op->weight].size * (double)out.h * (double)out.w;
}

struct op_work graph_op_work(const struct graph *g, const struct op *op)
{
    double flops = op_flops(g, op);
    return (struct op_work){flops, g->tensors[op->in[0]].learns ? flops : 0, flops};
}

static double backward_flops(const struct graph *g, const struct op *op)
{
    struct op_work work = graph_op_work(g, op);
    return work.inputs + work.weights;
}

void graph_count_flops(struct graph *g)
{
    g->flops_forward = g->flops_learn = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        g->flops_forward += op_flops(g, &g->ops[i]);
        g->flops_learn += op_flops(g, &g->ops[i]) + backward_flops(g, &g->ops[i]);
    }
}

static bool owns_floats_from(const struct graph *g, int param, size_t first)
{
    return param >= 0 && g->params[param].offset + g->params[param].size > first;
}

double graph_work_until(const struct graph *g, size_t first)
{
    size_t lowest = 0;
    while (lowest < g->n_ops && !owns_floats_from(g, g->ops[lowest].weight, first) &&
           !owns_floats_from(g, g->ops[lowest].bias, first))
        lowest++;
    double done = g->flops_forward;
    for (size_t i = lowest; i < g->n_ops; i++)
        done += backward_flops(g, &g->ops[i]);
    return g->flops_learn > 0 ? done / g->flops_learn : 1;
}

/* A whole graph's own numbers. */
static void number_all(struct graph *g)
{
    for (size_t i = 0; i < g->n_ops; i++)
        g->ops[i].number = i;
    for (size_t i = 0; i < g->n_tensors; i++)
        g->tensors[i].whole = (int)i;
    for (size_t i = 0; i < g->n_params; i++)
        g->params[i].number = i;
}

void graph_finish(struct graph *g)
{
    graph_count_uses(g);
    number_all(g);
    find_learning(g);
    graph_count_flops(g);
}

static float first_value(const struct param *p, struct rng *r)
{
    double fan_in = (double)p->fan_in, fan_out = (double)p->fan_out;
    switch (p->init) {
    case INIT_ZERO:
        return 0;
    case INIT_ONE:
        return 1;
    case INIT_KAIMING_NORMAL:
        return (float)(sqrt(2 / fan_in) * rng_normal(r));
    case INIT_UNIFORM_FAN_IN:
        return (float)((2 * rng_uniform(r) - 1) / sqrt(fan_in));
    case INIT_XAVIER_UNIFORM:
        return (float)((2 * rng_uniform(r) - 1) * sqrt(6 / (fan_in + fan_out)));
    }
    return 0;
}

static void fill(const struct param *p, struct rng *r, float *span)
{
    for (size_t i = 0; i < p->size; i++)
        span[p->offset + i] = first_value(p, r);
}

void graph_init(const struct graph *g, uint64_t seed, float *params, float *stats)
{
    for (size_t i = 0; i < g->n_params; i++) {
        struct rng r = rng_stream(seed, 0, RNG_INIT, g->params[i].key);
        fill(&g->params[i], &r, params);
    }
    for (size_t i = 0; i < g->n_stats; i++)
        fill(&g->stats[i], NULL, stats);
}
