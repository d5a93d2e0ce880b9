/* tree.c - up a binomial tree, adding, and down again, piece by piece.
 *
 *   up:    x = x_mine + x_child + ..., from the child with the smallest range of ranks to that with the
 *          largest
 *   down:  the root's x, to the child with the largest range first
 *
 * L = ceil(log2 m) steps each way: 2 L (alpha + n beta) for a span in one piece, with 2 (m - 1) messages of n
 * floats in all; the busiest member sends to its floor(log2 m) children, or to one less and its parent. Few
 * latencies, but whole spans all the way: for short spans.
 *
 * In k pieces of z = n / k floats (steps.h) there are k times as many messages, and a member passes on a
 * piece while it receives the next. A member that heads a range of m ranks does as one that heads the lower
 * half of them, and then adds what comes from the head of the upper half. When it has summed its first and
 * its last piece (F, S), and until when its card receives (C):
 *
 *   F, S, C (1) = 0                         begin  = max(C(lower), F(upper))
 *   C(m) = max(begin + n beta, S(upper) + z beta)
 *   F(m) = max(F(lower), begin + z beta + alpha),   S(m) = C(m) + alpha
 *
 * The root sends every piece to its c = floor(log2 m) children, the last one after (k - 1) c z beta, and that
 * is everywhere L (alpha + z beta) later: S + (k - 1) c z beta + L (alpha + z beta) in all. Pieces hide
 * latencies, where alpha is near n beta a third of the whole, but cards do no less: the root's receives the
 * spans of all its children and sends as many. It does not begin to send before it has all, which could spare
 * it one n beta at most: the cards of those below, which serve messages in the order in which they were sent,
 * are not free earlier. To do better, every piece needs a root of its own: halving_doubling.c.
 */
#include <math.h>

#include "collective/steps.h"

static fault gather_up(struct group *g, const struct kin *at, struct span all)
{
    struct pieces up = pieces_of(g, all);
    for (size_t p = 0; p < up.n; p++) {
        for (size_t i = at->n_children; i-- > 0;)
            TRY(step_add(g, at->child[i], up.tag[p], piece_of(&up, p)));
        if (g->rank)
            TRY(step_give(g, at->parent, up.tag[p], piece_of(&up, p)));
    }
    return OK;
}

static fault spread(struct group *g, const struct kin *at, struct span all)
{
    struct pieces down = pieces_of(g, all);
    for (size_t p = 0; p < down.n; p++) {
        if (g->rank)
            TRY(step_take(g, at->parent, down.tag[p], piece_of(&down, p)));
        for (size_t i = 0; i < at->n_children; i++)
            TRY(step_give(g, at->child[i], down.tag[p], piece_of(&down, p)));
    }
    return OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct span all = {1u << row, first, end};
    struct kin at = tree_kin(g->rank, g->n);
    TRY(gather_up(g, &at, all));
    return spread(g, &at, all);
}

static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    double links = (double)log2_floor(m + 1);
    *messages = links * (double)piece_count(n);
    *sent = links * (double)n;
}

struct summed { /* see above */
    double first, last, card;
};

static struct summed summed(size_t m, double alpha, double span, double piece)
{
    if (m == 1)
        return (struct summed){0, 0, 0};
    struct summed lower = summed(m / 2, alpha, span, piece), upper = summed(m - m / 2, alpha, span, piece);
    double begin = fmax(lower.card, upper.first);
    double card = fmax(begin + span, upper.last + piece);
    return (struct summed){fmax(lower.first, begin + piece + alpha), card + alpha, card};
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    double span = (double)n * beta, piece = (double)piece_longest(n) * beta;
    double children = (double)log2_floor(m), later = (double)piece_count(n) - 1;
    return summed(m, alpha, span, piece).last + later * children * piece +
           (double)log2_ceil(m) * (alpha + piece);
}

const struct collective collective_tree = {.sum = sum, .busiest = busiest, .seconds = seconds};
