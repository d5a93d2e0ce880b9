/* consensus.c - average consensus: every agent keeps a weighted mean with its neighbours.
 *
 *   adapt, then combine:   theta^t_{k+1/2} = theta^t_k - alpha_k g^t_k
 *                          theta^t_{k+1}   = sum_j w_tj theta^j_{k+1/2}             every `every` rounds
 *   combine, then adapt    (D-PSGD, Lian et al. 2017):
 *                          theta^t_{k+1}   = sum_j w_tj theta^j_k - alpha_k g^t_k
 *
 * The weights are symmetric and sum to one for each agent, so the mean over all agents never moves in a mixing
 * step. An agent of unequal power learns only every `learn_every` rounds and mixes only every `mix_every`;
 * two neighbours mix in the rounds in which both do. A neighbour that does not take part (dead, cut off, not
 * mixing) gives its weight back to the agent itself: what is left still sums to one.
 */
#include <assert.h>

#include "strategy/mixed.h"
#include "strategy/strategies.h"

enum order { ADAPT_THEN_COMBINE, COMBINE_THEN_ADAPT };
enum exchange { MESSAGES, NATIVELY };

struct consensus {
    int64_t every;
    struct reals learn_every, mix_every; /* one for all agents, or one each */
    int order, exchange;
    struct mixed mixed;
};

static uint64_t value_of(const struct reals *r, size_t agent)
{
    return (uint64_t)r->at[r->n == 1 ? 0 : agent];
}

static bool mixes(const struct consensus *c, size_t agent, uint64_t k)
{
    return is_nth(k, (uint64_t)c->every) && is_nth(k, value_of(&c->mix_every, agent));
}

static bool takes_part(const struct agent *a, const struct consensus *c, size_t peer, uint64_t k)
{
    return mixes(c, peer, k) && link_takes_part(a->link, peer, k);
}

static fault send_to_neighbours(struct agent *a, const struct consensus *c)
{
    if (c->exchange == NATIVELY)
        return OK; /* all at once, when all are to be combined */
    for (size_t i = 0; i < agent_degree(a); i++) {
        size_t peer = agent_neighbour(a, i);
        if (!takes_part(a, c, peer, a->k))
            continue;
        TRY(agent_does_without(a, peer, link_send_rows(a->link, peer, a->k, whole(mixed_rows(&c->mixed)))));
    }
    return OK;
}

/* By the cluster's own means: the same sum in the same order, so the same bits. */
static fault combine_natively(struct agent *a, const struct consensus *c)
{
    size_t n = agent_degree(a);
    double self = 1;
    assert(link_has_gather_near(a->link)); /* elsewhere the experiment was refused */
    TRY(link_gather_near(a->link, whole(mixed_rows(&c->mixed)), a->parcels));
    for (size_t i = 0; i < n; i++) {
        a->shares[i] = agent_weight(a, i);
        self -= a->shares[i];
    }
    return n ? agent_mix(a, mixed_rows(&c->mixed), self, n) : OK;
}

static fault combine(struct agent *a, const struct consensus *c)
{
    if (c->exchange == NATIVELY)
        return combine_natively(a, c);
    double self = 1;
    size_t n = 0;
    for (size_t i = 0; i < agent_degree(a); i++) {
        size_t peer = agent_neighbour(a, i);
        if (!takes_part(a, c, peer, a->k))
            continue;
        fault f = link_recv_rows(a->link, peer, a->k, &a->parcels[n], NULL);
        if (f) {
            TRY(agent_does_without(a, peer, f));
            continue;
        }
        agent_meets(a, peer);
        a->shares[n++] = agent_weight(a, i);
        self -= agent_weight(a, i);
    }
    return n ? agent_mix(a, mixed_rows(&c->mixed), self, n) : OK;
}

static fault adapt(struct agent *a, bool learnt)
{
    return learnt ? agent_update(a) : OK;
}

static fault consensus_run(struct agent *a)
{
    const struct consensus *c = a->settings;
    while (agent_goes_on(a)) {
        bool learns = is_nth(a->k, value_of(&c->learn_every, a->index));
        bool mixing = mixes(c, a->index, a->k);
        if (mixing && c->order == COMBINE_THEN_ADAPT)
            TRY(send_to_neighbours(a, c)); /* theta^t_k travels while g^t_k is computed */
        if (learns)
            TRY(agent_learn(a));
        if (c->order == ADAPT_THEN_COMBINE)
            TRY(adapt(a, learns));
        if (mixing && c->order == ADAPT_THEN_COMBINE)
            TRY(send_to_neighbours(a, c));
        if (mixing)
            TRY(combine(a, c));
        if (c->order == COMBINE_THEN_ADAPT)
            TRY(adapt(a, learns));
        TRY(agent_end_round(a));
    }
    return OK;
}

static fault consensus_check(const struct experiment *e, size_t n_agents)
{
    const struct consensus *c = e->strategy.settings;
    const struct reals *lists[] = {&c->learn_every, &c->mix_every};
    static const char *const names[] = {"learn_every", "mix_every"};
    for (size_t i = 0; i < 2; i++)
        if (lists[i]->n != 1 && lists[i]->n != n_agents)
            return fail_at(e->strategy.place,
                           "strategy.%s: %zu numbers for %zu agents; write one for all or one each", names[i],
                           lists[i]->n, n_agents);
    if (c->exchange == NATIVELY && c->mix_every.n > 1)
        return fail_at(
            e->strategy.place,
            "strategy.exchange: 'native' is for agents that all mix in the same rounds; strategy.mix_every "
            "has a number for each");
    return strategy_check_native(e, "exchange", c->exchange == NATIVELY);
}

static const char *const orders[] = {"adapt-then-combine", "combine-then-adapt", NULL};
static const char *const exchanges[] = {"messages", "native", NULL};

static const struct field fields[] = {
    INT_FIELD(struct consensus, every, "1", 1, 1e9, "rounds from one mixing to the next"),
    REALS_FIELD(struct consensus, learn_every, "1", 1, 1e9,
                "rounds from one lesson to the next, for all agents or each", .whole = true),
    REALS_FIELD(struct consensus, mix_every, "1", 1, 1e9,
                "rounds from one mixing to the next, for all agents or each", .whole = true),
    CHOICE_FIELD(struct consensus, order, "adapt-then-combine", orders,
                 "step before mixing, or mixing before the step (D-PSGD)"),
    CHOICE_FIELD(struct consensus, exchange, "messages", exchanges,
                 "how rows reach the neighbours; native: by the cluster's own neighbourhood collective (world mpi)"),
    MIXED_FIELDS(struct consensus),
};

static const struct strategy_row row = {
    .run = consensus_run, .needs_topology = true, .check = consensus_check};

const struct kind strategy_consensus = {
    .name = "consensus",
    .help = "every agent keeps a weighted mean with its neighbours, in step",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct consensus),
    .row = &row,
};
