/* Parameter servers: the laws of each mode, of shards and of the tree, and what is sent for them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "strategy/ps/ps.h"
#include "support/cast.h"

#define PLAIN(model, batch, optim)                                                                           \
    "data: {set: {kind: blobs, samples: 240, test_samples: 10}, batch: " batch "}\n"                         \
    "model: " model "\noptim: " optim "\nengine: {kind: ref, threads: 1}\n"

static void open_text(struct cast *g, char *text, int rounds)
{
    cast_open(g, text, rounds);
    free(text);
}

/* The parameters of a member, a server too; the caller frees. */
static float *parameters_of(struct cast *g, size_t member)
{
    float *row = malloc(g->size * sizeof *row);
    assert_non_null(row);
    must(local_settle(g->world));
    must(g->run->engine->ops->read(g->run->engine, ROW_PARAMS, member, row));
    return row;
}

static void must_be_the_same_row(struct cast *a, size_t i, struct cast *b, size_t j)
{
    float *x = parameters_of(a, i), *y = parameters_of(b, j);
    assert_int_equal(a->size, b->size);
    if (memcmp(x, y, a->size * sizeof *x) != 0)
        fail_msg("the parameters of members %zu and %zu differ", i, j);
    free(x);
    free(y);
}

static void must_be_close(struct cast *a, size_t i, struct cast *b, size_t j, double most)
{
    float *x = parameters_of(a, i), *y = parameters_of(b, j);
    assert_int_equal(a->size, b->size);
    for (size_t k = 0; k < a->size; k++)
        if (!(fabs(x[k] - y[k]) < most))
            fail_msg("float %zu: %g and %g", k, x[k], y[k]);
    free(x);
    free(y);
}

static void must_all_hold_the_servers_parameters(struct cast *g)
{
    const struct ps_shared *s = g->run->stage.shared;
    for (size_t j = 0; j < s->n_servers; j++) {
        const struct ps_helper *h = &s->helpers[j];
        float *served = parameters_of(g, s->n_workers + j);
        for (size_t i = 0; i < g->n; i++)
            assert_memory_equal(cast_row(g, i) + h->first, served + h->first,
                                (h->end - h->first) * sizeof(float));
        free(served);
    }
}

/* ---- one agent ---- */

static const char *const models[] = {
    "logistic",
    "mlp:8-5",
    "[{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, {linear: {out: 3}}]",
};

static const char *const optimisers[] = {
    "{kind: sgd, lr: 0.05, momentum: 0.9, schedule: {warmup_epochs: 0.5}}",
    "{kind: adam, lr: 0.01}",
    "{kind: sgd, lr: 0.1}",
    "{kind: adagrad, lr: 0.05}",
};
static const double rates[] = {0, 0.01, 0.1, 0.05};

static void one_agent_equals_single_bit_for_bit(void **state)
{
    (void)state;
    static const char *const strategies[] = {
        "ps",
        "{kind: ps, servers: 3}",
        "{kind: ps, mode: async}",
        "{kind: ps, mode: async, servers: 2, staleness_aware: true}",
        "{kind: ps, mode: ssp, staleness: 2}",
        "{kind: ps, tree: 2, replicate_every: 3}",
    };
    for (size_t m = 0; m < 3; m++)
        for (size_t o = 0; o < 4; o++) {
            struct cast single;
            open_text(&single, text_of(PLAIN("%s", "4", "%s") "strategy: single\n", models[m], optimisers[o]),
                      30);
            cast_play(&single);
            for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
                struct cast other;
                open_text(
                    &other,
                    text_of(PLAIN("%s", "4", "%s") "strategy: %s\n", models[m], optimisers[o], strategies[s]),
                    30);
                cast_play(&other);
                must_be_the_same_row(&single, 0, &other, 0);
                must_all_hold_the_servers_parameters(&other);
                assert_true(local_now_s(single.world) == local_now_s(other.world));
                assert_int_equal(other.n_notes, 0);
                cast_close(&other);
            }
            cast_close(&single);
        }
}

/* ---- sync ---- */

enum { AGENTS = 5, STEPS = 20, BATCH = 2 };

/* By hand: every agent's gradient at the common parameters, their mean in double precision, one step. */
static void step_by_hand(struct cast *single, struct cast *many, double lr)
{
    struct engine *e = single->run->engine;
    size_t n = single->size;
    double *mean = calloc(n, sizeof *mean);
    float *g = calloc(n, sizeof *g);
    struct pick picks[BATCH];
    assert_true(mean && g);
    for (uint64_t k = 0; k < STEPS; k++) {
        memset(mean, 0, n * sizeof *mean);
        for (size_t i = 0; i < AGENTS; i++) {
            feed_batch(&many->run->agents[i].feed, k, picks);
            struct lesson lesson = {.picks = picks};
            must(e->ops->learn(e, &lesson, 1));
            must(e->ops->read(e, ROW_GRADS, 0, g));
            for (size_t j = 0; j < n; j++)
                mean[j] += g[j] / (double)AGENTS;
        }
        for (size_t j = 0; j < n; j++)
            g[j] = (float)mean[j];
        must(e->ops->write(e, ROW_GRADS, 0, g));
        struct update step = {.lr = lr, .t = k + 1, .end = TO_END};
        must(e->ops->update(e, &step, 1));
    }
    free(mean);
    free(g);
}

static const char unequal[] = "machines: {speed: {kind: lognormal, sigma: 1}, "
                              "stragglers: {kind: random, chance: 0.3, factor: 9}}\n"
                              "network: {latency_ms: 2, bandwidth_mbps: 0.5}\n";

static void many_agents_in_sync_step_by_their_mean_gradient(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ps", "{kind: ps, servers: 2}", "{kind: ps, tree: 2}",
                                             "{kind: ps, tree: 3, servers: 3, replicate_every: 2}"};
    for (size_t o = 1; o < 4; o++)
        for (size_t s = 0; s < 4; s++) {
            struct cast many, single;
            open_text(&many,
                      text_of(PLAIN("mlp:8-5", "2", "%s") "strategy: %s\nagents: 5\n%s", optimisers[o],
                              strategies[s], s % 2 ? unequal : ""),
                      STEPS);
            open_text(&single, text_of(PLAIN("mlp:8-5", "2", "%s"), optimisers[o]), STEPS);
            cast_play(&many);
            step_by_hand(&single, &many, rates[o]);
            must_be_close(&many, 0, &single, 0, 2e-5);
            must_all_hold_the_servers_parameters(&many);
            for (size_t i = 0; i < many.n; i++) {
                assert_int_equal(many.run->agents[i].lessons, STEPS);
                assert_int_equal(many.run->agents[i].staleness.most, 0);
                assert_int_equal(many.run->agents[i].staleness.n, STEPS);
            }
            cast_close(&many);
            cast_close(&single);
        }
}

static void the_number_of_servers_changes_no_bit_in_sync(void **state)
{
    (void)state;
    for (size_t o = 0; o < 4; o++) {
        struct cast one;
        open_text(&one, text_of(PLAIN("mlp:8-5", "2", "%s") "strategy: ps\nagents: 6\n", optimisers[o]), 12);
        cast_play(&one);
        static const int servers[] = {2, 3, 7, 200}; /* more than there are parameters, too */
        for (size_t s = 0; s < 4; s++) {
            struct cast many;
            open_text(&many,
                      text_of(PLAIN("mlp:8-5", "2", "%s") "strategy: {kind: ps, servers: %d}\nagents: 6\n%s",
                              optimisers[o], servers[s], s % 2 ? "" : unequal),
                      12);
            cast_play(&many);
            for (size_t i = 0; i < many.n; i++)
                must_be_the_same_row(&one, i, &many, i);
            cast_close(&many);
        }
        cast_close(&one);
    }
}

/* ---- counts ---- */

static void must_count(const char *strategy, int agents, int rounds, uint64_t letters_per_round,
                       uint64_t goodbyes, uint64_t rows_per_round)
{
    struct cast g;
    open_text(&g, text_of(TINY("%s") "agents: %d\n", strategy, agents), rounds);
    cast_play(&g);
    struct link_counts c = cast_counts(&g);
    uint64_t n = (uint64_t)rounds;
    assert_int_equal(c.messages, 2 * letters_per_round * n + 2 * goodbyes);
    assert_int_equal(c.bytes, (letters_per_round * n + 2 * goodbyes) * sizeof(struct letter) +
                                  rows_per_round * n * g.size * sizeof(float));
    assert_int_equal(c.lost + c.unread, 0);
    assert_int_equal(c.received, c.messages);
    cast_close(&g);
}

static void every_agent_sends_and_gets_one_row_a_round(void **state)
{
    (void)state;
    for (int m = 1; m <= 9; m++)
        for (uint64_t s = 1; s <= 3; s++) {
            uint64_t pairs = (uint64_t)m * s;
            char *text = text_of("{kind: ps, servers: %d}", (int)s);
            must_count(text, m, 7, 2 * pairs, pairs, 2 * (uint64_t)m);
            free(text);
        }
}

/* A tree of fanout f over m agents has ceil(m / f) + ceil(m / f^2) + ... nodes, until f or fewer are left. */
static void every_node_sends_up_and_gets_one_row_a_round(void **state)
{
    (void)state;
    for (int m = 1; m <= 17; m++)
        for (int f = 2; f <= 5; f++)
            for (uint64_t s = 1; s <= 2; s++) {
                uint64_t below = 0, top = (uint64_t)m;
                while (top > (uint64_t)f) {
                    below += top;
                    top = (top + (uint64_t)f - 1) / (uint64_t)f;
                }
                char *text = text_of("{kind: ps, servers: %d, tree: %d}", (int)s, f);
                must_count(text, m, 3, 2 * (below + top * s), below + top * s, 2 * (below + top));
                free(text);
            }
}

/* Every card takes one transfer at a time in each direction. Of m agents the one that is answered first
 * pushes while the others are answered: m rows go in, m + 1 rows later the next m are in, and the last are
 * answered in m. */
static void a_busy_server_is_the_bottleneck_and_shards_relieve_it(void **state)
{
    (void)state;
    enum { M = 8, ROUNDS = 5 };
    double rows[3];
    for (int s = 1; s <= 2; s++) {
        struct cast g;
        open_text(&g,
                  text_of(PLAIN("mlp:64-64", "1", "{kind: sgd, lr: 0.05}") //
                          "strategy: {kind: ps, servers: %d}\nagents: %d\nmachines: {rate: 1e6}\n"
                          "network: {latency_ms: 0, bandwidth_mbps: 8}\n",
                          s, M),
                  ROUNDS);
        cast_play(&g);
        rows[s] = local_now_s(g.world) / ((double)g.size * sizeof(float) * 1e-6);
        cast_close(&g);
    }
    assert_true(fabs(rows[1] / (M + (ROUNDS - 1) * (M + 1) + M) - 1) < 0.01);
    assert_true(rows[2] < 0.6 * rows[1]);
}

/* ---- async and ssp ---- */

static void open_unequal(struct cast *g, const char *strategy, const char *optim, int rounds)
{
    open_text(g, text_of(PLAIN("mlp:8-5", "2", "%s") "strategy: %s\nagents: 6\n%s", optim, strategy, unequal),
              rounds);
}

static void agents_that_need_not_wait_do_not(void **state)
{
    (void)state;
    struct cast sync, async;
    static const char one_slow[] = "agents: 6\nmachines: {speed: [1, 1, 1, 1, 1, 0.1]}\n";
    open_text(&sync, text_of(PLAIN("mlp:8-5", "2", "{kind: sgd, lr: 0.1}") "strategy: ps\n%s", one_slow), 20);
    open_text(&async,
              text_of(PLAIN("mlp:8-5", "2", "{kind: sgd, lr: 0.1}") //
                      "strategy: {kind: ps, mode: async}\n%s",
                      one_slow),
              20);
    cast_play(&sync);
    cast_play(&async);
    assert_true(local_now_s(async.world) < 0.15 * local_now_s(sync.world));
    assert_true(session_totals(async.run).ended == 120 && session_totals(sync.run).ended == 120);
    must_all_hold_the_servers_parameters(&async);
    uint64_t stale = 0, n = 0, least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < 6; i++) {
        const struct agent *a = &async.run->agents[i];
        stale += a->staleness.sum;
        n += a->staleness.n;
        least = a->lessons < least ? a->lessons : least;
        most = a->lessons > most ? a->lessons : most;
    }
    assert_int_equal(n, 120);
    assert_true(stale > 120 && most > 3 * least);
    cast_close(&sync);
    cast_close(&async);
}

static void without_a_bound_ssp_is_async(void **state)
{
    (void)state;
    for (size_t o = 0; o < 4; o++) {
        struct cast ssp, async;
        open_unequal(&ssp, "{kind: ps, mode: ssp, staleness: 1000000, servers: 2}", optimisers[o], 15);
        open_unequal(&async, "{kind: ps, mode: async, servers: 2}", optimisers[o], 15);
        cast_play(&ssp);
        cast_play(&async);
        assert_true(local_now_s(ssp.world) == local_now_s(async.world));
        assert_int_equal(local_steps(ssp.world), local_steps(async.world));
        for (size_t i = 0; i < 6; i++) {
            struct link_counts x = local_counts(ssp.world, i), y = local_counts(async.world, i);
            assert_int_equal(x.messages, y.messages);
            assert_int_equal(x.bytes, y.bytes);
            assert_true(x.waiting_s == y.waiting_s);
            must_be_the_same_row(&ssp, i, &async, i);
        }
        cast_close(&ssp);
        cast_close(&async);
    }
}

/* With s = 0 everybody waits for everybody, as in sync; but each gradient is a step of its own, so that m of
 * them at a rate of alpha / m make the step of sync, for plain SGD. */
static void with_a_bound_of_zero_ssp_goes_in_step_as_sync_does(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 2; servers++)
        for (int wild = 0; wild < 2; wild++) {
            struct cast ssp, sync;
            const char *world = wild ? unequal : "machines: {speed: {kind: lognormal, sigma: 1}}\n";
            open_text(&ssp,
                      text_of(PLAIN("mlp:8-5", "2", "{kind: sgd, lr: 0.02}") //
                              "strategy: {kind: ps, mode: ssp, servers: %d}\nagents: 5\n%s",
                              servers, world),
                      20);
            open_text(&sync,
                      text_of(PLAIN("mlp:8-5", "2", "{kind: sgd, lr: 0.1}") //
                              "strategy: {kind: ps, servers: %d}\nagents: 5\n%s",
                              servers, world),
                      20);
            cast_play(&ssp);
            cast_play(&sync);
            for (size_t i = 0; i < 5; i++) {
                assert_int_equal(ssp.run->agents[i].lessons, 20);
                assert_int_equal(local_counts(ssp.world, i).messages, local_counts(sync.world, i).messages);
                assert_true(ssp.run->agents[i].staleness.most <= 4);
                must_be_close(&ssp, i, &sync, i, 2e-5);
            }
            if (!wild)
                assert_true(local_now_s(ssp.world) == local_now_s(sync.world));
            cast_close(&ssp);
            cast_close(&sync);
        }
}

/* ---- settings ---- */

static void settings_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *strategy, *words;
    } cases[] = {
        {"{kind: ps, staleness: 2}", "strategy.staleness: only 'mode: ssp'"},
        {"{kind: ps, mode: async, staleness: 1}", "strategy.staleness: only 'mode: ssp'"},
        {"{kind: ps, staleness_aware: true}",
         "strategy.staleness_aware: in 'mode: sync' no gradient is stale"},
        {"{kind: ps, tree: 1}", "strategy.tree: a node sums at least two gradients"},
        {"{kind: ps, tree: 2, mode: async}", "strategy.tree: nodes sum the gradients of a round"},
        {"{kind: ps, servers: 0}", "servers"},
        {"{kind: ps, mode: bulk}", "mode"},
        {"{kind: ps, push_every: 4, pull_every: 4}", "unknown key 'push_every' in strategy of kind ps"},
        {"{kind: downpour, mode: sync}", "unknown key 'mode' in strategy of kind downpour"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cast g;
        char *text = text_of(TINY("%s") "agents: 4\n", cases[i].strategy);
        must_fail(cast_try(&g, text, 1, 1), cases[i].words);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_agent_equals_single_bit_for_bit),
        cmocka_unit_test(many_agents_in_sync_step_by_their_mean_gradient),
        cmocka_unit_test(the_number_of_servers_changes_no_bit_in_sync),
        cmocka_unit_test(every_agent_sends_and_gets_one_row_a_round),
        cmocka_unit_test(every_node_sends_up_and_gets_one_row_a_round),
        cmocka_unit_test(a_busy_server_is_the_bottleneck_and_shards_relieve_it),
        cmocka_unit_test(agents_that_need_not_wait_do_not),
        cmocka_unit_test(without_a_bound_ssp_is_async),
        cmocka_unit_test(with_a_bound_of_zero_ssp_goes_in_step_as_sync_does),
        cmocka_unit_test(settings_that_do_not_go_together_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
