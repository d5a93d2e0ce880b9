/* binary_blocks.c - any number of members as blocks of powers of two (Rabenseifner and Traeff 2004).
 *
 *   m = 2^e0 + 2^e1 + ..., e0 > e1 > ...: blocks of ranks, the largest first (13 = 8 + 4 + 1)
 *
 *   within every block   reduce-scatter by recursive halving: a member has a share of n / 2^ek floats
 *   from the smallest    a member cuts its share into those of the 2^(e(k-1) - ek) members of the next
 *   block up             larger block that have the same floats, and gives each its own; they add
 *   from the largest     the same way back: complete shares in place of sums
 *   block down
 *   within every block   all-gather by recursive doubling
 *
 * A member of block k sends 2 ek messages within it, 2^(e(k-1) - ek) up and one down; with its share
 * s = n / 2^ek that is 2 (n - s) floats within it, s up and s down. The largest block by itself needs
 * 2 e0 alpha + 2 (1 - 1/2^e0) n beta, which is what cost() gives; the small ones have fewer steps and do
 * theirs beside it, so there are no steps before and after as in halving_doubling.c, and no more latencies
 * than these. But what the small ones send asks for cards of larger blocks that are busy, in a way that no
 * short formula gives (the test plays it through): up to 2 n beta more where latency counts for more than
 * floats. Where it does not, many small blocks (15 = 8 + 4 + 2 + 1) take longer than folding.
 *
 * Every share is complete at one member of the largest block, which tells all: the same bits everywhere.
 */
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

/* To (up) or from all members of the next larger block that together have the share I have in mine. */
static fault with_larger(struct group *g, uint64_t tag, const struct whereabouts *at, struct part all,
                         bool up)
{
    size_t d = at->larger->levels - at->mine->levels;
    for (size_t i = at->index << d; i < (at->index + 1) << d; i++) {
        struct part share = cube_share(all, at->larger->levels, i);
        size_t other = at->larger->first + i;
        TRY(up ? step_give(g, other, tag, share) : step_take(g, other, tag, share));
    }
    return OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct part all = {row, first, end};
    struct whereabouts at;
    find_block(g, &at);
    struct cube c = {at.mine->levels, at.index, rank_in_block, at.mine};
    struct part share = cube_share(all, at.mine->levels, at.index);
    uint64_t halving = group_tag(g), up = group_tag(g), down = group_tag(g), doubling = group_tag(g);
    TRY(cube_scatter(g, &c, halving, all));
    if (at.smaller)
        TRY(step_add(g, at.below, up, share));
    if (at.larger) {
        TRY(with_larger(g, up, &at, all, true));
        TRY(with_larger(g, down, &at, all, false));
    }
    if (at.smaller)
        TRY(step_give(g, at.below, down, share));
    return cube_gather(g, &c, doubling, all);
}

/* Of the first member of block b, which has the longer half of every half. */
static struct cost cost_of_block(const struct power_block *blocks, size_t n_blocks, size_t b, size_t n)
{
    size_t levels = blocks[b].levels, share = n, sent = 0, path = 0, messages = 2 * levels;
    for (size_t l = 0; l < levels; l++) {
        sent += share; /* what it gives on this level there and back is together what it had before */
        share -= share / 2;
        path += share;
    }
    if (b > 0) {
        messages += (size_t)1 << (blocks[b - 1].levels - levels);
        sent += share;
    }
    if (b + 1 < n_blocks) {
        messages++;
        sent += share;
    }
    return (struct cost){(double)messages, (double)sent, {{2 * (double)levels, 2 * (double)path}}};
}

static struct cost cost(size_t m, size_t n)
{
    struct power_block blocks[64];
    size_t n_blocks = blocks_of(m, blocks);
    struct cost most = cost_of_block(blocks, n_blocks, 0, n);
    for (size_t b = 1; b < n_blocks; b++) {
        struct cost c = cost_of_block(blocks, n_blocks, b, n);
        most.messages = c.messages > most.messages ? c.messages : most.messages;
        most.floats = c.floats > most.floats ? c.floats : most.floats;
    }
    return most;
}

const struct collective collective_binary_blocks = {.name = "binary-blocks",
                                                    .help =
                                                        "halving and doubling within blocks of powers of two",
                                                    .sum = sum,
                                                    .cost = cost};
