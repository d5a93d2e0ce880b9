/* auto.c - whichever of the others suits the network and the span.
 *
 *   the network is known:   argmin over the algorithms of   seconds(m, n, alpha, beta)
 *   it is not:              butterfly for short spans, halving-doubling for long ones
 *
 * The latter is how MPI libraries choose (Thakur, Rabenseifner and Gropp 2005).
 * m is the group as it is, n the floats of this very sum: a short span may go another way than a long one,
 * and all may go another way when a member is lost. All members have the same numbers and so come to the same
 * choice. The formulas leave out the adding, which costs nothing on a network that is only described and less
 * than the way on one that is slow. Between ranks of one machine it costs as much as the way; there short
 * ends at 8 KiB (docs/cluster-speed.md).
 */
#include <math.h>

#include "collective/collective.h"

enum { SHORT_FLOATS = 2048 };

const struct collective *collective_fastest(size_t members, size_t floats, double alpha_s, double beta_s)
{
    const struct collective *best = collective_rows[floats < SHORT_FLOATS ? BUTTERFLY : HALVING_DOUBLING];
    double least = INFINITY;
    for (int i = 0; (alpha_s > 0 || beta_s > 0) && i < N_COLLECTIVES; i++) {
        double takes = collective_rows[i]->seconds(members, floats, alpha_s, beta_s);
        if (takes < least)
            best = collective_rows[i], least = takes;
    }
    return best;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    return collective_fastest(g->n, end - first, g->alpha_s, g->beta_s)->sum(g, row, first, end);
}

const struct collective collective_auto = {.sum = sum};
