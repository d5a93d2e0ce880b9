/* program.h - words of programs that tests run in place of a strategy: what is not so ends the program with a fault, since an assertion that
 * fails in one process must not leave the others waiting.
 */
#ifndef VECHE_TESTS_PROGRAM_H
#define VECHE_TESTS_PROGRAM_H

#include "strategy/agent.h"

/* Ends the program with a fault where it is not so. */
#define CHECK(truth)                                                                                         \
    do {                                                                                                     \
        if (!(truth))                                                                                        \
            return FAIL(FAULT_USAGE, "%s:%d: not so: %s", __FILE__, __LINE__, #truth);                       \
    } while (0)

/* The fault is there, of this kind, and says this; drops it. */
#define CHECK_FAULT(f, kind, words)                                                                          \
    do {                                                                                                     \
        fault is_that_ = program_expect(f, kind, words, __FILE__, __LINE__);                                 \
        if (is_that_)                                                                                        \
            return is_that_;                                                                                 \
    } while (0)
fault program_expect(fault f, enum fault_kind kind, const char *words, const char *file, int line);

/* The members beside this one, in a circle. */
static inline size_t after(const struct agent *a)
{
    return (a->index + 1) % a->link->n_members;
}

static inline size_t before(const struct agent *a)
{
    return (a->index + a->link->n_members - 1) % a->link->n_members;
}

#endif
