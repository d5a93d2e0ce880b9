/* group.c - see group.h. */
#include "collective/group.h"

#include <stdlib.h>
#include <string.h>

/* The last numbers of every generation are those of the messages that form it. */
#define HELLO    0xffffffffull
#define VIEW     (HELLO - 1)
#define VERDICT  (HELLO - 2)
#define NEWCOMER UINT64_MAX /* in place of a generation */

/* Attempts to form a group that does not get a round further; then each goes on alone. */
enum { MOST_ATTEMPTS = 16 };

struct standing {
    uint64_t generation, origin, round; /* of the group I come from, and how far I am */
};

/* What is said about agents: my standing and whom I hear (a view), or who are the members, who of them is
 * furthest and its standing (a verdict). Belongs to the group, since a program may be dropped while it waits.
 */
struct group_call {
    struct standing standing;
    uint64_t leader;
    uint64_t set[]; /* a bit for every agent */
};

static uint64_t tag_of(uint64_t generation, uint64_t number)
{
    return TAG_GROUP | generation << 32 | number;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t generation_of(uint64_t tag)
{
    return tag < TAG_GROUP ? 0 : (tag & ~TAG_GROUP) >> 32;
}

static size_t set_bytes(size_t n_all)
{
    return (n_all + 63) / 64 * sizeof(uint64_t);
}

static size_t call_bytes(const struct group *g)
{
    return sizeof(struct group_call) + set_bytes(g->n_all);
}

static bool is_in(const uint64_t *set, size_t agent)
{
    return set[agent / 64] >> agent % 64 & 1;
}

static void put_in(uint64_t *set, size_t agent)
{
    set[agent / 64] |= 1ull << agent % 64;
}

fault group_init(struct group *g, size_t self, struct parcel *parcels, size_t n_all)
{
    *g = (struct group){.parcels = parcels, .n = n_all, .n_all = n_all, .rank = self};
    g->members = malloc((n_all + 1) * sizeof *g->members);
    g->apart = calloc(1, set_bytes(n_all) + 1);
    g->view = calloc(1, call_bytes(g));
    g->heard = calloc(1, call_bytes(g));
    g->verdict = calloc(1, call_bytes(g));
    if (!g->members || !g->apart || !g->view || !g->heard || !g->verdict) {
        group_release(g);
        return OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < n_all; i++)
        g->members[i] = (uint32_t)i;
    return OK;
}

void group_release(struct group *g)
{
    free(g->members);
    free(g->apart);
    free(g->view);
    free(g->heard);
    free(g->verdict);
    g->members = NULL;
    g->apart = NULL;
    g->view = g->heard = g->verdict = NULL;
}

uint64_t group_tag(struct group *g)
{
    return tag_of(g->generation, g->number++);
}

fault group_send(struct group *g, size_t to, uint64_t tag, struct span span)
{
    return g->link->ops->send_rows(g->link, g->members[to], tag, span);
}

fault group_recv(struct group *g, size_t from, uint64_t tag, struct parcel *out)
{
    return g->link->ops->recv_rows(g->link, g->members[from], tag, out, NULL);
}

static bool is_about_a_peer(fault f)
{
    return fault_kind_of(f) == FAULT_PEER || fault_kind_of(f) == FAULT_TIMEOUT;
}

fault group_end(struct group *g, fault f)
{
    for (size_t i = 0; i < g->n; i++)
        g->link->ops->drop(g->link, &g->parcels[i]);
    if (f && is_about_a_peer(f))
        g->link->ops->dissolve(g->link, tag_of(g->generation + 1, 0), fault_text(f));
    return f;
}

static bool could_come(const struct group *g, size_t agent)
{
    const struct link_ops *ops = g->link->ops;
    return agent != g->link->self && ops->can_reach(g->link, agent) && !ops->has_ended(g->link, agent);
}

static bool is_outdated(const struct group *g)
{
    return g->link->ops->dissolved(g->link) > tag_of(g->generation, 0);
}

bool group_is_incomplete(const struct group *g)
{
    size_t next = 0;
    if (is_outdated(g))
        return true;
    if (g->n == g->n_all)
        return false;
    for (size_t i = 0; i < g->n_all; i++)
        if (next < g->n && g->members[next] == i)
            next++;
        else if (could_come(g, i) && !is_in(g->apart, i))
            return true;
    return false;
}

/* ---- re-forming ---- */

/* The next generation, which everyone hears of. Somebody who comes back does not know the others' and asks
 * them for their next; whichever of all that are named is the highest, it will be. */
static void next_generation(struct group *g, const char *why)
{
    const struct link_ops *ops = g->link->ops;
    uint64_t heard = generation_of(ops->dissolved(g->link));
    if (g->is_newcomer)
        ops->dissolve(g->link, 0, why);
    g->generation = heard > g->generation && !g->is_newcomer ? heard : later(heard, g->generation) + 1;
    ops->dissolve(g->link, tag_of(g->generation, 0), why);
    g->is_newcomer = false;
    g->number = 0;
}

/* Who is ahead of whom: whoever is just back is behind everybody else. */
static bool is_ahead(struct standing a, struct standing b)
{
    if ((a.generation == NEWCOMER) != (b.generation == NEWCOMER))
        return b.generation == NEWCOMER;
    return a.round > b.round;
}

/* One more member, after those with lower numbers. The leader is the one that is furthest, the first of them.
 */
static void admit(struct group_call *verdict, size_t agent, struct standing s)
{
    put_in(verdict->set, agent);
    if (is_ahead(s, verdict->standing)) {
        verdict->standing = s;
        verdict->leader = agent;
    }
}

static size_t lowest(const struct group *g, const uint64_t *set)
{
    size_t i = 0;
    while (i < g->n_all && !is_in(set, i))
        i++;
    return i;
}

static bool includes(const struct group *g, const uint64_t *set, const uint64_t *other)
{
    for (size_t i = 0; i < set_bytes(g->n_all) / sizeof *set; i++)
        if (other[i] & ~set[i])
            return false;
    return true;
}

/* Whoever went away meanwhile will not answer, either. */
static void tell_all(struct group *g, uint64_t tag, const void *bytes, size_t n)
{
    for (size_t i = 0; i < g->n_all; i++)
        if (could_come(g, i))
            fault_drop(g->link->ops->send(g->link, i, tag, bytes, n));
}

/* My view: all who say hello. A fault about a peer only leaves it out. */
static fault hear_hellos(struct group *g)
{
    memset(g->view->set, 0, set_bytes(g->n_all));
    put_in(g->view->set, g->link->self);
    for (size_t i = 0; i < g->n_all && !is_outdated(g); i++) {
        if (!could_come(g, i))
            continue;
        char nothing;
        fault f = g->link->ops->recv(g->link, i, tag_of(g->generation, HELLO), &nothing, 0, NULL);
        if (f && !is_about_a_peer(f))
            return f;
        if (!f)
            put_in(g->view->set, i);
        fault_drop(f);
    }
    return OK;
}

static void admit_only_me(struct group *g)
{
    memset(g->verdict->set, 0, set_bytes(g->n_all));
    g->verdict->standing = g->view->standing;
    g->verdict->leader = g->link->self;
    put_in(g->verdict->set, g->link->self);
}

/* Who hears nobody lower than me follows me. If I follow nobody myself, I admit each that hears all I have
 * admitted before; everyone else that counted on me is told at once: an empty verdict. */
static fault admit_followers(struct group *g, bool i_follow)
{
    const struct link_ops *ops = g->link->ops;
    admit_only_me(g);
    for (size_t i = 0; i < g->n_all; i++) {
        if (i == g->link->self || !is_in(g->view->set, i))
            continue;
        TRY(ops->recv(g->link, i, tag_of(g->generation, VIEW), g->heard, call_bytes(g), NULL));
        if (lowest(g, g->heard->set) != g->link->self)
            continue;
        if (!i_follow && includes(g, g->heard->set, g->verdict->set))
            admit(g->verdict, i, g->heard->standing);
        else {
            memset(g->heard, 0, call_bytes(g));
            TRY(ops->send(g->link, i, tag_of(g->generation, VERDICT), g->heard, call_bytes(g)));
        }
    }
    return OK;
}

static fault announce(struct group *g)
{
    for (size_t i = 0; i < g->n_all; i++)
        if (i != g->link->self && is_in(g->verdict->set, i))
            TRY(g->link->ops->send(g->link, i, tag_of(g->generation, VERDICT), g->verdict, call_bytes(g)));
    return OK;
}

static fault obey(struct group *g, size_t whom)
{
    TRY(g->link->ops->recv(g->link, whom, tag_of(g->generation, VERDICT), g->verdict, call_bytes(g), NULL));
    if (!is_in(g->verdict->set, g->link->self))
        admit_only_me(g);
    return OK;
}

static fault agree(struct group *g)
{
    tell_all(g, tag_of(g->generation, HELLO), "", 0);
    TRY(hear_hellos(g));
    if (is_outdated(g))
        return OK;
    tell_all(g, tag_of(g->generation, VIEW), g->view, call_bytes(g));
    size_t head = lowest(g, g->view->set);
    TRY(admit_followers(g, head != g->link->self));
    return head == g->link->self ? announce(g) : obey(g, head);
}

static void take_members(struct group *g)
{
    g->n = 0;
    memset(g->apart, 0, set_bytes(g->n_all));
    for (size_t i = 0; i < g->n_all; i++) {
        if (i == g->link->self)
            g->rank = g->n;
        if (is_in(g->verdict->set, i))
            g->members[g->n++] = (uint32_t)i;
        else if (could_come(g, i))
            put_in(g->apart, i);
    }
    g->origin = g->members[0];
}

/* Whether this generation is to be formed with others at all. */
static bool may_try(struct group *g, uint64_t round)
{
    g->attempts = round == g->attempted_round ? g->attempts + 1 : 1;
    g->attempted_round = round;
    if (g->attempts <= MOST_ATTEMPTS)
        return true;
    g->attempts = 0;
    return false;
}

fault group_reform(struct group *g, uint64_t round, const char *why, struct reunion *out)
{
    struct standing mine = {g->is_newcomer ? NEWCOMER : g->generation, g->origin, round};
    bool again;
    g->view->standing = mine;
    do {
        next_generation(g, why);
        again = false;
        if (!may_try(g, round)) {
            admit_only_me(g);
            break;
        }
        fault f = agree(g);
        if (f && !is_about_a_peer(f))
            return f;
        again = f || is_outdated(g);
        fault_drop(f);
    } while (again);
    take_members(g);
    g->link->ops->forget(g->link, tag_of(g->generation, 0));
    const struct standing best = g->verdict->standing;
    *out = (struct reunion){
        .leader = g->verdict->leader,
        .round = best.round,
        .adopt = g->verdict->leader != g->link->self &&
                 (mine.generation == NEWCOMER || best.round != mine.round ||
                  best.generation != mine.generation || best.origin != mine.origin),
    };
    return OK;
}
