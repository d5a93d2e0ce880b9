/* session.c - opens what an experiment names, plays it, closes it. */
#include "api/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

fault session_check(const struct experiment *e)
{
    int64_t most = strategy_row(e)->most_agents;
    if (most && e->agents > most)
        return fail_at(e->strategy.place, "strategy.kind: '%s' is for %lld agent%s, and agents is %lld",
                       e->strategy.kind->name, (long long)most, most == 1 ? "" : "s", (long long)e->agents);
    return optim_check(&e->optim);
}

static fault open_engine(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    struct engine_setup setup = {
        .graph = r->graph,
        .train = &r->dataset->train,
        .test = &r->dataset->test,
        .n_replicas = (size_t)e->agents,
        .batch = (size_t)e->data.batch,
        .precision = (enum precision)e->engine.precision,
        .threads = (int)e->engine.threads,
        .optim = &e->optim,
    };
    TRY(engine_open(e->engine.kind.kind, &setup, &r->engine));
    r->engine->ops->describe(r->engine, r->engine_line, sizeof r->engine_line);
    return OK;
}

/* Every agent starts from the same parameters. */
static fault start_replicas(struct veche_run *r)
{
    struct block start = {0};
    const struct graph *g = r->graph;
    TRY(block_open((g->size + g->stats_size) * sizeof(float), &start));
    float *params = start.bytes, *stats = params + g->size;
    graph_init(g, (uint64_t)r->experiment->train.seed, params, stats);
    fault f = OK;
    for (size_t i = 0; !f && i < r->n_agents; i++) {
        f = r->engine->ops->write(r->engine, ROW_PARAMS, i, params);
        if (!f && g->stats_size)
            f = r->engine->ops->write(r->engine, ROW_STATS, i, stats);
    }
    block_close(&start);
    return f;
}

static fault round_ended(void *watcher, struct agent *a);

static fault open_agents(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    size_t n = r->dataset->train.n, agents = (size_t)e->agents;
    r->share = malloc(n * sizeof *r->share);
    r->agents = calloc(agents, sizeof *r->agents);
    r->scores = calloc(agents, sizeof *r->scores);
    if (!r->share || !r->agents || !r->scores)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        r->share[i] = (uint32_t)i;
    r->stage = (struct stage){
        .engine = r->engine,
        .optim = &e->optim,
        .seed = (uint64_t)e->train.seed,
        .n_agents = e->agents,
        .epochs = e->train.epochs,
        .stop = &r->stop,
        .round_ended = round_ended,
        .watcher = r,
    };
    for (; r->n_agents < agents; r->n_agents++)
        TRY(agent_init(&r->agents[r->n_agents], &r->stage, r->n_agents, e, r->share, n));
    r->stage.rounds = feed_rounds(&r->agents[0].feed, e->train.epochs);
    r->stage.rounds_per_epoch = (double)n / (double)e->data.batch;
    return OK;
}

static fault open_parts(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    TRY(session_check(e));
    TRY(dataset_open(&e->data, (uint64_t)e->train.seed, &r->dataset));
    const struct samples *s = &r->dataset->train;
    TRY(graph_build(&e->model, (struct shape){s->c, s->h, s->w}, s->classes, &r->graph));
    TRY(open_engine(r));
    TRY(open_agents(r));
    return start_replicas(r);
}

fault session_open(struct experiment *e, const veche_options *options, struct veche_run **out)
{
    struct veche_run *r = calloc(1, sizeof *r);
    if (!r) {
        experiment_free(e);
        return OUT_OF_MEMORY;
    }
    r->experiment = e;
    r->folder.lock = -1;
    if (options)
        r->options = *options;
    r->evaluated = r->saved = NOT_YET;
    r->best_accuracy = NAN;
    snprintf(r->status, sizeof r->status, "started");
    fault f = open_parts(r);
    if (f) {
        session_close(r);
        return f;
    }
    *out = r;
    return OK;
}

void session_close(struct veche_run *r)
{
    if (!r)
        return;
    run_close(&r->folder);
    for (size_t i = 0; i < r->n_agents; i++)
        agent_release(&r->agents[i]);
    engine_close(r->engine);
    graph_free(r->graph);
    dataset_close(r->dataset);
    experiment_free(r->experiment);
    block_close(&r->image);
    arena_release(&r->arena);
    free(r->agents);
    free(r->scores);
    free(r->share);
    free(r);
}

double session_seconds(const struct veche_run *r)
{
    return r->earlier_s + (r->began_s > 0 ? clock_now_s() - r->began_s : 0);
}

bool is_due(const struct every *every, const struct feed *feed, uint64_t k)
{
    switch (every->unit) {
    case EVERY_ROUNDS:
        return k % (uint64_t)every->count == 0;
    case EVERY_EPOCHS: {
        double hair = 1e-9; /* so that the end of an epoch is not missed by a rounding */
        return floor(feed_epochs(feed, k) / every->count + hair) >
               floor(feed_epochs(feed, k - 1) / every->count + hair);
    }
    default:
        return false;
    }
}

static void keep_pace(struct veche_run *r)
{
    double now = clock_now_s(), passed = now - r->pace.at_s;
    if (passed < 0.5)
        return;
    r->pace.rate = (double)(r->samples - r->pace.samples) / passed;
    r->pace.at_s = now;
    r->pace.samples = r->samples;
}

void session_tell(struct veche_run *r, veche_event_kind kind, const char *text)
{
    if (!r->options.watch)
        return;
    const struct agent *a = &r->agents[0];
    double lessons = a->tally.lessons ? (double)a->tally.lessons : NAN;
    double seen = a->tally.samples ? (double)a->tally.samples : NAN;
    bool evaluated = r->evaluated != NOT_YET;
    veche_event event = {
        .kind = kind,
        .round = a->k,
        .rounds = r->stage.rounds,
        .epoch = feed_epochs(&a->feed, a->k),
        .epochs = r->stage.epochs,
        .real_s = session_seconds(r),
        .images_per_s = r->pace.rate,
        .lr = a->lr,
        .train_loss = kind == VECHE_EVALUATION ? r->scores[0].train_loss : a->tally.loss / lessons,
        .train_accuracy =
            kind == VECHE_EVALUATION ? r->scores[0].train_accuracy : 100 * (double)a->tally.hits / seen,
        .loss = evaluated ? r->scores[0].loss : NAN,
        .accuracy = evaluated ? r->scores[0].accuracy : NAN,
        .text = text,
    };
    r->options.watch(r->options.ctx, &event);
}

static fault round_ended(void *watcher, struct agent *a)
{
    struct veche_run *r = watcher;
    const struct train_settings *t = &r->experiment->train;
    r->samples += a->feed.batch;
    keep_pace(r);
    session_tell(r, VECHE_PROGRESS, NULL);
    bool last = a->k == r->stage.rounds;
    if (last || is_due(&t->evaluate_every, &a->feed, a->k))
        TRY(session_evaluate(r));
    if (last || is_due(&t->checkpoint_every, &a->feed, a->k))
        TRY(session_save(r));
    return OK;
}

/* Saves what was learnt when somebody asked to stop, and says how to go on. */
static fault stop_here(struct veche_run *r)
{
    snprintf(r->status, sizeof r->status, "stopped");
    if (r->saved != r->agents[0].k)
        TRY(session_save(r));
    return FAIL(FAULT_STOPPED, "stopped on request after round %llu of %llu; go on with: veche resume %s",
                (unsigned long long)r->agents[0].k, (unsigned long long)r->stage.rounds, r->folder.path);
}

static fault finish(struct veche_run *r)
{
    struct summary s;
    snprintf(r->status, sizeof r->status, "done");
    TRY(session_save_model(r));
    TRY(session_summary(r, &s));
    return run_write_summary(&r->folder, &s);
}

static fault play(struct veche_run *r)
{
    if (r->saved == NOT_YET && r->experiment->train.checkpoint_every.unit != EVERY_NEVER)
        TRY(session_save(r));
    TRY(strategy_row(r->experiment)->run(&r->agents[0]));
    return r->agents[0].k < r->stage.rounds ? stop_here(r) : finish(r);
}

fault session_go(struct veche_run *r)
{
    r->began_s = r->pace.at_s = clock_now_s();
    r->pace.samples = r->samples;
    fault f = play(r);
    r->earlier_s = session_seconds(r);
    r->began_s = 0;
    if (f && fault_kind_of(f) != FAULT_STOPPED) {
        snprintf(r->status, sizeof r->status, "failed");
        fault_drop(run_record_fault(&r->folder, r->agents[0].k, r->earlier_s,
                                    fault_kind_help(fault_kind_of(f)), fault_text(f)));
    }
    return f;
}
