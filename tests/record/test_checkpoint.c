/* The last few generations: kept, thinned out, fallen back to, and never lost to a process that dies while
 * saving. */
#include "record/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/rng.h"
#include "record/scratch.h"

enum { FLOATS = 100, MOST = 1000, DEATHS = 20 };

/* A checkpoint of n tensors that says in every float, and in a text, which round it is of. */
static fault save_round(struct run_folder *r, uint64_t round, size_t n)
{
    static char names[MOST][16];
    static float floats[FLOATS];
    struct named_floats tensors[MOST];
    char text[32];
    for (size_t i = 0; i < FLOATS; i++)
        floats[i] = (float)round;
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "theta%zu", i);
        tensors[i] = (struct named_floats){names[i], {FLOATS}, 1, floats, NULL};
    }
    snprintf(text, sizeof text, "%" PRIu64, round);
    struct metadata m = {"round", text};
    return run_save(r, round, tensors, n, &m, 1);
}

static uint64_t round_in(const struct tensors *t)
{
    uint64_t round = strtoull(tensors_metadata(t, "round"), NULL, 10);
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < FLOATS; j++)
            assert_true(t->at[i].floats[j] == (float)round);
    return round;
}

static uint64_t newest_round(const struct run_folder *r, char passed_over[RUN_PATH])
{
    struct tensors t;
    assert_ok(run_newest(r, NULL, NULL, &t, passed_over));
    uint64_t round = round_in(&t);
    tensors_release(&t);
    return round;
}

static const char *checkpoint(const struct run_folder *r, uint64_t round)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%08" PRIu64 ".safetensors", round);
    return in(r->path, name);
}

static struct run_folder created(const char *parent, int64_t keep)
{
    struct run_folder r;
    assert_ok(run_create(parent, "run", "x: 1\n", keep, &r));
    return r;
}

static void the_last_few_are_kept(void **state)
{
    struct run_folder r = created(*state, 3);
    for (uint64_t round = 10; round <= 60; round += 10) {
        assert_ok(save_round(&r, round, 1));
        assert_int_equal(newest_round(&r, NULL), round);
    }
    assert_int_equal(count_names(r.path, "checkpoint-"), 3);
    assert_true(exists(checkpoint(&r, 40)) && exists(checkpoint(&r, 50)) && exists(checkpoint(&r, 60)));
    run_close(&r);
}

static void the_newest_is_found_by_number_and_not_by_spelling(void **state)
{
    struct run_folder r = created(*state, 10);
    const uint64_t rounds[] = {9, 99999999, 100000000, UINT64_C(10000000000000000000)};
    for (size_t i = 0; i < 4; i++) {
        assert_ok(save_round(&r, rounds[i], 1));
        assert_int_equal(newest_round(&r, NULL), rounds[i]);
    }
    run_close(&r);
}

static void saving_a_round_again_replaces_it(void **state)
{
    struct run_folder r = created(*state, 2);
    assert_ok(save_round(&r, 5, 1));
    assert_ok(save_round(&r, 5, 2));
    struct tensors t;
    assert_ok(run_newest(&r, NULL, NULL, &t, NULL));
    assert_int_equal(t.n, 2);
    tensors_release(&t);
    assert_int_equal(count_names(r.path, "checkpoint-"), 1);
    run_close(&r);
}

static void at_least_one_is_kept_whatever_is_asked(void **state)
{
    struct run_folder r = created(*state, 0);
    assert_ok(save_round(&r, 1, 1));
    assert_ok(save_round(&r, 2, 1));
    assert_int_equal(newest_round(&r, NULL), 2);
    assert_int_equal(count_names(r.path, "checkpoint-"), 1);
    run_close(&r);
}

static void files_that_are_merely_alike_are_left_alone(void **state)
{
    static const char *const alike[] = {"checkpoint-7.safetensors",
                                        "checkpoint-.safetensors",
                                        "checkpoint-00000007.safetensors.bak",
                                        "checkpoint--0000007.safetensors",
                                        "checkpoint-99999999999999999999999.safetensors",
                                        "model.safetensors"};
    struct run_folder r = created(*state, 1);
    for (size_t i = 0; i < 6; i++)
        spit(in(r.path, alike[i]), "x", 1);
    assert_ok(save_round(&r, 1, 1));
    assert_ok(save_round(&r, 2, 1));
    char passed_over[RUN_PATH];
    assert_int_equal(newest_round(&r, passed_over), 2);
    assert_string_equal(passed_over, "");
    for (size_t i = 0; i < 6; i++)
        assert_true(exists(in(r.path, alike[i])));
    run_close(&r);
}

static void a_run_without_a_checkpoint_says_so(void **state)
{
    struct run_folder r = created(*state, 2);
    struct tensors t;
    assert_fault(run_newest(&r, NULL, NULL, &t, NULL), FAULT_CHECKPOINT, "run: has no checkpoint");
    run_close(&r);
}

static void a_broken_newest_falls_back_to_the_one_before(void **state)
{
    struct run_folder r = created(*state, 3);
    char passed_over[RUN_PATH];
    for (uint64_t round = 1; round <= 3; round++)
        assert_ok(save_round(&r, round, 1));
    assert_int_equal(newest_round(&r, passed_over), 3);
    assert_string_equal(passed_over, "");
    assert_int_equal(truncate(checkpoint(&r, 3), 77), 0);
    assert_int_equal(newest_round(&r, passed_over), 2);
    assert_non_null(strstr(passed_over, "checkpoint-00000003.safetensors: ends at byte 77"));
    int file = open(checkpoint(&r, 2), O_WRONLY); /* one float a little wrong */
    assert_int_equal(pwrite(file, "\1", 1, 300), 1);
    close(file);
    assert_int_equal(newest_round(&r, passed_over), 1);
    assert_non_null(strstr(passed_over, "checkpoint-00000003"));
    run_close(&r);
}

static void when_none_is_whole_the_fault_says_why(void **state)
{
    struct run_folder r = created(*state, 3);
    struct tensors t;
    for (uint64_t round = 1; round <= 2; round++) {
        assert_ok(save_round(&r, round, 1));
        assert_int_equal(truncate(checkpoint(&r, round), 3), 0);
    }
    assert_fault(run_newest(&r, NULL, NULL, &t, NULL), FAULT_CHECKPOINT, "none of 2 checkpoints is whole");
    run_close(&r);
}

static void going_on_from_an_older_one_clears_the_broken_newer_ones_and_no_whole_one_too_many(void **state)
{
    struct run_folder r = created(*state, 2);
    assert_ok(save_round(&r, 20, 1));
    assert_ok(save_round(&r, 30, 1));
    assert_int_equal(truncate(checkpoint(&r, 30), 3), 0);
    assert_int_equal(newest_round(&r, NULL), 20);
    assert_ok(save_round(&r, 25, 1));
    assert_true(exists(checkpoint(&r, 20)) && exists(checkpoint(&r, 25)) && !exists(checkpoint(&r, 30)));
    run_close(&r);
}

/* Saves one round after the other and tells each through the pipe, until it is killed. */
static void save_for_ever(const char *path, int told)
{
    struct run_folder r;
    struct tensors t;
    uint64_t round = 0;
    if (run_open(path, 2, &r))
        _exit(1);
    fault f = run_newest(&r, NULL, NULL, &t, NULL);
    if (!f)
        round = strtoull(tensors_metadata(&t, "round"), NULL, 10);
    for (;;) {
        round++;
        if (save_round(&r, round, MOST) || /* in a thousand pieces, each a moment to die */
            write(told, &round, sizeof round) != sizeof round)
            _exit(2);
    }
}

/* The last round the child told of before it died, at a moment drawn from the first milliseconds after it
 * began. */
static uint64_t let_save_and_kill(const char *path, struct rng *rng)
{
    int told[2], status;
    uint64_t last = 0, heard;
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0)
        save_for_ever(path, told[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &last, sizeof last), sizeof last);
    fcntl(told[0], F_SETFL, O_NONBLOCK);
    double until = clock_now_s() + 0.01 * rng_uniform(rng);
    while (clock_now_s() < until)
        if (read(told[0], &heard, sizeof heard) == sizeof heard)
            last = heard;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status)); /* it was saving until the end */
    while (read(told[0], &heard, sizeof heard) == sizeof heard)
        last = heard;
    close(told[0]);
    return last;
}

static void a_process_killed_while_saving_loses_nothing_it_had_saved(void **state)
{
    struct run_folder r = created(*state, 2);
    run_close(&r);
    struct rng rng = rng_stream(1, 0, RNG_TEST, 0);
    for (int death = 0; death < DEATHS; death++) {
        uint64_t last = let_save_and_kill(r.path, &rng);
        char passed_over[RUN_PATH];
        assert_ok(run_open(r.path, 2, &r));
        assert_int_equal(count_names(r.path, ".part-"), 0);
        uint64_t newest = newest_round(&r, passed_over);
        assert_string_equal(passed_over, ""); /* none is broken, so none had to be passed over */
        assert_true(newest == last || newest == last + 1);
        assert_true(count_names(r.path, "checkpoint-") <= 3);
        run_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH(the_last_few_are_kept),
        SCRATCH(the_newest_is_found_by_number_and_not_by_spelling),
        SCRATCH(saving_a_round_again_replaces_it),
        SCRATCH(at_least_one_is_kept_whatever_is_asked),
        SCRATCH(files_that_are_merely_alike_are_left_alone),
        SCRATCH(a_run_without_a_checkpoint_says_so),
        SCRATCH(a_broken_newest_falls_back_to_the_one_before),
        SCRATCH(when_none_is_whole_the_fault_says_why),
        SCRATCH(going_on_from_an_older_one_clears_the_broken_newer_ones_and_no_whole_one_too_many),
        SCRATCH(a_process_killed_while_saving_loses_nothing_it_had_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
