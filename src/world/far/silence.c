/* silence.c - signs of life, and members that give none.
 *
 *   heard --(three signs are missing)--> suspected --(nothing for patience)--> stalled: given up by all
 *     ^------------(anything from it)--------'
 *
 * A member that waits or has a lesson computed looks round and gives signs of life, whatever its program waits for;
 * a process that is stopped or whose machine hangs does not. The leader hears those of all members, they the
 * leader's, and the leader's say which member it suspects. As long as one is suspected no member's patience with a
 * peer ends, since that peer may itself wait for the suspect, over any number of others: so the first that is
 * given up is the one that has stalled.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "world/far/inside.h"

static double between_signs_s(const struct far *w)
{
    return patience_of(w) / 8 < 1 ? patience_of(w) / 8 : 1;
}

static void say_alive(struct far *w, double now)
{
    if (now - w->alive_said_s < between_signs_s(w))
        return;
    w->alive_said_s = now;
    if (is_leader(w))
        far_tell_all(w, MSG_ALIVE, w->suspect);
    else
        far_tell(w, 0, MSG_ALIVE, NO_MEMBER, NULL, 0);
    if (!is_leader(w) && !w->has_said_stop && w->watcher.has_to_stop &&
        w->watcher.has_to_stop(w->watcher.ctx)) {
        w->has_said_stop = true;
        far_tell(w, 0, MSG_STOP, 0, NULL, 0);
    }
}

void silence_hear_alive(struct far *w, const struct incoming *m)
{
    if (m->from == 0)
        w->suspect = m->head.tag;
}

bool silence_has_suspect(const struct far *w)
{
    return w->suspect != NO_MEMBER;
}

/* While this process did not listen no member was silent. */
static void leave_out_absence(struct far *w, double now)
{
    double absent_s = now - w->listened_s;
    w->listened_s = now;
    if (absent_s < between_signs_s(w))
        return;
    for (size_t i = 0; i < w->n; i++) {
        struct peer *p = &w->peers[i];
        p->heard_s = p->heard_s + absent_s < now ? p->heard_s + absent_s : now;
    }
}

/* One that has stalled is told, too: if it wakes up it must not go on beside the others. */
static void judge(struct far *w, size_t member, double silent_s)
{
    char name[128], text[192];
    if (silent_s > patience_of(w)) {
        snprintf(text, sizeof text, "%s has stalled (nothing was heard of it for %g s)",
                 far_member_called(w, member, name), patience_of(w));
        far_tell_text(w, member, MSG_GONE, member, text);
        gone_give_up(w, member, text);
    } else if (silent_s > 3 * between_signs_s(w)) {
        w->suspect = member;
    }
}

void silence_look(struct far *w, double now)
{
    leave_out_absence(w, now);
    if (w->says_goodbye || w->is_closed)
        return;
    say_alive(w, now);
    if (is_leader(w) || w->suspect == 0)
        w->suspect = NO_MEMBER;
    for (size_t i = 0; i < (is_leader(w) ? w->n : 1); i++)
        if (i != w->link.self && !w->peers[i].is_gone && !w->peers[i].has_closed)
            judge(w, i, now - w->peers[i].heard_s);
}
