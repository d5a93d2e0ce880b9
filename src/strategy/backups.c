/* backups.c - see backups.h: first the agents' side, then the counter's. */
#include "strategy/backups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY (1ull << 62) /* above the tags of rounds */

struct ready {
    uint64_t round;
    uint64_t
        is_newcomer; /* back after a crash: its rows may be of any round, and its gradient does not count */
};

struct verdict {
    uint64_t n;       /* how many count in this round, a bit for each follows; 0: you are late */
    uint64_t round;   /* it is about */
    uint64_t attempt; /* the generation of their group */
    uint64_t leader;  /* late: who is further */
    uint64_t members[];
};

struct counter {
    uint64_t round, attempt; /* the group's; attempts so far */
    uint32_t leader;         /* somebody who is in that round */
    bool under_way;          /* a set was told that it counts */
    unsigned failures;       /* of this round */
    uint64_t *rounds;        /* owned: of each agent's last word */
    bool *waiting;           /* owned: who said ready and was not answered */
    bool *back;              /* owned: newcomers */
    bool *in_set;            /* owned: who counts in what is under way, and has not spoken since */
    uint32_t *ready;         /* owned: room for a list */
    struct verdict *letter;  /* owned: room for one that is being written or read */
    size_t letter_bytes;
};

fault backups_open(const struct stage *s, void **shared)
{
    struct counter *c = calloc(1, sizeof *c);
    if (!c)
        return OUT_OF_MEMORY;
    *shared = c;
    c->letter_bytes = sizeof *c->letter + (s->n_agents / 64 + 1) * sizeof(uint64_t);
    c->letter = calloc(1, c->letter_bytes);
    c->rounds = calloc(s->n_agents, sizeof *c->rounds);
    c->waiting = calloc(s->n_agents, sizeof *c->waiting);
    c->back = calloc(s->n_agents, sizeof *c->back);
    c->in_set = calloc(s->n_agents, sizeof *c->in_set);
    c->ready = calloc(s->n_agents, sizeof *c->ready);
    return c->letter && c->rounds && c->waiting && c->back && c->in_set && c->ready ? OK : OUT_OF_MEMORY;
}

void backups_close(void *shared)
{
    struct counter *c = shared;
    if (!c)
        return;
    free(c->letter);
    free(c->rounds);
    free(c->waiting);
    free(c->back);
    free(c->in_set);
    free(c->ready);
    free(c);
}

/* ---- an agent ---- */

static size_t counter_of(const struct agent *a)
{
    return a->stage->n_agents;
}

static fault say_ready(struct agent *a)
{
    struct ready mine = {a->k, a->group.is_newcomer};
    return link_send(a->link, counter_of(a), READY, &mine, sizeof mine);
}

/* Where the counter is gone, or others have given it up, asking is of no use. */
static bool can_ask_again(const struct agent *a, fault f)
{
    return is_about_peers(f) && link_can_reach(a->link, counter_of(a)) &&
           !link_has_ended(a->link, counter_of(a)) && !group_is_abandoned(&a->group);
}

/* An answer may be lost or late, and one to what I said before may come in its place. */
static bool concerns_me(const struct agent *a, const struct verdict *v)
{
    bool is_behind = a->group.is_newcomer || v->round > a->k;
    return v->n == 0 ? is_behind && v->leader != a->index
                     : v->round == a->k && v->attempt > a->group.generation;
}

/* The verdict, valid until the next verb. */
static fault ask_whether_i_count(struct agent *a, const struct verdict **out)
{
    struct counter *c = a->stage->shared;
    fault f =
        group_is_abandoned(&a->group) ? FAIL(FAULT_PEER, "others have given up the counter") : say_ready(a);
    for (;;) {
        if (!f)
            f = link_recv(a->link, counter_of(a), group_lasting_tag(0), c->letter, c->letter_bytes, NULL);
        if (!f && concerns_me(a, c->letter)) {
            *out = c->letter;
            return OK;
        }
        if (f && !can_ask_again(a, f))
            return f;
        bool again = f != OK;
        fault_drop(f);
        f = again ? say_ready(a) : OK;
    }
}

static void become_member(struct agent *a, const struct verdict *v)
{
    struct group *g = &a->group;
    g->n = 0;
    g->generation = v->attempt;
    g->number = 0;
    for (uint32_t i = 0; i < a->stage->n_agents; i++)
        if (v->members[i / 64] >> i % 64 & 1) {
            if (i == a->index)
                g->rank = g->n;
            g->members[g->n++] = i;
        }
}

/* Whoever is late takes over the rows of one that is further, and its round. */
static fault catch_up(struct agent *a, size_t leader)
{
    uint64_t round;
    a->dropped++;
    TRY(link_adopt(a->link, leader, &round));
    if (!a->group.is_newcomer && round > a->k)
        link_skip_rounds(a->link, round - a->k);
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
    if (f)
        return forgive(f);
    g->is_newcomer = false;
    TRY(agent_update(a));
    return agent_end_round(a);
}

/* Everyone who is left, from wherever each of them is. */
static fault go_on_without_counter(struct agent *a, fault f)
{
    TRY(forgive(f));
    static const char why[] = "whoever counts the first gradients is gone, so all are waited for";
    group_abandon(&a->group, why);
    return agent_regroup(a, why);
}

fault backups_learn(struct agent *a, const struct allreduce *s, const struct collective *c)
{
    int in_vain = 0;
    agent_group(a);
    while (agent_goes_on(a)) {
        const struct verdict *v;
        TRY(agent_learn(a));
        fault f = ask_whether_i_count(a, &v);
        if (!f && v->n == 0)
            f = catch_up(a, (size_t)v->leader);
        else if (!f) {
            become_member(a, v);
            TRY(step_with_members(a, s, c));
        }
        in_vain = f ? in_vain + 1 : 0;
        if (f && (!can_ask_again(a, f) || in_vain == 2)) /* a leader that is gone now is not the next one */
            return go_on_without_counter(a, f);
        fault_drop(f);
    }
    fault_drop(say_ready(a)); /* farewell; a counter that is gone will not miss it */
    return OK;
}

fault backups_rejoin(struct agent *a)
{
    if (!agent_helps(a))
        agent_group(a)->is_newcomer = true;
    return OK;
}

/* ---- the counter ---- */

static bool is_there(const struct agent *a, size_t who)
{
    const struct counter *c = a->stage->shared;
    return link_can_reach(a->link, who) && !link_has_ended(a->link, who) && c->rounds[who] < a->stage->rounds;
}

static size_t count_living(const struct agent *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        n += is_there(a, i);
    return n;
}

/* Somebody is in this round: the one before is done, whoever else has heard of it or not. */
static void move_on(struct counter *c, size_t who, uint64_t round)
{
    c->round = round;
    c->leader = (uint32_t)who;
    c->under_way = false;
    c->failures = 0;
}

static void hear(struct counter *c, size_t who, struct ready theirs, uint64_t n_rounds)
{
    uint64_t round = theirs.round;
    c->rounds[who] = round;
    c->waiting[who] = round < n_rounds; /* after the last one it is a farewell */
    c->in_set[who] = false;
    c->back[who] = theirs.is_newcomer;
    if (round > c->round && !c->back[who])
        move_on(c, who, round);
}

/* Somebody who went away will not miss its answer. */
static fault answer(struct agent *a, const struct counter *c, size_t who)
{
    return forgive(link_send(a->link, who, group_lasting_tag(0), c->letter, c->letter_bytes));
}

static fault send_to(struct agent *a, struct counter *c, size_t who, uint32_t leader)
{
    c->waiting[who] = false;
    *c->letter = (struct verdict){.round = c->round, .leader = leader};
    return answer(a, c, who);
}

static bool is_in_round(const struct agent *a, const struct counter *c, size_t who)
{
    return c->rounds[who] >= c->round && link_can_reach(a->link, who);
}

/* Whoever is in this round will do. */
static bool find_leader(const struct agent *a, struct counter *c)
{
    for (uint32_t i = 0; i < a->stage->n_agents && !is_in_round(a, c, c->leader); i++)
        if (is_in_round(a, c, i))
            c->leader = i;
    return is_in_round(a, c, c->leader);
}

/* All who were in this round are gone, or back from an earlier one: once everyone waits, the group's round is
 * that of the furthest. */
static void go_back(const struct agent *a, struct counter *c)
{
    size_t furthest = a->stage->n_agents;
    for (size_t i = 0; i < a->stage->n_agents; i++) {
        if (!is_there(a, i))
            continue;
        if (!c->waiting[i] || c->back[i])
            return;
        if (furthest == a->stage->n_agents || c->rounds[i] > c->rounds[furthest])
            furthest = i;
    }
    if (furthest < a->stage->n_agents)
        move_on(c, furthest, c->rounds[furthest]);
}

/* All who still wait in an earlier round. */
static fault answer_the_late(struct agent *a, struct counter *c)
{
    if (!find_leader(a, c))
        go_back(a, c);
    if (!find_leader(a, c))
        return OK;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (c->waiting[i] && !c->back[i] && c->rounds[i] < c->round)
            TRY(send_to(a, c, i, c->leader));
    return OK;
}

/* Newcomers begin with the rows of anyone who was there; if nobody was, with their own. */
static fault answer_newcomers(struct agent *a, struct counter *c)
{
    uint32_t leader = 0;
    while (leader < a->stage->n_agents && (c->back[leader] || !is_there(a, leader)))
        leader++;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (c->waiting[i] && c->back[i]) {
            c->back[i] = false;
            if (leader < a->stage->n_agents) {
                TRY(send_to(a, c, i, leader));
            } else {
                leader = (uint32_t)i;
                move_on(c, i, c->rounds[i]);
            }
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
    memset(c->letter, 0, c->letter_bytes);
    memset(c->in_set, 0, a->stage->n_agents * sizeof *c->in_set);
    *c->letter = (struct verdict){.n = n, .round = c->round, .attempt = ++c->attempt};
    c->under_way = true;
    for (size_t i = 0; i < n; i++) {
        uint32_t who = c->ready[i];
        c->waiting[who] = false;
        c->in_set[who] = true;
        c->letter->members[who / 64] |= 1ull << who % 64;
    }
    for (size_t i = 0; i < n; i++)
        TRY(answer(a, c, c->ready[i]));
    return OK;
}

/* One failure is a death; if a round fails again and again the wires are too slow for so many. */
static size_t fewer(size_t n, unsigned failures)
{
    size_t left = failures > 1 ? n >> (failures - 1) : n;
    return left ? left : 1;
}

static fault decide(struct agent *a, const struct allreduce *s, struct counter *c)
{
    size_t n = 0, living = count_living(a), spared = (size_t)s->backups;
    TRY(answer_the_late(a, c));
    TRY(answer_newcomers(a, c));
    if (c->under_way && !has_failed(a, c))
        return OK;
    c->failures += c->under_way;
    c->under_way = false;
    for (uint32_t i = 0; i < a->stage->n_agents; i++)
        if (c->waiting[i] && is_there(a, i) && c->rounds[i] == c->round)
            c->ready[n++] = i;
    return n && n + spared >= living ? let_them_count(a, c, fewer(n, c->failures)) : OK;
}

/* A counter that was down knows nothing of what was before, but for the number of attempts. */
static void forget_all(struct counter *c, size_t n_agents)
{
    c->round = 0;
    c->leader = 0;
    c->under_way = false;
    c->failures = 0;
    memset(c->rounds, 0, n_agents * sizeof *c->rounds);
    memset(c->waiting, 0, n_agents * sizeof *c->waiting);
    memset(c->back, 0, n_agents * sizeof *c->back);
    memset(c->in_set, 0, n_agents * sizeof *c->in_set);
}

fault backups_count(struct agent *a, const struct allreduce *s)
{
    struct counter *c = a->stage->shared;
    forget_all(c, a->stage->n_agents);
    while (count_living(a)) {
        struct ready theirs;
        size_t who;
        fault f = link_recv(a->link, ANYONE, READY, &theirs, sizeof theirs, &who);
        if (f && !is_about_peers(f))
            return f;
        if (!f)
            hear(c, who, theirs, a->stage->rounds);
        fault_drop(f);
        TRY(decide(a, s, c));
    }
    return OK;
}
