/* group.c - see group.h. */
#include "collective/group.h"

#include <stdio.h>
#include <stdlib.h>

#define HELLO    0xffffffffull /* the last numbers of every generation */
#define AGREED   0xfffffffeull
#define NEWCOMER UINT64_MAX /* in place of a generation           */

struct hello {
    uint64_t generation, origin, round; /* of the group I come from, and how far I am */
};

static uint64_t tag_of(uint64_t generation, uint64_t number)
{
    return TAG_GROUP | generation << 32 | number;
}

static uint64_t generation_of(uint64_t tag)
{
    return tag < TAG_GROUP ? 0 : (tag & ~TAG_GROUP) >> 32;
}

fault group_init(struct group *g, size_t self, struct parcel *parcels, size_t n_all)
{
    uint32_t *members = malloc((n_all + 1) * sizeof *members);
    if (!members)
        return OUT_OF_MEMORY;
    *g = (struct group){.parcels = parcels, .members = members, .n = n_all, .n_all = n_all, .rank = self};
    for (size_t i = 0; i < n_all; i++)
        members[i] = (uint32_t)i;
    return OK;
}

void group_release(struct group *g)
{
    free(g->members);
    g->members = NULL;
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

bool group_is_incomplete(const struct group *g)
{
    size_t next = 0;
    if (g->n == g->n_all)
        return false;
    for (size_t i = 0; i < g->n_all; i++)
        if (next < g->n && g->members[next] == i)
            next++;
        else if (could_come(g, i))
            return true;
    return false;
}

/* ---- re-forming ---- */

static bool is_outdated(const struct group *g)
{
    return g->link->ops->dissolved(g->link) > tag_of(g->generation, 0);
}

/* The next generation, which everyone hears of. Somebody who comes back takes part in the one the others
 * make. */
static void next_generation(struct group *g, const char *why)
{
    const struct link_ops *ops = g->link->ops;
    uint64_t heard = generation_of(ops->dissolved(g->link));
    if (g->is_newcomer) {
        ops->dissolve(g->link, 0, why);
        g->generation = heard;
    } else {
        g->generation = heard > g->generation ? heard : g->generation + 1;
        ops->dissolve(g->link, tag_of(g->generation, 0), why);
    }
    g->is_newcomer = false;
    g->number = 0;
}

/* Who is ahead of whom: whoever is just back is behind everybody else. */
static bool is_ahead(struct hello a, struct hello b)
{
    if ((a.generation == NEWCOMER) != (b.generation == NEWCOMER))
        return b.generation == NEWCOMER;
    return a.round > b.round;
}

/* The leader is the one that is furthest, the first of them. */
static void meet(struct hello theirs, size_t agent, struct hello *best, size_t *leader)
{
    if (is_ahead(theirs, *best) || (!is_ahead(*best, theirs) && agent < *leader)) {
        *best = theirs;
        *leader = agent;
    }
}

/* Members are, for now, those to whom it could be said, and I. */
static void greet(struct group *g, struct hello mine)
{
    g->n = 0;
    for (size_t i = 0; i < g->n_all; i++) {
        bool there = i == g->link->self;
        if (!there && could_come(g, i)) {
            fault f = g->link->ops->send(g->link, i, tag_of(g->generation, HELLO), &mine, sizeof mine);
            there = !f;
            fault_drop(f);
        }
        if (there)
            g->members[g->n++] = (uint32_t)i;
    }
}

/* Of those that were greeted all who answer. A fault about a peer only excludes it; being outdated ends it
 * early. */
static fault hear_answers(struct group *g, struct hello mine, struct hello *best, size_t *leader)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n && !is_outdated(g); i++) {
        uint32_t who = g->members[i];
        struct hello theirs = mine;
        fault f = OK;
        if (who != g->link->self)
            f = g->link->ops->recv(g->link, who, tag_of(g->generation, HELLO), &theirs, sizeof theirs, NULL);
        else
            g->rank = n;
        if (f && !is_about_a_peer(f))
            return f;
        if (!f) {
            g->members[n++] = who;
            meet(theirs, who, best, leader);
        }
        fault_drop(f);
    }
    g->n = n;
    return OK;
}

/* Follows from who the members are. */
static uint64_t hash_members(const struct group *g)
{
    uint64_t hash = g->n;
    for (size_t i = 0; i < g->n; i++)
        hash = (hash + g->members[i] + 1) * 0x9e3779b97f4a7c15;
    return hash;
}

/* Everyone tells everyone whom it has heard. Two of us may have heard different others: where a link broke
 * meanwhile, or a third can reach both and they not each other. */
static fault agree(struct group *g)
{
    const struct link_ops *ops = g->link->ops;
    uint64_t mine = hash_members(g), theirs, tag = tag_of(g->generation, AGREED);
    for (size_t i = 0; i < g->n_all; i++)
        if (could_come(g, i))
            fault_drop(ops->send(g->link, i, tag, &mine, sizeof mine));
    for (size_t i = 0; i < g->n && !is_outdated(g); i++) {
        if (i == g->rank)
            continue;
        TRY(ops->recv(g->link, g->members[i], tag, &theirs, sizeof theirs, NULL));
        if (theirs != mine)
            return FAIL(FAULT_PEER, "agents %zu and %u have not heard the same others", g->link->self,
                        g->members[i]);
    }
    return OK;
}

void group_leave(struct group *g)
{
    g->members[0] = (uint32_t)g->link->self;
    g->n = 1;
    g->rank = 0;
    g->origin = g->link->self;
}

fault group_reform(struct group *g, uint64_t round, const char *why, struct reunion *out)
{
    struct hello mine = {g->is_newcomer ? NEWCOMER : g->generation, g->origin, round}, best;
    size_t leader;
    do {
        next_generation(g, why);
        greet(g, mine);
        best = mine;
        leader = g->link->self;
        TRY(hear_answers(g, mine, &best, &leader));
        fault f = is_outdated(g) ? OK : agree(g);
        if (f && !is_outdated(g))
            return group_end(g, f);
        fault_drop(f);
    } while (is_outdated(g));
    g->origin = g->members[0];
    g->link->ops->forget(g->link, tag_of(g->generation, 0));
    *out = (struct reunion){
        .leader = leader,
        .round = best.round,
        .adopt =
            leader != g->link->self && (mine.generation == NEWCOMER || best.round != mine.round ||
                                        best.generation != mine.generation || best.origin != mine.origin),
    };
    return OK;
}
