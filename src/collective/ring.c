/* ring.c - every share of the span goes round once to be summed and once to be told (Patarasu and Yuan 2009).
 *
 *   reduce-scatter, s = 0 .. m - 2:   share rank - s goes to the next member, who adds it to its own
 *   all-gather,     s = 0 .. m - 2:   share rank + 1 - s, which is complete, goes to the next member
 *
 * 2 (m - 1) messages of n / m floats by each: 2 (m - 1)(alpha + n / m beta). No algorithm sends fewer floats;
 * every card is busy all the time. A share is added up in the order of the ring, once, so all members get the
 * same bits. The shares are the pieces: one is added while the next is on its way. Where m does not divide n
 * the first shares are a float longer, and the longest sets the pace.
 */
#include "collective/steps.h"

static fault turn(struct group *g, struct span all, size_t share, bool add)
{
    size_t m = g->n, next = (g->rank + 1) % m, before = (g->rank + m - 1) % m;
    for (size_t s = 0; s + 1 < m; s++) {
        uint64_t tag = group_tag(g);
        TRY(step_give(g, next, tag, span_of(all, (share + m - s) % m, m)));
        struct span theirs = span_of(all, (share + m - s - 1) % m, m);
        TRY(add ? step_add(g, before, tag, theirs) : step_take(g, before, tag, theirs));
    }
    return OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct span all = {1u << row, first, end};
    TRY(turn(g, all, g->rank, true));
    return turn(g, all, (g->rank + 1) % g->n, false);
}

/* The busiest sends all shares twice but for two neighbouring ones, once each. */
static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    *messages = 2 * ((double)m - 1);
    *sent = (double)(2 * n - 2 * (n / m) - (n % m + 1 == m));
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    size_t longest = n / m + (n % m > 0);
    return 2 * ((double)m - 1) * (alpha + (double)longest * beta);
}

const struct collective collective_ring = {.sum = sum, .busiest = busiest, .seconds = seconds};
