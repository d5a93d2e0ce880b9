/* members.c - who is who, and who asks whom: through a tree of aggregating nodes, where that is asked for.
 *
 *   fanout 2:   workers 0 1 2 3 4 5 6      level 1: 0 1 2 3      level 2: 0 1      the servers
 *               worker i asks node i / 2   node j asks j / 2     2 nodes or fewer ask the servers
 *
 * Levels are added until a server has at most `fanout` to listen to; so few workers need no node at all.
 */
#include <stdio.h>
#include <stdlib.h>

#include "strategy/ps/ps.h"

/* ---- the tree ---- */

static size_t parts(size_t n, size_t fanout)
{
    return (n + fanout - 1) / fanout;
}

static size_t n_nodes(size_t n_workers, size_t fanout)
{
    size_t sum = 0;
    for (size_t level = n_workers; fanout > 1 && level > fanout; sum += level)
        level = parts(level, fanout);
    return sum;
}

/* A row of members of the tree: the workers, or the nodes of one level. */
struct level {
    size_t first, n;
};

static struct level workers(const struct ps_shared *s)
{
    return (struct level){0, s->n_workers};
}

static size_t fanout(const struct ps_shared *s)
{
    return (size_t)s->settings.tree;
}

/* Whether nodes stand above this level. */
static bool is_below_nodes(const struct ps_shared *s, struct level l)
{
    return fanout(s) > 1 && l.n > fanout(s);
}

static struct level above(const struct ps_shared *s, struct level l)
{
    return (struct level){l.first == 0 ? s->first_node : l.first + l.n, parts(l.n, fanout(s))};
}

static bool holds(struct level l, size_t member)
{
    return member >= l.first && member < l.first + l.n;
}

size_t ps_parent(const struct ps_shared *s, size_t member)
{
    struct level l = workers(s);
    while (!holds(l, member))
        l = above(s, l);
    return is_below_nodes(s, l) ? above(s, l).first + (member - l.first) / fanout(s) : NO_NODE;
}

static void find_children(const struct ps_shared *s, size_t member, size_t *first, size_t *end)
{
    struct level below = workers(s);
    while (is_below_nodes(s, below) && !holds(above(s, below), member))
        below = above(s, below);
    *first = below.first;
    *end = below.first + below.n;
    if (is_below_nodes(s, below)) {
        *first += (member - above(s, below).first) * fanout(s);
        *end = smaller(*first + fanout(s), *end);
    }
}

/* ---- places ---- */

int64_t ps_helpers(const struct ps *s, int64_t agents)
{
    return s->servers * (s->replicate_every ? 2 : 1) + (int64_t)n_nodes((size_t)agents, (size_t)s->tree);
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
    find_children(s, self, &first, &end);
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

/* It tells so when its program begins again. */
fault ps_rejoin(struct agent *a)
{
    struct ps_shared *s = ps_of(a);
    if (agent_helps(a))
        s->helpers[a->index - s->n_workers].is_back = true;
    else
        s->clients[a->index].is_back = true;
    return OK;
}
