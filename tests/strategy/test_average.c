/* Model averaging: when, of what and with which weights; one model at the end; and who averages when somebody
 * is lost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collective/collective.h"
#include "support/cast.h"
#include "support/trouble.h"

#define PLAIN(optim)                                                                                         \
    "data: {set: {kind: blobs, features: 6, samples: 240, test_samples: 10}, batch: 2}\n"                    \
    "model: mlp:4\noptim: " optim "\nengine: {kind: ref, threads: 1}\n"
#define SGD "{kind: sgd, lr: 0.05}"

enum { MOST = 64 };

static void open_as(struct cast *g, const char *head, const char *strategy, const char *more, int rounds)
{
    char *text = text_of("%sstrategy: %s\n%s", head, strategy, more);
    cast_open(g, text, rounds);
    free(text);
}

static void must_all_be_equal(struct cast *g)
{
    for (size_t i = 1; i < g->n; i++)
        assert_memory_equal(cast_row(g, 0), cast_row(g, i), g->size * sizeof(float));
}

static double furthest(struct cast *g, struct cast *other)
{
    double most = 0;
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < g->size; j++)
            most = fmax(most, fabs((double)cast_row(g, i)[j] - cast_row(other, i)[j]));
    return most;
}

/* ---- one agent ---- */

static void one_agent_equals_single_bit_for_bit(void **state)
{
    (void)state;
    static const char *const strategies[] = {
        "{kind: average, tau: 1}", "{kind: average, tau: 3, weights: data, algorithm: tree}",
        "{kind: average, tau: end}", "{kind: average, tau: 2, mix_statistics: true, mix_momentum: true}",
        "{kind: average, tau: 4, from_epoch: 0.1}"};
    static const char head[] =
        "data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
        "model: [{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, {linear: {out: 3}}]\n"
        "optim: {kind: sgd, lr: 0.05, momentum: 0.9}\nengine: {kind: ref, threads: 1}\n";
    struct cast single;
    open_as(&single, head, "single", "", 31);
    cast_play(&single);
    for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
        struct cast other;
        open_as(&other, head, strategies[s], "", 31);
        cast_play(&other);
        assert_memory_equal(cast_row(&single, 0), cast_row(&other, 0), single.size * sizeof(float));
        assert_int_equal(cast_counts(&other).messages, 0);
        assert_true(local_now_s(single.world) == local_now_s(other.world));
        cast_close(&other);
    }
    cast_close(&single);
}

/* ---- the law, by hand ---- */

enum { AGENTS = 4, ROUNDS = 17, BATCH = 2 };

struct by_hand {
    uint64_t tau, early; /* rounds at the beginning that are all averaged */
    double momentum, block_rate;
    double weights[AGENTS];
    bool nesterov;
};

static void local_steps_by_hand(struct cast *g, uint64_t k, double x[][MOST])
{
    struct engine *e = g->run->engine;
    for (size_t i = 0; i < AGENTS; i++) {
        float row[MOST], grad[MOST];
        struct pick picks[BATCH];
        for (size_t j = 0; j < g->size; j++)
            row[j] = (float)x[i][j];
        feed_batch(&g->run->agents[i].feed, k, picks);
        must(e->ops->write(e, ROW_PARAMS, i, row));
        must(e->ops->learn(e, &(struct lesson){.replica = i, .picks = picks}, 1));
        must(e->ops->read(e, ROW_GRADS, i, grad));
        for (size_t j = 0; j < g->size; j++)
            x[i][j] -= 0.05 * grad[j];
    }
}

/* All rounds in plain loops over what the engine calls a gradient; x is [AGENTS][MOST] and ends as all rows
 * should. While steps are plain, a step by the mean gradient leads to the mean of the steps. */
static void learn_by_hand(struct cast *g, const struct by_hand *h, double x[][MOST])
{
    double theta[MOST], begun[MOST], delta[MOST] = {0};
    assert_true(g->size <= MOST);
    for (size_t i = 0; i < AGENTS; i++)
        for (size_t j = 0; j < g->size; j++)
            x[i][j] = theta[j] = begun[j] = cast_row(g, 0)[j];
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        local_steps_by_hand(g, k - 1, x);
        if (k % h->tau && k > h->early && k < ROUNDS)
            continue;
        for (size_t j = 0; j < g->size; j++) {
            double mean = 0;
            for (size_t i = 0; i < AGENTS; i++)
                mean += h->weights[i] * x[i][j];
            if (k <= h->early) {
                theta[j] = begun[j] = mean;
            } else {
                delta[j] = h->momentum * delta[j] + h->block_rate * (mean - begun[j]);
                theta[j] += delta[j];
                begun[j] = theta[j] + (h->nesterov && k < ROUNDS ? h->momentum * delta[j] : 0);
            }
            for (size_t i = 0; i < AGENTS; i++)
                x[i][j] = begun[j];
        }
    }
}

static void averages_are_those_of_the_papers(void **state)
{
    (void)state;
    static const struct {
        const char *strategy, *split;
        struct by_hand hand;
    } cases[] = {
        {"{kind: average, tau: 1}", "shuffle", {1, 0, 0, 1, {0.25, 0.25, 0.25, 0.25}, false}},
        {"{kind: average, tau: 5}", "shuffle", {5, 0, 0, 1, {0.25, 0.25, 0.25, 0.25}, false}},
        {"{kind: average, tau: end}", "shuffle", {1000, 0, 0, 1, {0.25, 0.25, 0.25, 0.25}, false}},
        {"{kind: average, tau: 4, from_epoch: 0.2}", "shuffle", {4, 6, 0, 1, {0.25, 0.25, 0.25, 0.25}, false}},
        {"{kind: average, tau: 3, momentum: 0.6, block_rate: 0.8}",
         "shuffle",
         {3, 0, 0.6, 0.8, {0.25, 0.25, 0.25, 0.25}, false}},
        {"{kind: average, tau: 3, momentum: 0.5}", "shuffle", {3, 0, 0.5, 1, {0.25, 0.25, 0.25, 0.25}, false}},
        {"{kind: average, tau: 3, momentum: 0.5, nesterov: true}",
         "shuffle",
         {3, 0, 0.5, 1, {0.25, 0.25, 0.25, 0.25}, true}},
        {"{kind: average, tau: 2, momentum: 0.7, block_rate: 1.3, nesterov: true}",
         "shuffle",
         {2, 0, 0.7, 1.3, {0.25, 0.25, 0.25, 0.25}, true}},
        {"{kind: average, tau: 4, momentum: 0.6, block_rate: 0.8, nesterov: true, from_epoch: 0.2}",
         "shuffle",
         {4, 6, 0.6, 0.8, {0.25, 0.25, 0.25, 0.25}, true}},
        {"{kind: average, tau: 2, weights: data}",
         "{kind: sizes, sizes: [1, 2, 3, 4]}",
         {2, 0, 0, 1, {0.1, 0.2, 0.3, 0.4}, false}},
        {"{kind: average, tau: 2, weights: data, from_epoch: 0.1}",
         "{kind: sizes, sizes: [1, 2, 3, 4]}",
         {2, 4, 0, 1, {0.1, 0.2, 0.3, 0.4}, false}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cast g, hand;
        double x[AGENTS][MOST];
        char *head = text_of(
            "data: {set: {kind: blobs, features: 6, samples: 240, test_samples: 10}, batch: 2, split: %s}\n"
            "model: mlp:4\noptim: " SGD "\nengine: {kind: ref, threads: 1}\n",
            cases[c].split);
        open_as(&g, head, cases[c].strategy, "agents: 4\n", ROUNDS);
        open_as(&hand, head, cases[c].strategy, "agents: 4\n", ROUNDS);
        free(head);
        learn_by_hand(&hand, &cases[c].hand, x);
        cast_play(&g);
        must_all_be_equal(&g);
        for (size_t j = 0; j < g.size; j++)
            if (fabs(cast_row(&g, 0)[j] - x[0][j]) >= 1e-5)
                fail_msg("%s: parameter %zu is %g and not %g", cases[c].strategy, j, cast_row(&g, 0)[j],
                         x[0][j]);
        cast_close(&g);
        cast_close(&hand);
    }
}

/* ---- what equals what ---- */

static void averaging_every_round_equals_averaging_gradients(void **state)
{
    (void)state;
    for (int c = 0; c < N_COLLECTIVES; c++) {
        struct cast g, other;
        char *strategy = text_of("{kind: average, tau: 1, algorithm: %s}", collective_names[c]);
        open_as(&g, PLAIN(SGD), strategy, "agents: 5\n", 20);
        open_as(&other, PLAIN(SGD), "allreduce", "agents: 5\n", 20);
        free(strategy);
        cast_play(&g);
        cast_play(&other);
        assert_true(furthest(&g, &other) < 1e-5);
        must_all_be_equal(&g);
        cast_close(&g);
        cast_close(&other);
    }
}

/* Until from_epoch: with dropout and batchnorm, whatever the optimiser keeps, and when somebody is lost. (Who
 * returns takes over the rows of block momentum, too, which takes time.) */
static void post_local_sgd_begins_as_allreduce_bit_for_bit(void **state)
{
    (void)state;
    static const char *const optimisers[] = {
        "{kind: sgd, lr: 0.05}",
        "{kind: sgd, lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.01}",
        "{kind: adagrad, lr: 0.05}",
        "{kind: rmsprop, lr: 0.01, momentum: 0.5}",
        "{kind: adam, lr: 0.01}",
        "{kind: adamw, lr: 0.01, schedule: {warmup_epochs: 0.5}}"};
    static const char *const events[] = {"", "network: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 1}\n"
                                             "events: [{at_s: 0.0305, crash: 3}, {at_s: 0.06, return: 3}]\n"};
    for (size_t o = 0; o < sizeof optimisers / sizeof *optimisers; o++)
        for (size_t c = 0; c < 4; c++) {
            const char *statistics = c & 1 ? ", mix_statistics: true" : "";
            struct cast g, other;
            char *head = text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
                                 "model: [{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, "
                                 "{linear: {out: 3}}]\n"
                                 "optim: %s\nengine: {kind: ref, threads: 1}\nagents: 5\n%s",
                                 optimisers[o], events[c / 2]);
            char *local = text_of("{kind: average, tau: 7, from_epoch: 100%s}", statistics);
            char *together = text_of("{kind: allreduce%s}", statistics);
            open_as(&g, head, local, "", 31);
            open_as(&other, head, together, "", 31);
            free(head);
            free(local);
            free(together);
            cast_play(&g);
            cast_play(&other);
            if (furthest(&g, &other) != 0)
                fail_msg("%s, case %zu: not the same", optimisers[o], c);
            assert_true(c >= 2 || local_now_s(g.world) == local_now_s(other.world));
            assert_true(c >= 2 || cast_counts(&g).bytes == cast_counts(&other).bytes);
            cast_close(&g);
            cast_close(&other);
        }
}

static void block_momentum_of_nothing_is_averaging(void **state)
{
    (void)state;
    struct cast g, other;
    open_as(&g, PLAIN(SGD), "{kind: average, tau: 4, momentum: 0, block_rate: 1}", "agents: 3\n", 21);
    open_as(&other, PLAIN(SGD), "{kind: average, tau: 4}", "agents: 3\n", 21);
    cast_play(&g);
    cast_play(&other);
    assert_true(furthest(&g, &other) == 0);
    cast_close(&g);
    cast_close(&other);
}

static void looking_ahead_without_block_momentum_is_refused(void **state)
{
    (void)state;
    struct cast g;
    must_fail(cast_try(&g, TINY("{kind: average, nesterov: true}") "agents: 3\n", 1, 1),
              "strategy.nesterov: block momentum looks ahead where strategy.momentum is above 0");
}

/* ---- counts ---- */

static void averages_are_as_many_as_said(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        uint64_t averages;
    } cases[] = {{"tau: 1", 20},
                 {"tau: 6", 4},
                 {"tau: 10", 2},
                 {"tau: end", 1},
                 {"tau: 1000", 1},
                 {"tau: 10, from_epoch: 0.25", 5 + 2},
                 {"tau: end, from_epoch: 0.25", 5 + 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cast g; /* a share is 20 samples, an epoch 20 rounds */
        char *text = text_of(TINY("{kind: average, algorithm: ring, %s}") "agents: 3\n", cases[c].settings);
        cast_open(&g, text, 20);
        free(text);
        cast_play(&g);
        struct link_counts n = cast_counts(&g);
        assert_int_equal(n.messages, cases[c].averages * 3 * 2 * 2); /* 2 (m - 1) by each */
        assert_int_equal(n.bytes, cases[c].averages * 2 * 2 * g.size * sizeof(float));
        must_all_be_equal(&g);
        cast_close(&g);
    }
}

static void shares_are_told_once(void **state)
{
    (void)state;
    uint64_t messages[2];
    for (size_t i = 0; i < 2; i++) {
        struct cast g;
        char *text =
            text_of(TINY("{kind: average, tau: 2, weights: %s}") "agents: 4\n", i ? "data" : "equal");
        cast_open(&g, text, 20);
        free(text);
        cast_play(&g);
        messages[i] = cast_counts(&g).messages;
        cast_close(&g);
    }
    assert_int_equal(messages[1] - messages[0], 4 * 2); /* 4 agents, 2 steps of doubling */
}

static void statistics_and_momentum_are_averaged_when_asked_for(void **state)
{
    (void)state;
    static const char *const extras[] = {"", ", mix_statistics: true", ", mix_momentum: true",
                                         ", mix_statistics: true, mix_momentum: true"};
    for (size_t c = 0; c < 4; c++) {
        struct cast g;
        char *text = text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
                             "model: [{linear: {out: 6}}, batchnorm, relu, {linear: {out: 3}}]\n"
                             "optim: {kind: adam, lr: 0.01}\nengine: {kind: ref, threads: 1}\n"
                             "strategy: {kind: average, tau: 2%s}\nagents: 3\n",
                             extras[c]);
        float rows[3][3][128];
        static const enum row which[] = {ROW_STATS, ROW_SLOT, ROW_SLOT + 1};
        cast_open(&g, text, 6);
        free(text);
        cast_play(&g);
        must_all_be_equal(&g);
        for (size_t r = 0; r < 3; r++) {
            size_t n = row_size(&g.run->engine->setup, which[r]) * sizeof(float);
            bool equal = true, asked = r == 0 ? c & 1 : c >> 1;
            assert_true(n > 0 && n <= sizeof rows[0][0]);
            for (size_t i = 0; i < 3; i++) {
                must(g.run->engine->ops->read(g.run->engine, which[r], i, rows[r][i]));
                equal = equal && !memcmp(rows[r][0], rows[r][i], n);
            }
            assert_true(equal == asked);
        }
        cast_close(&g);
    }
}

/* ---- death and return ---- */

#define PATIENT "network: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 1}\n"

static const char *const strategies[] = {
    "{kind: average, tau: 1}",
    "{kind: average, tau: 3, algorithm: tree, weights: data}",
    "{kind: average, tau: 2, momentum: 0.5, algorithm: halving-doubling}",
    "{kind: average, tau: 2, algorithm: butterfly}",
};
enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

static void the_living_average_without_the_dead(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_STRATEGIES; s++) {
        struct cast g;
        char *text =
            text_of(TINY("%s") "agents: 5\n" PATIENT "events: [{at_s: 0.0105, crash: 3}]\n", strategies[s]);
        cast_open(&g, text, 30);
        free(text);
        cast_play(&g);
        assert_true(cast_noted(&g, "4 of 5 agents go on together"));
        assert_true(cast_noted(&g, "agent 3"));
        for (size_t i = 0; i < 5; i++) {
            assert_int_equal(g.world->actors[i].life, i == 3 ? LIFE_DOWN : LIFE_DONE);
            if (i != 3)
                assert_memory_equal(cast_row(&g, 0), cast_row(&g, i), g.size * sizeof(float));
        }
        cast_close(&g);
    }
}

static bool all_have(struct cast *g, const double *mean)
{
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; i != 3 && j < g->size; j++)
            if (fabs(cast_row(g, i)[j] - mean[j]) > 1e-5)
                return false;
    return true;
}

/* The living have the mean of all, where somebody had it before agent 3 was lost, or else of themselves:
 * never a part of a sum. */
static void what_the_living_had_survives_a_broken_sum(void **state)
{
    (void)state;
    unsigned of_all = 0, of_the_living = 0;
    for (int c = 0; c < N_COLLECTIVES; c++)
        for (int t = 0; t < 20; t++) {
            struct cast g;
            char *text = text_of(TINY("{kind: average, tau: 4, algorithm: %s}") //
                                 "agents: 5\nnetwork: {latency_ms: 0.1, bandwidth_mbps: 5, patience_s: 1}\n"
                                 "events: [{at_s: %g, crash: 3}]\n",
                                 collective_names[c], 0.00401 + 0.0001 * t);
            cast_open(&g, text, 8);
            free(text);
            cast_scatter(&g, 4);
            cast_keep_from_learning(&g);
            double *rows = cast_rows(&g), living[MOST] = {0}, all[MOST] = {0};
            for (size_t i = 0; i < 5; i++)
                for (size_t j = 0; j < g.size; j++) {
                    all[j] += rows[i * g.size + j] / 5;
                    living[j] += i == 3 ? 0 : rows[i * g.size + j] / 4;
                }
            free(rows);
            cast_play(&g);
            if (all_have(&g, all))
                of_all++;
            else if (all_have(&g, living))
                of_the_living++;
            else
                fail_msg("%s, %d: the living have something else", collective_names[c], t);
            cast_close(&g);
        }
    assert_true(of_all > 20 && of_the_living > 20);
}

static void whoever_returns_is_one_of_them_again(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_STRATEGIES; s++) {
        struct cast g;
        char *text =
            text_of(TINY("%s") "agents: 5\n" PATIENT
                               "events: [{at_s: 0.0105, crash: [0, 3]}, {at_s: 0.03, return: [0, 3]}]\n",
                    strategies[s]);
        cast_open(&g, text, 60);
        free(text);
        cast_play(&g);
        must_all_be_equal(&g);
        assert_true(cast_noted(&g, "5 of 5 agents go on together"));
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(g.run->agents[i].k, 60);
        cast_close(&g);
    }
}

static void parts_of_a_cut_network_go_on_apart_and_agree_afterwards(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_STRATEGIES; s++) {
        struct cast g;
        char *text = text_of(TINY("%s") "agents: 5\n" PATIENT
                                        "events: [{at_s: 0.0105, partition: [[0, 1], [2, 3, 4]]}, "
                                        "{at_s: 0.04, heal: all}]\n",
                             strategies[s]);
        cast_open(&g, text, 60);
        free(text);
        cast_play(&g);
        assert_true(cast_noted(&g, "2 of 5 agents go on together"));
        assert_true(cast_noted(&g, "3 of 5 agents go on together"));
        assert_true(cast_noted(&g, "5 of 5 agents go on together"));
        must_all_be_equal(&g);
        cast_close(&g);
    }
}

static const char *const troubled[] = {
    "{kind: average, tau: 1}",
    "{kind: average, tau: 2, weights: data, algorithm: tree}",
    "{kind: average, tau: 3, momentum: 0.5, algorithm: halving-doubling}",
    "{kind: average, tau: 2, mix_momentum: true, algorithm: butterfly}",
    "{kind: average, tau: end, algorithm: star}",
    "{kind: average, tau: 4, from_epoch: 0.2, algorithm: binary-blocks}",
    "{kind: average, tau: 2, momentum: 0.5, nesterov: true, from_epoch: 0.1, weights: data}",
    "{kind: average, tau: 1, momentum: 0.3, weights: data, algorithm: all-to-all}",
};

static void worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    struct trouble seen =
        play_worlds_of_trouble(troubled, sizeof troubled / sizeof *troubled, 1000, "go on together", state);
    assert_true(seen.noted > 300 && seen.went_on > 250 && seen.all_down < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_agent_equals_single_bit_for_bit),
        cmocka_unit_test(averages_are_those_of_the_papers),
        cmocka_unit_test(averaging_every_round_equals_averaging_gradients),
        cmocka_unit_test(post_local_sgd_begins_as_allreduce_bit_for_bit),
        cmocka_unit_test(block_momentum_of_nothing_is_averaging),
        cmocka_unit_test(looking_ahead_without_block_momentum_is_refused),
        cmocka_unit_test(averages_are_as_many_as_said),
        cmocka_unit_test(shares_are_told_once),
        cmocka_unit_test(statistics_and_momentum_are_averaged_when_asked_for),
        cmocka_unit_test(the_living_average_without_the_dead),
        cmocka_unit_test(what_the_living_had_survives_a_broken_sum),
        cmocka_unit_test(whoever_returns_is_one_of_them_again),
        cmocka_unit_test(parts_of_a_cut_network_go_on_apart_and_agree_afterwards),
        cmocka_unit_test_teardown(worlds_of_trouble_come_to_an_orderly_end, show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
