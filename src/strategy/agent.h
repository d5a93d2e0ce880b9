/* agent.h - what an agent can do: the verbs strategies are written in.
 *
 *   an agent's life:  [rejoin] -> goes_on -> learn -> update -> ... -> end_round -> goes_on -> ... -> the end
 *
 * Agents 0 .. n_agents - 1 learn; a strategy may ask for helpers (servers), numbered after them, which have
 * no samples.
 *
 * An agent acts on a stage that is the same for all of its experiment and never changes. What the others do it learns through
 * its link, in messages or from the world: they may live in other processes.
 *
 * A strategy keeps nothing but plain values on its stack: its program may be dropped at any verb. What it has to keep lies in
 * stage->shared, of which every process has its own. Each member has a place there that it alone reads and writes; what is
 * no member's follows from the stage alone, or is room for one letter, valid until the next verb.
 */
#ifndef VECHE_STRATEGY_AGENT_H
#define VECHE_STRATEGY_AGENT_H

#include "call/service.h"
#include "collective/group.h"
#include "data/data.h"
#include "link/link.h"
#include "team/team.h"
#include "topology/topology.h"

struct stage { /* what does not change while it is played; what all have done so far the world counts */
    const struct experiment *experiment; /* borrowed, as all here */
    const struct topology *topology;     /* NULL: none was written */
    const struct weights *weights;       /* of the topology's edges */
    struct team *team;                   /* the machines that each agent has; NULL: one */
    uint64_t seed;
    size_t n_agents, n_members; /* those that learn; with those that help */
    uint64_t rounds;            /* of every agent; of all together n_agents times as many */
    double rounds_per_epoch, epochs;
    bool asynchronous; /* the rounds are shared: an agent that is free takes the next */
    size_t n_params;   /* floats in a row of parameters */
    void *shared;      /* the strategy's memory in this process: see above */
};

struct agent {
    size_t index; /* and the replica it owns                      */
    uint64_t k;   /* rounds behind it                             */
    uint64_t ended; /* asynchronous: rounds all had ended when it took its last one */
    uint64_t lessons, steps;
    uint64_t dropped;       /* lessons whose gradient came too late to count */
    const void *settings;   /* of the strategy, as its fields say; borrowed */
    const struct stage *stage; /* borrowed                                  */
    struct link *link;      /* borrowed                                     */
    struct feed feed;       /* owned: its share of the samples              */
    double lr;              /* of its last step                             */
    bool returned;          /* its machine was down and is back: it must rejoin */
    bool has_been_down;     /* and has rejoined since                           */
    struct parcel *parcels; /* owned: room for one from each neighbour, or from every member */
    size_t parcel_room;
    double *shares;     /* owned: likewise for weights                    */
    struct term *terms; /* owned: likewise for a sum of them and of mine  */
    bool *missed;       /* owned: neighbours (of a helper: members) whose absence was noted */
    struct group group; /* owned: of all that learn, where the strategy forms one */
    struct caller caller; /* as which it asks services */
    struct staleness {
        uint64_t sum, most, n;
    } staleness;
    struct tally {   /* over the lessons since the last evaluation */
        double loss; /* sum over lessons of their mean loss        */
        uint64_t hits, samples, lessons;
    } tally;
    double loss; /* of its last lesson that was computed */
};

fault agent_init(struct agent *a, const struct stage *stage, size_t index, const uint32_t *share, size_t n_share);
void agent_release(struct agent *a);

bool agent_goes_on(struct agent *a); /* false when all rounds are done                             */
/* It will not go on after this one; never known of rounds that all share. */
bool agent_is_in_last_round(const struct agent *a);
fault agent_learn(struct agent *a);  /* g on my next batch                                         */
fault agent_begin(struct agent *a);  /* the same, but g is not yet there: await(first), then await(0) */
fault agent_await(struct agent *a, size_t first);
fault agent_update(struct agent *a);    /* theta = theta - alpha_k g, as the optimiser says           */
double agent_rate(struct agent *a);     /* alpha_k, by the schedule; also noted in a->lr              */
fault agent_end_round(struct agent *a); /* k = k + 1                                                  */
/* What went wrong with a peer is noted, once for each time it goes missing, and is no fault of mine; any
 * other fault is passed up. From ANYONE none is missing. */
fault agent_does_without(struct agent *a, size_t peer, fault f);
/* The same in the words of the method. */
void agent_misses(struct agent *a, size_t peer, const char *kind, const char *text);
void agent_meets(struct agent *a, size_t peer); /* it is not missing (any more) */
fault agent_rejoin(struct agent *a); /* after a crash: a living peer's rows, the group's round */

/* For worlds: the batch and the dropout seed of a lesson of mine; what it came to, which is a fault where it is no
 * number. */
void agent_prepare(struct agent *a, uint64_t lesson, struct pick *picks, uint64_t *seed);
fault agent_answered(struct agent *a, uint64_t lesson, double loss, size_t hits);

/* mine = self * mine + sum of shares[i] * parcels[i] over the first n, row by row; lets them go. */
fault agent_mix(struct agent *a, row_set rows, double self, size_t n);
/* My row becomes a weighted sum of rows of mine. */
fault agent_combine(struct agent *a, enum row into, const struct term *terms, size_t n);

/* Numbers that a strategy may decide by, of my rows as they are now (link_number): the dot product of two of them, the length
 * of one, the loss of my last lesson. */
fault agent_dot(struct agent *a, enum row row, enum row other, double *out);
fault agent_norm(struct agent *a, enum row row, double *out);
fault agent_loss(struct agent *a, double *out);

/* For calls of mine (call/call.h), and for a service that I am (call/service.h). */
struct caller *agent_caller(struct agent *a);
struct service *agent_serves(struct agent *a, struct service *s);

/* Of all that learn; for strategies that form one. */
struct group *agent_group(struct agent *a);
/* After a fault in a collective: with all that can be reached, from the round of the one that is furthest. Where that
 * one has come to its end, so have I: the agent does not go on (agent_goes_on). */
fault agent_regroup(struct agent *a, const char *why);
/* After all rounds: an agent that was apart from others that can be reached now takes over the rows of those that ended
 * before, or gives its own to those that have not. */
fault agent_agree(struct agent *a);
/* The same as regroup, taking the fault; one that is not about peers is returned. */
fault agent_regroup_after(struct agent *a, fault f);
fault agent_rejoin_group(struct agent *a); /* the same after a crash */

static inline bool agent_helps(const struct agent *a)
{
    return a->index >= a->stage->n_agents;
}

/* What happens every n rounds happens in the n-th, the 2n-th, ...; k rounds lie behind. */
static inline bool is_nth(uint64_t k, uint64_t n)
{
    return (k + 1) % n == 0;
}

/* Neighbours in the topology; without one no agent has any. */
size_t agent_degree(const struct agent *a);
size_t agent_neighbour(const struct agent *a, size_t i);
double agent_weight(const struct agent *a, size_t i); /* w_tj of neighbour i */
/* Those an agent that learns gets back into step with: its neighbours, or without a topology all others. */
size_t agent_peers(const struct agent *a);
size_t agent_peer(const struct agent *a, size_t i);

typedef fault strategy_run(struct agent *a);

struct row_needs { /* what the length of a strategy's row may depend on */
    const struct experiment *experiment;
    const struct graph *graph;
    size_t longest_share; /* samples; 0: the data are not open */
};

struct strategy_row { /* what struct kind.row of a strategy points to */
    strategy_run *run;
    int64_t most_agents; /* 0: any number */
    bool asynchronous;
    bool (*is_asynchronous)(const struct experiment *e); /* instead, where the settings decide; may be NULL */
    bool (*skips_rounds)(const struct experiment *e); /* a late agent goes on in a later round; NULL: none does */
    /* The setting by which gradients are sent while the backward pass goes on, or NULL; may be NULL: there is none. */
    const char *(*asks_for_early_gradients)(const struct experiment *e);
    bool needs_topology; /* with more than one agent */
    bool hears_everyone; /* an agent may hold a parcel from every other at once */
    bool forms_group;    /* those that learn are one group (collective.h); implies hears_everyone */
    bool has_centre;     /* the parameters of the first that helps are the group's model; else the mean is */
    bool meets_at_any_time; /* a peer may average with an agent while it learns */
    struct kept_row {       /* rows of its own, ROW_KEPT, ROW_KEPT + 1, ...; zero at the start */
        const char *name;
        bool (*is_needed)(const struct experiment *e); /* NULL: it is */
        size_t (*size)(
            const struct row_needs *n); /* floats, as many in all replicas; NULL: one for each parameter */
    } kept[KEPT_ROWS];
    fault (*rejoin)(struct agent *a); /* after a crash; NULL: with the group, or a peer's rows */
    /* Make and free stage->shared, where it is needed; may be NULL. What was made before a fault is freed by close. */
    fault (*open)(const struct stage *s, void **shared);
    void (*close)(void *shared);
    /* What can be wrong with its settings beyond their ranges; may be NULL. */
    fault (*check)(const struct experiment *e, size_t n_agents);
    /* The same, where it depends on the graph of the agents; may be NULL. */
    fault (*check_topology)(const struct experiment *e, const struct topology *t);
};

extern const struct kinds strategy_kinds;

/* All rows of a run. */
struct rows strategy_rows(const struct row_needs *n);

static inline const struct strategy_row *strategy_row(const struct experiment *e)
{
    return e->strategy.kind->row;
}

static inline bool strategy_is_asynchronous(const struct experiment *e)
{
    const struct strategy_row *row = strategy_row(e);
    return row->is_asynchronous ? row->is_asynchronous(e) : row->asynchronous;
}

#endif
