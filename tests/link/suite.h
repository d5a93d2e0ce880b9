/* suite.h - what link.h promises, as cases that every world is held to. A new world begins by passing them.
 *
 *   static fault a_case(struct agent *a)     runs in place of a strategy, once for each member
 *   {
 *       TRY(link_send(a->link, after(a), 1, &a->index, sizeof a->index));
 *       ...
 *       CHECK(...);                          an assertion that fails ends the play for all
 *       return OK;
 *   }
 *
 * Cases know their world by its link alone; what no link can do, as to fail, they ask of the suite. A case
 * says which words of link.h it holds to: they must stand there, and every verb that stands there must be in
 * some case (tests/world/test_link.c).
 *
 * A world runs them by a program of a few lines (tests/world/test_link.c, tests/mpi/test_link.c).
 */
#ifndef VECHE_TESTS_SUITE_H
#define VECHE_TESTS_SUITE_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/session.h"
#include "support/must.h"
#include "support/program.h"

/* Rows of every member beside its parameters, gradient, statistics and slots. */
#define ROW_ONES  ((enum row)(ROW_KEPT))     /* 1, 1, 1, ... as long as the parameters */
#define ROW_RAMP  ((enum row)(ROW_KEPT + 1)) /* 0, 1, 2, ... likewise */
#define ROW_FEW   ((enum row)(ROW_KEPT + 2)) /* SUITE_FEW floats */
#define ROW_OUGHT ((enum row)(ROW_KEPT + 3)) /* room for what a row ought to be; as long as the parameters */
enum { SUITE_FEW = 7, SUITE_PARAMS = 30000 /* at least */ };

#define SUITE_PATIENCE_S 3.0 /* a busy machine may take a core away from a rank for a second */

struct play;

struct link_case {
    const char *name;
    const char *says[3]; /* words of link.h */
    strategy_run *program;
    size_t least;                  /* members that it needs; 0 or 1: any number */
    struct strategy_row row;       /* what else the program asks for, as a strategy does */
    double patience_s;             /* 0: long, or where one falls SUITE_PATIENCE_S */
    bool diverges;                 /* the play ends with FAULT_NUMBER */
    bool one_falls;                /* the last member's machine goes down: by suite_fall, or ... */
    const char *script;            /* ... where machines do what is written; with %zu for that member */
    fault (*look)(struct play *p); /* by whoever leads, when all is over; NULL: nothing */
};

struct play { /* of one case; every member sees it, in its own process */
    const struct link_case *which;
    struct veche_run *run;
    size_t n;
    char notes[4096]; /* heard by whoever leads: a line each */
};

/* Each ends with one without a name. */
extern const struct link_case cases_of_messages[], cases_of_rows[], cases_of_peers[];

/* How a member of a world of this kind goes down, until it is told so (FAULT_CRASH, of ranks FAULT_GIVEN_UP), and how it hears
 * nothing for a while. NULL, both: as its link has it, by sleeping until the script says so. */
struct suite_world {
    const char *name;
    fault (*fall)(struct agent *a);
    void (*be_absent)(struct agent *a, double seconds);
    void (*open)(struct veche_run *r, const struct link_case *c); /* before a play; NULL: nothing */
    void (*close)(const struct link_case *c);                     /* when it is over */
};

/* All cases that so many members are enough for, each opened, played and closed; returns how many have
 * failed. */
int suite_run(const struct suite_world *world, const struct ranks *ranks, size_t n_members);

/* ---- for cases ---- */

/* The machine of this member goes down: the fault that its program hears of it. */
fault suite_fall(struct agent *a);
/* For so long it hears nothing and says nothing, as a machine that stalls. */
fault suite_be_absent(struct agent *a, double seconds);

/* A row's floats become this, by a mix. */
fault suite_fill(struct agent *a, enum row row, double value);
/* The floats [first, end) of a row are `start` and so much more with each; by numbers and mixes (of
 * ROW_OUGHT). */
fault suite_row_is(struct agent *a, enum row row, size_t first, size_t end, double start, double more,
                   bool *is);
/* Those of a parcel are; likewise. */
fault suite_parcel_is(struct agent *a, const struct parcel *p, enum row row, size_t first, size_t end,
                      double value, bool *is);
/* Until all members have come here; sends one message to each. */
fault suite_barrier(struct agent *a, uint64_t tag);

#endif
