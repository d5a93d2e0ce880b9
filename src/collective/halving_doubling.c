/* halving_doubling.c - reduce-scatter by recursive halving, all-gather by recursive doubling, for any number
 * of members.
 *
 * p = 2^L members (Thakur, Rabenseifner and Gropp 2005):
 *   for d = p/2, ..., 1:   give member rank xor d the half it keeps, add its half to the one I keep
 *   for d = 1, ..., p/2:   swap complete shares with member rank xor d; what I have doubles
 *
 * Any other m (Traeff 2024, whose all-gather is that of Bruck et al. 1997): with L = ceil(log2 m) and shares
 * in a circle, of which I am left with number `rank`; s = m, and as long as s > 1, with h = ceil(s / 2):
 *   I have summed shares rank .. rank + s - 1; give the last s - h of them to member rank + h, which adds
 *   them, and add what member rank - h gives me to my first ones; s = h;
 *   and all of it backwards, with complete shares: give my first s - h to member rank - h, take the last
 *   s - h from member rank + h.
 *
 * In every step each member sends to one and hears from one, as many shares as all others.
 *
 * 2 L messages, 2 (1 - 1/m) n floats by each: 2 L alpha + 2 (1 - 1/m) n beta: as few floats as the ring, with
 * 2 log2 m latencies in place of 2 (m - 1), and no power of two to fold into. Shares that lie round the end
 * of the circle are two parts of the row, and go as two messages right after each other. The halves are the
 * pieces; where they differ by a float the longer sets the pace.
 *
 * Every share is complete at one member, which tells all: they get the same bits.
 */
#include <math.h>

#include "collective/steps.h"

static bool is_power_of_two(size_t m)
{
    return (m & (m - 1)) == 0;
}

static size_t upper_half(size_t s)
{
    return (s + 1) / 2;
}

/* ---- shares in a circle ---- */

struct arc { /* so many shares from this one on, of m; lies in one part of the row or in two */
    size_t first, n, m;
};

static struct arc arc_of(size_t first, size_t n, size_t m)
{
    return (struct arc){first % m, n, m};
}

static size_t n_parts(struct arc a)
{
    return a.first + a.n > a.m ? 2 : 1;
}

static struct span arc_span(struct arc a, struct span whole, size_t i)
{
    size_t end = a.first + a.n, from = i ? 0 : a.first, to = i ? end - a.m : smaller(end, a.m);
    return (struct span){whole.rows, span_of(whole, from, a.m).first, span_of(whole, to - 1, a.m).end};
}

/* A step has two tags, one for either part. */
static fault swap_arcs(struct group *g, struct span all, size_t to, struct arc mine, size_t from,
                       struct arc theirs, bool add)
{
    uint64_t tags[2];
    tags[0] = group_tag(g);
    tags[1] = group_tag(g);
    for (size_t i = 0; i < n_parts(mine); i++)
        TRY(step_give(g, to % g->n, tags[i], arc_span(mine, all, i)));
    for (size_t i = 0; i < n_parts(theirs); i++) {
        struct span p = arc_span(theirs, all, i);
        TRY(add ? step_add(g, from % g->n, tags[i], p) : step_take(g, from % g->n, tags[i], p));
    }
    return OK;
}

/* A step there, those after it with what is left, and the step back. */
static fault circle(struct group *g, struct span all, size_t s)
{
    size_t m = g->n, h = upper_half(s), after = g->rank + h, before = g->rank + m - h;
    struct arc first = arc_of(g->rank, s - h, m), last = arc_of(after, s - h, m);
    if (s == 1)
        return OK;
    TRY(swap_arcs(g, all, after, last, before, first, true));
    TRY(circle(g, all, h));
    return swap_arcs(g, all, before, first, after, last, false);
}

/* ---- powers of two ---- */

static size_t itself(const void *ctx, size_t index)
{
    (void)ctx;
    return index;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct span all = {1u << row, first, end};
    struct cube c = {log2_floor(g->n), g->rank, itself, NULL};
    if (!is_power_of_two(g->n))
        return circle(g, all, g->n);
    uint64_t halving = group_tag(g), doubling = group_tag(g);
    TRY(cube_scatter(g, &c, halving, all));
    return cube_gather(g, &c, doubling, all);
}

/* ---- what it costs ---- */

static size_t arc_floats(struct arc a, struct span all)
{
    size_t floats = 0;
    for (size_t i = 0; i < n_parts(a); i++)
        floats += span_size(arc_span(a, all, i));
    return floats;
}

static void busiest_in_circle(size_t m, size_t n, double *messages, double *sent)
{
    struct span all = {.end = n};
    for (size_t rank = 0; rank < m; rank++) {
        size_t parts = 0, floats = 0;
        for (size_t s = m, h; s > 1; s = h) {
            h = upper_half(s);
            struct arc first = arc_of(rank, s - h, m), last = arc_of(rank + h, s - h, m);
            parts += n_parts(first) + n_parts(last);
            floats += arc_floats(first, all) + arc_floats(last, all);
        }
        *messages = fmax(*messages, (double)parts);
        *sent = fmax(*sent, (double)floats);
    }
}

/* Of powers of two that is rank 0, which has the longer half of every half. What a member gives in a level on
 * the way there and on the way back is together what it had before that level. */
static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    *messages = *sent = 0;
    if (!is_power_of_two(m)) {
        busiest_in_circle(m, n, messages, sent);
        return;
    }
    *messages = 2 * (double)log2_floor(m);
    for (size_t left = m; left > 1; left /= 2, n -= n / 2)
        *sent += (double)n;
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    size_t longer = n % m, path = 0;
    for (size_t s = m, h; s > 1; s = h) {
        h = upper_half(s);
        path += (s - h) * (n / m) + smaller(s - h, longer);
    }
    return 2 * ((double)log2_ceil(m) * alpha + (double)path * beta);
}

const struct collective collective_halving_doubling = {.sum = sum, .busiest = busiest, .seconds = seconds};
