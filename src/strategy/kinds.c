/* kinds.c - the strategies one may name. A new one is a file and a line here. */
#include <string.h>

#include "strategy/strategies.h"

#define STRATEGIES(X) \
    X(single)         \
    X(consensus)      \
    X(gossip)         \
    X(adpsgd)         \
    X(allreduce)      \
    X(ps)             \
    X(downpour)       \
    X(average)        \
    X(easgd)          \
    X(admm)

#define DECLARED(name)   extern const struct kind strategy_##name;
#define ADDRESS_OF(name) &strategy_##name,
STRATEGIES(DECLARED)

static const struct kind *const all[] = {STRATEGIES(ADDRESS_OF)};

const struct kinds strategy_kinds = {.each = all, .n = sizeof all / sizeof *all};

fault strategy_check_native(const struct experiment *e, const char *setting, bool is_chosen)
{
    if (!is_chosen || strcmp(e->world.kind->name, "local") != 0)
        return OK;
    return fail_at(e->strategy.place, "strategy.%s: 'native' is the cluster's own; the local world has none",
                   setting);
}
