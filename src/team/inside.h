/* inside.h - what the files of this room know of a team. */
#ifndef VECHE_TEAM_INSIDE_H
#define VECHE_TEAM_INSIDE_H

#include "team/team.h"

struct own_floats { /* a machine's: [first, end) of a row */
    size_t first, end;
};

struct holding { /* what a machine has of a row: stretches, rising */
    struct own_floats *at;
    size_t n;
};

struct transfer { /* a tensor that one part makes and another reads */
    size_t from, to;
    const char *name;
    size_t bytes; /* of a sample */
    bool learns;  /* its gradient comes back */
};

struct team {
    struct arena arena; /* owned: all below */
    const struct pipeline *settings; /* borrowed */
    size_t batch, size, n_parts;
    size_t *first;        /* [n_parts]: its first op of the whole graph */
    struct op_work *work; /* [n_parts]: its shares of a lesson's work, which is 1 */
    struct transfer *transfers;
    size_t n_transfers;
    struct holding *params, *stats; /* [size] */
    struct schedule schedule;
    struct part_cost *costs;     /* [n_parts]: of a whole batch, as is what goes across */
    struct transfer_cost *edges; /* [n_transfers] */
    double *micro_shares;        /* [n_micros]: of the batch */
    struct arena clock;          /* owned: the time line of the last lesson, ... */
    struct timeline timeline;
    double *timed_s; /* [size]: ... which is that of these times */
    struct wire timed_for;
};

/* team_schedule.c: the schedule that the settings ask for. */
fault team_schedule(const struct experiment *e, struct arena *arena, struct schedule *out);
/* clock.c: room for time lines. */
fault team_open_clock(struct team *t);

#endif
