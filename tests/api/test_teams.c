/* Teams in the local world: what a network cut over several machines learns, and when, against one machine that gathers the gradients
 * of the same micro-batches, and against sums written out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "api/session.h"
#include "support/must.h"

struct outcome {
    char sha[65];
    double virtual_s, accuracy;
    uint64_t bytes, messages;
};

static struct outcome outcome_of(veche_run *r)
{
    struct outcome o;
    struct summary s;
    must(session_summary(r, &s));
    memcpy(o.sha, s.params_sha256, sizeof o.sha);
    o.virtual_s = s.virtual_s;
    o.accuracy = s.accuracy.mean;
    o.bytes = s.bytes;
    o.messages = s.messages;
    return o;
}

/* Takes the text. */
static fault start(const char *folder, char *text, veche_run **run)
{
    veche_experiment *e;
    fault f = veche_parse(text, "teams.yaml", &e);
    free(text);
    if (f)
        return f;
    f = veche_start(e, &(veche_options){.folder = folder}, run);
    veche_experiment_free(e);
    return f;
}

static struct outcome play(const char *folder, char *text)
{
    veche_run *run;
    must(start(folder, text, &run));
    must(veche_go(run));
    struct outcome o = outcome_of(run);
    veche_close(run);
    return o;
}

/* Residuals, dropout and batchnorm; eleven ops. */
#define NETWORK                                                                                                                  \
    "model: [{conv: {out: 4, kernel: 3, pad: 1}}, batchnorm, relu, {residual: [{conv: {out: 4, kernel: 3, pad: 1}}, batchnorm, " \
    "relu, {conv: {out: 4, kernel: 3, pad: 1}}]}, relu, {dropout: {rate: 0.3}}, {maxpool: {kernel: 2}}, {linear: {out: 10}}]\n"

static char *pictures(const char *engine, const char *team, int accumulate, const char *rest)
{
    return text_of("name: t\ndata: {set: {kind: images, size: 6, channels: 2, samples: 66, test_samples: 10}, batch: 11, flip: true}\n" NETWORK
                   "optim: {kind: sgd, lr: 0.05, momentum: 0.9, weight_decay: 0.0005}\nengine: {kind: %s, threads: 1}\n"
                   "team: %s\ntrain: {epochs: 2, seed: 5, accumulate: %d, evaluate_every: never, checkpoint_every: never}\n%s",
                   engine, team, accumulate, rest);
}

/* ---- bits ---- */

static void a_team_learns_what_one_machine_learns_that_gathers_gradients(void **state)
{
    static const char *const engines[] = {"ref", "auto"};
    static const char *const recomputes[] = {"never", "always", "except-last"};
    static const struct {
        const char *name;
        int chunks;
    } schedules[] = {{"gpipe", 1}, {"1f1b", 1}, {"interleaved", 2}, {"zb-h1", 1}};
    static const int micros[] = {1, 2, 3, 8};
    for (size_t e = 0; e < 2; e++)
        for (size_t m = 0; m < 4; m++) {
            struct outcome alone = play(*state, pictures(engines[e], "none", micros[m], ""));
            for (int p = 1; p <= 6; p++)
                for (size_t k = 0; k < 4; k++) {
                    if (p * schedules[k].chunks > 10)
                        continue; /* more parts than layers */
                    char *team = text_of("{kind: pipeline, size: %d, schedule: %s, chunks: %d, microbatches: %d, recompute: %s}", p,
                                         schedules[k].name, schedules[k].chunks, micros[m], recomputes[((size_t)p + k) % 3]);
                    struct outcome o = play(*state, pictures(engines[e], team, 1, ""));
                    free(team);
                    assert_string_equal(o.sha, alone.sha);
                    assert_int_equal(o.bytes == 0, p == 1);
                }
        }
}

static void a_team_of_one_is_an_agent(void **state)
{
    struct outcome alone = play(*state, pictures("ref", "none", 4, "machines: {rate: 100, memory_gbps: 0.001}\n"));
    struct outcome team = play(*state, pictures("ref", "{kind: pipeline, size: 1, microbatches: 4}", 1, "machines: {rate: 100, memory_gbps: 0.001}\n"));
    assert_string_equal(team.sha, alone.sha);
    assert_true(fabs(team.virtual_s - alone.virtual_s) <= 1e-9 * alone.virtual_s);
    assert_int_equal(team.bytes, 0);
}

/* ---- every method over teams ---- */

static const struct {
    const char *strategy;
    bool in_step; /* so it has the bits of single machines; else it learns about as well */
} methods[] = {
    {"allreduce", true},
    {"{kind: allreduce, algorithm: ring, bucket_kb: 1}", true},
    {"ps", true},
    {"consensus", true},
    {"gossip", true},
    {"{kind: average, tau: 2}", true},
    {"{kind: easgd, mode: sync, every: 2}", true},
    {"admm", true},
    {"{kind: ps, mode: async}", false},
    {"{kind: easgd, mode: async, every: 2}", false},
    {"adpsgd", false},
    {"downpour", false},
};

static char *three(const char *strategy, const char *team, int accumulate)
{
    return text_of("name: t\ndata: {set: {kind: blobs, samples: 300, test_samples: 100}, batch: 10}\n"
                   "model: [{linear: {out: 16}}, relu, {linear: {out: 8}}, relu, {linear: {out: 3}}]\noptim: {kind: sgd, lr: 0.1}\n"
                   "engine: {kind: ref, threads: 1}\nagents: 3\ntopology: cycle:3\nstrategy: %s\nteam: %s\n"
                   "machines: {rate: 1000}\nnetwork: {latency_ms: 0.1, bandwidth_mbps: 100}\n"
                   "train: {epochs: 12, seed: 2, accumulate: %d, checkpoint_every: never}\n",
                   strategy, team, accumulate);
}

static void every_method_learns_over_teams(void **state)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct outcome machines = play(*state, three(methods[i].strategy, "none", 2));
        struct outcome teams = play(*state, three(methods[i].strategy, "{kind: pipeline, size: 2, microbatches: 2}", 1));
        if (methods[i].in_step)
            assert_string_equal(teams.sha, machines.sha);
        else
            assert_true(fabs(teams.accuracy - machines.accuracy) < 5);
    }
}

/* A sum of gradients moves as many bytes: each machine sends what it has, to its like. What crosses inside a team comes on top: 8
 * floats and their gradients for each sample of every lesson. */
static void teams_send_each_other_as_many_bytes_as_machines(void **state)
{
    const char *cut = "{kind: pipeline, size: 2, microbatches: 2, cut: \"3\"}";
    struct outcome machines = play(*state, three("{kind: allreduce, algorithm: ring}", "none", 2));
    struct outcome teams = play(*state, three("{kind: allreduce, algorithm: ring}", cut, 1));
    uint64_t rounds = 120, agents = 3, batch = 10, micros = 2;
    assert_int_equal(teams.bytes, machines.bytes + rounds * agents * batch * 2 * 8 * sizeof(float));
    assert_true(teams.messages > machines.messages + rounds * agents * micros * 2 - 1);
}

/* ---- the clock ---- */

/* Four equal hidden layers after one that is free, since nothing learns before it but itself: a chain of five, cut into five parts. The
 * work of a linear layer of n inputs and m outputs is 2nm forward, as much for the gradient of its weights, and as much for that of its inputs where a
 * layer that learns lies before it. */
static void a_round_takes_what_the_formula_says(void **state)
{
    static const int widths[] = {4, 32, 32, 16, 64, 3};
    enum { PARTS = 5, ROUNDS = 6 };
    double f[PARTS], b[PARTS], all = 0, rate = 500, batch = 12;
    for (int g = 0; g < PARTS; g++) {
        f[g] = 2.0 * widths[g] * widths[g + 1];
        b[g] = g ? 2 * f[g] : f[g];
        all += f[g] + b[g];
    }
    static const int micros[] = {1, 2, 3, 5, 12};
    for (size_t k = 0; k < 5; k++) {
        double m = micros[k], sum = 0, most_f = 0, most_b = 0;
        bool is_even = (int)batch % micros[k] == 0;
        for (int g = 0; g < PARTS; g++) {
            sum += f[g] + b[g];
            most_f = fmax(most_f, f[g]);
            most_b = fmax(most_b, b[g]);
        }
        double lesson_s = (sum + (m - 1) * (most_f + most_b)) / all * batch / rate / m;
        struct outcome o = play(
            *state, text_of("name: t\ndata: {set: {kind: blobs, features: 4, samples: 72, test_samples: 6}, batch: 12}\n"
                            "model: [{linear: {out: 32}}, {linear: {out: 32}}, {linear: {out: 16}}, {linear: {out: 64}}, {linear: {out: 3}}]\n"
                            "optim: {kind: sgd, lr: 0.01}\nengine: {kind: ref, threads: 1}\nmachines: {rate: %g}\n"
                            "team: {kind: pipeline, size: 5, schedule: gpipe, microbatches: %d, cut: [\"1\", \"2\", \"3\", \"4\"]}\n"
                            "train: {epochs: 1, checkpoint_every: never, evaluate_every: never}\n",
                            rate, micros[k]));
        if (is_even)
            assert_true(fabs(o.virtual_s - ROUNDS * lesson_s) <= 1e-9 * o.virtual_s);
        else /* five micro-batches: two of three samples, three of two */
            assert_true(o.virtual_s > ROUNDS * lesson_s && o.virtual_s < ROUNDS * lesson_s * 3 * m / batch);
    }
}

/* A machine of half the speed gets about half of the work, and no cut by hand is faster than the one that is found. */
static void the_cut_that_is_found_suits_the_machines(void **state)
{
    const char *rest = "machines: {rate: 100, speed: [1, 0.25]}\n";
    double found = play(*state, pictures("null", "{kind: pipeline, size: 2, schedule: gpipe, microbatches: 11}", 1, rest)).virtual_s;
    double even = play(*state, pictures("null", "{kind: pipeline, size: 2, schedule: gpipe, microbatches: 11, cut: even}", 1, rest)).virtual_s;
    double best = INFINITY;
    static const char *const layers[] = {"1", "3", "3.3", "5", "6", "7"};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char *team = text_of("{kind: pipeline, size: 2, schedule: gpipe, microbatches: 11, cut: \"%s\"}", layers[i]);
        best = fmin(best, play(*state, pictures("null", team, 1, rest)).virtual_s);
        free(team);
    }
    assert_true(found < even);
    assert_true(found <= best * (1 + 1e-9));
}

/* ---- going on ---- */

struct stopper {
    veche_run *run;
    uint64_t left;
};

static void stop_after(void *ctx, const veche_event *event)
{
    struct stopper *s = ctx;
    (void)event;
    if (s->left && --s->left == 0)
        veche_stop(s->run);
}

static void a_run_of_teams_goes_on_to_the_same_bits(void **state)
{
    const char *team = "{kind: pipeline, size: 2, microbatches: 2, schedule: zb-h1}";
    struct outcome whole = play(*state, three("consensus", team, 1));
    char *text = three("consensus", team, 1);
    veche_experiment *e;
    struct stopper s = {.left = 50};
    must(veche_parse(text, "teams.yaml", &e));
    must(veche_start(e, &(veche_options){.folder = *state, .watch = stop_after, .ctx = &s}, &s.run));
    must_fail(veche_go(s.run), "stopped");
    char *path = text_of("%s", veche_run_folder(s.run));
    veche_close(s.run);
    must(veche_resume(path, NULL, &s.run));
    must(veche_go(s.run));
    assert_string_equal(outcome_of(s.run).sha, whole.sha);
    veche_close(s.run);
    veche_experiment_free(e);
    free(path);
    free(text);
}

/* ---- what is refused ---- */

static void refused(const char *folder, const char *team, const char *rest, const char *words)
{
    veche_run *run;
    must_fail(start(folder, pictures("ref", team, 1, rest), &run), words);
}

static void what_cannot_be_is_refused_with_its_place(void **state)
{
    const char *f = *state;
    refused(f, "{kind: pipelin, size: 2}", "", "did you mean 'pipeline'?");
    refused(f, "pipeline", "", "the key 'size' is missing");
    refused(f, "{kind: pipeline, size: 0}", "", "team.size");
    refused(f, "{kind: pipeline, size: 2, microbatches: 12}", "", "a batch of 11 samples cannot be cut into 12");
    refused(f, "{kind: pipeline, size: 2, schedule: 1f1c}", "", "did you mean '1f1b'?");
    refused(f, "{kind: pipeline, size: 2, chunks: 2}", "", "team.chunks");
    refused(f, "{kind: pipeline, size: 2, schedule: interleaved}", "", "team.chunks");
    refused(f, "{kind: pipeline, size: 2, schedule: gpipe, warmup: 3}", "", "team.warmup");
    refused(f, "{kind: pipeline, size: 2, warmup: 100}", "", "teams.yaml:6:14: team.schedule: a warm-up of 100");
    refused(f, "{kind: pipeline, size: 2, cut: nowhere}", "", "the network has no layer 'nowhere'");
    refused(f, "{kind: pipeline, size: 3, cut: [\"6\", \"3\"]}", "", "does not come after");
    refused(f, "{kind: pipeline, size: 3, cut: \"6\"}", "", "3 parts begin at the first layer and at 2 others, and 1 is named");
    refused(f, "{kind: pipeline, size: 40}", "", "cannot be cut into 40 parts");
    refused(f, "{kind: pipeline, size: 2}", "machines: {speed: [1, 2, 3]}\n", "3 speeds for 1 agents with 2 machines each");
    refused(f, "{kind: pipeline, size: 2, schedule: \"file:/nowhere.csv\"}", "", "'/nowhere.csv' cannot be read");
    refused(f, "{kind: pipeline, size: 2, schedule: pipedream}", "", "not built yet");
    refused(f, "{kind: pipeline, size: 2}", "world: mpi\n", "");
}

static char *schedule_file(const char *folder, const char *text)
{
    char *path = text_of("%s/mine.csv", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void a_schedule_is_read_from_a_file(void **state)
{
    char *path = schedule_file(*state, "0F0,0F1,,,0B0,0B1\n,1F0,1F1,1B0,1B1,\n");
    char *team = text_of("{kind: pipeline, size: 2, microbatches: 2, schedule: \"file:%s\"}", path);
    struct outcome mine = play(*state, pictures("ref", team, 1, "machines: {rate: 100}\n"));
    struct outcome gpipe = play(*state, pictures("ref", "{kind: pipeline, size: 2, microbatches: 2, schedule: gpipe}", 1, "machines: {rate: 100}\n"));
    assert_string_equal(mine.sha, gpipe.sha);
    assert_true(fabs(mine.virtual_s - gpipe.virtual_s) <= 0);
    free(path);
    path = schedule_file(*state, "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
    refused(*state, team, "", "mine.csv");
    free(path);
    free(team);
}

/* ---- */

static int make_folder(void **state)
{
    char path[] = "/tmp/veche-test-XXXXXX";
    *state = strdup(mkdtemp(path));
    return *state ? 0 : 1;
}

static int clear_folder(void **state)
{
    char *command = text_of("rm -rf '%s'", (const char *)*state);
    int failed = system(command) != 0;
    free(command);
    free(*state);
    return failed;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, clear_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_team_learns_what_one_machine_learns_that_gathers_gradients),
        IN_FOLDER(a_team_of_one_is_an_agent),
        IN_FOLDER(every_method_learns_over_teams),
        IN_FOLDER(teams_send_each_other_as_many_bytes_as_machines),
        IN_FOLDER(a_round_takes_what_the_formula_says),
        IN_FOLDER(the_cut_that_is_found_suits_the_machines),
        IN_FOLDER(a_run_of_teams_goes_on_to_the_same_bits),
        IN_FOLDER(what_cannot_be_is_refused_with_its_place),
        IN_FOLDER(a_schedule_is_read_from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
