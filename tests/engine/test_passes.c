/* A network by parts against the same network whole: every engine, every named model, random networks, all ways to cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/parts.h"

static const struct engine_ops *const engines[] = {
    &engine_ref,
#ifdef VECHE_HAS_DNNL
    &engine_dnnl,
#endif
};
enum { N_ENGINES = sizeof engines / sizeof *engines, MOST_OPS = 512 };

/* Micro-batches, how many of them are under way, and whether backward comes in two: all are taken in turn. */
static const struct way {
    size_t micro_batches, flights;
    bool splits;
} ways[] = {{1, 1, false}, {3, 1, false}, {3, 3, true}, {8, 8, false}, {8, 3, true}, {1, 1, true}};
enum { N_WAYS = sizeof ways / sizeof *ways };

static void check_cut(const struct subject *s, const struct engine_ops *ops, const size_t *part_of,
                      size_t n_parts, size_t turn)
{
    const struct way *way = &ways[turn % N_WAYS];
    char what[200];
    snprintf(what, sizeof what, "%s, %s, %zu parts, cut %zu, %zu micro-batches, %zu under way%s", ops->name,
             s->what, n_parts, turn, way->micro_batches, way->flights,
             way->splits ? ", backward in two" : "");
    struct parts_trial t = {.ops = ops,
                            .g = s->g,
                            .data = s->data,
                            .part_of = part_of,
                            .n_parts = n_parts,
                            .n_replicas = 1 + turn % 2,
                            .batch = 8 + turn % 3,
                            .micro_batches = way->micro_batches,
                            .flights = way->flights,
                            .splits = way->splits,
                            .threads = 1 + (int)(turn / 2 % 2),
                            .seed = s->seed + turn,
                            .what = what};
    if (cut_is_in_share())
        parts_agree(&t);
}

/* Random cuts since the test began. */
static size_t n_cuts_into[MOST_PARTS + 1];

static int begin_to_count(void **state)
{
    (void)state;
    memset(n_cuts_into, 0, sizeof n_cuts_into);
    return 0;
}

static void some_were_cut_into_three_and_five(void)
{
    assert_true(n_cuts_into[3] > 0 && n_cuts_into[5] > 0);
}

static void check_random(const struct subject *s, const struct engine_ops *ops, size_t n_parts, size_t turn)
{
    size_t part_of[MOST_OPS];
    struct rng r = rng_stream(s->seed, (uint32_t)n_parts, RNG_TEST, turn);
    if (!cut_anywhere(s->g, &r, n_parts, part_of))
        return;
    check_cut(s, ops, part_of, n_parts, turn);
    n_cuts_into[n_parts]++;
}

/* Into two at every `step`-th op, from `phase` on; and at random into 2, 3 and 5. */
static void check_cuts(const struct subject *s, const struct engine_ops *ops, size_t step, size_t phase)
{
    size_t part_of[MOST_OPS];
    assert_true(s->g->n_ops <= MOST_OPS);
    for (size_t at = 1 + phase % step; at < s->g->n_ops; at += step) {
        cut_at(s->g, &at, 1, part_of);
        check_cut(s, ops, part_of, 2, at + phase);
    }
    check_random(s, ops, 2, phase);
    check_random(s, ops, 3, phase + 1);
    check_random(s, ops, 5, phase + 2);
}

/* The judge's loops are slow. */
static size_t step_of(size_t step, const struct engine_ops *ops)
{
    return all_cuts_are_asked_for() ? 1 : ops == &engine_ref ? 4 * step : step;
}

static void named_models_by_parts_are_the_whole_to_the_bit(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t side, step; /* of the suite's choice; 0: not in it */
    } models[] = {{"logistic", 8, 1},     {"mlp:12-8", 8, 1}, {"lenet", 28, 3},
                  {"fashion-cnn", 28, 4}, {"resnet20", 8, 7}, {"resnet32", 8, 0},
                  {"resnet44", 8, 0},     {"resnet56", 8, 0}, {"resnet110", 8, 0}};
    assert_int_equal(sizeof models / sizeof *models, model_kinds.n);
    for (size_t i = 0; i < model_kinds.n; i++) {
        if (!models[i].step && !all_cuts_are_asked_for())
            continue;
        struct shape shape = {i < 4 ? 1 : 3, models[i].side, models[i].side};
        struct graph *g = model_build(models[i].name, shape, 10);
        struct dataset *d = random_dataset(i, shape, 10, 40, 8);
        struct subject s = {models[i].name, g, d, 77 + i, false};
        for (size_t k = 0; k < N_ENGINES; k++)
            check_cuts(&s, engines[k], step_of(models[i].step, engines[k]), i);
        random_dataset_free(d);
        graph_free(g);
    }
    some_were_cut_into_three_and_five();
}

static void check_random_network(const struct subject *s, size_t i)
{
    for (size_t k = 0; k < N_ENGINES; k++)
        check_cuts(s, engines[k], step_of(4, engines[k]), i);
}

static void random_networks_by_parts_are_the_whole_to_the_bit(void **state)
{
    (void)state;
    each_random_subject(all_cuts_are_asked_for() ? 200 : 24, check_random_network);
    some_were_cut_into_three_and_five();
}

/* Convolutions that engines fold with what stands before and behind them: every cut between them. */
static void wide_networks_by_parts_are_the_whole_to_the_bit(void **state)
{
    (void)state;
    struct shape shape = {3, 7, 7};
    struct network net = {0};
    for (int i = 0; i < 3; i++) {
        net_conv(&net, 16, 3, 1, 1)->bias = i > 0;
        net_batchnorm(&net);
        net_layer(&net, "relu");
    }
    net_residual(&net);
    net_conv(&net, 32, 3, 1, 1)->bias = true;
    net_batchnorm(&net);
    net_end(&net);
    net_residual(&net);
    net_layer(&net, "tanh");
    net_pool(&net, "maxpool", 3, 1, 1);
    net_end(&net);
    net_residual(&net);
    net_dropout(&net, 0.3);
    net_pool(&net, "avgpool", 2, 1, 1);
    net_conv(&net, 32, 2, 1, 0);
    net_end(&net);
    net_linear(&net, 5);
    struct graph *g = net_build(&net, shape, 5);
    struct dataset *d = random_dataset(9, shape, 5, 40, 8);
    struct subject s = {"wide convolutions", g, d, 5, false};
    for (size_t k = 0; k < N_ENGINES; k++)
        for (size_t phase = 0; phase < (engines[k] == &engine_ref  ? 1
                                        : all_cuts_are_asked_for() ? N_WAYS
                                                                   : 2);
             phase++)
            check_cuts(&s, engines[k], engines[k] == &engine_ref && !all_cuts_are_asked_for() ? 3 : 1, phase);
    some_were_cut_into_three_and_five();
    random_dataset_free(d);
    graph_free(g);
    net_release(&net);
}

static void parts_of_streamed_samples_are_the_whole_to_the_bit(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_ENGINES; k++)
        streamed_parts_agree(engines[k]);
}

/* An argument is a pattern: only the tests whose names match it are run. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(named_models_by_parts_are_the_whole_to_the_bit, begin_to_count),
        cmocka_unit_test_setup(wide_networks_by_parts_are_the_whole_to_the_bit, begin_to_count),
        cmocka_unit_test_setup(random_networks_by_parts_are_the_whole_to_the_bit, begin_to_count),
        cmocka_unit_test(parts_of_streamed_samples_are_the_whole_to_the_bit),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
