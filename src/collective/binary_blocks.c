/* binary_blocks.c - any number of members as blocks of powers of two (Rabenseifner 2004).
 *
 *   m = 2^e0 + 2^e1 + ..., e0 > e1 > ...: blocks of ranks, the largest first (13 = 8 + 4 + 1)
 *
 *   within every block   reduce-scatter by recursive halving: a member has a share of s_k = n / 2^ek floats
 *   from the smallest    a member cuts its share into those of the 2^(e(k-1) - ek) members of the next
 *   block up             larger block that have the same floats, and gives each its own; they add
 *   from the largest     the same way back: complete shares in place of sums
 *   block down
 *   within every block   all-gather by recursive doubling
 *
 * A member of block k sends 2 ek messages within it, 2^(e(k-1) - ek) up and one down; that is 2 (n - s_k)
 * floats within it, s_k up and s_k down. So that no card is held for a message that cannot come yet, there
 * are words, messages without a float. A member of a block that is at least four times as large asks for its
 * share as its last halving begins (where the blocks are neighbours, both are ready at this moment anyway).
 * And after the shares of all that it serves, a member tells these so: a block in the middle goes on up, and
 * the largest to doubling, when that comes, all members at once.
 *
 * So a block moves as one. Halving l times takes T(l) = l alpha + (1 - 1/2^l) n beta. Of b blocks, block k
 * has its sums at U_k, has what is complete at D_k, is free to double at G_k and done at E_k:
 *
 *   U_(b-1) = T(e(b-1))
 *   U_k = max(U_(k+1), T(ek - 1) + s_k beta) + s_(k+1) beta + alpha                    if ek = e(k+1) + 1
 *   U_k = max(U_(k+1), T(ek - 1) + alpha) + s_(k+1) beta + max(alpha, s_k beta)        else, having asked
 *   D_0 = U_0,   G_0 = U_0 + s_0 beta     shares go down as they come up, but for the last one
 *   D_k = G_(k-1) + alpha,   G_k = D_k + s_(k+1) beta      below, those who serve one member take turns
 *   E_k = G_k + ek alpha + (n - s_k) beta                  with s_b = 0
 *
 * and the sum takes the largest E_k; with two neighbouring blocks (12 = 8 + 4) that is
 * 2 e0 alpha + (2 n + s_1 - s_0) beta. This holds but for a block in the middle that is at least eight times
 * as large as the next (25 = 16 + 8 + 1), whose members, taking turns, hold cards of each other.
 *
 * Every share is complete at one member of the largest block, which tells all: the same bits everywhere.
 */
#include <math.h>

#include "collective/steps.h"

struct power_block {
    size_t levels, first; /* 2^levels members from this rank on */
};

static bool is_in(const struct power_block *b, size_t rank)
{
    return rank >= b->first && rank - b->first < (size_t)1 << b->levels;
}

/* The blocks of m members, largest first. */
static size_t blocks_of(size_t m, struct power_block *blocks)
{
    size_t n = 0, first = 0;
    for (size_t level = 64; level-- > 0;)
        if (m >> level & 1) {
            blocks[n++] = (struct power_block){level, first};
            first += (size_t)1 << level;
        }
    return n;
}

static size_t rank_in_block(const void *ctx, size_t index)
{
    return ((const struct power_block *)ctx)->first + index;
}

/* Where a member is: its block, the next larger and the next smaller one, if there are. */
struct whereabouts {
    struct power_block blocks[64];
    const struct power_block *mine, *larger, *smaller;
    size_t index; /* in my block */
    size_t below; /* the rank of the one in the smaller block whose share includes mine */
};

static void find_block(const struct group *g, struct whereabouts *at)
{
    size_t n = blocks_of(g->n, at->blocks), b = 0;
    while (!is_in(&at->blocks[b], g->rank))
        b++;
    at->mine = &at->blocks[b];
    at->larger = b ? at->mine - 1 : NULL;
    at->smaller = b + 1 < n ? at->mine + 1 : NULL;
    at->index = g->rank - at->mine->first;
    at->below = 0;
    if (at->smaller)
        at->below = at->smaller->first + (at->index >> (at->mine->levels - at->smaller->levels));
}

static bool must_ask(const struct power_block *block, const struct power_block *smaller)
{
    return block->levels > smaller->levels + 1;
}

struct tags {
    uint64_t halving, ask, up, begin, down, doubling;
};

/* My share, to all members of the next larger block that together have it, then the word to begin. */
static fault serve_larger(struct group *g, const struct tags *t, const struct whereabouts *at,
                          struct span all)
{
    size_t d = at->larger->levels - at->mine->levels, end = (at->index + 1) << d;
    for (size_t i = at->index << d; i < end && must_ask(at->larger, at->mine); i++)
        TRY(step_hear(g, at->larger->first + i, t->ask));
    for (size_t i = at->index << d; i < end; i++)
        TRY(step_give(g, at->larger->first + i, t->up, cube_share(all, at->larger->levels, i)));
    for (size_t i = at->index << d; i < end; i++)
        TRY(step_tell(g, at->larger->first + i, t->begin));
    return OK;
}

static fault hear_from_larger(struct group *g, const struct tags *t, const struct whereabouts *at,
                              struct span all)
{
    size_t d = at->larger->levels - at->mine->levels;
    for (size_t i = at->index << d; i < (at->index + 1) << d; i++)
        TRY(step_take(g, at->larger->first + i, t->down, cube_share(all, at->larger->levels, i)));
    return OK;
}

static fault halve(struct group *g, const struct tags *t, const struct whereabouts *at, const struct cube *c,
                   struct span mine)
{
    for (size_t level = c->levels; level-- > 0;) {
        if (level == 0 && at->smaller && must_ask(at->mine, at->smaller))
            TRY(step_tell(g, at->below, t->ask));
        TRY(cube_halve(g, c, t->halving, level, &mine));
    }
    return at->smaller ? step_add(g, at->below, t->up, mine) : OK;
}

/* Up to the larger block and back; the largest turns round at once. */
static fault meet_larger(struct group *g, const struct tags *t, const struct whereabouts *at, struct span all)
{
    if (!at->larger)
        return OK;
    if (at->smaller)
        TRY(step_hear(g, at->below, t->begin));
    TRY(serve_larger(g, t, at, all));
    return hear_from_larger(g, t, at, all);
}

static fault tell_smaller(struct group *g, const struct tags *t, const struct whereabouts *at,
                          struct span share)
{
    if (!at->smaller)
        return OK;
    TRY(step_give(g, at->below, t->down, share));
    return at->larger ? OK : step_hear(g, at->below, t->begin);
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct span all = {1u << row, first, end};
    struct whereabouts at;
    find_block(g, &at);
    struct cube c = {at.mine->levels, at.index, rank_in_block, at.mine};
    struct tags t;
    t.halving = group_tag(g);
    t.ask = group_tag(g);
    t.up = group_tag(g);
    t.begin = group_tag(g);
    t.down = group_tag(g);
    t.doubling = group_tag(g);
    TRY(halve(g, &t, &at, &c, all));
    TRY(meet_larger(g, &t, &at, all));
    TRY(tell_smaller(g, &t, &at, cube_share(all, at.mine->levels, at.index)));
    return cube_gather(g, &c, t.doubling, all);
}

/* ---- what it costs ---- */

/* Of the first member of block b, which has the longer half of every half; what it gives on a level there and
 * back is together what it had before. */
static void block_sends(const struct power_block *blocks, size_t n_blocks, size_t b, size_t n,
                        double *messages, double *sent)
{
    size_t levels = blocks[b].levels, share = n, floats = 0, count = 2 * levels;
    for (size_t l = 0; l < levels; l++, share -= share / 2)
        floats += share;
    if (b > 0) {
        count += (size_t)2 << (blocks[b - 1].levels - levels); /* shares and words */
        floats += share;
    }
    if (b + 1 < n_blocks) {
        count += 1 + must_ask(&blocks[b], &blocks[b + 1]);
        floats += share;
    }
    *messages = fmax(*messages, (double)count);
    *sent = fmax(*sent, (double)floats);
}

static void busiest(size_t m, size_t n, double *messages, double *sent)
{
    struct power_block blocks[64];
    size_t n_blocks = blocks_of(m, blocks);
    *messages = *sent = 0;
    for (size_t b = 0; b < n_blocks; b++)
        block_sends(blocks, n_blocks, b, n, messages, sent);
}

struct clock { /* a network, and the time that floats take on it */
    double alpha, span;
};

static double share_s(struct clock c, size_t levels)
{
    return c.span / (double)((size_t)1 << levels);
}

/* T(l) */
static double halving_s(struct clock c, size_t levels)
{
    return (double)levels * c.alpha + c.span - share_s(c, levels);
}

/* U_0 */
static double summed_s(struct clock c, const struct power_block *blocks, size_t n_blocks)
{
    double up = halving_s(c, blocks[n_blocks - 1].levels);
    for (size_t k = n_blocks - 1; k-- > 0;) {
        double share = share_s(c, blocks[k].levels), theirs = share_s(c, blocks[k + 1].levels);
        double begun = halving_s(c, blocks[k].levels - 1);
        if (must_ask(&blocks[k], &blocks[k + 1]))
            up = fmax(up, begun + c.alpha) + theirs + fmax(c.alpha, share);
        else
            up = fmax(up, begun + share) + theirs + c.alpha;
    }
    return up;
}

static double seconds(size_t m, size_t n, double alpha, double beta)
{
    struct clock c = {alpha, (double)n * beta};
    struct power_block blocks[64];
    size_t n_blocks = blocks_of(m, blocks);
    double complete = summed_s(c, blocks, n_blocks), done = 0;
    for (size_t k = 0; k < n_blocks; k++) {
        size_t levels = blocks[k].levels;
        double below = k + 1 < n_blocks ? share_s(c, blocks[k + 1].levels) : 0;
        double told = n_blocks == 1 ? 0 : k == 0 ? share_s(c, levels) : below;
        done = fmax(done, complete + told + halving_s(c, levels)); /* doubling takes as long */
        complete += told + alpha;
    }
    return done;
}

const struct collective collective_binary_blocks = {.sum = sum, .busiest = busiest, .seconds = seconds};
