/* Numbers that decide: right, of the rows as they were when they were asked for, and the same in every life of a run. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "record/tensors.h"
#include "support/asking.h"
#include "support/cast.h"
#include "veche.h"

/* ---- what a number is ---- */

/* As TINY, with a second row that may be asked about at any time. */
#define WITH_SLOT                                                                                            \
    "data: {set: {kind: blobs, classes: 2, features: 16, samples: 60, test_samples: 10}, batch: 1}\n"        \
    "model: logistic\noptim: {kind: sgd, lr: 0.1, momentum: 0.5}\nengine: {kind: ref, threads: "             \
    "1}\nstrategy: single\n"

static void put(struct cast *g, enum row row, size_t agent, const float *floats)
{
    must(g->run->engine->ops->write(g->run->engine, row, agent, floats));
}

static fault asks_about_spans(struct agent *a)
{
    struct cast *g = cast_of_agent(a);
    double *answers = g->ctx;
    TRY(agent_combine(a, ROW_GRADS, (struct term[]){{1, ROW_SLOT, NULL, 0}}, 1));
    const size_t ends[][2] = {{0, TO_END}, {0, 34}, {3, 20}, {7, 7}, {33, 34}};
    for (size_t i = 0; i < 5; i++)
        TRY(link_number(a->link,
                        &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_GRADS, ends[i][0], ends[i][1], 0},
                        &answers[i]));
    TRY(agent_norm(a, ROW_PARAMS, &answers[5]));
    return OK;
}

/* Of rows on the host, or on a device that has no place for them here. */
static void product_is_right(bool on_device)
{
    struct cast g;
    float x[34], y[34];
    double answers[6], sum = 0, part = 0, square = 0;
    cast_open(&g, WITH_SLOT, 1);
    for (size_t i = 0; i < 34; i++) {
        x[i] = (float)i - 12; /* small whole numbers: every sum is exact, in any order */
        y[i] = (float)(i % 5) - 1.5f;
        sum += (double)x[i] * y[i];
        square += (double)x[i] * x[i];
        part += i >= 3 && i < 20 ? (double)x[i] * y[i] : 0;
    }
    put(&g, ROW_PARAMS, 0, x);
    put(&g, ROW_SLOT, 0, y);
    g.ctx = answers;
    cast_run_instead(&g, asks_about_spans);
    struct engine_ops device = *g.run->engine->ops;
    const struct engine_ops *host = g.run->engine->ops;
    device.floats = on_device ? NULL : device.floats;
    g.run->engine->ops = &device;
    cast_play(&g);
    g.run->engine->ops = host;
    const double want[] = {sum, sum, part, 0, (double)x[33] * y[33], sqrt(square)};
    for (size_t i = 0; i < 6; i++)
        assert_true(answers[i] == want[i]);
    cast_close(&g);
}

static void a_product_is_that_of_a_double_loop(void **state)
{
    (void)state;
    product_is_right(false);
}

static void rows_on_a_device_are_read_back(void **state)
{
    (void)state;
    product_is_right(true);
}

/* Between the question and the answer another agent, at the same moment, changes the rows. */
static fault asks_while_another_averages(struct agent *a)
{
    double *answers = cast_of_agent(a)->ctx;
    if (a->index == 0)
        TRY(agent_norm(a, ROW_PARAMS, &answers[0]));
    if (a->index == 1)
        TRY(link_average(a->link, 0, ROWS_PARAMS));
    if (a->index == 0)
        TRY(agent_norm(a, ROW_PARAMS, &answers[1]));
    return OK;
}

static void a_number_is_of_the_rows_as_they_were_when_it_was_asked_for(void **state)
{
    (void)state;
    struct cast g;
    float two[34], four[34];
    double answers[2];
    cast_open(&g, TINY("deaf") "agents: 2\n", 1);
    for (size_t i = 0; i < 34; i++)
        two[i] = 2, four[i] = 4;
    put(&g, ROW_PARAMS, 0, two);
    put(&g, ROW_PARAMS, 1, four);
    g.ctx = answers;
    cast_run_instead(&g, asks_while_another_averages);
    cast_play(&g);
    assert_true(answers[0] == sqrt(34 * 4.0) && answers[1] == sqrt(34 * 9.0));
    cast_close(&g);
}

static fault asks_in_vain(struct agent *a)
{
    double x;
    must_fail(agent_loss(a, &x), "agent 0 asks for the loss of a lesson before its first");
    must_fail(link_number(a->link, &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_PARAMS, 0, 35, 0}, &x),
              "agent 0 asks for the floats [0, 35) of its parameters and [0, 35) of its parameters, which "
              "have 34 and 34");
    must_fail(link_number(a->link, &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_PARAMS, 9, 8, 0}, &x),
              "the floats [9, 8)");
    must_fail(agent_dot(a, ROW_PARAMS, ROW_KEPT, &x),
              "its parameters and [0, 34) of its row that is not there, which have 34 and 0");
    TRY(agent_begin(a));
    must_fail(agent_norm(a, ROW_GRADS, &x), "the lesson under way decides: await it first");
    TRY(agent_norm(a, ROW_PARAMS, &x));
    TRY(agent_await(a, 0));
    TRY(agent_loss(a, &x));
    assert_true(x == a->loss && x > 0);
    TRY(agent_norm(a, ROW_GRADS, &x));
    TRY(agent_update(a));
    must_fail(agent_norm(a, ROW_GRADS, &x),
              "agent 0 asks about its gradient before it has learnt in this round, or after a step");
    return OK;
}

static void a_question_that_has_no_answer_is_a_sentence(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, TINY("single"), 1);
    cast_run_instead(&g, asks_in_vain);
    cast_play(&g);
    cast_close(&g);
}

static fault asks_for_what_is_infinite(struct agent *a)
{
    double x;
    return agent_norm(a, ROW_PARAMS, &x);
}

static void nothing_is_decided_by_what_is_not_finite(void **state)
{
    (void)state;
    struct cast g;
    float x[34] = {[5] = INFINITY};
    cast_open(&g, TINY("single"), 1);
    put(&g, ROW_PARAMS, 0, x);
    cast_run_instead(&g, asks_for_what_is_infinite);
    must_fail(cast_go(&g), "the product of its parameters and its parameters that agent 0 decides by is "
                           "infinite: training has diverged");
    cast_close(&g);
}

static fault asks_about_one_row_and_two(struct agent *a)
{
    double x, *times = cast_of_agent(a)->ctx;
    TRY(agent_norm(a, ROW_PARAMS, &x));
    times[0] = link_now_s(a->link);
    TRY(agent_dot(a, ROW_PARAMS, ROW_SLOT, &x));
    times[1] = link_now_s(a->link);
    return OK;
}

static void a_number_takes_the_time_in_which_memory_reads_its_rows(void **state)
{
    (void)state;
    struct cast g;
    double times[2];
    cast_open(&g, WITH_SLOT "machines: {memory_gbps: 0.001}\n", 1);
    g.ctx = times;
    cast_run_instead(&g, asks_about_one_row_and_two);
    cast_play(&g);
    assert_true(fabs(times[0] - 34 * 4 / 1e6) < 1e-15);
    assert_true(fabs(times[1] - 3 * 34 * 4 / 1e6) < 1e-15);
    cast_close(&g);
}

/* Down and up again before the moment is over at which it asked: the first question is asked by nobody any more. */
static fault asks_and_crashes(struct agent *a)
{
    double *answers = cast_of_agent(a)->ctx;
    if (a->index == 0 && !a->has_been_down) {
        fault f = agent_dot(a, ROW_PARAMS, ROW_PARAMS, &answers[0]);
        assert_true(f && fault_kind_of(f) == FAULT_CRASH);
        return f;
    }
    return a->index == 0 ? agent_norm(a, ROW_PARAMS, &answers[1]) : link_sleep(a->link, 1);
}

static void who_crashes_before_the_answer_is_told_in_its_next_life_only(void **state)
{
    (void)state;
    struct cast g;
    float two[34], four[34];
    double answers[2] = {-1, -1};
    size_t n;
    cast_open(&g, TINY("deaf") "agents: 2\nevents: [{at_s: 0, crash: 0}, {at_s: 0, return: 0}]\n", 1);
    for (size_t i = 0; i < 34; i++)
        two[i] = 2, four[i] = 4;
    put(&g, ROW_PARAMS, 0, two);
    put(&g, ROW_PARAMS, 1, four); /* who returns takes over its peer's */
    g.ctx = answers;
    cast_run_instead(&g, asks_and_crashes);
    cast_play(&g);
    assert_true(answers[0] == -1 && answers[1] == sqrt(34 * 16.0));
    assert_true(local_numbers(g.world, 0, &n)[0] == 34 * 16 && n == 1);
    cast_close(&g);
}

/* ---- what it costs ---- */

static struct engine_ops counted; /* of a test's own engine; tests run one after the other */
static const struct engine_ops *uncounted;
static size_t n_learn, n_update, n_mix;

static fault count_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    n_learn++;
    return uncounted->learn(e, lessons, n);
}

static fault count_update(struct engine *e, const struct update *updates, size_t n)
{
    n_update++;
    return uncounted->update(e, updates, n);
}

static fault count_mix(struct engine *e, const struct blend *blends, size_t n)
{
    n_mix++;
    return uncounted->mix(e, blends, n);
}

static void count_calls(const char *strategy, size_t rounds)
{
    struct cast g;
    char *text = text_of(TINY("%s") "agents: 4\ntopology: cycle:4\n", strategy);
    cast_open(&g, text, (int)rounds);
    free(text);
    uncounted = g.run->engine->ops;
    counted = *uncounted;
    counted.learn = count_learn, counted.update = count_update, counted.mix = count_mix;
    g.run->engine->ops = &counted;
    n_learn = n_update = n_mix = 0;
    cast_play(&g);
    g.run->engine->ops = uncounted;
    cast_close(&g);
}

/* As many calls of the engine as there were before anybody could ask: one for all lessons of a round, one for all steps, one for
 * all sums. */
static void where_nobody_asks_nothing_is_computed_in_other_pieces(void **state)
{
    (void)state;
    count_calls("consensus", 10);
    assert_int_equal(n_learn, 10);
    assert_int_equal(n_update, 10);
    count_calls("deaf", 10);
    assert_int_equal(n_learn, 10);
    assert_int_equal(n_update, 10);
}

static fault learns_and_asks(struct agent *a)
{
    while (agent_goes_on(a)) {
        double norm;
        TRY(agent_learn(a));
        TRY(agent_norm(a, ROW_GRADS, &norm));
        TRY(agent_update(a));
        TRY(agent_end_round(a));
    }
    return OK;
}

static void those_who_ask_at_one_moment_learn_side_by_side(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, TINY("deaf") "agents: 4\n", 10);
    cast_run_instead(&g, learns_and_asks);
    uncounted = g.run->engine->ops;
    counted = *uncounted;
    counted.learn = count_learn;
    g.run->engine->ops = &counted;
    n_learn = 0;
    cast_play(&g);
    g.run->engine->ops = uncounted;
    assert_int_equal(n_learn, 10);
    cast_close(&g);
}

/* ---- the same bits ---- */

/* Five machines of all speeds on thin wires, with crashes, returns and cuts. */
static char *wild(const char *strategy, const char *engine, const char *saves, unsigned seed)
{
    return text_of(
        "name: wild\n"
        "data: {set: {kind: blobs, samples: 200, test_samples: 20}, batch: 4}\n"
        "model: [{linear: {out: 5}}, batchnorm, relu, {dropout: {rate: 0.2}}, {linear: {out: 3}}]\n"
        "optim: {kind: sgd, lr: 0.1, momentum: 0.9}\n"
        "engine: %s\nstrategy: %s\nagents: 5\n"
        "machines: {memory_gbps: 0.002, speed: {kind: lognormal, sigma: 0.7}}\n"
        "network: {latency_ms: 1, bandwidth_mbps: 1, patience_s: 0.03, notice_s: 0.005}\n"
        "events:\n  - {at_s: 0.01, crash: 2}\n  - {at_s: 0.05, return: 2}\n"
        "  - random: {crash_every_s: 0.2, down_s: 0.03}\n"
        "train: {epochs: 3, seed: %u, evaluate_every: 5 rounds, checkpoint_every: %s}\n",
        engine, strategy, seed, saves);
}

struct watched {
    veche_run *run;
    uint64_t events, stop_after;
    uint64_t die_after; /* events, and then some */
    unsigned some_us;
};

static void watch(void *ctx, const veche_event *e)
{
    struct watched *w = ctx;
    (void)e;
    if (w->die_after && --w->die_after == 0)
        ualarm(w->some_us, 0); /* ends the process, as a kill does */
    if (w->stop_after && ++w->events >= w->stop_after)
        veche_stop(w->run);
}

static void start(const char *folder, const char *text, struct watched *w)
{
    veche_experiment *e;
    must(veche_parse(text, "wild", &e));
    must(veche_start(e, &(veche_options){.folder = folder, .watch = watch, .ctx = w}, &w->run));
    veche_experiment_free(e);
}

/* The digest of the parameters, and virtual time. */
static char *end_of(veche_run *r)
{
    struct summary s;
    must(session_summary(r, &s));
    return text_of("%s %a %llu", s.params_sha256, s.virtual_s, (unsigned long long)s.notes);
}

static char *undisturbed(const char *folder, const char *text)
{
    struct watched w = {0};
    start(folder, text, &w);
    must(veche_go(w.run));
    char *end = end_of(w.run);
    veche_close(w.run);
    return end;
}

static void a_run_that_asks_can_be_repeated_on_any_number_of_threads(void **state)
{
    char *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        char *engine = text_of("{kind: ref, threads: %d}", threads),
             *text = wild("asking", engine, "never", 5);
        char *end = undisturbed(*state, text);
        if (first)
            assert_string_equal(first, end);
        else
            first = strdup(end);
        free(engine);
        free(text);
        free(end);
    }
    free(first);
}

static bool is_over(veche_run *r)
{
    veche_fault *f = veche_go(r);
    bool stopped = veche_fault_is_stop(f);
    if (!stopped)
        must(f);
    veche_fault_free(f);
    return !stopped;
}

static void a_run_that_asks_and_is_stopped_goes_on_to_the_same_bits(void **state)
{
    static const char *const saves[] = {"never", "7 rounds", "1 epoch"};
    size_t stops = 0;
    for (unsigned seed = 0; seed < 24; seed++) {
        struct rng r = rng_stream(seed, 0, RNG_TEST, 9);
        const char *strategy = seed / 3 % 2 ? "hoarding" : "asking"; /* whose rows are of any length */
        char *calm_text = wild(strategy, "{kind: ref, threads: 1}", "never", seed),
             *calm = undisturbed(*state, calm_text);
        char *text = wild(strategy, "{kind: ref, threads: 1}", saves[seed % 3], seed);
        struct watched w = {.stop_after = 1 + rng_below(&r, 25)};
        start(*state, text, &w);
        while (!is_over(w.run)) {
            char *path = strdup(veche_run_folder(w.run));
            veche_close(w.run);
            w = (struct watched){.stop_after = 1 + rng_below(&r, 25)};
            must(veche_resume(path, &(veche_options){.watch = watch, .ctx = &w}, &w.run));
            free(path);
            stops++;
        }
        char *end = end_of(w.run);
        veche_close(w.run);
        assert_string_equal(calm, end);
        free(end);
        free(calm);
        free(text);
        free(calm_text);
    }
    assert_true(stops > 48);
}

/* In a process of its own, which dies a little after so many events. */
static void train_and_die(const char *folder, const char *text, uint64_t events, unsigned us)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct watched w = {.die_after = events, .some_us = us};
        start(folder, text, &w);
        veche_fault_free(veche_go(w.run));
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static bool has(const char *folder, const char *name)
{
    char *path = text_of("%s/%s", folder, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static bool has_checkpoint(const char *folder)
{
    struct dirent **files;
    int n = scandir(folder, &files, NULL, alphasort);
    bool found = false;
    for (int i = 0; i < n; i++) {
        found = found || strncmp(files[i]->d_name, "checkpoint-", 11) == 0;
        free(files[i]);
    }
    if (n >= 0)
        free(files);
    return found;
}

static void a_run_that_asks_and_is_killed_goes_on_to_the_same_bits(void **state)
{
    char *text = wild("hoarding", "{kind: ref, threads: 1}", "1 rounds", 3),
         *calm = undisturbed(*state, text);
    struct rng r = rng_stream(1, 0, RNG_TEST, 10);
    size_t killed = 0;
    for (int trial = 0; trial < 12; trial++) {
        char *folder = text_of("%s/killed%d", (const char *)*state, trial),
             *path = text_of("%s/wild", folder);
        train_and_die(folder, text, 5 + rng_below(&r, 40), 1 + (unsigned)rng_below(&r, 3000));
        if (has_checkpoint(path) && !has(path, "summary.json")) {
            veche_run *run;
            must(veche_resume(path, NULL, &run));
            must(veche_go(run));
            char *end = end_of(run);
            veche_close(run);
            assert_string_equal(calm, end);
            free(end);
            killed++;
        }
        free(path);
        free(folder);
    }
    assert_true(killed > 3);
    free(calm);
    free(text);
}

/* ---- journals that do not fit ---- */

/* The folder of a run that was stopped after so many events. */
static char *stopped_run(const char *folder)
{
    char *text = wild("asking", "{kind: ref, threads: 1}", "never", 5);
    struct watched w = {.stop_after = 20};
    start(folder, text, &w);
    assert_false(is_over(w.run));
    char *path = strdup(veche_run_folder(w.run));
    veche_close(w.run);
    free(text);
    return path;
}

static char *checkpoint_of(const char *run)
{
    char *name = NULL;
    struct dirent **files;
    int n = scandir(run, &files, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (strncmp(files[i]->d_name, "checkpoint-", 11) == 0) {
            free(name);
            name = text_of("%s/%s", run, files[i]->d_name);
        }
        free(files[i]);
    }
    free(files);
    assert_non_null(name);
    return name;
}

/* The newest checkpoint written anew, whole, with a journal of another length (`more` numbers more) or another number. */
static void tamper(const char *run, int more, double instead)
{
    struct tensors t;
    char *path = checkpoint_of(run);
    must(tensors_read(path, &t));
    struct named_floats *all = calloc(t.n, sizeof *all);
    struct metadata *texts = calloc(t.n_metadata, sizeof *texts);
    double longer[4096] = {0};
    size_t n = 0;
    assert_true(all && texts && t.n > 1 && t.at[0].doubles && t.at[0].dims[0] > 2 && t.at[0].dims[0] < 4000);
    memcpy(all, t.at, t.n * sizeof *all);
    memcpy(longer, all[0].doubles, all[0].dims[0] * sizeof(double));
    longer[1] = more ? longer[1] : instead;
    all[0].doubles = longer;
    all[0].dims[0] = (size_t)((int)all[0].dims[0] + more);
    for (size_t i = 0; i < t.n_metadata; i++)
        if (strcmp(t.metadata[i].key, "sha256") != 0)
            texts[n++] = t.metadata[i];
    must(tensors_write(path, all, t.n, texts, n));
    tensors_release(&t);
    free(all);
    free(texts);
    free(path);
}

static void flip_a_byte_of_the_journal(const char *run)
{
    char *path = checkpoint_of(run);
    struct tensors t;
    must(tensors_read(path, &t));
    long at = (long)((const char *)t.at[0].doubles - t.bytes) + 3;
    tensors_release(&t);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    fputc(byte ^ 0x10, file);
    fclose(file);
    free(path);
}

static void a_journal_that_does_not_fit_is_refused(void **state)
{
    veche_run *r;
    char *run = stopped_run(*state);
    tamper(run, -1, 0);
    must_fail(veche_resume(run, NULL, &r), "of the numbers that agent 0 asked for, and there were more");
    tamper(run, 2, 0);
    must_fail(veche_resume(run, NULL, &r), "numbers that agent 0 asked for, and there were");
    tamper(run, -1, 0);
    tamper(run, 0, NAN);
    must_fail(veche_resume(run, NULL, &r), "number 1 that agent 0 asked for is none");
    flip_a_byte_of_the_journal(run);
    must_fail(veche_resume(run, NULL, &r), "none of 1 checkpoints is whole");
    free(run);
}

/* ---- */

static int make_folder(void **state)
{
    char in_memory[] = "/dev/shm/veche-test-XXXXXX", on_disk[] = "/tmp/veche-test-XXXXXX";
    const char *made = mkdtemp(in_memory);
    *state = strdup(made ? made : mkdtemp(on_disk));
    return *state ? 0 : 1;
}

static int remove_folder(void **state)
{
    char *command = text_of("rm -rf '%s'", (const char *)*state);
    int failed = system(command) != 0;
    free(command);
    free(*state);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_is_that_of_a_double_loop),
        cmocka_unit_test(rows_on_a_device_are_read_back),
        cmocka_unit_test(a_number_is_of_the_rows_as_they_were_when_it_was_asked_for),
        cmocka_unit_test(a_question_that_has_no_answer_is_a_sentence),
        cmocka_unit_test(nothing_is_decided_by_what_is_not_finite),
        cmocka_unit_test(a_number_takes_the_time_in_which_memory_reads_its_rows),
        cmocka_unit_test(who_crashes_before_the_answer_is_told_in_its_next_life_only),
        cmocka_unit_test(where_nobody_asks_nothing_is_computed_in_other_pieces),
        cmocka_unit_test(those_who_ask_at_one_moment_learn_side_by_side),
        cmocka_unit_test_setup_teardown(a_run_that_asks_can_be_repeated_on_any_number_of_threads, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_run_that_asks_and_is_stopped_goes_on_to_the_same_bits, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_run_that_asks_and_is_killed_goes_on_to_the_same_bits, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_journal_that_does_not_fit_is_refused, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
