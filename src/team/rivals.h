/* rivals.h - what else one can do with these machines: every way to compute a round of m micro-batches, and how long it takes.
 *
 *   one machine    the fastest, alone                 m t / v
 *   data           p replicas, m / p each             m t / (p v_min)                      + sum of P bytes
 *   pipeline       one replica, cut in p              the time line of the best cut
 *   tensor         one replica, every layer split     m (t / (v_1 + ... + v_p) + messages of its layers)
 *   D teams of S   D replicas, each of S machines     that of S machines for m / D micro-batches, rounded up,
 *                                                     + sum of a member's parameters over D machines
 *
 *   t seconds of a micro-batch on a machine of speed 1, v speeds, P bytes of all parameters
 *   a sum of n bytes over q machines, in a ring:     2 (q - 1) (latency + n / (q bandwidth))
 *   gathering n bytes from q machines, in a ring:      (q - 1) (latency + n / (q bandwidth))
 *
 * In data parallelism shares are equal, so that the slowest machine decides; in a tensor split they are in proportion to the
 * speeds. A tensor split is by outputs (values are gathered before the next such layer, gradients of the inputs summed), or of two layers
 * by outputs and then by inputs (one sum each way), whichever is shorter; strips of pixels are not looked at. Of teams each position
 * counts as the slowest machine that has it: in the order given team d has machines dS .. dS + S - 1; in any order like
 * goes with like.
 */
#ifndef VECHE_TEAM_RIVALS_H
#define VECHE_TEAM_RIVALS_H

#include "team/plan.h"

enum way { WAY_ONE, WAY_DATA, WAY_PIPELINE, WAY_TENSOR, N_WAYS };

struct rival {
    const char *name; /* "pipeline 1f1b", "2 teams of 2, tensor" */
    enum way way;     /* inside a team */
    size_t n_teams, size;
    const char *schedule; /* NULL: there is none */
    bool is_delayed;      /* gradients are of older parameters: it does not learn the same */
    double round_s;
    double compute_s, messages_s; /* of the machine that computes longest; of sums and gathers that all wait for */
    double memory_bytes;          /* the most that a machine needs */
    const char *obstacle;         /* why it cannot be; NULL: it can, and the figures above hold */
};

struct rivals {
    struct rival *at; /* in the arena; those that can be first, by the time that they take */
    size_t n;
};

fault rivals_list(const struct cut_needs *needs, struct arena *arena, struct rivals *out);

/* The fastest that learns the same as one machine would; NULL: nothing fits. */
const struct rival *rivals_fastest(const struct rivals *r);
/* A few lines: which is fastest, and what holds the others up. */
fault rivals_verdict(const struct rivals *r, size_t n_micros, struct arena *arena, const char **out);

const char *way_name(enum way way);

#endif
