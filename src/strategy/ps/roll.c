/* roll.c - who asks a server or node: who is active, whom one waits for, who is given up, and when all
 * have left.
 *
 *   active --(cannot be reached)--> gone       --(can be reached)--> active
 *          --(others waited)------> silent     --(writes)----------> active
 *          --(says goodbye)-------> has left
 *
 * Whoever cannot be reached is done without at once where that shows, and within patience otherwise; whoever
 * is silent while others wait is done without after patience. Both are named, and welcome when they are back.
 */
#include <stdio.h>

#include "strategy/ps/inside.h"

static void note_child(const struct ps_helper *h, size_t child, const char *kind, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s %zu goes on without %s %zu, which %s", name_of(h), h->agent->index,
             child < ps_of(h->agent)->n_workers ? "agent" : "node", child, what);
    link_note(h->agent->link, kind, text);
}

bool ps_is_active(const struct ps_helper *h, size_t i)
{
    const struct ps_child *c = &h->children[i];
    return c->known && !c->gone && !c->silent && !has_said_goodbye(c) && !has_ended(h, i);
}

bool ps_is_awaited(const struct ps_helper *h, size_t i)
{
    return ps_is_active(h, i) && !h->children[i].waiting;
}

void ps_look_who_is_gone(struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        bool gone = c->known && !has_said_goodbye(c) && !can_reach(h, i);
        if (gone && !c->gone && h->leads)
            note_child(h, i, "gone", "cannot be reached");
        c->gone = gone;
    }
}

/* For the others, that is. At the end a server waits for as long as somebody lives, a node does not: whoever
 * comes after it has ended asks the servers. */
bool ps_somebody_waits(const struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].waiting && (h->is_node || !has_said_goodbye(&h->children[i])))
            return true;
    return false;
}

/* Somebody has been waiting for patience, and these have not been heard for as long. */
void ps_look_who_is_silent(struct ps_helper *h)
{
    double enough = h->agent->stage->experiment->network.patience_s * (1 - 1e-9), now = now_s(h);
    if (!h->is_awaited)
        h->awaited_since = now;
    h->is_awaited = ps_somebody_waits(h);
    if (!h->is_awaited || now - h->awaited_since < enough)
        return;
    for (size_t i = 0; i < n_members(h); i++)
        if (ps_is_awaited(h, i) && now - h->children[i].since >= enough) {
            h->children[i].silent = true;
            note_child(h, i, "silent", "has not been heard for too long");
        }
}

/* Where only one can matter next its going away is noticed at once. */
size_t ps_next_to_hear(const struct ps_helper *h)
{
    const struct ps_shared *s = ps_of(h->agent);
    size_t first = ANYONE, n = 0;
    if (!h->leads || h->listens_to_all || s->has_standbys || s->settings.tree > 1 ||
        s->settings.pull_every % s->settings.push_every)
        return ANYONE; /* who is not expected may come, too, or somebody who only pulls */
    for (size_t i = 0; i < s->n_workers; i++) {
        if (h->children[i].silent)
            return ANYONE;
        if (ps_is_awaited(h, i) && n++ == 0)
            first = i;
    }
    return n == 1 || s->settings.mode == PS_SYNC ? first : ANYONE;
}

uint64_t ps_slowest_clock(const struct ps_helper *h)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n_members(h); i++)
        if (ps_is_active(h, i) && h->children[i].ask.clock < least)
            least = h->children[i].ask.clock;
    return least;
}

bool ps_has_taken_leave(const struct ps_helper *h, size_t member)
{
    for (size_t i = member; i != NO_NODE; i = ps_parent(ps_of(h->agent), i))
        if (h->children[i].known)
            return has_said_goodbye(&h->children[i]);
    return false;
}

static bool is_done_with(const struct ps_helper *h, size_t worker)
{
    return has_ended(h, worker) || !can_reach(h, worker) || ps_has_taken_leave(h, worker);
}

static bool is_done_with_all(const struct ps_helper *h)
{
    for (size_t i = 0; i < ps_of(h->agent)->n_workers; i++)
        if (!is_done_with(h, i))
            return false;
    return true;
}

static bool has_heard_goodbye(const struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].known && has_said_goodbye(&h->children[i]))
            return true;
    return false;
}

bool ps_has_finished(const struct ps_helper *h)
{
    if (!has_heard_goodbye(h))
        return false;
    for (size_t i = 0; h->is_node && i < n_members(h); i++)
        if (ps_is_active(h, i))
            return false;
    return h->is_node || is_done_with_all(h);
}
