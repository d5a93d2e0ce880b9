/* star.c - one member in the middle adds everything up and tells everyone.
 *
 *   everyone -> rank 0:   x = ((x_0 + x_1) + x_2) + ...
 *   rank 0 -> everyone:   x
 *
 * The middle sends m - 1 messages of n floats and receives as many, everyone else sends one. Its card is what
 * all wait for: 2 alpha + 2 (m - 1) n beta, for messages wait for the card and not for each other's latency.
 *
 * Spans are not cut into pieces. The card of the middle has no idle moment while it receives, nor while it
 * sends; pieces could only let the two overlap, which the first to send would undo: its pieces lie before
 * everybody else's, so no piece is complete before nearly all have come.
 */
#include "collective/steps.h"

static fault in_the_middle(struct group *g, struct part all)
{
    uint64_t in = group_tag(g), out = group_tag(g);
    for (size_t i = 1; i < g->n; i++)
        TRY(step_add(g, i, in, all));
    for (size_t i = 1; i < g->n; i++)
        TRY(step_give(g, i, out, all));
    return OK;
}

static fault around_it(struct group *g, struct part all)
{
    uint64_t in = group_tag(g), out = group_tag(g);
    TRY(step_give(g, 0, in, all));
    return step_take(g, 0, out, all);
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct part all = {row, first, end};
    return g->rank == 0 ? in_the_middle(g, all) : around_it(g, all);
}

static struct cost cost(size_t m, size_t n)
{
    double others = (double)m - 1;
    return (struct cost){others, others * (double)n, {{2, 2 * others * (double)n}}};
}

const struct collective collective_star = {
    .name = "star", .help = "one member adds everything up and tells everyone", .sum = sum, .cost = cost};
