/* agent.h - what an agent can do: the verbs strategies are written in.
 *
 * An agent's life:   agent_goes_on -> learn -> update -> ... -> agent_end_round -> agent_goes_on ... -> the end
 */
#ifndef VECHE_STRATEGY_AGENT_H
#define VECHE_STRATEGY_AGENT_H

#include "data/data.h"
#include "engine/engine.h"

struct world;

struct agent {
    size_t index;
    uint64_t k;            /* the round it is in, from 0                  */
    const void *settings;  /* of the strategy, as its fields say          */
    struct feed feed;
    struct pick *picks;    /* owned by the world: its next batch          */
    struct world *world;   /* borrowed                                    */
    double train_loss;     /* summed over the lessons since the last evaluation */
    uint64_t train_hits, train_samples, lessons;
};

bool agent_goes_on(struct agent *a);     /* false when all rounds are done or a stop was asked for      */
fault agent_learn(struct agent *a);      /* g_k on my next batch                                        */
fault agent_update(struct agent *a);     /* theta_{k+1} = theta_k - alpha_k g_k, as the optimiser says  */
fault agent_end_round(struct agent *a);  /* k = k + 1; evaluations and checkpoints fall due here        */

typedef fault strategy_run(struct agent *a);
extern const struct kinds strategy_kinds;

#endif
