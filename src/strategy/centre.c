/* centre.c - see centre.h: first the workers' side, then the centre's. */
#include "strategy/centre.h"

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
    return agent_does_without(a, centre_of(a), f);
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

bool centre_is_needed(struct agent *a)
{
    bool needed = false;
    for (size_t i = 0; i < a->stage->n_agents; i++) {
        if (link_has_ended(a->link, i))
            continue;
        if (link_can_reach(a->link, i))
            needed = true;
        else
            fault_drop(agent_does_without(a, i, FAIL(FAULT_PEER, "it cannot be reached")));
    }
    return needed;
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
        return agent_does_without(a, who, f);
    agent_meets(a, who);
    *caller = (struct caller){who, call.round};
    *came = true;
    return OK;
}

fault centre_answer(struct agent *a, const struct caller *caller, row_set rows)
{
    return agent_does_without(a, caller->who,
                              link_send_rows(a->link, caller->who, caller->round, whole(rows)));
}
