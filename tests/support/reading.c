/* reading.c - see reading.h. */
#include "support/reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static fault parse(const char *text, const char *override, struct experiment **out)
{
    return experiment_parse(text, strlen(text), "folder/e.yaml", &override, override ? 1 : 0, &toy_registry,
                            out);
}

struct experiment *reads(const char *text, const char *override)
{
    struct experiment *e = NULL;
    fault f = parse(text, override, &e);
    if (f)
        fail_msg("refused: %s", fault_text(f));
    return e;
}

void refuses(const char *text, const char *sentence)
{
    struct experiment *e = NULL;
    fault f = parse(text, NULL, &e);
    if (!f)
        fail_msg("accepted, where this was expected: %s", sentence);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_string_equal(fault_text(f), sentence);
    assert_null(e);
    fault_drop(f);
}
