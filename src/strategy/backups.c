/* backups.c - see backups.h: an agent's side of the method, the counter's, and below them their letters and memory. */
#include "strategy/backups.h"

#include <stdlib.h>
#include <string.h>

struct verdict;

/* ---- an agent ---- */

static fault ask_whether_i_count(struct agent *a, const struct verdict **out);
static fault act_on(struct agent *a, const struct verdict *v, const struct allreduce *s, const struct collective *c);
static fault go_on_without_counter(struct agent *a, fault f);
static void say_goodbye(struct agent *a);

fault backups_learn(struct agent *a, const struct allreduce *s, const struct collective *c)
{
    int in_vain = 0;
    agent_group(a);
    while (agent_goes_on(a)) {
        const struct verdict *v;
        TRY(agent_learn(a));
        fault f = ask_whether_i_count(a, &v);
        bool heard = !f;
        if (heard)
            f = act_on(a, v, s, c);
        in_vain = f ? in_vain + 1 : 0;
        if (f && (!heard || in_vain == 2 || group_is_abandoned(&a->group)))
            return go_on_without_counter(a, f);
        TRY(forgive(f));
    }
    say_goodbye(a);
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

/* A late agent takes over the rows of one that is further, and its round. */
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

/* All agents that are left, from wherever each of them is. */
static fault go_on_without_counter(struct agent *a, fault f)
{
    TRY(forgive(f));
    static const char why[] = "the member that counts the first gradients is gone, so all are waited for";
    group_abandon(&a->group, why);
    return agent_regroup(a, why);
}

fault backups_rejoin(struct agent *a)
{
    if (!agent_helps(a))
        agent_group(a)->is_newcomer = true;
    return OK;
}

/* ---- the counter ---- */

struct counter {
    struct service service;
    struct party {           /* what it knows of an agent */
        uint64_t round;      /* of its last word */
        bool is_back;        /* a newcomer */
        bool in_set;         /* it counts in what is under way, and has not spoken since */
        bool counts;         /* room for a list */
    } * parties;             /* owned: [n] */
    size_t n;                /* agents */
    uint64_t round, attempt; /* the group's; attempts so far */
    uint32_t leader;         /* an agent that is in that round */
    bool under_way;          /* a set was told that it counts */
    unsigned failures;       /* of this round */
    struct asker *askers;    /* owned: [n], each agent's own */
    struct verdict *letter;  /* owned: room for one that is being written or read */
    size_t letter_bytes;
};

static fault answer_the_late(struct agent *a, struct counter *c);
static fault answer_newcomers(struct agent *a, struct counter *c);
static bool has_failed(const struct agent *a, const struct counter *c);
static fault let_them_count(struct counter *c, size_t n);
static fault send_to(struct counter *c, size_t who, uint32_t leader);

static bool is_there(const struct agent *a, size_t who)
{
    const struct counter *c = a->stage->shared;
    return link_can_reach(a->link, who) && !link_has_ended(a->link, who) &&
           c->parties[who].round < a->stage->rounds;
}

static size_t count_living(const struct agent *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        n += is_there(a, i);
    return n;
}

static bool waits(const struct counter *c, size_t who)
{
    return c->service.visitors[who].waits;
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
    for (size_t i = 0; i < c->n; i++) {
        c->parties[i].counts = waits(c, i) && is_there(a, i) && c->parties[i].round == c->round;
        n += c->parties[i].counts;
    }
    return n && n + spared >= living ? let_them_count(c, fewer(n, c->failures)) : OK;
}

/* An agent is in this round: the one before is done, whether the others have heard of it or not. */
static void move_on(struct counter *c, size_t who, uint64_t round)
{
    c->round = round;
    c->leader = (uint32_t)who;
    c->under_way = false;
    c->failures = 0;
}

static void hear(struct counter *c, size_t who, uint64_t round, bool is_back)
{
    struct party *p = &c->parties[who];
    p->round = round;
    p->in_set = false;
    p->is_back = is_back;
    if (round > c->round && !is_back)
        move_on(c, who, round);
}

static bool is_in_round(const struct agent *a, const struct counter *c, size_t who)
{
    return c->parties[who].round >= c->round && link_can_reach(a->link, who);
}

/* Any agent that is in this round will do. */
static bool find_leader(const struct agent *a, struct counter *c)
{
    for (uint32_t i = 0; i < a->stage->n_agents && !is_in_round(a, c, c->leader); i++)
        if (is_in_round(a, c, i))
            c->leader = i;
    return is_in_round(a, c, c->leader);
}

/* All who were in this round are gone, or back from an earlier one: once all agents wait, the group's round is
 * that of the furthest. */
static void go_back(const struct agent *a, struct counter *c)
{
    size_t furthest = a->stage->n_agents;
    for (size_t i = 0; i < a->stage->n_agents; i++) {
        if (!is_there(a, i))
            continue;
        if (!waits(c, i) || c->parties[i].is_back)
            return;
        if (furthest == a->stage->n_agents || c->parties[i].round > c->parties[furthest].round)
            furthest = i;
    }
    if (furthest < a->stage->n_agents)
        move_on(c, furthest, c->parties[furthest].round);
}

/* All that still wait in an earlier round. */
static fault answer_the_late(struct agent *a, struct counter *c)
{
    if (!find_leader(a, c))
        go_back(a, c);
    if (!find_leader(a, c))
        return OK;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (waits(c, i) && !c->parties[i].is_back && c->parties[i].round < c->round)
            TRY(send_to(c, i, c->leader));
    return OK;
}

/* Newcomers begin with the rows of an agent that was there; if none was, with their own. */
static fault answer_newcomers(struct agent *a, struct counter *c)
{
    uint32_t leader = 0;
    while (leader < a->stage->n_agents && (c->parties[leader].is_back || !is_there(a, leader)))
        leader++;
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (waits(c, i) && c->parties[i].is_back) {
            c->parties[i].is_back = false;
            if (leader < a->stage->n_agents) {
                TRY(send_to(c, i, leader));
            } else {
                leader = (uint32_t)i;
                move_on(c, i, c->parties[i].round);
            }
        }
    return OK;
}

/* None got through: all who counted and are still there have said ready for the same round again. */
static bool has_failed(const struct agent *a, const struct counter *c)
{
    for (size_t i = 0; i < a->stage->n_agents; i++)
        if (c->parties[i].in_set && is_there(a, i))
            return false;
    return true;
}

/* ---- letters, as call.h says: a head, and numbers of 64 bits ---- */

enum { IS_NEWCOMER = 1, COUNTS = 1, IS_LATE = 2 }; /* what a question, an answer says */

struct ready { /* IS_NEWCOMER: back after a crash, of no round; its gradient does not count */
    struct call_head head;
    uint64_t round;
};

struct verdict {
    struct call_head head;
    uint64_t who;       /* COUNTS: the generation of the group; IS_LATE: an agent that is further */
    uint64_t members[]; /* COUNTS: a bit for each agent that does */
};

struct asker { /* an agent, as it calls the counter */
    struct call_line line;
    struct ready ready; /* what it asks */
};

static bool holds(const struct verdict *v, size_t agent)
{
    return v->members[agent / 64] >> agent % 64 & 1;
}

static bool can_be(const struct agent *a, const struct verdict *v)
{
    return v->head.what == COUNTS
               ? holds(v, a->index)
               : v->head.what == IS_LATE && v->who < a->stage->n_agents && v->who != a->index;
}

/* The verdict, valid until the next verb. A fault about peers: the counter is gone, or given up by others. */
static fault ask_whether_i_count(struct agent *a, const struct verdict **out)
{
    struct counter *c = a->stage->shared;
    struct asker *me = &c->askers[a->index];
    struct parcel none;
    me->ready = (struct ready){.head.what = a->group.is_newcomer ? IS_NEWCOMER : 0, .round = a->k};
    TRY(call_begin(agent_caller(a), &me->line, &me->ready.head, (struct span){0}));
    TRY(call_end(&me->line, &c->letter->head, &none));
    *out = c->letter;
    return can_be(a, c->letter) ? OK : call_refuse(a->link, me->line.asked);
}

static void say_goodbye(struct agent *a)
{
    struct asker *me = &((struct counter *)a->stage->shared)->askers[a->index];
    call_leave(agent_caller(a), &me->line, &me->ready.head);
}

static void become_member(struct agent *a, const struct verdict *v)
{
    struct group *g = &a->group;
    g->n = 0;
    g->generation = v->who;
    g->number = 0;
    for (uint32_t i = 0; i < a->stage->n_agents; i++)
        if (holds(v, i)) {
            if (i == a->index)
                g->rank = g->n;
            g->members[g->n++] = i;
        }
}

/* A leader that is gone by now is not the next one that the counter names. */
static fault act_on(struct agent *a, const struct verdict *v, const struct allreduce *s,
                    const struct collective *c)
{
    if (v->head.what == IS_LATE)
        return catch_up(a, (size_t)v->who);
    become_member(a, v);
    return step_with_members(a, s, c);
}

static fault answer(struct counter *c, size_t who)
{
    return service_answer(&c->service, who, &c->letter->head, (struct span){0});
}

static fault send_to(struct counter *c, size_t who, uint32_t leader)
{
    *c->letter = (struct verdict){.head.what = IS_LATE, .who = leader};
    return answer(c, who);
}

/* The first n of those that are ready. */
static fault let_them_count(struct counter *c, size_t n)
{
    memset(c->letter, 0, c->letter_bytes);
    *c->letter = (struct verdict){.head.what = COUNTS, .who = ++c->attempt};
    c->under_way = true;
    for (size_t i = 0; i < c->n; i++) {
        struct party *p = &c->parties[i];
        p->in_set = p->counts && n;
        n -= p->in_set;
        c->letter->members[i / 64] |= (uint64_t)p->in_set << i % 64;
    }
    for (size_t i = 0; i < c->n; i++)
        if (c->parties[i].in_set)
            TRY(answer(c, i));
    return OK;
}

/* A counter that was down knows nothing of what was before, but for the number of attempts. */
static void forget_all(struct counter *c)
{
    service_return(&c->service);
    move_on(c, 0, 0);
    for (size_t i = 0; i < c->n; i++)
        hear(c, i, 0, false);
}

fault backups_count(struct agent *a, const struct allreduce *s)
{
    struct counter *c = a->stage->shared;
    struct parcel none = {0};
    agent_serves(a, &c->service);
    forget_all(c);
    while (count_living(a)) {
        struct arrival x;
        TRY(service_hear(&c->service, ANYONE, &none, &x));
        const struct ready *r = x.letter;
        if (arrival_asks(&x) && r->head.what > IS_NEWCOMER)
            return call_refuse(a->link, x.who);
        if (arrival_asks(&x))
            hear(c, x.who, r->round, r->head.what == IS_NEWCOMER);
        if (x.what == ARRIVED_FAREWELL)
            hear(c, x.who, a->stage->rounds, false);
        TRY(decide(a, s, c));
    }
    return OK;
}

/* ---- memory ---- */

fault backups_open(const struct stage *s, void **shared)
{
    size_t n = s->n_agents, bytes = sizeof(struct verdict) + (n / 64 + 1) * sizeof(uint64_t);
    struct counter *c = calloc(1, sizeof *c);
    if (!c)
        return OUT_OF_MEMORY;
    *shared = c;
    *c = (struct counter){.n = n,
                          .parties = calloc(n, sizeof *c->parties),
                          .askers = calloc(n, sizeof *c->askers),
                          .letter = calloc(1, bytes),
                          .letter_bytes = bytes};
    if (!c->letter || !c->parties || !c->askers)
        return OUT_OF_MEMORY; /* what there is goes with backups_close */
    for (size_t i = 0; i < n; i++) {
        struct call_line *line = &c->askers[i].line;
        *line = call_line_to_pair("counter", n, n, sizeof(struct ready), bytes);
        line->lost = 0; /* the others go on without it */
        line->answer_tag = group_lasting_tag(0);
    }
    TRY(service_init(&c->service, n, n, n, sizeof(struct ready), bytes));
    c->service.answer_tag = group_lasting_tag(0);
    return OK;
}

void backups_close(void *shared)
{
    struct counter *c = shared;
    if (!c)
        return;
    service_release(&c->service);
    free(c->letter);
    free(c->parties);
    free(c->askers);
    free(c);
}
