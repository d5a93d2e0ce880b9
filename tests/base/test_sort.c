/* Numbers in order: those that come out are those that went in, and they rise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/sort.h"

enum { MOST = 300 };

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void assert_sorts(const uint64_t *numbers, size_t n)
{
    uint64_t sorted[MOST + 1], expected[MOST + 1];
    memcpy(sorted, numbers, (n + 1) * sizeof *numbers);
    memcpy(expected, numbers, (n + 1) * sizeof *numbers);
    qsort(expected, n, sizeof *expected, compare);
    sort_rising(sorted, n);
    assert_memory_equal(sorted, expected, (n + 1) * sizeof *numbers); /* and what lies behind them stays */
}

static void numbers_rise_however_they_lay_before(void **state)
{
    (void)state;
    uint64_t numbers[MOST + 1];
    struct rng r = rng_stream(1, 0, RNG_TEST, 0);
    for (size_t n = 0; n <= MOST; n++) {
        uint64_t below[] = {UINT64_MAX, 1000, 3, 1};
        for (size_t way = 0; way < 4; way++) {
            for (size_t i = 0; i <= MOST; i++)
                numbers[i] = rng_below(&r, below[way]);
            assert_sorts(numbers, n);
        }
        for (size_t i = 0; i <= MOST; i++)
            numbers[i] = i;
        assert_sorts(numbers, n);
        for (size_t i = 0; i <= MOST; i++)
            numbers[i] = UINT64_MAX - i;
        assert_sorts(numbers, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_rise_however_they_lay_before),
    };
    return cmocka_run_group_tests_name("sort", tests, NULL, NULL);
}
