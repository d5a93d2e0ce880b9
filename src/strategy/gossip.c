/* gossip.c - average with one neighbour at a time (Boyd et al. 2006).
 *
 *   round:  learn -> update -> every `every` rounds: `pairs` random edges, one after the other;
 *                              both ends keep the mean
 *
 * A swap is a doubly stochastic mix: the mean over all agents never moves. All agents draw the same edges
 * from the seed and the round, so none has to be asked; an agent takes part in the swaps on its own edges,
 * in their order. When the partner is gone the agent averages with another living neighbour instead, at one
 * moment, as AD-PSGD does.
 */
#include <stdio.h>

#include "base/rng.h"
#include "strategy/mixed.h"
#include "strategy/pairs.h"
#include "strategy/strategies.h"

struct gossip {
    int64_t every, pairs;
    struct mixed mixed;
};

/* The partner is gone: another living neighbour, from the agent's own stream of this round, or none. */
static fault swap_with_another(struct agent *a, const struct gossip *g, size_t gone, uint64_t turn)
{
    struct rng r = rng_stream(a->stage->seed, (uint32_t)a->index, RNG_PARTNER, a->k << 8 | (turn & 255));
    size_t degree = agent_degree(a), start = rng_below(&r, degree);
    for (size_t i = 0; i < degree; i++) {
        size_t peer = agent_neighbour(a, (start + i) % degree);
        if (peer == gone || !link_takes_part(a->link, peer, a->k))
            continue;
        char text[128];
        snprintf(text, sizeof text, "agent %zu averages with agent %zu instead of agent %zu, which is gone",
                 a->index, peer, gone);
        agent_misses(a, gone, "partner", text);
        fault f = link_average(a->link, peer, mixed_rows(&g->mixed));
        if (!f)
            return OK;
        TRY(forgive(f));
    }
    char text[96];
    snprintf(text, sizeof text, "agent %zu has no neighbour to average with instead of agent %zu", a->index, gone);
    agent_misses(a, gone, "partner", text);
    return OK;
}

/* Both ends keep the mean. `turn` tells apart several swaps of one pair in one round. */
static fault swap(struct agent *a, const struct gossip *g, size_t peer, uint64_t turn)
{
    uint64_t tag = a->k; /* swaps of one pair and round follow each other in order, so one tag does for all */
    fault f = link_send_rows(a->link, peer, tag, whole(mixed_rows(&g->mixed)));
    if (!f)
        f = link_recv_rows(a->link, peer, tag, &a->parcels[0], NULL);
    if (!f) {
        agent_meets(a, peer);
        a->shares[0] = 0.5;
        return agent_mix(a, mixed_rows(&g->mixed), 0.5, 1);
    }
    TRY(forgive(f));
    return swap_with_another(a, g, peer, turn);
}

static fault swap_on_my_edges(struct agent *a, const struct gossip *g)
{
    size_t n = 0;
    if (a->stage->shared)
        pairs_of_agent(a->stage->shared, a->k, a->index, &n);
    for (size_t turn = 0; turn < n; turn++) {
        size_t peer =
            pairs_of_agent(a->stage->shared, a->k, a->index, &n)[turn]; /* others draw while this one waits */
        if (link_takes_part(a->link, peer, a->k))
            TRY(swap(a, g, peer, turn));
        else
            TRY(swap_with_another(a, g, peer, turn));
    }
    return OK;
}

static fault gossip_run(struct agent *a)
{
    const struct gossip *g = a->settings;
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(agent_update(a));
        if (is_nth(a->k, (uint64_t)g->every))
            TRY(swap_on_my_edges(a, g));
        TRY(agent_end_round(a));
    }
    return OK;
}

static const struct field fields[] = {
    INT_FIELD(struct gossip, every, "1", 1, 1e9, "rounds from one gossip to the next"),
    INT_FIELD(struct gossip, pairs, "0", 0, 1e9,
              "random edges a round, one after the other, at most 16 for each edge; 0: as many as there are edges"),
    MIXED_FIELDS(struct gossip),
};

/* On average of each edge in a round: what more would average is the same already. */
enum { MOST_OF_EDGE = 16 };

static fault gossip_check_topology(const struct experiment *e, const struct topology *t)
{
    const struct gossip *g = e->strategy.settings;
    if (t->n_edges && (uint64_t)g->pairs > MOST_OF_EDGE * (uint64_t)t->n_edges)
        return fail_at(e->strategy.place, "strategy.pairs: %lld is more than %d for each of the %zu edges of %s",
                       (long long)g->pairs, MOST_OF_EDGE, t->n_edges, t->spec);
    return OK;
}

static fault gossip_open(const struct stage *s, void **shared)
{
    const struct gossip *g = s->experiment->strategy.settings;
    if (!s->topology || !s->topology->n_edges)
        return OK;
    struct pairs *pairs;
    TRY(pairs_new(s->topology, s->seed, g->pairs ? (uint64_t)g->pairs : s->topology->n_edges, &pairs));
    *shared = pairs;
    return OK;
}

static void gossip_close(void *shared)
{
    pairs_free(shared);
}

static const struct strategy_row row = {
    .open = gossip_open, .close = gossip_close, .run = gossip_run, .needs_topology = true,
    .check_topology = gossip_check_topology};

const struct kind strategy_gossip = {
    .name = "gossip",
    .help = "random pairs of neighbours keep their mean",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct gossip),
    .row = &row,
};
