/* easgd.c - elastic averaging (Zhang, Choromanska, LeCun 2015): every agent on a spring to one centre.
 *
 *   sync, every `every` rounds:   x^i_{k+1} = x^i_k - alpha (x^i_k - c_k) - eta g^i(x^i_k)
 *                                 c_{k+1}   = c_k + alpha sum_i (x^i_k - c_k)
 *   async, whenever ready:        the same between one worker and the centre as it is then
 *   other rounds:                 x^i_{k+1} = x^i_k - eta g^i(x^i_k)
 *
 * The forces cancel: what an x^i loses the centre gains, so c + sum_i x^i moves by gradients only. eta g is
 * whatever step the optimiser makes of the gradient; with Nesterov's momentum this is EAMSGD. The gradient is
 * taken at x^i_k while x^i_k and c_k travel. The model the group has learnt is c, kept by a helper. At k = 0
 * all are at c, and nothing is sent.
 *
 * In sync the centre takes the workers in their order, every one at its own next exchange; who is gone or
 * silent is left out. A worker whose centre is gone learns alone. Even one agent is not plain SGD once it is
 * held by the spring.
 */
#include "strategy/centre.h"
#include "strategy/strategies.h"

enum mode { SYNC, ASYNC };

struct easgd {
    int mode;
    double alpha; /* 0: the usual, USUAL_BETA / m */
    int64_t every;
    bool mix_statistics;
};

#define USUAL_BETA 0.9

static double alpha_of(const struct easgd *s, size_t n_agents)
{
    return s->alpha > 0 ? s->alpha : USUAL_BETA / (double)n_agents;
}

static row_set spring_rows(const struct agent *a)
{
    const struct easgd *s = a->settings;
    return ROWS_PARAMS | (s->mix_statistics ? ROWS_STATS : 0);
}

/* x = x - alpha (x - c); without a centre it stays where it is. */
static fault be_pulled(struct agent *a, double alpha)
{
    bool there;
    TRY(centre_end(a, &a->parcels[0], &there));
    a->shares[0] = alpha;
    return there ? agent_mix(a, spring_rows(a), 1 - alpha, 1) : OK;
}

static fault learn(struct agent *a, double alpha, uint64_t every)
{
    while (agent_goes_on(a)) {
        bool meets = a->k > 0 && a->k % every == 0;
        if (meets)
            TRY(centre_begin(a, spring_rows(a))); /* x and c travel while g is computed at x */
        TRY(agent_learn(a));
        if (meets)
            TRY(be_pulled(a, alpha));
        TRY(agent_update(a));
        TRY(agent_end_round(a));
    }
    centre_leave(a);
    return OK;
}

/* The x of one worker, who hears of c as it is before any x moves it. */
static fault take_in(struct agent *a, size_t from, double alpha, size_t *n)
{
    struct service *s = centre_of(a);
    struct arrival x;
    TRY(service_hear(s, from, &a->parcels[*n], &x));
    if (x.in_vain && from != ANYONE)
        service_misses(s, from);
    if (x.what == ARRIVED_QUESTION) {
        a->shares[(*n)++] = alpha;
        service_applied(s, x.who);
    }
    return arrival_asks(&x) ? service_answer(s, x.who, NULL, whole(spring_rows(a))) : OK;
}

static fault take_in_all(struct agent *a, double alpha, size_t *n)
{
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (link_can_reach(a->link, i) && !link_has_ended(a->link, i))
            TRY(take_in(a, i, alpha, n));
    return OK;
}

/* c = c + alpha sum_i (x^i - c), over all or over the one that calls next */
static fault be_centre(struct agent *a, double alpha, bool all)
{
    while (centre_is_needed(a)) {
        size_t n = 0;
        TRY(all ? take_in_all(a, alpha, &n) : take_in(a, ANYONE, alpha, &n));
        TRY(n ? agent_mix(a, spring_rows(a), 1 - (double)n * alpha, n) : OK);
    }
    return OK;
}

static fault easgd_run(struct agent *a)
{
    const struct easgd *s = a->settings;
    double alpha = alpha_of(s, a->stage->n_agents);
    return agent_helps(a) ? be_centre(a, alpha, s->mode == SYNC) : learn(a, alpha, (uint64_t)s->every);
}

/* A worker starts from where the centre is; a centre that is back has kept c. */
static fault easgd_rejoin(struct agent *a)
{
    bool there;
    return centre_rejoin(a, &there);
}

static bool is_asynchronous(const struct experiment *e)
{
    return ((const struct easgd *)e->strategy.settings)->mode == ASYNC;
}

/* beta = m alpha above one would throw the centre beyond where its workers are. */
static fault easgd_check(const struct experiment *e, size_t n_agents)
{
    const struct easgd *s = e->strategy.settings;
    double beta = alpha_of(s, n_agents) * (double)n_agents;
    if (s->mode == SYNC && beta > 1 + 1e-9)
        return fail_at(
            e->strategy.place,
            "strategy.alpha: %g for each of %zu agents moves the centre by %g of its distance, which "
            "must be at most 1",
            s->alpha, n_agents, beta);
    return OK;
}

static const char *const modes[] = {"sync", "async", NULL};

static const struct field fields[] = {
    CHOICE_FIELD(struct easgd, mode, "async", modes, "all meet the centre together, or each whenever it is ready"),
    REAL_FIELD(struct easgd, alpha, NULL, 0, 1,
               "the elastic force, as a part of the distance to the centre; usually 0.9 / agents", .optional = true, .above_min = true),
    INT_FIELD(struct easgd, every, "10", 1, 1e9, "rounds from one meeting with the centre to the next"),
    FLAG_FIELD(struct easgd, mix_statistics, "false", "batchnorm's running statistics are on the spring, too"),
};

static const struct strategy_row row = {.run = easgd_run,
                                        .hears_everyone = true,
                                        .has_centre = true,
                                        .rejoin = easgd_rejoin,
                                        .is_asynchronous = is_asynchronous,
                                        .check = easgd_check,
                                        .open = centre_open,
                                        .close = centre_close};

const struct kind strategy_easgd = {
    .name = "easgd",
    .help = "elastic averaging: every agent on a spring to one centre",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct easgd),
    .row = &row,
    .helpers = centre_helpers,
};
