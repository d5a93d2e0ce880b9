/* All-reduce: one step of many is one step of a large batch, the replicas never part, nobody waits for the
 * dead, and backups spare the slow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "collective/collective.h"
#include "support/cast.h"
#include "support/trouble.h"

#define PLAIN(model, batch, optim)                                                                           \
    "data: {set: {kind: blobs, samples: 240, test_samples: 10}, batch: " batch "}\n"                         \
    "model: " model "\noptim: " optim "\nengine: {kind: ref, threads: 1}\n"

static void must_be_equal(struct cast *g, const size_t *who, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const float *first = cast_row(g, who[0]);
        if (memcmp(first, cast_row(g, who[i]), g->size * sizeof(float)) != 0)
            fail_msg("agents %zu and %zu have parted", who[0], who[i]);
    }
}

static void must_all_be_equal(struct cast *g)
{
    size_t who[64];
    for (size_t i = 0; i < g->n; i++)
        who[i] = i;
    must_be_equal(g, who, g->n);
}

/* ---- the law ---- */

enum { AGENTS = 4, STEPS = 20 };

/* Plain training with the batches of all agents of a group laid end to end. */
static void learn_large_batches(struct cast *single, struct cast *many, double lr)
{
    struct engine *e = single->run->engine;
    struct pick picks[AGENTS * 2];
    for (uint64_t k = 0; k < STEPS; k++) {
        for (size_t i = 0; i < AGENTS; i++)
            feed_batch(&many->run->agents[i].feed, k, picks + 2 * i);
        struct lesson lesson = {.picks = picks};
        struct update step = {.lr = lr, .t = k + 1, .end = TO_END};
        must(e->ops->learn(e, &lesson, 1));
        must(e->ops->update(e, &step, 1));
    }
}

static void many_agents_step_as_one_with_a_large_batch(void **state)
{
    (void)state;
    static const char *const optims[] = {"{kind: sgd, lr: 0.05}", "{kind: sgd, lr: 0.05, momentum: 0.9}",
                                         "{kind: adam, lr: 0.01}"};
    static const double rates[] = {0.05, 0.05, 0.01};
    for (size_t o = 0; o < 3; o++)
        for (int c = 0; c < N_COLLECTIVES; c++) {
            struct cast many, single;
            char *text = text_of(PLAIN("mlp:8-5", "2", "%s") //
                                 "strategy: {kind: allreduce, algorithm: %s}\nagents: 4\n",
                                 optims[o], collective_names[c]);
            cast_open(&many, text, STEPS);
            free(text);
            text = text_of(PLAIN("mlp:8-5", "8", "%s"), optims[o]);
            cast_open(&single, text, STEPS);
            free(text);
            cast_play(&many);
            learn_large_batches(&single, &many, rates[o]);
            const float *ours = cast_row(&many, 0), *theirs = cast_row(&single, 0);
            for (size_t j = 0; j < many.size; j++)
                assert_true(fabs(ours[j] - theirs[j]) < 2e-5);
            must_all_be_equal(&many);
            cast_close(&many);
            cast_close(&single);
        }
}

static void replicas_stay_equal_for_any_number_of_agents(void **state)
{
    (void)state;
    for (int m = 1; m <= 9; m++)
        for (int c = 0; c < N_COLLECTIVES; c++) {
            struct cast g;
            char *text = text_of(PLAIN("[{linear: {out: 6}}, batchnorm, relu, {linear: {out: 3}}]", "2",
                                       "{kind: sgd, lr: 0.05, momentum: 0.9}") //
                                 "strategy: {kind: allreduce, algorithm: %s, bucket_kb: 0.1}\nagents: %d\n"
                                 "machines: {stragglers: {kind: random, chance: 0.2, factor: 5}}\n"
                                 "network: {latency_ms: 0.1, bandwidth_mbps: 5}\n",
                                 collective_names[c], m);
            cast_open(&g, text, 5);
            free(text);
            cast_play(&g);
            must_all_be_equal(&g);
            cast_close(&g);
        }
}

/* ---- the choice of an algorithm ---- */

/* Virtual seconds of a few rounds; NULL: by the algorithm that nobody named. */
static double seconds_by(const char *algorithm, int m, double latency_ms, double mbps)
{
    struct cast g;
    char *text = text_of(
        PLAIN("mlp:16-32-3", "2", "{kind: sgd, lr: 0.05}") //
        "strategy: {kind: allreduce%s%s}\nagents: %d\nnetwork: {latency_ms: %g, bandwidth_mbps: %g}\n",
        algorithm ? ", algorithm: " : "", algorithm ? algorithm : "", m, latency_ms, mbps);
    cast_open(&g, text, 3);
    free(text);
    cast_play(&g);
    double seconds = local_now_s(g.world);
    cast_close(&g);
    return seconds;
}

static void the_algorithm_that_nobody_named_is_the_fastest_on_the_network(void **state)
{
    (void)state;
    static const struct {
        double latency_ms, mbps;
    } networks[] = {{0.001, 1}, {0.1, 1}, {1, 1}, {5, 1}, {50, 1}, {20, 100}};
    size_t n_winners = 0;
    bool has_won[N_COLLECTIVES] = {false};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (int m = 2; m <= 13; m++) {
            double least = INFINITY, latency = networks[i].latency_ms, mbps = networks[i].mbps;
            int best = 0;
            for (int c = 0; c < N_COLLECTIVES; c++) {
                double s = seconds_by(collective_names[c], m, latency, mbps);
                if (s < least)
                    least = s, best = c;
            }
            has_won[best] = true;
            double s = seconds_by(NULL, m, latency, mbps);
            if (s > 1.01 * least)
                fail_msg("%d agents, %g ms, %g Mbit/s: %g s, but %g s by %s", m, latency, mbps, s, least,
                         collective_names[best]);
        }
    for (int c = 0; c < N_COLLECTIVES; c++)
        n_winners += has_won[c];
    assert_true(n_winners >= 3); /* there was something to choose */
}

/* ---- buckets ---- */

static double seconds_with_buckets(double bucket_kb, float **row, size_t *size)
{
    struct cast g;
    char *text = text_of(PLAIN("mlp:64-64-64-64-64-64-64-64", "1", "{kind: sgd, lr: 0.05}") //
                         "strategy: {kind: allreduce, algorithm: tree, bucket_kb: %g}\nagents: 4\n"
                         "machines: {rate: 100}\nnetwork: {latency_ms: 0.01, bandwidth_mbps: 400}\n",
                         bucket_kb);
    cast_open(&g, text, 4);
    free(text);
    cast_play(&g);
    *size = g.size * sizeof(float);
    *row = malloc(*size);
    assert_non_null(*row);
    memcpy(*row, cast_row(&g, 0), *size);
    double seconds = local_now_s(g.world);
    cast_close(&g);
    return seconds;
}

static void buckets_travel_while_the_backward_pass_goes_on(void **state)
{
    (void)state;
    float *whole_row, *cut_row;
    size_t size, same_size;
    double in_one = seconds_with_buckets(0, &whole_row, &size);
    double in_buckets = seconds_with_buckets(16, &cut_row, &same_size);
    assert_int_equal(size, same_size);
    assert_memory_equal(whole_row, cut_row, size);
    assert_true(in_one > 4 * 0.01 && in_buckets > 4 * 0.01);
    /* what is left of the transfer after the lesson: of nearly all of it, only the last bucket's */
    assert_true(in_buckets - 4 * 0.01 < 0.5 * (in_one - 4 * 0.01));
    free(whole_row);
    free(cut_row);
}

/* ---- death and return ---- */

static void the_living_go_on_without_the_dead(void **state)
{
    (void)state;
    for (int c = 0; c < N_COLLECTIVES; c++) {
        struct cast g;
        char *text = text_of(TINY("{kind: allreduce, algorithm: %s}") //
                             "agents: 5\nnetwork: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 1}\n"
                             "events: [{at_s: 0.0105, crash: 3}]\n",
                             collective_names[c]);
        cast_open(&g, text, 30);
        free(text);
        cast_play(&g);
        must_be_equal(&g, (const size_t[]){0, 1, 2, 4}, 4);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(g.run->agents[i].k >= 30, i != 3);
        assert_true(cast_noted(&g, "4 of 5 agents go on together"));
        assert_true(cast_noted(&g, "agent 3"));
        cast_close(&g);
    }
}

static void whoever_returns_is_one_of_them_again(void **state)
{
    (void)state;
    for (int c = 0; c < N_COLLECTIVES; c++) {
        struct cast g;
        char *text = text_of(TINY("{kind: allreduce, algorithm: %s, bucket_kb: 0.05}") //
                             "agents: 5\nnetwork: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 1}\n"
                             "events: [{at_s: 0.0105, crash: [0, 3]}, {at_s: 0.03, return: [0, 3]}]\n",
                             collective_names[c]);
        cast_open(&g, text, 60);
        free(text);
        cast_play(&g);
        must_all_be_equal(&g);
        assert_true(cast_noted(&g, "3 of 5 agents go on together"));
        assert_true(cast_noted(&g, "5 of 5 agents go on together"));
        for (size_t i = 0; i < 5; i++)
            assert_true(g.run->agents[i].k == 60);
        cast_close(&g);
    }
}

static void parts_of_a_cut_network_go_on_apart_and_agree_afterwards(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g,
              TINY("allreduce") "agents: 5\nnetwork: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 1}\n"
                                "events: [{at_s: 0.0105, partition: [[0, 1], [2, 3, 4]]}, {at_s: 0.04, "
                                "heal: all}]\n",
              60);
    cast_play(&g);
    assert_true(cast_noted(&g, "2 of 5 agents go on together"));
    assert_true(cast_noted(&g, "3 of 5 agents go on together"));
    assert_true(cast_noted(&g, "5 of 5 agents go on together"));
    must_all_be_equal(&g);
    cast_close(&g);
}

/* ---- deaths in the last round ---- */

enum { LAST_ROUNDS = 3, LAST_WORLDS = 1000 };

static char *world_of_deaths(struct rng *r, double *from_s, double *to_s)
{
    static const char *const networks[] = {
        "latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 0.5",
        "latency_ms: 1, bandwidth_mbps: 1, patience_s: 0.5",
        "latency_ms: 5, bandwidth_mbps: 0.5, patience_s: 0.5",
        "latency_ms: 2, patience_s: 0.5",
    };
    static const char *const machines[] = {
        "", "machines: {stragglers: {kind: random, chance: 0.3, factor: 3}}\n"};
    size_t c = rng_below(r, N_COLLECTIVES);
    int m = 2 + (int)rng_below(r, 8);
    char *strategy = rng_below(r, 4) ? text_of("{kind: allreduce, algorithm: %s, bucket_kb: %g}",
                                               collective_names[c], rng_below(r, 2) ? 0.05 : 0)
                                     : text_of("{kind: average, tau: 1, algorithm: %s}", collective_names[c]);
    char *text = text_of(TINY("%s") "agents: %d\nnetwork: {%s}\n%s", strategy, m, networks[rng_below(r, 4)],
                         machines[rng_below(r, 2)]);
    free(strategy);
    struct cast g; /* in peace, to know when the last round is */
    cast_open(&g, text, LAST_ROUNDS);
    cast_play(&g);
    *to_s = local_now_s(g.world);
    *from_s = *to_s * (LAST_ROUNDS - 1) / LAST_ROUNDS;
    cast_close(&g);
    return text;
}

/* But for one whose machine went down after it had ended, and is back. */
static void must_agree_who_ended(struct cast *g, const int *victims)
{
    size_t who[16], n = 0;
    for (size_t i = 0; i < g->n; i++) {
        const struct actor *a = &g->world->actors[i];
        bool was_down = (int)i == victims[0] || (int)i == victims[1];
        if (a->life == LIFE_DONE && a->alive && (!was_down || a->agent->has_been_down))
            who[n++] = i;
    }
    must_be_equal(g, who, n);
}

static void all_who_outlive_deaths_in_the_last_round_agree(void **state)
{
    unsigned taken_over = 0, done_again = 0;
    for (unsigned seed = 0; seed < LAST_WORLDS; seed++) {
        struct rng r = rng_stream(seed, 0, RNG_TEST, 5);
        double from_s, to_s;
        char *peace = world_of_deaths(&r, &from_s, &to_s);
        double at_s = from_s + (to_s - from_s) * 1.05 * rng_uniform(&r);
        double later_s = at_s + (to_s - from_s) * rng_uniform(&r);
        int victims[] = {(int)rng_below(&r, 2), (int)rng_below(&r, 2)};
        char *text = text_of("%sevents:\n  - {at_s: %.9f, crash: %d}\n  - {at_s: %.9f, %s: %d}\n", peace,
                             at_s, victims[0], later_s, rng_below(&r, 3) ? "crash" : "return", victims[1]);
        struct cast g;
        *state = text;
        cast_open(&g, text, LAST_ROUNDS);
        fault_drop(cast_go(&g));
        must_agree_who_ended(&g, victims);
        taken_over += cast_noted(&g, "which has done all its rounds");
        done_again += cast_noted(&g, "go on together");
        cast_close(&g);
        free(text);
        free(peace);
        *state = NULL;
    }
    assert_true(taken_over > LAST_WORLDS / 50 && done_again > LAST_WORLDS / 10);
}

/* ---- backups ---- */

static void open_backups(struct cast *g, int backups, const char *more, int rounds)
{
    char *text =
        text_of(TINY("{kind: allreduce, algorithm: tree, backups: %d}") "agents: 6\n%s", backups, more);
    cast_open(g, text, rounds);
    free(text);
}

static uint64_t dropped(const struct cast *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->n; i++)
        sum += g->run->agents[i].dropped;
    return sum;
}

static void backups_spare_the_slow(void **state)
{
    (void)state;
    static const char slow[] = "machines: {speed: [1, 1, 0.05, 1, 1, 1]}\n";
    double seconds[2];
    for (int b = 0; b < 2; b++) {
        struct cast g;
        open_backups(&g, b, slow, 40);
        cast_play(&g);
        seconds[b] = local_now_s(g.world);
        assert_int_equal(dropped(&g) > 0, b);
        if (b)
            assert_int_equal(dropped(&g), g.run->agents[2].dropped);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(g.run->agents[i].k, 40);
        must_all_be_equal(&g);
        cast_close(&g);
    }
    assert_true(fabs(seconds[0] - 40 * 0.02) < 1e-9);             /* everyone waits for the slow one        */
    assert_true(seconds[1] >= 40 * 0.001 && seconds[1] < 0.0605); /* its last lesson may outlast the rest */
}

static void exactly_the_first_gradients_count(void **state)
{
    (void)state;
    struct cast g;
    open_backups(&g, 2, "machines: {speed: [1, 0.999, 0.99, 0.98, 0.5, 0.5]}\n", 10);
    cast_play(&g);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(g.run->agents[i].dropped, 0);
    assert_true(g.run->agents[4].dropped > 0 && g.run->agents[5].dropped > 0);
    must_all_be_equal(&g);
    cast_close(&g);
}

static void backups_outlive_members_and_the_counter(void **state)
{
    (void)state;
    static const char *const events[] = {
        "events: [{at_s: 0.0042, crash: 1}]\n",
        "events: [{at_s: 0.0042, crash: [0, 1, 2]}, {at_s: 0.02, return: [0, 1, 2]}]\n",
        "events: [{at_s: 0.0042, crash: 6}]\n",
        "events: [{at_s: 0.0042, crash: [1, 6]}, {at_s: 0.02, return: [1, 6]}]\n",
    };
    for (size_t e = 0; e < sizeof events / sizeof *events; e++) {
        struct cast g;
        char *more = text_of("network: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 0.05}\n"
                             "machines: {stragglers: {kind: random, chance: 0.2, factor: 5}}\n%s",
                             events[e]);
        open_backups(&g, 1, more, 60);
        free(more);
        cast_play(&g);
        for (size_t i = 0; i < 6; i++)
            if (!(i == 1 && e == 0))
                assert_true(g.run->agents[i].k == 60);
        must_be_equal(&g, (const size_t[]){0, 2, 3, 4, 5}, 5);
        if (e != 0)
            must_be_equal(&g, (const size_t[]){0, 1}, 2);
        assert_int_equal(cast_noted(&g, "the member that counts the first gradients is gone"), e >= 2);
        cast_close(&g);
    }
}

/* ---- chaos ---- */

static const char *const strategies[] = {
    "allreduce",
    "{kind: allreduce, algorithm: star}",
    "{kind: allreduce, algorithm: tree, bucket_kb: 0.05}",
    "{kind: allreduce, algorithm: halving-doubling}",
    "{kind: allreduce, algorithm: binary-blocks}",
    "{kind: allreduce, algorithm: butterfly}",
    "{kind: allreduce, algorithm: all-to-all, backups: 1}",
    "{kind: allreduce, algorithm: ring, backups: 1}",
};

static void a_thousand_worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    struct trouble t = play_worlds_of_trouble(strategies, sizeof strategies / sizeof *strategies, 1000,
                                              "go on together", state);
    assert_true(t.noted > 300 && t.went_on > 200 && t.all_down < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_agents_step_as_one_with_a_large_batch),
        cmocka_unit_test(replicas_stay_equal_for_any_number_of_agents),
        cmocka_unit_test(the_algorithm_that_nobody_named_is_the_fastest_on_the_network),
        cmocka_unit_test(buckets_travel_while_the_backward_pass_goes_on),
        cmocka_unit_test(the_living_go_on_without_the_dead),
        cmocka_unit_test(whoever_returns_is_one_of_them_again),
        cmocka_unit_test(parts_of_a_cut_network_go_on_apart_and_agree_afterwards),
        cmocka_unit_test_teardown(all_who_outlive_deaths_in_the_last_round_agree, show_the_world_that_failed),
        cmocka_unit_test(backups_spare_the_slow),
        cmocka_unit_test(exactly_the_first_gradients_count),
        cmocka_unit_test(backups_outlive_members_and_the_counter),
        cmocka_unit_test_teardown(a_thousand_worlds_of_trouble_come_to_an_orderly_end,
                                  show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
