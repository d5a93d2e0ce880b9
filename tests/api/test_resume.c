/* Runs that go on: what may change meanwhile, what may not, and that both are told. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "experiment/experiment.h"
#include "record/scratch.h"
#include "support/data_files.h"
#include "veche.h"

#define EXPERIMENT                                                                                           \
    "name: exp\n"                                                                                            \
    "data: {set: {kind: blobs, classes: 3, features: 4, samples: 120, test_samples: 30}, batch: 5}\n"        \
    "model: [{linear: {out: 6}}, relu, {linear: {out: 3}}]\n"                                                \
    "optim: {kind: sgd, lr: 0.05, momentum: 0.9, schedule: {kind: step, epochs: [3]}}\n"                     \
    "engine: {kind: ref, threads: 1}\n"                                                                      \
    "agents: 4\n"                                                                                            \
    "topology: cycle:4\n"                                                                                    \
    "machines: {rate: 500, speed: [1, 1, 1, 0.25]}\n"                                                        \
    "network: {latency_ms: 1, bandwidth_mbps: 100}\n"                                                        \
    "strategy: consensus\n"                                                                                  \
    "train: {epochs: 2, seed: 3}\n"

static void check(veche_fault *f)
{
    if (f)
        fail_msg("a fault: %s", veche_fault_text(f));
}

static void check_fault(veche_fault *f, const char *words)
{
    if (!f || !strstr(veche_fault_text(f), words))
        fail_msg("'%s' is not in: %s", words, f ? veche_fault_text(f) : "no fault");
    veche_fault_free(f);
}

/* Trains to the end and leaves the digest of the parameters. */
static void train(veche_run *r, char hash[65])
{
    char *json;
    check(veche_go(r));
    check(veche_summary(r, &json));
    static const char key[] = "\"params_sha256\": \"";
    memcpy(hash, strstr(json, key) + strlen(key), 64);
    hash[64] = 0;
    free(json);
    veche_close(r);
}

static void run(const char *folder, const char *const *overrides, size_t n, char hash[65])
{
    veche_experiment *e;
    veche_run *r;
    check(veche_parse(EXPERIMENT, "exp.yaml", &e));
    for (size_t i = 0; i < n; i++)
        check(veche_override(e, overrides[i]));
    check(veche_start(e, &(veche_options){.folder = folder}, &r));
    veche_experiment_free(e);
    train(r, hash);
}

static void resume(const char *path, const char *override, char hash[65])
{
    veche_run *r;
    check(veche_resume_with(path, &override, override != NULL, NULL, &r));
    train(r, hash);
}

static void replace_in(const char *path, const char *was, const char *is)
{
    size_t n;
    char *text = slurp(path, &n), *at = strstr(text, was);
    if (!at)
        fail_msg("%s has no '%s'", path, was);
    memmove(at + strlen(is), at + strlen(was), strlen(at + strlen(was)) + 1);
    memcpy(at, is, strlen(is));
    spit(path, text, strlen(text));
    free(text);
}

static bool stands_in(const char *path, const char *words)
{
    size_t n;
    char *text = slurp(path, &n);
    bool yes = strstr(text, words);
    free(text);
    return yes;
}

/* ---- going on for longer ---- */

static const char *const strategies[] = {"strategy=consensus",
                                         "strategy=gossip",
                                         "strategy=adpsgd",
                                         "strategy=allreduce",
                                         "strategy={kind: allreduce, backups: 1}",
                                         "strategy=ps",
                                         "strategy={kind: ps, mode: async}",
                                         "strategy={kind: ps, mode: ssp}",
                                         "strategy={kind: average, tau: 7}",
                                         "strategy=easgd",
                                         "strategy=admm"};

static void a_run_that_goes_on_for_longer_is_as_if_it_had_been_asked_to_at_first(void **state)
{
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        char folder[32], longer[65], first[65], then[65];
        const char *const asked[] = {strategies[i], "train.epochs=4"};
        snprintf(folder, sizeof folder, "%zu", i);
        run(in(*state, folder), asked, 2, longer);
        run(in(*state, folder), asked, 1, first);
        const char *path = strdup(in(in(*state, folder), "exp-2"));
        resume(path, "train.epochs=4", then);
        assert_string_equal(then, longer);
        assert_string_not_equal(then, first);
        assert_true(stands_in(in(path, "events.jsonl"), "train.epochs is '4' from here on, not '2'"));
        assert_true(stands_in(in(path, "experiment.yaml"), "\n  epochs: 4\n"));
        resume(path, NULL, then); /* the folder tells all there is to know */
        assert_string_equal(then, longer);
        free((char *)path);
    }
}

static void a_run_may_end_sooner_but_not_before_where_it_is(void **state)
{
    char sooner[65], hash[65];
    const char *const asked[] = {"train.epochs=1.5"};
    veche_run *r;
    const char *past = "train.epochs=0.5";
    run(*state, asked, 1, sooner);
    run(*state, NULL, 0, hash);
    resume(in(*state, "exp-2"), asked[0], hash);
    assert_string_equal(hash, sooner);
    check_fault(veche_resume_with(in(*state, "exp-2"), &past, 1, NULL, &r),
                "train.epochs=0.5: the run has come further than that");
}

static void a_schedule_that_is_spread_over_all_epochs_keeps_their_number(void **state)
{
    char hash[65], again[65];
    const char *const cosine[] = {"optim.schedule=cosine"}, *longer = "train.epochs=4";
    veche_run *r;
    run(*state, cosine, 1, hash);
    check_fault(veche_resume_with(in(*state, "exp"), &longer, 1, NULL, &r),
                "train.epochs cannot become '4': the run was begun with '2', and the schedule of the "
                "learning rate is spread");
    resume(in(*state, "exp"), "train.keep=3", again);
    assert_string_equal(hash, again);
}

static void a_run_that_kept_only_its_end_says_why_it_cannot_go_on_for_longer(void **state)
{
    char hash[65];
    const char *const never[] = {"train.checkpoint_every=never"}, *longer = "train.epochs=4";
    veche_run *r;
    run(*state, never, 1, hash);
    check_fault(veche_resume_with(in(*state, "exp"), &longer, 1, NULL, &r),
                "in all its checkpoints some agent had come to its last round");
}

/* Killed after the folder told of a change, and before a checkpoint did. */
static void a_change_that_was_interrupted_is_not_forgotten(void **state)
{
    char longer[65], hash[65], checkpoint[1100];
    const char *const asked[] = {"train.epochs=4"};
    size_t n, m;
    run(*state, asked, 1, longer);
    run(*state, NULL, 0, hash);
    const char *path = in(*state, "exp-2");
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-00000006.safetensors", path);
    char *was = slurp(checkpoint, &n);
    veche_run *r;
    check(veche_resume_with(path, asked, 1, NULL, &r));
    char *told = slurp(in(path, "experiment.yaml"), &m);
    veche_close(r);
    spit(checkpoint, was, n);
    assert_non_null(strstr(told, "\n  epochs: 4\n"));
    resume(path, NULL, hash);
    assert_string_equal(hash, longer);
    free(was);
    free(told);
}

/* ---- what may change, what may not ---- */

static void what_changes_no_bits_may_change_and_is_noted(void **state)
{
    static const char *const may[][2] = {
        {"train.evaluate_every=1 rounds", "train.evaluate_every is '1 round' from here on, not '1 epoch'"},
        {"train.checkpoint_every=5 rounds", "train.checkpoint_every is '5 rounds' from here on"},
        {"train.keep=7", "train.keep is '7' from here on, not '2'"},
        {"engine.threads=2", "engine.threads is '2' from here on, not '1'"}};
    char hash[65], again[65];
    run(*state, NULL, 0, hash);
    const char *path = in(*state, "exp");
    for (size_t i = 0; i < sizeof may / sizeof *may; i++) {
        assert_int_equal(unlink(in(path, "checkpoint-00000012.safetensors")),
                         0); /* something is left to do */
        resume(path, may[i][0], again);
        assert_string_equal(hash, again);
        if (!stands_in(in(path, "events.jsonl"), may[i][1]))
            fail_msg("the events do not tell: %s", may[i][1]);
    }
}

/* Killed after its eighth round, in batches of 3 and 2: batchnorm's statistics and dropout's masks are those of the micro-batches. */
static void a_run_that_accumulates_goes_on_to_the_same_bits(void **state)
{
    char hash[65], again[65], uncut[65];
    const char *const asked[] = {
        "train.checkpoint_every=4 rounds", "strategy={kind: allreduce, bucket_kb: 0.05}",
        "model=[{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, {linear: {out: 3}}]",
        "train.accumulate=2"};
    run(*state, asked, 3, uncut);
    run(*state, asked, 4, hash);
    assert_string_not_equal(hash, uncut);
    assert_int_equal(unlink(in(in(*state, "exp-2"), "checkpoint-00000012.safetensors")), 0);
    resume(in(*state, "exp-2"), NULL, again);
    assert_string_equal(hash, again);
}

static const char *const may_not[][3] = {
    /* the override, an edit of the file, the key that is named */
    {"train.seed=4", "seed: 3|seed: 4", "train.seed"},
    {"optim.lr=0.1", "lr: 0.05|lr: 0.1", "optim.lr"},
    {"optim.schedule.epochs=[1]", "epochs: [3]|epochs: [1]", "optim.schedule.epochs"},
    {"train.accumulate=2", "accumulate: 1|accumulate: 2", "train.accumulate"},
    {"data.batch=6", "batch: 5|batch: 6", "data.batch"},
    {"data.set.samples=121", " samples: 120| samples: 121", "data.set.samples"},
    {"model.0.linear.out=7", "out: 6|out: 7", "model.0.linear.out"},
    {"strategy.every=2", "  every: 1|  every: 2", "strategy.every"},
    {"machines.rate=400", "rate: 500|rate: 400", "machines.rate"},
    {"network.latency_ms=2", "latency_ms: 1|latency_ms: 2", "network.latency_ms"},
    {"network.patience_s=2", "patience_s: 60|patience_s: 2", "network.patience_s"},
    {"topology=complete:4", "cycle:4|complete:4", "topology.graph"},
    {"engine.precision=bf16", "precision: fp32|precision: bf16", "engine.precision"},
    {"events=[{at_s: 1, crash: 1}]", "network:\n|events: [{at_s: 1, crash: 1}]\nnetwork:\n", "events"},
    {"name=other", "name: exp|name: other", "name"},
};

static void what_was_learnt_from_may_not_change(void **state)
{
    char hash[65], words[96];
    veche_run *r;
    run(*state, NULL, 0, hash);
    const char *path = strdup(in(*state, "exp"));
    for (size_t i = 0; i < sizeof may_not / sizeof *may_not; i++) {
        snprintf(words, sizeof words, "exp: %s cannot become '", may_not[i][2]);
        check_fault(veche_resume_with(path, &may_not[i][0], 1, NULL, &r), words);
    }
    const char *const two[] = {"train.seed=4", "data.batch=6"}; /* of several the first in the file */
    check_fault(veche_resume_with(path, two, 2, NULL, &r), "exp: data.batch cannot become '6'");
    const char *engine = "engine.kind=null";
    check_fault(veche_resume_with(path, &engine, 1, NULL, &r),
                "engine.kind: the run was trained by the engine 'ref' so far, and would be by 'null'");
    assert_false(stands_in(in(path, "events.jsonl"), "from here on"));
    resume(path, NULL, hash);
    free((char *)path);
}

static void an_edited_experiment_is_refused_and_the_setting_named(void **state)
{
    char hash[65], again[65], words[96];
    veche_run *r;
    size_t n;
    run(*state, NULL, 0, hash);
    const char *path = strdup(in(*state, "exp")), *file = strdup(in(path, "experiment.yaml"));
    char *text = slurp(file, &n);
    for (size_t i = 0; i < sizeof may_not / sizeof *may_not; i++) {
        char was[64], is[64];
        assert_int_equal(sscanf(may_not[i][1], "%63[^|]|%63[^|]", was, is), 2);
        replace_in(file, was, is);
        snprintf(words, sizeof words, "experiment.yaml: was edited: %s is '", may_not[i][2]);
        check_fault(veche_resume(path, NULL, &r), words);
        spit(file, text, n);
    }
    replace_in(file, "seed: 3", "seed: 4");
    replace_in(file, "batch: 5", "batch: 6");
    check_fault(veche_resume(path, NULL, &r), "experiment.yaml: was edited: data.batch is '6'");
    spit(file, text, n);
    replace_in(file, "\n  epochs: 2\n", "\n  epochs: 3\n");
    check_fault(veche_resume(path, NULL, &r), "put that back, and go on by: veche resume ");
    spit(file, text, n);
    replace_in(file, "kind: sgd", "kind: adam");
    check_fault(veche_resume(path, NULL, &r), "the run's experiment was edited: ");
    spit(file, text, n);
    replace_in(file, "# veche", "# my own words\n# veche"); /* no setting has changed */
    resume(path, NULL, again);
    assert_string_equal(hash, again);
    assert_false(stands_in(file, "my own words"));
    free(text);
    free((char *)path);
    free((char *)file);
}

/* ---- data ---- */

static void put_bytes(const char *path, struct bytes b)
{
    spit(path, b.at, b.n);
    free(b.at);
}

static void other_samples_are_refused_wherever_the_files_lie(void **state)
{
    static const char *const names[] = {"ti", "tl", "ei", "el"};
    static const char *const keys[] = {"train_images", "train_labels", "test_images", "test_labels"};
    char set[1024], moved[1100], hash[65], again[65];
    veche_run *r;
    const char *folder = strdup(*state);
    put_bytes(in(folder, "ti"), make_idx_images(40, 3, 3));
    put_bytes(in(folder, "tl"), make_idx_labels(40, 3));
    put_bytes(in(folder, "ei"), make_idx_images(20, 3, 3));
    put_bytes(in(folder, "el"), make_idx_labels(20, 3));
    snprintf(set, sizeof set, "data.set={kind: idx, classes: 3, %s: %s/ti, %s: %s/tl, %s: %s/ei, %s: %s/el}",
             keys[0], folder, keys[1], folder, keys[2], folder, keys[3], folder);
    const char *const asked[] = {set};
    run(folder, asked, 1, hash);
    const char *path = strdup(in(folder, "exp"));
    for (size_t i = 0; i < 4; i++) {
        size_t n;
        char *bytes = slurp(in(folder, names[i]), &n);
        bytes[n - 1] ^= 1;
        spit(in(folder, names[i]), bytes, n);
        check_fault(veche_resume(path, NULL, &r),
                    "exp: data.set: these are not the samples the run was trained on so far");
        bytes[n - 1] ^= 1;
        spit(in(folder, names[i]), bytes, n);
        free(bytes);
    }
    assert_int_equal(rename(in(folder, "ti"), in(folder, "elsewhere")), 0);
    snprintf(moved, sizeof moved, "data.set.train_images=%s/elsewhere", folder);
    resume(path, moved, again);
    assert_string_equal(hash, again);
    free((char *)path);
    free((char *)folder);
}

/* ---- differences ---- */

static void differences_are_found_in_order_and_by_their_whole_names(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct change *c;
    size_t n;
    assert_ok(experiment_changes("a: 1\nb: {c: [1, 2], d: [{e: 1}, {e: 2}]}\nf: x\n",
                                 "a: 1\nb: {c: [1, 3], d: [{e: 1}, {e: 3}]}\ng: {h: 1}\n", &arena, &c, &n));
    static const char *const expected[][3] = {
        {"b.c", "[1, 2]", "[1, 3]"}, {"b.d.1.e", "2", "3"}, {"f", "x", ""}, {"g", "", "{h: 1}"}};
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(c[i].key, expected[i][0]);
        assert_string_equal(c[i].was, expected[i][1]);
        assert_string_equal(c[i].is, expected[i][2]);
    }
    free(c);
    assert_ok(experiment_changes("a: {b: [1, 2]}\n", "a: {b: [1, 2]}\n", &arena, &c, &n));
    assert_int_equal(n, 0);
    free(c);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_found_in_order_and_by_their_whole_names),
        SCRATCH(a_run_that_goes_on_for_longer_is_as_if_it_had_been_asked_to_at_first),
        SCRATCH(a_run_may_end_sooner_but_not_before_where_it_is),
        SCRATCH(a_schedule_that_is_spread_over_all_epochs_keeps_their_number),
        SCRATCH(a_run_that_kept_only_its_end_says_why_it_cannot_go_on_for_longer),
        SCRATCH(a_change_that_was_interrupted_is_not_forgotten),
        SCRATCH(what_changes_no_bits_may_change_and_is_noted),
        SCRATCH(a_run_that_accumulates_goes_on_to_the_same_bits),
        SCRATCH(what_was_learnt_from_may_not_change),
        SCRATCH(an_edited_experiment_is_refused_and_the_setting_named),
        SCRATCH(other_samples_are_refused_wherever_the_files_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
