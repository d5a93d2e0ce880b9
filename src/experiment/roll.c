/* roll.c - agents named by number: each must be there, and none may be called twice.
 *
 * Every call has a number, and every agent remembers the last call it was named in; so a call costs as much
 * as it names agents, however many there are.
 */
#include <math.h>

#include "experiment/decode.h"

fault roll_init(struct roll *r, const struct document *d, int64_t agents)
{
    *r = (struct roll){.d = d, .agents = agents, .called = ARENA_NEW(d->arena, uint32_t, agents)};
    return r->called ? OK : OUT_OF_MEMORY;
}

static fault call_one(struct roll *r, const struct node *node, double number, uint32_t *out)
{
    if (number >= (double)r->agents)
        return r->agents == 1 ? fail_node(node, "there is no agent %.0f: the only one is agent 0", number)
                              : fail_node(node, "there is no agent %.0f: they are numbered from 0 to %lld",
                                          number, (long long)r->agents - 1);
    uint32_t agent = (uint32_t)number;
    if (r->called[agent] == r->call)
        return fail_node(node, "agent %u is named twice", agent);
    r->called[agent] = r->call;
    *out = agent;
    return OK;
}

static fault call_all(struct roll *r, const struct node *node, const struct reals *numbers, uint32_t *out)
{
    if (numbers->n == 0)
        return fail_node(node, "one agent or more is expected here");
    const struct node *item = node->kind == NODE_LIST ? node->first : node;
    for (size_t i = 0; i < numbers->n; i++, item = item->next)
        TRY(call_one(r, item, numbers->at[i], &out[i]));
    return OK;
}

static fault new_groups(const struct roll *r, size_t n, size_t n_groups, uint32_t **agents, uint32_t **group,
                        struct groups *out)
{
    *agents = ARENA_NEW(r->d->arena, uint32_t, n + 1);
    *group = ARENA_NEW(r->d->arena, uint32_t, n + 1);
    if (!*agents || !*group)
        return OUT_OF_MEMORY;
    *out = (struct groups){*agents, *group, n, n_groups};
    return OK;
}

fault roll_agents(struct roll *r, const struct node *node, const struct reals *numbers, struct groups *out)
{
    uint32_t *agents, *group;
    TRY(new_groups(r, numbers->n, 1, &agents, &group, out));
    r->call++;
    return call_all(r, node, numbers, agents);
}

fault roll_pair(struct roll *r, const struct node *node, const struct reals *numbers, struct groups *out)
{
    if (numbers->n != 2)
        return fail_node(node, "two agents are expected here: [0, 1]");
    return roll_agents(r, node, numbers, out);
}

fault roll_groups(struct roll *r, const struct node *node, struct groups *out)
{
    static const struct field field = {"agents", FIELD_REALS, .min = 0, .max = INFINITY, .whole = true};
    size_t n = 0, g = 0;
    if (node->kind != NODE_LIST || node->n == 0)
        return fail_node(node, "a list of groups is expected here: [[0, 1], [2, 3]]");
    for (const struct node *list = node->first; list; list = list->next) {
        if (list->kind != NODE_LIST)
            return fail_node(list, "a list of agents is expected here: [0, 1]");
        n += list->n;
    }
    uint32_t *agents, *group;
    TRY(new_groups(r, n, node->n, &agents, &group, out));
    r->call++;
    for (const struct node *list = node->first; list; list = list->next, g++) {
        struct reals numbers;
        TRY(decode_field(r->d, list, &field, &numbers));
        TRY(call_all(r, list, &numbers, agents));
        for (size_t i = 0; i < numbers.n; i++)
            *group++ = (uint32_t)g;
        agents += numbers.n;
    }
    return OK;
}
