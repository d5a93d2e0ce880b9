/* agent.c - the verbs, each one request to the engine. */
#include "strategy/agent.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

fault agent_init(struct agent *a, struct stage *stage, size_t index, const struct experiment *e,
                 const uint32_t *share, size_t n_share)
{
    *a = (struct agent){.index = index, .stage = stage, .settings = e->strategy.settings};
    a->picks = calloc((size_t)e->data.batch, sizeof *a->picks);
    if (!a->picks)
        return OUT_OF_MEMORY;
    fault f = feed_init(&a->feed, &e->data, stage->seed, (uint32_t)index, share, n_share);
    if (f)
        free(a->picks);
    return f;
}

void agent_release(struct agent *a)
{
    feed_release(&a->feed);
    free(a->picks);
}

bool agent_goes_on(struct agent *a)
{
    return a->k < a->stage->rounds && !atomic_load_explicit(a->stage->stop, memory_order_relaxed);
}

static fault refuse_bad_loss(const struct agent *a, double loss)
{
    if (isfinite(loss))
        return OK;
    return FAIL(FAULT_NUMBER,
                "the loss of agent %zu became %s in round %llu (epoch %.2f, learning rate %g): training has "
                "diverged; "
                "a smaller optim.lr or a longer schedule.warmup_epochs may help",
                a->index, isnan(loss) ? "NaN" : "infinite", (unsigned long long)a->k + 1,
                feed_epochs(&a->feed, a->k), a->lr);
}

fault agent_learn(struct agent *a)
{
    struct stage *s = a->stage;
    feed_batch(&a->feed, a->k, a->picks);
    struct rng stream = rng_stream(s->seed, (uint32_t)a->index, RNG_DROPOUT, a->k);
    struct lesson lesson = {.replica = a->index, .picks = a->picks, .seed = rng_next(&stream)};
    TRY(s->engine->ops->learn(s->engine, &lesson, 1));
    TRY(refuse_bad_loss(a, lesson.loss));
    a->tally.loss += lesson.loss;
    a->tally.hits += lesson.hits;
    a->tally.samples += a->feed.batch;
    a->tally.lessons++;
    return OK;
}

fault agent_update(struct agent *a)
{
    struct stage *s = a->stage;
    a->lr = optim_lr(s->optim, s->n_agents, a->k, s->rounds_per_epoch, s->epochs);
    struct update step = {.replica = a->index, .lr = a->lr, .t = a->k + 1};
    return s->engine->ops->update(s->engine, &step, 1);
}

fault agent_end_round(struct agent *a)
{
    a->k++;
    return a->stage->round_ended(a->stage->watcher, a);
}
