/* What happens when, and what happens first of things at the same moment. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"
#include "world/local/agenda.h"

static void moments_come_in_the_order_of_time(void **state)
{
    (void)state;
    struct agenda a = {0};
    struct rng r = rng_stream(1, 0, RNG_TEST, 2);
    for (int i = 0; i < 5000; i++)
        assert_null(agenda_add(&a, (struct moment){.at_s = rng_uniform(&r), .kind = i}));
    double last = -1;
    for (int i = 0; i < 5000; i++) {
        assert_false(agenda_is_empty(&a));
        double first = agenda_first(&a)->at_s;
        struct moment m = agenda_take(&a);
        assert_true(m.at_s == first && m.at_s >= last);
        last = m.at_s;
    }
    assert_true(agenda_is_empty(&a));
    agenda_release(&a);
}

static void of_two_at_the_same_moment_the_first_entered_comes_first(void **state)
{
    (void)state;
    struct agenda a = {0};
    for (int i = 0; i < 1000; i++)
        assert_null(agenda_add(&a, (struct moment){.at_s = i % 7, .kind = i}));
    double last_s = -1;
    int last = -1;
    for (int i = 0; i < 1000; i++) {
        struct moment m = agenda_take(&a);
        assert_true(m.at_s > last_s || (m.at_s == last_s && m.kind > last));
        last_s = m.at_s;
        last = m.kind;
    }
    agenda_release(&a);
}

/* Taking and adding in turns, against a plain list that is searched from its beginning. */
static void an_agenda_is_as_good_as_a_searched_list(void **state)
{
    (void)state;
    enum { MOST = 20000 };
    static double at[MOST];
    static int taken[MOST];
    struct agenda a = {0};
    struct rng r = rng_stream(2, 0, RNG_TEST, 3);
    int n = 0, first = 0;
    double now = 0;
    for (int step = 0; step < 6000; step++) {
        if (agenda_is_empty(&a) || (rng_below(&r, 5) < 3 && n < MOST)) {
            at[n] = now + (double)rng_below(&r, 20);
            assert_null(agenda_add(&a, (struct moment){.at_s = at[n], .kind = n, .ticket = 3}));
            n++;
            continue;
        }
        int best = -1;
        while (first < n && taken[first])
            first++;
        for (int i = first; i < n; i++)
            if (!taken[i] && (best < 0 || at[i] < at[best]))
                best = i;
        struct moment m = agenda_take(&a);
        assert_int_equal(m.kind, best);
        assert_int_equal(m.ticket, 3);
        taken[best] = 1;
        now = m.at_s;
    }
    agenda_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_come_in_the_order_of_time),
        cmocka_unit_test(of_two_at_the_same_moment_the_first_entered_comes_first),
        cmocka_unit_test(an_agenda_is_as_good_as_a_searched_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
