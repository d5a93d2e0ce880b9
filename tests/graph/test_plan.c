/* The plan is run with names in place of numbers: every step must find what it reads, whole, where the plan
 * put it.
 *
 * Each 64 bytes of memory carry the name of the buffer last written there (a tensor's value or its gradient).
 * What an op needs is listed here once more, apart from the graph's own rows.
 */
#include "graph/plan.h"
#include "support/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { UNIT = 64 };

struct needs {
    bool in, out; /* of the backward step */
};

static const struct needs needs[N_OPS] = {
    [OP_CONV] = {true, false},    [OP_BATCHNORM] = {true, false}, [OP_LINEAR] = {true, false},
    [OP_ADD] = {false, true},     [OP_RELU] = {false, true},      [OP_TANH] = {false, true},
    [OP_SIGMOID] = {false, true}, [OP_MAXPOOL] = {true, false},   [OP_CROSS_ENTROPY] = {true, false},
    [OP_MSE] = {true, false},     [OP_HINGE] = {true, false},     [OP_LOGISTIC] = {true, false},
};

struct simulation {
    const struct graph *g;
    struct plan plan;
    struct arena arena;
    size_t *sizes;
    int *owner;     /* per unit of memory */
    int *additions; /* per tensor: contributions to its gradient so far */
    bool learning;
};

static int value_name(int t)
{
    return 1 + 2 * t;
}

static int grad_name(int t)
{
    return 2 + 2 * t;
}

static void write_buffer(struct simulation *s, size_t at, int t, int name)
{
    assert_true(at != PLAN_NOWHERE && at % UNIT == 0 && at + s->sizes[t] <= s->plan.n_bytes);
    for (size_t u = at / UNIT; u * UNIT < at + s->sizes[t]; u++)
        s->owner[u] = name;
}

static void expect_buffer(const struct simulation *s, size_t at, int t, int name)
{
    assert_true(at != PLAN_NOWHERE && at % UNIT == 0 && at + s->sizes[t] <= s->plan.n_bytes);
    for (size_t u = at / UNIT; u * UNIT < at + s->sizes[t]; u++)
        assert_int_equal(s->owner[u], name);
}

static void expect_reads(const struct simulation *s, const struct step *step)
{
    const struct op *op = &s->g->ops[step->op];
    for (int k = 0; k < 2 && op->in[k] >= 0; k++)
        if (!step->back || needs[op->kind].in)
            expect_buffer(s, s->plan.value_at[op->in[k]], op->in[k], value_name(op->in[k]));
    if (step->back && needs[op->kind].out)
        expect_buffer(s, s->plan.value_at[op->out], op->out, value_name(op->out));
    if (step->back && op->out >= 0)
        expect_buffer(s, s->plan.grad_at[op->out], op->out, grad_name(op->out));
}

/* How many op inputs read t on the way to the loss: all of them, since every op leads there. */
static int readers(const struct graph *g, int t)
{
    int n = 0;
    for (size_t i = 0; i < g->n_ops; i++)
        n += (g->ops[i].in[0] == t) + (g->ops[i].in[1] == t);
    return n;
}

static void run_step(struct simulation *s, const struct step *step)
{
    const struct op *op = &s->g->ops[step->op];
    expect_reads(s, step);
    if (!step->back)
        assert_false(step->wanted[0] || step->wanted[1]);
    if (!step->back && op->out >= 0)
        write_buffer(s, s->plan.value_at[op->out], op->out, value_name(op->out));
    if (step->back && op->out >= 0)
        assert_int_equal(s->additions[op->out], readers(s->g, op->out)); /* the gradient is complete */
    for (int k = 0; k < 2; k++) {
        int t = op->in[k];
        if (!step->wanted[k])
            continue;
        assert_true(t > 0);
        assert_int_equal(step->adds[k], s->additions[t] > 0);
        if (step->adds[k])
            expect_buffer(s, s->plan.grad_at[t], t, grad_name(t));
        s->additions[t]++;
        write_buffer(s, s->plan.grad_at[t], t, grad_name(t));
    }
    expect_reads(s, step); /* nothing was written over what the step reads */
}

/* Runs the plan of g with tensor sizes that have little to do with one another. Gives the share of the memory
 * that all buffers would take side by side. */
static double simulate(const struct graph *g, bool learning)
{
    struct simulation s = {.g = g, .learning = learning};
    s.sizes = ARENA_NEW(&s.arena, size_t, g->n_tensors);
    s.additions = ARENA_NEW(&s.arena, int, g->n_tensors);
    size_t all = 0;
    for (size_t t = 0; t < g->n_tensors; t++) {
        s.sizes[t] = 4 * shape_size(g->tensors[t].shape);
        all += round_up(s.sizes[t], UNIT);
    }
    assert_null(plan_make(g, learning ? PLAN_LESSON : PLAN_EXAM, s.sizes, learning ? s.sizes : NULL, &s.arena, &s.plan));
    s.owner = ARENA_NEW(&s.arena, int, s.plan.n_bytes / UNIT + 1);
    assert_non_null(s.owner);
    write_buffer(&s, s.plan.value_at[0], 0, value_name(0));
    for (size_t i = 0; i < s.plan.n_steps; i++) {
        assert_int_equal(s.plan.steps[i].back, i >= s.plan.n_forward);
        run_step(&s, &s.plan.steps[i]);
    }
    for (size_t t = 0; t < g->n_tensors; t++)
        assert_int_equal(s.plan.grad_at[t] != PLAN_NOWHERE, learning && g->tensors[t].learns);
    double share = (double)s.plan.n_bytes / (double)(learning ? 2 * all : all);
    arena_release(&s.arena);
    return share;
}

static void every_step_of_every_model_finds_what_it_reads(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct shape input;
    } models[] = {{"logistic", {1, 28, 28}},    {"mlp:100-50", {1, 28, 28}}, {"lenet", {1, 28, 28}},
                  {"fashion-cnn", {1, 28, 28}}, {"resnet20", {3, 32, 32}},   {"resnet32", {3, 32, 32}},
                  {"resnet44", {3, 9, 7}},      {"resnet56", {1, 28, 28}},   {"resnet110", {3, 32, 32}}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct graph *g = model_build(models[i].name, models[i].input, 10);
        simulate(g, true);
        simulate(g, false);
        graph_free(g);
    }
}

static void every_step_of_random_networks_finds_what_it_reads(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct network net = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 4);
        struct shape input = {1 + rng_below(&r, 6), 3 + seed % 12, 3 + seed % 12};
        net_random(&net, &r, input, 4, seed % 25);
        struct graph *g = net_build(&net, input, 4);
        simulate(g, true);
        simulate(g, false);
        graph_free(g);
        net_release(&net);
    }
}

static void nested_residuals_keep_their_inputs(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    for (int i = 0; i < 5; i++) {
        net_residual(&net);
        net_batchnorm(&net);
        net_layer(&net, "relu");
    }
    for (int i = 0; i < 5; i++)
        net_end(&net);
    net_linear(&net, 3);
    struct graph *g = net_build(&net, (struct shape){2, 6, 6}, 3);
    assert_true(simulate(g, true) < 1);
    graph_free(g);
    net_release(&net);
}

static void buffers_share_memory_where_they_can(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", (struct shape){3, 32, 32}, 10);
    double learning = simulate(g, true), exam = simulate(g, false);
    assert_true(learning < 0.6); /* values are kept for the way back, gradients share */
    assert_true(exam < 0.11);    /* at most three of the large tensors, of about 29, live at once */
    graph_free(g);
}

static void nothing_goes_back_to_what_does_not_learn(void **state)
{
    (void)state;
    struct network net = {0};
    net_layer(&net, "tanh");
    net_pool(&net, "maxpool", 2, 0, 0);
    net_linear(&net, 3);
    struct graph *g = net_build(&net, (struct shape){2, 4, 4}, 3); /* tanh, maxpool, reshape, linear, loss */
    struct arena arena = {0};
    size_t sizes[8] = {64, 64, 64, 64, 64, 64, 64, 64};
    struct plan p;
    assert_null(plan_make(g, PLAN_LESSON, sizes, sizes, &arena, &p));
    assert_int_equal(p.n_forward, 5);
    assert_int_equal(p.n_steps, 7); /* back through the loss and the linear layer only */
    assert_true(p.steps[5].wanted[0]);
    assert_false(p.steps[6].wanted[0]);
    arena_release(&arena);
    graph_free(g);
    net_release(&net);
}

static void the_same_graph_gives_the_same_plan(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", (struct shape){3, 16, 16}, 10);
    struct arena arena = {0};
    size_t *sizes = ARENA_NEW(&arena, size_t, g->n_tensors);
    for (size_t t = 0; t < g->n_tensors; t++)
        sizes[t] = 4 * shape_size(g->tensors[t].shape);
    struct plan a, b;
    assert_null(plan_make(g, PLAN_LESSON, sizes, sizes, &arena, &a));
    assert_null(plan_make(g, PLAN_LESSON, sizes, sizes, &arena, &b));
    assert_int_equal(a.n_bytes, b.n_bytes);
    assert_memory_equal(a.value_at, b.value_at, g->n_tensors * sizeof *a.value_at);
    assert_memory_equal(a.grad_at, b.grad_at, g->n_tensors * sizeof *a.grad_at);
    arena_release(&arena);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_every_model_finds_what_it_reads),
        cmocka_unit_test(every_step_of_random_networks_finds_what_it_reads),
        cmocka_unit_test(nested_residuals_keep_their_inputs),
        cmocka_unit_test(buffers_share_memory_where_they_can),
        cmocka_unit_test(nothing_goes_back_to_what_does_not_learn),
        cmocka_unit_test(the_same_graph_gives_the_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
