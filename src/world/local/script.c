/* script.c - crashes, stalls, returns, cuts and partitions: those the experiment names, and those that chance
 * brings.
 */
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "world/local/inside.h"

/* The others know from now on that it is down. */
static void notice(struct local *w, size_t i, const char *why)
{
    w->actors[i].is_missed = true;
    for (size_t j = 0; j < w->n; j++) {
        struct actor *b = &w->actors[j];
        if (b->life == LIFE_PARKED && (b->receives || b->in_vain) && b->from == i)
            actor_wake(b, FAIL(FAULT_PEER, "%s", why));
    }
}

enum { CRASHED, STALLED };

static fault expect_notice(struct local *w, size_t i, double after_s, uint64_t how)
{
    return agenda_add(&w->agenda, (struct moment){.at_s = w->now_s + after_s,
                                                  .kind = MOMENT_NOTICE,
                                                  .who = (uint32_t)i,
                                                  .whom = w->actors[i].falls,
                                                  .ticket = how});
}

/* Its program ends, and what it had received is lost. */
static void go_down(struct local *w, size_t i)
{
    struct actor *a = &w->actors[i];
    a->alive = false;
    a->falls++;
    actor_drop_mail(a);
    ask_no_more(a);
    if (a->life == LIFE_READY) { /* it was woken by what happened just before at this moment */
        fault_drop(a->verdict);
        a->verdict = FAIL(FAULT_CRASH, "the machine of agent %zu is down", i);
    }
    if (a->life == LIFE_PARKED)
        actor_wake(a, FAIL(FAULT_CRASH, "the machine of agent %zu is down", i));
}

static fault crash(struct local *w, size_t i)
{
    char text[64];
    double notice_s = w->stage->experiment->network.notice_s;
    if (!w->actors[i].alive)
        return OK;
    snprintf(text, sizeof text, "agent %zu is down", i);
    local_say(w, i, "crash", text);
    go_down(w, i);
    if (notice_s > 0)
        return expect_notice(w, i, notice_s, CRASHED);
    notice(w, i, text);
    return OK;
}

/* It can be told from a slow one only by its silence. */
static fault stall(struct local *w, size_t i)
{
    char text[64];
    if (!w->actors[i].alive)
        return OK;
    snprintf(text, sizeof text, "agent %zu stalls", i);
    local_say(w, i, "stall", text);
    go_down(w, i);
    return expect_notice(w, i, w->stage->experiment->network.patience_s, STALLED);
}

static void notice_fall(struct local *w, size_t i, uint32_t fall, uint64_t how)
{
    char text[96];
    if (w->actors[i].alive || w->actors[i].falls != fall)
        return;
    snprintf(text, sizeof text, "agent %zu is down", i);
    if (how == CRASHED) {
        notice(w, i, text);
        return;
    }
    snprintf(text, sizeof text, "agent %zu has stalled (nothing was heard of it for %g s)", i,
             w->stage->experiment->network.patience_s);
    local_say(w, i, "stall", text);
    notice(w, i, text);
}

/* The round after the latest that a living neighbour is in: none has begun it yet. Without a topology all
 * are neighbours. Where agents form a group, that says when it takes one in, and in which round. */
static uint64_t round_to_join(const struct local *w, size_t i)
{
    const struct agent *a = w->actors[i].agent;
    uint64_t round = a->k;
    if (agent_helps(a) || strategy_row(w->stage->experiment)->forms_group)
        return round;
    for (size_t n = 0; n < agent_peers(a); n++) {
        const struct actor *peer = &w->actors[agent_peer(a, n)];
        if (peer->alive && peer->agent->k + 1 > round)
            round = peer->agent->k + 1;
    }
    return round;
}

static fault bring_back(struct local *w, size_t i)
{
    struct actor *a = &w->actors[i];
    if (a->alive)
        return OK;
    if (!a->is_missed)
        notice(w, i, "its machine went down and is back"); /* it says so itself */
    a->alive = true;
    a->is_missed = false;
    if (a->life != LIFE_DOWN)
        return OK; /* it had come to its end before */
    if (!w->stage->asynchronous)
        a->agent->k = a->joined = round_to_join(w, i);
    a->agent->returned = true;
    return actor_begin_life(a);
}

static fault happen(struct local *w, const struct event *e)
{
    switch (e->kind) {
    case EVENT_CRASH:
        for (size_t i = 0; i < e->who.n; i++)
            TRY(crash(w, e->who.agents[i]));
        return OK;
    case EVENT_STALL:
        for (size_t i = 0; i < e->who.n; i++)
            TRY(stall(w, e->who.agents[i]));
        return OK;
    case EVENT_RETURN:
        for (size_t i = 0; i < e->who.n; i++)
            TRY(bring_back(w, e->who.agents[i]));
        return OK;
    case EVENT_CUT:
        local_say(w, e->who.agents[0], "cut", "a link is cut");
        return wires_cut_pair(w, e->who.agents[0], e->who.agents[1]);
    case EVENT_MEND:
        local_say(w, e->who.agents[0], "mend", "a link is mended");
        wires_mend_pair(w, e->who.agents[0], e->who.agents[1]);
        return OK;
    case EVENT_PARTITION:
        local_say(w, 0, "partition", "the network falls into parts");
        return wires_partition(w, e);
    case EVENT_HEAL:
        local_say(w, 0, "heal", "every link works again");
        return wires_heal_all(w);
    case N_EVENTS:
        break;
    }
    return OK;
}

/* The next waiting time of source i (an agent, or after those a link), exponential with this mean. */
static double draw(struct local *w, size_t i, double mean_s)
{
    struct rng r = rng_stream(w->stage->seed, (uint32_t)i, RNG_EVENTS, w->random_draws[i]++);
    return -mean_s * log(1 - rng_uniform(&r));
}

/* Something chance begins or ends; what the script does meanwhile does not change the order of the two. */
enum { BEGINS, ENDS };

static fault expect_random(struct local *w, int kind, size_t source, uint32_t side, double mean_s)
{
    if (mean_s <= 0)
        return OK;
    size_t i = kind == MOMENT_RANDOM_AGENT ? source : w->n + source;
    return agenda_add(&w->agenda, (struct moment){.at_s = w->now_s + draw(w, i, mean_s),
                                                  .kind = kind,
                                                  .who = (uint32_t)source,
                                                  .whom = side});
}

fault script_open(struct local *w)
{
    const struct event_settings *s = &w->stage->experiment->events;
    const struct topology *t = w->stage->topology;
    for (size_t i = 0; i < s->n; i++)
        TRY(agenda_add(
            &w->agenda,
            (struct moment){.at_s = s->at[i].at_s, .kind = MOMENT_SCRIPT, .what = (void *)&s->at[i]}));
    if (!s->has_random)
        return OK;
    for (size_t i = 0; i < w->n; i++)
        TRY(expect_random(w, MOMENT_RANDOM_AGENT, i, BEGINS, s->random.crash_every_s));
    for (size_t i = 0; t && i < t->n_edges; i++)
        TRY(expect_random(w, MOMENT_RANDOM_LINK, i, BEGINS, s->random.cut_every_s));
    return OK;
}

/* An agent that is down already, by the script, is left alone until the next time. */
static fault random_agent(struct local *w, size_t i, uint32_t side)
{
    const struct random_events *r = &w->stage->experiment->events.random;
    if (side == BEGINS && w->actors[i].alive) {
        TRY(crash(w, i));
        return expect_random(w, MOMENT_RANDOM_AGENT, i, ENDS, r->down_s);
    }
    if (side == ENDS)
        TRY(bring_back(w, i));
    return expect_random(w, MOMENT_RANDOM_AGENT, i, BEGINS, r->crash_every_s);
}

static fault random_link(struct local *w, size_t i, uint32_t side)
{
    const struct random_events *r = &w->stage->experiment->events.random;
    struct edge e = w->stage->topology->edges[i];
    bool cut = wires_pair_is_cut(w, e.a, e.b);
    if (side == BEGINS && !cut) {
        local_say(w, e.a, "cut", "a link is cut");
        TRY(wires_cut_pair(w, e.a, e.b));
        return expect_random(w, MOMENT_RANDOM_LINK, i, ENDS, r->cut_s);
    }
    if (side == ENDS && cut) {
        local_say(w, e.a, "mend", "a link is mended");
        wires_mend_pair(w, e.a, e.b);
    }
    return expect_random(w, MOMENT_RANDOM_LINK, i, BEGINS, r->cut_every_s);
}

static bool brings_one_back(const struct local *w, const struct event *e)
{
    for (size_t i = 0; e->kind == EVENT_RETURN && i < e->who.n; i++)
        if (w->actors[e->who.agents[i]].life == LIFE_DOWN)
            return true;
    return false;
}

bool script_return_is_due(const struct local *w)
{
    for (size_t i = 0; i < w->agenda.n; i++) {
        const struct moment *m = &w->agenda.heap[i];
        if (m->kind == MOMENT_SCRIPT && brings_one_back(w, m->what))
            return true;
        if (m->kind == MOMENT_RANDOM_AGENT && m->whom == ENDS && w->actors[m->who].life == LIFE_DOWN)
            return true;
    }
    return false;
}

fault script_moment(struct local *w, const struct moment *m)
{
    switch (m->kind) {
    case MOMENT_SCRIPT:
        return happen(w, m->what);
    case MOMENT_NOTICE:
        notice_fall(w, m->who, m->whom, m->ticket);
        return OK;
    case MOMENT_RANDOM_AGENT:
        return random_agent(w, m->who, m->whom);
    default:
        return random_link(w, m->who, m->whom);
    }
}
