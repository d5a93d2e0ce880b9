/* The choice between sharing a lesson and running it alone, fed with made-up times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/dnnl/pace.h"

/* Runs n lessons that take so long each way; returns the seconds of all. */
static double run(struct pace *p, int n, double shared, double alone)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        bool is_alone = pace_alone(p);
        double seconds = is_alone ? alone : shared;
        pace_note(p, is_alone, seconds);
        sum += seconds;
    }
    return sum;
}

static void lessons_are_shared_while_that_is_as_fast_as_ever(void **state)
{
    (void)state;
    struct pace p = {0};
    double seconds = run(&p, 1000, 1, 2);
    assert_true(seconds == 1001); /* once alone, to know */
}

static void a_neighbour_that_was_there_first_is_found_out(void **state)
{
    (void)state;
    struct pace p = {0};
    assert_true(run(&p, 1000, 4, 2) < 1.03 * 2000 + 20);
}

static void a_busy_neighbour_costs_little_more_than_one_thread(void **state)
{
    (void)state;
    struct pace p = {0};
    run(&p, 50, 1, 2);
    double seconds = run(&p, 1000, 4, 2);
    assert_true(seconds < 1.03 * 2000 + 20);
    assert_true(p.is_alone);
}

static void a_short_disturbance_is_soon_forgotten(void **state)
{
    (void)state;
    struct pace p = {0};
    run(&p, 50, 1, 2);
    run(&p, 8, 4, 2);
    double seconds = run(&p, 1000, 1, 2);
    assert_true(seconds < 1120); /* a hundred lessons alone at most */
}

static void a_lesson_that_was_lucky_changes_nothing(void **state)
{
    (void)state;
    struct pace p = {0};
    run(&p, 50, 1, 2);
    run(&p, 100, 4, 2);
    run(&p, 1000, 1.7, 2); /* half of a core beside a neighbour: never enough to give up what is sure */
    assert_true(p.is_alone);
}

static void sharing_comes_back_when_the_neighbour_leaves(void **state)
{
    (void)state;
    struct pace p = {0};
    run(&p, 50, 1, 2);
    run(&p, 100, 4, 2);
    double seconds = run(&p, 1000, 1, 2);
    assert_true(seconds < 1400); /* at most some hundred lessons until it is tried */
    assert_false(p.is_alone);
}

static void a_slower_machine_is_not_tried_again_and_again(void **state)
{
    (void)state;
    struct pace p = {0};
    run(&p, 50, 1, 2);
    double seconds = run(&p, 1000, 1.8, 3.6); /* both ways slowed down alike */
    assert_true(seconds < 1.02 * 1800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lessons_are_shared_while_that_is_as_fast_as_ever),
        cmocka_unit_test(a_neighbour_that_was_there_first_is_found_out),
        cmocka_unit_test(a_busy_neighbour_costs_little_more_than_one_thread),
        cmocka_unit_test(a_short_disturbance_is_soon_forgotten),
        cmocka_unit_test(a_lesson_that_was_lucky_changes_nothing),
        cmocka_unit_test(sharing_comes_back_when_the_neighbour_leaves),
        cmocka_unit_test(a_slower_machine_is_not_tried_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
