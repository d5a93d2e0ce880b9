/* train.stop in the local world: a run ends at the first evaluation at which it is good enough, in whichever of its lives. */
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

#include "api/session.h"
#include "base/rng.h"
#include "support/must.h"

static const char *const strategies[] = {
    "{kind: consensus, mix_statistics: true}",
    "adpsgd",
    "{kind: ps, mode: async}",
    "{kind: ps, mode: ssp, staleness: 2}",
    "{kind: average, tau: 3}",
    "{kind: easgd, mode: async, every: 3}",
    "{kind: admm, mode: async, steps: 3}",
    "allreduce",
    "{kind: downpour, push_every: 3, pull_every: 2}",
};
enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

/* Four machines of different speeds, so that agents are apart; learning goes up and down. */
static char *experiment_of(const char *strategy, const char *stop, const char *train)
{
    return text_of(
        "name: stops\n"
        "data: {set: {kind: blobs, samples: 240, test_samples: 40}, batch: 4}\n"
        "model: [{linear: {out: 5}}, batchnorm, relu, {dropout: {rate: 0.2}}, {linear: {out: 3}}]\n"
        "optim: {kind: sgd, lr: 0.02, momentum: 0.9}\nengine: {kind: ref, threads: 1}\n"
        "strategy: %s\nagents: 4\ntopology: \"cycle:4\"\n"
        "machines: {memory_gbps: 0.02, speed: {kind: lognormal, sigma: 0.5}}\n"
        "network: {latency_ms: 1, bandwidth_mbps: 10, patience_s: 1}\n"
        "train: {epochs: 12, seed: 3, evaluate_every: 3 rounds, %s%s%s}\n",
        strategy, train, *stop ? ", stop: " : "", stop);
}

/* ---- what was seen of a run ---- */

enum { MOST_SEEN = 400 };

struct seen {
    veche_run *run;
    double accuracy[MOST_SEEN], loss[MOST_SEEN]; /* of each evaluation */
    uint64_t round[MOST_SEEN];
    size_t n;
    uint64_t events, stop_after;
    uint64_t die_after; /* events, and then some */
    unsigned some_us;
};

static void watch(void *ctx, const veche_event *e)
{
    struct seen *s = ctx;
    if (s->die_after && --s->die_after == 0)
        ualarm(s->some_us, 0); /* ends the process, as a kill does */
    if (s->stop_after && ++s->events >= s->stop_after)
        veche_stop(s->run);
    if (e->kind != VECHE_EVALUATION)
        return;
    assert_true(s->n < MOST_SEEN);
    s->accuracy[s->n] = e->accuracy;
    s->loss[s->n] = e->loss;
    s->round[s->n++] = e->round;
}

static void start(const char *folder, const char *text, struct seen *s)
{
    veche_experiment *e;
    must(veche_parse(text, "stops", &e));
    must(veche_start(e, &(veche_options){.folder = folder, .watch = watch, .ctx = s}, &s->run));
    veche_experiment_free(e);
}

static void play(const char *folder, const char *text, struct seen *s)
{
    *s = (struct seen){0};
    start(folder, text, s);
    must(veche_go(s->run));
}

/* What it came to, with the reason. */
static char *end_of(veche_run *r)
{
    struct summary s;
    must(session_summary(r, &s));
    return text_of("%s %s %llu %a %llu: %s", s.status, s.params_sha256, (unsigned long long)s.rounds,
                   s.virtual_s, (unsigned long long)s.notes,
                   s.stopped_because ? s.stopped_because : "nothing");
}

/* The lines of a run's events that have these words. */
static size_t events_with(const char *run, const char *words)
{
    char *path = text_of("%s/events.jsonl", run), line[1 << 16];
    FILE *file = fopen(path, "r");
    size_t n = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        n += strstr(line, words) != NULL;
    fclose(file);
    free(path);
    return n;
}

/* ---- when it ends ---- */

static void a_run_ends_at_the_first_evaluation_that_is_good_enough(void **state)
{
    for (size_t k = 0; k < N_STRATEGIES; k++) {
        char *text = experiment_of(strategies[k], "", "checkpoint_every: never");
        struct seen all, some;
        play(*state, text, &all);
        veche_close(all.run);
        free(text);
        assert_true(all.n > 10);
        /* the accuracy and the loss that the whole run had reached after a third of its evaluations */
        size_t third = all.n / 3, by_accuracy = 0, by_loss = 0;
        double accuracy = 0, loss = INFINITY;
        for (size_t i = 0; i <= third; i++) {
            accuracy = fmax(accuracy, all.accuracy[i]);
            loss = fmin(loss, all.loss[i]);
        }
        while (all.accuracy[by_accuracy] < accuracy)
            by_accuracy++;
        while (all.loss[by_loss] > loss)
            by_loss++;
        char *stops[] = {text_of("{accuracy: %.17g}", accuracy), text_of("{loss: %.17g}", loss),
                         text_of("{accuracy: %.17g, loss: %.17g}", accuracy, loss)};
        const size_t last[] = {by_accuracy, by_loss, by_accuracy < by_loss ? by_accuracy : by_loss};
        for (size_t i = 0; i < 3; i++) {
            text = experiment_of(strategies[k], stops[i], "checkpoint_every: never");
            play(*state, text, &some);
            char *end = end_of(some.run);
            assert_int_equal(some.n, last[i] + 1);
            assert_int_equal(some.round[some.n - 1], all.round[last[i]]);
            assert_true(strncmp(end, "done ", 5) == 0);
            assert_non_null(strstr(end, last[i] == by_accuracy && i != 1 ? ": accuracy is" : ": loss is"));
            assert_int_equal(events_with(veche_run_folder(some.run), "\"kind\":\"stop\""), 1);
            veche_close(some.run);
            free(end);
            free(text);
            free(stops[i]);
        }
    }
}

static void no_progress_is_evaluations_in_a_row_without_a_better_accuracy(void **state)
{
    for (long patience = 1; patience <= 4; patience++) {
        char *stop = text_of("{no_progress: %ld}", patience);
        char *text = experiment_of("allreduce", "", "checkpoint_every: never");
        char *stopping = experiment_of("allreduce", stop, "checkpoint_every: never");
        struct seen all, some;
        play(*state, text, &all);
        play(*state, stopping, &some);
        size_t last = 0;
        double best = -1;
        for (long in_vain = 0; last + 1 < all.n; last++) {
            in_vain = all.accuracy[last] > best ? 0 : in_vain + 1;
            best = fmax(best, all.accuracy[last]);
            if (in_vain == patience)
                break;
        }
        assert_true(last + 1 < all.n);
        assert_int_equal(some.n, last + 1);
        veche_close(all.run);
        veche_close(some.run);
        free(stop);
        free(text);
        free(stopping);
    }
}

static void what_is_reached_in_the_last_round_stops_nothing(void **state)
{
    struct seen s;
    char *text = experiment_of("allreduce", "{accuracy: 100, no_progress: 50}", "checkpoint_every: never");
    play(*state, text, &s);
    char *end = end_of(s.run);
    assert_non_null(strstr(end, ": nothing"));
    veche_close(s.run);
    free(end);
    free(text);
}

/* ---- stopped and killed ---- */

static bool is_over(veche_run *r)
{
    veche_fault *f = veche_go(r);
    bool stopped = veche_fault_is_stop(f);
    if (!stopped)
        must(f);
    veche_fault_free(f);
    return !stopped;
}

static const char *const stops[] = {"{accuracy: 80}", "{loss: 0.5}", "{no_progress: 3}"};
static const char *const saves[] = {"checkpoint_every: never", "checkpoint_every: 7 rounds",
                                    "checkpoint_every: 3 rounds"};

static void a_run_that_is_stopped_on_the_way_ends_at_the_same_evaluation(void **state)
{
    size_t times = 0;
    for (unsigned k = 0; k < 2 * N_STRATEGIES; k++) {
        struct rng r = rng_stream(k, 0, RNG_TEST, 12);
        char *text = experiment_of(strategies[k % N_STRATEGIES], stops[k % 3], saves[k / 3 % 3]);
        struct seen s;
        play(*state, text, &s);
        char *calm = end_of(s.run);
        veche_close(s.run);
        s = (struct seen){.stop_after = 1 + rng_below(&r, 20)};
        start(*state, text, &s);
        while (!is_over(s.run)) {
            char *path = strdup(veche_run_folder(s.run));
            veche_close(s.run);
            s = (struct seen){.stop_after = 1 + rng_below(&r, 20)};
            must(veche_resume(path, &(veche_options){.watch = watch, .ctx = &s}, &s.run));
            free(path);
            times++;
        }
        char *end = end_of(s.run);
        assert_string_equal(calm, end);
        assert_int_equal(events_with(veche_run_folder(s.run), "\"kind\":\"stop\""),
                         strstr(end, ": nothing") ? 0 : 1);
        veche_close(s.run);
        free(calm);
        free(end);
        free(text);
    }
    assert_true(times > N_STRATEGIES);
}

static void a_run_that_is_killed_ends_at_the_same_evaluation(void **state)
{
    size_t killed = 0;
    for (unsigned k = 0; k < 24; k++) {
        struct rng r = rng_stream(k, 0, RNG_TEST, 13);
        char *text = experiment_of(strategies[k % N_STRATEGIES], stops[k % 3], "checkpoint_every: 1 rounds"),
             *path;
        char *folder = text_of("%s/killed%u", (const char *)*state, k);
        struct seen s;
        play(*state, text, &s);
        char *calm = end_of(s.run);
        veche_close(s.run);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            s = (struct seen){.die_after = 2 + rng_below(&r, 30),
                              .some_us = 1 + (unsigned)rng_below(&r, 2000)};
            start(folder, text, &s);
            veche_fault_free(veche_go(s.run));
            _exit(0);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        path = text_of("%s/stops", folder);
        veche_run *run;
        veche_fault *f = veche_resume(path, NULL, &run);
        if (!f) {
            must(veche_go(run));
            char *end = end_of(run);
            assert_string_equal(calm, end);
            veche_close(run);
            free(end);
            killed++;
        }
        veche_fault_free(f); /* it was killed before its first checkpoint */
        free(path);
        free(folder);
        free(calm);
        free(text);
    }
    assert_true(killed > 4);
}

/* ---- going on ---- */

static char *ended_run(const char *folder, const char *stop)
{
    struct seen s;
    char *text = experiment_of("allreduce", stop, "checkpoint_every: 3 rounds");
    play(folder, text, &s);
    char *path = strdup(veche_run_folder(s.run));
    veche_close(s.run);
    free(text);
    return path;
}

struct told {
    char text[400];
};

static void keep_notice(void *ctx, const veche_event *e)
{
    if (e->kind == VECHE_NOTICE)
        snprintf(((struct told *)ctx)->text, sizeof((struct told *)ctx)->text, "%s", e->text);
}

static void a_run_that_ended_so_says_it_and_stays_as_it_is(void **state)
{
    struct told told = {""};
    veche_run *r;
    char *run = ended_run(*state, "{accuracy: 80}");
    size_t evaluations = events_with(run, "\"event\":\"evaluation\"");
    must(veche_resume(run, &(veche_options){.watch = keep_notice, .ctx = &told}, &r));
    must(veche_go(r));
    char *end = end_of(r);
    assert_non_null(strstr(told.text, "the run ended in round"));
    assert_non_null(strstr(told.text, "with train.stop=never it goes on"));
    assert_non_null(strstr(end, "done "));
    assert_int_equal(events_with(run, "\"event\":\"evaluation\""), evaluations);
    veche_close(r);
    free(end);
    free(run);
}

static void it_goes_on_by_other_settings_to_the_bits_of_a_run_that_had_them_from_the_beginning(void **state)
{
    static const char *const others[][2] = {{"train.stop=never", ""},
                                            {"train.stop.accuracy=99", "{accuracy: 99}"},
                                            {"train.stop={no_progress: 9}", "{no_progress: 9}"}};
    for (size_t i = 0; i < 3; i++) {
        veche_run *r;
        char *run = ended_run(*state, "{accuracy: 80}");
        must(veche_resume_with(run, &others[i][0], 1, NULL, &r));
        must(veche_go(r));
        struct summary went_on, whole;
        must(session_summary(r, &went_on));
        struct seen s;
        char *text = experiment_of("allreduce", others[i][1], "checkpoint_every: 3 rounds");
        play(*state, text, &s);
        must(session_summary(s.run, &whole));
        assert_string_equal(went_on.params_sha256, whole.params_sha256);
        assert_int_equal(went_on.rounds, whole.rounds);
        veche_close(r);
        veche_close(s.run);
        free(text);
        free(run);
    }
}

static void what_would_have_ended_it_before_is_refused(void **state)
{
    static const struct {
        const char *is, *words;
    } cases[] = {
        {"train.stop.accuracy=40", "train.stop.accuracy cannot become '40': the run was begun with '80', and "
                                   "it would have stopped before"},
        {"train.stop={loss: 2}", "it would have stopped before"},
        {"train.evaluate_every=1 epoch", "train.evaluate_every cannot become '1 epoch': the run was begun "
                                         "with '3 rounds', and train.stop is decided"},
        {"train.evaluate_every=never", "train.evaluate_every cannot become 'never'"},
    };
    veche_run *r;
    char *run = ended_run(*state, "{accuracy: 80}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        must_fail(veche_resume_with(run, &cases[i].is, 1, NULL, &r), cases[i].words);
    free(run);
}

/* Evaluated at other rounds on the way, without anything to stop: nobody knows when it would have been. */
static void a_target_that_comes_after_other_evaluations_is_refused(void **state)
{
    const char *const every = "train.evaluate_every=1 epoch", *const target = "train.stop={accuracy: 99}";
    struct seen s = {.stop_after = 30};
    veche_run *r;
    char *text = experiment_of("allreduce", "", "checkpoint_every: never");
    start(*state, text, &s);
    assert_false(is_over(s.run));
    char *run = strdup(veche_run_folder(s.run));
    veche_close(s.run);
    s = (struct seen){.stop_after = 10};
    must(veche_resume_with(run, &every, 1, &(veche_options){.watch = watch, .ctx = &s}, &s.run));
    assert_false(is_over(s.run));
    veche_close(s.run);
    must_fail(veche_resume_with(run, &target, 1, NULL, &r), "train.evaluate_every has changed on the way");
    free(run);
    free(text);
}

/* ---- */

static int make_folder(void **state)
{
    char in_memory[] = "/dev/shm/veche-test-XXXXXX", on_disk[] = "/tmp/veche-test-XXXXXX";
    const char *made = mkdtemp(in_memory);
    *state = strdup(made ? made : mkdtemp(on_disk));
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
        IN_FOLDER(a_run_ends_at_the_first_evaluation_that_is_good_enough),
        IN_FOLDER(no_progress_is_evaluations_in_a_row_without_a_better_accuracy),
        IN_FOLDER(what_is_reached_in_the_last_round_stops_nothing),
        IN_FOLDER(a_run_that_is_stopped_on_the_way_ends_at_the_same_evaluation),
        IN_FOLDER(a_run_that_is_killed_ends_at_the_same_evaluation),
        IN_FOLDER(a_run_that_ended_so_says_it_and_stays_as_it_is),
        IN_FOLDER(it_goes_on_by_other_settings_to_the_bits_of_a_run_that_had_them_from_the_beginning),
        IN_FOLDER(what_would_have_ended_it_before_is_refused),
        IN_FOLDER(a_target_that_comes_after_other_evaluations_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
