/* ps.c - parameter servers: workers push gradients, servers make the steps, workers pull parameters.
 *
 *   sync    theta_{k+1} = theta_k - alpha_k / m sum_i g^i_k, the mean over those that live
 *   async   theta = theta - alpha g^i, whenever a gradient comes (Dean et al. 2012, Li et al. 2014)
 *   ssp     the same, but nobody is answered while it is more than `staleness` pushes ahead of the
 *           slowest that lives: stale synchronous parallel, a bound on clocks (Ho et al. 2013)
 *
 *   a worker's life:  learn -> push, pull -> learn -> push, pull -> ... -> goodbye
 *
 * The optimiser runs on the servers, each for its floats of the parameters; steps are element by element, so
 * the number of servers changes nothing in sync mode. The staleness of a gradient is the number of updates
 * its server has made since the worker pulled; with `staleness_aware` the step is divided by it (Zhang et al.
 * 2016). Under ssp it is at most (m - 1) (2 s + 1).
 *
 * `downpour` (downpour.c) is the same in async, but workers push and pull only now and then.
 *
 * A goodbye is answered when everybody has said it, or after twice the patience: in the end all hold the
 * servers' last parameters. Where a server goes on without a gradient (its worker was gone, or late) or gets
 * it twice (it died between the step and the answer, and its standby is asked) no step is undone.
 */
#include "strategy/ps/ps.h"

#include <stdio.h>
#include <stdlib.h>

#include "strategy/strategies.h"

/* ---- the worker ---- */

static void note_staleness(struct agent *a, uint64_t stale)
{
    a->staleness.sum += stale;
    a->staleness.most = stale > a->staleness.most ? stale : a->staleness.most;
    a->staleness.n++;
}

static fault exchange(struct agent *a, struct ps_client *c, uint64_t kind)
{
    struct letter x, ask = {.kind = kind, .round = a->k, .n = 1};
    if (kind & LETTER_PUSHES)
        c->clock++;
    ask.clock = c->clock;
    TRY(ps_exchange(a, ask, &x));
    if (kind & LETTER_PUSHES) {
        note_staleness(a, x.n);
        a->dropped += (x.kind & LETTER_LATE) != 0;
    }
    c->round = x.round;
    return OK;
}

/* What is pushed: this gradient, or the sum of those since the last push. */
static fault add_gradient(struct agent *a, struct ps_client *c)
{
    struct term terms[] = {{1, ROW_GRADS, NULL, 0}, {1, ROW_SUM, NULL, 0}};
    size_t n = c->n_summed++ ? 2 : 1;
    return ps_row_of(ps_of(a), a->index) == ROW_GRADS ? OK : agent_combine(a, ROW_SUM, terms, n);
}

static fault push_and_pull(struct agent *a, struct ps_client *c, const struct ps *s)
{
    bool pushes = is_nth(a->k, (uint64_t)s->push_every), pulls = is_nth(a->k, (uint64_t)s->pull_every);
    agent_rate(a);
    if (pushes || pulls)
        TRY(exchange(a, c, (pushes ? LETTER_PUSHES : 0) | (pulls ? LETTER_PULLS : 0)));
    if (pushes)
        c->n_summed = 0;
    return pulls ? OK : link_update(a->link, 0, TO_END, a->lr, ++a->steps);
}

/* In sync mode the others may have gone on meanwhile. */
static void catch_up(struct agent *a, const struct ps_client *c)
{
    if (!a->stage->asynchronous && c->round > a->k)
        a->k = c->round;
}

static fault come_back(struct agent *a, struct ps_client *c)
{
    char text[96];
    c->is_back = false;
    c->n_summed = 0;
    TRY(exchange(a, c, LETTER_PULLS));
    if (!a->stage->asynchronous)
        a->k = c->round;
    snprintf(text, sizeof text, "agent %zu is back with the servers' parameters", a->index);
    link_note(a->link, "return", text);
    return OK;
}

/* From a checkpoint: what was summed by then is in its row; how old the parameters are only the servers know. */
static fault go_on(struct agent *a, struct ps_client *c, const struct ps *s)
{
    c->n_summed = a->k % (uint64_t)s->push_every;
    return a->stage->asynchronous ? exchange(a, c, LETTER_PULLS) : OK;
}

static fault work(struct agent *a, struct ps_client *c, const struct ps *s)
{
    if (c->is_back)
        TRY(come_back(a, c));
    else if (a->k)
        TRY(go_on(a, c, s));
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(add_gradient(a, c));
        TRY(push_and_pull(a, c, s));
        TRY(agent_end_round(a));
        catch_up(a, c);
    }
    if (c->n_summed)
        TRY(exchange(a, c, LETTER_PUSHES | LETTER_PULLS));
    return exchange(a, c, LETTER_BYE | LETTER_PULLS);
}

/* Whoever has lost the servers while others have not ends alone; when nobody has them any more, all end. */
fault ps_run(struct agent *a)
{
    struct ps_client *c = &ps_of(a)->clients[a->index];
    fault f = agent_helps(a) ? ps_serve(a) : work(a, c, &ps_of(a)->settings);
    if (!f || !is_about_peers(f) || !(agent_helps(a) || c->others_go_on))
        return f;
    link_note(a->link, "lost", fault_text(f));
    return forgive(f);
}

fault ps_rejoin(struct agent *a)
{
    struct ps_shared *s = ps_of(a);
    if (agent_helps(a))
        s->helpers[a->index - s->n_workers].is_back = true;
    else
        s->clients[a->index].is_back = true;
    return OK;
}

/* ---- who is who ---- */

int64_t ps_helpers(const struct ps *s, int64_t agents)
{
    return s->servers * (s->replicate_every ? 2 : 1) + (int64_t)ps_nodes((size_t)agents, (size_t)s->tree);
}

static void place_client(struct ps_shared *s, size_t i)
{
    s->clients[i].shards = s->shards + i * s->n_servers;
    for (size_t j = 0; j < s->n_servers; j++)
        s->clients[i].shards[j].asked = s->n_workers + j;
}

static void place_helper(struct ps_shared *s, size_t n_params, size_t i)
{
    size_t self = s->n_workers + i, shard = i % s->n_servers, first, end;
    struct ps_helper *h = &s->helpers[i];
    *h = (struct ps_helper){.children = s->children + i * s->n_members, .terms = s->terms + i * s->n_members};
    h->is_node = self >= s->first_node;
    h->leads = h->is_node || i < s->n_servers;
    h->first = h->is_node ? 0 : n_params * shard / s->n_servers;
    h->end = h->is_node ? n_params : n_params * (shard + 1) / s->n_servers;
    h->other = self;
    if (!h->is_node && s->has_standbys)
        h->other = i < s->n_servers ? self + s->n_servers : self - s->n_servers;
    ps_children(s, self, &first, &end);
    for (size_t c = first; c < end; c++)
        h->children[c].known = true;
}

fault ps_open(const struct stage *stage, struct ps settings, void **shared)
{
    struct ps_shared *s = calloc(1, sizeof *s);
    if (!s)
        return OUT_OF_MEMORY;
    *shared = s;
    size_t n = stage->n_members, n_helpers = n - stage->n_agents;
    *s = (struct ps_shared){
        .settings = settings,
        .n_workers = stage->n_agents,
        .n_members = n,
        .n_servers = (size_t)settings.servers,
        .has_standbys = settings.replicate_every > 0,
        .clients = calloc(n, sizeof *s->clients),
        .helpers = calloc(n_helpers, sizeof *s->helpers),
        .shards = calloc(n * (size_t)settings.servers, sizeof *s->shards),
        .children = calloc(n * n_helpers, sizeof *s->children),
        .terms = calloc(n * n_helpers, sizeof *s->terms),
    };
    s->first_node = s->n_workers + s->n_servers * (s->has_standbys ? 2 : 1);
    if (!s->clients || !s->helpers || !s->shards || !s->children || !s->terms)
        return OUT_OF_MEMORY; /* what there is goes with ps_close */
    for (size_t i = 0; i < n; i++)
        place_client(s, i);
    for (size_t i = 0; i < n_helpers; i++)
        place_helper(s, stage->n_params, i);
    return OK;
}

void ps_close(void *shared)
{
    struct ps_shared *s = shared;
    if (!s)
        return;
    free(s->clients);
    free(s->helpers);
    free(s->shards);
    free(s->children);
    free(s->terms);
    free(s);
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

#define AT(member) offsetof(struct ps, member)
static const struct field fields[] = {
    {.name = "mode",
     .kind = FIELD_CHOICE,
     .offset = AT(mode),
     .fallback = "sync",
     .choices = modes,
     .help = "all gradients of a round together, each as it comes, or that with bounded staleness"},
    {.name = "staleness",
     .kind = FIELD_INT,
     .offset = AT(staleness),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .help = "ssp: pushes that an agent may be ahead of the slowest"},
    {.name = "staleness_aware",
     .kind = FIELD_FLAG,
     .offset = AT(staleness_aware),
     .fallback = "false",
     .help = "divide the step by the staleness of its gradient"},
    SERVERS_FIELD(AT(servers)),
    {.name = "tree",
     .kind = FIELD_INT,
     .offset = AT(tree),
     .fallback = "0",
     .min = 0,
     .max = 1e6,
     .help = "sync: nodes between agents and servers sum the gradients of so many; 0: none"},
    REPLICATE_EVERY_FIELD(AT(replicate_every)),
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
