/* gossip.c - average with one neighbour at a time (Boyd et al. 2006).
 *
 *   round:  learn -> update -> every `every` rounds: `pairs` random edges, one after the other; both ends
 * keep the mean
 *
 * A swap is a doubly stochastic mix: the mean over all agents never moves. All agents draw the same edges
 * from the seed and the round, so nobody has to be asked; an agent takes part in the swaps on its own edges,
 * in their order. When the partner is gone the agent averages with another living neighbour instead, at one
 * moment, as AD-PSGD does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "strategy/strategies.h"

struct gossip {
    int64_t every, pairs;
    bool mix_statistics, mix_momentum;
};

static row_set rows_to_mix(const struct gossip *g)
{
    return ROWS_PARAMS | (g->mix_statistics ? ROWS_STATS : 0) | (g->mix_momentum ? ROWS_SLOTS : 0);
}

static uint64_t pairs_of(const struct gossip *g, const struct topology *t)
{
    return g->pairs ? (uint64_t)g->pairs : t->n_edges;
}

/* ---- who swaps with whom ---- */

/* The swaps of one round, sorted by agent: those of agent i are at [first[i], first[i + 1]), in their order.
 */
struct round {
    uint64_t k; /* NO_ROUND: none yet */
    uint32_t *first;
    struct swap {
        uint32_t peer, neighbour; /* the other end, and which of my neighbours it is */
        uint32_t turn;
    } * swaps;
};

/* All agents draw the same edges, so they are drawn once for all of this process. Agents may be in different
 * rounds: some rounds are kept, and one that is asked for again is drawn again. */
enum { ROUNDS_KEPT = 4 };
#define NO_ROUND UINT64_MAX

struct common {
    struct round rounds[ROUNDS_KEPT];
    uint32_t *edges; /* drawn for one round */
};

static void gossip_close(struct stage *s)
{
    struct common *c = s->common;
    for (size_t i = 0; c && i < ROUNDS_KEPT; i++) {
        free(c->rounds[i].first);
        free(c->rounds[i].swaps);
    }
    if (c)
        free(c->edges);
    free(c);
    s->common = NULL;
}

static fault gossip_open(struct stage *s)
{
    const struct topology *t = s->topology;
    if (!t || !t->n_edges)
        return OK;
    size_t pairs = pairs_of(s->experiment->strategy.settings, t);
    struct common *c = s->common = calloc(1, sizeof *c);
    bool all = c && (c->edges = malloc(pairs * sizeof *c->edges));
    for (size_t i = 0; all && i < ROUNDS_KEPT; i++) {
        c->rounds[i].k = NO_ROUND;
        c->rounds[i].first = malloc((t->n + 2) * sizeof(uint32_t));
        c->rounds[i].swaps = malloc(2 * pairs * sizeof(struct swap));
        all = c->rounds[i].first && c->rounds[i].swaps;
    }
    if (all)
        return OK;
    gossip_close(s);
    return OUT_OF_MEMORY;
}

static uint32_t neighbour_of(const struct topology *t, uint32_t a, uint32_t b)
{
    size_t i = t->first[a];
    while (t->neighbour[i] != b)
        i++;
    return (uint32_t)(i - t->first[a]);
}

/* Independent draws from all edges, sorted by agent (by counting). */
static void draw_round(const struct stage *s, uint64_t k, struct round *out)
{
    const struct topology *t = s->topology;
    struct common *c = s->common;
    size_t pairs = pairs_of(s->experiment->strategy.settings, t);
    struct rng r = rng_stream(s->seed, 0, RNG_PARTNER, UINT64_MAX - k);
    uint32_t *next = out->first + 1; /* while swaps are put down: where the next one of an agent goes */
    memset(out->first, 0, (t->n + 2) * sizeof *out->first);
    for (size_t turn = 0; turn < pairs; turn++) {
        struct edge e = t->edges[c->edges[turn] = (uint32_t)rng_below(&r, t->n_edges)];
        next[e.a + 1]++;
        next[e.b + 1]++;
    }
    for (size_t i = 0; i < t->n; i++)
        next[i + 1] += next[i];
    for (uint32_t turn = 0; turn < pairs; turn++) {
        struct edge e = t->edges[c->edges[turn]];
        out->swaps[next[e.a]++] = (struct swap){e.b, neighbour_of(t, e.a, e.b), turn};
        out->swaps[next[e.b]++] = (struct swap){e.a, neighbour_of(t, e.b, e.a), turn};
    }
    out->k = k;
}

/* Swap number i of an agent in its round, or false when there are no more. */
static bool find_swap(const struct agent *a, size_t i, struct swap *out)
{
    struct common *c = a->stage->common;
    struct round *r = &c->rounds[a->k % ROUNDS_KEPT];
    if (r->k != a->k)
        draw_round(a->stage, a->k, r);
    if (i >= r->first[a->index + 1] - r->first[a->index])
        return false;
    *out = r->swaps[r->first[a->index] + i];
    return true;
}

/* ---- swapping ---- */

/* Another living neighbour, from the agent's own stream of this round; where there is none, nothing happens.
 */
static fault swap_with_another(struct agent *a, const struct gossip *g, const struct swap *swap)
{
    struct rng r =
        rng_stream(a->stage->seed, (uint32_t)a->index, RNG_PARTNER, a->k << 8 | (swap->turn & 255));
    size_t degree = agent_degree(a), start = rng_below(&r, degree);
    char text[128];
    for (size_t i = 0; i < degree; i++) {
        size_t peer = agent_neighbour(a, (start + i) % degree);
        if (peer == swap->peer || !a->link->ops->takes_part(a->link, peer, a->k))
            continue;
        snprintf(text, sizeof text, "agent %zu averages with agent %zu instead of agent %u, which is gone",
                 a->index, peer, swap->peer);
        agent_misses(a, swap->neighbour, text);
        return a->link->ops->average(a->link, peer, rows_to_mix(g));
    }
    snprintf(text, sizeof text, "agent %zu has nobody to average with instead of agent %u, which is gone",
             a->index, swap->peer);
    agent_misses(a, swap->neighbour, text);
    return OK;
}

/* Both ends keep the mean. Swaps of one pair in one round follow each other in order, so one tag does for
 * all. */
static fault swap_with(struct agent *a, const struct gossip *g, size_t peer)
{
    double half = 0.5;
    TRY(a->link->ops->send_rows(a->link, peer, a->k, rows_to_mix(g)));
    TRY(a->link->ops->recv_rows(a->link, peer, a->k, &a->parcels[0]));
    return a->link->ops->mix(a->link, rows_to_mix(g), half, a->parcels, &half, 1);
}

static bool is_about_a_peer(fault f)
{
    return f && (fault_kind_of(f) == FAULT_PEER || fault_kind_of(f) == FAULT_TIMEOUT);
}

static fault swap_or_replace(struct agent *a, const struct gossip *g, const struct swap *swap)
{
    if (a->link->ops->takes_part(a->link, swap->peer, a->k)) {
        fault f = swap_with(a, g, swap->peer);
        if (!f)
            agent_meets(a, swap->neighbour);
        if (!is_about_a_peer(f))
            return f;
        fault_drop(f);
    }
    fault f = swap_with_another(a, g, swap);
    if (!is_about_a_peer(f))
        return f;
    fault_drop(f);
    return OK;
}

static fault swap_on_my_edges(struct agent *a, const struct gossip *g)
{
    struct swap swap;
    for (size_t i = 0; a->stage->common && find_swap(a, i, &swap); i++)
        TRY(swap_or_replace(a, g, &swap));
    return OK;
}

static fault gossip_run(struct agent *a)
{
    const struct gossip *g = a->settings;
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(agent_update(a));
        if (a->k % (uint64_t)g->every == 0)
            TRY(swap_on_my_edges(a, g));
        TRY(agent_end_round(a));
    }
    return OK;
}

#define AT(member) offsetof(struct gossip, member)
static const struct field fields[] = {
    {.name = "every",
     .kind = FIELD_INT,
     .offset = AT(every),
     .fallback = "1",
     .min = 1,
     .max = 1e9,
     .help = "rounds from one gossip to the next"},
    {.name = "pairs",
     .kind = FIELD_INT,
     .offset = AT(pairs),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .help = "random edges a round, one after the other; 0: as many as there are edges"},
    {.name = "mix_statistics",
     .kind = FIELD_FLAG,
     .offset = AT(mix_statistics),
     .fallback = "false",
     .help = "mix batchnorm's running statistics, too"},
    {.name = "mix_momentum",
     .kind = FIELD_FLAG,
     .offset = AT(mix_momentum),
     .fallback = "false",
     .help = "mix the optimiser's slots, too"},
};

static const struct strategy_row row = {
    .run = gossip_run, .needs_topology = true, .open = gossip_open, .close = gossip_close};

const struct kind strategy_gossip = {
    .name = "gossip",
    .help = "random pairs of neighbours keep their mean",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct gossip),
    .row = &row,
};
