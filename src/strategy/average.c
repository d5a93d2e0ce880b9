/* average.c - model averaging: everyone learns alone, and now and then all go on from their mean.
 *
 *   every round:          theta^i <- theta^i - alpha_k g^i
 *   every `tau` rounds:   theta^i <- sum_j w_j theta^j        w_j = 1/m, or agent j's share of the data
 *
 * tau = 1 is parallel SGD; a larger tau is local SGD (McDonald et al. 2010); `tau: end` is one-shot averaging
 * (Zinkevich et al. 2010; Zhang et al. 2012). The last round is always followed by an averaging, so that all
 * end with one model. Before epoch `from_epoch` every round is: post-local SGD (Lin et al. 2020), which is
 * synchronous first and local afterwards.
 *
 * With `momentum` eta and `block_rate` zeta a block of rounds is one step of a larger descent (BMUF, Chen and
 * Huo 2016):
 *
 *   Delta_t = eta Delta_{t-1} + zeta (mean - theta_{t-1})
 *   theta_t = theta_{t-1} + Delta_t
 *
 * where theta_t is what all go on from; eta = 0, zeta = 1 is averaging. KEEP0 holds theta_{t-1}, KEEP1 Delta.
 *
 * After an averaging all have the same parameters, bit for bit. When somebody dies in it the living re-form
 * (group.h) and average what they had: sums are made in the gradient's row, which nobody needs then, so no
 * row is lost. One agent alone is plain SGD, bit for bit, but for block momentum.
 */
#include "collective/collective.h"
#include "strategy/mixed.h"
#include "strategy/strategies.h"

enum weighing { EQUALLY, BY_DATA };

struct average {
    int64_t tau; /* 0: only at the end */
    double momentum, block_rate, from_epoch;
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

static bool is_due(const struct agent *a, const struct average *s)
{
    uint64_t done = a->k + 1;
    bool is_early = (double)done <= s->from_epoch * a->stage->rounds_per_epoch;
    return is_early || agent_is_in_last_round(a) || (s->tau && done % (uint64_t)s->tau == 0);
}

/* Once in a generation everyone tells everyone how many samples it has. */
static fault weigh(struct agent *a, const struct average *s, struct weight *w)
{
    struct group *g = agent_group(a);
    double mine = (double)a->feed.n_share, all = 0;
    if (w->known && w->generation == g->generation)
        return OK;
    *w = (struct weight){.value = 1};
    if (s->weights == BY_DATA) {
        TRY(group_exchange(g, &mine, sizeof mine, a->shares));
        for (size_t i = 0; i < g->n; i++)
            all += a->shares[i];
        w->value = (double)g->n * mine / all;
    }
    w->known = true;
    w->generation = g->generation;
    return OK;
}

/* sum_j w_j row^j, in the gradient's row. */
static fault sum_up(struct agent *a, const struct average *s, enum row row, double weight)
{
    size_t n = a->link->ops->row_floats(a->link, row);
    struct term mine = {weight, row, NULL};
    TRY(a->link->ops->mix(a->link, ROW_GRADS, 0, n, &mine, 1));
    return group_mean(agent_group(a), collectives[s->algorithm], ROW_GRADS, 0, n);
}

static fault keep_sum(struct agent *a, enum row row)
{
    return agent_combine(a, row, &(struct term){1, ROW_GRADS, NULL}, 1);
}

static fault step_of_block(struct agent *a, const struct average *s)
{
    const struct term delta[] = {
        {s->momentum, ROW_KEEP1, NULL}, {s->block_rate, ROW_GRADS, NULL}, {-s->block_rate, ROW_KEEP0, NULL}};
    const struct term theta[] = {{1, ROW_KEEP0, NULL}, {1, ROW_KEEP1, NULL}};
    TRY(agent_combine(a, ROW_KEEP1, delta, 3));
    TRY(agent_combine(a, ROW_KEEP0, theta, 2));
    return agent_combine(a, ROW_PARAMS, theta, 1);
}

/* The parameters come last, and nobody is waited for after them: whoever has taken the block's step is in the
 * next round, and whoever has not takes over its rows. */
static fault average_members(struct agent *a, const struct average *s, struct weight *w)
{
    static const enum row before[] = {ROW_STATS, ROW_SLOT0, ROW_SLOT1};
    if (group_is_incomplete(agent_group(a)))
        return FAIL(FAULT_PEER, "an agent can be reached again");
    TRY(weigh(a, s, w));
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (mixed_rows(&s->mixed) & 1u << before[i]) {
            TRY(sum_up(a, s, before[i], w->value));
            TRY(keep_sum(a, before[i]));
        }
    TRY(sum_up(a, s, ROW_PARAMS, w->value));
    return is_block_momentum(s) ? step_of_block(a, s) : keep_sum(a, ROW_PARAMS);
}

/* With whoever is there in the end, if only the agent itself. */
static fault average_the_living(struct agent *a, const struct average *s, struct weight *w)
{
    fault f;
    while (agent_goes_on(a) && (f = average_members(a, s, w)))
        TRY(agent_regroup_after(a, f));
    return OK;
}

static fault average_run(struct agent *a)
{
    const struct average *s = a->settings;
    struct weight w = {0};
    if (is_block_momentum(s) && a->k == 0 && !a->has_been_down)
        TRY(agent_combine(a, ROW_KEEP0, &(struct term){1, ROW_PARAMS, NULL}, 1)); /* theta_0 */
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(agent_update(a));
        if (is_due(a, s))
            TRY(average_the_living(a, s, &w));
        if (agent_goes_on(a)) /* not where all others have ended */
            TRY(agent_end_round(a));
    }
    return agent_agree(a);
}

static fault average_check(const struct experiment *e, size_t n_agents)
{
    (void)n_agents;
    const struct average *s = e->strategy.settings;
    return strategy_check_native(e, "algorithm", s->algorithm == NATIVE);
}

static const char *const weighings[] = {"equal", "data", NULL};

#define AT(member) offsetof(struct average, member)
static const struct field fields[] = {
    {.name = "tau",
     .kind = FIELD_INT,
     .word = "end",
     .offset = AT(tau),
     .fallback = "10",
     .min = 1,
     .max = 1e9,
     .help = "rounds from one averaging to the next; end: a single one after the last"},
    {.name = "from_epoch",
     .kind = FIELD_REAL,
     .offset = AT(from_epoch),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .help = "until then all average after every round (post-local SGD)"},
    {.name = "momentum",
     .kind = FIELD_REAL,
     .offset = AT(momentum),
     .fallback = "0",
     .min = 0,
     .max = 0.999999,
     .help = "of the steps from one averaging to the next (BMUF)"},
    {.name = "block_rate",
     .kind = FIELD_REAL,
     .offset = AT(block_rate),
     .fallback = "1",
     .min = 0,
     .max = 10,
     .above_min = true,
     .help = "how far towards the mean such a step goes (BMUF)"},
    {.name = "weights",
     .kind = FIELD_CHOICE,
     .offset = AT(weights),
     .fallback = "equal",
     .choices = weighings,
     .help = "what an agent counts for: as much as any other, or as its share of the data"},
    {.name = "algorithm",
     .kind = FIELD_CHOICE,
     .offset = AT(algorithm),
     .fallback = "auto",
     .choices = collective_names,
     .help = "how the parameters are summed"},
    MIXED_FIELDS(AT(mixed)),
};

static const struct strategy_row row = {
    .run = average_run, .forms_group = true, .n_keep = 2, .check = average_check};

const struct kind strategy_average = {
    .name = "average",
    .help = "everyone learns alone, and now and then all go on from their mean",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct average),
    .row = &row,
};
