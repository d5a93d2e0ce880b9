/* The library as a C program sees it: through veche.h alone. */
#include "veche.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "support/comma.h"

static const char text[] = "name: tiny\n"
                           "data: { set: blobs, batch: 16 }\n"
                           "model: mlp:8\n"
                           "optim: { kind: sgd, lr: 0.1, momentum: 0.9 }\n"
                           "train: { epochs: 4 }\n"
                           "engine: ref\n";

struct seen {
    int progress, evaluations, checkpoints;
    veche_run *stop_this; /* at the first evaluation */
    uint64_t last_round;
};

static void watch(void *ctx, const veche_event *e)
{
    struct seen *s = ctx;
    s->progress += e->kind == VECHE_PROGRESS;
    s->evaluations += e->kind == VECHE_EVALUATION;
    s->checkpoints += e->kind == VECHE_CHECKPOINT;
    assert_true(e->round >= s->last_round);
    assert_true(e->round <= e->rounds);
    s->last_round = e->round;
    if (e->kind == VECHE_EVALUATION && s->stop_this)
        veche_stop(s->stop_this);
}

static void must(veche_fault *f)
{
    if (f)
        fail_msg("%s", veche_fault_text(f));
}

static char *folder_of(void **state)
{
    return *state;
}

static veche_experiment *parsed(void)
{
    veche_experiment *e = NULL;
    must(veche_parse(text, "tiny", &e));
    return e;
}

static veche_run *started(const char *folder, struct seen *seen)
{
    veche_experiment *e = parsed();
    veche_run *r = NULL;
    must(veche_start(e, &(veche_options){.folder = folder, .watch = watch, .ctx = seen}, &r));
    veche_experiment_free(e);
    return r;
}

static char *hash_of(const veche_run *r)
{
    char *json = NULL;
    must(veche_summary(r, &json));
    const char *key = "\"params_sha256\": \"", *at = strstr(json, key);
    assert_non_null(at);
    char *hash = strndup(at + strlen(key), 64);
    free(json);
    return hash;
}

static void an_experiment_runs_and_its_events_are_seen(void **state)
{
    struct seen seen = {0};
    veche_run *r = started(folder_of(state), &seen);
    must(veche_go(r));
    assert_int_equal(seen.progress, 150); /* 4 epochs of 600 samples in batches of 16 */
    assert_int_equal(seen.evaluations, 4);
    assert_true(seen.checkpoints >= 4);
    veche_close(r);
}

static void an_override_changes_the_experiment_and_a_bad_one_does_not(void **state)
{
    (void)state;
    veche_experiment *e = parsed();
    char *before = NULL, *after = NULL;
    must(veche_override(e, "optim.lr=0.25"));
    must(veche_print(e, &before));
    assert_non_null(strstr(before, "lr: 0.25"));
    veche_fault *f = veche_override(e, "optim.lr=fast");
    assert_non_null(f);
    assert_non_null(strstr(veche_fault_text(f), "optim.lr"));
    veche_fault_free(f);
    must(veche_print(e, &after));
    assert_string_equal(before, after);
    free(before);
    free(after);
    veche_experiment_free(e);
}

/* What is put over the file counts before anything is checked, in whatever order it stands. */
static void what_the_file_gets_wrong_can_be_put_right_from_outside(void **state)
{
    char path[256];
    snprintf(path, sizeof path, "%s/wrong.yaml", folder_of(state));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("data: { set: blobs, batch: 4 }\nmodel: mlp:8\noptim: { kind: sgd, lr: fast }\nagents: 5\ntopology: cycle:4\n"
          "strategy: consensus\ntrain: { epochs: 1 }\n", file);
    fclose(file);
    veche_experiment *e = NULL;
    const char *const right[] = {"agents=4", "optim.lr=0.5"}, *const wrong[] = {"optim.lr=0.5", "agents=four"};
    veche_fault *f = veche_load(path, &e);
    assert_non_null(f);
    veche_fault_free(f);
    must(veche_load_with(path, right, 2, &e));
    veche_experiment_free(e);
    f = veche_load_with(path, wrong, 2, &e);
    assert_non_null(f);
    assert_non_null(strstr(veche_fault_text(f), "command line: agents=four"));
    veche_fault_free(f);
}

static void a_stopped_run_goes_on_to_the_same_bits(void **state)
{
    struct seen calm_seen = {0}, seen = {0};
    veche_run *calm = started(folder_of(state), &calm_seen);
    must(veche_go(calm));

    veche_run *r = started(folder_of(state), &seen);
    seen.stop_this = r;
    veche_fault *f = veche_go(r);
    assert_true(veche_fault_is_stop(f));
    veche_fault_free(f);
    char *folder = strdup(veche_run_folder(r));
    veche_close(r);

    seen.stop_this = NULL;
    must(veche_resume(folder, &(veche_options){.watch = watch, .ctx = &seen}, &r));
    must(veche_go(r));
    char *a = hash_of(calm), *b = hash_of(r);
    assert_string_equal(a, b);
    assert_int_equal(seen.evaluations, calm_seen.evaluations);
    assert_int_equal(seen.progress, calm_seen.progress);
    free(a);
    free(b);
    free(folder);
    veche_close(r);
    veche_close(calm);
}

/* All that is written of a run, of a topology and of a network, as text. */
static char *everything_of(const char *run)
{
    char *all = NULL, *texts[12] = {0};
    size_t n = 0;
    veche_report *report = NULL;
    static const char *const formats[] = {"text", "json", "html", "svg:accuracy"};
    must(veche_report_read(&run, 1, &report));
    for (size_t i = 0; i < 4; i++)
        must(veche_report_print(report, formats[i], "epochs", &texts[i]));
    veche_report_free(report);
    must(veche_topology("small-world:12:4:0.5", NULL, 1, &texts[4], &texts[5], &texts[6]));
    must(veche_list(NULL, &texts[7]));
    veche_experiment *e = parsed();
    must(veche_print(e, &texts[8]));
    must(veche_graph(e, NULL, 0, &texts[9], &texts[10], &texts[11]));
    veche_experiment_free(e);
    FILE *out = open_memstream(&all, &n);
    for (size_t i = 0; i < 12; i++) {
        fputs(texts[i], out);
        free(texts[i]);
    }
    fclose(out);
    return all;
}

static void a_locale_with_a_decimal_comma_changes_no_file(void **state)
{
    struct seen seen = {0};
    veche_run *calm = started(folder_of(state), &seen), *r;
    must(veche_go(calm));
    char *run = strdup(veche_run_folder(calm)), *here = everything_of(run);

    enter_comma_locale();
    char *there = everything_of(run);
    assert_string_equal(here, there);
    struct seen stopped = {0};
    r = started(folder_of(state), &stopped);
    stopped.stop_this = r;
    veche_fault *f = veche_go(r);
    assert_true(veche_fault_is_stop(f));
    veche_fault_free(f);
    char *folder = strdup(veche_run_folder(r)), comma[8];
    veche_close(r);
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    assert_string_equal(comma, "0,5"); /* the program's own numbers are as they were */

    leave_comma_locale(); /* what was saved there is read here */
    stopped.stop_this = NULL;
    must(veche_resume(folder, &(veche_options){.watch = watch, .ctx = &stopped}, &r));
    must(veche_go(r));
    char *a = hash_of(calm), *b = hash_of(r);
    assert_string_equal(a, b);
    char *const owned[] = {run, here, there, folder, a, b};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    veche_close(r);
    veche_close(calm);
}

static void parameters_are_read_by_name(void **state)
{
    struct seen seen = {0};
    veche_run *r = started(folder_of(state), &seen);
    assert_int_equal(veche_parameter_size(r), 2 * 8 + 8 + 8 * 3 + 3);
    size_t total = 0;
    for (size_t i = 0; i < veche_parameter_count(r); i++) {
        veche_parameter p = veche_parameter_at(r, i);
        size_t size = 1;
        for (size_t d = 0; d < p.n_dims; d++)
            size *= p.dims[d];
        assert_int_equal(p.offset, total);
        assert_int_equal(p.size, size);
        total += size;
    }
    assert_int_equal(total, veche_parameter_size(r));
    float *before = calloc(total, sizeof *before), *after = calloc(total, sizeof *after);
    must(veche_read_parameters(r, 0, before));
    must(veche_go(r));
    must(veche_read_parameters(r, 0, after));
    assert_memory_not_equal(before, after, total * sizeof *before);
    veche_fault *f = veche_read_parameters(r, 1, after);
    assert_non_null(f);
    veche_fault_free(f);
    free(before);
    free(after);
    veche_close(r);
}

static void two_experiments_live_in_one_process(void **state)
{
    struct seen one = {0}, other = {0};
    veche_run *a = started(folder_of(state), &one), *b = started(folder_of(state), &other);
    must(veche_go(b));
    must(veche_go(a));
    char *hash_a = hash_of(a), *hash_b = hash_of(b);
    assert_string_equal(hash_a, hash_b);
    assert_string_not_equal(veche_run_folder(a), veche_run_folder(b));
    free(hash_a);
    free(hash_b);
    veche_close(a);
    veche_close(b);
}

static void bad_texts_are_faults_with_their_source(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "name: [", "- a\n- b\n", "name: x\nfoo: 1\n", "just words"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        veche_experiment *e = NULL;
        veche_fault *f = veche_parse(bad[i], "somewhere", &e);
        assert_non_null(f);
        assert_null(e);
        assert_memory_equal(veche_fault_text(f), "somewhere", 9);
        assert_false(veche_fault_is_stop(f));
        veche_fault_free(f);
    }
}

static void every_list_and_every_layer_is_described(void **state)
{
    (void)state;
    static const char *const lists[] = {"sets",       "models",  "layers", "optimisers", "schedules",
                                        "strategies", "engines", "worlds", "settings",   NULL};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *list = NULL;
        must(veche_list(lists[i], &list));
        assert_true(strlen(list) > 20);
        free(list);
    }
    veche_experiment *e = parsed();
    char *layers = NULL;
    must(veche_describe_model(e, &layers));
    assert_non_null(strstr(layers, "linear"));
    free(layers);
    veche_experiment_free(e);
}

static int make_folder(void **state)
{
    char pattern[] = "/tmp/veche-api-XXXXXX";
    *state = mkdtemp(pattern) ? strdup(pattern) : NULL;
    return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    int failed = system(command);
    free(*state);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_experiment_runs_and_its_events_are_seen),
        cmocka_unit_test(an_override_changes_the_experiment_and_a_bad_one_does_not),
        cmocka_unit_test(what_the_file_gets_wrong_can_be_put_right_from_outside),
        cmocka_unit_test(a_stopped_run_goes_on_to_the_same_bits),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_no_file),
        cmocka_unit_test(parameters_are_read_by_name),
        cmocka_unit_test(two_experiments_live_in_one_process),
        cmocka_unit_test(bad_texts_are_faults_with_their_source),
        cmocka_unit_test(every_list_and_every_layer_is_described),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
