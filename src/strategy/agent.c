/* agent.c - the verbs, each a request over the agent's link. */
#include "strategy/agent.h"

#include <stdio.h>
#include <stdlib.h>

fault agent_init(struct agent *a, struct stage *stage, size_t index, const uint32_t *share, size_t n_share)
{
    const struct experiment *e = stage->experiment;
    *a = (struct agent){.index = index, .stage = stage, .settings = e->strategy.settings};
    size_t degree = agent_degree(a);
    a->parcels = calloc(degree + 1, sizeof *a->parcels);
    a->shares = calloc(degree + 1, sizeof *a->shares);
    a->missed = calloc(degree + 1, sizeof *a->missed);
    fault f = a->parcels && a->shares && a->missed ? OK : OUT_OF_MEMORY;
    if (!f)
        f = feed_init(&a->feed, &e->data, stage->seed, (uint32_t)index, share, n_share);
    if (f) {
        free(a->parcels);
        free(a->shares);
        free(a->missed);
    }
    return f;
}

void agent_release(struct agent *a)
{
    feed_release(&a->feed);
    free(a->parcels);
    free(a->shares);
    free(a->missed);
}

bool agent_goes_on(struct agent *a)
{
    struct stage *s = a->stage;
    if (!s->asynchronous)
        return a->k < s->rounds;
    if (s->begun >= s->rounds * s->n_agents)
        return false;
    s->begun++;
    return true;
}

fault agent_learn(struct agent *a)
{
    TRY(a->link->ops->learn(a->link, a->lessons));
    a->lessons++;
    a->stage->samples += a->feed.batch;
    return OK;
}

/* The round by which the learning rate moves: one's own, or the group's share of the work. */
static uint64_t round_of_schedule(const struct agent *a)
{
    return a->stage->asynchronous ? a->stage->ended / a->stage->n_agents : a->k;
}

fault agent_update(struct agent *a)
{
    const struct stage *s = a->stage;
    uint64_t stale = a->link->ops->staleness(a->link);
    a->staleness.sum += stale;
    a->staleness.most = stale > a->staleness.most ? stale : a->staleness.most;
    a->staleness.n++;
    a->lr = optim_lr(&s->experiment->optim, (int64_t)s->n_agents, round_of_schedule(a), s->rounds_per_epoch,
                     s->epochs);
    return a->link->ops->update(a->link, a->lr, ++a->steps);
}

fault agent_end_round(struct agent *a)
{
    a->k++;
    a->stage->ended++;
    a->link->ops->forget(a->link, a->k);
    return OK;
}

fault agent_rejoin(struct agent *a)
{
    a->returned = false;
    for (size_t i = 0; i < agent_degree(a); i++) {
        size_t peer = agent_neighbour(a, i);
        fault f = a->link->ops->adopt(a->link, peer);
        if (!f) {
            char text[96];
            snprintf(text, sizeof text, "agent %zu is back with the parameters of agent %zu", a->index, peer);
            a->link->ops->note(a->link, "return", text);
            return OK;
        }
        if (fault_kind_of(f) != FAULT_PEER && fault_kind_of(f) != FAULT_TIMEOUT)
            return f;
        fault_drop(f);
    }
    a->link->ops->note(a->link, "return",
                       "an agent is back with its old parameters: no neighbour could be reached");
    return OK;
}

size_t agent_degree(const struct agent *a)
{
    const struct topology *t = a->stage->topology;
    return t ? t->first[a->index + 1] - t->first[a->index] : 0;
}

size_t agent_neighbour(const struct agent *a, size_t i)
{
    const struct topology *t = a->stage->topology;
    return t->neighbour[t->first[a->index] + i];
}

double agent_weight(const struct agent *a, size_t i)
{
    const struct topology *t = a->stage->topology;
    return a->stage->weights->edge[t->edge_of[t->first[a->index] + i]];
}

void agent_misses(struct agent *a, size_t i, const char *text)
{
    if (!a->missed[i])
        a->link->ops->note(a->link, "partner", text);
    a->missed[i] = true;
}

void agent_meets(struct agent *a, size_t i)
{
    a->missed[i] = false;
}
