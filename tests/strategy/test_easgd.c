/* Elastic averaging: forces cancel, the formulas hold, the centre is the model, and the lost are done
 * without. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"
#include "support/trouble.h"
#include "veche.h"

enum { MOST = 64 };

/* The parameters of any member as they are now. */
static void read_member(struct cast *g, size_t member, double *x)
{
    float row[MOST];
    assert_true(g->size <= MOST);
    must(local_settle(g->world));
    must(g->run->engine->ops->read(g->run->engine, ROW_PARAMS, member, row));
    for (size_t j = 0; j < g->size; j++)
        x[j] = row[j];
}

static void open_quiet(struct cast *g, const char *text, int rounds)
{
    cast_open(g, text, rounds);
    cast_scatter(g, 3);
    cast_keep_from_learning(g);
}

/* ---- the law ---- */

static void sum_of_all(struct cast *g, double *sum)
{
    double x[MOST];
    memset(sum, 0, MOST * sizeof *sum);
    for (size_t i = 0; i <= g->n; i++) {
        read_member(g, i, x);
        for (size_t j = 0; j < g->size; j++)
            sum[j] += x[j];
    }
}

static void elastic_forces_cancel(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "{kind: easgd, mode: sync, every: 1}", "{kind: easgd, mode: sync, every: 3, alpha: 0.2}",
        "{kind: easgd, mode: async, every: 1}", "{kind: easgd, mode: async, every: 2, alpha: 0.5}"};
    static const char *const machines[] = {
        "",
        "machines: {speed: {kind: lognormal, sigma: 1}, stragglers: {kind: random, chance: 0.3, factor: 9}}\n"
        "network: {latency_ms: 2, bandwidth_mbps: 0.5}\n"};
    for (size_t s = 0; s < 4; s++)
        for (size_t m = 0; m < 2; m++) {
            struct cast g;
            double before[MOST], after[MOST], *rows;
            char *text = text_of(TINY("%s") "agents: 5\n%s", modes[s], machines[m]);
            open_quiet(&g, text, 30);
            free(text);
            rows = cast_rows(&g);
            double apart = disagreement_of(rows, g.n, g.size);
            free(rows);
            sum_of_all(&g, before);
            cast_play(&g);
            sum_of_all(&g, after);
            for (size_t j = 0; j < g.size; j++)
                assert_true(fabs(before[j] - after[j]) < 1e-5);
            rows = cast_rows(&g);
            assert_true(disagreement_of(rows, g.n, g.size) < 0.3 * apart);
            free(rows);
            assert_int_equal(g.n_notes, 0);
            assert_int_equal(cast_counts(&g).lost, 0);
            cast_close(&g);
        }
}

/* ---- the formulas, by hand ---- */

enum { AGENTS = 4, ROUNDS = 17, EVERY = 3, BATCH = 2 };
#define ALPHA 0.15
#define RATE  0.05

static const char learning[] =
    "data: {set: {kind: blobs, features: 6, samples: 240, test_samples: 10}, batch: 2}\n"
    "model: mlp:4\noptim: {kind: sgd, lr: 0.05, momentum: 0.9, nesterov: true}\nengine: {kind: ref, threads: "
    "1}\n"
    "agents: 4\n";

/* One round of the paper, in plain loops over what the engine calls a gradient. */
static void round_by_hand(struct cast *g, uint64_t k, double x[][MOST], double v[][MOST], double *c)
{
    struct engine *e = g->run->engine;
    double pull[MOST] = {0};
    for (size_t i = 0; i < AGENTS; i++) {
        float row[MOST], grad[MOST];
        struct pick picks[BATCH];
        for (size_t j = 0; j < g->size; j++)
            row[j] = (float)x[i][j];
        feed_batch(&g->run->agents[i].feed, k, picks);
        must(e->ops->write(e, ROW_PARAMS, i, row));
        must(e->ops->learn(e, &(struct lesson){.replica = i, .picks = picks}, 1));
        must(e->ops->read(e, ROW_GRADS, i, grad));
        for (size_t j = 0; j < g->size; j++) {
            double force = k && k % EVERY == 0 ? ALPHA * (x[i][j] - c[j]) : 0;
            v[i][j] = k ? 0.9 * v[i][j] + grad[j] : grad[j];
            pull[j] += force;
            x[i][j] -= force + RATE * (grad[j] + 0.9 * v[i][j]);
        }
    }
    for (size_t j = 0; j < g->size; j++)
        c[j] += pull[j];
}

static void synchronous_rounds_follow_the_paper(void **state)
{
    (void)state;
    struct cast g, hand;
    double x[AGENTS][MOST], v[AGENTS][MOST], c[MOST], found[MOST], apart = 0;
    char *text = text_of("%sstrategy: {kind: easgd, mode: sync, every: 3, alpha: 0.15}\n", learning);
    cast_open(&g, text, ROUNDS);
    cast_open(&hand, text, ROUNDS);
    free(text);
    for (size_t i = 0; i < AGENTS; i++)
        read_member(&hand, i, x[i]);
    read_member(&hand, AGENTS, c);
    for (uint64_t k = 0; k < ROUNDS; k++)
        round_by_hand(&hand, k, x, v, c);
    cast_play(&g);
    for (size_t i = 0; i <= AGENTS; i++) {
        read_member(&g, i, found);
        for (size_t j = 0; j < g.size; j++) {
            assert_true(fabs(found[j] - (i < AGENTS ? x[i][j] : c[j])) < 1e-5);
            apart += i < AGENTS ? fabs(x[i][j] - c[j]) : 0;
        }
    }
    assert_true(apart > 0.1); /* a spring and not a rod */
    cast_close(&g);
    cast_close(&hand);
}

/* One worker and its centre: both ways of meeting are the same two formulas. */
static void one_worker_and_its_centre_approach_as_springs_do(void **state)
{
    (void)state;
    static const char *const modes[] = {"sync", "async"};
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        double x[MOST], c[MOST], a[MOST], b[MOST];
        char *text = text_of(TINY("{kind: easgd, mode: %s, every: 2, alpha: 0.25}"), modes[m]);
        open_quiet(&g, text, 7); /* they meet at 2, 4, 6 */
        free(text);
        float row[MOST];
        for (size_t j = 0; j < g.size; j++)
            row[j] = (float)j - 9;
        cast_write(&g, 0, row);
        read_member(&g, 0, x);
        read_member(&g, 1, c);
        cast_play(&g);
        read_member(&g, 0, a);
        read_member(&g, 1, b);
        for (size_t j = 0; j < g.size; j++) {
            double middle = (x[j] + c[j]) / 2, half = (x[j] - c[j]) / 2 * pow(1 - 2 * 0.25, 3);
            assert_true(fabs(a[j] - (middle + half)) < 1e-5);
            assert_true(fabs(b[j] - (middle - half)) < 1e-5);
        }
        cast_close(&g);
    }
}

static void one_agent_that_never_meets_the_centre_equals_single(void **state)
{
    (void)state;
    static const char *const strategies[] = {"{kind: easgd, mode: sync, every: 1000}",
                                             "{kind: easgd, mode: async, every: 1000}"};
    for (size_t s = 0; s < 2; s++) {
        struct cast single, other;
        char *text = text_of(TINY("%s"), strategies[s]);
        cast_open(&single, TINY("single"), 40);
        cast_open(&other, text, 40);
        free(text);
        cast_play(&single);
        cast_play(&other);
        assert_memory_equal(cast_row(&single, 0), cast_row(&other, 0), single.size * sizeof(float));
        assert_true(local_now_s(single.world) == local_now_s(other.world));
        cast_close(&single);
        cast_close(&other);
    }
}

/* ---- counts ---- */

static void a_meeting_is_a_call_a_row_and_a_row_back(void **state)
{
    (void)state;
    static const char *const modes[] = {"sync", "async"};
    for (size_t m = 0; m < 2; m++)
        for (int every = 1; every <= 4; every++) {
            struct cast g;
            char *text = text_of(TINY("{kind: easgd, mode: %s, every: %d}") "agents: 3\n", modes[m], every);
            cast_open(&g, text, 13);
            free(text);
            cast_play(&g);
            uint64_t meetings = 3 * (uint64_t)(12 / every), call = 16;
            struct link_counts c = cast_counts(&g);
            assert_int_equal(c.messages, 3 * meetings + 3);
            assert_int_equal(c.bytes, meetings * (2 * g.size * sizeof(float) + call) + 3 * call);
            assert_int_equal(c.lost, 0);
            cast_close(&g);
        }
}

static void nobody_waits_for_a_slow_worker_in_async(void **state)
{
    (void)state;
    double seconds[2];
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *text = text_of(TINY("{kind: easgd, mode: %s, every: 1}") //
                             "agents: 4\nmachines: {speed: [1, 1, 1, 0.1]}\n",
                             m ? "async" : "sync");
        cast_open(&g, text, 20);
        free(text);
        cast_play(&g);
        seconds[m] = local_now_s(g.world);
        cast_close(&g);
    }
    assert_true(fabs(seconds[0] - 20 * 0.01) < 1e-9);
    assert_true(seconds[1] < 80 / 3.1 * 0.001 + 0.01);
}

/* ---- death and return ---- */

#define PATIENT "network: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: 1}\n"

static void a_dead_worker_is_named_and_done_without(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *text = text_of(TINY("{kind: easgd, mode: %s, every: 2}") //
                             "agents: 4\n" PATIENT "events: [{at_s: 0.0105, crash: 2}]\n",
                             m ? "async" : "sync");
        cast_open(&g, text, 30);
        free(text);
        cast_play(&g);
        assert_true(cast_noted(&g, "the centre goes on without agent 2"));
        assert_true(local_now_s(g.world) < 0.5); /* nobody waited for it */
        for (size_t i = 0; i <= 4; i++)
            assert_int_equal(g.world->actors[i].life, i == 2 ? LIFE_DOWN : LIFE_DONE);
        cast_close(&g);
    }
}

static void without_a_centre_everybody_learns_alone(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *text = text_of(TINY("{kind: easgd, mode: %s, every: 2}") //
                             "agents: 4\n" PATIENT "events: [{at_s: 0.0105, crash: 4}]\n",
                             m ? "async" : "sync");
        cast_open(&g, text, 30);
        free(text);
        cast_play(&g);
        for (size_t i = 0; i < 4; i++) {
            char *words = text_of("agent %zu goes on without the centre in round", i);
            assert_true(cast_noted(&g, words));
            free(words);
            assert_int_equal(g.world->actors[i].life, LIFE_DONE);
        }
        assert_int_equal(g.n_notes, 1 + 4); /* each says it once */
        assert_int_equal(g.world->actors[4].life, LIFE_DOWN);
        cast_close(&g);
    }
}

static void a_centre_that_is_back_goes_on_with_what_it_had(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *text =
            text_of(TINY("{kind: easgd, mode: %s, every: 2}") //
                    "agents: 4\n" PATIENT "events: [{at_s: 0.0105, crash: 4}, {at_s: 0.02, return: 4}]\n",
                    m ? "async" : "sync");
        open_quiet(&g, text, 40);
        free(text);
        cast_play(&g);
        assert_true(cast_noted(&g, "goes on without the centre"));
        assert_int_equal(g.world->actors[4].life, LIFE_DONE);
        double *rows = cast_rows(&g);
        assert_true(disagreement_of(rows, g.n, g.size) < 0.2);
        free(rows);
        cast_close(&g);
    }
}

static void a_worker_that_is_back_starts_from_the_centre(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *text =
            text_of(TINY("{kind: easgd, mode: %s, every: 1000}") //
                    "agents: 2\n" PATIENT "events: [{at_s: 0.0105, crash: 1}, {at_s: 0.012, return: 1}]\n",
                    m ? "async" : "sync");
        double x[MOST], c[MOST];
        open_quiet(&g, text, 40);
        free(text);
        cast_play(&g);
        read_member(&g, 1, x);
        read_member(&g, 2, c);
        assert_memory_equal(x, c, g.size * sizeof *x);
        assert_int_equal(g.world->actors[1].life, LIFE_DONE);
        cast_close(&g);
    }
}

static const char *const troubled[] = {
    "{kind: easgd, mode: sync, every: 1}",
    "{kind: easgd, mode: async, every: 1}",
    "{kind: easgd, mode: sync, every: 3}",
    "{kind: easgd, mode: async, every: 2}",
};

static void worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    struct trouble seen = play_worlds_of_trouble(troubled, 4, 1000, "goes on without", state);
    assert_true(seen.noted > 300 && seen.went_on > 250 && seen.all_down < 200);
}

/* ---- the model ---- */

static void examined_model(const char *events, double *model, double *centre, double *mean)
{
    char folder[] = "/tmp/veche-easgd-XXXXXX", *command;
    assert_non_null(mkdtemp(folder));
    char *text =
        text_of("%sstrategy: {kind: easgd, every: 3}\n%strain: {epochs: 1, seed: 1}\n", learning, events);
    veche_experiment *e = NULL;
    struct veche_run *r = NULL;
    must(veche_parse(text, "easgd", &e));
    must(veche_start(e, &(veche_options){.folder = folder}, &r));
    must(veche_go(r));
    float row[MOST];
    memset(mean, 0, MOST * sizeof *mean);
    for (size_t i = 0; i <= AGENTS + 1; i++) {
        must(r->engine->ops->read(r->engine, ROW_PARAMS, i, row));
        for (size_t j = 0; j < r->graph->size; j++)
            if (i < AGENTS)
                mean[j] += row[j] / AGENTS;
            else
                (i == AGENTS ? centre : model)[j] = row[j];
    }
    veche_close(r);
    veche_experiment_free(e);
    free(text);
    command = text_of("rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    free(command);
}

static void the_centre_is_the_model_that_is_examined_and_saved(void **state)
{
    (void)state;
    double model[MOST] = {0}, centre[MOST] = {0}, mean[MOST];
    examined_model("", model, centre, mean);
    assert_memory_equal(model, centre, sizeof centre);
    assert_true(fabs(model[0] - mean[0]) > 1e-5);
    examined_model("events: [{at_s: 0.02, crash: 4}]\n", model, centre,
                   mean); /* without one it is the mean */
    for (size_t j = 0; j < MOST; j++)
        assert_true(fabs(model[j] - mean[j]) < 1e-6);
}

/* ---- settings ---- */

static void a_spring_that_throws_the_centre_is_refused(void **state)
{
    (void)state;
    struct cast g;
    must_fail(cast_try(&g, TINY("{kind: easgd, mode: sync, alpha: 0.3}") "agents: 4\n", 5, 1),
              "strategy.alpha: 0.3 for each of 4 agents moves the centre by 1.2 of its distance");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elastic_forces_cancel),
        cmocka_unit_test(synchronous_rounds_follow_the_paper),
        cmocka_unit_test(one_worker_and_its_centre_approach_as_springs_do),
        cmocka_unit_test(one_agent_that_never_meets_the_centre_equals_single),
        cmocka_unit_test(a_meeting_is_a_call_a_row_and_a_row_back),
        cmocka_unit_test(nobody_waits_for_a_slow_worker_in_async),
        cmocka_unit_test(a_dead_worker_is_named_and_done_without),
        cmocka_unit_test(without_a_centre_everybody_learns_alone),
        cmocka_unit_test(a_centre_that_is_back_goes_on_with_what_it_had),
        cmocka_unit_test(a_worker_that_is_back_starts_from_the_centre),
        cmocka_unit_test_teardown(worlds_of_trouble_come_to_an_orderly_end, show_the_world_that_failed),
        cmocka_unit_test(the_centre_is_the_model_that_is_examined_and_saved),
        cmocka_unit_test(a_spring_that_throws_the_centre_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
