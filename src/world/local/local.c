/* local.c - the turns: who runs, what happens next, and when the play is over. */
#include "world/local/local.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/local/inside.h"

enum { STACK_BYTES = 64 << 10 };

/* ---- notes ---- */

void local_say(struct local *w, size_t agent, const char *kind, const char *text)
{
    size_t n = strlen(text) + 1;
    struct noted *note = w->replaying ? NULL : malloc(sizeof *note + n);
    if (!note)
        return;
    *note = (struct noted){.at_s = w->now_s, .agent = agent, .kind = kind};
    memcpy(note->text, text, n);
    *w->notes_end = note;
    w->notes_end = &note->next;
}

static void tell_notes(struct local *w, bool to_watcher)
{
    while (w->notes) {
        struct noted *note = w->notes;
        w->notes = note->next;
        if (to_watcher)
            w->watcher.note(w->watcher.ctx, note->at_s, note->agent, note->kind, note->text);
        free(note);
    }
    w->notes_end = &w->notes;
}

/* ---- turns ---- */

static void make_ready(struct actor *a)
{
    struct local *w = a->world;
    a->life = LIFE_READY;
    a->next_ready = NULL;
    *w->ready_end = a;
    w->ready_end = &a->next_ready;
}

/* The verb an actor waits in returns `verdict`, which is taken. */
void actor_wake(struct actor *a, fault verdict)
{
    a->verdict = verdict;
    a->receives = a->in_vain = false;
    make_ready(a);
}

fault actor_park(struct actor *a)
{
    a->life = LIFE_PARKED;
    a->ticket++;
    fiber_park(a->fiber);
    fault verdict = a->verdict;
    a->verdict = OK;
    return verdict;
}

/* Something that concerns the wait an actor is about to begin. */
fault local_expect(struct local *w, double at_s, int kind, struct actor *who, size_t whom, void *what)
{
    return agenda_add(&w->agenda, (struct moment){.at_s = at_s,
                                                  .kind = kind,
                                                  .who = (uint32_t)who->link.self,
                                                  .whom = (uint32_t)whom,
                                                  .ticket = who->ticket + 1,
                                                  .what = what});
}

static void live(void *arg)
{
    struct actor *a = arg;
    fault f = a->agent->returned ? agent_rejoin(a->agent) : OK;
    if (!f)
        f = strategy_row(a->world->stage->experiment)->run(a->agent);
    a->verdict = f;
}

fault actor_begin_life(struct actor *a)
{
    fiber_begin(a->fiber, live, a);
    a->verdict = OK;
    a->is_learning = a->gradient_is_new = false;
    a->world->n_up++;
    make_ready(a);
    return OK;
}

/* What was received and not yet mixed when a program was left. */
static void drop_parcels(struct actor *a)
{
    for (size_t i = 0; i < a->agent->parcel_room; i++)
        local_link.drop(&a->link, &a->agent->parcels[i]);
}

/* A program came to its end: all done, or its machine went down under it, or something is wrong. */
static fault end_life(struct actor *a)
{
    fault f = a->verdict;
    a->verdict = OK;
    a->world->n_up--;
    if (f && fault_kind_of(f) != FAULT_CRASH)
        return f;
    a->life = f ? LIFE_DOWN : LIFE_DONE;
    fault_drop(f);
    drop_parcels(a);
    return OK;
}

static fault run_ready(struct local *w)
{
    tell_notes(w, true);
    while (w->ready) {
        struct actor *a = w->ready;
        w->ready = a->next_ready;
        if (!w->ready)
            w->ready_end = &w->ready;
        fiber_resume(a->fiber);
        tell_notes(w, true);
        if (fiber_has_ended(a->fiber))
            TRY(end_life(a));
        if (tape_is_long(w->tape))
            TRY(tape_flush(w->tape));
    }
    return OK;
}

/* ---- the clock ---- */

static bool is_stale(const struct local *w, uint32_t who, uint64_t ticket)
{
    const struct actor *a = &w->actors[who];
    return a->life != LIFE_PARKED || a->ticket != ticket;
}

static const struct deadline *first_deadline(struct local *w)
{
    while (w->n_deadlines) {
        const struct deadline *d = &w->deadlines[w->deadline_first];
        if (!is_stale(w, d->who, d->ticket))
            return d;
        w->deadline_first = (w->deadline_first + 1) % w->deadline_room;
        w->n_deadlines--;
    }
    return NULL;
}

static double next_moment_s(struct local *w)
{
    const struct deadline *d = first_deadline(w);
    double at_s = d ? d->at_s : INFINITY;
    if (!agenda_is_empty(&w->agenda) && agenda_first(&w->agenda)->at_s <= at_s)
        at_s = agenda_first(&w->agenda)->at_s;
    return at_s;
}

/* Those who ask for numbers wait until nothing more happens at this moment, so that what they ask for is computed together. */
static fault run_and_answer(struct local *w)
{
    TRY(run_ready(w));
    while (w->askers && next_moment_s(w) > w->now_s) {
        TRY(ask_answer_all(w));
        TRY(run_ready(w));
    }
    return OK;
}

static fault reach_deadline(struct local *w)
{
    const struct deadline *d = first_deadline(w);
    struct actor *a = &w->actors[d->who];
    w->now_s = d->at_s;
    char whom[32] = "anyone";
    if (a->from != ANYONE)
        snprintf(whom, sizeof whom, "agent %zu", a->from);
    actor_wake(a, FAIL(FAULT_TIMEOUT, "agent %zu waited %g s for %s in vain", a->link.self,
                       w->stage->experiment->network.patience_s, whom));
    return OK;
}

/* Its machine is down and no other knows: those that wait for it go on waiting. */
static bool hangs(const struct local *w, struct actor *who, size_t i)
{
    who->in_vain = !w->actors[i].alive && !w->actors[i].is_missed;
    return who->in_vain;
}

static fault reach_moment(struct local *w, const struct moment *m)
{
    struct actor *who = &w->actors[m->who];
    switch (m->kind) {
    case MOMENT_ARRIVE:
        return message_arrive(w, m->what);
    case MOMENT_WAKE:
        if (!is_stale(w, m->who, m->ticket))
            actor_wake(who, OK);
        return OK;
    case MOMENT_AVERAGE:
        if (!is_stale(w, m->who, m->ticket) && !hangs(w, who, m->whom))
            actor_wake(who, local_average_now(w, who, &w->actors[m->whom], (row_set)(uintptr_t)m->what));
        else
            local_average_lost(who, &w->actors[m->whom]);
        return OK;
    case MOMENT_ADOPT:
        if (!is_stale(w, m->who, m->ticket) && !hangs(w, who, m->whom))
            actor_wake(who, local_adopt_now(w, who, &w->actors[m->whom]));
        else
            w->actors[m->whom].link.counts.lost++;
        return OK;
    default:
        return script_moment(w, m);
    }
}

static fault move_clock(struct local *w)
{
    const struct deadline *d = first_deadline(w);
    if (d && (agenda_is_empty(&w->agenda) || d->at_s < agenda_first(&w->agenda)->at_s))
        return reach_deadline(w);
    struct moment m = agenda_take(&w->agenda);
    w->now_s = m.at_s;
    return reach_moment(w, &m);
}

/* Of those that learn: a helper's end is not what a play is for. */
static size_t count_done(const struct local *w)
{
    size_t done = 0;
    for (size_t i = 0; i < w->stage->n_agents; i++)
        done += w->actors[i].life == LIFE_DONE;
    return done;
}

/* None lives, and none will: where all are down but one will be back, that one is waited for. */
static bool is_over(const struct local *w)
{
    if (w->n_up)
        return false;
    return count_done(w) || !script_return_is_due(w);
}

/* One step: all run until none can, then the next thing happens. A replay ends in the middle of its
 * last step, where the run was saved. */
static fault step(struct local *w)
{
    if (!w->in_step) {
        TRY(run_and_answer(w));
        if (is_over(w))
            return OK;
        w->steps++;
        w->in_step = true;
        if (next_moment_s(w) > w->now_s)
            TRY(w->watcher.moment(w->watcher.ctx));
        if (w->replaying && w->steps == w->replay_to)
            return OK;
    }
    w->in_step = false;
    return move_clock(w);
}

fault local_play(struct local *w)
{
    while (!is_over(w))
        TRY(step(w));
    TRY(tape_flush(w->tape));
    return count_done(w)
               ? OK
               : FAIL(FAULT_PEER, "all %zu agents are down, and none came to its end", w->stage->n_agents);
}

fault local_replay(struct local *w, uint64_t steps)
{
    fault f = OK;
    w->replaying = true;
    w->replay_to = steps;
    tape_set_silent(w->tape, true);
    while (!f && !is_over(w) && w->steps < steps)
        f = step(w);
    tape_set_silent(w->tape, false);
    w->replaying = false;
    return f || local_steps(w) != steps ? f : ask_journals_are_read(w);
}

/* ---- what is computed ---- */

static void prepare_lesson(void *ctx, size_t agent, uint64_t lesson, struct pick *picks, uint64_t *seed)
{
    agent_prepare(((struct local *)ctx)->actors[agent].agent, lesson, picks, seed);
}

static fault lesson_answered(void *ctx, size_t agent, uint64_t lesson, double loss, size_t hits)
{
    return agent_answered(((struct local *)ctx)->actors[agent].agent, lesson, loss, hits);
}

fault local_settle(struct local *w)
{
    return tape_flush(w->tape);
}

/* ---- opening and closing ---- */

static size_t count_machines(const struct local *w)
{
    return w->n + w->stage->n_agents * (team_size(w->stage->team) - 1);
}

static fault open_machines(struct local *w, const double *speeds)
{
    size_t n = count_machines(w);
    w->machines = calloc(n, sizeof *w->machines);
    w->team_times = calloc(team_size(w->stage->team) + n, sizeof *w->team_times);
    if (!w->machines || !w->team_times)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        w->machines[i] = (struct machine){.number = i, .speed = speeds[i]};
    return OK;
}

static fault open_actors(struct local *w, struct agent *agents)
{
    size_t size = team_size(w->stage->team), n_machines = 0;
    TRY(fibers_open(w->n, STACK_BYTES, &w->fibers));
    for (size_t i = 0; i < w->n; i++) {
        struct actor *a = &w->actors[i];
        *a = (struct actor){
            .link = {.ops = &local_link, .self = i, .n_members = w->n},
            .world = w,
            .agent = &agents[i],
            .alive = true,
            .machines = w->machines + n_machines,
            .n_machines = i < w->stage->n_agents ? size : 1,
            .done_s = w->team_times + size + n_machines,
        };
        n_machines += a->n_machines;
        a->mail_end = &a->mail;
        agents[i].link = &a->link;
        a->fiber = fibers_at(w->fibers, i);
        TRY(actor_begin_life(a));
    }
    return OK;
}

static fault open_parts(struct local *w, struct agent *agents, const double *speeds)
{
    const struct topology *t = w->stage->topology;
    w->actors = calloc(w->n, sizeof *w->actors);
    w->group = calloc(w->n, sizeof *w->group);
    w->random_draws = calloc(w->n + (t ? t->n_edges : 0), sizeof *w->random_draws);
    w->mended = calloc(t ? t->n_edges + 1 : 1, sizeof *w->mended);
    if (!w->actors || !w->group || !w->random_draws || !w->mended)
        return OUT_OF_MEMORY;
    TRY(tape_new(w->engine, (struct tape_client){prepare_lesson, lesson_answered, w}, w->stage->n_agents,
                 &w->tape));
    TRY(waits_open(&w->waits, w->stage->n_agents, w->n));
    TRY(rows_open(w));
    TRY(open_machines(w, speeds));
    TRY(open_actors(w, agents));
    return script_open(w);
}

fault local_open(const struct stage *stage, struct agent *agents, struct engine *engine, const double *speeds,
                 struct watcher watcher, struct world **out)
{
    struct local *w = calloc(1, sizeof *w);
    if (!w)
        return OUT_OF_MEMORY;
    w->world.ops = &local_world;
    w->stage = stage;
    w->engine = engine;
    w->watcher = watcher;
    w->n = stage->n_members;
    w->ready_end = &w->ready;
    w->askers_end = &w->askers;
    w->notes_end = &w->notes;
    fault f = open_parts(w, agents, speeds);
    if (f) {
        local_close(w);
        return f;
    }
    *out = &w->world;
    return OK;
}

/* Messages still under way are on the agenda, those waiting to be received in a member's mail. */
static void drop_messages(struct local *w)
{
    while (!agenda_is_empty(&w->agenda)) {
        struct moment m = agenda_take(&w->agenda);
        if (m.kind == MOMENT_ARRIVE)
            message_free(w, m.what);
    }
    for (size_t i = 0; w->actors && i < w->n; i++)
        actor_drop_mail(&w->actors[i]);
    while (w->free_messages) {
        struct message *next = w->free_messages->next;
        free(w->free_messages);
        w->free_messages = next;
    }
}

void local_close(struct local *w)
{
    if (!w)
        return;
    for (size_t i = 0; w->actors && i < w->n; i++) {
        struct actor *a = &w->actors[i];
        if (a->agent && a->fiber)
            drop_parcels(a);
        free(a->journal.at);
        fault_drop(a->verdict);
    }
    tell_notes(w, false);
    drop_messages(w);
    waits_close(&w->waits);
    rows_close(w);
    agenda_release(&w->agenda);
    tape_free(w->tape);
    fibers_close(w->fibers);
    free(w->deadlines);
    free(w->cuts);
    free(w->group);
    free(w->mended);
    free(w->random_draws);
    free(w->actors);
    free(w->machines);
    free(w->team_times);
    free(w);
}

/* ---- questions ---- */

double local_now_s(const struct local *w)
{
    return w->now_s;
}

uint64_t local_steps(const struct local *w)
{
    return w->steps + is_over(w); /* once all is over, after the last step and not in it */
}

bool local_is_replaying(const struct local *w)
{
    return w->replaying;
}

bool local_is_alive(const struct local *w, size_t agent)
{
    return w->actors[agent].alive;
}

const struct waits *local_waits(const struct local *w)
{
    return &w->waits;
}

struct link_counts local_counts(const struct local *w, size_t agent)
{
    return w->actors[agent].link.counts;
}

struct tape_times local_times(const struct local *w)
{
    return tape_times(w->tape);
}

void local_rows_needed(const struct local *w, enum row row, bool *needed)
{
    size_t n_rows = w->n + w->engine->setup.n_spare;
    for (size_t i = 0; i < n_rows; i++)
        needed[i] = row_lasts(row) || i >= w->n || (row == ROW_GRADS && w->actors[i].has_gradient);
    needed[world_model_row(w->stage)] = false;
    for (size_t f = 0; f < w->n_free_rows[row]; f++)
        needed[w->free_rows[row][f]] = false;
}
