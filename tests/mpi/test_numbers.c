/* Numbers that decide, on ranks: those of the local world, and again after a stop and after a kill. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "mpi/crew.h"
#include "support/asking.h"
#include "veche.h"

/* ---- the same bits ---- */

static char folder[32];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/veche-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return !mkdtemp(folder); /* each rank: runs of the local world are its own */
}

static int remove_folder(void **state)
{
    char *command = text_of("rm -rf %s", folder);
    int failed = system(command) != 0;
    (void)state;
    free(command);
    return failed;
}

static char *experiment_in(const char *strategy, const char *world)
{
    return text_of(
        "name: asks\n"
        "data: {set: {kind: blobs, classes: 3, features: 8, samples: 84, test_samples: 30}, batch: 2}\n"
        "model: [{linear: {out: 100}}, batchnorm, relu, {dropout: {rate: 0.2}}, {linear: {out: 3}}]\n"
        "optim: {kind: adam, lr: 0.01}\nengine: {kind: ref, threads: 1}\nnetwork: {patience_s: 30}\n"
        "train: {epochs: 3, seed: 3, evaluate_every: 7 rounds, checkpoint_every: 3 rounds}\n"
        "world: %s\nagents: %zu\nstrategy: %s\n",
        world, crew_ranks()->n, strategy);
}

struct stops {
    veche_run *run;
    uint64_t at;  /* the round; 0: never */
    bool is_kill; /* what lies on the disk at that moment is gone on with, and not what the stop has saved */
    bool is_copied;
};

static const char copied[] = "as-killed";

static bool copy_run(const veche_run *r)
{
    char *command = text_of("cp -r %s %s/%s", veche_run_folder(r), folder, copied);
    bool well = system(command) == 0;
    free(command);
    return well;
}

static fault remove_copy(void)
{
    char *command = text_of("rm -r %s/%s", folder, copied);
    bool well = system(command) == 0;
    free(command);
    return well ? OK : FAIL(FAULT_FILE, "the copy of a run cannot be removed");
}

static void stop_there(void *ctx, const veche_event *event)
{
    struct stops *s = ctx;
    if (event->kind != VECHE_PROGRESS || !s->at || event->round < s->at)
        return;
    if (s->is_kill && !s->is_copied && crew_leads())
        s->is_copied = copy_run(s->run);
    veche_stop(s->run);
}

static fault sha_of(veche_run *r, char sha[65])
{
    char *summary;
    if (!veche_run_leads(r))
        return OK;
    TRY(veche_summary(r, &summary));
    json_t *object = json_loads(summary, 0, NULL);
    snprintf(sha, 65, "%s", json_string_value(json_object_get(object, "params_sha256")));
    json_decref(object);
    free(summary);
    return OK;
}

/* Stopped or killed at or after this round (0: not), and gone on with. */
static fault train(const char *strategy, const char *world, uint64_t stop_at, bool is_kill, char sha[65])
{
    veche_experiment *e;
    struct stops s = {.at = stop_at, .is_kill = is_kill};
    char path[128], *text = experiment_in(strategy, world);
    fault f = veche_parse(text, "test", &e);
    free(text);
    TRY(f);
    f = veche_start(e, &(veche_options){.folder = folder, .watch = stop_there, .ctx = &s}, &s.run);
    veche_experiment_free(e);
    TRY(f);
    f = veche_go(s.run);
    snprintf(path, sizeof path, "%s", veche_run_folder(s.run));
    if (s.is_copied)
        snprintf(path, sizeof path, "%s/%s", folder, copied);
    if (!f && !stop_at)
        f = sha_of(s.run, sha);
    veche_close(s.run);
    if (!stop_at || !f || !(veche_fault_is_stop(f) || veche_fault_is_told(f)))
        return f || !stop_at ? f : FAIL(FAULT_USAGE, "it was not stopped");
    fault_drop(f);
    TRY(veche_resume(path, &(veche_options){0}, &s.run));
    f = veche_go(s.run);
    if (!f)
        f = sha_of(s.run, sha);
    veche_close(s.run);
    assert_true(!is_kill || !crew_leads() || s.is_copied);
    return f || !s.is_copied ? f : remove_copy();
}

static void has_the_same_bits(const char *strategy)
{
    char here[65] = "", there[65] = "", again[4][65] = {""};
    struct rng r = rng_stream(1, 0, RNG_TEST, 11);
    fault f = train(strategy, "local", 0, false, here);
    if (!f)
        f = train(strategy, "mpi", 0, false, there);
    for (int i = 0; !f && i < 4; i++) /* a kill comes after the first checkpoint */
        f = train(strategy, "mpi", (i % 2 ? 4 : 1) + rng_below(&r, 9), i % 2, again[i]);
    must(f);
    assert_string_equal(crew_leads() ? here : "", there);
    for (int i = 0; i < 4; i++)
        assert_string_equal(there, again[i]);
}

static void a_strategy_that_asks_learns_the_bits_of_the_local_world_however_often_it_is_stopped_or_killed(void **state)
{
    (void)state;
    has_the_same_bits("asking");
}

static void a_strategy_with_rows_of_other_lengths_does_so_too(void **state)
{
    (void)state;
    has_the_same_bits("hoarding");
}

static fault mixes_what_is_not_there(struct agent *a)
{
    size_t n = a->stage->n_params;
    const struct term late = {1, ROW_PARAMS, NULL, 1}, own = {1, ROW_PARAMS, NULL, -1};
    CHECK_FAULT(link_mix(a->link, ROW_GRADS, 0, n, &late, 1), FAULT_USAGE, "of its parameters, which has");
    CHECK_FAULT(link_mix(a->link, ROW_PARAMS, 1, n, &own, 1), FAULT_USAGE, "that are still to be read");
    return OK;
}

static void floats_that_a_row_does_not_have_are_not_mixed(void **state)
{
    (void)state;
    crew_run(mixes_what_is_not_there, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strategy_that_asks_learns_the_bits_of_the_local_world_however_often_it_is_stopped_or_killed),
        cmocka_unit_test(a_strategy_with_rows_of_other_lengths_does_so_too),
        cmocka_unit_test(floats_that_a_row_does_not_have_are_not_mixed),
    };
    return crew_join() ? crew_run_tests(tests, make_folder, remove_folder) : 1;
}
