/* must.h - small words of tests: what must go well, what must not. */
#ifndef VECHE_TESTS_MUST_H
#define VECHE_TESTS_MUST_H

#include "base/fault.h"

void must(fault f);
/* The fault is there and says this; drops it. */
void must_fail(fault f, const char *words);
/* Ends this test as skipped, with a reason for the suite's summary (tests/summary.py). */
void skip_because(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a part of a test, of which the rest goes on. */
void skip_part(const char *what, const char *why);
/* A text of any length; the caller frees. */
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
