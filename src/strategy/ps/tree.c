/* tree.c - the tree of aggregating nodes between workers and servers.
 *
 *   fanout 2:   workers 0 1 2 3 4 5 6      level 1: 0 1 2 3      level 2: 0 1      the servers
 *               worker i asks node i / 2   node j asks j / 2     2 nodes or fewer ask the servers
 *
 * Levels are added until a server has at most `fanout` to listen to; so few workers need no node at all.
 */
#include "strategy/ps/ps.h"

static size_t parts(size_t n, size_t fanout)
{
    return (n + fanout - 1) / fanout;
}

size_t ps_nodes(size_t n_workers, size_t fanout)
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

void ps_children(const struct ps_shared *s, size_t member, size_t *first, size_t *end)
{
    struct level below = workers(s);
    while (is_below_nodes(s, below) && !holds(above(s, below), member))
        below = above(s, below);
    *first = below.first;
    *end = below.first + below.n;
    if (is_below_nodes(s, below)) {
        *first += (member - above(s, below).first) * fanout(s);
        *end = *first + fanout(s) < *end ? *first + fanout(s) : *end;
    }
}
