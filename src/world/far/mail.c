/* mail.c - what agents send each other: in the mail until it is received, forgotten, or its group dissolved. */
#include <stdio.h>
#include <string.h>

#include "world/far/inside.h"

static bool is_dissolved(const struct far *w, uint64_t tag)
{
    return tag >= TAG_GROUP && tag < w->dissolved;
}

void mail_arrives(struct far *w, struct incoming *m)
{
    if (is_dissolved(w, m->head.tag)) {
        w->link.counts.unread++;
        incoming_drop(w, m);
        return;
    }
    m->next = NULL;
    *w->mail_end = m;
    w->mail_end = &m->next;
}

/* Takes the message out of the mail that `at` points to. */
static struct incoming *take_out(struct far *w, struct incoming **at)
{
    struct incoming *m = *at;
    *at = m->next;
    if (!m->next)
        w->mail_end = at;
    m->next = NULL;
    return m;
}

static void forget_between(struct far *w, uint64_t first, uint64_t end)
{
    for (struct incoming **at = &w->mail; *at;)
        if ((*at)->head.tag < first || (*at)->head.tag >= end) {
            at = &(*at)->next;
        } else {
            incoming_drop(w, take_out(w, at));
            w->link.counts.unread++;
        }
}

void mail_hear_of_dissolution(struct far *w, uint64_t below, const char *why)
{
    if (below == 0)
        far_dissolve(&w->link, (w->dissolved | TAG_GROUP) + (1ull << TAG_GENERATION), why);
    if (below <= w->dissolved)
        return;
    w->dissolved = below;
    forget_between(w, TAG_GROUP, below);
    snprintf(w->why_dissolved, sizeof w->why_dissolved, "%s", why);
}

void far_dissolve(struct link *l, uint64_t below, const char *why)
{
    struct far *w = far_of(l);
    char text[sizeof w->why_dissolved];
    if (below && below <= w->dissolved)
        return;
    snprintf(text, sizeof text, "%s", why);
    if (below)
        mail_hear_of_dissolution(w, below, text);
    for (size_t to = 0; to < w->n; to++)
        if (to != l->self && !w->peers[to].is_gone) {
            l->counts.messages++;
            l->counts.bytes += strlen(text) + 1;
            far_tell_text(w, to, MSG_DISSOLVE, below, text);
        }
}

uint64_t far_dissolved(const struct link *l)
{
    return far_in(l)->dissolved;
}

static fault must_be_there(const struct far *w, size_t peer)
{
    char name[128];
    return w->peers[peer].is_gone ? FAIL(FAULT_PEER, "%s is gone", far_member_called(w, peer, name)) : OK;
}

fault far_send_rows(struct link *l, size_t to, uint64_t tag, struct span span)
{
    struct far *w = far_of(l);
    TRY(must_be_there(w, to));
    l->counts.messages++;
    l->counts.bytes += packet_span_bytes(&w->bounds, span);
    far_tell_rows(w, to, MSG_ROWS, tag, span);
    courier_progress(w);
    return OK;
}

fault far_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    struct far *w = far_of(l);
    TRY(must_be_there(w, to));
    l->counts.messages++;
    l->counts.bytes += n;
    far_tell(w, to, MSG_BYTES, tag, bytes, n);
    courier_progress(w);
    return OK;
}

/* ---- receiving ---- */

struct wanted {
    size_t from;
    uint64_t tag;
};

static bool fits(const struct incoming *m, const struct wanted *x)
{
    return m->head.tag == x->tag && (m->from == x->from || x->from == ANYONE);
}

/* Nothing more will come: what its program had sent was delivered before the word that it has ended. What I have sent to myself may
 * still be on its way. */
static bool has_said_all(const struct far *w, size_t whom)
{
    if (whom != ANYONE)
        return w->peers[whom].has_ended;
    for (size_t i = 0; i < w->n; i++)
        if (i != w->link.self && !w->peers[i].has_ended)
            return false;
    return w->peers[w->link.self].sent == w->peers[w->link.self].heard;
}

static bool has_come(const struct far *w, const void *ctx)
{
    const struct wanted *x = ctx;
    for (const struct incoming *m = w->mail; m; m = m->next)
        if (fits(m, x))
            return true;
    return is_dissolved(w, x->tag) || has_said_all(w, x->from);
}

static struct incoming *take_mail(struct far *w, const struct wanted *x)
{
    for (struct incoming **at = &w->mail; *at; at = &(*at)->next)
        if (fits(*at, x)) {
            w->link.counts.received++;
            return take_out(w, at);
        }
    return NULL;
}

/* What a member waits for a peer while its own lesson goes on is no loss. */
void mail_count_own_wait(struct far *w, size_t peer, double since_s)
{
    double now = far_now_s(w), from = since_s > w->lessons.ended_s ? since_s : w->lessons.ended_s;
    if (w->lessons.is_running || now <= from)
        return;
    w->link.counts.waiting_s += now - from;
    waits_count(&w->waits, w->link.self, peer, now - from);
}

static fault wait_for_mail(struct far *w, struct wanted x, struct incoming **out)
{
    double since = far_now_s(w);
    fault f = has_come(w, &x) ? OK : wait_until(w, has_come, &x, x.from);
    *out = f || is_dissolved(w, x.tag) ? NULL : take_mail(w, &x);
    mail_count_own_wait(w, *out ? (*out)->from : x.from, since);
    if (!f && !*out)
        return FAIL(FAULT_PEER, "%s", is_dissolved(w, x.tag) ? w->why_dissolved : "it has come to its end");
    return f;
}

fault far_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    struct far *w = far_of(l);
    struct incoming *m;
    TRY(wait_for_mail(w, (struct wanted){from, tag}, &m));
    if (m->head.offer) {
        m->next_in_hand = w->in_hand;
        w->in_hand = m;
    }
    out->rows = m;
    if (sender)
        *sender = m->from;
    return OK;
}

fault far_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender)
{
    struct far *w = far_of(l);
    struct incoming *m;
    TRY(wait_for_mail(w, (struct wanted){from, tag}, &m));
    fault f = OK;
    if (m->head.kind != MSG_BYTES || m->head.n_bytes != n)
        f = FAIL(FAULT_USAGE, "agent %zu sent %zu bytes where agent %zu expects %zu", m->from,
                 (size_t)m->head.n_bytes, l->self, n);
    else
        memcpy(bytes, m->bytes, n);
    if (!f && sender)
        *sender = m->from;
    incoming_drop(w, m);
    return f;
}

void far_drop(struct link *l, struct parcel *p)
{
    incoming_drop(far_of(l), p->rows);
    p->rows = NULL;
}

/* Agents ask in loops that do not wait, so this is a moment to look what has come. */
bool far_has_mail(const struct link *l, uint64_t tag)
{
    struct far *w = far_of((struct link *)l);
    courier_progress(w);
    for (const struct incoming *m = w->mail; m; m = m->next)
        if (m->head.tag == tag)
            return true;
    return false;
}

void far_forget(struct link *l, uint64_t tag)
{
    forget_between(far_of(l), 0, tag);
}
