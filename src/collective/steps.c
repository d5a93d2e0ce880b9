/* steps.c - see steps.h. */
#include "collective/steps.h"

/* ---- spans ---- */

fault step_give(struct group *g, size_t to, uint64_t tag, struct span p)
{
    return group_send(g, to, tag, p);
}

static fault step_mix(struct group *g, size_t from, uint64_t tag, struct span p, bool add)
{
    struct parcel *parcel = &g->parcels[from];
    TRY(group_recv(g, from, tag, parcel));
    enum row row = span_row(p);
    struct term terms[] = {{1, row, NULL, 0}, {1, row, parcel, 0}};
    fault f = add ? link_mix(g->link, row, p.first, p.end, terms, 2)
                  : link_mix(g->link, row, p.first, p.end, terms + 1, 1);
    link_drop(g->link, parcel);
    return f;
}

fault step_add(struct group *g, size_t from, uint64_t tag, struct span p)
{
    return step_mix(g, from, tag, p, true);
}

fault step_take(struct group *g, size_t from, uint64_t tag, struct span p)
{
    return step_mix(g, from, tag, p, false);
}

fault step_tell(struct group *g, size_t to, uint64_t tag)
{
    return step_give(g, to, tag, (struct span){ROWS_PARAMS, 0, 0});
}

fault step_hear(struct group *g, size_t from, uint64_t tag)
{
    TRY(group_recv(g, from, tag, &g->parcels[from]));
    link_drop(g->link, &g->parcels[from]);
    return OK;
}

struct span span_of(struct span whole, size_t i, size_t n)
{
    size_t size = span_size(whole) / n, longer = span_size(whole) % n;
    size_t first = whole.first + i * size + smaller(i, longer);
    return (struct span){whole.rows, first, first + size + (i < longer)};
}

struct span span_half(struct span whole, bool upper)
{
    size_t middle = whole.end - span_size(whole) / 2;
    return upper ? (struct span){whole.rows, middle, whole.end}
                 : (struct span){whole.rows, whole.first, middle};
}

size_t log2_floor(size_t n)
{
    size_t log = 0;
    while (n >>= 1)
        log++;
    return log;
}

size_t log2_ceil(size_t n)
{
    return n > 1 ? log2_floor(n - 1) + 1 : 0;
}

/* ---- pieces ---- */

size_t piece_count(size_t floats)
{
    size_t n = floats / PIECE_FLOATS;
    return n < 1 ? 1 : n < MOST_PIECES ? n : MOST_PIECES;
}

size_t piece_longest(size_t floats)
{
    size_t n = piece_count(floats);
    return (floats + n - 1) / n;
}

struct pieces pieces_of(struct group *g, struct span whole)
{
    struct pieces all = {.whole = whole, .n = piece_count(span_size(whole))};
    for (size_t i = 0; i < all.n; i++)
        all.tag[i] = group_tag(g);
    return all;
}

struct span piece_of(const struct pieces *all, size_t i)
{
    return span_of(all->whole, i, all->n);
}

/* ---- the tree ---- */

struct kin tree_kin(size_t rank, size_t n)
{
    struct kin at = {0};
    size_t head = 0;
    while (n > 1) {
        size_t kept = n / 2, other = head + kept;
        if (rank >= other) {
            if (rank == other)
                at.parent = head;
            head = other;
            n -= kept;
            continue;
        }
        if (rank == head)
            at.child[at.n_children++] = other;
        n = kept;
    }
    return at;
}

/* ---- the cube ---- */

struct span cube_share(struct span whole, size_t levels, size_t index)
{
    for (size_t level = levels; level-- > 0;)
        whole = span_half(whole, index >> level & 1);
    return whole;
}

fault cube_halve(struct group *g, const struct cube *c, uint64_t tag, size_t level, struct span *mine)
{
    bool upper = c->index >> level & 1;
    size_t peer = c->rank(c->ctx, c->index ^ (size_t)1 << level);
    TRY(step_give(g, peer, tag, span_half(*mine, !upper)));
    *mine = span_half(*mine, upper);
    return step_add(g, peer, tag, *mine);
}

fault cube_scatter(struct group *g, const struct cube *c, uint64_t tag, struct span whole)
{
    for (size_t level = c->levels; level-- > 0;)
        TRY(cube_halve(g, c, tag, level, &whole));
    return OK;
}

fault cube_gather(struct group *g, const struct cube *c, uint64_t tag, struct span whole)
{
    for (size_t level = 0; level < c->levels; level++) {
        size_t above = level + 1, done = c->index >> level, peer = c->index ^ (size_t)1 << level;
        struct span both = cube_share(whole, c->levels - above, c->index >> above);
        TRY(step_give(g, c->rank(c->ctx, peer), tag, span_half(both, done & 1)));
        TRY(step_take(g, c->rank(c->ctx, peer), tag, span_half(both, !(done & 1))));
    }
    return OK;
}

/* ---- folding ---- */

struct fold fold_of(const struct group *g)
{
    struct fold f = {.p = (size_t)1 << log2_floor(g->n), .goes_on = true};
    f.extra = g->n - f.p;
    if (g->rank < 2 * f.extra) {
        f.goes_on = g->rank % 2;
        f.index = f.extra - 1 - g->rank / 2;
    } else
        f.index = g->rank - f.extra;
    return f;
}

size_t fold_rank(const void *ctx, size_t index)
{
    const struct fold *f = ctx;
    return index < f->extra ? 2 * (f->extra - 1 - index) + 1 : index + f->extra;
}

fault fold_in(struct group *g, const struct fold *f, struct span p)
{
    uint64_t tag = group_tag(g);
    if (g->rank >= 2 * f->extra)
        return OK;
    return f->goes_on ? step_add(g, g->rank - 1, tag, p) : step_give(g, g->rank + 1, tag, p);
}

fault fold_out(struct group *g, const struct fold *f, struct span p)
{
    uint64_t tag = group_tag(g);
    if (g->rank >= 2 * f->extra)
        return OK;
    return f->goes_on ? step_give(g, g->rank - 1, tag, p) : step_take(g, g->rank + 1, tag, p);
}
