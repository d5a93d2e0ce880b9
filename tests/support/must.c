/* must.c - see must.h. */
#include "support/must.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void must(fault f)
{
    if (f)
        fail_msg("%s", fault_text(f));
}

void must_fail(fault f, const char *words)
{
    if (!f)
        fail_msg("nothing failed, but this was expected: %s", words);
    if (!strstr(fault_text(f), words))
        fail_msg("'%s' does not say '%s'", fault_text(f), words);
    fault_drop(f);
}

void skip_because(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("SKIPPED: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    skip();
}

void skip_part(const char *what, const char *why)
{
    printf("SKIPPED: %s: %s\n", what, why);
}

char *text_of(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    return text;
}
