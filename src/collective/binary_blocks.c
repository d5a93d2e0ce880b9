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

/* To or from the members of the next larger block: my share is what 2^d of them have together. */
static fault with_larger(struct group *g, uint64_t tag, const struct power_block *mine,
                         const struct power_block *larger, size_t index, struct part all, bool give)
{
    size_t d = larger->levels - mine->levels;
    for (size_t i = index << d; i < (index + 1) << d; i++) {
        struct part share = cube_share(all, larger->levels, i);
        TRY(give ? step_give(g, larger->first + i, tag, share) : step_take(g, larger->first + i, tag, share));
    }
    return OK;
}

static fault sum(struct group *g, enum row row, size_t first, size_t end)
{
    struct part all = {row, first, end};
    struct power_block blocks[64];
    size_t n = blocks_of(g->n, blocks), b = 0;
    while (!is_in(&blocks[b], g->rank))
        b++;
    const struct power_block *mine = &blocks[b], *larger = b ? mine - 1 : NULL,
                             *smaller = b + 1 < n ? mine + 1 : NULL;
    size_t index = g->rank - mine->first;
    struct cube c = {mine->levels, index, rank_in_block, mine};
    struct part share = cube_share(all, mine->levels, index);
    TRY(cube_scatter(g, &c, all));
    uint64_t in = group_tag(g), out = group_tag(g);
    size_t below = smaller ? smaller->first + (index >> (mine->levels - smaller->levels)) : 0;
    if (smaller)
        TRY(step_add(g, below, in, share));
    if (larger) {
        TRY(with_larger(g, in, mine, larger, index, all, true));
        TRY(with_larger(g, out, mine, larger, index, all, false));
    }
    if (smaller)
        TRY(step_give(g, below, out, share));
    return cube_gather(g, &c, all);
}

static struct cost cost(size_t m, size_t n)
{
    (void)m, (void)n;
    return (struct cost){0};
}

const struct collective collective_binary_blocks = {.name = "binary-blocks",
                                                    .help =
                                                        "halving and doubling within blocks of powers of two",
                                                    .sum = sum,
                                                    .cost = cost};
