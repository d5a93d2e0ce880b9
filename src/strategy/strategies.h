/* strategies.h - the rows of all strategies; each is one file named after its method. */
#ifndef VECHE_STRATEGY_STRATEGIES_H
#define VECHE_STRATEGY_STRATEGIES_H

#include "strategy/agent.h"

extern const struct kind strategy_single, strategy_consensus, strategy_gossip, strategy_adpsgd,
    strategy_allreduce, strategy_ps, strategy_average, strategy_easgd, strategy_admm;

#endif
