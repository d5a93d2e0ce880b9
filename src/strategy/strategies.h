/* strategies.h - what strategies share; each is one file named after its method, or a folder. */
#ifndef VECHE_STRATEGY_STRATEGIES_H
#define VECHE_STRATEGY_STRATEGIES_H

#include "strategy/agent.h"

/* For a strategy's check: a choice `native` asks for something that only a cluster has; `setting` is its name. */
fault strategy_check_native(const struct experiment *e, const char *setting, bool is_chosen);

#endif
