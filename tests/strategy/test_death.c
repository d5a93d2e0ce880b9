/* Machines that go down, links that are cut, and who goes on with whom. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"

static void open_quiet(struct cast *g, const char *text, int rounds)
{
    cast_open(g, text, rounds);
    cast_scatter(g, 11);
    cast_keep_from_learning(g);
}

/* The mean of some agents' rows, [size]. */
static void mean_over(struct cast *g, const size_t *who, size_t n, double *mean)
{
    for (size_t j = 0; j < g->size; j++)
        mean[j] = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = cast_row(g, who[i]);
        for (size_t j = 0; j < g->size; j++)
            mean[j] += row[j] / (double)n;
    }
}

static bool are_close(struct cast *g, size_t agent, const double *row, double by)
{
    const float *mine = cast_row(g, agent);
    for (size_t j = 0; j < g->size; j++)
        if (fabs(mine[j] - row[j]) > by)
            return false;
    return true;
}

/* ---- consensus ---- */

static void the_living_agree_on_their_own_mean_under_consensus(void **state)
{
    (void)state;
    static const char *const weights[] = {"uniform", "metropolis", "best-constant", "fastest"};
    static const char *const orders[] = {"adapt-then-combine", "combine-then-adapt"};
    static const size_t living[] = {0, 1, 2, 4, 5};
    for (size_t w = 0; w < 8; w++) {
        struct cast g;
        char *text = text_of(TINY("{kind: consensus, order: %s}") //
                             "agents: 6\ntopology: {graph: \"chords:6:1\", weights: %s}\n"
                             "events: [{at_s: 0.0005, crash: 3}]\n",
                             orders[w / 4], weights[w % 4]);
        open_quiet(&g, text, 200);
        double mean[64];
        mean_over(&g, living, 5, mean);
        cast_play(&g);
        for (size_t i = 0; i < 5; i++)
            assert_true(are_close(&g, living[i], mean, 2e-4));
        assert_true(cast_noted(&g, "crash: agent 3 is down"));
        assert_int_equal(g.world->actors[3].life, LIFE_DOWN);
        free(text);
        cast_close(&g);
    }
}

static void weights_sum_to_one_whoever_is_missing(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(
        &g,
        TINY("consensus") "agents: 9\ntopology: {graph: \"torus:3x3\", weights: fastest}\n"
                          "network: {latency_ms: 1, patience_s: 0.004}\n"
                          "machines: {stragglers: {kind: random, chance: 0.2, factor: 20}}\n"
                          "events:\n  - random: {crash_every_s: 0.05, down_s: 0.02, cut_every_s: 0.05, "
                          "cut_s: 0.03}\n",
        60);
    float ones[64];
    for (size_t j = 0; j < g.size; j++)
        ones[j] = 1.5f;
    for (size_t i = 0; i < g.n; i++)
        cast_write(&g, i, ones);
    cast_play(&g);
    assert_true(g.n_notes > 50);
    for (size_t i = 0; i < g.n; i++)
        for (size_t j = 0; j < g.size; j++)
            assert_true(fabsf(cast_row(&g, i)[j] - 1.5f) < 1e-4f);
    cast_close(&g);
}

static void who_waits_for_the_dead_hears_of_it_at_once(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g,
               TINY("consensus") "agents: 3\ntopology: cycle:3\nmachines: {speed: [1, 1, 0.1]}\n"
                                 "events: [{at_s: 0.004, crash: 2}]\n",
               2);
    cast_play(&g);
    assert_true(cast_noted(&g, "0.004000 2 crash: agent 2 is down"));
    assert_true(cast_noted(&g, "0.004000 0 without: agent 0 goes on without agent 2 in round 0"));
    assert_true(cast_noted(&g, "0.004000 1 without: agent 1 goes on without agent 2 in round 0"));
    assert_true(fabs(local_now_s(g.world) - 5e-3) < 1e-12);
    cast_close(&g);
}

/* ---- a death is noticed after network.notice_s ---- */

static const char late_notice[] =
    TINY("consensus") "agents: 3\ntopology: complete:3\nnetwork: {notice_s: 0.01}\n"
                      "events: [{at_s: 0.0025, crash: 1}]\n";

/* Agent 1 dies at 2.5; agents 0 and 2 learn from 2 to 3 and wait in round 2 until they know. */
static void nobody_goes_on_without_the_dead_before_its_death_is_noticed(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g, late_notice, 5);
    cast_play(&g);
    assert_true(cast_noted(&g, "0.002500 1 crash: agent 1 is down"));
    assert_true(cast_noted(&g, "0.012500 0 without: agent 0 goes on without agent 1 in round 2"));
    assert_true(cast_noted(&g, "0.012500 2 without: agent 2 goes on without agent 1 in round 2"));
    assert_true(fabs(local_now_s(g.world) - 14.5e-3) < 1e-12);
    assert_true(fabs(local_counts(g.world, 0).waiting_s - 9.5e-3) < 1e-12);
    cast_close(&g);
}

static fault ask_of_the_dead(struct agent *a)
{
    struct cast *g = cast_of_agent(a);
    uint64_t number = a->index;
    if (a->index == 1)
        return link_sleep(a->link, 1);
    TRY(link_sleep(a->link,
                   a->index ? 0.005 : 0.012)); /* the one waits from 5 on, the other looks at 12 and 13 */
    assert_false(local_is_alive(g->world, 1));
    assert_true(link_can_reach(a->link, 1) && link_takes_part(a->link, 1, 0));
    must(link_send(a->link, 1, 0, &number, sizeof number)); /* and it is lost */
    assert_int_equal(a->link->counts.lost, 1);
    if (a->index == 2) {
        must_fail(link_average(a->link, 1, ROWS_PARAMS), "agent 1 is down");
        assert_true(fabs(link_now_s(a->link) - 0.0125) < 1e-12);
        assert_int_equal(a->link->counts.lost, 2);
    } else {
        TRY(link_sleep(a->link, 0.001));
    }
    assert_false(link_can_reach(a->link, 1) || link_takes_part(a->link, 1, 0));
    must_fail(link_send(a->link, 1, 0, &number, sizeof number), "agent 1 cannot be reached");
    must_fail(link_recv(a->link, 1, 0, &number, sizeof number, NULL), "agent 1 cannot be reached");
    return OK;
}

static void before_a_death_is_noticed_nothing_is_known_and_then_everything(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g, late_notice, 1);
    cast_run_instead(&g, ask_of_the_dead);
    cast_play(&g);
    cast_close(&g);
}

/* Back at 4, before its death would have been noticed, agent 1 says so itself. */
static void a_return_tells_of_the_death(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g,
               TINY("consensus") "agents: 2\ntopology: path:2\nnetwork: {notice_s: 0.01}\n"
                                 "events: [{at_s: 0.0025, crash: 1}, {at_s: 0.004, return: 1}]\n",
               6);
    cast_play(&g);
    assert_true(cast_noted(&g, "0.004000 0 without: agent 0 goes on without agent 1 in round 2"));
    assert_true(cast_noted(&g, "0.004000 1 return: agent 1 is back with the parameters of agent 0"));
    assert_true(fabs(local_now_s(g.world) - 7e-3) < 1e-12); /* rounds 3, 4 and 5 together */
    cast_close(&g);
    /* and patience may end before */
    open_quiet(&g,
               TINY("consensus") "agents: 2\ntopology: path:2\nnetwork: {notice_s: 0.01, patience_s: 0.004}\n"
                                 "events: [{at_s: 0.0025, crash: 1}]\n",
               3);
    cast_play(&g);
    assert_true(
        cast_noted(&g, "0.007000 0 without: agent 0 goes on without agent 1 in round 2: agent 0 waited"));
    cast_close(&g);
}

/* ---- gossip ---- */

static void gossip_finds_another_partner(void **state)
{
    (void)state;
    struct cast g;
    /* everyone swaps in round 0 until 3; agent 1 dies while its partners wait for it */
    open_quiet(&g,
               TINY("{kind: gossip, pairs: 30}") "agents: 4\ntopology: complete:4\n"
                                                 "network: {latency_ms: 2}\n"
                                                 "events: [{at_s: 0.004, crash: 1}]\n",
               10);
    double mean[64];
    static const size_t living[] = {0, 2, 3};
    cast_play(&g);
    assert_true(cast_noted(&g, "partner: agent"));
    assert_true(cast_noted(&g, "instead of agent 1, which is gone"));
    mean_over(&g, living, 3, mean);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(g.world->actors[living[i]].life, LIFE_DONE);
        assert_true(are_close(&g, living[i], mean, 1e-4));
    }
    cast_close(&g);
}

/* ---- adpsgd ---- */

static void adpsgd_finds_another_partner(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g,
               TINY("adpsgd") "agents: 4\ntopology: complete:4\nnetwork: {latency_ms: 0.5}\n"
                              "events: [{at_s: 0.0012, crash: 1}]\n",
               60);
    double before[64], after[64];
    static const size_t living[] = {0, 2, 3};
    cast_play(&g);
    assert_true(cast_noted(&g, "goes on without agent 1 in round"));
    mean_over(&g, living, 3, after);
    for (size_t i = 0; i < 3; i++)
        assert_true(are_close(&g, living[i], after, 1e-3));
    cast_close(&g);

    /* dead from the beginning: the living keep exactly their own mean */
    open_quiet(&g, TINY("adpsgd") "agents: 4\ntopology: complete:4\nevents: [{at_s: 0, crash: 1}]\n", 60);
    mean_over(&g, living, 3, before);
    cast_play(&g);
    mean_over(&g, living, 3, after);
    for (size_t j = 0; j < g.size; j++)
        assert_true(fabs(before[j] - after[j]) < 1e-5);
    cast_close(&g);
}

static void the_rounds_of_the_dead_are_done_by_the_living_under_adpsgd(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g, TINY("adpsgd") "agents: 4\ntopology: cycle:4\nevents: [{at_s: 0.0105, crash: 2}]\n", 30);
    cast_play(&g);
    assert_int_equal(session_totals(g.run).begun, 120);
    assert_int_equal(session_totals(g.run).ended, 119); /* but for the one it died in */
    cast_close(&g);
}

/* ---- returning ---- */

static const char *const strategies[] = {"consensus", "{kind: consensus, order: combine-then-adapt}",
                                         "gossip", "adpsgd"};

static void a_returning_agent_has_its_neighbours_parameters(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4; s++) {
        struct cast g;
        char *text = text_of(TINY("%s") "agents: 3\ntopology: path:3\n"
                                        "events: [{at_s: 0.0015, crash: 0}, {at_s: 0.0195, return: 0}]\n",
                             strategies[s]);
        cast_open(&g, text, 20);
        free(text);
        cast_scatter(&g, 5);
        cast_keep_from_learning(&g);
        cast_play(&g);
        assert_true(cast_noted(&g, "return: agent 0 is back with the parameters of agent 1"));
        assert_int_equal(g.world->actors[0].life, LIFE_DONE);
        /* the others had agreed meanwhile, so all three are equal now */
        for (size_t j = 0; j < g.size; j++)
            assert_true(fabsf(cast_row(&g, 0)[j] - cast_row(&g, 1)[j]) < 1e-3f);
        if (s != 3)
            assert_int_equal(g.run->agents[0].k, 20);
        cast_close(&g);
    }
}

static void a_return_takes_the_time_of_the_rows(void **state)
{
    (void)state;
    struct cast g;
    /* back at 5.5, and with its parameters and momentum, 1 ms of the wire each, and 2 ms of latency at 9.5.
     * Its neighbour was in round 5 then: they mix from round 6 on, which nobody had begun */
    open_quiet(&g,
               TINY("consensus") "agents: 2\ntopology: path:2\n"
                                 "network: {latency_ms: 2, bandwidth_mbps: 1.088}\n"
                                 "events: [{at_s: 0.0005, crash: 0}, {at_s: 0.0055, return: 0}]\n",
               12);
    cast_play(&g);
    assert_true(cast_noted(&g, "0.009500 0 return: agent 0 is back with the parameters of agent 1"));
    assert_int_equal(g.run->agents[0].k, 12);
    assert_int_equal(g.run->agents[1].k, 12);
    /* rounds 6 to 11 are mixed, two rows each, and one was adopted */
    assert_int_equal(cast_counts(&g).messages, 2 * 6 + 1);
    cast_close(&g);
}

static void a_returning_agent_without_neighbours_keeps_its_own(void **state)
{
    (void)state;
    struct cast g;
    float mine[64];
    open_quiet(&g,
               TINY("consensus") "agents: 2\ntopology: path:2\n"
                                 "events: [{at_s: 0.0001, cut: [0, 1]}, {at_s: 0.0005, crash: 0}, {at_s: "
                                 "0.0025, return: 0}]\n",
               6);
    memcpy(mine, cast_row(&g, 0), g.size * sizeof(float));
    cast_play(&g);
    assert_true(cast_noted(&g, "return: an agent is back with its old parameters"));
    assert_memory_equal(mine, cast_row(&g, 0), g.size * sizeof(float));
    assert_int_equal(g.world->actors[0].life, LIFE_DONE);
    cast_close(&g);
}

/* ---- everybody ---- */

static void all_dead_is_one_sentence(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4; s++) {
        struct cast g;
        char *text = text_of(TINY("%s") "agents: 3\ntopology: cycle:3\n"
                                        "events: [{at_s: 0.002, crash: [0, 1]}, {at_s: 0.003, crash: 2}]\n",
                             strategies[s]);
        cast_open(&g, text, 10);
        free(text);
        must_fail(cast_go(&g), "all 3 agents are down, and none came to its end");
        cast_close(&g);
    }
}

static void all_dead_for_a_while_is_not_the_end(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4; s++) {
        struct cast g;
        char *text =
            text_of(TINY("%s") "agents: 3\ntopology: cycle:3\n"
                               "events: [{at_s: 0.002, crash: [0, 1, 2]}, {at_s: 0.03, return: 1}]\n",
                    strategies[s]);
        cast_open(&g, text, 10);
        free(text);
        cast_play(&g);
        assert_int_equal(g.world->actors[0].life, LIFE_DOWN);
        assert_int_equal(g.world->actors[1].life, LIFE_DONE);
        assert_true(local_now_s(g.world) > 0.03);
        cast_close(&g);
    }
}

static void chance_does_not_raise_whom_the_script_took_down(void **state)
{
    (void)state;
    struct cast g;
    open_quiet(&g,
               TINY("adpsgd") "agents: 4\ntopology: complete:4\nevents:\n  - {at_s: 0, crash: 2}\n"
                              "  - random: {crash_every_s: 0.01, down_s: 0.002}\n",
               100);
    cast_play(&g);
    assert_int_equal(g.world->actors[2].life, LIFE_DOWN);
    assert_false(cast_noted(&g, "agent 2 is back"));
    assert_true(cast_noted(&g, "is back with the parameters of"));
    cast_close(&g);
}

static void agents_that_go_down_together_say_nothing_more(void **state)
{
    (void)state;
    struct cast g;
    /* agent 1 waits for agent 0 when both go down */
    open_quiet(&g,
               TINY("consensus") "agents: 3\ntopology: path:3\nmachines: {speed: [0.1, 1, 1]}\n"
                                 "events: [{at_s: 0.005, crash: [0, 1]}]\n",
               1);
    cast_play(&g);
    assert_false(cast_noted(&g, "agent 1 goes on"));
    assert_int_equal(g.world->actors[1].life, LIFE_DOWN);
    cast_close(&g);
}

static void patience_at_its_end_is_noted_and_the_run_goes_on(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4; s++) {
        struct cast g;
        char *text = text_of(TINY("%s") "agents: 2\ntopology: path:2\nmachines: {speed: [1, 0.02]}\n"
                                        "network: {latency_ms: 8, patience_s: 0.005}\n",
                             strategies[s]);
        cast_open(&g, text, 5);
        free(text);
        cast_play(&g);
        if (s == 2)
            assert_true(cast_noted(&g, "has no neighbour to average with instead of agent"));
        else
            assert_true(cast_noted(&g, "waited 0.005 s for agent"));
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(g.world->actors[i].life, LIFE_DONE);
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_living_agree_on_their_own_mean_under_consensus),
        cmocka_unit_test(weights_sum_to_one_whoever_is_missing),
        cmocka_unit_test(who_waits_for_the_dead_hears_of_it_at_once),
        cmocka_unit_test(nobody_goes_on_without_the_dead_before_its_death_is_noticed),
        cmocka_unit_test(before_a_death_is_noticed_nothing_is_known_and_then_everything),
        cmocka_unit_test(a_return_tells_of_the_death),
        cmocka_unit_test(gossip_finds_another_partner),
        cmocka_unit_test(adpsgd_finds_another_partner),
        cmocka_unit_test(the_rounds_of_the_dead_are_done_by_the_living_under_adpsgd),
        cmocka_unit_test(a_returning_agent_has_its_neighbours_parameters),
        cmocka_unit_test(a_return_takes_the_time_of_the_rows),
        cmocka_unit_test(a_returning_agent_without_neighbours_keeps_its_own),
        cmocka_unit_test(all_dead_is_one_sentence),
        cmocka_unit_test(all_dead_for_a_while_is_not_the_end),
        cmocka_unit_test(chance_does_not_raise_whom_the_script_took_down),
        cmocka_unit_test(agents_that_go_down_together_say_nothing_more),
        cmocka_unit_test(patience_at_its_end_is_noted_and_the_run_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
