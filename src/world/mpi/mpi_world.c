/* mpi_world.c - the world `mpi`: opened, played, closed. */
#include "world/mpi/mpi_world.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "world/mpi/inside.h"

/* ---- playing ---- */

static bool has_begun(const struct mpi *w, const void *ctx)
{
    (void)ctx;
    return w->has_begun;
}

static bool is_closed(const struct mpi *w, const void *ctx)
{
    (void)ctx;
    return w->is_closed;
}

static fault live(struct mpi *w)
{
    fault f = strategy_row(w->stage->experiment)->run(w->agent);
    if (!f && w->broken)
        f = FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
    for (size_t i = 0; i < w->agent->parcel_room; i++)
        mpi_link.drop(&w->link, &w->agent->parcels[i]);
    w->peers[w->link.self].has_ended = !f;
    if (!f)
        mpi_tell_all(w, MSG_ENDED, 0);
    return f;
}

/* A program that begins in the middle, after a restart, goes on as if it had come there. */
static void begin(struct mpi *w)
{
    struct totals *t = &w->totals;
    *t = (struct totals){0};
    for (size_t i = 0; is_leader(w) && i < w->stage->n_agents; i++) {
        t->ended += w->agents[i].k;
        t->samples += w->agents[i].lessons * w->agents[i].feed.batch;
    }
    t->begun = t->ended;
    w->seen = mpi_rounds_of_all(w);
    w->began_s = clock_now_s();
    w->stood_s = 0;
}

static bool may_warm_up(const struct mpi *w, const void *ctx)
{
    (void)ctx;
    return w->may_warm_up;
}

/* What the leader wrote into everybody's rows is there before its word. */
static fault warm_up(struct mpi *w)
{
    if (is_leader(w))
        mpi_tell_all(w, MSG_WARM_UP, 0);
    else
        TRY(wait_for_members(w, may_warm_up, NULL));
    TRY(lessons_warm_up(w));
    w->is_cold = false;
    return is_leader(w) ? pause_make_quiet(w) : OK; /* nobody is cold any more */
}

static fault lead(struct mpi *w)
{
    TRY(warm_up(w));
    begin(w);
    w->has_begun = true;
    mpi_tell_all(w, MSG_GO, 0);
    TRY(live(w));
    TRY(pause_lead_to_the_end(w));
    mpi_stand_still(w, true); /* exams and records of the end take none of the run's time */
    w->is_over = w->ended_well = true;
    return OK;
}

/* Whoever fails tells the leader, who ends the run; and stays until it is told to go, since others may still be looked at. */
static fault follow(struct mpi *w)
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
        mpi_tell(w, 0, MSG_FAILED, fault_kind_of(f), fault_text(f), strlen(fault_text(f)) + 1);
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

fault mpi_play(struct mpi *w)
{
    return is_leader(w) ? lead(w) : follow(w);
}

/* ---- opening and closing ---- */

/* What this world sends is no other's. */
static fault part_from_other_worlds(struct mpi *w)
{
    MPI_Request request;
    MPI_Comm_idup(mpi_comm_of(&w->ranks), &w->comm, &request);
    fault f = mpi_wait_together(&request, patience_of(w));
    if (f)
        w->comm = MPI_COMM_NULL;
    else if (gone_others_live())
        MPI_Comm_set_errhandler(w->comm,
                                MPI_ERRORS_RETURN); /* else an MPI that notices a death ends them itself */
    return f;
}

static fault open_parts(struct mpi *w)
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
    TRY(part_from_other_worlds(w));
    TRY(courier_open(w));
    TRY(mpi_meet(w));
    TRY(native_open(w));
    return lessons_open(w);
}

fault mpi_open(const struct ranks *ranks, const struct stage *stage, struct agent *agents,
               struct engine *engine, const double *speeds, struct watcher watcher, struct world **out)
{
    (void)speeds; /* machines are as fast as they are */
    struct mpi *w = calloc(1, sizeof *w);
    if (!w)
        return OUT_OF_MEMORY;
    *w = (struct mpi){.world = {&mpi_world},
                      .link = {.ops = &mpi_link, .self = ranks->self, .n_members = ranks->n},
                      .ranks = *ranks,
                      .stage = stage,
                      .agents = agents,
                      .agent = &agents[ranks->self],
                      .engine = engine,
                      .watcher = watcher,
                      .n = ranks->n,
                      .comm = MPI_COMM_NULL,
                      .learners = MPI_COMM_NULL,
                      .counting = MPI_REQUEST_NULL,
                      .pause_at = NEVER,
                      .alarm_s = NO_ALARM,
                      .is_cold = true,
                      .suspect = NOBODY};
    w->mail_end = &w->mail;
    w->asked_end = &w->asked;
    w->began_s = clock_now_s();
    mpi_is_used(true);
    agents[ranks->self].link = &w->link;
    fault f = open_parts(w);
    if (f) {
        w->is_closed = true;
        mpi_close(w);
        return f;
    }
    *out = &w->world;
    return OK;
}

static bool all_have_closed(const struct mpi *w)
{
    for (size_t i = 1; i < w->n; i++)
        if (!w->peers[i].has_closed && !w->peers[i].is_gone)
            return false;
    return true;
}

/* The longest that a leader waits for the others to say goodbye, and anybody for its last words to go. */
#define FAREWELL_S 3.0

/* Nothing of mine is on its way. What I have offered, and nobody has fetched, nobody will. */
static bool may_leave(const struct mpi *w)
{
    return !sendings_are_left(w) && (is_leader(w) ? all_have_closed(w) : w->is_closed || w->peers[0].is_gone);
}

/* Nobody leaves before everything that was sent to it is here: what is left behind, a later run in these processes would take
 * for its own. Where somebody does not answer any more the job is ended for all. */
static void say_goodbye(struct mpi *w)
{
    double until = clock_now_s() + FAREWELL_S;
    int is_counted = 0;
    bool done = w->is_given_up;
    w->says_goodbye = true;
    if (is_leader(w))
        mpi_tell_all(w, MSG_CLOSE, !w->ended_well);
    while (!done && clock_now_s() < until) {
        courier_progress(w);
        if (w->n_gone) { /* together with one that is gone nothing can be counted */
            done = may_leave(w);
            continue;
        }
        if (!w->is_leaving && may_leave(w)) {
            w->is_leaving = true;
            MPI_Ireduce_scatter_block(w->told, &w->told[w->n], 1, MPI_UINT64_T, MPI_SUM, w->comm,
                                      &w->counting);
        }
        if (w->is_leaving)
            MPI_Test(&w->counting, &is_counted, MPI_STATUS_IGNORE);
        done = w->n_gone ? may_leave(w) : is_counted && courier_all_is_here(w, w->told[w->n]);
        if (!done)
            sched_yield();
    }
    if (!done)
        MPI_Abort(w->comm, 1);
}

void mpi_close(struct mpi *w)
{
    if (w->lessons.is_open)
        say_goodbye(w);
    lessons_close(w);
    bell_close(w);
    courier_close(w);
    bool all_are_here = !w->n_gone && !w->is_given_up;
    if (all_are_here)
        native_close(w);
    waits_close(&w->waits);
    waits_close(&w->known);
    fault_drop(w->broken);
    free(w->rows_of_waits);
    free(w->statistics);
    free(w->states);
    free(w->counts);
    if (all_are_here) { /* else MPI is never ended, since that waits for all */
        if (w->comm != MPI_COMM_NULL)
            MPI_Comm_free(&w->comm);
        mpi_is_used(false);
    }
    free(w);
}
