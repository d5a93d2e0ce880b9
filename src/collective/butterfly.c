/* butterfly.c - recursive doubling: in every step the members swap what they have with a partner and add.
 *
 *   for d = p/2, p/4, ..., 1:   swap x with member index xor d, x = x + theirs
 *
 * p = 2^L members: L messages of n floats by each, L (alpha + n beta): the fewest latencies there can be.
 * After a step both partners have the same bits, and after the last step all do.
 *
 * Any other m = p + extra: `extra` members give theirs to a partner before and get the result after
 * (steps.h), which is (L + 2)(alpha + n beta) at most. With extra <= p/2 those partners, who begin late, swap
 * first with members that began in time, whose floats are there already: some latencies pass unnoticed. With
 * q = ceil(log2 extra) swaps between members that are both late it takes the longer of
 * (q + 2) alpha + (L + 2) n beta and (L + 1)(alpha + n beta).
 *
 * Spans are not cut into pieces: cards send and receive from the first moment of a step to the last, pieces
 * would only add latencies. Long spans go faster by halves of them: halving_doubling.c.
 */
#include "collective/steps.h"

static fault swap(struct group *g, const struct fold *f, struct part all)
{
    uint64_t tag = group_tag(g);
    for (size_t d = f->p / 2; f->goes_on && d; d /= 2) {
        size_t peer = fold_rank(f, f->index ^ d);
        TRY(step_give(g, peer, tag, all));
        TRY(step_add(g, peer, tag, all));
    }
    return OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct part all = {row, first, end};
    struct fold f = fold_of(g);
    TRY(fold_in(g, &f, all));
    TRY(swap(g, &f, all));
    return fold_out(g, &f, all);
}

/* The busiest is one that goes on and has a partner: it sends it the result. */
static struct cost cost(size_t m, size_t n)
{
    size_t levels = log2_floor(m), extra = m - ((size_t)1 << levels), both_late = log2_ceil(extra);
    double sent = (double)(levels + (extra > 0)), floats = (double)n, steps = (double)levels;
    if (extra == 0)
        return (struct cost){sent, sent * floats, {{steps, steps * floats}}};
    if (both_late == levels)
        return (struct cost){sent, sent * floats, {{steps + 2, (steps + 2) * floats}}};
    return (struct cost){sent,
                         sent * floats,
                         {{(double)both_late + 2, (steps + 2) * floats}, {steps + 1, (steps + 1) * floats}}};
}

const struct collective collective_butterfly = {
    .name = "butterfly", .help = "recursive doubling: swap and add, log2 m times", .sum = sum, .cost = cost};
