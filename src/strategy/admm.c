/* admm.c - consensus ADMM: every agent minimises its own loss, at a price for parting from z (Boyd et al. 2011).
 *
 *   minimise sum_i f_i(x_i) with all x_i = z:
 *
 *   x_i <- argmin f_i(x) + y_i (x - z) + rho/2 |x - z|^2
 *   z   <- mean of x_i + y_i / rho
 *   y_i <- y_i + rho (x_i - z)
 *
 * The argmin is `steps` steps of the optimiser from where x_i is, with the gradient g_i + y_i + rho (x_i -
 * z). After every z the y_i of those in the mean sum to zero. A helper keeps z, which is the model, and what
 * every worker said last:
 *
 *   worker:  steps -> call (x_i + y_i / rho) -> hear z -> y_i -> steps -> ...      at the end x_i = z
 *   centre:  calls of enough workers -> z -> answer them
 *
 * sync: enough are all. async (Zhang and Kwok 2014): any `barrier` of them, as long as no other is `delay`
 * values of z late; of the others the centre takes what it heard last. Who is gone no longer counts, who has
 * come to its end does. A worker without a centre is a group of one: z = x_i + y_i / rho, y_i = 0.
 *
 * With one agent and `steps: 1` x = z and y = 0 before every step: that is plain SGD, bit for bit.
 */
#include <stdlib.h>
#include <string.h>

#include "strategy/centre.h"
#include "strategy/strategies.h"

enum mode { SYNC, ASYNC };

#define ROW_PRICE ROW_KEPT       /* y_i */
#define ROW_Z     (ROW_KEPT + 1) /* as it last came */

struct admm {
    int mode;
    double rho;
    int64_t steps, barrier, delay;
    bool mix_statistics;
};

static row_set statistics_of(const struct agent *a)
{
    const struct admm *s = a->settings;
    return s->mix_statistics ? ROWS_STATS : 0;
}

/* ---- a worker ---- */

static fault copy(struct agent *a, enum row from, enum row into)
{
    return agent_combine(a, into, &(struct term){1, from, NULL, 0}, 1);
}

/* g + y + rho (x - z); what is small comes first, and is nothing where x = z. */
static fault add_pull(struct agent *a, double rho)
{
    const struct term terms[] = {
        {rho, ROW_PARAMS, NULL, 0}, {-rho, ROW_Z, NULL, 0}, {1, ROW_PRICE, NULL, 0}, {1, ROW_GRADS, NULL, 0}};
    return agent_combine(a, ROW_GRADS, terms, 4);
}

/* z = the centre's answer, or what I said where there is none. */
static fault take_z(struct agent *a, bool there)
{
    if (!there)
        return copy(a, ROW_GRADS, ROW_Z);
    fault f = agent_combine(a, ROW_Z, &(struct term){1, ROW_PARAMS, &a->parcels[0], 0}, 1);
    if (!f && statistics_of(a))
        f = agent_combine(a, ROW_STATS, &(struct term){1, ROW_STATS, &a->parcels[0], 0}, 1);
    link_drop(a->link, &a->parcels[0]);
    return f;
}

static fault meet(struct agent *a, double rho)
{
    const struct term mine[] = {{1, ROW_PARAMS, NULL, 0}, {1 / rho, ROW_PRICE, NULL, 0}};
    const struct term price[] = {{rho, ROW_PARAMS, NULL, 0}, {-rho, ROW_Z, NULL, 0}, {1, ROW_PRICE, NULL, 0}};
    bool there;
    TRY(agent_combine(a, ROW_GRADS, mine, 2));
    TRY(centre_begin(a, ROWS_GRADS | statistics_of(a)));
    TRY(centre_end(a, &a->parcels[0], &there));
    TRY(take_z(a, there));
    return agent_combine(a, ROW_PRICE, price, 3);
}

static fault learn(struct agent *a, const struct admm *s)
{
    uint64_t steps = (uint64_t)s->steps;
    bool met = a->k % steps == 0;
    if (a->k == 0 && !a->has_been_down)
        TRY(copy(a, ROW_PARAMS, ROW_Z));
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(add_pull(a, s->rho));
        TRY(agent_update(a));
        met = is_nth(a->k, steps) || agent_is_in_last_round(a);
        if (met)
            TRY(meet(a, s->rho));
        TRY(agent_end_round(a));
    }
    if (!met)
        TRY(meet(a, s->rho)); /* others have taken the last of the rounds that all share */
    TRY(copy(a, ROW_Z, ROW_PARAMS));
    centre_leave(a); /* last of all: a worker that leaves has ended when the centre hears of it */
    return OK;
}

/* A worker that is back starts from z, with no price; without a centre, from where it was. */
static fault admm_rejoin(struct agent *a)
{
    bool there;
    TRY(centre_rejoin(a, &there));
    return there ? copy(a, ROW_PARAMS, ROW_Z) : OK;
}

/* ---- the centre ---- */

struct desk { /* what it knows of the workers; it holds what worker i said last in parcels[i] */
    struct centre centre;
    uint64_t *late;     /* owned: values of z since each was answered */
    struct term *terms; /* owned: room for one of each */
};

static void admm_close(void *shared)
{
    struct desk *d = shared;
    if (!d)
        return;
    centre_release(&d->centre);
    free(d->late);
    free(d->terms);
    free(d);
}

static fault admm_open(const struct stage *stage, void **shared)
{
    struct desk *d = calloc(1, sizeof *d);
    *shared = d;
    if (!d)
        return OUT_OF_MEMORY;
    d->late = calloc(stage->n_agents, sizeof *d->late);
    d->terms = calloc(stage->n_agents, sizeof *d->terms);
    return d->late && d->terms ? centre_init(&d->centre, stage) : OUT_OF_MEMORY;
}

/* Whom to wait for: a worker without whom there is no new z, or ANYONE; none (n_agents) where there are
 * enough. */
static size_t whom_to_await(struct agent *a, const struct admm *s)
{
    const struct desk *d = a->stage->shared;
    const struct service *c = centre_of(a);
    size_t n = a->stage->n_agents, waiting = 0, others = 0, first = n;
    size_t barrier = s->mode == SYNC ? n : (size_t)s->barrier;
    for (size_t i = n; i-- > 0;) {
        waiting += c->visitors[i].waits;
        if (!service_awaits(c, i))
            continue;
        if (s->mode == ASYNC && d->late[i] >= (uint64_t)s->delay)
            return i;
        first = i;
        others++;
    }
    if (waiting >= barrier || (waiting && !others))
        return n;
    return waiting && waiting + others <= barrier ? first : ANYONE;
}

static fault receive(struct agent *a, size_t from)
{
    struct parcel *arrival = &a->parcels[a->stage->n_agents];
    struct arrival x;
    TRY(service_hear(centre_of(a), from, arrival, &x));
    if (x.in_vain && from != ANYONE)
        service_misses(centre_of(a), from);
    if (x.what != ARRIVED_QUESTION)
        return OK;
    link_drop(a->link, &a->parcels[x.who]);
    a->parcels[x.who] = *arrival;
    *arrival = (struct parcel){0};
    return OK;
}

static void forget_the_lost(struct agent *a)
{
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (!link_can_reach(a->link, i) && !link_has_ended(a->link, i))
            link_drop(a->link, &a->parcels[i]);
}

/* My row becomes the mean of what all have said, in their order. */
static fault take_mean(struct agent *a, const struct desk *d, enum row of, enum row into)
{
    size_t n = 0;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (a->parcels[i].rows)
            d->terms[n++] = (struct term){1, of, &a->parcels[i], 0};
    for (size_t i = 0; i < n; i++)
        d->terms[i].weight = 1 / (double)n;
    return agent_combine(a, into, d->terms, n);
}

static fault make_z(struct agent *a, const struct desk *d)
{
    forget_the_lost(a);
    TRY(take_mean(a, d, ROW_GRADS, ROW_PARAMS));
    return statistics_of(a) ? take_mean(a, d, ROW_STATS, ROW_STATS) : OK;
}

static fault answer_all(struct agent *a, struct desk *d)
{
    struct service *c = centre_of(a);
    for (size_t i = 0; i < a->stage->n_agents; i++) {
        d->late[i]++;
        if (!c->visitors[i].waits)
            continue;
        d->late[i] = 0;
        service_applied(c, i);
        TRY(service_answer(c, i, NULL, whole(ROWS_PARAMS | statistics_of(a))));
    }
    return OK;
}

static fault be_centre(struct agent *a, const struct admm *s)
{
    struct desk *d = a->stage->shared;
    memset(d->late, 0, a->stage->n_agents * sizeof *d->late);
    while (centre_is_needed(a)) {
        size_t from = whom_to_await(a, s);
        if (from != a->stage->n_agents) {
            TRY(receive(a, from));
            continue;
        }
        TRY(make_z(a, d));
        TRY(answer_all(a, d));
    }
    return OK;
}

/* ---- both ---- */

static fault admm_run(struct agent *a)
{
    const struct admm *s = a->settings;
    return agent_helps(a) ? be_centre(a, s) : learn(a, s);
}

static bool is_asynchronous(const struct experiment *e)
{
    return ((const struct admm *)e->strategy.settings)->mode == ASYNC;
}

#define USUAL_BARRIER 1
#define USUAL_DELAY   10
#define AS_TEXT(x)    #x
#define TEXT_OF(x)    AS_TEXT(x)

static fault admm_check(const struct experiment *e, size_t n_agents)
{
    const struct admm *s = e->strategy.settings;
    struct place at = e->strategy.place;
    if (s->mode == SYNC && (s->barrier != USUAL_BARRIER || s->delay != USUAL_DELAY))
        return fail_at(at, "strategy.%s: in 'mode: sync' all agents are waited for",
                       s->barrier != USUAL_BARRIER ? "barrier" : "delay");
    if ((size_t)s->barrier > n_agents)
        return fail_at(at, "strategy.barrier: %lld cannot call where there are %zu agents",
                       (long long)s->barrier, n_agents);
    return OK;
}

static const char *const modes[] = {"sync", "async", NULL};

static const struct field fields[] = {
    CHOICE_FIELD(struct admm, mode, "sync", modes,
                 "z is made of what all have said, or of some and what the others said last"),
    REAL_FIELD(struct admm, rho, "0.1", 0, 1e6, "how hard every agent is pulled towards z", .above_min = true),
    INT_FIELD(struct admm, steps, "10", 1, 1e9, "rounds from one z to the next"),
    INT_FIELD(struct admm, barrier, TEXT_OF(USUAL_BARRIER), 1, 1e5,
              "async: so many must have called before there is a new z"),
    INT_FIELD(struct admm, delay, TEXT_OF(USUAL_DELAY), 1, 1e9,
              "async: a worker that has said nothing for so many values of z is waited for"),
    FLAG_FIELD(struct admm, mix_statistics, "false",
               "with every z each agent takes the mean of batchnorm's running statistics, too"),
};

static const struct strategy_row row = {.run = admm_run,
                                        .hears_everyone = true,
                                        .has_centre = true,
                                        .kept = {{.name = "price"}, {.name = "z"}},
                                        .rejoin = admm_rejoin,
                                        .is_asynchronous = is_asynchronous,
                                        .check = admm_check,
                                        .open = admm_open,
                                        .close = admm_close};

const struct kind strategy_admm = {
    .name = "admm",
    .help = "every agent minimises its own loss at a price for parting from the others",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct admm),
    .row = &row,
    .helpers = centre_helpers,
};
