/* all_to_all.c - every member sends everything to every other, and adds up for itself.
 *
 *   step s = 1 .. m - 1:  to the member s places after me, from the member s places before me
 *   then                  x = x_0 + x_1 + ... + x_{m-1}, in the order of ranks, the same everywhere
 *
 * m - 1 messages of n floats by each, in m - 1 steps: (m - 1)(alpha + n beta). The one that asks least of the
 * members' programs and most of the network; the sum is that of a plain loop over the ranks, for comparison.
 * In every step each member sends to one and hears from one, all different, so no card ever waits; were all
 * sent at once, cards would stand idle while others queue. There is nothing to cut into pieces: cards are
 * busy from the first step on.
 */
#include "collective/steps.h"

static fault add_up(struct group *g, struct span p)
{
    for (size_t i = 0; i < g->n; i++)
        g->terms[i] = (struct term){1, span_row(p), i == g->rank ? NULL : &g->parcels[i], 0};
    return link_mix(g->link, span_row(p), p.first, p.end, g->terms, g->n);
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct span all = {1u << row, first, end};
    uint64_t tag = group_tag(g);
    for (size_t s = 1; s < g->n; s++) {
        size_t from = (g->rank + g->n - s) % g->n;
        TRY(step_give(g, (g->rank + s) % g->n, tag, all));
        TRY(group_recv(g, from, tag, &g->parcels[from]));
    }
    return add_up(g, all);
}

static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    *messages = (double)m - 1;
    *sent = *messages * (double)n;
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    return ((double)m - 1) * (alpha + (double)n * beta);
}

const struct collective collective_all_to_all = {.sum = sum, .busiest = busiest, .seconds = seconds};
