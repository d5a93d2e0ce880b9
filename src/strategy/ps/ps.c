/* ps.c - parameter servers: workers push gradients, servers make the steps, workers pull parameters.
 *
 *   sync    theta_{k+1} = theta_k - alpha_k / m sum_i g^i_k, the mean over those that live
 *   async   theta = theta - alpha g^i, whenever a gradient comes (Dean et al. 2012, Li et al. 2014)
 *   ssp     the same, but nobody is answered while it is more than `staleness` pushes ahead of the
 *           slowest that lives: stale synchronous parallel, a bound on clocks (Ho et al. 2013)
 *
 * The optimiser runs on the servers, each for its floats of the parameters; steps are element by element, so
 * the number of servers changes nothing in sync mode. The staleness of a gradient is the number of updates
 * its server has made since the worker pulled; with `staleness_aware` the step is divided by it (Zhang et al.
 * 2016). Under ssp it is at most (m - 1) (2 s + 1).
 *
 * `downpour` (downpour.c) is the same in async, but workers push and pull only now and then.
 *
 * In the end all say goodbye and hold the servers' last parameters (server.c). Where a server goes on without a
 * gradient, since its worker was gone or late, no step is undone; a standby that takes over goes on from the last
 * copy it got.
 */
#include "strategy/ps/ps.h"

#include <stdio.h>
#include <stdlib.h>

#include "strategy/strategies.h"

/* Whoever has lost the servers while others have not ends alone; when nobody has them any more, all end. */
fault ps_run(struct agent *a)
{
    struct ps_client *c = &ps_of(a)->clients[a->index];
    fault f = agent_helps(a) ? ps_serve(a) : ps_work(a);
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

/* Servers and standbys are pairs; a part of the parameters each. */
static size_t other_of(const struct ps_shared *s, size_t member)
{
    if (member >= s->first_node || !s->has_standbys)
        return member;
    return member < s->n_workers + s->n_servers ? member + s->n_servers : member - s->n_servers;
}

static size_t first_float(const struct ps_shared *s, size_t n_params, size_t shard)
{
    return n_params * shard / s->n_servers;
}

static void place_client(struct ps_shared *s, size_t n_params, size_t i)
{
    struct ps_client *c = &s->clients[i];
    c->shards = s->shards + i * s->n_servers;
    for (size_t j = 0; j < s->n_servers; j++) {
        size_t server = s->n_workers + j;
        c->shards[j].line = call_line_to_pair("server", server, other_of(s, server), sizeof(struct letter),
                                              sizeof(struct letter));
        c->shards[j].first = first_float(s, n_params, j);
        c->shards[j].end = first_float(s, n_params, j + 1);
    }
    size_t node = i < s->n_workers || i >= s->first_node ? ps_parent(s, i) : NO_NODE;
    c->node.line = call_line_to_pair("node", node, node, sizeof(struct letter), sizeof(struct letter));
    c->node.line.lost = 0; /* the servers stand in for it */
    c->node.end = n_params;
}

static fault place_helper(struct ps_shared *s, size_t n_params, size_t i)
{
    size_t self = s->n_workers + i, shard = i % s->n_servers, first, end;
    struct ps_helper *h = &s->helpers[i];
    h->children = s->children + i * s->n_members;
    h->terms = s->terms + i * s->n_members;
    h->is_node = self >= s->first_node;
    h->first = h->is_node ? 0 : first_float(s, n_params, shard);
    h->end = h->is_node ? n_params : first_float(s, n_params, shard + 1);
    TRY(service_init(&h->service, self, s->n_members, s->n_workers, sizeof(struct letter),
                     sizeof(struct letter)));
    snprintf(h->service.name, sizeof h->service.name, "%s %zu", h->is_node ? "node" : "server", self);
    h->service.leads = h->is_node || i < s->n_servers;
    h->service.other = other_of(s, self);
    h->service.tells_applied = s->settings.mode != PS_SYNC; /* there a gradient's round tells */
    ps_children(s, self, &first, &end);
    for (size_t c = first; c < end; c++)
        h->service.visitors[c].known = true;
    return OK;
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
        place_client(s, stage->n_params, i);
    for (size_t i = 0; i < n_helpers; i++)
        TRY(place_helper(s, stage->n_params, i));
    return OK;
}

void ps_close(void *shared)
{
    struct ps_shared *s = shared;
    if (!s)
        return;
    for (size_t i = 0; s->helpers && i < s->n_members - s->n_workers; i++)
        service_release(&s->helpers[i].service);
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
