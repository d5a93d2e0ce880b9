/* strategies.h - the rows of all strategies; each is one file named after its method. */
#ifndef VECHE_STRATEGY_STRATEGIES_H
#define VECHE_STRATEGY_STRATEGIES_H

#include "strategy/agent.h"

extern const struct kind strategy_single, strategy_consensus, strategy_gossip, strategy_adpsgd,
    strategy_allreduce, strategy_ps, strategy_downpour, strategy_average, strategy_easgd, strategy_admm;

/* For a strategy's check: a choice `native` asks for something that only a cluster has; `setting` is its name. */
fault strategy_check_native(const struct experiment *e, const char *setting, bool is_chosen);

#endif
