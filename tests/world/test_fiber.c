/* Fibers take turns, keep their stacks, and may be many. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "world/local/fiber.h"

struct walker {
    struct fiber *fiber;
    int id, steps, at;
    int *trace; /* where everybody writes its id, NULL: nowhere */
    size_t *n_trace;
    double sum;
};

/* What a test has made is closed at its end. */
static struct {
    struct fibers *groups[64];
    size_t n;
} here;

static struct fiber *made(size_t stack_bytes)
{
    struct fibers **all = &here.groups[here.n++];
    assert_null(fibers_open(1, stack_bytes, all));
    return fibers_at(*all, 0);
}

static int close_all(void **state)
{
    (void)state;
    while (here.n)
        fibers_close(here.groups[--here.n]);
    return 0;
}

#define FIBERS(test) cmocka_unit_test_teardown(test, close_all)

static void walk(void *arg)
{
    struct walker *w = arg;
    volatile double kept[8];
    for (int i = 0; i < 8; i++)
        kept[i] = w->id * 100 + i;
    for (w->at = 0; w->at < w->steps; w->at++) {
        if (w->trace)
            w->trace[(*w->n_trace)++] = w->id;
        w->sum += kept[w->at % 8];
        fiber_park(w->fiber);
    }
}

static void fibers_take_turns_and_keep_their_locals(void **state)
{
    (void)state;
    int trace[64];
    size_t n_trace = 0;
    struct walker w[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (struct walker){made(16384), i, 4 + i, 0, trace, &n_trace, 0};
        fiber_begin(w[i].fiber, walk, &w[i]);
    }
    for (int turn = 0; turn < 8; turn++)
        for (int i = 2; i >= 0; i--)
            if (!fiber_has_ended(w[i].fiber))
                fiber_resume(w[i].fiber);
    static const int expected[] = {2, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 2};
    assert_int_equal(n_trace, sizeof expected / sizeof *expected);
    assert_memory_equal(trace, expected, sizeof expected);
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int k = 0; k < w[i].steps; k++)
            sum += i * 100 + k % 8;
        assert_true(w[i].sum == sum);
        assert_true(fiber_has_ended(w[i].fiber));
    }
}

static void a_fiber_lives_again_after_its_end(void **state)
{
    (void)state;
    struct walker w = {.fiber = made(16384), .id = 1};
    assert_true(fiber_has_ended(w.fiber));
    for (int life = 0; life < 100; life++) {
        w.steps = life % 5;
        fiber_begin(w.fiber, walk, &w);
        int turns = 0;
        while (!fiber_has_ended(w.fiber)) {
            fiber_resume(w.fiber);
            turns++;
        }
        assert_int_equal(turns, w.steps + 1);
    }
}

/* Frames of a known size, parked at the very bottom: what is on the stack survives the others' turns. */
static unsigned dive(struct fiber *f, int depth)
{
    volatile unsigned char frame[512];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (unsigned char)(depth + (int)i);
    unsigned below = depth ? dive(f, depth - 1) : (fiber_park(f), 0);
    for (size_t i = 0; i < sizeof frame; i++)
        if (frame[i] != (unsigned char)(depth + (int)i))
            return 1000000;
    return below + 1;
}

struct diver {
    struct fiber *fiber;
    unsigned depth, reached;
};

static void dive_deep(void *arg)
{
    struct diver *d = arg;
    d->reached = dive(d->fiber, (int)d->depth);
}

static void deep_stacks_survive_a_turn(void **state)
{
    (void)state;
    enum { DIVERS = 20, DEPTH = 300 };
    struct diver d[DIVERS];
    for (int i = 0; i < DIVERS; i++) {
        d[i] = (struct diver){made(1 << 20), DEPTH + (unsigned)i, 0};
        fiber_begin(d[i].fiber, dive_deep, &d[i]);
    }
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < DIVERS; i++)
            fiber_resume(d[i].fiber);
    for (int i = 0; i < DIVERS; i++) {
        assert_true(fiber_has_ended(d[i].fiber));
        assert_int_equal(d[i].reached, DEPTH + i + 1);
    }
}

#ifdef __SANITIZE_THREAD__
enum { MANY = 500 }; /* the thread sanitizer keeps a quarter of a megabyte for each */
#else
enum { MANY = 40000 }; /* two memory maps for each would be more than the kernel allows */
#endif

static void try_many(enum guards guards, int n)
{
    struct fibers *all = NULL;
    struct walker *w = calloc((size_t)n, sizeof *w);
    assert_non_null(w);
    assert_null(fibers_open_with(guards, (size_t)n, 65536, &all));
    for (int i = 0; i < n; i++) {
        w[i] = (struct walker){.fiber = fibers_at(all, (size_t)i), .id = i, .steps = 3};
        fiber_begin(w[i].fiber, walk, &w[i]);
    }
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < n; i++)
            fiber_resume(w[(i * 7919) % n].fiber);
    for (int i = 0; i < n; i++) {
        assert_true(w[i].sum == 3 * 100.0 * i + 3);
        assert_false(fiber_has_ended(w[i].fiber));
    }
    fibers_close(all); /* parked: nothing is lost by it */
    free(w);
}

static bool has(enum guards guards)
{
    struct fibers *one = NULL;
    fault f = fibers_open_with(guards, 1, 4096, &one);
    fibers_close(one);
    bool there = !f;
    fault_drop(f);
    return there;
}

static void forty_thousand_fibers_are_no_trouble(void **state)
{
    struct fibers *all = NULL;
    (void)state;
    if (has(GUARDS_MARKED))
        try_many(GUARDS_MARKED, MANY);
    try_many(GUARDS_MAPPED, MANY / 40);
    try_many(GUARDS_CHECKED, MANY);
    assert_null(fibers_open(MANY, 65536, &all)); /* whatever the kernel has */
    fibers_close(all);
}

static void run_over(void *arg)
{
    struct diver *d = arg;
    d->reached = dive(d->fiber, 1000); /* half a megabyte */
}

static int status_of_overflow(enum guards guards)
{
    struct fibers *all = NULL;
    int status = 0;
    assert_null(fibers_open_with(guards, 16, 65536, &all));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGILL, SIG_DFL);
        struct diver d = {fibers_at(all, 15), 1000, 0};
        fiber_begin(d.fiber, run_over, &d);
        fiber_resume(d.fiber);
        _exit(0);
    }
    waitpid(child, &status, 0);
    fibers_close(all);
    return status;
}

static void an_overflow_is_a_crash_whoever_guards(void **state)
{
    (void)state;
    for (int guards = GUARDS_MARKED; guards <= GUARDS_CHECKED; guards++)
        if (has((enum guards)guards))
            assert_true(status_of_overflow((enum guards)guards) != 0);
}

/* Freed while parked deep down; the next stacks lie where the last ones lay. */
static void the_stack_of_a_fiber_freed_while_parked_can_be_used_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        struct diver d = {made(1 << 18), 20 + 2 * i, 0};
        fiber_begin(d.fiber, dive_deep, &d);
        fiber_resume(d.fiber);
        assert_false(fiber_has_ended(d.fiber));
        close_all(NULL);
    }
}

/* A fiber resumes fibers of its own, as a world inside a world would. */
static void resume_another(void *arg)
{
    struct walker *inner = arg;
    fiber_begin(inner->fiber, walk, inner);
    while (!fiber_has_ended(inner->fiber))
        fiber_resume(inner->fiber);
}

static void a_fiber_may_resume_another(void **state)
{
    (void)state;
    struct walker inner = {.fiber = made(16384), .id = 3, .steps = 6};
    struct fiber *outer = made(32768);
    fiber_begin(outer, resume_another, &inner);
    fiber_resume(outer);
    assert_true(fiber_has_ended(outer));
    assert_int_equal(inner.at, 6);
}

struct printer {
    struct fiber *fiber;
    char text[128];
};

static void print(void *arg)
{
    struct printer *p = arg;
    double x = sqrt(2.0);
    fiber_park(p->fiber);
    snprintf(p->text, sizeof p->text, "%.17g %Lg %d", x * exp(1.0), 0.5L, 42); /* needs an aligned stack */
}

static void the_stack_is_aligned_for_library_calls(void **state)
{
    (void)state;
    struct printer p = {.fiber = made(65536)};
    char expected[128];
    fiber_begin(p.fiber, print, &p);
    fiber_resume(p.fiber);
    fiber_resume(p.fiber);
    snprintf(expected, sizeof expected, "%.17g %Lg %d", sqrt(2.0) * exp(1.0), 0.5L, 42);
    assert_string_equal(p.text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIBERS(fibers_take_turns_and_keep_their_locals),
        FIBERS(a_fiber_lives_again_after_its_end),
        FIBERS(deep_stacks_survive_a_turn),
        FIBERS(forty_thousand_fibers_are_no_trouble),
        FIBERS(an_overflow_is_a_crash_whoever_guards),
        FIBERS(the_stack_of_a_fiber_freed_while_parked_can_be_used_again),
        FIBERS(a_fiber_may_resume_another),
        FIBERS(the_stack_is_aligned_for_library_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
