/* timeline.h - when each action of a schedule begins and ends, on machines and links as described.
 *
 * An action begins when its member is free and what it needs is there: values of the parts before, gradients of the parts after.
 * What crosses between members takes the link's latency and bytes over its bandwidth; a card sends one transfer at a time,
 * and receives one at a time, in the order in which they are ready, as in the local world. Without a limit to the bandwidth it is the
 * longest path through the schedule's graph.
 */
#ifndef VECHE_TEAM_TIMELINE_H
#define VECHE_TEAM_TIMELINE_H

#include "team/schedule.h"

struct part_cost { /* of one part on its member, for one micro-batch */
    double forward_s, inputs_s, weights_s; /* a whole backward pass takes the sum of the last two */
};

/* From the part `from` to a later part `to`, and its gradient back, for one micro-batch; there may be several of a part. Between
 * neighbours of which none is given there is one of 0 bytes: a part depends on the one before. */
struct transfer_cost {
    size_t from, to;
    double bytes;
};

struct timeline_needs {
    const struct schedule *schedule;
    const struct part_cost *parts;         /* [n_parts] */
    const struct transfer_cost *transfers; /* any number; none within a member costs anything */
    size_t n_transfers;
    double latency_s, bytes_per_s; /* of every link and card; bytes_per_s 0: no limit */
    size_t n_rounds;               /* of a schedule that flushes mostly 1 */
    const double *micro_shares;    /* [n_micros of a round]: each takes so many times the costs and bytes above; NULL: once */
    size_t n_recomputed;           /* backward passes of a round's first so many micro-batches compute forward again */
};

struct event_s { /* of one action */
    double begin_s, end_s;
};

struct timeline { /* in the arena */
    size_t n_members;
    struct actions *actions; /* [n_members]: of all rounds (schedule_unroll) */
    struct event_s **of;     /* [n_members][actions[member].n] */
    double end_s;            /* of all */
    double round_s;          /* end_s divided by n_rounds */
    double bubble;           /* share of all members' time in which they compute nothing */
};

/* The schedule must be one that ends (schedule_check). */
fault timeline_make(const struct timeline_needs *needs, struct arena *arena, struct timeline *out);
/* Seconds in which a member computes. */
double timeline_busy_s(const struct timeline *t, size_t member);
/* As SVG: members as rows, passes as boxes with the numbers of their micro-batches, the axis of time, and of each member the share
 * of time in which it is idle and the most it has in flight. Needs no more than `actions`, `of`, the numbers and times of t, which
 * may also have been measured. */
fault timeline_draw(const struct schedule *s, const struct timeline *t, const char *title, FILE *to);

#endif
