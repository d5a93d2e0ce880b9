/* together.c - broadcast, gather, barrier and exchange.
 *
 *   broadcast   a binomial tree (steps.h) with the root's rank taken for 0: m - 1 messages, ceil(log2 m)
 * steps gather      everyone to the root: m - 1 messages barrier     dissemination (Hensgen, Finkel and
 * Manber 1988): in step s = 1, 2, 4, ... a word to the member s places after me, one from the member s places
 * before me: after ceil(log2 m) steps I have heard, through others, of everyone exchange    the same with
 * blocks (Bruck et al. 1997): what I have doubles in every step
 */
#include <string.h>

#include "collective/steps.h"

/* ---- rows ---- */

static fault take_rows(struct group *g, size_t from, uint64_t tag, struct span span)
{
    struct parcel *parcel = &g->parcels[from];
    TRY(group_recv(g, from, tag, parcel));
    fault f = OK;
    for (int row = 0; !f && row < N_ROWS; row++)
        if (span.rows & 1u << row) {
            struct term theirs = {1, (enum row)row, parcel};
            f = link_mix(g->link, (enum row)row, span.first, span.end, &theirs, 1);
        }
    link_drop(g->link, parcel);
    return f;
}

static fault broadcast(struct group *g, size_t root, struct span span)
{
    uint64_t tag = group_tag(g);
    size_t m = g->n;
    struct seat at = tree_seat((g->rank + m - root) % m, m);
    if (g->rank != root)
        TRY(take_rows(g, (at.parent + root) % m, tag, span));
    for (size_t i = 0; i < at.n_children; i++)
        TRY(group_send(g, (at.child[i] + root) % m, tag, span));
    return OK;
}

fault group_broadcast(struct group *g, size_t root, struct span span)
{
    return group_end(g, broadcast(g, root, span));
}

static fault gather(struct group *g, size_t root, struct span span)
{
    uint64_t tag = group_tag(g);
    if (g->rank != root)
        return group_send(g, root, tag, span);
    for (size_t i = 0; i < g->n; i++)
        if (i != root)
            TRY(group_recv(g, i, tag, &g->parcels[i]));
    return OK;
}

fault group_gather(struct group *g, size_t root, struct span span)
{
    fault f = gather(g, root, span);
    return f ? group_end(g, f) : OK;
}

/* ---- words ---- */

static fault send_bytes(struct group *g, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    return link_send(g->link, g->members[to], tag, bytes, n);
}

static fault recv_bytes(struct group *g, size_t from, uint64_t tag, void *bytes, size_t n)
{
    return link_recv(g->link, g->members[from], tag, bytes, n, NULL);
}

static fault barrier(struct group *g)
{
    uint64_t tag = group_tag(g);
    char nothing = 0;
    for (size_t s = 1; s < g->n; s *= 2) {
        TRY(send_bytes(g, (g->rank + s) % g->n, tag, &nothing, 0));
        TRY(recv_bytes(g, (g->rank + g->n - s) % g->n, tag, &nothing, 0));
    }
    return OK;
}

fault group_barrier(struct group *g)
{
    return group_end(g, barrier(g));
}

static void reverse(char *bytes, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        char kept = bytes[i];
        bytes[i] = bytes[n - 1 - i];
        bytes[n - 1 - i] = kept;
    }
}

/* The first `by` bytes go to the end: turning both parts round, then the whole. */
static void rotate(char *bytes, size_t n, size_t by)
{
    reverse(bytes, by);
    reverse(bytes + by, n - by);
    reverse(bytes, n);
}

/* `all` has my own block first, then those of the ranks after mine. */
static fault exchange(struct group *g, size_t n, char *all)
{
    uint64_t tag = group_tag(g);
    for (size_t have = 1; have < g->n; have *= 2) {
        size_t more = have < g->n - have ? have : g->n - have;
        TRY(send_bytes(g, (g->rank + g->n - have) % g->n, tag, all, more * n));
        TRY(recv_bytes(g, (g->rank + have) % g->n, tag, all + have * n, more * n));
    }
    return OK;
}

fault group_exchange(struct group *g, const void *mine, size_t n_bytes, void *all)
{
    memcpy(all, mine, n_bytes);
    TRY(group_end(g, exchange(g, n_bytes, all)));
    rotate(all, g->n * n_bytes, (g->n - g->rank) % g->n * n_bytes);
    return OK;
}
