/* kinds.c - the strategies one may name. A new one is a file and a line here. */
#include <string.h>

#include "strategy/strategies.h"

static const struct kind *const all[] = {
    &strategy_single, &strategy_consensus, &strategy_gossip,  &strategy_adpsgd, &strategy_allreduce,
    &strategy_ps,     &strategy_downpour,  &strategy_average, &strategy_easgd,  &strategy_admm,
};

const struct kinds strategy_kinds = {.each = all, .n = sizeof all / sizeof *all};

fault strategy_check_native(const struct experiment *e, const char *setting, bool is_chosen)
{
    if (!is_chosen || strcmp(e->world.kind->name, "local") != 0)
        return OK;
    return fail_at(e->strategy.place, "strategy.%s: 'native' is the cluster's own; the local world has none",
                   setting);
}
