/* average.c - model averaging: every agent learns alone, and now and then all go on from their mean.
 *
 *   every round:          theta^i <- theta^i - alpha_k g^i
 *   every `tau` rounds:   theta^i <- sum_j w_j theta^j        w_j = 1/m, or agent j's share of the data
 *
 * tau = 1 is parallel SGD; a larger tau is local SGD (McDonald et al. 2010); `tau: end` is one-shot averaging
 * (Zinkevich et al. 2010; Zhang et al. 2012). The last round is always followed by an averaging, so that all
 * end with one model.
 *
 * Until epoch `from_epoch` rounds are synchronous: all step by the mean gradient (post-local SGD, Lin et al.
 * 2020). That is `allreduce`, bit for bit, whatever the optimiser:
 *
 *   theta <- theta - alpha_k sum_j w_j g^j
 *
 * With `momentum` eta and `block_rate` zeta a block of rounds is one step of a larger descent (BMUF, Chen and
 * Huo 2016). A block begins at phi_{t-1} and ends in the mean of what all have come to:
 *
 *   Delta_t = eta Delta_{t-1} + zeta (mean - phi_{t-1})
 *   theta_t = theta_{t-1} + Delta_t
 *   phi_t   = theta_t                      classical block momentum
 *   phi_t   = theta_t + eta Delta_t        Nesterov block momentum (`nesterov`)
 *
 * eta = 0, zeta = 1 is averaging. After the last block all hold theta_t.
 *
 * After an averaging all have the same parameters, bit for bit. When an agent dies in it the living re-form
 * (group.h) and average what they had: sums are made in the gradient's row, which is free then, so no
 * row is lost. One agent alone is plain SGD, bit for bit, but for block momentum.
 */
#include "collective/collective.h"
#include "strategy/mixed.h"
#include "strategy/strategies.h"

enum weighing { EQUALLY, BY_DATA };

#define MOST_SAMPLES 0x1p53 /* that can be counted */

#define ROW_THETA ROW_KEPT /* of blocks; their Delta */
#define ROW_DELTA (ROW_KEPT + 1)

struct average {
    int64_t tau; /* 0: only at the end */
    double momentum, block_rate, from_epoch;
    bool nesterov;
    int weights, algorithm;
    struct mixed mixed;
};

/* What an agent weighs among the members of a generation: m w_i. */
struct weight {
    bool known;
    uint64_t generation;
    double value;
};

static bool is_block_momentum(const struct average *s)
{
    return s->momentum != 0 || s->block_rate != 1;
}

static bool has_blocks(const struct experiment *e)
{
    return is_block_momentum(e->strategy.settings);
}

static bool is_synchronous(const struct agent *a, const struct average *s)
{
    return (double)(a->k + 1) <= s->from_epoch * a->stage->rounds_per_epoch;
}

static bool is_due(const struct agent *a, const struct average *s)
{
    return agent_is_in_last_round(a) || (s->tau && is_nth(a->k, (uint64_t)s->tau));
}

/* Once in a generation every member tells all others how many samples it has. */
static fault weigh(struct agent *a, const struct average *s, struct weight *w)
{
    struct group *g = agent_group(a);
    double mine = (double)a->feed.n_share, all = 0;
    if (w->known && w->generation == g->generation)
        return OK;
    *w = (struct weight){.value = 1};
    if (s->weights == BY_DATA) {
        TRY(group_exchange(g, &mine, 1, a->shares));
        for (size_t i = 0; i < g->n; i++) {
            if (!(a->shares[i] >= 0 && a->shares[i] <= MOST_SAMPLES))
                return FAIL(FAULT_DATA, "agent %u says that it has %g samples", g->members[i], a->shares[i]);
            all += a->shares[i];
        }
        w->value = (double)g->n * mine / all;
    }
    w->known = true;
    w->generation = g->generation;
    return OK;
}

/* sum_j w_j row^j, in the gradient's row. */
static fault sum_up(struct agent *a, const struct average *s, enum row row, double weight)
{
    size_t n = link_row_floats(a->link, row);
    struct term mine = {weight, row, NULL, 0};
    TRY(link_mix(a->link, ROW_GRADS, 0, n, &mine, 1));
    return group_mean(agent_group(a), collective_rows[s->algorithm], ROW_GRADS, 0, n);
}

static fault keep_sum(struct agent *a, enum row row)
{
    return agent_combine(a, row, &(struct term){1, ROW_GRADS, NULL, 0}, 1);
}

/* The mean is in the gradient's row. */
static fault step_of_block(struct agent *a, const struct average *s)
{
    double eta = s->momentum, zeta = s->block_rate;
    double eta_after = s->nesterov ? eta - zeta * eta : eta; /* phi_{t-1} = theta_{t-1} + eta Delta_{t-1} */
    const struct term delta[] = {
        {eta_after, ROW_DELTA, NULL, 0}, {zeta, ROW_GRADS, NULL, 0}, {-zeta, ROW_THETA, NULL, 0}};
    const struct term theta[] = {{1, ROW_THETA, NULL, 0}, {1, ROW_DELTA, NULL, 0}};
    const struct term phi[] = {{1, ROW_THETA, NULL, 0}, {eta, ROW_DELTA, NULL, 0}};
    TRY(agent_combine(a, ROW_DELTA, delta, 3));
    TRY(agent_combine(a, ROW_THETA, theta, 2));
    return agent_combine(a, ROW_PARAMS, phi, s->nesterov && !agent_is_in_last_round(a) ? 2 : 1);
}

/* theta of the block that begins. */
static fault begin_blocks(struct agent *a, const struct average *s)
{
    return is_block_momentum(s) ? agent_combine(a, ROW_THETA, &(struct term){1, ROW_PARAMS, NULL, 0}, 1) : OK;
}

/* The parameters come last, and no agent waits for another after them: one that has taken the block's step is in the
 * next round, and one that has not takes over its rows. */
static fault average_members(struct agent *a, const struct average *s, struct weight *w)
{
    if (group_is_incomplete(agent_group(a)))
        return FAIL(FAULT_PEER, "an agent can be reached again");
    TRY(weigh(a, s, w));
    for (enum row row = ROW_STATS; row < ROW_KEPT; row++)
        if (mixed_rows(&s->mixed) & 1u << row) {
            TRY(sum_up(a, s, row, w->value));
            TRY(keep_sum(a, row));
        }
    TRY(sum_up(a, s, ROW_PARAMS, w->value));
    return is_block_momentum(s) ? step_of_block(a, s) : keep_sum(a, ROW_PARAMS);
}

/* The mean gradient of all, as allreduce.c makes it. */
static fault learn_together(struct agent *a, const struct average *s, struct weight *w)
{
    if (group_is_incomplete(agent_group(a)))
        return FAIL(FAULT_PEER, "an agent can be reached again");
    TRY(weigh(a, s, w));
    TRY(agent_learn(a));
    TRY(sum_up(a, s, ROW_GRADS, w->value));
    return s->mixed.statistics
               ? group_mean(agent_group(a), collective_rows[s->algorithm], ROW_STATS, 0, TO_END)
               : OK;
}

/* Where a member is lost the round is done again by those who are left. */
static fault synchronous_round(struct agent *a, const struct average *s, struct weight *w)
{
    fault f = learn_together(a, s, w);
    if (f)
        return agent_regroup_after(a, f);
    TRY(agent_update(a));
    TRY(begin_blocks(a, s));
    return agent_end_round(a);
}

/* With those that are there in the end, if only the agent itself. */
static fault average_the_living(struct agent *a, const struct average *s, struct weight *w)
{
    fault f;
    while (agent_goes_on(a) && (f = average_members(a, s, w)))
        TRY(agent_regroup_after(a, f));
    return OK;
}

static fault local_round(struct agent *a, const struct average *s, struct weight *w)
{
    TRY(agent_learn(a));
    TRY(agent_update(a));
    if (is_due(a, s))
        TRY(average_the_living(a, s, w));
    return agent_goes_on(a) ? agent_end_round(a) : OK; /* not where all others have ended */
}

static fault average_run(struct agent *a)
{
    const struct average *s = a->settings;
    struct weight w = {0};
    if (a->k == 0 && !a->has_been_down)
        TRY(begin_blocks(a, s));
    while (agent_goes_on(a))
        TRY(is_synchronous(a, s) ? synchronous_round(a, s, &w) : local_round(a, s, &w));
    return agent_agree(a);
}

static fault average_check(const struct experiment *e, size_t n_agents)
{
    (void)n_agents;
    const struct average *s = e->strategy.settings;
    if (s->nesterov && s->momentum == 0)
        return fail_at(e->strategy.place,
                       "strategy.nesterov: block momentum looks ahead where strategy.momentum is above 0");
    if (s->momentum != 0 && s->tau == 0)
        return fail_at(
            e->strategy.place,
            "strategy.momentum: with 'tau: end' there is one block, and nothing that it could carry on");
    return strategy_check_native(e, "algorithm", s->algorithm == NATIVE);
}

static const char *const weighings[] = {"equal", "data", NULL};

static const struct field fields[] = {
    INT_FIELD(struct average, tau, "10", 1, 1e9,
              "rounds from one averaging to the next; end: a single one after the last", .word = "end"),
    REAL_FIELD(struct average, from_epoch, "0", 0, 1e9,
               "until then all step by their mean gradient, every round (post-local SGD)"),
    REAL_FIELD(struct average, momentum, "0", 0, 0.999999, "of the steps from one averaging to the next (BMUF)"),
    FLAG_FIELD(struct average, nesterov, "false", "such steps look ahead, as Nesterov's momentum does (BMUF)"),
    REAL_FIELD(struct average, block_rate, "1", 0, 10,
               "how far towards the mean such a step goes (BMUF)", .above_min = true),
    CHOICE_FIELD(struct average, weights, "equal", weighings,
                 "what an agent counts for: as much as any other, or as its share of the data"),
    CHOICE_FIELD(struct average, algorithm, "auto", collective_names, "how the parameters are summed"),
    MIXED_FIELDS(struct average),
};

static const struct strategy_row row = {
    .run = average_run,
    .forms_group = true,
    .kept = {{.name = "block", .is_needed = has_blocks}, {.name = "block_momentum", .is_needed = has_blocks}},
    .check = average_check};

const struct kind strategy_average = {
    .name = "average",
    .help = "every agent learns alone, and now and then all go on from their mean",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct average),
    .row = &row,
};
