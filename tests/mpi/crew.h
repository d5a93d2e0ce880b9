/* crew.h - a crew of ranks for tests: an experiment as text, opened by all ranks together, played without a
 * folder.
 *
 *   static fault program(struct agent *a)      each rank runs it in place of a strategy
 *   {
 *       CHECK(...);
 *       return OK;
 *   }
 *
 *   crew_run(program, "");                     opens, plays and closes; asserts that all went well
 *
 * or, where something is to be done between these:
 *
 *   struct crew c;
 *   crew_open(&c, program, "network: {latency_ms: 1}\n");
 *   fault f = crew_play(&c);
 *   ... whoever leads may look ...
 *   crew_close(&c);
 *   must(f);
 *
 * An assertion that fails on one rank must not leave the others waiting. So nothing is asserted while a crew
 * is open: programs use CHECK, whose fault ends the play on all ranks, and the rest is kept and asserted
 * after crew_close. All ranks run the same tests in the same order.
 */
#ifndef VECHE_TESTS_CREW_H
#define VECHE_TESTS_CREW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/session.h"
#include "support/must.h"
#include "support/program.h"
#include "world/far/inside.h"
#include "world/mpi/mpi_world.h"

struct crew {
    struct veche_run *run;
    struct far *world;      /* of the run */
    size_t self, n;         /* this rank and all */
    size_t size;            /* parameters of each */
    struct link_ops ops;    /* the agent's: the world's own, but for what a test puts in its place */
    struct watcher watcher; /* a test may put its own functions in, before the play; `ctx` is the crew */
    char notes[8192];       /* at the leader: a line "agent kind: text" each */
    size_t n_notes, n_moments;
    atomic_bool stop;
    struct strategy_row row; /* of the test's own program, if it has one */
    struct kind kind;
    uint64_t kept[8]; /* the test's own */
};

/* The fault is there, of this kind, and says this. */
bool crew_is_fault(fault f, enum fault_kind kind, const char *words);

/* First of all: takes this process's place among all ranks. From then on only the leader prints what goes well. */
bool crew_join(void);
const struct ranks *crew_ranks(void);
bool crew_leads(void);

/* As cmocka's words, for a test that needs so many ranks: where there are fewer it is not among the tests. */
#define crew_test(n_ranks, test)                                                                             \
    {                                                                                                        \
#test, test, NULL, NULL, (void *)(uintptr_t)(n_ranks)                                                \
    }
#define crew_run_tests(tests, set_up, tear_down)                                                             \
    crew_run_those(tests, sizeof(tests) / sizeof *(tests), set_up, tear_down)
int crew_run_those(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down);

/* `more` is added to an experiment in which every rank has CREW_FLOATS and more parameters, and batchnorm; it
 * may be of several lines. NULL as a program: the strategy that `more` names, which must be for as many
 * agents as there are ranks. */
enum { CREW_FLOATS = 30000 };
void crew_open(struct crew *c, strategy_run *program, const char *more);
/* The same with `row`, whose program it is. */
void crew_open_row(struct crew *c, struct strategy_row row, const char *more);
fault crew_play(struct crew *c);
void crew_close(struct crew *c);
void crew_run(strategy_run *program, const char *more);

struct crew *crew_of(const struct agent *a);
/* Every rank's own, of a row of its agent; nothing may be under way. */
float *crew_row(struct agent *a, enum row row);
void crew_fill(struct agent *a, enum row row, float value);
/* All floats of a row are this. */
bool crew_row_is(struct agent *a, enum row row, float value);
/* Those of a parcel are; uses the row of gradients. */
bool crew_parcel_is(struct agent *a, const struct parcel *p, enum row row, size_t first, size_t end,
                    float value);
/* Until all that learn have come here. */
fault crew_barrier(struct agent *a, uint64_t tag);

#endif
