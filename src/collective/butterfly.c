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
 * Spans are not cut into pieces. Cards send and receive from the first moment of a step to the last, so that
 * every step takes n beta of all cards; pieces of z floats could only hide latencies behind that,
 * alpha + max(L n beta, n beta + (L - 1)(alpha + z beta)) in place of L (alpha + n beta). Where this gains
 * something, with n beta above alpha, halving_doubling.c gains more: it sends 2 n floats in place of L n.
 */
#include <math.h>

#include "collective/steps.h"

static fault swap(struct group *g, const struct fold *f, struct span all)
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
    struct span all = {1u << row, first, end};
    struct fold f = fold_of(g);
    TRY(fold_in(g, &f, all));
    TRY(swap(g, &f, all));
    return fold_out(g, &f, all);
}

/* The busiest is one that goes on and has a partner: it sends it the result. */
static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    size_t levels = log2_floor(m);
    *messages = (double)(levels + (m > (size_t)1 << levels));
    *sent = *messages * (double)n;
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    size_t levels = log2_floor(m), extra = m - ((size_t)1 << levels), both_late = log2_ceil(extra);
    double steps = (double)levels, span = (double)n * beta;
    if (extra == 0)
        return steps * (alpha + span);
    if (both_late == levels)
        return (steps + 2) * (alpha + span);
    return fmax(((double)both_late + 2) * alpha + (steps + 2) * span, (steps + 1) * (alpha + span));
}

const struct collective collective_butterfly = {.sum = sum, .busiest = busiest, .seconds = seconds};
