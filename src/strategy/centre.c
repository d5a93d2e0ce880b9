/* centre.c - see centre.h: first the workers' side, then the centre's. */
#include "strategy/centre.h"

#include <stdio.h>

#define TAG_CALL (1ull << 62) /* above those of rounds, below those of groups */

struct call {
    uint64_t round;
    uint64_t leaves; /* 0: rows follow under the round */
};

int64_t centre_helpers(const void *settings, int64_t agents)
{
    (void)settings, (void)agents;
    return 1;
}

/* ---- a worker ---- */

static size_t centre_of(const struct agent *a)
{
    return a->stage->n_agents;
}

/* A fault about the centre is noted and no fault of the worker's. */
static fault whether_there(struct agent *a, fault f, bool *there)
{
    *there = !f;
    if (!f)
        agent_meets(a, centre_of(a));
    if (!f || !is_about_peers(f))
        return f;
    char text[192];
    snprintf(text, sizeof text, "agent %zu goes on without the centre in round %llu: %.100s", a->index,
             (unsigned long long)a->k, fault_text(f));
    agent_misses(a, centre_of(a), "without", text);
    fault_drop(f);
    return OK;
}

fault centre_call(struct agent *a, row_set rows, bool *there)
{
    struct call call = {.round = a->k};
    fault f = link_has_ended(a->link, centre_of(a)) ? FAIL(FAULT_PEER, "it has come to its end") : OK;
    if (!f)
        f = link_send(a->link, centre_of(a), TAG_CALL, &call, sizeof call);
    if (!f)
        f = link_send_rows(a->link, centre_of(a), a->k, whole(rows));
    *there = !f;
    return f ? whether_there(a, f, there) : OK;
}

fault centre_hear(struct agent *a, struct parcel *out, bool *there)
{
    return whether_there(a, link_recv_rows(a->link, centre_of(a), a->k, out, NULL), there);
}

fault centre_adopt(struct agent *a, bool *there)
{
    return whether_there(a, link_adopt(a->link, centre_of(a), NULL), there);
}

void centre_leave(struct agent *a)
{
    struct call call = {.round = a->k, .leaves = true};
    fault_drop(link_send(a->link, centre_of(a), TAG_CALL, &call, sizeof call));
}

/* ---- the centre ---- */

static void go_on_without(struct agent *a, size_t who, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "the centre goes on without agent %zu: %.100s", who, why);
    agent_misses(a, who, "without", text);
}

bool centre_is_needed(struct agent *a)
{
    bool needed = false;
    for (size_t i = 0; i < a->stage->n_agents; i++) {
        if (link_has_ended(a->link, i))
            continue;
        if (link_can_reach(a->link, i))
            needed = true;
        else
            go_on_without(a, i, "it cannot be reached");
    }
    return needed;
}

/* What goes wrong with one worker is noted and is no fault of the centre's. */
static fault do_without(struct agent *a, size_t who, fault f)
{
    if (!is_about_peers(f))
        return f;
    if (who != ANYONE)
        go_on_without(a, who, fault_text(f));
    fault_drop(f);
    return OK;
}

fault centre_await(struct agent *a, size_t from, struct parcel *out, struct caller *caller, bool *came)
{
    struct call call;
    size_t who = from;
    *came = false;
    fault f = link_recv(a->link, from, TAG_CALL, &call, sizeof call, &who);
    if (!f && call.leaves)
        return OK;
    if (!f)
        f = link_recv_rows(a->link, who, call.round, out, NULL);
    if (f)
        return do_without(a, who, f);
    agent_meets(a, who);
    *caller = (struct caller){who, call.round};
    *came = true;
    return OK;
}

fault centre_answer(struct agent *a, const struct caller *caller, row_set rows)
{
    fault f = link_send_rows(a->link, caller->who, caller->round, whole(rows));
    return f ? do_without(a, caller->who, f) : OK;
}
