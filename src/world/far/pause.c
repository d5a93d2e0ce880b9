/* pause.c - all stand still, so that the leader may look at the rows of all, save them, or end the play.
 *
 *   a round that is due, or a hold --> every agent stops at the end of its round, the leader's too
 *      (after a hold in step all say at once which round that will be, and go on to the furthest one's)
 *   --> the leader asks how all stand, until all wait and as many messages were heard as were sent, twice over
 *   --> time stands still --> the moment --> go
 *
 * Agents in step come to rest at the end of the same round, and no message is under way: a checkpoint of this moment
 * is rows and a few numbers, and every program can begin again at that round. Where agents are not in step, one
 * that waits for another stays where it is and does its round again after a restart.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "world/far/inside.h"

/* ---- accounts ---- */

struct account far_account_of(const struct far *w)
{
    const struct agent *a = w->agent;
    return (struct account){a->k,    a->lessons,   a->steps, a->dropped,    a->lr,
                            a->loss, a->staleness, a->tally, w->link.counts};
}

static void put_account(struct agent *agent, const struct account *a)
{
    agent->k = a->k;
    agent->lessons = a->lessons;
    agent->steps = a->steps;
    agent->dropped = a->dropped;
    agent->lr = a->lr;
    agent->loss = a->loss;
    agent->staleness = a->staleness;
    agent->tally = a->tally;
}

void far_set_own_account(struct far *w, const struct account *a)
{
    put_account(w->agent, a);
    w->link.counts = a->counts;
}

static struct state own_state(struct far *w)
{
    return (struct state){.is_busy = w->stance != WAITS_FOR_OTHERS || w->is_cold || lessons_are_computing(w),
                          .sent = w->sent,
                          .heard = w->heard,
                          .n_gone = w->n_gone,
                          .account = far_account_of(w)};
}

/* What I have waited for whom. */
static const double *own_waits(const struct far *w)
{
    return w->link.self < w->stage->n_agents ? w->waits.for_agents : w->waits.for_helpers;
}

/* Of more members than a table has room for none tells. */
static size_t n_told_waits(const struct far *w)
{
    return w->n <= MOST_IN_TABLE ? w->n : 0;
}

static void tell_state(struct far *w, uint64_t probe)
{
    struct state s = own_state(w);
    size_t n_waits = n_told_waits(w), n_bytes = STATE_BYTES + 8 * n_waits;
    unsigned char *both = malloc(n_bytes);
    if (!both) {
        wait_break_off(w, OUT_OF_MEMORY);
        return;
    }
    packet_write_state(both, &s, own_waits(w), n_waits);
    far_tell(w, 0, MSG_STATE, probe, both, n_bytes);
    free(both);
}

/* The leader's table: totals move by what is new. */
static void learn_waits(struct far *w, size_t member, const double *now)
{
    bool learns = member < w->stage->n_agents;
    double *total = learns ? w->known.for_agents : w->known.for_helpers,
           *old = w->rows_of_waits + member * w->n;
    for (size_t j = 0; j < w->n; j++) {
        total[j] += now[j] - old[j];
        old[j] = now[j];
    }
    if (learns)
        memcpy(w->known.pairs + member * w->n, old, w->n * sizeof(double));
}

static void learn_state(struct far *w, size_t member, const struct state *s, uint64_t probe)
{
    w->states[member] = *s;
    w->counts[member] = s->account.counts;
    w->peers[member].probe = probe;
    if (member)
        put_account(&w->agents[member], &s->account);
}

static void hear_state(struct far *w, const struct incoming *m)
{
    struct state s;
    double waits[MOST_IN_TABLE];
    if (!packet_read_state(m->bytes, (size_t)m->head.n_bytes, &s, waits, n_told_waits(w))) {
        courier_refuse(w, m->from);
        return;
    }
    learn_state(w, m->from, &s, m->head.tag);
    if (w->rows_of_waits)
        learn_waits(w, m->from, waits);
}

/* ---- every member ---- */

/* All agents go through all rounds, so a round that is due stops all of them at its end. Once one is gone the
 * others may have to find each other again, and rounds are skipped. */
static bool are_in_step(const struct far *w)
{
    const struct experiment *e = w->stage->experiment;
    const struct strategy_row *row = strategy_row(e);
    return !w->stage->asynchronous && !w->n_gone && !(row->skips_rounds && row->skips_rounds(e));
}

static bool is_let_go(const struct far *w, const void *ctx)
{
    (void)ctx;
    return !w->is_paused;
}

static fault wait_to_be_let_go(struct far *w)
{
    w->is_paused = true;
    far_stand_still(w, true);
    far_tell(w, 0, MSG_PAUSED, w->agent->k, NULL, 0);
    return wait_for_members(w, is_let_go, NULL);
}

static void run_to(struct far *w, uint64_t k)
{
    w->pause_at = k;
    if (w->is_paused && w->agent->k < k) {
        w->is_paused = false;
        far_stand_still(w, false);
    }
}

static void go(struct far *w)
{
    w->has_begun = true;
    w->is_held = w->is_paused = false;
    w->pause_at = NEVER;
    far_stand_still(w, false);
}

void pause_member_is_gone(struct far *w)
{
    if (w->is_paused && !w->is_held && !is_leader(w)) {
        w->is_paused = false; /* others may need me; the leader will hold me where it wants to look */
        far_stand_still(w, false);
    }
}

void pause_hear(struct far *w, struct incoming *m)
{
    switch (m->head.kind) {
    case MSG_STOP:
        if (w->watcher.stop)
            w->watcher.stop(w->watcher.ctx);
        return;
    case MSG_HOLD:
        w->is_held = true;
        far_tell(w, 0, MSG_AT, w->agent->k + !(w->is_paused || w->peers[w->link.self].has_ended), NULL, 0);
        return;
    case MSG_AT:
        w->peers[m->from].is_held = true;
        w->peers[m->from].held_k = m->head.tag;
        return;
    case MSG_PAUSED:
        w->peers[m->from].is_paused = true;
        w->peers[m->from].paused_k = m->head.tag;
        return;
    case MSG_RUN_TO:
        run_to(w, m->head.tag);
        return;
    case MSG_PROBE:
        tell_state(w, m->head.tag);
        return;
    case MSG_STATE:
        hear_state(w, m);
        return;
    case MSG_WARM_UP:
        w->may_warm_up = true;
        return;
    case MSG_STILL:
        far_stand_still(w, true);
        return;
    default:
        go(w);
    }
}

/* ---- the leader ---- */

uint64_t far_rounds_of_all(const struct far *w)
{
    return w->totals.ended / w->stage->n_agents;
}

static bool all_have_answered(const struct far *w, const void *ctx)
{
    (void)ctx;
    for (size_t i = 1; i < w->n; i++)
        if (!w->peers[i].is_gone && w->peers[i].probe != w->probe)
            return false;
    return true;
}

/* What all have done together, from their accounts. */
static void add_up(struct far *w)
{
    uint64_t ended = 0, lessons = 0;
    for (size_t i = 0; i < w->stage->n_agents; i++) {
        ended += w->agents[i].k;
        lessons += w->agents[i].lessons;
    }
    w->totals.ended = ended;
    w->totals.samples = lessons * w->agents[0].feed.batch;
}

fault pause_ask_all(struct far *w)
{
    w->probe++;
    far_tell_all(w, MSG_PROBE, w->probe);
    TRY(wait_for_members(w, all_have_answered, NULL));
    struct state mine = own_state(w);
    learn_state(w, 0, &mine, w->probe);
    if (w->rows_of_waits)
        learn_waits(w, 0, own_waits(w));
    add_up(w);
    return OK;
}

fault pause_make_quiet(struct far *w)
{
    uint64_t before = NEVER;
    for (;;) {
        uint64_t sent = 0, heard = 0, busy = 0;
        TRY(pause_ask_all(w));
        for (size_t i = 0; i < w->n; i++) {
            if (w->peers[i].is_gone)
                continue;
            busy += w->states[i].n_gone != w->n_gone; /* it has not heard yet who is */
            sent += w->states[i].sent;
            heard += w->states[i].heard;
            busy += w->states[i].is_busy;
        }
        if (!busy && sent == heard && sent == before)
            return OK;
        before = !busy && sent == heard ? sent : NEVER;
        TRY(wait_to(w, clock_now_s() + 2e-4));
    }
}

static bool all_are_held(const struct far *w, const void *ctx)
{
    (void)ctx;
    for (size_t i = 1; !w->n_gone && i < w->stage->n_agents; i++)
        if (!w->peers[i].is_held)
            return false;
    return true;
}

static bool all_have_stopped(const struct far *w, const void *ctx)
{
    uint64_t k = *(const uint64_t *)ctx;
    for (size_t i = 1; !w->n_gone && i < w->stage->n_agents; i++) {
        const struct peer *p = &w->peers[i];
        if (!(p->is_paused && p->paused_k == k) && !p->has_ended)
            return false;
    }
    return true;
}

/* In step: all at the end of one round. *here: it is the leader's, and they are. */
static fault gather_in_step(struct far *w, bool *here)
{
    uint64_t furthest = w->agent->k;
    if (w->is_held)
        TRY(wait_for_members(w, all_are_held, NULL));
    for (size_t i = 1; w->is_held && i < w->stage->n_agents; i++)
        if (w->peers[i].held_k > furthest)
            furthest = w->peers[i].held_k;
    *here = w->agent->k == furthest;
    for (size_t i = 1; w->is_held && w->pause_at != furthest && i < w->stage->n_agents; i++)
        far_tell(w, i, MSG_RUN_TO, furthest, NULL, 0);
    w->pause_at = furthest;
    return *here ? wait_for_members(w, all_have_stopped, &furthest) : OK;
}

static void hold_all(struct far *w)
{
    if (!w->is_held)
        far_tell_all(w, MSG_HOLD, 0);
    w->is_held = true;
}

static fault lead_pause(struct far *w)
{
    bool here = true;
    if (are_in_step(w))
        TRY(gather_in_step(w, &here));
    if (!here)
        return OK;
    if (!are_in_step(w)) /* from the start, or since a member went while all were gathering */
        hold_all(w);
    TRY(pause_make_quiet(w));
    far_tell_all(w, MSG_STILL, 0);
    far_stand_still(w, true);
    TRY(w->watcher.moment(w->watcher.ctx));
    w->seen = far_rounds_of_all(w);
    for (size_t i = 0; i < w->n; i++)
        w->peers[i].is_paused = w->peers[i].is_held = false;
    go(w);
    far_tell_all(w, MSG_GO, 0);
    return OK;
}

static bool has_to_stop(const struct far *w)
{
    return w->watcher.has_to_stop && w->watcher.has_to_stop(w->watcher.ctx);
}

/* What is due after the last round is looked at when all have come to their end, since some still exchange their last
 * words. */
static bool is_last(const struct far *w, uint64_t round)
{
    return round >= w->stage->rounds;
}

/* Something is due at the end of a round since the last look. */
static bool look_is_due(const struct far *w)
{
    uint64_t now = far_rounds_of_all(w);
    for (uint64_t k = w->seen + 1; w->watcher.is_due && k <= now && !is_last(w, k); k++)
        if (w->watcher.is_due(w->watcher.ctx, k))
            return true;
    return false;
}

/* The leader stops here. Others in step know of what is due by themselves. */
static bool leader_stops(struct far *w)
{
    bool stop = has_to_stop(w), due = look_is_due(w);
    if (stop)
        hold_all(w);
    bool stops = stop || due || w->agent->k == w->pause_at;
    if (!stops)
        w->seen = far_rounds_of_all(w);
    return stops;
}

/* A round at which the leader does not look. Asked to stop in this very moment, it stops as ever, with all the others. */
static fault pass_by(struct far *w)
{
    fault f = w->watcher.moment(w->watcher.ctx);
    if (!f || fault_kind_of(f) != FAULT_STOPPED)
        return f;
    fault_drop(f);
    hold_all(w);
    return lead_pause(w);
}

fault far_end_round(struct link *l)
{
    struct far *w = far_of(l);
    uint64_t k = w->agent->k;
    w->gradient_is_new = false;
    if (is_leader(w)) /* the others of a group in step are taken to be as far until they are asked */
        w->totals.ended = w->stage->asynchronous ? w->totals.ended + 1 : k * w->stage->n_agents;
    courier_progress(w);
    if (w->broken)
        return FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
    if (is_leader(w) && leader_stops(w))
        return lead_pause(w);
    if (is_leader(w))
        return is_last(w, far_rounds_of_all(w)) ? OK : pass_by(w);
    if (w->is_held && w->pause_at != NEVER) /* none stops before, whatever is due */
        return k >= w->pause_at ? wait_to_be_let_go(w) : OK;
    bool due = are_in_step(w) && w->watcher.is_due && !is_last(w, k) && w->watcher.is_due(w->watcher.ctx, k);
    return due || w->is_held ? wait_to_be_let_go(w) : OK;
}

static bool all_have_ended(const struct far *w)
{
    for (size_t i = 1; i < w->n; i++)
        if (!w->peers[i].has_ended && !w->peers[i].is_gone)
            return false;
    return true;
}

static bool end_or_look(const struct far *w, const void *ctx)
{
    (void)ctx;
    return all_have_ended(w) || (!are_in_step(w) && (has_to_stop(w) || look_is_due(w)));
}

fault pause_lead_to_the_end(struct far *w)
{
    for (;;) {
        TRY(wait_for_members(w, end_or_look, NULL));
        if (all_have_ended(w))
            return pause_ask_all(w);
        leader_stops(w);
        TRY(lead_pause(w));
    }
}
