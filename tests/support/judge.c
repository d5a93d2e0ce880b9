/* judge.c - compiles the engine `ref` a second time, in double and under other names, and takes differences.
 *
 * A central difference with step 1e-6 is off by about 1e-10 in double: far below what any wrong gradient
 * would be.
 */
#define REF_REAL          double
#define ref_conv          judge_conv
#define ref_batchnorm     judge_batchnorm
#define ref_linear        judge_linear
#define ref_add           judge_add
#define ref_concat        judge_concat
#define ref_relu          judge_relu
#define ref_tanh          judge_tanh
#define ref_sigmoid       judge_sigmoid
#define ref_dropout       judge_dropout
#define ref_reshape       judge_reshape
#define ref_maxpool       judge_maxpool
#define ref_avgpool       judge_avgpool
#define ref_globalpool    judge_globalpool
#define ref_shortcut      judge_shortcut
#define ref_send          judge_send
#define ref_receive       judge_receive
#define ref_cross_entropy judge_cross_entropy
#define ref_mse           judge_mse
#define ref_hinge         judge_hinge
#define ref_logistic      judge_logistic
#define ref_take          judge_take
#define ref_sizes         judge_sizes
#include "engine/ref/losses.c"
#include "engine/ref/pools.c"
#include "engine/ref/run.c"
#include "engine/ref/values.c"
#include "engine/ref/weights.c"

#include "support/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const double eps = 1e-6;

struct judge_plan {
    struct arena arena;
    struct plan learn, forward, exam;
    struct block memory;
};

static double *numbers(size_t n)
{
    double *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static struct judge_plan *new_plan(const struct graph *g, size_t batch)
{
    struct judge_plan *p = calloc(1, sizeof *p);
    assert_non_null(p);
    size_t *sizes = ARENA_NEW(&p->arena, size_t, g->n_tensors);
    assert_non_null(sizes);
    ref_sizes(g, batch, sizes);
    assert_null(plan_make(g, PLAN_LESSON, sizes, sizes, &p->arena, &p->learn));
    assert_null(plan_make(g, PLAN_EXAM, sizes, NULL, &p->arena, &p->exam));
    p->forward = p->learn;
    p->forward.n_steps = p->forward.n_forward;
    size_t n = p->learn.n_bytes > p->exam.n_bytes ? p->learn.n_bytes : p->exam.n_bytes;
    assert_null(block_open(n, &p->memory));
    return p;
}

/* Starts from graph_init's floats and moves everything off round values: a bias of 0 or a scale of 1 hides
 * mistakes. */
static void start_parameters(struct judge *j, struct rng *r)
{
    const struct graph *g = j->g;
    float *floats = calloc(g->size + g->stats_size + 1, sizeof *floats);
    assert_non_null(floats);
    graph_init(g, j->seed, floats, floats + g->size);
    for (size_t i = 0; i < g->size; i++)
        j->params[i] = floats[i] + 0.1 * rng_normal(r);
    for (size_t i = 0; i < g->stats_size; i++)
        j->stats[i] = floats[g->size + i] + 0.1 * rng_uniform(r);
    free(floats);
}

struct judge *judge_new(const struct graph *g, size_t batch, uint64_t seed)
{
    struct judge *j = calloc(1, sizeof *j);
    assert_non_null(j);
    struct rng r = rng_stream(seed, 0, RNG_TEST, 1);
    *j = (struct judge){.g = g, .batch = batch, .seed = seed};
    j->params = numbers(g->size);
    j->grads = numbers(g->size);
    j->stats = numbers(g->stats_size);
    j->input = numbers(batch * shape_size(g->input));
    j->labels = calloc(batch, sizeof *j->labels);
    assert_non_null(j->labels);
    j->plan = new_plan(g, batch);
    start_parameters(j, &r);
    for (size_t i = 0; i < batch * shape_size(g->input); i++)
        j->input[i] = rng_normal(&r);
    for (size_t i = 0; i < batch; i++)
        j->labels[i] = (uint16_t)rng_below(&r, g->classes);
    return j;
}

void judge_free(struct judge *j)
{
    block_close(&j->plan->memory);
    arena_release(&j->plan->arena);
    free(j->plan);
    free(j->params);
    free(j->grads);
    free(j->stats);
    free(j->input);
    free(j->labels);
    free(j);
}

static double run(struct judge *j, const struct plan *plan, double *grads)
{
    struct ref_walk p = {.graph = j->g, .plan = plan, .params = j->params, .grads = grads};
    p.at = (struct micro){0, j->batch};
    p.of = j->batch;
    p.stats = j->stats;
    p.memory = j->plan->memory.bytes;
    p.labels = j->labels;
    p.seed = j->seed;
    memcpy((char *)p.memory + plan->value_at[0], j->input,
           j->batch * shape_size(j->g->input) * sizeof *j->input);
    ref_take(&p, 0, plan->n_steps);
    j->hits = p.hits;
    return p.loss;
}

double judge_learn(struct judge *j)
{
    return run(j, &j->plan->learn, j->grads);
}

double judge_loss(struct judge *j)
{
    return run(j, &j->plan->forward, j->grads);
}

double judge_exam(struct judge *j)
{
    return run(j, &j->plan->exam, NULL);
}

/* What the worst difference is against: the largest gradient, or a floor so that exact zeros compare with
 * zeros. */
static double relative(double worst, double largest_gradient)
{
    return worst / fmax(largest_gradient, 1e-2);
}

double judge_every_parameter(struct judge *j)
{
    double worst_of_all = 0;
    judge_learn(j);
    for (size_t k = 0; k < j->g->n_params; k++) {
        const struct param *p = &j->g->params[k];
        double worst = 0, most = 0;
        for (size_t i = p->offset; i < p->offset + p->size; i++) {
            double at = j->params[i];
            j->params[i] = at + eps;
            double up = judge_loss(j);
            j->params[i] = at - eps;
            double down = judge_loss(j);
            j->params[i] = at;
            worst = fmax(worst, fabs((up - down) / (2 * eps) - j->grads[i]));
            most = fmax(most, fabs(j->grads[i]));
        }
        worst_of_all = fmax(worst_of_all, relative(worst, most));
    }
    return worst_of_all;
}

static double length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

double judge_directions(struct judge *j, size_t n)
{
    size_t size = j->g->size;
    double *start = numbers(size), *way = numbers(size), worst = 0;
    memcpy(start, j->params, size * sizeof *start);
    judge_learn(j);
    for (size_t k = 0; k < n; k++) {
        struct rng r = rng_stream(j->seed, 0, RNG_TEST, 100 + k);
        double slope = 0, loss[2];
        for (size_t i = 0; i < size; i++)
            way[i] = rng_normal(&r);
        double size_of_way = length(way, size);
        for (size_t i = 0; i < size; i++)
            slope += (way[i] /= size_of_way) * j->grads[i];
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < size; i++)
                j->params[i] = start[i] + (side ? -eps : eps) * way[i];
            loss[side] = judge_loss(j);
        }
        worst = fmax(worst, fabs((loss[0] - loss[1]) / (2 * eps) - slope));
    }
    memcpy(j->params, start, size * sizeof *start);
    free(start);
    free(way);
    return relative(worst, length(j->grads, size));
}

/* One op with room for everything it may touch. */
struct trial {
    struct ref_call call;
    size_t n_in[2], n_out, n_weight, n_bias;
    double *x[2], *y, *dy, *dx[2], *weight, *bias, *dweight, *dbias, *mean, *var, *before[2];
    uint16_t *labels;
};

static double *random_numbers(struct rng *r, size_t n)
{
    double *x = numbers(n);
    for (size_t i = 0; i < n; i++)
        x[i] = rng_normal(r);
    return x;
}

static void count_numbers(struct trial *t, const struct op *op, struct shape in, struct shape out,
                          size_t batch)
{
    bool conv = op->kind == OP_CONV, linear = op->kind == OP_LINEAR, norm = op->kind == OP_BATCHNORM;
    t->n_in[0] = t->n_in[1] = batch * shape_size(in);
    if (op->kind == OP_CONCAT)
        t->n_in[1] = batch * (shape_size(out) - shape_size(in));
    t->n_out = op_rows[op->kind].is_loss ? 0 : batch * shape_size(out);
    t->n_weight = conv     ? out.c * (in.c / op->groups) * op->kernel * op->kernel
                  : linear ? out.c * shape_size(in)
                  : norm   ? in.c
                           : 0;
    t->n_bias = conv || linear ? (op->bias >= 0 ? out.c : 0) : norm ? in.c : 0;
}

static void trial_start(struct trial *t, const struct op *op, struct shape in, struct shape out, size_t batch,
                        bool adds, struct rng *r)
{
    count_numbers(t, op, in, out, batch);
    t->y = numbers(t->n_out);
    t->dy = random_numbers(r, t->n_out);
    t->weight = random_numbers(r, t->n_weight);
    t->bias = random_numbers(r, t->n_bias);
    t->dweight = random_numbers(r, t->n_weight); /* to be overwritten */
    t->dbias = random_numbers(r, t->n_bias);
    t->mean = numbers(in.c);
    t->var = numbers(in.c);
    t->labels = calloc(batch, sizeof *t->labels);
    assert_non_null(t->labels);
    for (size_t i = 0; i < batch; i++)
        t->labels[i] = (uint16_t)rng_below(r, in.c);
    t->call = (struct ref_call){.op = op,
                                .batch = batch,
                                .of = batch,
                                .learning = true,
                                .in = in,
                                .out = out,
                                .y = t->y,
                                .dy = t->dy};
    t->call.labels = t->labels;
    t->call.key = rng_next(r);
    t->call.weight = t->n_weight ? t->weight : NULL;
    t->call.bias = t->n_bias ? t->bias : NULL;
    t->call.dweight = t->n_weight ? t->dweight : NULL;
    t->call.dbias = t->n_bias ? t->dbias : NULL;
    t->call.mean = t->mean;
    t->call.var = t->var;
    for (int k = 0; k < 2; k++) {
        t->call.x[k] = t->x[k] = random_numbers(r, t->n_in[k]);
        t->call.dx[k] = t->dx[k] = random_numbers(r, t->n_in[k]); /* overwritten or added to */
        t->call.adds[k] = adds;
        t->before[k] = numbers(t->n_in[k]);
        memcpy(t->before[k], t->dx[k], t->n_in[k] * sizeof *t->dx[k]);
    }
}

static void trial_end(struct trial *t)
{
    double *all[] = {t->x[0], t->x[1],    t->y,     t->dy,   t->dx[0], t->dx[1],     t->weight,
                     t->bias, t->dweight, t->dbias, t->mean, t->var,   t->before[0], t->before[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(t->labels);
}

static double trial_value(struct trial *t)
{
    ref_rows[t->call.op->kind]->forward(&t->call);
    double sum = t->call.loss;
    for (size_t i = 0; i < t->n_out; i++)
        sum += t->dy[i] * t->y[i];
    return sum;
}

/* Compares one gradient (less what was there before, if it was added to) with differences over x. */
static double compare(struct trial *t, double *x, const double *dx, const double *before, size_t n)
{
    double worst = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        double at = x[i];
        x[i] = at + eps;
        double up = trial_value(t);
        x[i] = at - eps;
        double down = trial_value(t), gradient = dx[i] - (before ? before[i] : 0);
        x[i] = at;
        worst = fmax(worst, fabs((up - down) / (2 * eps) - gradient));
        most = fmax(most, fabs(gradient));
    }
    return relative(worst, most);
}

double judge_op(const struct op *op, struct shape in, struct shape out, size_t batch, bool adds,
                uint64_t seed)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 2);
    struct trial t = {0};
    trial_start(&t, op, in, out, batch, adds, &r);
    trial_value(&t);
    ref_rows[op->kind]->backward(&t.call);
    double worst = 0;
    for (int k = 0; k < (op->kind == OP_ADD || op->kind == OP_CONCAT ? 2 : 1); k++)
        worst = fmax(worst, compare(&t, t.x[k], t.dx[k], adds ? t.before[k] : NULL, t.n_in[k]));
    worst = fmax(worst, compare(&t, t.weight, t.dweight, NULL, t.n_weight));
    worst = fmax(worst, compare(&t, t.bias, t.dbias, NULL, t.n_bias));
    trial_end(&t);
    return worst;
}
