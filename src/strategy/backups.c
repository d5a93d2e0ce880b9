/* backups.c - see backups.h: first the agents' side, then the counter's. */
#include "strategy/backups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tags above those of rounds, below those of groups. */
enum { READY, VERDICT, MEMBERS };

static uint64_t tag_of(int what)
{
    return (1ull << 62) + (uint64_t)what;
}

struct ready {
    uint64_t round; /* 0 from somebody who has just come back, wherever it was before */
};

struct verdict {
    uint64_t n;       /* how many count; their list follows. 0: you are late */
    uint64_t attempt; /* the generation of their group */
    uint64_t leader;  /* late: who is further */
};

/* ---- an agent ---- */

static size_t counter_of(const struct agent *a)
{
    return a->stage->n_agents;
}

/* A counter that is silent may be waiting for others; one that is gone or has ended will not answer. */
static fault hear_counter(struct agent *a, int what, void *bytes, size_t n)
{
    const struct link_ops *ops = a->link->ops;
    for (;;) {
        fault f = ops->recv(a->link, counter_of(a), tag_of(what), bytes, n, NULL);
        if (!f || fault_kind_of(f) != FAULT_TIMEOUT || !ops->can_reach(a->link, counter_of(a)) ||
            ops->has_ended(a->link, counter_of(a)))
            return f;
        fault_drop(f);
    }
}

static fault ask_whether_i_count(struct agent *a, struct verdict *v)
{
    struct ready mine = {a->group.is_newcomer ? 0 : a->k};
    TRY(a->link->ops->send(a->link, counter_of(a), tag_of(READY), &mine, sizeof mine));
    TRY(hear_counter(a, VERDICT, v, sizeof *v));
    return v->n ? hear_counter(a, MEMBERS, a->group.members, v->n * sizeof *a->group.members) : OK;
}

static void become_member(struct group *g, const struct verdict *v)
{
    g->n = v->n;
    g->generation = v->attempt;
    g->number = 0;
    for (g->rank = 0; g->members[g->rank] != g->link->self;)
        g->rank++;
}

/* Whoever is late is where the others are, with their rows. If the leader is gone, the next verdict names another. */
static fault catch_up(struct agent *a, size_t leader)
{
    uint64_t round;
    a->dropped++;
    fault f = a->link->ops->adopt(a->link, leader, &round);
    if (f) {
        if (!is_about_peers(f))
            return f;
        fault_drop(f);
        return OK;
    }
    if (!a->group.is_newcomer)
        a->stage->ended += round - a->k;
    a->group.is_newcomer = false;
    a->k = round;
    return OK;
}

/* The mean over those that count. If one of them is lost in it the round is done again. */
static fault step_with_members(struct agent *a, const struct allreduce *s, const struct collective *c)
{
    struct group *g = agent_group(a);
    fault f = group_mean(g, c, ROW_GRADS, 0, TO_END);
    if (!f && s->mix_statistics)
        f = group_mean(g, c, ROW_STATS, 0, TO_END);
    if (f && is_about_peers(f)) {
        fault_drop(f);
        return OK;
    }
    TRY(f);
    g->is_newcomer = false;
    TRY(agent_update(a));
    return agent_end_round(a);
}

/* Everyone who is left, from wherever each of them is. */
static fault go_on_without_counter(struct agent *a, fault f)
{
    if (!is_about_peers(f))
        return f;
    fault_drop(f);
    return agent_regroup(a, "whoever counts the first gradients is gone, so all are waited for");
}

fault backups_learn(struct agent *a, const struct allreduce *s, const struct collective *c)
{
    agent_group(a);
    while (agent_goes_on(a)) {
        struct verdict v;
        TRY(agent_learn(a));
        fault f = ask_whether_i_count(a, &v);
        if (f)
            return go_on_without_counter(a, f);
        if (v.n == 0) {
            TRY(catch_up(a, (size_t)v.leader));
            continue;
        }
        become_member(&a->group, &v);
        TRY(step_with_members(a, s, c));
    }
    return OK;
}

fault backups_rejoin(struct agent *a)
{
    if (!agent_helps(a))
        agent_group(a)->is_newcomer = true;
    return OK;
}

/* ---- the counter ---- */

struct counter {
    uint64_t round, attempt; /* the group's; attempts so far */
    uint32_t leader;         /* somebody who is in that round */
    bool under_way;          /* a set was told that it counts */
    uint64_t *rounds;        /* owned: of each agent's last word */
    bool *waiting;           /* owned: who said ready and was not answered */
    bool *in_set;            /* owned: who counts in what is under way, and has not spoken since */
    uint32_t *members;       /* owned: room for a list */
};

fault backups_open(struct stage *s)
{
    struct counter *c = calloc(1, sizeof *c);
    if (!c)
        return OUT_OF_MEMORY;
    s->shared = c;
    c->rounds = calloc(s->n_agents, sizeof *c->rounds);
    c->waiting = calloc(s->n_agents, sizeof *c->waiting);
    c->in_set = calloc(s->n_agents, sizeof *c->in_set);
    c->members = calloc(s->n_agents, sizeof *c->members);
    return c->rounds && c->waiting && c->in_set && c->members ? OK : OUT_OF_MEMORY;
}

void backups_close(struct stage *s)
{
    struct counter *c = s->shared;
    if (!c)
        return;
    free(c->rounds);
    free(c->waiting);
    free(c->in_set);
    free(c->members);
    free(c);
    s->shared = NULL;
}

static bool is_there(const struct agent *a, size_t who)
{
    return a->link->ops->can_reach(a->link, who) && !a->link->ops->has_ended(a->link, who);
}

static size_t count_living(const struct agent *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        n += is_there(a, i);
    return n;
}

static void hear(struct counter *c, size_t who, uint64_t round)
{
    c->rounds[who] = round;
    c->waiting[who] = true;
    c->in_set[who] = false;
    if (round > c->round) { /* the round before is done, whoever else has heard of it or not */
        c->round = round;
        c->leader = (uint32_t)who;
        c->under_way = false;
    }
}

/* Somebody who went away will not miss its answer. */
static fault answer(struct agent *a, size_t who, const struct verdict *v, const uint32_t *members)
{
    fault f = a->link->ops->send(a->link, who, tag_of(VERDICT), v, sizeof *v);
    if (!f && v->n)
        f = a->link->ops->send(a->link, who, tag_of(MEMBERS), members, v->n * sizeof *members);
    if (f && !is_about_peers(f))
        return f;
    fault_drop(f);
    return OK;
}

/* All who still wait in an earlier round. The leader must be there; whoever is in this round will do. */
static fault answer_the_late(struct agent *a, struct counter *c)
{
    for (uint32_t i = 0; i < a->stage->n_agents && !is_there(a, c->leader); i++)
        if (c->rounds[i] == c->round && is_there(a, i))
            c->leader = i;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (c->waiting[i] && c->rounds[i] < c->round) {
            c->waiting[i] = false;
            TRY(answer(a, i, &(struct verdict){.leader = c->leader}, NULL));
        }
    return OK;
}

/* Nobody got through: all who counted and are still there have said ready for the same round again. */
static bool has_failed(const struct agent *a, const struct counter *c)
{
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (c->in_set[i] && is_there(a, i))
            return false;
    return true;
}

static fault let_them_count(struct agent *a, struct counter *c, size_t n)
{
    struct verdict v = {.n = n, .attempt = ++c->attempt};
    memset(c->in_set, 0, a->stage->n_agents * sizeof *c->in_set);
    c->under_way = true;
    for (size_t i = 0; i < n; i++) {
        c->waiting[c->members[i]] = false;
        c->in_set[c->members[i]] = true;
    }
    for (size_t i = 0; i < n; i++)
        TRY(answer(a, c->members[i], &v, c->members));
    return OK;
}

static fault decide(struct agent *a, const struct allreduce *s, struct counter *c)
{
    size_t n = 0, living = count_living(a), spared = (size_t)s->backups;
    TRY(answer_the_late(a, c));
    if (c->under_way && !has_failed(a, c))
        return OK;
    c->under_way = false;
    for (uint32_t i = 0; i < a->stage->n_agents; i++)
        if (c->waiting[i] && is_there(a, i))
            c->members[n++] = i;
    return n && n + spared >= living ? let_them_count(a, c, n) : OK;
}

static void forget_all(struct counter *c, size_t n_agents)
{
    struct counter fresh = {.rounds = c->rounds,
                            .waiting = c->waiting,
                            .in_set = c->in_set,
                            .members = c->members,
                            .attempt = c->attempt};
    *c = fresh;
    memset(c->rounds, 0, n_agents * sizeof *c->rounds);
    memset(c->waiting, 0, n_agents * sizeof *c->waiting);
    memset(c->in_set, 0, n_agents * sizeof *c->in_set);
}

fault backups_count(struct agent *a, const struct allreduce *s)
{
    struct counter *c = a->stage->shared;
    forget_all(c, a->stage->n_agents);
    while (count_living(a)) {
        struct ready theirs;
        size_t who;
        fault f = a->link->ops->recv(a->link, ANYONE, tag_of(READY), &theirs, sizeof theirs, &who);
        if (f && !is_about_peers(f))
            return f;
        if (!f)
            hear(c, who, theirs.round);
        fault_drop(f);
        TRY(decide(a, s, c));
    }
    return OK;
}
