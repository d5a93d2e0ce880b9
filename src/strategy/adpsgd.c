/* adpsgd.c - asynchronous decentralised parallel SGD (Lian et al. 2018).
 *
 *   every agent t, at its own pace:
 *
 *       g = gradient at theta^t as it is now
 *       theta^t, theta^j = (theta^t + theta^j) / 2     with one random neighbour j, at one moment
 *       theta^t = theta^t - alpha g                    g is stale: theta^t has moved meanwhile
 *
 * No agent waits for a slow machine, except while it is itself the chosen neighbour's wire. The averaging keeps
 * the mean over all agents. The rounds belong to the group: an agent that is free takes the next.
 */
#include <stdio.h>

#include "base/rng.h"
#include "strategy/mixed.h"
#include "strategy/strategies.h"

struct adpsgd {
    int64_t every;
    struct mixed mixed;
};

/* A random neighbour that can be reached; when it goes away or does not answer, another one. */
static fault average_with_one(struct agent *a, const struct adpsgd *s)
{
    row_set rows = mixed_rows(&s->mixed);
    size_t degree = agent_degree(a);
    if (!degree)
        return OK;
    struct rng r = rng_stream(a->stage->seed, (uint32_t)a->index, RNG_PARTNER, a->k);
    size_t start = rng_below(&r, degree);
    for (size_t i = 0; i < degree; i++) {
        size_t peer = agent_neighbour(a, (start + i) % degree);
        fault f = link_average(a->link, peer, rows);
        if (!f) {
            agent_meets(a, peer);
            return OK;
        }
        TRY(agent_does_without(a, peer, f));
    }
    return OK;
}

static fault adpsgd_run(struct agent *a)
{
    const struct adpsgd *s = a->settings;
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        if (is_nth(a->k, (uint64_t)s->every))
            TRY(average_with_one(a, s));
        TRY(agent_update(a));
        TRY(agent_end_round(a));
    }
    return OK;
}

static const struct field fields[] = {
    INT_FIELD(struct adpsgd, every, "1", 1, 1e9, "rounds from one averaging to the next"),
    MIXED_FIELDS(struct adpsgd),
};

static const struct strategy_row row = {.run = adpsgd_run, .needs_topology = true, .asynchronous = true, .meets_at_any_time = true};

const struct kind strategy_adpsgd = {
    .name = "adpsgd",
    .help = "asynchronous: average with one random neighbour, whenever ready",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct adpsgd),
    .row = &row,
};
