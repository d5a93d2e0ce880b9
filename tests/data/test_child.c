/* Other programs: their end, their words, their patience. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

#include "data/fetch/child.h"
#include "support/data_files.h"

static const struct listener nobody;

static fault run_shell_in(const char *script, const char *folder, enum tells tells,
                          const struct listener *listener, double patience_s)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct child c = {.argv = argv,
                      .folder = folder,
                      .what = "testing",
                      .total = 100,
                      .patience_s = patience_s,
                      .tells = tells};
    return child_run(&c, listener);
}

/* Its exit alone matters. */
static fault run_shell(const char *script, enum tells tells)
{
    char *folder = temporary_folder();
    fault f = run_shell_in(script, folder, tells, &nobody, 60);
    remove_folder(folder);
    return f;
}

static void a_program_runs_in_its_folder_with_nothing_to_read(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    assert_ok(run_shell_in("cat > from-stdin && echo done > there", folder, TELLS_LAST, &nobody, 60));
    assert_int_equal(count_entries(folder), 2);
    assert_int_equal(folder_bytes(folder), 5);
    remove_folder(folder);
}

static void a_program_that_fails_is_named_with_its_telling_line(void **state)
{
    (void)state;
    assert_fault_says(run_shell("echo a; echo b >&2; echo; exit 3", TELLS_LAST),
                      "sh failed with exit code 3: b");
    assert_fault_says(run_shell("echo; echo a; echo b; exit 3", TELLS_FIRST), "exit code 3: a");
    assert_fault_says(run_shell("exit 1", TELLS_LAST), "exit code 1: it does not say why");
    assert_fault_says(run_shell("kill -9 $$", TELLS_LAST), "sh was ended by signal 9");
}

static void a_program_may_say_a_lot(void **state)
{
    (void)state;
    const char *script = "echo first; i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done; exit 1";
    assert_fault_says(run_shell(script, TELLS_LAST), ": line 8999");
    assert_fault_says(run_shell(script, TELLS_FIRST), ": first");
    assert_fault_says(run_shell("head -c 100000 /dev/zero | tr '\\0' x; exit 1", TELLS_LAST), "xxx");
}

static void a_program_that_never_stops_talking_is_still_stopped(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    fault f = run_shell_in("while :; do echo and on; done", folder, TELLS_LAST, &nobody, 0.3);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    fault_drop(f);
    remove_folder(folder);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    (void)state;
    const char *const argv[] = {"no-such-program-here", NULL};
    struct child c = {.argv = argv, .folder = "/tmp", .what = "testing", .patience_s = 60};
    assert_fault_says(child_run(&c, &nobody), "the program no-such-program-here cannot be run: No such file");
}

/* The script and what it started hold a lock file open for as long as they live. */
static void assert_nobody_lives(const char *folder)
{
    char *fifo = path_in(folder, "fifo");
    double deadline_s = clock_now_s() + 20; /* they were killed; a busy system may take its time to bury them */
    int end;
    while ((end = open(fifo, O_WRONLY | O_NONBLOCK)) >= 0 && clock_now_s() < deadline_s) {
        close(end);
        sched_yield();
    }
    assert_int_equal(end, -1); /* no reader is left */
    free(fifo);
}

static const char *const stuck = "mkfifo fifo; sleep 1000 <> fifo & read line <> fifo";

static void a_program_that_brings_nothing_is_killed_with_its_children(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    fault f = run_shell_in(stuck, folder, TELLS_LAST, &nobody, 0.5);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    assert_fault_says(f, "sh brought nothing for 0.5 seconds");
    assert_nobody_lives(folder);
    remove_folder(folder);
}

struct seen {
    size_t calls, stop_after;
    uint64_t most;
};

static bool look(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct seen *s = ctx;
    assert_string_equal(what, "testing");
    assert_int_equal(total, 100);
    assert_true(done <= total);
    if (done > s->most)
        s->most = done;
    return ++s->calls < s->stop_after;
}

static void a_stop_kills_the_program_with_its_children(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    struct seen s = {.stop_after = 5};
    fault f = run_shell_in(stuck, folder, TELLS_LAST, &(struct listener){look, &s}, 60);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_STOPPED);
    fault_drop(f);
    assert_int_equal(s.calls, 5);
    assert_nobody_lives(folder);
    remove_folder(folder);
}

/* The program goes on only after its growth was seen. */
static bool let_go_when_grown(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)total;
    const char *folder = ctx;
    if (done >= 60)
        put_file(folder, "seen", (struct bytes){NULL, 0});
    return true;
}

static void the_progress_follows_what_grows_in_the_folder(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    const char *script =
        "mkdir below; head -c 60 /dev/zero > below/part; until [ -e seen ]; do sleep 0.05; done";
    assert_ok(run_shell_in(script, folder, TELLS_LAST, &(struct listener){let_go_when_grown, folder}, 60));
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_runs_in_its_folder_with_nothing_to_read),
        cmocka_unit_test(a_program_that_fails_is_named_with_its_telling_line),
        cmocka_unit_test(a_program_may_say_a_lot),
        cmocka_unit_test(a_program_that_never_stops_talking_is_still_stopped),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
        cmocka_unit_test(a_program_that_brings_nothing_is_killed_with_its_children),
        cmocka_unit_test(a_stop_kills_the_program_with_its_children),
        cmocka_unit_test(the_progress_follows_what_grows_in_the_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
