/* world.c - a far world: opened, played, closed. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "world/far/inside.h"

/* ---- playing ---- */

static bool has_begun(const struct far *w, const void *ctx)
{
    (void)ctx;
    return w->has_begun;
}

static bool is_closed(const struct far *w, const void *ctx)
{
    (void)ctx;
    return w->is_closed;
}

static fault live(struct far *w)
{
    fault f = strategy_row(w->stage->experiment)->run(w->agent);
    if (!f && w->broken)
        f = FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
    for (size_t i = 0; i < w->agent->parcel_room; i++)
        far_drop(&w->link, &w->agent->parcels[i]);
    w->peers[w->link.self].has_ended = !f;
    if (!f)
        far_tell_all(w, MSG_ENDED, 0);
    return f;
}

/* A program that begins in the middle, after a restart, goes on as if it had come there. */
static void begin(struct far *w)
{
    struct totals *t = &w->totals;
    *t = (struct totals){0};
    for (size_t i = 0; is_leader(w) && i < w->stage->n_agents; i++) {
        t->ended += w->agents[i].k;
        t->samples += w->agents[i].lessons * w->agents[i].feed.batch;
    }
    t->begun = t->ended;
    w->seen = far_rounds_of_all(w);
    w->began_s = clock_now_s();
    w->stood_s = 0;
    w->lessons.ended_s = 0; /* the one before was on an earlier clock */
}

static bool may_warm_up(const struct far *w, const void *ctx)
{
    (void)ctx;
    return w->may_warm_up;
}

/* What the leader wrote into the rows of all is there before its word. */
static fault warm_up(struct far *w)
{
    if (is_leader(w))
        far_tell_all(w, MSG_WARM_UP, 0);
    else
        TRY(wait_for_members(w, may_warm_up, NULL));
    TRY(lessons_warm_up(w));
    w->is_cold = false;
    return is_leader(w) ? pause_make_quiet(w) : OK; /* none is cold any more */
}

static fault lead(struct far *w)
{
    TRY(warm_up(w));
    begin(w);
    w->has_begun = true;
    far_tell_all(w, MSG_GO, 0);
    TRY(live(w));
    TRY(pause_lead_to_the_end(w));
    far_stand_still(w, true); /* exams and records of the end take none of the run's time */
    w->is_over = w->ended_well = true;
    return OK;
}

/* A member that fails tells the leader, which ends the run; and stays until it is told to go, since others may
 * still be looked at. */
static fault follow(struct far *w)
{
    fault f = warm_up(w);
    if (!f)
        f = wait_for_members(w, has_begun, NULL);
    begin(w);
    if (!f)
        f = live(w);
    if (w->is_given_up || w->peers[0].is_gone)
        return f;
    if (f && !w->is_closed)
        far_tell_text(w, 0, MSG_FAILED, fault_kind_of(f), fault_text(f));
    if (!w->is_closed) {
        fault_drop(w->broken);
        w->broken = OK;
        fault silent = wait_for_members(w, is_closed, NULL);
        if (silent && !w->is_closed) {
            fault_drop(f);
            return silent;
        }
        fault_drop(silent);
    }
    fault_drop(f);
    return w->ended_well ? OK : FAIL(FAULT_ELSEWHERE, "the run has ended");
}

fault far_play(struct far *w)
{
    return is_leader(w) ? lead(w) : follow(w);
}

/* ---- opening and closing ---- */

static fault open_parts(struct far *w)
{
    w->states = calloc(w->n, sizeof *w->states);
    w->counts = calloc(w->n, sizeof *w->counts);
    w->keeps_copy = w->engine->setup.n_replicas > 1;
    size_t n_stats = w->keeps_copy ? floats_of(w, ROW_STATS) : 0;
    w->statistics = malloc((n_stats + 1) * sizeof(float));
    if (!w->states || !w->counts || !w->statistics)
        return OUT_OF_MEMORY;
    TRY(waits_open(&w->waits, w->stage->n_agents, w->n));
    TRY(waits_open(&w->known, w->stage->n_agents, w->n));
    if (is_leader(w) && w->n <= MOST_IN_TABLE && !(w->rows_of_waits = calloc(w->n * w->n, sizeof(double))))
        return OUT_OF_MEMORY;
    TRY(bell_open(w));
    TRY(courier_open(w));
    TRY(far_meet(w));
    return lessons_open(w);
}

fault far_open(const struct ranks *ranks, struct transport *transport, const struct stage *stage,
               struct agent *agents, struct engine *engine, struct watcher watcher, struct world **out)
{
    struct far *w = calloc(1, sizeof *w);
    if (!w) {
        transport->ops->close(transport, true);
        return OUT_OF_MEMORY;
    }
    *w = (struct far){.world = {&far_world},
                      .link = {.self = ranks->self, .n_members = ranks->n},
                      .ranks = *ranks,
                      .transport = transport,
                      .verbs = far_link,
                      .stage = stage,
                      .agents = agents,
                      .agent = &agents[ranks->self],
                      .engine = engine,
                      .watcher = watcher,
                      .n = ranks->n,
                      .pause_at = NEVER,
                      .alarm_s = NO_ALARM,
                      .is_cold = true,
                      .suspect = NO_MEMBER};
    w->link.ops = &w->verbs;
    w->verbs.name = ranks->door->name;
    w->verbs.sum = transport->ops->sum;
    w->verbs.gather_near = transport->ops->gather_near;
    w->mail_end = &w->mail;
    w->asked_end = &w->asked;
    w->began_s = clock_now_s();
    agents[ranks->self].link = &w->link;
    fault f = open_parts(w);
    if (f) {
        w->is_closed = true;
        far_close(w);
        return f;
    }
    *out = &w->world;
    return OK;
}

static bool all_have_closed(const struct far *w)
{
    for (size_t i = 1; i < w->n; i++)
        if (!w->peers[i].has_closed && !w->peers[i].is_gone)
            return false;
    return true;
}

/* The longest that the leader waits for the others to say goodbye, and each for its last words to go: patience, but no less than
 * this; and how often each looks. */
#define FAREWELL_S      3.0
#define FAREWELL_LOOK_S 1e-3

/* Nothing of mine is on its way. What I have offered and was not fetched yet will never be. */
static bool may_leave(const struct far *w)
{
    return !sendings_are_left(w) && (is_leader(w) ? all_have_closed(w) : w->is_closed || w->peers[0].is_gone);
}

/* No member leaves before all have said farewell and everything they sent is here: what is left behind, a
 * later run in these processes would take for its own. Where a member does not answer any more all are
 * ended. */
static void say_goodbye(struct far *w)
{
    double until = clock_now_s() + fmax(FAREWELL_S, patience_of(w));
    bool done = w->is_given_up;
    w->says_goodbye = true;
    if (is_leader(w))
        far_tell_all(w, MSG_CLOSE, !w->ended_well);
    while (!done && clock_now_s() < until) {
        uint32_t heard = bell_heard(w);
        courier_progress(w);
        if (!w->is_leaving && may_leave(w)) {
            far_tell_all(w, MSG_FAREWELL, 0);
            w->is_leaving = true;
        }
        /* who is gone has left others without a word */
        done = w->is_leaving && !sendings_are_left(w) && (w->n_gone || courier_all_is_here(w));
        if (!done)
            bell_sleep(w, heard, FAREWELL_LOOK_S);
    }
    if (!done)
        w->transport->ops->abort(w->transport);
}

void far_close(struct far *w)
{
    if (w->lessons.is_open)
        say_goodbye(w);
    lessons_close(w);
    bell_close(w);
    courier_close(w);
    w->transport->ops->close(w->transport, !w->n_gone && !w->is_given_up);
    waits_close(&w->waits);
    waits_close(&w->known);
    fault_drop(w->broken);
    free(w->rows_of_waits);
    free(w->statistics);
    free(w->states);
    free(w->counts);
    free(w);
}
