/* collective.c - the algorithms' rows, and the sums and means that any of them makes. */
#include "collective/collective.h"

static fault native_sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct link *l = g->link;
    if (!link_has_sum(l))
        return FAIL(FAULT_USAGE, "algorithm 'native': the world '%s' has no sum of its own", l->ops->name);
    if (g->n != g->n_all)
        return FAIL(FAULT_USAGE, "algorithm 'native' sums over all %zu agents, and %zu are left", g->n_all,
                    g->n);
    return link_sum(l, row, first, end);
}

const struct collective collective_native = {.sum = native_sum};

#define DECLARED(id, row, name) extern const struct collective collective_##row;
#define ROW(id, row, name)      [id] = &collective_##row,
#define NAME(id, row, name)     [id] = name,

COLLECTIVES(DECLARED)
const struct collective *const collective_rows[AUTO + 1] = {COLLECTIVES(ROW)};
const char *const collective_names[AUTO + 2] = {COLLECTIVES(NAME)};

static size_t end_of(const struct group *g, enum row row, size_t end)
{
    size_t size = link_row_floats(g->link, row);
    return smaller(end, size);
}

fault group_sum(struct group *g, const struct collective *c, enum row row, size_t first, size_t end)
{
    end = end_of(g, row, end);
    return g->n > 1 && first < end ? group_end(g, c->sum(g, row, first, end)) : OK;
}

fault group_mean(struct group *g, const struct collective *c, enum row row, size_t first, size_t end)
{
    struct term share = {1 / (double)g->n, row, NULL, 0};
    TRY(group_sum(g, c, row, first, end));
    return g->n > 1 ? link_mix(g->link, row, first, end, &share, 1) : OK;
}

static bool sends_something(size_t members, size_t floats)
{
    return members > 1 && floats;
}

struct cost collective_cost(const struct collective *c, size_t members, size_t floats)
{
    struct cost cost = {.by = c, .members = members, .span = floats};
    if (sends_something(members, floats))
        c->busiest(members, floats, &cost.messages, &cost.floats);
    return cost;
}

double cost_seconds(struct cost c, double alpha_s, double beta_s)
{
    return sends_something(c.members, c.span) ? c.by->seconds(c.members, c.span, alpha_s, beta_s) : 0;
}
