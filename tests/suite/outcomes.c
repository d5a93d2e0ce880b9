/* outcomes.c - every way in which a test can end, one by one, for summary.sh: outcomes PATTERN runs the tests
 * whose names match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "support/must.h"

static void good(void **state)
{
    (void)state;
}

static void good_in_part(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) /* said twice, it is one thing */
        skip_part("the other half", "half is enough");
}

static void bad(void **state)
{
    (void)state;
    assert_int_equal(1, 2);
}

static void skipped(void **state)
{
    (void)state;
    skip_because("there is no %s here", "moon");
}

static void skipped_in_silence(void **state)
{
    (void)state;
    skip();
}

static void crashing(void **state)
{
    (void)state;
    abort();
}

static void sleeping(void **state)
{
    (void)state;
    sleep(60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),     cmocka_unit_test(good_in_part),       cmocka_unit_test(bad),
        cmocka_unit_test(skipped),  cmocka_unit_test(skipped_in_silence), cmocka_unit_test(crashing),
        cmocka_unit_test(sleeping),
    };
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
