/* Parameter servers when somebody dies: workers, servers with and without a standby, nodes of the tree. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "strategy/ps/ps.h"
#include "support/cast.h"

/* A lesson takes 2 ms, messages nothing. */
#define STAGE(optim)                                                                                         \
    "data: {set: {kind: blobs, samples: 240, test_samples: 10}, batch: 2}\n"                                 \
    "model: mlp:8-5\noptim: " optim "\nengine: {kind: ref, threads: 1}\n"
#define SGD "{kind: sgd, lr: 0.05}"

static void open_text(struct cast *g, char *text, int rounds)
{
    cast_open(g, text, rounds);
    free(text);
}

static void must_be_close(struct cast *a, struct cast *b, size_t agent, double most)
{
    const float *x = cast_row(a, agent), *y = cast_row(b, agent);
    for (size_t i = 0; i < a->size; i++)
        if (!(fabs(x[i] - y[i]) <= most))
            fail_msg("agent %zu, float %zu: %g and %g", agent, i, x[i], y[i]);
}

static void must_be_equal(struct cast *g, const size_t *who, size_t n)
{
    for (size_t i = 1; i < n; i++)
        assert_memory_equal(cast_row(g, who[0]), cast_row(g, who[i]), g->size * sizeof(float));
}

static enum life life_of(const struct cast *g, size_t member)
{
    return g->world->actors[member].life;
}

/* ---- workers ---- */

static void a_dead_worker_is_named_and_done_without(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ps", "{kind: ps, mode: async}", "{kind: ps, mode: ssp}",
                                             "{kind: ps, servers: 2}", "{kind: ps, tree: 2}"};
    for (size_t s = 0; s < 5; s++) {
        struct cast g;
        open_text(
            &g,
            text_of(STAGE(SGD) "strategy: %s\nagents: 4\nnetwork: {patience_s: 0.5}\n"
                               "machines: {speed: [1, 1, 0.5, 1]}\nevents: [{at_s: 0.0233, crash: 2}]\n",
                    strategies[s]),
            30);
        cast_play(&g);
        assert_true(cast_noted(&g, "goes on without agent 2, which cannot be reached"));
        assert_int_equal(life_of(&g, 2), LIFE_DOWN);
        for (size_t i = 0; i < g.run->stage.n_members; i++)
            assert_true(i == 2 || life_of(&g, i) == LIFE_DONE);
        must_be_equal(&g, (const size_t[]){0, 1, 3}, 3);
        /* the others were waiting for it: they need not wait for patience, but in a tree */
        assert_true(local_now_s(g.world) < (s < 4 ? 0.1 : 0.6));
        cast_close(&g);
    }
}

static void a_worker_that_is_back_pulls_and_goes_on(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ps", "{kind: ps, mode: async}",
                                             "{kind: ps, mode: ssp, staleness: 1}",
                                             "{kind: downpour, servers: 2, push_every: 2, pull_every: 2}"};
    for (size_t s = 0; s < 4; s++) {
        struct cast g;
        open_text(&g,
                  text_of(STAGE(SGD) "strategy: %s\nagents: 3\nnetwork: {patience_s: 0.5}\n"
                                     "events: [{at_s: 0.0213, crash: 2}, {at_s: 0.0413, return: 2}]\n",
                          strategies[s]),
                  40);
        cast_play(&g);
        assert_true(cast_noted(&g, "agent 2 is back with the servers' parameters"));
        assert_int_equal(life_of(&g, 2), LIFE_DONE);
        assert_true(g.run->agents[2].lessons > 25 && g.run->agents[2].lessons < 40);
        assert_true(local_now_s(g.world) < 0.09); /* nobody waits for what it missed */
        must_be_equal(&g, (const size_t[]){0, 1, 2}, 3);
        cast_close(&g);
    }
}

static void a_worker_too_slow_for_patience_is_done_without_until_it_comes(void **state)
{
    (void)state;
    struct cast g;
    open_text(&g,
              text_of(STAGE(SGD) "strategy: ps\nagents: 3\nnetwork: {patience_s: 0.01}\n"
                                 "machines: {speed: [1, 1, 0.1]}\n"),
              20);
    cast_play(&g);
    assert_true(cast_noted(&g, "server 3 goes on without agent 2, which has not been heard for too long"));
    assert_true(g.run->agents[2].dropped > 0);
    assert_true(g.run->agents[2].lessons < 10 && g.run->agents[0].lessons == 20);
    must_be_equal(&g, (const size_t[]){0, 1, 2}, 3);
    cast_close(&g);
}

static void a_worker_that_is_cut_off_ends_alone(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ps", "{kind: ps, mode: async}",
                                             "{kind: ps, replicate_every: 1}"};
    for (size_t s = 0; s < 3; s++) {
        struct cast g;
        open_text(&g,
                  text_of(STAGE(SGD) "strategy: %s\nagents: 4\nnetwork: {patience_s: 0.01}\n"
                                     "events: [{at_s: 0.0213, partition: [[1]]}]\n",
                          strategies[s]),
                  60);
        cast_play(&g);
        assert_true(cast_noted(&g, "agent 1 has lost server 4"));
        assert_true(g.run->agents[1].k < 20 && life_of(&g, 1) == LIFE_DONE);
        assert_true(g.run->agents[0].k >= 60);
        must_be_equal(&g, (const size_t[]){0, 2, 3}, 3);
        cast_close(&g);
    }
}

/* ---- servers ---- */

static void a_dead_server_without_a_standby_ends_the_run_with_its_name(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ps", "{kind: ps, mode: async, servers: 3}",
                                             "{kind: ps, mode: ssp, servers: 2}",
                                             "{kind: ps, tree: 2, servers: 2}"};
    for (size_t s = 0; s < 4; s++) {
        struct cast g;
        int dead = s ? 5 : 4;
        open_text(&g,
                  text_of(STAGE(SGD) "strategy: %s\nagents: 4\nnetwork: {patience_s: 0.01}\n"
                                     "events: [{at_s: 0.0213, crash: %d}]\n",
                          strategies[s], dead),
                  60);
        char *words = text_of("has lost server %d: it cannot be reached", dead);
        fault f = cast_go(&g);
        if (s == 3) { /* the nodes end first, then those that have turned to the servers themselves */
            assert_non_null(f);
            assert_true(strstr(fault_text(f), "has lost server 5"));
            fault_drop(f);
        } else {
            must_fail(f, words);
        }
        assert_true(local_now_s(g.world) < 0.0213 + 0.002 + 5 * 0.01);
        free(words);
        cast_close(&g);
    }
}

/* What had come before it died is sent again. */
static void a_server_that_is_back_in_time_goes_on_to_the_bit(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 2; servers++) {
        struct cast calm, g;
        char *stage = text_of(STAGE(SGD) "strategy: {kind: ps, servers: %d}\nagents: 3\n"
                                         "machines: {speed: [1, 0.5, 1]}\nnetwork: {patience_s: 0.05}\n",
                              servers);
        open_text(&calm, text_of("%s", stage), 30);
        open_text(&g, text_of("%sevents: [{at_s: 0.0233, crash: 3}, {at_s: 0.0313, return: 3}]\n", stage),
                  30);
        free(stage);
        cast_play(&calm);
        cast_play(&g);
        assert_true(cast_noted(&g, "server 3 is back with the parameters it had"));
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(g.run->agents[i].lessons, 30);
            must_be_close(&calm, &g, i, 0);
        }
        cast_close(&calm);
        cast_close(&g);
    }
}

/* Where every update is copied, and no gradient is under way when the server dies, nothing is lost at all. */
static void a_standby_takes_over_to_the_bit(void **state)
{
    (void)state;
    static const char *const optims[] = {SGD, "{kind: sgd, lr: 0.05, momentum: 0.9}",
                                         "{kind: adam, lr: 0.01}"};
    static const char *const strategies[] = {"{kind: ps, replicate_every: 1}",
                                             "{kind: ps, servers: 2, replicate_every: 1}"};
    for (size_t o = 0; o < 3; o++)
        for (size_t s = 0; s < 2; s++) {
            struct cast calm, g;
            char *stage = text_of(STAGE("%s") "strategy: %s\nagents: 3\nnetwork: {patience_s: 0.05}\n",
                                  optims[o], strategies[s]);
            open_text(&calm, text_of("%s", stage), 24);
            open_text(&g, text_of("%sevents: [{at_s: 0.0213, crash: 3}]\n", stage), 24);
            free(stage);
            cast_play(&calm);
            cast_play(&g);
            char *words = text_of("agent 0 turns from member 3 to member %d", s ? 5 : 4);
            assert_true(cast_noted(&g, words));
            assert_true(cast_noted(&g, s ? "server 5 takes over" : "server 4 takes over"));
            free(words);
            assert_true(local_now_s(calm.world) == local_now_s(g.world));
            for (size_t i = 0; i < 3; i++)
                must_be_close(&calm, &g, i, 0);
            cast_close(&calm);
            cast_close(&g);
        }
}

static void a_standby_that_gets_every_rth_update_loses_fewer_than_r(void **state)
{
    (void)state;
    for (unsigned r = 1; r <= 6; r++) {
        struct cast g;
        open_text(&g,
                  text_of(STAGE(SGD) "strategy: {kind: ps, replicate_every: %u}\nagents: 3\n"
                                     "network: {patience_s: 0.05}\nevents: [{at_s: 0.0213, crash: 3}]\n",
                          r),
                  24);
        cast_play(&g);
        const struct ps_shared *s = g.run->stage.shared;
        assert_int_equal(24 - s->helpers[1].version, 10 % r); /* ten rounds were done when it died */
        must_be_equal(&g, (const size_t[]){0, 1, 2}, 3);
        cast_close(&g);
    }
}

static void a_server_that_is_back_follows_its_standby_and_takes_over_from_it(void **state)
{
    (void)state;
    struct cast calm, g;
    char *stage = text_of(STAGE(SGD) "strategy: {kind: ps, replicate_every: 1}\nagents: 3\n"
                                     "network: {patience_s: 0.05}\n");
    open_text(&calm, text_of("%s", stage), 30);
    open_text(
        &g,
        text_of("%sevents: [{at_s: 0.0113, crash: 3}, {at_s: 0.0213, return: 3}, {at_s: 0.0413, crash: 4}]\n",
                stage),
        30);
    free(stage);
    cast_play(&calm);
    cast_play(&g);
    assert_true(cast_noted(&g, "server 4 takes over"));
    assert_true(cast_noted(&g, "server 3 is back, and follows"));
    assert_true(cast_noted(&g, "server 3 takes over"));
    for (size_t i = 0; i < 3; i++)
        must_be_close(&calm, &g, i, 0);
    cast_close(&calm);
    cast_close(&g);
}

static fault no_end_in_sight(void *ctx)
{
    struct cast *g = ctx;
    return local_steps(g->world) < 20000 ? OK : FAIL(FAULT_USAGE, "this world goes on for ever");
}

/* By the next replica; and where none is sent any more, since somebody waits for those that ask the other. */
static void of_two_that_lead_after_a_partition_one_yields(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct cast g;
        open_text(&g,
                  text_of(STAGE(SGD) "strategy: {kind: ps, mode: %s, replicate_every: %d}\nagents: 4\n"
                                     "network: {patience_s: 0.02}\n"
                                     "events: [{at_s: 0.0213, partition: [[0, 1, 4], [2, 3, 5]]}, "
                                     "{at_s: 0.0613, heal: all}]\n",
                          i % 2 ? "sync" : "async", i < 2 ? 2 : 1000),
                  60);
        g.world->watcher.moment = no_end_in_sight;
        cast_play(&g);
        assert_true(cast_noted(&g, "server 5 takes over"));
        assert_true(cast_noted(&g, "server 4 follows the other of its pair"));
        for (size_t member = 0; member < 6; member++)
            assert_int_equal(life_of(&g, member), LIFE_DONE);
        must_be_equal(&g, (const size_t[]){0, 1, 2, 3}, 4);
        cast_close(&g);
    }
}

/* ---- nodes ---- */

static void the_children_of_a_dead_node_turn_to_the_servers(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        struct cast calm, g;
        char *stage = text_of(STAGE(SGD) "strategy: {kind: ps, tree: 2, servers: 2}\nagents: 6\n"
                                         "network: {patience_s: 0.05}\n");
        open_text(&calm, text_of("%s", stage), 20);
        open_text(&g,
                  text_of("%sevents: [{at_s: 0.0213, crash: 9}%s]\n", stage,
                          back ? ", {at_s: 0.03, return: 9}" : ""),
                  20);
        free(stage);
        cast_play(&calm);
        cast_play(&g);
        assert_true(cast_noted(&g, "agent 2 turns from member 9 to member 6"));
        assert_true(cast_noted(&g, "agent 3 turns from member 9 to member 6"));
        must_be_equal(&g, (const size_t[]){0, 1, 2, 3, 4, 5}, 6);
        for (size_t i = 0; i < g.run->stage.n_members; i++)
            assert_true(life_of(&g, i) == LIFE_DONE || (i == 9 && !back));
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(g.run->agents[i].k, 20);
        must_be_close(&calm, &g, 0, 0.05); /* a gradient or two may be missing */
        cast_close(&calm);
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_worker_is_named_and_done_without),
        cmocka_unit_test(a_worker_that_is_back_pulls_and_goes_on),
        cmocka_unit_test(a_worker_too_slow_for_patience_is_done_without_until_it_comes),
        cmocka_unit_test(a_worker_that_is_cut_off_ends_alone),
        cmocka_unit_test(a_dead_server_without_a_standby_ends_the_run_with_its_name),
        cmocka_unit_test(a_server_that_is_back_in_time_goes_on_to_the_bit),
        cmocka_unit_test(a_standby_takes_over_to_the_bit),
        cmocka_unit_test(a_standby_that_gets_every_rth_update_loses_fewer_than_r),
        cmocka_unit_test(a_server_that_is_back_follows_its_standby_and_takes_over_from_it),
        cmocka_unit_test(of_two_that_lead_after_a_partition_one_yields),
        cmocka_unit_test(the_children_of_a_dead_node_turn_to_the_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
