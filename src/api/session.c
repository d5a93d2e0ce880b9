/* session.c - opens what an experiment names, plays it, closes it. */
#include "api/session.h"

#include "api/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "experiment/machines.h"

fault session_check(const struct experiment *e)
{
    const struct strategy_row *row = strategy_row(e);
    if (row->most_agents && e->agents > row->most_agents)
        return fail_at(e->strategy.place, "strategy.kind: '%s' is for %lld agent%s, and agents is %lld",
                       e->strategy.kind->name, (long long)row->most_agents, row->most_agents == 1 ? "" : "s",
                       (long long)e->agents);
    if (row->needs_topology && e->agents > 1 && !e->topology.graph)
        return fail_at(
            e->strategy.place,
            "strategy.kind: '%s' needs to know who is whose neighbour: write topology, for example "
            "'topology: cycle:%lld'",
            e->strategy.kind->name, (long long)e->agents);
    if (row->check)
        TRY(row->check(e, (size_t)e->agents));
    if (world_door(e)->is_in_real_time && (e->events.n || e->events.has_random))
        return fail_at(e->events.n ? e->events.at[0].place : e->events.random.place,
                       "events: machines crash and return as written in the local world only; those of the "
                       "world '%s' are real",
                       world_door(e)->name);
    if (world_door(e)->is_in_real_time && machines_to_measure(&e->machines))
        return fail_at(e->machines.kind.place,
                       "machines.kind: 'measured' is for the virtual clock of the local world; in the world "
                       "'%s' machines take "
                       "the time that they take",
                       world_door(e)->name);
    if (e->events.has_random && e->events.random.cut_every_s > 0 && !e->topology.graph)
        return fail_at(e->events.random.place, "events.random.cut_every_s: the links that chance cuts are "
                                               "those of the topology, and none is written");
    if (strcmp(e->engine.kind.kind->name, "null") == 0 && (e->engine.threads > 1 || e->engine.precision))
        return fail_at(e->engine.kind.place,
                       "engine: 'null' computes nothing, with any precision and threads");
    if (e->team.settings && world_door(e)->is_in_real_time)
        return fail_at(e->team.place,
                       "team.kind: '%s' is for the world 'local'; in the world '%s' an agent is one process", e->team.kind->name,
                       world_door(e)->name);
    TRY(team_check(e));
    TRY(stop_check(e, 0));
    TRY(split_check(&e->data, (size_t)e->agents));
    TRY(dataset_check(&e->data));
    return optim_check(&e->optim, e->agents);
}

static bool has_flag(const struct choice *c, const char *name)
{
    for (size_t i = 0; i < c->kind->n_fields; i++)
        if (strcmp(c->kind->fields[i].name, name) == 0)
            return *(const bool *)((const char *)c->settings + c->kind->fields[i].offset);
    return false;
}

fault session_check_against(const struct experiment *e, const struct topology *t, const struct graph *g)
{
    const struct strategy_row *row = strategy_row(e);
    if (row->check_topology && t)
        TRY(row->check_topology(e, t));
    if (has_flag(&e->strategy, "mix_statistics") && !g->stats_size)
        return fail_at(e->strategy.place,
                       "strategy.mix_statistics: the network has no batchnorm, and so no statistics");
    if (has_flag(&e->strategy, "mix_momentum") && !optim_keeps_slots(&e->optim))
        return fail_at(e->strategy.place,
                       "strategy.mix_momentum: optim '%s' without momentum keeps nothing between steps",
                       e->optim.kind.kind->name);
    return OK;
}

fault session_topology(const struct experiment *e, struct topology **out)
{
    const struct topology_settings *t = &e->topology;
    struct topology *made = NULL;
    if (t->graph)
        TRY(topology_make(t->graph, (uint64_t)e->train.seed, t->place, &made));
    if (made && made->n != (size_t)e->agents) {
        fault f = fail_at(t->place, "topology.graph: '%s' has %zu vertices, and agents is %lld", t->graph,
                          made->n, (long long)e->agents);
        topology_free(made);
        return f;
    }
    *out = made;
    return OK;
}

static fault open_topology(struct veche_run *r)
{
    const struct topology_settings *t = &r->experiment->topology;
    TRY(session_topology(r->experiment, &r->topology));
    if (!r->topology)
        return OK;
    enum weights_kind kind =
        t->weights == WEIGHTS_AUTO ? weights_usual(r->topology) : (enum weights_kind)t->weights;
    return weights_make(r->topology, kind, &r->weights);
}

/* All members live in this process. */
static bool is_alone(const struct veche_run *r)
{
    return r->ranks.n == 0;
}

/* On ranks a GPU's gradient comes to the host in one piece. */
static fault check_early_gradients(const struct experiment *e, const struct engine *engine)
{
    const struct strategy_row *row = strategy_row(e);
    const char *setting = row->asks_for_early_gradients ? row->asks_for_early_gradients(e) : NULL;
    if (!setting || !engine->ops->gradients_late)
        return OK;
    return fail_at(e->strategy.place,
                   "strategy.%s: the engine %s has a gradient on a rank's host when all of it is made, and "
                   "nothing could be sent before",
                   setting, engine->ops->name);
}

void session_furnish(const struct experiment *e, const struct topology *t, const struct ranks *ranks,
                     struct engine_setup *setup)
{
    size_t agents = (size_t)e->agents, helpers = (size_t)e->members - agents;
    ranks->door->furnish(ranks, e, (t ? t->n_edges : 0) + helpers * agents, setup);
}

static fault open_engine(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    struct engine_setup setup = {
        .graph = r->graph,
        .train = &r->dataset->train,
        .test = &r->dataset->test,
        .rows = strategy_rows(&(struct row_needs){e, r->graph, r->longest_share}),
        .batch = (size_t)e->data.batch,
        .micro_batches = team_micro_batches(e),
        .precision = (enum precision)e->engine.precision,
        .optim = &e->optim,
    };
    session_furnish(e, r->topology, &r->ranks, &setup);
    TRY(engine_open(e->engine.kind.kind, &setup, &r->engine));
    TRY(check_early_gradients(e, r->engine));
    engine_describe(r->engine, r->engine_line, sizeof r->engine_line);
    size_t used = strlen(r->engine_line);
    char samples[128];
    dataset_describe(r->dataset, samples, sizeof samples);
    if (*samples)
        snprintf(r->engine_line + used, sizeof r->engine_line - used, "; %s", samples);
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
    for (size_t i = 0; !f && i < (is_alone(r) ? r->stage.n_members : 1); i++) {
        f = r->engine->ops->write(r->engine, ROW_PARAMS, i, params);
        if (!f && g->stats_size)
            f = r->engine->ops->write(r->engine, ROW_STATS, i, stats);
    }
    block_close(&start);
    return f;
}

/* An epoch is one pass of an agent over its own share, the longest one. */
static size_t longest_share(const struct split *s)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->first[i + 1] - s->first[i] > longest)
            longest = s->first[i + 1] - s->first[i];
    return longest;
}

/* Who learns from what. A process that hosts one agent keeps that one's samples. */
static fault open_split(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    size_t agents = (size_t)e->agents, size = (size_t)e->team_size, helpers = (size_t)e->members - agents;
    r->speeds = calloc(agents * size + helpers, sizeof *r->speeds);
    double *powers = calloc(agents, sizeof *powers);
    fault f = r->speeds && powers ? OK : OUT_OF_MEMORY;
    if (!f) {
        machine_speeds(&e->machines, (uint64_t)e->train.seed, agents * size, r->speeds);
        for (size_t i = 0; i < agents * size; i++)
            powers[i / size] += r->speeds[i];
        for (size_t i = 0; i < helpers; i++)
            r->speeds[agents * size + i] = 1;
        f = split_make(&e->data, &r->dataset->train, agents, powers, (uint64_t)e->train.seed, &r->split);
    }
    free(powers);
    TRY(f);
    r->longest_share = longest_share(&r->split);
    return OK;
}

uint64_t session_rounds_of_epochs(double epochs, double rounds_per_epoch)
{
    return (uint64_t)ceil(epochs * rounds_per_epoch - 1e-9);
}

static void open_stage(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    double per_epoch = (double)r->longest_share / (double)e->data.batch;
    r->n_agents = (size_t)e->agents;
    r->stage = (struct stage){
        .experiment = e,
        .topology = r->topology,
        .weights = &r->weights,
        .team = r->team,
        .seed = (uint64_t)e->train.seed,
        .n_agents = (size_t)e->agents,
        .n_members = (size_t)e->members,
        .n_params = r->graph->size,
        .epochs = e->train.epochs,
        .rounds_per_epoch = per_epoch,
        .rounds = session_rounds_of_epochs(e->train.epochs, per_epoch),
        .asynchronous = strategy_is_asynchronous(e),
    };
}

/* An agent that lives elsewhere: what is known of it here. */
static void introduce(struct veche_run *r, size_t i, size_t n_share)
{
    r->agents[i] = (struct agent){
        .index = i,
        .stage = &r->stage,
        .settings = r->experiment->strategy.settings,
        .feed = {.batch = (size_t)r->experiment->data.batch, .n_share = n_share ? n_share : r->longest_share},
    };
}

static fault open_agent(struct veche_run *r, size_t i, const uint32_t *share, size_t n_share)
{
    struct agent *a = &r->agents[i];
    TRY(agent_init(a, &r->stage, i, share, n_share));
    return agent_helps(a) ? OK : samples_follow(&r->dataset->train, &a->feed);
}

static fault open_agents(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    size_t agents = (size_t)e->agents, members = (size_t)e->members;
    open_stage(r);
    TRY(stop_check(e, r->stage.rounds_per_epoch));
    r->agents = calloc(members, sizeof *r->agents);
    r->scores = calloc(agents, sizeof *r->scores);
    r->waits = calloc(members, sizeof *r->waits);
    if (!r->agents || !r->scores || !r->waits)
        return OUT_OF_MEMORY;
    if (strategy_row(e)->open)
        TRY(strategy_row(e)->open(&r->stage, &r->stage.shared));
    for (size_t i = 0; i < members; i++) {
        const size_t *first = r->split.first + (i < agents ? i : agents - 1);
        if (is_alone(r) || i == r->ranks.self)
            TRY(open_agent(r, i, r->split.samples + first[0], first[1] - first[0]));
        else
            introduce(r, i, first[1] - first[0]);
    }
    return OK;
}

static fault moment(void *ctx);
static void note(void *ctx, double now_s, size_t agent, const char *kind, const char *text);

static bool is_due_at(void *ctx, uint64_t round);
static bool has_to_stop(void *ctx);
static void stop(void *ctx);

static fault open_data(struct veche_run *r)
{
    const struct experiment *e = r->experiment;
    bool learns = !is_alone(r) && r->ranks.self < (size_t)e->agents;
    TRY(session_check(e));
    TRY(open_topology(r));
    TRY(dataset_open_for(&e->data, (uint64_t)e->train.seed, learns ? (int64_t)r->ranks.self : -1,
                         &r->dataset));
    const struct samples *s = &r->dataset->train;
    TRY(graph_build(&e->model, (struct shape){s->c, s->h, s->w}, s->classes, &r->graph));
    TRY(session_check_against(e, r->topology, r->graph));
    return open_split(r);
}

static fault open_members(struct veche_run *r)
{
    TRY(team_open(r->experiment, r->graph, r->speeds, &r->team));
    TRY(open_engine(r));
    TRY(open_agents(r));
    return start_replicas(r);
}

static struct watcher watcher_of(struct veche_run *r)
{
    return (struct watcher){.ctx = r,
                            .moment = moment,
                            .note = note,
                            .is_due = is_due_at,
                            .has_to_stop = has_to_stop,
                            .stop = stop};
}

static fault open_world(struct veche_run *r)
{
    return r->ranks.door->open(&r->ranks, &r->stage, r->agents, r->engine, r->speeds, watcher_of(r),
                               &r->world);
}

static fault open_here(struct veche_run *r)
{
    struct measured measured = {0};
    TRY(open_data(r));
    TRY(measure_machines(r->experiment, &measured, r->measured, sizeof r->measured));
    TRY(session_digest(r));
    TRY(open_members(r));
    return open_world(r);
}

static fault agree_on_epoch(struct veche_run *r)
{
    uint64_t longest;
    TRY(world_largest(&r->ranks, r->longest_share, r->experiment->network.patience_s, &longest));
    r->longest_share = (size_t)longest;
    return OK;
}

/* Where a rank cannot open its part, all say so together. */
static fault open_there(struct veche_run *r)
{
    double patience = r->experiment->network.patience_s;
    TRY(world_agree(&r->ranks, open_data(r), patience));
    /* A slow disk is named before the others name the rank that waits for it. */
    dataset_set_patience(r->dataset, patience / 2);
    TRY(session_compare_ranks(r));
    TRY(agree_on_epoch(r));
    fault f = dataset_keep(r->dataset, &r->split,
                           r->ranks.self < (size_t)r->experiment->agents ? r->ranks.self : 0);
    TRY(world_agree(&r->ranks, f ? f : open_members(r), patience));
    return open_world(r);
}

fault session_open(struct experiment *e, const struct ranks *ranks, const veche_options *options,
                   struct veche_run **out)
{
    struct veche_run *r = calloc(1, sizeof *r);
    if (!r) {
        experiment_free(e);
        return OUT_OF_MEMORY;
    }
    r->experiment = e;
    r->ranks = ranks ? *ranks : (struct ranks){.door = world_door(e)};
    r->folder.lock = r->folder.events = -1;
    if (options)
        r->options = *options;
    r->evaluated = r->saved = NOT_YET;
    r->standing.best_accuracy = r->standing.lowest_loss = NAN;
    r->best_accuracy = r->averaged_accuracy = r->averaged_loss = NAN;
    snprintf(r->status, sizeof r->status, "started");
    fault f = is_alone(r) ? open_here(r) : open_there(r);
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
    if (r->world)
        r->world->ops->close(r->world);
    if (strategy_row(r->experiment)->close)
        strategy_row(r->experiment)->close(r->stage.shared);
    for (size_t i = 0; r->agents && i < r->stage.n_members; i++)
        agent_release(&r->agents[i]);
    engine_close(r->engine);
    team_close(r->team);
    graph_free(r->graph);
    dataset_close(r->dataset);
    split_release(&r->split);
    weights_release(&r->weights);
    if (r->topology)
        topology_free(r->topology);
    experiment_free(r->experiment);
    block_close(&r->image);
    arena_release(&r->arena);
    free(r->agents);
    free(r->scores);
    free(r->speeds);
    free(r->waits);
    free(r->share_sha256);
    free(r);
}

double session_seconds(const struct veche_run *r)
{
    return r->earlier_s + (r->began_s > 0 ? clock_now_s() - r->began_s : 0);
}

double session_epochs(const struct veche_run *r)
{
    return (double)session_rounds(r) / r->stage.rounds_per_epoch;
}

struct totals session_totals(const struct veche_run *r)
{
    return r->world->ops->totals(r->world);
}

uint64_t session_rounds(const struct veche_run *r)
{
    return session_totals(r).ended / r->stage.n_agents;
}

static void keep_pace(struct veche_run *r)
{
    double now = clock_now_s(), passed = now - r->throughput.at_s;
    if (passed < 0.5)
        return;
    uint64_t samples = session_totals(r).samples;
    r->throughput.rate = (double)(samples - r->throughput.samples) / passed;
    r->throughput.at_s = now;
    r->throughput.samples = samples;
}

/* The mean over the agents of what they learnt since the last evaluation. */
static void mean_tally(const struct veche_run *r, double *loss, double *accuracy)
{
    struct tally sum = {0};
    for (size_t i = 0; i < r->n_agents; i++) {
        const struct tally *t = &r->agents[i].tally;
        sum.loss += t->loss;
        sum.hits += t->hits;
        sum.samples += t->samples;
        sum.lessons += t->lessons;
    }
    *loss = sum.lessons ? sum.loss / (double)sum.lessons : NAN;
    *accuracy = sum.samples ? 100 * (double)sum.hits / (double)sum.samples : NAN;
}

/* Who waits, and for whom; `name` is room for the name. */
static void tell_waiting(const struct veche_run *r, veche_event *event, char name[MEMBER_NAME])
{
    struct waiting w = session_waiting(r, false);
    struct spread s = spread_of(w.waiting_s, w.n_agents);
    int64_t who = w.slowest != NO_MEMBER ? w.slowest : w.most;
    if (!(w.virtual_s > 0))
        return;
    event->waiting = s.mean / w.virtual_s;
    event->waiting_min = s.min / w.virtual_s;
    event->waiting_max = s.max / w.virtual_s;
    event->waited_for = who == NO_MEMBER ? NULL : waiting_name(&w, who, name);
}

void session_tell(struct veche_run *r, veche_event_kind kind, const char *text)
{
    if (!r->options.watch)
        return;
    char name[MEMBER_NAME];
    bool evaluated = r->evaluated != NOT_YET;
    size_t n = r->n_agents;
    veche_event event = {
        .kind = kind,
        .round = session_rounds(r),
        .rounds = r->stage.rounds,
        .epoch = session_epochs(r),
        .epochs = r->stage.epochs,
        .real_s = session_seconds(r),
        .virtual_s = r->world->ops->now_s(r->world),
        .images_per_s = r->throughput.rate,
        .lr = r->agents[0].lr,
        .loss = evaluated ? spread_of_scores(r->scores, n, offsetof(struct score, loss)).mean : NAN,
        .accuracy = evaluated ? spread_of_scores(r->scores, n, offsetof(struct score, accuracy)).mean : NAN,
        .agents = n,
        .disagreement = r->disagreement.l2,
        .text = text,
    };
    if (kind == VECHE_EVALUATION) {
        event.train_loss = spread_of_scores(r->scores, n, offsetof(struct score, train_loss)).mean;
        event.train_accuracy = spread_of_scores(r->scores, n, offsetof(struct score, train_accuracy)).mean;
    } else {
        mean_tally(r, &event.train_loss, &event.train_accuracy);
    }
    tell_waiting(r, &event, name);
    r->options.watch(r->options.ctx, &event);
}

/* Whether a multiple of `every` is reached with this round. */
static bool is_reached(const struct veche_run *r, const struct every *every, uint64_t round)
{
    double hair = 1e-9,
           per = every->unit == EVERY_EPOCHS ? r->stage.rounds_per_epoch * every->count : every->count;
    return every->unit != EVERY_NEVER &&
           floor((double)round / per + hair) > floor(((double)round - 1) / per + hair);
}

static bool is_due_at(void *ctx, uint64_t round)
{
    const struct veche_run *r = ctx;
    const struct train_settings *t = &r->experiment->train;
    return is_reached(r, &t->evaluate_every, round) || is_reached(r, &t->checkpoint_every, round);
}

static bool has_to_stop(void *ctx)
{
    const struct veche_run *r = ctx;
    return atomic_load_explicit(&r->stop, memory_order_relaxed) ||
           (r->stops_with && atomic_load_explicit(r->stops_with, memory_order_relaxed));
}

static void stop(void *ctx)
{
    atomic_store(&((struct veche_run *)ctx)->stop, true);
}

/* Whether a multiple of `every` lies between what was seen at the last moment and now. */
static bool is_due(const struct veche_run *r, const struct every *every)
{
    double hair = 1e-9; /* so that the end of an epoch is not missed by a rounding */
    switch (every->unit) {
    case EVERY_ROUNDS:
        return floor((double)session_rounds(r) / every->count) > floor(r->seen_rounds / every->count);
    case EVERY_EPOCHS:
        return floor(session_epochs(r) / every->count + hair) > floor(r->seen_epochs / every->count + hair);
    default:
        return false;
    }
}

static bool is_good_enough(const struct veche_run *r)
{
    return *r->standing.stopped_because;
}

static fault evaluate_and_judge(struct veche_run *r)
{
    TRY(session_evaluate(r));
    return session_judge(r);
}

/* The world has nothing more to do at this moment of its clock. */
static fault moment(void *ctx)
{
    struct veche_run *r = ctx;
    const struct train_settings *t = &r->experiment->train;
    bool advanced = (double)session_rounds(r) > r->seen_rounds;
    bool evaluate = is_due(r, &t->evaluate_every), save = is_due(r, &t->checkpoint_every);
    r->seen_epochs = session_epochs(r);
    r->seen_rounds = (double)session_rounds(r);
    if (r->world->ops->is_replaying(r->world))
        return OK;
    if (advanced) {
        keep_pace(r);
        session_tell(r, VECHE_PROGRESS, NULL);
    }
    if (evaluate &&
        session_rounds(r) < r->stage.rounds) /* the last one comes when all have ended: see finish */
        TRY(evaluate_and_judge(r));
    if (save)
        TRY(session_save(r));
    return has_to_stop(r) || is_good_enough(r) ? FAIL(FAULT_STOPPED, "stopped") : OK;
}

static void note(void *ctx, double now_s, size_t agent, const char *kind, const char *text)
{
    struct veche_run *r = ctx;
    r->notes++;
    uint64_t step =
        r->world->ops->steps(r->world) + 1; /* the one under way, at whose end a checkpoint may be saved */
    fault_drop(run_record_note(&r->folder, step, now_s, session_seconds(r), (int64_t)agent, kind, text));
    session_tell(r, VECHE_NOTICE, text);
}

/* Saves what was learnt when it was asked to stop, and says how to go on. */
static fault stop_here(struct veche_run *r)
{
    snprintf(r->status, sizeof r->status, "stopped");
    if (r->saved != r->world->ops->steps(r->world))
        TRY(session_save(r));
    return FAIL(FAULT_STOPPED, "stopped on request after round %llu of %llu; go on with: veche resume %s",
                (unsigned long long)session_rounds(r), (unsigned long long)r->stage.rounds, r->folder.path);
}

struct conclusion {
    struct veche_run *run;
    struct summary summary;
};

static fault write_summary(void *ctx)
{
    const struct conclusion *c = ctx;
    return run_write_summary(&c->run->folder, &c->summary);
}

static fault finish(struct veche_run *r)
{
    struct conclusion c = {.run = r};
    session_tell(r, VECHE_PROGRESS, NULL);
    if (r->evaluated != session_totals(r).ended)
        TRY(session_evaluate(r));
    if (r->saved != r->world->ops->steps(r->world))
        TRY(session_save(r));
    snprintf(r->status, sizeof r->status, "done");
    TRY(session_save_model(r));
    TRY(session_summary(r, &c.summary));
    return session_aside(r, write_summary, &c);
}

static fault play(struct veche_run *r)
{
    if (!r->world->ops->leads(r->world))
        return r->world->ops->play(r->world);
    bool saves = r->experiment->train.checkpoint_every.unit != EVERY_NEVER;
    if (r->is_changed || (r->saved == NOT_YET && saves))
        TRY(session_save(r));
    bool had_ended = is_good_enough(
        r); /* in an earlier process, which may have been killed before its summary was written */
    fault f = had_ended ? r->world->ops->settle(r->world) : r->world->ops->play(r->world);
    if (f && fault_kind_of(f) != FAULT_STOPPED)
        return f;
    bool is_over = !f || is_good_enough(r);
    fault_drop(f);
    if (is_good_enough(r) && r->world->ops->end_well)
        r->world->ops->end_well(r->world);
    return is_over ? finish(r) : stop_here(r);
}

fault session_go(struct veche_run *r)
{
    r->began_s = r->throughput.at_s = clock_now_s();
    r->throughput.samples = session_totals(r).samples;
    if (*r->measured)
        note(r, 0, 0, "measured", r->measured);
    *r->measured = 0;
    fault f = play(r);
    r->earlier_s = session_seconds(r);
    r->began_s = 0;
    if (f && fault_kind_of(f) != FAULT_STOPPED && r->world->ops->leads(r->world)) {
        snprintf(r->status, sizeof r->status, "failed");
        fault_drop(run_record_fault(&r->folder, r->world->ops->steps(r->world), r->earlier_s,
                                    fault_kind_help(fault_kind_of(f)), fault_text(f)));
    }
    return f;
}
