/* halving_doubling.c - reduce-scatter by recursive halving, all-gather by recursive doubling (Thakur,
 * Rabenseifner and Gropp 2005).
 *
 *   for d = p/2, ..., 1:   give member index xor d the half it keeps, add its half to the one I keep
 *   for d = 1, ..., p/2:   swap complete shares with member index xor d; what I have doubles
 *
 * p = 2^L members: 2 L messages, 2 (1 - 1/p) n floats by each: 2 L alpha + 2 (1 - 1/p) n beta: as few floats
 * as the ring, with 2 log2 p latencies in place of 2 (p - 1). Any other m = p + extra: `extra` members give
 * theirs to a partner before and get the result after (steps.h), 2 (alpha + n beta) more; 2 % above that for
 * some m and alpha, a fifth for a few m above 17, where members that are ahead hold the cards of others.
 *
 * Every share is complete at one member, which tells all: everybody gets the same bits. The halves are the
 * pieces; with an odd number the longer half sets the pace.
 */
#include "collective/steps.h"

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct part all = {row, first, end};
    struct fold f = fold_of(g);
    struct cube c = {log2_floor(f.p), f.index, fold_rank, &f};
    uint64_t halving = group_tag(g), doubling = group_tag(g);
    TRY(fold_in(g, &f, all));
    if (f.goes_on) {
        TRY(cube_scatter(g, &c, halving, all));
        TRY(cube_gather(g, &c, doubling, all));
    }
    return fold_out(g, &f, all);
}

/* Index 0 has the longer half of every half, and a partner if anybody has: it is the busiest. What a member
 * gives in a level on the way there and on the way back is together what it had before that level. */
static struct cost cost(size_t m, size_t n)
{
    size_t levels = log2_floor(m), folds = m > (size_t)1 << levels, had = n, sent = 0, path = 0;
    for (size_t l = 0; l < levels; l++) {
        sent += had;
        had -= had / 2;
        path += had;
    }
    double steps = (double)(2 * (levels + folds)), floats = 2 * (double)(path + folds * n);
    return (struct cost){(double)(2 * levels + folds), (double)(sent + folds * n), {{steps, floats}}};
}

const struct collective collective_halving_doubling = {
    .name = "halving-doubling",
    .help = "recursive halving to sum shares, doubling to tell",
    .sum = sum,
    .cost = cost};
