/* kinds.c - the strategies one may name. A new one is a file and a line here. */
#include "strategy/strategies.h"

static const struct kind *const all[] = {
    &strategy_single,
    &strategy_consensus,
    &strategy_gossip,
    &strategy_adpsgd,
    &strategy_allreduce,
    &strategy_ps,
    &strategy_average,
    &strategy_easgd,
    &strategy_admm,
};

const struct kinds strategy_kinds = {.each = all, .n = sizeof all / sizeof *all};
