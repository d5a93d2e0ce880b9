/* steps.h - the moves all collectives are made of: a span of a row goes to a member, is added, is taken over.
 *
 * Every step of a collective has a tag of its own, also where the same two members meet again: were messages
 * of several steps told apart by their order alone, one that was lost would make the next one pass for it.
 */
#ifndef VECHE_COLLECTIVE_STEPS_H
#define VECHE_COLLECTIVE_STEPS_H

#include "collective/collective.h"

/* Every span here is of one row. */
static inline enum row span_row(struct span s)
{
    return row_set_first(s.rows);
}

fault step_give(struct group *g, size_t to, uint64_t tag, struct span p);
/* mine = mine + theirs. A sum of two is the same in either order, so both ends of an exchange get the same
 * bits. */
fault step_add(struct group *g, size_t from, uint64_t tag, struct span p);
/* mine = theirs */
fault step_take(struct group *g, size_t from, uint64_t tag, struct span p);

/* A word, nothing but that it was said. */
fault step_tell(struct group *g, size_t to, uint64_t tag);
fault step_hear(struct group *g, size_t from, uint64_t tag);

/* Span i of n, which differ by one float at most, the longer ones first. */
struct span span_of(struct span whole, size_t i, size_t n);
/* One half: the lower one is the longer. */
struct span span_half(struct span whole, bool upper);

static inline size_t span_size(struct span p)
{
    return p.end - p.first;
}

size_t log2_floor(size_t n); /* n >= 1 */
size_t log2_ceil(size_t n);

/* ---- pieces ---- */

/* A long span that goes through members one after the other goes in pieces: one is on its way on while the
 * next comes. A piece has 64 KiB at least, for messages of less cost more than they bring, and there are
 * eight at most: they bring nearly all that any number could, and a world need not keep more of a row that is
 * written while its pieces are under way. */
enum { PIECE_FLOATS = 16384, MOST_PIECES = 8 };

struct pieces {
    struct span whole;
    size_t n;
    uint64_t tag[MOST_PIECES];
};

struct pieces pieces_of(struct group *g, struct span whole);
struct span piece_of(const struct pieces *all, size_t i);
size_t piece_count(size_t floats);
size_t piece_longest(size_t floats);

/* ---- a binomial tree over the ranks 0 .. n - 1, root 0 ---- */

/* A member that heads a range of ranks gives its upper half, the longer one, to the first of that half, and goes on
 * with the rest. With the longer halves given away first, some path from the root is as long as ceil(log2 n)
 * steps for every n, so the steps of all other paths find their time beside it. */
struct kin {
    size_t parent;    /* of rank 0: itself */
    size_t child[64]; /* the one with the largest range first */
    size_t n_children;
};
struct kin tree_kin(size_t rank, size_t n);

/* ---- recursive halving and doubling among 2^levels members ---- */

/* The member with index i (0 .. 2^levels - 1) has this rank. */
typedef size_t rank_of_index(const void *ctx, size_t index);

struct cube {
    size_t levels, index; /* mine */
    rank_of_index *rank;
    const void *ctx;
};

/* Of a part that is halved `levels` times: what the member with this index is left with. */
struct span cube_share(struct span whole, size_t levels, size_t index);
/* Reduce-scatter, under one tag since every level has another partner: my share becomes the sum over the
 * members; the rest is undefined. One level of it: of the part that I have left, I keep a half. */
fault cube_halve(struct group *g, const struct cube *c, uint64_t tag, size_t level, struct span *mine);
fault cube_scatter(struct group *g, const struct cube *c, uint64_t tag, struct span whole);
/* All-gather: every member gets the shares of all. */
fault cube_gather(struct group *g, const struct cube *c, uint64_t tag, struct span whole);

/* ---- any number of members as a power of two ---- */

/* With n = p + extra members, p the largest power of two, ranks 0 .. 2 extra - 1 are pairs: the even one
 * gives its floats to the odd one (in) and gets the result at the end (out). Of the p that go on, those with
 * a partner have the lowest indices, the first pair the highest of these: exchanges over the largest distance
 * first then make all members as late as they are in the fewest steps, and messages of those that are ahead
 * hardly ever keep a card from those that are not. */
struct fold {
    size_t p, extra;
    bool goes_on;
    size_t index; /* among the p, of one that goes on */
};
struct fold fold_of(const struct group *g);
rank_of_index fold_rank; /* its ctx is the fold */
fault fold_in(struct group *g, const struct fold *f, struct span p);
fault fold_out(struct group *g, const struct fold *f, struct span p);

#endif
