/* agent.h - what an agent can do: the verbs strategies are written in.
 *
 *   an agent's life:  goes_on -> learn -> update -> ... -> end_round -> goes_on -> ... -> the end
 *
 * An agent acts on a stage, which it shares with the others of its experiment: the engine that holds its
 * replica, the length of the play, and whoever watches.
 */
#ifndef VECHE_STRATEGY_AGENT_H
#define VECHE_STRATEGY_AGENT_H

#include <stdatomic.h>

#include "data/data.h"
#include "engine/engine.h"

struct agent;

struct stage {
    struct engine *engine;              /* borrowed */
    const struct optim_settings *optim; /* borrowed */
    uint64_t seed;
    int64_t n_agents;
    uint64_t rounds; /* of every agent */
    double rounds_per_epoch, epochs;
    atomic_bool *stop; /* borrowed: set by whoever wants the play to end after this round */
    /* Told after every round; evaluations, checkpoints and progress hang here. */
    fault (*round_ended)(void *watcher, struct agent *a);
    void *watcher;
};

struct agent {
    size_t index;         /* and the replica it owns                      */
    uint64_t k;           /* rounds behind it                             */
    const void *settings; /* of the strategy, as its fields say; borrowed */
    struct stage *stage;  /* borrowed                                     */
    struct feed feed;     /* owned: its share of the samples              */
    struct pick *picks;   /* owned: its next batch                        */
    double lr;            /* of its last step                             */
    struct tally {        /* over the lessons since the last evaluation   */
        double loss;      /* sum over lessons of their mean loss          */
        uint64_t hits, samples, lessons;
    } tally;
};

fault agent_init(struct agent *a, struct stage *stage, size_t index, const struct experiment *e,
                 const uint32_t *share, size_t n_share);
void agent_release(struct agent *a);

bool agent_goes_on(struct agent *a);    /* false when all rounds are done or a stop was asked for     */
fault agent_learn(struct agent *a);     /* g_k on my next batch                                       */
fault agent_update(struct agent *a);    /* theta_{k+1} = theta_k - alpha_k g_k, as the optimiser says */
fault agent_end_round(struct agent *a); /* k = k + 1                                                  */

typedef fault strategy_run(struct agent *a);

struct strategy_row { /* what struct kind.row of a strategy points to */
    strategy_run *run;
    int64_t most_agents; /* 0: any number */
};

extern const struct kinds strategy_kinds;

static inline const struct strategy_row *strategy_row(const struct experiment *e)
{
    return e->strategy.kind->row;
}

#endif
