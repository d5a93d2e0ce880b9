/* wait.c - how one waits: whatever comes is received meanwhile, and every wait comes to an end.
 *
 * A member waits for a peer for no longer than patience, but for the time in which a member is suspected to have stalled
 * (silence.c); it waits for all for as long as the leader hears from them.
 */
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "world/far/inside.h"

void wait_break_off(struct far *w, fault f)
{
    if (w->broken)
        fault_drop(f);
    else
        w->broken = f;
}

double far_now_s(const struct far *w)
{
    return (w->is_still ? w->still_since_s : clock_now_s()) - w->began_s - w->stood_s;
}

void far_stand_still(struct far *w, bool still)
{
    double now = clock_now_s();
    if (still && !w->is_still)
        w->still_since_s = now;
    if (!still && w->is_still)
        w->stood_s += now - w->still_since_s;
    w->is_still = still;
}

const char *far_member_called(const struct far *w, size_t member, char name[128])
{
    snprintf(name, 128, "%s %zu (rank %zu on %.60s)", member < w->stage->n_agents ? "agent" : "member",
             member, member, w->peers[member].host);
    return name;
}

enum { POLLS_BEFORE_FETCH = 64, POLLS_BEFORE_NAP = 2000, YIELDS_BEFORE_NAP = 64 };
#define LEAST_NAP_S 2e-5
#define MOST_NAP_S  2e-4

/* Where a bell ends it: signs of life and deaths are looked after now and then. */
static double long_nap_s(const struct far *w)
{
    return fmin(0.02, patience_of(w) / 16);
}

/* The transport has something to do that no bell will ring for. */
static bool is_moving(const struct far *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->peers[i].arriving)
            return true;
    return w->transport->is_busy || sendings_are_left(w);
}

/* An eighth of the time napped so far, so that no wait becomes much longer by it. A server that woke up every 20 microseconds
 * took a tenth of a core from those it waited for. */
static double next_nap_s(double *nap_s)
{
    double now = *nap_s;
    *nap_s = fmin(*nap_s * 9 / 8, MOST_NAP_S);
    return now;
}

struct pauses { /* of one wait */
    unsigned n_polls;
    double nap_s, began_s;
};

static struct pauses pauses_begin(void)
{
    return (struct pauses){.nap_s = LEAST_NAP_S, .began_s = clock_now_s()};
}

/* What was offered may be read where it lies for as long as it takes to fetch it, in which what it waits for often comes:
 * so no member loses more by fetching, or by not fetching, than that time once. Seconds until then; with nothing offered it
 * is now. */
static double fetches_in_s(const struct far *w, const struct pauses *p)
{
    return w->lessons.is_running ? 0 : p->began_s + fetch_takes_s(w) - clock_now_s();
}

/* Polls for a while, if the core is its own to do so, then sleeps until the bell rings. Where something may come without a ring
 * it naps now and then; where ranks outnumber cores it gives the core away before. */
static void rest(struct far *w, uint32_t heard, struct pauses *p)
{
    bool beside_job = w->lessons.is_running && lessons_are_computing(w), many = w->ranks.outnumber_cores;
    bool rings = w->all_ring && !is_moving(w);
    unsigned polls = beside_job || (many && rings) ? 0 : many ? YIELDS_BEFORE_NAP : POLLS_BEFORE_NAP;
    bool sleeps = ++p->n_polls > polls;
    double in_s =
        sleeps || w->lessons.is_running || p->n_polls > POLLS_BEFORE_FETCH ? fetches_in_s(w, p) : INFINITY;
    if (in_s <= 0)
        fetch_everything(w);
    if (!sleeps) {
        if (many || p->n_polls > polls / 2)
            sched_yield();
        return;
    }
    double nap_s = rings ? long_nap_s(w) : beside_job ? lessons_nap_s(w) : next_nap_s(&p->nap_s);
    if (in_s > 0)
        nap_s = fmin(nap_s, in_s);
    double left_s = w->alarm_s - clock_now_s();
    bool is_news = bell_await_readers(w, w->stance == AWAITS_READERS || w->asked); /* an answer may have to wait for them, too */
    if (left_s > 0 && !is_news)
        bell_sleep(w, heard, fmin(nap_s, left_s));
}

static fault broken(const struct far *w)
{
    return FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
}

fault wait_for_members(struct far *w, is_done *done, const void *ctx)
{
    struct pauses pauses = pauses_begin();
    for (;;) {
        uint32_t heard = bell_heard(w);
        courier_progress(w);
        if (done(w, ctx))
            return OK;
        if (w->broken)
            return broken(w);
        rest(w, heard, &pauses);
    }
}

static bool is_past(const struct far *w, const void *ctx)
{
    (void)ctx;
    return clock_now_s() >= w->alarm_s;
}

fault wait_to(struct far *w, double real_s)
{
    w->alarm_s = real_s;
    fault f = wait_for_members(w, is_past, NULL);
    w->alarm_s = NO_ALARM;
    return f;
}

fault wait_until(struct far *w, is_done *done, const void *ctx, size_t whom)
{
    double since = far_now_s(w);
    struct pauses pauses = pauses_begin();
    for (;;) {
        uint32_t heard = bell_heard(w);
        courier_progress(w);
        if (done(w, ctx))
            return OK;
        if (w->broken)
            return broken(w);
        if (whom != ANYONE && w->peers[whom].is_gone) {
            char name[128];
            return FAIL(FAULT_PEER, "%s is gone", far_member_called(w, whom, name));
        }
        if (!w->is_still && far_now_s(w) - since > patience_of(w) && !silence_has_suspect(w)) {
            char name[128] = "anyone";
            return FAIL(FAULT_TIMEOUT, "agent %zu waited %g s for %s in vain", w->link.self, patience_of(w),
                        whom == ANYONE ? name : far_member_called(w, whom, name));
        }
        rest(w, heard, &pauses);
    }
}
