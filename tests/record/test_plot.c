/* Ranges, ticks and magnitudes, against values found by hand. */
#include "record/plot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* The ticks of a scale, as they would be written, with blanks between them. */
static const char *ticks_of(struct scale s, size_t most, char *text)
{
    double ticks[PLOT_TICKS];
    size_t n = scale_ticks(&s, most, ticks);
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        char one[PLOT_TEXT];
        tick_text(&s, ticks, n, i, one);
        strcat(text, i ? " " : "");
        strcat(text, one);
    }
    return text;
}

static void linear_ticks_are_the_round_numbers_inside(void **state)
{
    (void)state;
    static const struct {
        double lo, hi;
        size_t most;
        const char *ticks;
    } cases[] = {
        {0, 10, 8, "0 2 4 6 8 10"},
        {0, 10, 11, "0 1 2 3 4 5 6 7 8 9 10"},
        {0, 160, 8, "0 50 100 150"}, /* steps of 20 would be nine ticks */
        {0, 1, 7, "0.0 0.2 0.4 0.6 0.8 1.0"},
        {0.05, 0.93, 7, "0.2 0.4 0.6 0.8"},
        {85.4, 92.6, 7, "86 88 90 92"},
        {91.97, 92.21, 7, "92.00 92.05 92.10 92.15 92.20"},
        {-3, 3, 7, "-3 -2 -1 0 1 2 3"},
        {-0.3, 0.1, 5, "-0.3 -0.2 -0.1 0.0 0.1"},
        {0, 0.00004, 5, "0 1e-05 2e-05 3e-05 4e-05"},
        {0, 3e8, 4, "0 1e+08 2e+08 3e+08"},
        {1e9, 1e9 + 4, 5, "1000000000 1000000001 1000000002 1000000003 1000000004"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scale s = {cases[i].lo, cases[i].hi, false};
        const char *got = ticks_of(s, cases[i].most, text);
        if (strcmp(got, cases[i].ticks) != 0)
            fail_msg("%g to %g: %s", cases[i].lo, cases[i].hi, got);
    }
}

static void there_are_never_more_ticks_than_asked_for(void **state)
{
    (void)state;
    double ticks[PLOT_TICKS];
    for (int e = -300; e <= 300; e += 7)
        for (size_t most = 2; most <= 12; most++)
            for (int log = 0; log < 2; log++) {
                double lo = pow(10, e), hi = lo * (1.1 + e * e % 17);
                struct scale s = log ? scale_log(lo, hi) : scale_linear(lo, hi);
                size_t n = scale_ticks(&s, most, ticks);
                assert_true(n >= 1 && n <= most);
                for (size_t i = 0; i < n; i++) {
                    double at = scale_at(&s, ticks[i]);
                    assert_true(at >= -1e-6 && at <= 1 + 1e-6);
                    assert_true(i == 0 || ticks[i] > ticks[i - 1]);
                }
            }
}

static void logarithmic_ticks_are_powers_of_ten_and_a_few_between(void **state)
{
    (void)state;
    char text[512];
    assert_string_equal(ticks_of((struct scale){0.002, 300, true}, 7, text), "0.01 0.1 1 10 100");
    assert_string_equal(ticks_of((struct scale){0.9, 60, true}, 7, text), "1 2 5 10 20 50");
    assert_string_equal(ticks_of((struct scale){1e-9, 2e6, true}, 7, text), "1e-09 1e-06 0.001 1 1000 1e+06");
    assert_string_equal(ticks_of((struct scale){3, 4, true}, 5, text), "3 3.5 4");
}

static void places_run_from_nought_to_one(void **state)
{
    (void)state;
    struct scale s = {10, 30, false}, l = {0.01, 100, true};
    assert_true(scale_at(&s, 10) == 0 && scale_at(&s, 30) == 1 && scale_at(&s, 15) == 0.25);
    assert_true(scale_at(&s, 50) == 2 && isnan(scale_at(&s, NAN)));
    assert_true(fabs(scale_at(&l, 1) - 0.5) < 1e-12 && fabs(scale_at(&l, 1000) - 1.25) < 1e-12);
    assert_true(isnan(scale_at(&l, 0)) && isnan(scale_at(&l, -1)) && isnan(scale_at(&l, NAN)));
}

static void a_range_holds_its_numbers_and_is_never_empty(void **state)
{
    (void)state;
    static const double numbers[] = {0,     1,      -1,       92.13,     1e-12,  1e-300,
                                     1e300, -1e300, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308};
    size_t n = sizeof numbers / sizeof *numbers;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double lo = fmin(numbers[i], numbers[j]), hi = fmax(numbers[i], numbers[j]);
            struct scale s = scale_linear(lo, hi), l = scale_log(lo, hi);
            assert_true(s.lo < s.hi && isfinite(s.hi - s.lo));
            assert_true(l.lo > 0 && l.lo < l.hi && isfinite(l.hi / l.lo));
            if (fabs(lo) <= 1e300 && fabs(hi) <= 1e300)
                assert_true(s.lo <= lo && s.hi >= hi);
            if (lo >= 1e-140 && hi <= 1e140)
                assert_true(l.lo <= lo && l.hi >= hi);
        }
    struct scale none = scale_linear(INFINITY, -INFINITY), unknown = scale_linear(NAN, NAN);
    assert_true(none.lo == 0 && none.hi == 1 && unknown.lo == 0 && unknown.hi == 1);
}

static void a_single_value_stands_in_the_middle(void **state)
{
    (void)state;
    struct scale s = scale_linear(50, 50), zero = scale_linear(0, 0);
    assert_true(fabs(scale_at(&s, 50) - 0.5) < 1e-12 && fabs(scale_at(&zero, 0) - 0.5) < 1e-12);
}

static void magnitudes_fit_the_largest_number(void **state)
{
    (void)state;
    static const struct {
        double most;
        const char *seconds, *bytes;
    } cases[] = {{0, "s", "B"},        {100, "s", "B"},     {180, "min", "B"},      {1000, "min", "kB"},
                 {10800, "h", "kB"},   {1e6, "days", "MB"}, {3.6e10, "days", "GB"}, {1e13, "days", "TB"},
                 {1e30, "days", "EB"}, {NAN, "s", "B"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(magnitude_of_seconds(cases[i].most).name, cases[i].seconds);
        assert_string_equal(magnitude_of_bytes(cases[i].most).name, cases[i].bytes);
    }
    assert_true(magnitude_of_seconds(7200 * 2).size == 3600 && magnitude_of_bytes(5e6).size == 1e6);
}

static void thinning_keeps_the_first_and_the_last(void **state)
{
    (void)state;
    for (size_t n = 1; n < 300; n++)
        for (size_t most = 1; most < 40; most += 3) {
            size_t taken = 0, last = 0;
            for (size_t i = 0; i < n; i = thin_next(i, n, most), taken++) {
                assert_true(i == 0 || i > last);
                last = i;
            }
            assert_true(last == n - 1 && taken <= most + 1);
            if (n <= most)
                assert_int_equal(taken, n);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_ticks_are_the_round_numbers_inside),
        cmocka_unit_test(there_are_never_more_ticks_than_asked_for),
        cmocka_unit_test(logarithmic_ticks_are_powers_of_ten_and_a_few_between),
        cmocka_unit_test(places_run_from_nought_to_one),
        cmocka_unit_test(a_range_holds_its_numbers_and_is_never_empty),
        cmocka_unit_test(a_single_value_stands_in_the_middle),
        cmocka_unit_test(magnitudes_fit_the_largest_number),
        cmocka_unit_test(thinning_keeps_the_first_and_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
