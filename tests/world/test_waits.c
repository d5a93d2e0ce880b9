/* Who waited for whom, against schedules worked out by hand (see test_clock.c): a lesson takes a millisecond
 * on a machine of speed 1, a row of 136 bytes travels in one at 1.088 megabits a second. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"

#define ROW_IN_1MS "bandwidth_mbps: 1.088"
#define PAIR       TINY("consensus") "agents: 2\ntopology: path:2\n"

static void must_be_waited_for(const struct cast *g, size_t member, double ms)
{
    double is = 1e3 * local_waits(g->world)->for_agents[member];
    if (fabs(is - ms) > 1e-9)
        fail_msg("member %zu was waited for %.9g ms and not %.9g ms", member, is, ms);
}

static void must_have_waited(const struct cast *g, size_t agent, double ms)
{
    double is = 1e3 * local_counts(g->world, agent).waiting_s;
    if (fabs(is - ms) > 1e-9)
        fail_msg("agent %zu waited %.9g ms and not %.9g ms", agent, is, ms);
}

static void must_be_longest_for(const struct cast *g, size_t member, size_t agent, double ms)
{
    size_t who = 99;
    double seconds = 0;
    assert_true(waits_longest_for(local_waits(g->world), member, &who, &seconds));
    assert_int_equal(who, agent);
    assert_true(fabs(1e3 * seconds - ms) < 1e-9);
}

static void must_be_slowest_link(const struct cast *g, size_t a, size_t b, double ms)
{
    size_t ends[2] = {99, 99};
    double seconds = 0;
    assert_true(waits_slowest_link(local_waits(g->world), ends, &seconds));
    assert_true(ends[0] == a && ends[1] == b);
    assert_true(fabs(1e3 * seconds - ms) < 1e-9);
}

static void play(struct cast *g, const char *text, int rounds)
{
    cast_open(g, text, rounds);
    cast_play(g);
}

static void nobody_waits_without_reason(void **state)
{
    (void)state;
    struct cast g;
    size_t ends[2];
    double seconds;
    play(&g, PAIR, 5);
    must_be_waited_for(&g, 0, 0);
    must_be_waited_for(&g, 1, 0);
    assert_false(waits_longest_for(local_waits(g.world), 1, ends, &seconds));
    assert_false(waits_slowest_link(local_waits(g.world), ends, &seconds));
    struct waiting w = session_waiting(g.run, true);
    assert_true(w.most == NO_MEMBER && w.slowest == NO_MEMBER && w.longest == NO_MEMBER &&
                w.link[0] == NO_MEMBER);
    cast_close(&g);
}

static void a_slow_machine_is_waited_for(void **state)
{
    (void)state;
    struct cast g;
    /* agent 0 learns    0-1        6-7     10-11        its rows arrive 3,  9, 13
     * agent 1 learns    0---4   4---8   9---13          its rows arrive 6, 10, 15 */
    play(&g, PAIR "machines: {speed: [1, 0.25]}\nnetwork: {latency_ms: 2}\n", 3);
    must_be_waited_for(&g, 1, 5 + 3 + 4);
    must_be_waited_for(&g, 0, 1);
    must_be_longest_for(&g, 1, 0, 12);
    must_be_longest_for(&g, 0, 1, 1);
    must_be_slowest_link(&g, 0, 1, 13);
    struct waiting w = session_waiting(g.run, true);
    assert_int_equal(w.most, 1);
    assert_int_equal(w.slowest, 1);
    assert_int_equal(w.longest, 0);
    cast_close(&g);
}

static void a_hub_is_waited_for_by_all_and_waits_for_one_after_the_other(void **state)
{
    (void)state;
    struct cast g;
    /* all learn until 1. The row of leaf i is through the hub's card at i + 1 and there at i + 3, so is the
     * hub's row at leaf i: the hub waits 3 for leaf 1 and 1 more for each other, leaf i waits i + 2 for the
     * hub */
    play(&g, TINY("consensus") "agents: 9\ntopology: star:9\nnetwork: {latency_ms: 2, " ROW_IN_1MS "}\n", 1);
    must_be_waited_for(&g, 0, 8 * 2 + 36);
    must_be_waited_for(&g, 1, 3);
    for (size_t i = 2; i < 9; i++)
        must_be_waited_for(&g, i, 1);
    must_be_longest_for(&g, 0, 8, 10);
    must_be_slowest_link(&g, 0, 8, 10 + 1);
    cast_close(&g);
}

static void a_long_wire_is_the_slowest_link(void **state)
{
    (void)state;
    struct cast g;
    /* agent 1 has agent 0's row after 1 and waits 6 more for agent 2 */
    play(&g,
         TINY("consensus") "agents: 3\ntopology: path:3\nnetwork: {latency_ms: 1, links: "
                           "[{between: [2, 1], latency_ms: 7}]}\n",
         1);
    must_be_waited_for(&g, 0, 1);
    must_be_waited_for(&g, 1, 1 + 7);
    must_be_waited_for(&g, 2, 6);
    must_be_slowest_link(&g, 1, 2, 13);
    cast_close(&g);
}

static void a_mean_of_two_is_waited_for_by_the_one_that_asked(void **state)
{
    (void)state;
    struct cast g;
    /* there and back at once, 1 through the cards and 2 under way, in each of the two rounds */
    play(&g, TINY("adpsgd") "agents: 2\ntopology: path:2\nnetwork: {latency_ms: 2, " ROW_IN_1MS "}\n", 1);
    double both = local_waits(g.world)->for_agents[0] + local_waits(g.world)->for_agents[1];
    assert_true(fabs(both - cast_counts(&g).waiting_s) < 1e-12 && both >= 2 * 3e-3);
    cast_close(&g);
}

/* ---- a wait for anyone ---- */

static fault collect(struct agent *a)
{
    struct link *l = a->link;
    char byte = 1;
    if (l->self) {
        TRY(link_sleep(l, 1e-3 * (double)(2 * l->self + 1)));
        return link_send(l, 0, 7, &byte, 1);
    }
    for (int i = 0; i < 2; i++)
        TRY(link_recv(l, ANYONE, 7, &byte, 1, NULL));
    TRY(link_sleep(l, 9e-3)); /* the third is in the mail by then */
    return link_recv(l, ANYONE, 7, &byte, 1, NULL);
}

static void a_wait_for_anyone_counts_for_whoever_came(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, TINY("consensus") "agents: 4\ntopology: star:4\n", 1);
    cast_run_instead(&g, collect);
    cast_play(&g);
    must_have_waited(&g, 0, 5);
    must_be_waited_for(&g, 1, 3);
    must_be_waited_for(&g, 2, 2);
    must_be_waited_for(&g, 3, 0);
    cast_close(&g);
}

static fault wait_in_vain(struct agent *a)
{
    struct link *l = a->link;
    char byte;
    if (l->self)
        return link_sleep(l, 1);
    fault f = link_recv(l, ANYONE, 7, &byte, 1, NULL);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    fault_drop(f);
    f = link_recv(l, 1, 7, &byte, 1, NULL);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    fault_drop(f);
    return OK;
}

static void patience_is_spent_on_the_silent_one_and_on_nobody_where_anyone_would_do(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, TINY("consensus") "agents: 3\ntopology: star:3\nnetwork: {patience_s: 0.01}\n", 1);
    cast_run_instead(&g, wait_in_vain);
    cast_play(&g);
    must_have_waited(&g, 0, 20);
    must_be_waited_for(&g, 1, 10);
    must_be_waited_for(&g, 2, 0);
    cast_close(&g);
}

/* ---- those that help ---- */

static fault ask_server(struct agent *a)
{
    struct link *l = a->link;
    char byte = 1;
    size_t from[2];
    if (!agent_helps(a)) {
        TRY(link_sleep(l, 1e-3 * (double)(2 * l->self + 3)));
        TRY(link_send(l, 2, 7, &byte, 1));
        return link_recv(l, 2, 8, &byte, 1, NULL);
    }
    for (int i = 0; i < 2; i++)
        TRY(link_recv(l, ANYONE, 7, &byte, 1, &from[i]));
    for (int i = 0; i < 2; i++)
        TRY(link_send(l, from[i], 8, &byte, 1));
    return OK;
}

static void what_a_server_waits_is_held_against_nobody_but_told(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, TINY("consensus") "agents: 3\ntopology: star:3\n", 1);
    cast_run_instead(&g, ask_server);
    g.run->stage.n_agents = g.world->waits.n_agents = 2; /* the third helps */
    cast_play(&g);
    /* agent 0 asks at 3 and agent 1 at 5, when both are answered */
    must_have_waited(&g, 0, 2);
    must_have_waited(&g, 1, 0);
    must_have_waited(&g, 2, 5);
    must_be_waited_for(&g, 0, 0);
    must_be_waited_for(&g, 1, 0);
    must_be_waited_for(&g, 2, 2);
    must_be_longest_for(&g, 2, 0, 2);
    must_be_slowest_link(&g, 0, 2, 2);
    const double *by_server = local_waits(g.world)->for_helpers;
    assert_true(fabs(by_server[0] - 3e-3) < 1e-12 && fabs(by_server[1] - 2e-3) < 1e-12 && by_server[2] == 0);
    g.run->stage.n_agents = 3;
    cast_close(&g);
}

/* ---- laws ---- */

/* Every agent names whom it waits for here, so what is waited is what is waited for. */
static void all_waiting_is_for_somebody(void **state)
{
    (void)state;
    static const char *const strategies[] = {"consensus", "gossip", "adpsgd"};
    for (size_t i = 0; i < 3; i++)
        for (unsigned seed = 1; seed <= 20; seed++) {
            struct cast g;
            char *text =
                text_of(TINY("%s") "agents: 9\ntopology: random:9:0.5\nmachines: {speed: {kind: lognormal, "
                                   "sigma: 1}, stragglers: {kind: random, chance: 0.1, factor: 5}}\n"
                                   "network: {latency_ms: 1, bandwidth_mbps: 1, patience_s: 0.02}\n"
                                   "events: [{random: {crash_every_s: 0.05, down_s: 0.01}}]\n",
                        strategies[i]);
            must(cast_try(&g, text, 20, seed));
            fault f = cast_go(&g);
            fault_drop(f); /* all may be down */
            double sum = 0;
            for (size_t k = 0; k < g.n; k++)
                sum += local_waits(g.world)->for_agents[k];
            double waiting = cast_counts(&g).waiting_s;
            assert_true(fabs(sum - waiting) <= 1e-9 * (1 + waiting));
            cast_close(&g);
            free(text);
        }
}

#define CYCLE(n)                                                                                             \
    "data: {set: {kind: blobs, classes: 2, features: 16, samples: 3000, test_samples: 10}, batch: 1}\n"      \
    "model: logistic\noptim: {kind: sgd, lr: 0.1}\nengine: {kind: ref, threads: 1}\nstrategy: consensus\n"   \
    "machines: {stragglers: {kind: fixed, agents: [5], factor: 7}}\n"                                        \
    "agents: " #n "\ntopology: {graph: cycle:" #n ", weights: uniform}\n"

static void pairs_are_not_kept_for_more_than_1024(void **state)
{
    (void)state;
    static const char *const texts[] = {CYCLE(1024), CYCLE(1025)};
    for (size_t i = 0; i < 2; i++) {
        struct cast g;
        size_t ends[2];
        double seconds;
        play(&g, texts[i], 1);
        must_be_waited_for(&g, 5, 2 * 6);
        assert_true(waits_slowest_link(local_waits(g.world), ends, &seconds) == (i == 0));
        assert_true(waits_longest_for(local_waits(g.world), 5, ends, &seconds) == (i == 0));
        assert_int_equal(session_waiting(g.run, true).slowest, 5);
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_without_reason),
        cmocka_unit_test(a_slow_machine_is_waited_for),
        cmocka_unit_test(a_hub_is_waited_for_by_all_and_waits_for_one_after_the_other),
        cmocka_unit_test(a_long_wire_is_the_slowest_link),
        cmocka_unit_test(a_mean_of_two_is_waited_for_by_the_one_that_asked),
        cmocka_unit_test(a_wait_for_anyone_counts_for_whoever_came),
        cmocka_unit_test(patience_is_spent_on_the_silent_one_and_on_nobody_where_anyone_would_do),
        cmocka_unit_test(what_a_server_waits_is_held_against_nobody_but_told),
        cmocka_unit_test(all_waiting_is_for_somebody),
        cmocka_unit_test(pairs_are_not_kept_for_more_than_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
