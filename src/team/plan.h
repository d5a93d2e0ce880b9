/* plan.h - which machine of a team computes which layers of a network: the cut with the shortest bottleneck.
 *
 *   A[k][j] = min over i of max( A[k-1][i], period of layers i .. j-1 on machine k )
 *   period  = max( compute, card )      compute = times of the layers / speed of the machine
 *                                       card    = (edge[i] + edge[j]) / bandwidth: what it sends in a period, values on and gradients back
 *
 * It is exact: no other cut has a shorter bottleneck, which is the longest period of a machine. Machines take their turns in
 * the order given, or in any order: then A is kept for every set of machines used so far, alike ones counted, not told apart. Every
 * machine gets a part. Memory is a hard limit:
 *
 *   memory  = parameters x (versions + gradient + slots) + micro-batches in flight x (what comes in + what the layers keep)
 *
 * Of several such cuts it takes the one whose last part begins earliest, those before being cut best among themselves; and the
 * order given, if no other is better. Differences of less than one in 10^12 are none.
 *
 * Where a machine has several parts (`interleaved`) each is cut and held to its share of the memory as if it were
 * alone on the machine, in the order that is best for one part each: that need not be the best there is.
 */
#ifndef VECHE_TEAM_PLAN_H
#define VECHE_TEAM_PLAN_H

#include <stdbool.h>

#include "team/profile.h"
#include "team/timeline.h"

struct cut_machine {
    double speed;        /* relative to that of the profile */
    double memory_bytes; /* 0: no limit */
};

struct cut_needs {
    const struct profile *profile;
    const struct cut_machine *machines; /* in the order given */
    size_t n_machines;
    bool any_order;
    double bytes_per_s, latency_s;   /* of every card; bytes_per_s 0: no limit */
    const struct schedule *schedule; /* for n_machines members */
    double slots;                    /* of the optimiser, each as large as the parameters */
    const double *micro_shares;      /* [n_micros]: how large each micro-batch is beside the profile's; NULL: as large */
    size_t n_recomputed;             /* of a round: forward is computed again before backward */
    const size_t *begins;            /* [n_parts - 1]: a cut as asked for, where each part but the first begins; NULL: the best */
};

struct cut_part {
    size_t first, end; /* layers */
};

struct cut_stage { /* what one member of the team does */
    size_t machine; /* its place in the order given */
    double speed;
    double compute_s, card_s; /* of a micro-batch */
    size_t in_flight;         /* micro-batches, at most; counted once for each part */
    size_t versions;          /* of its weights */
    double parameter_bytes, memory_bytes;
};

struct cut_plan {
    const struct profile *profile;
    const struct schedule *schedule;
    struct cut_part *parts; /* [n_parts], in the arena, as all here */
    size_t n_parts;
    struct cut_stage *stages; /* [n_stages], by member */
    size_t n_stages;
    size_t slowest;      /* the stage with the longest period ... */
    double bottleneck_s; /* ... which is this */
    double lower_bound_s; /* no cut of the layers over these machines has a shorter bottleneck */
    struct timeline timeline; /* of a round */
};

/* FAULT_USAGE where there are more parts than layers, or where no cut fits in memory: how much is missing, and where. */
fault cut_best(const struct cut_needs *needs, struct arena *arena, struct cut_plan *out);
/* The shortest bottleneck alone; INFINITY where no cut fits in memory. With one part a machine. */
fault cut_bottleneck(const struct cut_needs *needs, double *out);

static inline double cut_period_s(const struct cut_stage *s)
{
    return s->compute_s > s->card_s ? s->compute_s : s->card_s;
}

/* What to change, in a sentence that ends with a line's end. */
fault cut_advice(const struct cut_needs *needs, const struct cut_plan *plan, struct arena *arena, const char **out);

#endif
