/* program.c - see program.h. */
#include "support/program.h"

#include <string.h>

fault program_expect(fault f, enum fault_kind kind, const char *words, const char *file, int line)
{
    bool is_that = f && fault_kind_of(f) == kind && strstr(fault_text(f), words);
    fault wrong = is_that ? OK
                          : FAIL(FAULT_USAGE, "%s:%d: expected '%s', but there is: %s", file, line, words,
                                 f ? fault_text(f) : "no fault");
    fault_drop(f);
    return wrong;
}
