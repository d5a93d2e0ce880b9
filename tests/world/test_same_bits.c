/* Same seed, same bits: in wild worlds, on any number of threads, and however often a run is stopped and
 * resumed. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "support/cast.h"
#include "veche.h"

static const char *const strategies[] = {
    "{kind: consensus, mix_statistics: true}",
    "{kind: consensus, order: combine-then-adapt, mix_momentum: true}",
    "{kind: consensus, every: 2, learn_every: [1, 1, 2, 1, 3, 1]}",
    "{kind: gossip, mix_momentum: true}",
    "{kind: gossip, pairs: 3}",
    "adpsgd",
    "{kind: ps, tree: 2, replicate_every: 2}",
    "{kind: ps, servers: 2, replicate_every: 2}",
    "{kind: adpsgd, mix_statistics: true, mix_momentum: true}",
    "{kind: downpour, push_every: 2, pull_every: 3, replicate_every: 1}",
    "{kind: ps, mode: ssp, staleness: 2, staleness_aware: true, servers: 2, replicate_every: 3}",
    "{kind: average, tau: 3, momentum: 0.5, weights: data, mix_statistics: true, mix_momentum: true}",
    "{kind: average, tau: 2, algorithm: halving-doubling}",
    "{kind: easgd, mode: sync, every: 2}",
    "{kind: easgd, mode: async, every: 3, mix_statistics: true}",
    "{kind: admm, mode: sync, steps: 3, mix_statistics: true}",
    "{kind: admm, mode: async, steps: 2, barrier: 2, delay: 3}",
    "{kind: allreduce, bucket_kb: 0.1}",
    "{kind: allreduce, algorithm: tree, backups: 1}",
};
enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

/* Six machines of all speeds on thin wires; crashes, returns, cuts and a partition. */
static char *wild(const char *strategy, const char *engine, const char *saves, unsigned seed)
{
    return text_of(
        "name: wild\n"
        "data: {set: {kind: blobs, samples: 240, test_samples: 20}, batch: 4}\n"
        "model: [{linear: {out: 5}}, batchnorm, relu, {dropout: {rate: 0.2}}, {linear: {out: 3}}]\n"
        "optim: {kind: sgd, lr: 0.05, momentum: 0.9, schedule: {warmup_epochs: 1}}\n"
        "engine: %s\nstrategy: %s\nagents: 6\ntopology: {graph: \"exponential:6\", weights: metropolis}\n"
        "machines: {memory_gbps: 0.002, speed: {kind: lognormal, sigma: 0.7}, stragglers: {kind: random, "
        "chance: 0.1, factor: "
        "8}}\n"
        "network: {latency_ms: 1, bandwidth_mbps: 1, patience_s: 0.03, notice_s: 0.005}\n"
        "events:\n"
        "  - {at_s: 0.01, crash: 2}\n  - {at_s: 0.02, cut: [0, 1]}\n  - {at_s: 0.05, return: 2}\n"
        "  - {at_s: 0.06, partition: [[0, 1, 2], [3, 4]]}\n  - {at_s: 0.09, heal: all}\n"
        "  - random: {crash_every_s: 0.2, down_s: 0.03, cut_every_s: 0.2, cut_s: 0.02}\n"
        "train: {epochs: 3, accumulate: %u, seed: %u, evaluate_every: 5 rounds, checkpoint_every: %s}\n",
        engine, strategy, 1 + seed % 2, seed, saves);
}

/* ---- what was seen of a run ---- */

struct seen {
    char *log; /* owned: evaluations and notices, every figure to the last bit */
    size_t length, room;
    uint64_t events;
    uint64_t stop_after; /* events; 0: never */
    veche_run *run;
};

static void watch(void *ctx, const veche_event *e)
{
    struct seen *s = ctx;
    if (s->stop_after && ++s->events >= s->stop_after)
        veche_stop(s->run);
    if (e->kind != VECHE_EVALUATION && e->kind != VECHE_NOTICE)
        return;
    if (s->room - s->length < 512) {
        s->room = 2 * s->room + 4096;
        s->log = realloc(s->log, s->room);
        assert_non_null(s->log);
    }
    int n = e->kind == VECHE_NOTICE
                ? snprintf(s->log + s->length, 512, "%a: %.300s\n", e->virtual_s, e->text)
                : snprintf(s->log + s->length, 512, "%llu %a %a %a %a %a %a %a\n",
                           (unsigned long long)e->round, e->epoch, e->virtual_s, e->train_loss,
                           e->train_accuracy, e->loss, e->accuracy, e->disagreement);
    assert_true(n > 0 && n < 512);
    s->length += (size_t)n;
}

struct outcome {
    char hash[65], *log, *records; /* owned */
    uint64_t notes;
};

static void outcome_release(struct outcome *o)
{
    free(o->log);
    free(o->records);
}

static uint64_t number_in(const char *json, const char *key)
{
    const char *at = strstr(json, key);
    assert_non_null(at);
    return strtoull(at + strlen(key), NULL, 10);
}

static void leave_out(char *text, const char *key)
{
    for (char *at = text; (at = strstr(at, key));) {
        char *end = at + strcspn(at, ",}");
        memmove(at, end, strlen(end) + 1);
    }
}

/* events.jsonl without the seconds that passed in this room, and the digests of lines that tell of them. */
static char *records_of(const char *folder)
{
    char *path = text_of("%s/events.jsonl", folder), *text = calloc(1, 1 << 22);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(text, 1, (1 << 22) - 1, file);
    assert_true(n > 0 && n < (1 << 22) - 1);
    fclose(file);
    free(path);
    leave_out(text, "\"real_s\":");
    leave_out(text, "\"digest\":");
    return text;
}

static struct outcome outcome_of(veche_run *r, struct seen *s)
{
    struct outcome o = {.log = s->log, .records = records_of(veche_run_folder(r))};
    char *json = NULL;
    static const char key[] = "\"params_sha256\": \"";
    must(veche_summary(r, &json));
    const char *at = strstr(json, key);
    assert_non_null(at);
    memcpy(o.hash, at + strlen(key), 64);
    o.notes = number_in(json, "\"notes\": ");
    free(json);
    return o;
}

static const char *folder_of(void **state)
{
    return *state;
}

static void start(const char *folder, const char *text, struct seen *s)
{
    veche_experiment *e = NULL;
    must(veche_parse(text, "wild", &e));
    must(veche_start(e, &(veche_options){.folder = folder, .watch = watch, .ctx = s}, &s->run));
    veche_experiment_free(e);
}

static struct outcome undisturbed(const char *folder, const char *text)
{
    struct seen s = {0};
    start(folder, text, &s);
    must(veche_go(s.run));
    struct outcome o = outcome_of(s.run, &s);
    veche_close(s.run);
    return o;
}

/* Stopped after so many events each time, at most `stops` times. */
static struct outcome stopped(const char *folder, const char *text, uint64_t seed, int stops, int *made)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 6);
    struct seen s = {.stop_after = 1 + rng_below(&r, 60)};
    start(folder, text, &s);
    for (*made = 0;; ++*made) {
        veche_fault *f = veche_go(s.run);
        if (!f)
            break;
        assert_true(veche_fault_is_stop(f));
        veche_fault_free(f);
        char *path = strdup(veche_run_folder(s.run));
        veche_close(s.run);
        s.events = 0;
        s.stop_after = *made + 1 < stops ? 1 + rng_below(&r, 60) : 0;
        must(veche_resume(path, &(veche_options){.watch = watch, .ctx = &s}, &s.run));
        free(path);
    }
    struct outcome o = outcome_of(s.run, &s);
    veche_close(s.run);
    return o;
}

static void must_be_the_same(const struct outcome *a, const struct outcome *b)
{
    assert_string_equal(a->hash, b->hash);
    assert_string_equal(a->log, b->log);
    assert_string_equal(a->records, b->records);
    assert_int_equal(a->notes, b->notes);
}

/* ---- tests ---- */

static void a_run_can_be_repeated_on_any_number_of_threads(void **state)
{
    static const char *const engines[] = {"{kind: ref, threads: 1}", "{kind: ref, threads: 1}",
                                          "{kind: ref, threads: 2}", "{kind: ref, threads: 3}"};
    for (size_t i = 0; i < N_STRATEGIES; i++) {
        struct outcome first = {0};
        for (size_t e = 0; e < 4; e++) {
            char *text = wild(strategies[i], engines[e], "never", 7);
            struct outcome o = undisturbed(folder_of(state), text);
            free(text);
            assert_true(o.notes > 10);
            if (e) {
                must_be_the_same(&first, &o);
                outcome_release(&o);
            } else {
                first = o;
            }
        }
        outcome_release(&first);
    }
}

static void the_usual_engine_keeps_its_bits_on_any_number_of_threads(void **state)
{
    static const char *const engines[] = {"{kind: auto, threads: 1}", "{kind: auto, threads: 2}",
                                          "{kind: auto, threads: 3}"};
    for (size_t i = 0; i < N_STRATEGIES; i += 3) {
        struct outcome first = {0};
        for (size_t e = 0; e < 3; e++) {
            char *text = wild(strategies[i], engines[e], "never", 7);
            struct outcome o = undisturbed(folder_of(state), text);
            free(text);
            if (e) {
                must_be_the_same(&first, &o);
                outcome_release(&o);
            } else {
                first = o;
            }
        }
        outcome_release(&first);
    }
}

static void another_seed_gives_other_bits(void **state)
{
    for (size_t i = 0; i < N_STRATEGIES; i++) {
        char *text = wild(strategies[i], "{kind: ref, threads: 1}", "never", 7);
        char *other = wild(strategies[i], "{kind: ref, threads: 1}", "never", 9);
        struct outcome a = undisturbed(folder_of(state), text);
        struct outcome b = undisturbed(folder_of(state), other);
        assert_string_not_equal(a.hash, b.hash);
        assert_string_not_equal(a.log, b.log);
        outcome_release(&a);
        outcome_release(&b);
        free(text);
        free(other);
    }
}

static void a_stopped_run_goes_on_as_if_it_had_not_been(void **state)
{
    static const char *const saves[] = {"never", "7 rounds", "1 epoch"};
    enum { WORLDS = 84 };
    int total = 0;
    for (unsigned seed = 0; seed < WORLDS; seed++) {
        const char *strategy = strategies[seed % N_STRATEGIES];
        char *text = wild(strategy, "{kind: ref, threads: 1}", "never", seed);
        struct outcome calm = undisturbed(folder_of(state), text);
        free(text);
        for (int i = 0; i < 3; i++) {
            int stops;
            text = wild(strategy, "{kind: ref, threads: 1}", saves[i], seed);
            struct outcome o = stopped(folder_of(state), text, 10 * seed + (unsigned)i, 1 + 4 * i, &stops);
            free(text);
            total += stops;
            must_be_the_same(&calm, &o);
            outcome_release(&o);
        }
        outcome_release(&calm);
    }
    assert_true(total > 4 * WORLDS);
}

static void a_run_that_was_killed_goes_back_to_its_last_checkpoint(void **state)
{
    for (size_t i = 0; i < N_STRATEGIES; i++) {
        char *text = wild(strategies[i], "{kind: ref, threads: 1}", "7 rounds", 7);
        struct outcome calm = undisturbed(folder_of(state), text);
        struct seen s = {.stop_after = 30 + 5 * i};
        start(folder_of(state), text, &s);
        veche_fault *f = veche_go(s.run);
        assert_true(veche_fault_is_stop(f));
        veche_fault_free(f);
        char *path = strdup(veche_run_folder(s.run));
        veche_close(s.run);
        /* as if the last save had never been: the newest checkpoint is gone, the records are ahead */
        char *command =
            text_of("cd '%s' && [ $(ls checkpoint-* | wc -l) -gt 1 ] && rm \"$(ls checkpoint-* | sort "
                    "| tail -1)\"",
                    path);
        int removed = system(command) == 0;
        free(command);
        s.stop_after = 0;
        must(veche_resume(path, &(veche_options){.watch = watch, .ctx = &s}, &s.run));
        must(veche_go(s.run));
        struct outcome o = outcome_of(s.run, &s);
        veche_close(s.run);
        assert_string_equal(calm.hash, o.hash);
        assert_string_equal(calm.records, o.records);
        assert_int_equal(calm.notes, o.notes);
        assert_true(removed);
        outcome_release(&o);
        outcome_release(&calm);
        free(path);
        free(text);
    }
}

/* Begun for half as long, and after its end asked to go on: with crashes, cuts and stragglers, too. */
static void a_run_that_goes_on_for_longer_meets_the_same_fate(void **state)
{
    const char *const longer[] = {"train.epochs=3"};
    for (size_t i = 0; i < N_STRATEGIES; i++) {
        char *text = wild(strategies[i], "{kind: ref, threads: 1}", "3 rounds", 7);
        struct outcome calm = undisturbed(folder_of(state), text);
        veche_experiment *e = NULL;
        struct seen s = {0};
        must(veche_parse(text, "wild", &e));
        must(veche_override(e, "train.epochs=1.5"));
        must(veche_override(e, "train.keep=100"));
        must(veche_start(e, &(veche_options){.folder = folder_of(state), .watch = watch, .ctx = &s}, &s.run));
        veche_experiment_free(e);
        must(veche_go(s.run));
        char *path = strdup(veche_run_folder(s.run));
        veche_close(s.run);
        must(veche_resume_with(path, longer, 1, &(veche_options){.watch = watch, .ctx = &s}, &s.run));
        must(veche_go(s.run));
        struct outcome o = outcome_of(s.run, &s);
        veche_close(s.run);
        assert_string_equal(calm.hash, o.hash);
        assert_int_equal(calm.notes + 1, o.notes); /* of the change */
        outcome_release(&o);
        outcome_release(&calm);
        free(path);
        free(text);
    }
}

/* What was measured is in the run's experiment: by that, and not by a second measurement, it goes on. */
static void a_measured_run_goes_on_by_what_it_measured(void **state)
{
    struct seen s = {.stop_after = 3};
    char *text =
        text_of("name: measured\ndata: {set: {kind: blobs, samples: 240, test_samples: 20}, batch: 4}\n"
                "model: mlp:5\noptim: {kind: adam, lr: 0.05}\nengine: {kind: ref, threads: 1}\n"
                "strategy: adpsgd\nagents: 6\ntopology: complete:6\n"
                "machines: {measured: 2, seconds: 0.02, speed: {kind: lognormal, sigma: 0.7}}\n"
                "train: {epochs: 3, evaluate_every: 5 rounds}\n");
    start(folder_of(state), text, &s);
    veche_fault *f = veche_go(s.run);
    assert_true(veche_fault_is_stop(f));
    veche_fault_free(f);
    char *path = strdup(veche_run_folder(s.run)), *file = text_of("%s/experiment.yaml", path);
    veche_close(s.run);
    s.stop_after = 0;
    must(veche_resume(path, &(veche_options){.watch = watch, .ctx = &s}, &s.run));
    must(veche_go(s.run));
    struct outcome o = outcome_of(s.run, &s);
    veche_close(s.run);
    veche_experiment *e;
    char *resolved;
    must(veche_load(file, &e));
    must(veche_print(e, &resolved));
    assert_non_null(strstr(resolved, "kind: given\n  rate: "));
    assert_null(strstr(resolved, "side_by_side"));
    struct outcome calm = undisturbed(folder_of(state), resolved);
    assert_string_equal(calm.hash, o.hash);
    veche_experiment_free(e);
    outcome_release(&calm);
    outcome_release(&o);
    free(resolved);
    free(file);
    free(path);
    free(text);
}

static int make_folder(void **state)
{
    bool in_memory =
        access("/dev/shm", W_OK) == 0; /* every stop is a save, and every save waits for the disk */
    char *folder = strdup(in_memory ? "/dev/shm/veche-bits-XXXXXX" : "/tmp/veche-bits-XXXXXX");
    *state = folder;
    return folder && mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static int remove_folder(void **state)
{
    nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

static void a_checkpoint_has_the_rows_that_last(void **state)
{
    (void)state;
    struct cast g;
    bool needed[64];
    cast_open(&g, TINY("consensus") "agents: 2\ntopology: path:2\n", 1);
    size_t n_rows = g.world->world.ops->n_rows(&g.world->world);
    assert_in_range(n_rows, g.n, 64);
    for (enum row row = 0; row < N_ROWS; row++) { /* nobody has a gradient yet */
        g.world->world.ops->rows_needed(&g.world->world, row, needed);
        for (size_t i = 0; i < g.n; i++)
            assert_int_equal(needed[i], row_lasts(row));
    }
    g.world->actors[1].has_gradient = true;
    local_rows_needed(g.world, ROW_GRADS, needed);
    assert_true(!needed[0] && needed[1]);
    local_rows_needed(g.world, ROW_INPUTS, needed);
    assert_true(!needed[0] && !needed[1]);
    cast_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_has_the_rows_that_last),
        cmocka_unit_test_setup_teardown(a_run_can_be_repeated_on_any_number_of_threads, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(the_usual_engine_keeps_its_bits_on_any_number_of_threads, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(another_seed_gives_other_bits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_stopped_run_goes_on_as_if_it_had_not_been, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_run_that_goes_on_for_longer_meets_the_same_fate, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_measured_run_goes_on_by_what_it_measured, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_run_that_was_killed_goes_back_to_its_last_checkpoint, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
