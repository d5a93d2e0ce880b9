/* ps.c - parameter servers: workers push gradients, servers make the steps, workers pull parameters.
 *
 *   sync    theta_{k+1} = theta_k - alpha_k / m sum_i g^i_k, the mean over those that live
 *   async   theta = theta - alpha g^i, whenever a gradient comes (Dean et al. 2012, Li et al. 2014)
 *   ssp     the same, but no worker is answered while it is more than `staleness` pushes ahead of the
 *           slowest that lives: stale synchronous parallel, a bound on clocks (Ho et al. 2013)
 *
 * The optimiser runs on the servers, each for its floats of the parameters; steps are element by element, so
 * the number of servers changes nothing in sync mode. The staleness of a gradient is the number of updates
 * its server has made since the worker pulled; with `staleness_aware` the step is divided by it (Zhang et al.
 * 2016). Under ssp it is at most (m - 1) (2 s + 1).
 *
 * `downpour` (downpour.c) is the same in async, but workers push and pull only now and then.
 *
 * In the end all say goodbye and hold the servers' last parameters (server.c). Where a server goes on without
 * a gradient, since its worker was gone or late, no step is undone; a standby that takes over goes on from the
 * last copy it got.
 */
#include "strategy/ps/ps.h"

#include "strategy/strategies.h"

/* ---- the worker ---- */

/* s = s + g, where not every gradient is pushed */
static fault add_gradient(struct agent *a, struct ps_client *c)
{
    struct term terms[] = {{1, ROW_GRADS, NULL, 0}, {1, ROW_SUM, NULL, 0}};
    size_t n = c->n_summed++ ? 2 : 1;
    return ps_row_of(ps_of(a), a->index) == ROW_GRADS ? OK : agent_combine(a, ROW_SUM, terms, n);
}

/* theta = the servers', for g or s; in rounds that do not pull theta - alpha g. */
static fault push_and_pull(struct agent *a, struct ps_client *c, const struct ps *s)
{
    bool pushes = is_nth(a->k, (uint64_t)s->push_every), pulls = is_nth(a->k, (uint64_t)s->pull_every);
    agent_rate(a);
    if (pushes || pulls)
        TRY(ps_call_servers(a, (pushes ? PS_PUSHES : 0) | (pulls ? PS_PULLS : 0)));
    if (pushes)
        c->n_summed = 0;
    return pulls ? OK : link_update(a->link, 0, TO_END, a->lr, ++a->steps);
}

static fault work(struct agent *a)
{
    const struct ps *s = &ps_of(a)->settings;
    struct ps_client *c = &ps_of(a)->clients[a->index];
    TRY(ps_begin(a));
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(add_gradient(a, c));
        TRY(push_and_pull(a, c, s));
        TRY(agent_end_round(a));
        ps_catch_up(a);
    }
    if (c->n_summed)
        TRY(ps_call_servers(a, PS_PUSHES | PS_PULLS));
    return ps_call_servers(a, PS_BYE | PS_PULLS);
}

/* ---- the server ---- */

/* theta = theta - alpha / divide_by * the sum of the terms */
static fault step(struct ps_helper *h, size_t n_terms, double divide_by)
{
    struct agent *a = h->agent;
    TRY(link_mix(a->link, ROW_GRADS, h->first, h->end, h->terms, n_terms));
    TRY(link_update(a->link, h->first, h->end, agent_rate(a) / divide_by, ++h->version));
    a->steps = h->version;
    h->listens_to_all = false;
    return OK;
}

static struct term gradient_of(const struct ps_helper *h, size_t child, double weight)
{
    return (struct term){weight, ps_row_of(ps_of(h->agent), child), ps_parcel(h, child), 0};
}

/* async, ssp: theta = theta - alpha g^i, or alpha / staleness */
static fault update_with(struct ps_helper *h, size_t i)
{
    struct ps_child *c = &h->children[i];
    h->terms[0] = gradient_of(h, i, 1);
    c->stale = h->version > c->ask.version ? h->version - c->ask.version : 0;
    TRY(step(h, 1, ps_settings(h)->staleness_aware && c->stale ? (double)c->stale : 1));
    ps_let_go(h, i);
    return ps_send_copy(h);
}

/* The gradients of the latest round, in the order of the members; earlier ones have come too late. */
static size_t gather(struct ps_helper *h, uint64_t *round, uint64_t *n_workers)
{
    size_t n = 0;
    *round = *n_workers = 0;
    for (size_t i = 0; i < ps_n_members(h); i++)
        if (ps_visitor(h, i)->pending && h->children[i].ask.round > *round)
            *round = h->children[i].ask.round;
    for (size_t i = 0; i < ps_n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        if (!ps_visitor(h, i)->pending)
            continue;
        c->late = c->ask.round < *round;
        if (c->late)
            continue;
        h->terms[n++] = gradient_of(h, i, 1);
        *n_workers += c->ask.n;
    }
    return n;
}

/* sync: theta = theta - alpha / m sum_i g^i; a node: the sum goes up, theta comes down. */
static fault update_together(struct ps_helper *h)
{
    struct agent *a = h->agent;
    uint64_t round, n_workers;
    size_t n = gather(h, &round, &n_workers);
    if (h->is_node) {
        TRY(link_mix(a->link, ROW_SUM, 0, TO_END, h->terms, n));
        ps_let_all_go(h);
        return ps_ask_above(h, PS_PUSHES | PS_PULLS, round, n_workers);
    }
    for (size_t i = 0; i < n; i++)
        h->terms[i].weight = 1.0 / (double)n_workers;
    a->k = round; /* by which the rate is */
    TRY(step(h, n, 1));
    ps_let_all_go(h);
    a->k = round + 1;
    return ps_send_copy(h);
}

fault ps_update(struct ps_helper *h)
{
    size_t n_pending = 0, n_missing = 0;
    for (size_t i = 0; i < ps_n_members(h); i++) {
        const struct visitor *v = ps_visitor(h, i);
        if (v->pending && ps_settings(h)->mode != PS_SYNC)
            TRY(update_with(h, i));
        n_pending += v->pending;
        n_missing += service_is_active(&h->service, i) && !v->pending; /* who has only pulled, too */
    }
    return n_pending && !n_missing ? update_together(h) : OK;
}

/* ---- both ---- */

/* A member that has lost the servers while others have not ends alone; once no member has them any more, all end. */
fault ps_run(struct agent *a)
{
    struct ps_client *c = &ps_of(a)->clients[a->index];
    fault f = agent_helps(a) ? ps_serve(a) : work(a);
    if (!f || !is_about_peers(f) || !(agent_helps(a) || c->others_go_on))
        return f;
    link_note(a->link, "lost", fault_text(f));
    return forgive(f);
}

/* ---- the strategy `ps` ---- */

static struct ps settings_of(const void *settings)
{
    struct ps s = *(const struct ps *)settings;
    s.push_every = s.pull_every = 1;
    return s;
}

static bool sums(const struct experiment *e)
{
    return ((const struct ps *)e->strategy.settings)->tree > 0;
}

static fault open_ps(const struct stage *stage, void **shared)
{
    return ps_open(stage, settings_of(stage->experiment->strategy.settings), shared);
}

static int64_t helpers(const void *settings, int64_t agents)
{
    return ps_helpers(settings, agents);
}

static bool ps_is_asynchronous(const struct experiment *e)
{
    const struct ps *s = e->strategy.settings;
    return s->mode != PS_SYNC;
}

static fault ps_check(const struct experiment *e, size_t n_agents)
{
    const struct ps *s = e->strategy.settings;
    struct place at = e->strategy.place;
    (void)n_agents;
    if (s->staleness && s->mode != PS_SSP)
        return fail_at(at, "strategy.staleness: only 'mode: ssp' bounds how far one may be ahead");
    if (s->staleness_aware && s->mode == PS_SYNC)
        return fail_at(at, "strategy.staleness_aware: in 'mode: sync' no gradient is stale");
    if (s->tree == 1)
        return fail_at(at, "strategy.tree: a node sums at least two gradients; 0 is no tree");
    if (s->tree && s->mode != PS_SYNC)
        return fail_at(at, "strategy.tree: nodes sum the gradients of a round, which only 'mode: sync' has");
    return OK;
}

static const char *const modes[] = {"sync", "async", "ssp", NULL};

static const struct field fields[] = {
    CHOICE_FIELD(struct ps, mode, "sync", modes,
                 "all gradients of a round together, each as it comes, or that with bounded staleness"),
    INT_FIELD(struct ps, staleness, "0", 0, 1e9, "ssp: pushes that an agent may be ahead of the slowest"),
    FLAG_FIELD(struct ps, staleness_aware, "false", "divide the step by the staleness of its gradient"),
    SERVERS_FIELD(struct ps),
    INT_FIELD(struct ps, tree, "0", 0, 1e6,
              "sync: nodes between agents and servers sum the gradients of so many; 0: none"),
    REPLICATE_EVERY_FIELD(struct ps),
};

static const struct strategy_row row = {
    .run = ps_run,
    .rejoin = ps_rejoin,
    .is_asynchronous = ps_is_asynchronous,
    .hears_everyone = true,
    .kept = {{.name = "sum", .is_needed = sums}},
    .open = open_ps,
    .close = ps_close,
    .check = ps_check,
};

const struct kind strategy_ps = {
    .name = "ps",
    .help = "servers make the steps: agents push gradients to them and pull parameters",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct ps),
    .row = &row,
    .helpers = helpers,
};
