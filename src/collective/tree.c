/* tree.c - up a binomial tree, adding, and down again.
 *
 *   up:    x = x_mine + x_child + ..., from the child with the smallest range of ranks to that with the
 * largest down:  the root's x, to the child with the largest range first
 *
 * L = ceil(log2 m) steps each way: 2 L (alpha + n beta), with 2 (m - 1) messages of n floats in all. The
 * busiest member sends floor(log2(m + 1)) of them. Few latencies, but whole spans all the way: for short
 * spans.
 *
 * Spans are not cut into pieces. In every step up, the root's card receives from the first moment to the
 * last, and in every step down it sends; pieces could let the way down begin before the way up has ended and
 * gain a factor of two at most, with more latencies for the short spans this is for. Long ones go faster
 * where every member reduces a share of its own: ring.c, halving_doubling.c.
 */
#include "collective/steps.h"

static fault gather_up(struct group *g, struct part all)
{
    uint64_t tag = group_tag(g);
    struct seat at = tree_seat(g->rank, g->n);
    for (size_t i = at.n_children; i-- > 0;)
        TRY(step_add(g, at.child[i], tag, all));
    return g->rank ? step_give(g, at.parent, tag, all) : OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct part all = {row, first, end};
    TRY(gather_up(g, all));
    return tree_spread(g, all);
}

static struct cost cost(size_t m, size_t n)
{
    double steps = 2 * (double)log2_ceil(m), most = (double)log2_floor(m + 1), floats = (double)n;
    return (struct cost){most, most * floats, {{steps, steps * floats}}};
}

const struct collective collective_tree = {
    .name = "tree", .help = "up a binomial tree and down again", .sum = sum, .cost = cost};
