/* gone.c - a member whose process is gone, or was given up.
 *
 * Its neighbours on the same machine miss the process; of one that stalls, or of a whole machine that is
 * gone, the leader hears nothing for longer than its patience (silence.c); and a transport may know it itself
 * (an MPI with ULFM does). A member that knows tells all others. Where the launcher lets the others live it cannot be
 * reached from then on, which the strategies know how to live with; the leader saves it with the rows of its
 * own agent, as it would find them when it came back. Elsewhere the run ends, as it does everywhere without a
 * leader.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "world/far/inside.h"

/* What was on its way to it or from it will not come to an end; its memory is left where it is, since the
 * transport may still know it. */
static void let_go_of(struct far *w, size_t member)
{
    struct peer *p = &w->peers[member];
    for (struct sending **at = &w->sendings; *at;)
        if ((*at)->to == member)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    p->arriving = NULL;
    p->arriving_end = &p->arriving;
    w->sent -= p->sent;
    w->heard -= p->heard;
    p->sent = p->heard = 0;
}

static void drop_questions_of(struct far *w, size_t member)
{
    for (struct incoming **at = &w->asked; *at;) {
        struct incoming *m = *at;
        if (m->from != member) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        incoming_drop(w, m);
    }
    w->asked_end = &w->asked;
    while (*w->asked_end)
        w->asked_end = &(*w->asked_end)->next;
}

void gone_give_up(struct far *w, size_t member, const char *why)
{
    struct peer *p = &w->peers[member];
    if (p->is_gone || member == w->link.self)
        return;
    p->is_gone = true;
    w->n_gone++;
    let_go_of(w, member);
    pause_member_is_gone(w);
    drop_questions_of(w, member);
    for (size_t i = 0; i < w->n; i++)
        if (i != w->link.self && !w->peers[i].is_gone)
            far_tell_text(w, i, MSG_GONE, member, why);
    if (!w->transport->others_live || member == 0)
        wait_break_off(w, FAIL(FAULT_CRASH,
                               "%s, and the run with it; go on from its last checkpoint with veche resume",
                               why));
    else if (is_leader(w))
        w->watcher.note(w->watcher.ctx, far_now_s(w), member, "gone", why);
}

static void member_is_gone(void *ctx, size_t member)
{
    struct far *w = ctx;
    char name[128], text[192];
    snprintf(text, sizeof text, "%s is gone", far_member_called(w, member, name));
    gone_give_up(w, member, text);
}

void gone_hear(struct far *w, size_t member, const char *why)
{
    if (member != w->link.self) {
        gone_give_up(w, member, why);
        return;
    }
    w->is_given_up = true;
    bool others_go_on = w->transport->others_live && !is_leader(w);
    wait_break_off(w,
                   FAIL(others_go_on ? FAULT_GIVEN_UP : FAULT_CRASH, "%s; the others have given it up", why));
}

bool gone_process_is(const struct peer *p)
{
    return p->process_is_near && kill((pid_t)p->pid, 0) != 0 && errno == ESRCH;
}

/* So often one looks who is still there. */
#define LOOK_S 0.2

void gone_look(struct far *w, double now)
{
    if (now - w->looked_s < LOOK_S || w->is_closed)
        return;
    w->looked_s = now;
    w->transport->ops->find_gone(w->transport, member_is_gone, w);
    for (size_t i = 0; i < w->n; i++)
        if (!w->peers[i].is_gone && !w->peers[i].has_closed && gone_process_is(&w->peers[i]))
            member_is_gone(w, i);
}
