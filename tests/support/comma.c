#include "support/comma.h"

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "support/must.h"

static bool make_and_enter(const char *folder)
{
    char command[200];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_ALL, "de_DE.UTF-8");
}

void enter_comma_locale(void)
{
    char folder[] = "/tmp/veche-locale-XXXXXX", command[100], comma[8];
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        assert_non_null(mkdtemp(folder));
        bool entered = make_and_enter(folder);
        snprintf(command, sizeof command, "rm -r %s", folder);
        assert_int_equal(system(command), 0);
        if (!entered)
            skip_because("there is no locale de_DE.UTF-8, and localedef cannot make it");
    }
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    assert_string_equal(comma, "0,5"); /* else the test would show nothing */
}

void leave_comma_locale(void)
{
    setlocale(LC_ALL, "C");
}
