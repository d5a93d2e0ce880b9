/* world.h - where agents live, as those who run an experiment see it.
 *
 *   open -> [restore] -> play (at each moment the watcher is told, who may look at the numbers) -> look -> close
 *
 * Agents see their world through links (link.h). A world knows the members of its stage by number, whether they
 * live in this process or not. One process leads a play: it is told of moments and notes, and may look at everybody's
 * rows; the processes of the others only take part.
 */
#ifndef VECHE_WORLD_WORLD_H
#define VECHE_WORLD_WORLD_H

#include "strategy/agent.h"
#include "world/waits.h"

struct watcher {
    void *ctx;
    /* Nothing more happens at this moment. A fault ends the play; FAULT_STOPPED is not an error. */
    fault (*moment)(void *ctx);
    void (*note)(void *ctx, double now_s, size_t agent, const char *kind, const char *text);
    /* The moment at the end of this round wants to look at everybody's numbers; NULL: none does. */
    bool (*is_due)(void *ctx, uint64_t round);
    /* Somebody asked this process to stop; NULL: nobody does. */
    bool (*has_to_stop)(void *ctx);
    void (*stop)(void *ctx); /* somebody asked another process to */
};

struct totals { /* of all agents that learn, so far */
    uint64_t begun; /* rounds that were taken, where all share them */
    uint64_t ended; /* rounds */
    uint64_t samples;
};

struct world {
    const struct world_ops *ops;
};

struct world_ops {
    void (*close)(struct world *w);
    /* Lets everyone live to the end of the play. */
    fault (*play)(struct world *w);
    /* The play is over and has gone well, though rounds are left: the members that live elsewhere end so, too. NULL: there are
     * none. */
    void (*end_well)(struct world *w);
    /* Makes everything but the numbers as it was after so many steps: first of all `restore`, then every row that is
     * needed and every member's account are written, then `play`. */
    fault (*restore)(struct world *w, uint64_t steps);
    /* This process leads. */
    bool (*leads)(const struct world *w);

    /* Whether the process of another member on this machine is gone: 1: it is, and this one is the first of those left;
     * 2: it is; 0. From any thread; NULL: there are no other processes. */
    int (*lost)(const struct world *w, char *who, size_t n);

    /* Who is where: a line for each machine, and one where processors differ; the caller frees. NULL: all are here. */
    fault (*places)(const struct world *w, char **text);

    /* For whoever leads, at a moment or when the play is over: does what takes long and asks nothing of this world, as writing
     * to disk does, and returns when it is done. The others hear meanwhile that this process lives. NULL: there are no others. */
    fault (*aside)(struct world *w, fault (*task)(void *ctx), void *ctx);

    double (*now_s)(const struct world *w);
    uint64_t (*steps)(const struct world *w);
    /* Exact at a moment at which the leader looks; in between what this process knows. Nothing where it does not lead. */
    struct totals (*totals)(const struct world *w);
    bool (*is_replaying)(const struct world *w);
    bool (*is_alive)(const struct world *w, size_t member);
    struct link_counts (*counts)(const struct world *w, size_t member);
    const struct waits *(*waits)(const struct world *w);

    /* For whoever leads, at a moment or when the play is over. Computes everything asked for so far, so that rows,
     * tallies and counts are those of this moment. */
    fault (*settle)(struct world *w);
    /* Exams of members, or of the group's model: the row after all members'. */
    fault (*examine)(struct world *w, struct exam *exams, size_t n);
    fault (*read)(struct world *w, enum row row, size_t at, float *floats);
    fault (*write)(struct world *w, enum row row, size_t at, const float *floats);
    /* The row of the group's model becomes a weighted sum of the members' rows of this kind, without shifts. */
    fault (*blend)(struct world *w, enum row row, const struct addend *addends, size_t n);
    /* Rows of a kind that `read` and `write` know, and which of them hold something that is still needed. */
    size_t (*n_rows)(const struct world *w);
    void (*rows_needed)(const struct world *w, enum row row, bool *needed);
    /* The numbers a member has asked for so far, in order: `restore` needs those of its steps, set before it. NULL, both: this
     * world does not live through its steps again. */
    const double *(*numbers)(const struct world *w, size_t member, size_t *n);
    fault (*set_numbers)(struct world *w, size_t member, const double *numbers, size_t n);
    /* What a member has done so far, where that does not follow from the steps: worlds that live through them again
     * have neither of these. */
    struct account (*account)(const struct world *w, size_t member);
    void (*set_account)(struct world *w, size_t member, const struct account *a);
};

/* The part of an agent that a checkpoint must hold. */
struct account {
    uint64_t k, lessons, steps, dropped;
    double lr, loss;
    struct staleness staleness;
    struct tally tally;
    struct link_counts counts;
};

/* The row of the group's model, for `examine`, `read` and `write`. */
static inline size_t world_model_row(const struct stage *s)
{
    return s->n_members;
}

extern const struct kinds world_kinds;

#endif
