/* centre.c - see centre.h. */
#include "strategy/centre.h"

#include <stdio.h>
#include <stdlib.h>

int64_t centre_helpers(const void *settings, int64_t agents)
{
    (void)settings, (void)agents;
    return 1;
}

fault centre_init(struct centre *c, const struct stage *stage)
{
    size_t n = stage->n_agents;
    c->lines = calloc(n, sizeof *c->lines);
    if (!c->lines)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        c->lines[i].line = call_line_to("centre", n);
    TRY(service_init(&c->service, n, n, n, sizeof(struct call_head), 0));
    snprintf(c->service.name, sizeof c->service.name, "the centre");
    for (size_t i = 0; i < n; i++)
        c->service.visitors[i].known = true;
    return OK;
}

void centre_release(struct centre *c)
{
    free(c->lines);
    service_release(&c->service);
}

fault centre_open(const struct stage *stage, void **shared)
{
    struct centre *c = calloc(1, sizeof *c);
    *shared = c;
    return c ? centre_init(c, stage) : OUT_OF_MEMORY;
}

void centre_close(void *shared)
{
    if (shared)
        centre_release(shared);
    free(shared);
}

/* ---- a worker ---- */

static struct centre_line *line_of(const struct agent *a)
{
    return &((struct centre *)a->stage->shared)->lines[a->index];
}

/* A fault about the centre is noted and no fault of the worker's. */
static fault whether_there(struct agent *a, fault f, bool *there)
{
    *there = !f;
    if (!f)
        agent_meets(a, a->stage->n_agents);
    return agent_does_without(a, a->stage->n_agents, f);
}

fault centre_begin(struct agent *a, row_set rows)
{
    struct centre_line *l = line_of(a);
    return call_begin(agent_caller(a), &l->line, &l->question, whole(rows));
}

fault centre_end(struct agent *a, struct parcel *out, bool *there)
{
    return whether_there(a, call_end(&line_of(a)->line, NULL, out), there);
}

void centre_leave(struct agent *a)
{
    struct centre_line *l = line_of(a);
    call_leave(agent_caller(a), &l->line, &l->question);
}

/* ---- the centre ---- */

struct service *centre_of(struct agent *a)
{
    return agent_serves(a, &((struct centre *)a->stage->shared)->service);
}

bool centre_is_needed(struct agent *a)
{
    service_look_who_is_gone(centre_of(a));
    return service_is_needed(centre_of(a));
}

fault centre_rejoin(struct agent *a, bool *there)
{
    *there = false;
    if (!agent_helps(a))
        return whether_there(a, link_adopt(a->link, a->stage->n_agents, NULL), there);
    service_return(centre_of(a));
    return OK;
}
