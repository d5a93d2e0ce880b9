/* timeline.h - when each action of a schedule begins and ends, on machines and links as described.
 *
 * An action begins when its member is free and what it needs is there: values of the part before, gradients of the part after.
 * What crosses between members takes the link's latency and bytes over its bandwidth; a card sends one transfer at a time,
 * and receives one at a time, in the order in which they are ready. It is the longest path through the schedule's graph.
 */
#ifndef VECHE_TEAM_TIMELINE_H
#define VECHE_TEAM_TIMELINE_H

#include "team/schedule.h"

struct part_cost { /* of one part on its member, for one micro-batch */
    double forward_s, inputs_s, weights_s; /* a whole backward pass takes the sum of the last two */
};

struct transfer_cost { /* from the part `from` to a later part, and its gradient back; there may be several of a part */
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
};

struct event_s { /* of one action */
    double begin_s, end_s;
};

struct timeline {
    struct event_s **of; /* [n_members][its actions, of all rounds]; in the arena */
    double round_s;      /* from the beginning to the end of all, divided by n_rounds */
    double bubble;       /* share of all members' time in which they compute nothing */
};

fault timeline_make(const struct timeline_needs *needs, struct arena *arena, struct timeline *out);

#endif
