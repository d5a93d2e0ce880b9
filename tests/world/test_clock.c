/* Virtual time against schedules worked out by hand. A lesson of one sample takes a millisecond on a machine
 * of speed 1; a row is 34 floats, 136 bytes, which 1.088 megabits a second carry in a millisecond. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "experiment/machines.h"
#include "support/cast.h"

#define ROW_IN_1MS "bandwidth_mbps: 1.088"

static void must_end_at(struct cast *g, double ms)
{
    double is = 1e3 * local_now_s(g->world);
    if (fabs(is - ms) > 1e-9)
        fail_msg("the end is at %.9g ms and not at %.9g ms", is, ms);
}

static void must_wait(const struct cast *g, size_t agent, double ms)
{
    double is = 1e3 * local_counts(g->world, agent).waiting_s;
    if (fabs(is - ms) > 1e-9)
        fail_msg("agent %zu waited %.9g ms and not %.9g ms", agent, is, ms);
}

static void play_for(struct cast *g, const char *text, int rounds, double ms)
{
    cast_open(g, text, rounds);
    cast_play(g);
    must_end_at(g, ms);
}

#define PAIR(strategy) TINY(strategy) "agents: 2\ntopology: path:2\n"

static void lessons_alone_take_their_time(void **state)
{
    (void)state;
    struct cast g;
    play_for(&g, TINY("single"), 7, 7);
    cast_close(&g);
    play_for(&g, TINY("single") "machines: {rate: 250, speed: 2}\n", 7, 7 * 2);
    cast_close(&g);
    play_for(&g, PAIR("consensus"), 5, 5); /* without a network nothing else does */
    must_wait(&g, 0, 0);
    cast_close(&g);
}

static void two_agents_over_one_link(void **state)
{
    (void)state;
    struct cast g;
    /* a round: 1 to learn, 1 to send, 3 under way */
    play_for(&g, PAIR("consensus") "network: {latency_ms: 3, " ROW_IN_1MS "}\n", 4, 4 * 5);
    must_wait(&g, 0, 4 * 4);
    must_wait(&g, 1, 4 * 4);
    cast_close(&g);
    /* only every second round is mixed: the second and the fourth */
    play_for(&g, PAIR("{kind: consensus, every: 2}") "network: {latency_ms: 3, " ROW_IN_1MS "}\n", 5,
             5 + 2 * 4);
    cast_close(&g);
    /* what is sent first travels while one learns */
    play_for(
        &g, PAIR("{kind: consensus, order: combine-then-adapt}") "network: {latency_ms: 3, " ROW_IN_1MS "}\n",
        4, 4 * 4);
    must_wait(&g, 0, 4 * 3);
    cast_close(&g);
    play_for(&g, PAIR("{kind: gossip, pairs: 1}") "network: {latency_ms: 3, " ROW_IN_1MS "}\n", 4, 4 * 5);
    cast_close(&g);
    /* without a limit of bandwidth only the latency counts */
    play_for(&g, PAIR("consensus") "network: {latency_ms: 3}\n", 4, 4 * 4);
    cast_close(&g);
}

static void a_slow_machine_keeps_the_other_waiting(void **state)
{
    (void)state;
    struct cast g;
    /* agent 0 learns    0-1        6-7     10-11        its rows arrive 3,  9, 13
     * agent 1 learns    0---4   4---8   9---13          its rows arrive 6, 10, 15 */
    play_for(&g, PAIR("consensus") "machines: {speed: [1, 0.25]}\nnetwork: {latency_ms: 2}\n", 3, 15);
    must_wait(&g, 0, 5 + 3 + 4);
    must_wait(&g, 1, 0 + 1 + 0);
    cast_close(&g);
}

static void fixed_stragglers_are_late_in_every_lesson(void **state)
{
    (void)state;
    struct cast g;
    play_for(&g, PAIR("consensus") "machines: {stragglers: {kind: fixed, agents: [1], factor: 7}}\n", 3, 21);
    must_wait(&g, 0, 3 * 6);
    cast_close(&g);
}

static void who_learns_more_rarely_is_waited_for_more_rarely(void **state)
{
    (void)state;
    struct cast g;
    /* agent 1 takes 4 ms a lesson, in the fourth and the eighth round of ten, and waits in the other eight */
    play_for(&g, PAIR("{kind: consensus, learn_every: [1, 4]}") "machines: {speed: [1, 0.25]}\n", 10,
             2 * 4 + 8 * 1);
    must_wait(&g, 0, 2 * 3);
    must_wait(&g, 1, 8 * 1);
    cast_close(&g);
    /* mixing in every third round only, agent 1 learns between: 3 lessons of 2 ms in 6; one more after the last */
    play_for(&g, PAIR("{kind: consensus, mix_every: 3}") "machines: {speed: [1, 0.5]}\n", 10, 20);
    must_wait(&g, 0, 3 * 3);
    cast_close(&g);
}

static void a_star_of_eight_queues_at_one_card(void **state)
{
    (void)state;
    struct cast g;
    const char *text =
        TINY("consensus") "agents: 9\ntopology: star:9\nnetwork: {latency_ms: 2, " ROW_IN_1MS "}\n";
    /* all learn until 1; eight rows go one after the other through the hub's card, each way at once: the last
     * is through at 9 and there at 11 */
    play_for(&g, text, 1, 11);
    must_wait(&g, 0, 10);
    for (size_t i = 1; i < 9; i++)
        must_wait(&g, i, (double)i + 2);
    cast_close(&g);
    /* leaf i has the hub's row at i+3 and sends the next at i+4, through the hub's card from 9 on: the last,
     * of leaf 8, in [16,17]. The hub learns 11-12, sends to leaf i in [11+i,12+i], has everything at 19,
     * learns 19-20 and sends again to leaf i in [19+i,20+i]: leaf 8 has it at 30, after the hub has
     * everything (27) */
    play_for(&g, text, 3, 30);
    cast_close(&g);
}

static void a_card_serves_one_transfer_at_a_time_in_each_direction(void **state)
{
    (void)state;
    struct cast g;
    /* complete:3, all send to both others at 1. Cards in order of asking: 0->1 [1,2], 0->2 [2,3], 1->0 [1,2],
     * 1->2 [3,4] (2's card takes in until 3), 2->0 [2,3], 2->1 [3,4]: the last is there at 4 */
    play_for(&g, TINY("consensus") "agents: 3\ntopology: complete:3\nnetwork: {" ROW_IN_1MS "}\n", 1, 4);
    must_wait(&g, 0, 2);
    must_wait(&g, 1, 3);
    must_wait(&g, 2, 3);
    cast_close(&g);
}

static void every_link_has_its_own_wire(void **state)
{
    (void)state;
    struct cast g;
    play_for(&g,
             TINY("consensus") "agents: 3\ntopology: path:3\nnetwork: {latency_ms: 1, links: "
                               "[{between: [2, 1], latency_ms: 7}]}\n",
             1, 8);
    must_wait(&g, 0, 1);
    must_wait(&g, 1, 7);
    must_wait(&g, 2, 7);
    cast_close(&g);
}

static void sites_are_near_within_and_far_across(void **state)
{
    (void)state;
    struct cast g;
    play_for(
        &g,
        TINY("consensus") "agents: 4\ntopology: path:4\nnetwork: {latency_ms: 1, sites: [[0, 1], [2, 3]], "
                          "across: {latency_ms: 9, " ROW_IN_1MS "}}\n",
        1, 11);
    must_wait(&g, 0, 1);
    must_wait(&g, 1, 10);
    must_wait(&g, 2, 10);
    must_wait(&g, 3, 1);
    cast_close(&g);
}

static void a_partition_is_known_at_once_and_costs_no_patience(void **state)
{
    (void)state;
    struct cast g;
    /* from 2.5 on nothing passes between 1 and 2 of the path: the rest goes on by itself, 2 ms a round */
    play_for(&g,
             TINY("consensus") "agents: 4\ntopology: path:4\nnetwork: {latency_ms: 1, patience_s: 5}\n"
                               "events: [{at_s: 0.0025, partition: [[0, 1], [2, 3]]}]\n",
             6, 12);
    assert_true(cast_noted(&g, "partition: the network falls into parts"));
    cast_close(&g);
    /* in the middle of a wait: what was under way is lost, the wait ends with the cut at 1.5 */
    play_for(&g,
             TINY("consensus") "agents: 2\ntopology: path:2\nnetwork: {latency_ms: 1, patience_s: 5}\n"
                               "events: [{at_s: 0.0015, partition: [[0], [1]]}]\n",
             1, 1.5);
    assert_true(cast_noted(&g, "agent 0 goes on without agent 1 in round 0"));
    assert_true(cast_noted(&g, "agent 1 goes on without agent 0 in round 0"));
    assert_int_equal(cast_counts(&g).lost + (uint64_t)(g.world->agenda.n), 2);
    cast_close(&g);
}

static void a_healed_partition_mixes_again_from_the_next_round(void **state)
{
    (void)state;
    struct cast g;
    /* cut from 0.5 to 2.2: rounds 0 and 1 end at 1 and 2 unmixed, round 2 had begun when the link was mended;
     * round 3 is mixed */
    play_for(
        &g,
        PAIR("consensus") "network: {latency_ms: 1, patience_s: 5}\nevents: [{at_s: 0.0005, cut: [0, 1]}, "
                          "{at_s: 0.0022, mend: [0, 1]}]\n",
        4, 5);
    assert_int_equal(cast_counts(&g).messages, 2);
    cast_close(&g);
}

static void a_silent_machine_costs_patience_and_no_more(void **state)
{
    (void)state;
    struct cast g;
    /* agent 1 takes 100 ms a lesson, patience is 10: agent 0 does three rounds of 11 and is done */
    cast_open(&g,
              PAIR("consensus") "machines: {speed: [1, 0.01]}\nnetwork: {patience_s: 0.01, latency_ms: 1}\n",
              3);
    cast_play(&g);
    must_wait(&g, 0, 30);
    must_end_at(&g, 300); /* agent 1 finds agent 0's rows in its mail, in each of its rounds */
    must_wait(&g, 1, 0);
    assert_true(cast_noted(&g, "0.011000 0 without: agent 0 goes on without agent 1 in round 0: agent 0 "
                               "waited 0.01 s for agent 1 in vain"));
    cast_close(&g);
}

static void adpsgd_waits_for_its_wires_only(void **state)
{
    (void)state;
    struct cast g;
    /* both learn until 1 and ask for the other: 0->1 and 1->0 for agent 0 in [1,2], the same for agent 1 in
     * [2,3]; agent 0 goes on at 2, agent 1 at 3. Agent 0: lesson to 3, wires [3,4]; agent 1: lesson to 4,
     * wires [4,5]. */
    play_for(&g, PAIR("adpsgd") "network: {" ROW_IN_1MS "}\n", 2, 5);
    must_wait(&g, 0, 2);
    must_wait(&g, 1, 3);
    cast_close(&g);
}

/* ---- gradients that are there before their lesson is over ---- */

enum { LOWER_FLOATS = 16 * 4 + 4, WATCHED_ROUNDS = 3 };

/* When the gradients of the upper layer, of all, and of all of the next lesson are final. */
static fault watch_gradients(struct agent *a)
{
    double *final_s = cast_of_agent(a)->ctx;
    while (agent_goes_on(a)) {
        double began = link_now_s(a->link);
        TRY(agent_begin(a));
        TRY(agent_await(a, LOWER_FLOATS));
        final_s[2 * a->k] = link_now_s(a->link) - began;
        TRY(agent_await(a, 0));
        final_s[2 * a->k + 1] = link_now_s(a->link) - began;
        TRY(agent_update(a));
        TRY(agent_end_round(a));
    }
    return OK;
}

/* A sample takes 16 * 4 + 4 * 2 multiplications forward, twice 4 * 2 back through the upper layer, then 16 * 4 through the lower
 * one, whose input is the sample. A batch of 10 takes 10 ms; gradients are final in its last micro-batch only. */
static void gradients_are_early_by_their_part_of_the_last_micro_batch(void **state)
{
    (void)state;
    static const int last_of[] = {0, 10, 5, 3, 2, 2,
                                  1, 1,  1, 1, 1}; /* 10 samples in 1, 2, ... micro-batches */
    const double share = (72 + 16) / (double)(72 + 16 + 64);
    for (int m = 1; m <= 10; m++) {
        struct cast g;
        double final_s[2 * WATCHED_ROUNDS];
        char *text =
            text_of("data: {set: {kind: blobs, classes: 2, features: 16, samples: 60}, batch: 10}\n"
                    "model: [{linear: {out: 4}}, relu, {linear: {out: 2}}]\noptim: {kind: sgd, lr: 0.1}\n"
                    "engine: {kind: ref, threads: 1}\n"
                    "train: {epochs: 1, accumulate: %d, evaluate_every: never, checkpoint_every: never}\n",
                    m);
        cast_open(&g, text, WATCHED_ROUNDS);
        assert_int_equal(g.size, LOWER_FLOATS + 4 * 2 + 2);
        g.ctx = final_s;
        cast_run_instead(&g, watch_gradients);
        cast_play(&g);
        for (int k = 0; k < WATCHED_ROUNDS; k++) {
            assert_true(fabs(1e3 * final_s[2 * k] - (10 - last_of[m] + share * last_of[m])) < 1e-9);
            assert_true(fabs(1e3 * final_s[2 * k + 1] - 10) < 1e-9);
        }
        cast_close(&g);
        free(text);
    }
}

/* Two agents and a wire of a hundredth of a millisecond a float. The shorter the last micro-batch, the less of what gradients take
 * on the wire is hidden behind the lesson. */
static void buckets_hide_behind_the_last_micro_batch_only(void **state)
{
    (void)state;
    double last_s = 0;
    for (int m = 1; m <= 10; m++) {
        struct cast g;
        char *text = text_of(
            "data: {set: {kind: blobs, classes: 2, features: 16, samples: 60}, batch: 10}\n"
            "model: mlp:16-16-16\noptim: {kind: sgd, lr: 0.1}\nengine: {kind: ref, threads: 1}\nagents: 2\n"
            "strategy: {kind: allreduce, algorithm: all-to-all, bucket_kb: 0.5}\nnetwork: {bandwidth_mbps: "
            "3.2}\n"
            "train: {epochs: 1, accumulate: %d, evaluate_every: never, checkpoint_every: never}\n",
            m);
        cast_open(&g, text, 2);
        cast_play(&g);
        double seconds = local_now_s(g.world);
        double wire_s = (double)g.size * 1e-5;
        assert_true(seconds >= last_s && seconds > 2 * 10e-3 && seconds < 2 * (10e-3 + wire_s));
        assert_true(m != 2 || seconds > last_s + 1e-3);
        last_s = seconds;
        cast_close(&g);
        free(text);
    }
}

/* ---- memory: a row of 136 bytes is read, or written, in a millisecond ---- */

#define MOVED_IN_1MS "memory_gbps: 0.000136"

static void a_step_takes_the_time_of_the_rows_it_reads_and_writes(void **state)
{
    (void)state;
    static const struct {
        const char *optim;
        int rows; /* theta and g read, theta written; every slot in use read and written */
    } of[] = {
        {"{kind: sgd, lr: 0.1}", 3},
        {"{kind: sgd, lr: 0.1, momentum: 0.9}", 5},
        {"{kind: sgd, lr: 0.1, momentum: 0.9, nesterov: true}", 5},
        {"{kind: adagrad, lr: 0.1}", 5},
        {"{kind: rmsprop, lr: 0.1}", 5},
        {"{kind: rmsprop, lr: 0.1, momentum: 0.9}", 7},
        {"{kind: adam, lr: 0.1}", 7},
        {"{kind: adamw, lr: 0.1}", 7},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct cast g;
        char *text = text_of("data: {set: {kind: blobs, classes: 2, features: 16, samples: 60}, batch: 1}\n"
                             "model: logistic\noptim: %s\nengine: {kind: ref, threads: 1}\nstrategy: single\n"
                             "machines: {" MOVED_IN_1MS "}\n",
                             of[i].optim);
        play_for(&g, text, 5, 5 * (1 + of[i].rows));
        must_wait(&g, 0, 0);
        cast_close(&g);
        free(text);
    }
}

/* Two agents and no network. A lesson takes 1, a step of plain SGD 3, a sum of n rows, m of which came from the other or from a
 * helper, n + 1 + 2 m. */
static void a_mix_takes_the_time_of_the_rows_it_reads_and_writes(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        double first, round, last; /* before all rounds, of each, after them */
    } of[] = {
        {"consensus", 0, 1 + 3 + 5, 0},
        {"{kind: gossip, pairs: 1}", 0, 1 + 3 + 5, 0},
        {"adpsgd", 0, 1 + 3 + 5, 0},
        /* the other's x is added, x is halved, the step */
        {"{kind: allreduce, algorithm: all-to-all}", 0, 1 + 5 + 2 + 3, 0},
        {"{kind: allreduce, algorithm: butterfly}", 0, 1 + 5 + 2 + 3, 0},
        /* the other's half is added, the other half is taken from it */
        {"{kind: allreduce, algorithm: ring}", 0, 1 + 5 / 2.0 + 4 / 2.0 + 2 + 3, 0},
        {"{kind: allreduce, algorithm: halving-doubling}", 0, 1 + 5 / 2.0 + 4 / 2.0 + 2 + 3, 0},
        /* one adds, then the other takes */
        {"{kind: allreduce, algorithm: star}", 0, 1 + 5 + 4 + 2 + 3, 0},
        {"{kind: allreduce, algorithm: tree}", 0, 1 + 5 + 4 + 2 + 3, 0},
        /* the server: mean, step; the worker: takes theta */
        {"ps", 0, 1 + 7 + 3 + 4, 0},
        /* theta to the gradient's row, its sum, its half, and back */
        {"{kind: average, tau: 1}", 0, 1 + 3 + 2 + 5 + 2 + 2, 0},
        /* in round 0 nobody meets; the centre moves while the workers learn */
        {"{kind: easgd, mode: sync, every: 1}", -5, 1 + 3 + 5, 0},
        /* z = x at first, x = z at last; a round: pull (4 terms), step, x + y / rho, z, taken, the price (3
           terms) */
        {"{kind: admm, steps: 1}", 2, 1 + 5 + 3 + 3 + 7 + 4 + 4, 2},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct cast g;
        char *text =
            text_of(TINY("%s") "agents: 2\ntopology: path:2\nmachines: {" MOVED_IN_1MS "}\n", of[i].strategy);
        play_for(&g, text, 4, of[i].first + 4 * of[i].round + of[i].last);
        cast_close(&g);
        free(text);
    }
}

static void a_fast_machine_has_a_fast_memory_and_helpers_have_speed_1(void **state)
{
    (void)state;
    struct cast g;
    play_for(&g, PAIR("consensus") "machines: {speed: 2, " MOVED_IN_1MS "}\n", 4, 4 * (1 + 3 + 5) / 2.0);
    cast_close(&g);
    play_for(&g, PAIR("consensus") "machines: {speed: [1, 0.5], " MOVED_IN_1MS "}\n", 1, 2 * (1 + 3 + 5));
    cast_close(&g);
    play_for(&g, PAIR("ps") "machines: {speed: 2, " MOVED_IN_1MS "}\n", 4, 4 * (0.5 + 7 + 3 + 2));
    cast_close(&g);
}

static void where_memory_is_not_described_steps_and_mixes_are_free(void **state)
{
    (void)state;
    struct cast g;
    play_for(&g, PAIR("{kind: admm, steps: 1}"), 4, 4);
    cast_close(&g);
    play_for(&g, PAIR("ps") "machines: {memory_gbps: 0}\n", 4, 4);
    cast_close(&g);
}

static void measured_machines_take_the_time_that_was_measured(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, TINY("single") "machines: {kind: measured, seconds: 0.01}\n", 3);
    const struct machine_settings *m = &g.run->experiment->machines;
    double lessons_s = 0, step_s = 3 * 136 / (m->memory_gbps * 1e9);
    for (uint64_t k = 0; k < 3; k++)
        lessons_s += machine_slowdown(m, g.run->stage.seed, 0, k) / m->rate;
    assert_true(strcmp(m->stragglers.kind->name, "scatter") == 0);
    cast_play(&g);
    assert_true(fabs(local_now_s(g.world) - lessons_s - 3 * step_s) < 1e-12);
    cast_close(&g);
}

static void machines_are_measured_for_a_virtual_clock_only(void **state)
{
    (void)state;
    struct cast g;
    if (!world_named("mpi"))
        skip_because("built without MPI");
    must_fail(cast_try(&g, TINY("single") "world: mpi\nmachines: measured\n", 3, 1),
              "machines.kind: 'measured' is for the virtual clock of the local world");
}

/* Lessons that scatter take as long as ever on average, and of two in step the slower one, whose part is the Gini index of a
 * lognormal: erf(sigma / 2). */
static void scattered_lessons_keep_their_mean_and_those_in_step_wait_for_the_slower(void **state)
{
    (void)state;
    struct cast g;
    const double sigma = 0.3;
    enum { N = 20000 };
    cast_open(&g, TINY("single") "machines: {stragglers: {scatter: 0.3}}\n", 1);
    const struct machine_settings *m = &g.run->experiment->machines;
    double sum = 0, slower = 0;
    for (uint64_t k = 0; k < N; k++) {
        double a = machine_slowdown(m, 1, 0, k), b = machine_slowdown(m, 1, 1, k);
        sum += (a + b) / 2;
        slower += a > b ? a : b;
    }
    assert_true(fabs(sum / N - 1) < 4 * sigma / sqrt(2.0 * N));
    assert_true(fabs(slower / N - (1 + erf(sigma / 2))) < 4 * sigma / sqrt((double)N));
    cast_close(&g);
}

static void who_crashes_in_a_step_is_down_at_once(void **state)
{
    (void)state;
    struct cast g;
    /* agent 0 steps from 1 to 4 and would mix from then on; agent 1 dies at 2 and is done without. Agent 0 hears
     * of it at 4, when it would send */
    play_for(&g, PAIR("consensus") "machines: {" MOVED_IN_1MS "}\nevents: [{at_s: 0.002, crash: 1}]\n", 3,
             3 * (1 + 3));
    assert_int_equal(g.world->actors[1].agent->k, 0);
    cast_close(&g);
}

/* ---- one slow machine of sixteen ---- */

static double time_of(const char *strategy, const char *graph, int slow, int rounds)
{
    struct cast g;
    char *text = text_of("data: {set: blobs, batch: 1}\nmodel: logistic\noptim: {kind: sgd, lr: 0.1}\n"
                         "engine: null\nstrategy: %s\nagents: 16\n"
                         "topology: {graph: \"%s\", weights: metropolis}\n"
                         "machines: {stragglers: {kind: fixed, agents: [5], factor: %d}}\n"
                         "network: {latency_ms: 0.02, bandwidth_mbps: 100}\n",
                         strategy, graph, slow);
    cast_open(&g, text, rounds);
    free(text);
    cast_play(&g);
    assert_int_equal(session_totals(g.run).ended, 16 * rounds);
    double s = local_now_s(g.world);
    cast_close(&g);
    return s;
}

static void adpsgd_hardly_feels_one_slow_machine_and_consensus_does(void **state)
{
    (void)state;
    static const char *const graphs[] = {"complete:16", "exponential:16"};
    for (size_t i = 0; i < 2; i++) {
        double even = time_of("adpsgd", graphs[i], 1, 1000), share = 16.0 / 15;
        assert_true(time_of("adpsgd", graphs[i], 2, 1000) < 1.15 * even);
        assert_true(time_of("adpsgd", graphs[i], 10, 1000) < (share + 0.15) * even);
        assert_true(time_of("adpsgd", graphs[i], 100, 1000) < (share + 0.15) * even);
        double together = time_of("consensus", graphs[i], 1, 50);
        assert_true(time_of("consensus", graphs[i], 2, 50) > together + 50e-3 * 0.9);
        assert_true(time_of("consensus", graphs[i], 10, 50) > together + 50e-3 * 9 * 0.9);
        assert_true(time_of("consensus", graphs[i], 100, 50) > together + 50e-3 * 99 * 0.9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lessons_alone_take_their_time),
        cmocka_unit_test(two_agents_over_one_link),
        cmocka_unit_test(a_slow_machine_keeps_the_other_waiting),
        cmocka_unit_test(fixed_stragglers_are_late_in_every_lesson),
        cmocka_unit_test(who_learns_more_rarely_is_waited_for_more_rarely),
        cmocka_unit_test(a_star_of_eight_queues_at_one_card),
        cmocka_unit_test(a_card_serves_one_transfer_at_a_time_in_each_direction),
        cmocka_unit_test(every_link_has_its_own_wire),
        cmocka_unit_test(sites_are_near_within_and_far_across),
        cmocka_unit_test(a_partition_is_known_at_once_and_costs_no_patience),
        cmocka_unit_test(a_healed_partition_mixes_again_from_the_next_round),
        cmocka_unit_test(a_silent_machine_costs_patience_and_no_more),
        cmocka_unit_test(adpsgd_waits_for_its_wires_only),
        cmocka_unit_test(gradients_are_early_by_their_part_of_the_last_micro_batch),
        cmocka_unit_test(buckets_hide_behind_the_last_micro_batch_only),
        cmocka_unit_test(a_step_takes_the_time_of_the_rows_it_reads_and_writes),
        cmocka_unit_test(a_mix_takes_the_time_of_the_rows_it_reads_and_writes),
        cmocka_unit_test(a_fast_machine_has_a_fast_memory_and_helpers_have_speed_1),
        cmocka_unit_test(where_memory_is_not_described_steps_and_mixes_are_free),
        cmocka_unit_test(measured_machines_take_the_time_that_was_measured),
        cmocka_unit_test(machines_are_measured_for_a_virtual_clock_only),
        cmocka_unit_test(scattered_lessons_keep_their_mean_and_those_in_step_wait_for_the_slower),
        cmocka_unit_test(who_crashes_in_a_step_is_down_at_once),
        cmocka_unit_test(adpsgd_hardly_feels_one_slow_machine_and_consensus_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
