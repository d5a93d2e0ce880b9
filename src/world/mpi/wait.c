/* wait.c - how one waits: whatever comes is received meanwhile, and every wait comes to an end.
 *
 * Whoever waits for a peer does so for no longer than patience, but for the time in which somebody is suspected to have stalled
 * (silence.c); whoever waits for all goes on for as long as the leader hears from everyone.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "world/mpi/inside.h"

void break_off(struct mpi *w, fault f)
{
    if (w->broken)
        fault_drop(f);
    else
        w->broken = f;
}

double world_now_s(const struct mpi *w)
{
    return (w->is_still ? w->still_since_s : clock_now_s()) - w->began_s - w->stood_s;
}

void stand_still(struct mpi *w, bool still)
{
    double now = clock_now_s();
    if (still && !w->is_still)
        w->still_since_s = now;
    if (!still && w->is_still)
        w->stood_s += now - w->still_since_s;
    w->is_still = still;
}

const char *member_called(const struct mpi *w, size_t member, char name[128])
{
    snprintf(name, 128, "%s %zu (rank %zu on %.60s)", member < w->stage->n_agents ? "agent" : "member", member, member,
             w->peers[member].host);
    return name;
}

enum { POLLS_BEFORE_FETCH = 64, POLLS_BEFORE_NAP = 2000, YIELDS_BEFORE_NAP = 64, NAP_NS = 20000 };

/* Polls for a while, then now and then. Where ranks outnumber cores every poll gives the core away, and soon one naps: a core
 * that is only offered may come back at once, though somebody waits for it. */
static void rest(struct mpi *w, unsigned *n_polls)
{
    if (w->lessons.is_running || *n_polls >= POLLS_BEFORE_FETCH)
        fetch_everything(w);
    if (w->lessons.is_running && rest_beside_job(w))
        return;
    bool many = w->seat.oversubscribed;
    if (++*n_polls > (many ? YIELDS_BEFORE_NAP : POLLS_BEFORE_NAP))
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    else if (many || *n_polls > POLLS_BEFORE_NAP / 2)
        sched_yield();
}

static fault broken(const struct mpi *w)
{
    return FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
}

fault wait_for_members(struct mpi *w, is_done *done, const void *ctx)
{
    unsigned n_polls = 0;
    for (;;) {
        progress(w);
        if (done(w, ctx))
            return OK;
        if (w->broken)
            return broken(w);
        rest(w, &n_polls);
    }
}

fault wait_until(struct mpi *w, is_done *done, const void *ctx, size_t whom)
{
    double since = world_now_s(w);
    unsigned n_polls = 0;
    for (;;) {
        progress(w);
        if (done(w, ctx))
            return OK;
        if (w->broken)
            return broken(w);
        if (whom != ANYONE && w->peers[whom].is_gone) {
            char name[128];
            return FAIL(FAULT_PEER, "%s is gone", member_called(w, whom, name));
        }
        if (!w->is_still && world_now_s(w) - since > patience_of(w) && !somebody_is_suspected(w)) {
            char name[128] = "anyone";
            return FAIL(FAULT_TIMEOUT, "agent %zu waited %g s for %s in vain", w->link.self, patience_of(w),
                        whom == ANYONE ? name : member_called(w, whom, name));
        }
        rest(w, &n_polls);
    }
}
