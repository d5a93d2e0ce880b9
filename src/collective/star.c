/* star.c - one member in the middle adds everything up and tells the others.
 *
 *   for every piece:   others -> rank 0:   x = ((x_0 + x_1) + x_2) + ...
 *                      rank 0 -> others:   x
 *
 * With k pieces (steps.h) the middle sends (m - 1) k messages, n floats to each, and receives as many;
 * each of the others sends k. Its card is what all wait for. The first pieces of all come before any second
 * one, so that the middle sends a piece while it receives the next: 2 alpha + (m - 1)(n + n / k) beta, where
 * a span in one piece takes 2 alpha + 2 (m - 1) n beta. Messages wait for the card and not for each other's
 * latency, so pieces cost none.
 */
#include "collective/steps.h"

static fault in_the_middle(struct group *g, const struct pieces *in, const struct pieces *out)
{
    for (size_t p = 0; p < in->n; p++) {
        for (size_t i = 1; i < g->n; i++)
            TRY(step_add(g, i, in->tag[p], piece_of(in, p)));
        for (size_t i = 1; i < g->n; i++)
            TRY(step_give(g, i, out->tag[p], piece_of(out, p)));
    }
    return OK;
}

/* After each piece the others get their turn: they send theirs at the same moment, and cards serve messages
 * in the order in which they were sent. */
static fault around_it(struct group *g, const struct pieces *in, const struct pieces *out)
{
    for (size_t p = 0; p < in->n; p++) {
        TRY(step_give(g, 0, in->tag[p], piece_of(in, p)));
        if (p + 1 < in->n)
            TRY(link_sleep(g->link, 0));
    }
    for (size_t p = 0; p < out->n; p++)
        TRY(step_take(g, 0, out->tag[p], piece_of(out, p)));
    return OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct span all = {1u << row, first, end};
    struct pieces in = pieces_of(g, all), out = pieces_of(g, all);
    return g->rank == 0 ? in_the_middle(g, &in, &out) : around_it(g, &in, &out);
}

static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    *messages = (double)((m - 1) * piece_count(n));
    *sent = (double)((m - 1) * n);
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    return 2 * alpha + ((double)m - 1) * ((double)n + (double)piece_longest(n)) * beta;
}

const struct collective collective_star = {.sum = sum, .busiest = busiest, .seconds = seconds};
