#include "api/registry.h"

#include "data/data.h"
#include "engine/engine.h"
#include "experiment/machines.h"
#include "graph/graph.h"
#include "optim/optim.h"
#include "strategy/agent.h"
#include "team/team.h"
#include "topology/topology.h"
#include "world/world.h"

struct registry registry_of_everything(void)
{
    return (struct registry){.of = {
                                 [KIND_SET] = data_set_kinds,
                                 [KIND_SPLIT] = split_kinds,
                                 [KIND_MODEL] = model_kinds,
                                 [KIND_LAYER] = layer_kinds,
                                 [KIND_OPTIM] = optim_kinds,
                                 [KIND_SCHEDULE] = schedule_kinds,
                                 [KIND_TOPOLOGY] = topology_kinds,
                                 [KIND_STRATEGY] = strategy_kinds,
                                 [KIND_TEAM] = team_kinds,
                                 [KIND_ENGINE] = engine_kinds,
                                 [KIND_WORLD] = world_kinds,
                                 [KIND_MACHINE] = machine_kinds,
                                 [KIND_SPEED] = speed_kinds,
                                 [KIND_STRAGGLER] = straggler_kinds,
                             }};
}
