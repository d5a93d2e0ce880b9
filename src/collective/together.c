/* together.c - barrier and exchange.
 *
 *   barrier    dissemination (Hensgen, Finkel and Manber 1988): in step s = 1, 2, 4, ... a word to the member
 *              s places after me, one from the member s places before me: after ceil(log2 m) steps I have
 *              heard, through others, of all
 *   exchange   the same with blocks (Bruck et al. 1997): what I have doubles in every step
 */
#include <string.h>

#include "base/encode.h"
#include "collective/steps.h"

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
        size_t more = smaller(have, g->n - have);
        TRY(send_bytes(g, (g->rank + g->n - have) % g->n, tag, all, more * n));
        TRY(recv_bytes(g, (g->rank + have) % g->n, tag, all + have * n, more * n));
    }
    return OK;
}

fault group_exchange(struct group *g, const void *mine, size_t n, void *all)
{
    size_t n_bytes = n * sizeof(uint64_t);
    memcpy(all, mine, n_bytes);
    encode_in_place(all, n);
    TRY(group_end(g, exchange(g, n_bytes, all)));
    decode_in_place(all, g->n * n);
    rotate(all, g->n * n_bytes, (g->n - g->rank) % g->n * n_bytes);
    return OK;
}
