#ifndef VECHE_STRATEGY_SINGLE_H
#define VECHE_STRATEGY_SINGLE_H

#include "strategy/agent.h"

extern const struct strategy_row strategy_single;

#endif
