/* mail.c - messages: sent, under way, in the mail, waited for, given up.
 *
 *   send -> (the wires) -> arrive -> mail -> received | forgotten
 *                            |
 *                            +-> lost: its receiver is gone, or it was given up to make room
 *
 * Every message ends in exactly one of these, and is counted there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/local/inside.h"

static struct message *message_new(struct local *w)
{
    struct message *m = w->free_messages;
    if (m)
        w->free_messages = m->next;
    else
        m = malloc(sizeof *m);
    if (m)
        memset(m, 0, offsetof(struct message, rows));
    return m;
}

void message_free(struct local *w, struct message *m)
{
    for (size_t i = 0; i < m->n_rows; i++)
        snapshot_drop(w, m->rows[i]);
    free(m->bytes);
    m->next = w->free_messages;
    w->free_messages = m;
}

void actor_drop_mail(struct actor *a)
{
    while (a->mail) {
        struct message *next = a->mail->next;
        message_free(a->world, a->mail);
        a->mail = next;
        a->link.counts.unread++;
    }
    a->mail_end = &a->mail;
}

/* Takes the message out of the mail that `at` points to. */
static void take_out(struct actor *a, struct message **at)
{
    struct message *m = *at;
    *at = m->next;
    if (!m->next)
        a->mail_end = at;
    m->next = NULL;
}

static void forget_between(struct actor *a, uint64_t first, uint64_t end)
{
    struct message **at = &a->mail;
    while (*at) {
        struct message *m = *at;
        if (m->tag < first || m->tag >= end) {
            at = &m->next;
            continue;
        }
        take_out(a, at);
        a->link.counts.unread++;
        message_free(a->world, m);
    }
}

/* Of the generation after the one a tag is of. */
static uint64_t next_generation(uint64_t tag)
{
    return (tag | TAG_GROUP) + (1ull << TAG_GENERATION);
}

static bool is_dissolved(const struct actor *a, uint64_t tag)
{
    return tag >= TAG_GROUP && tag < a->dissolved;
}

static void hear_of_dissolution(struct actor *a, uint64_t below, const char *why)
{
    if (below == 0)
        local_dissolve(&a->link, next_generation(a->dissolved), why);
    if (below <= a->dissolved)
        return;
    a->dissolved = below;
    forget_between(a, TAG_GROUP, below);
    snprintf(a->why_dissolved, sizeof a->why_dissolved, "%s", why);
    if (a->life == LIFE_PARKED && a->receives && is_dissolved(a, a->tag))
        actor_wake(a, FAIL(FAULT_PEER, "%s", why));
}

fault message_arrive(struct local *w, struct message *m)
{
    struct actor *to = &w->actors[m->to];
    if (m->given_up || !wires_get_through(w, m->from, m->to)) {
        w->actors[m->from].link.counts.lost++;
        message_free(w, m);
        return OK;
    }
    if (m->dissolves) {
        hear_of_dissolution(to, m->tag, m->bytes);
        to->link.counts.received++;
        message_free(w, m);
        return OK;
    }
    if (is_dissolved(to, m->tag)) {
        to->link.counts.unread++;
        message_free(w, m);
        return OK;
    }
    *to->mail_end = m;
    to->mail_end = &m->next;
    if (to->life == LIFE_PARKED && to->receives && to->tag == m->tag &&
        (to->from == m->from || to->from == ANYONE))
        actor_wake(to, OK);
    return OK;
}

static fault post(struct actor *a, struct message *m, double at_s)
{
    struct local *w = a->world;
    m->number = w->posted++;
    if (at_s <= w->now_s)
        return message_arrive(w, m);
    return agenda_add(
        &w->agenda, (struct moment){.at_s = at_s, .kind = MOMENT_ARRIVE, .who = (uint32_t)m->to, .what = m});
}

/* How many floats of one of its rows a span takes. */
static size_t floats_in(const struct local *w, struct span s, enum row row)
{
    size_t end = smaller(s.end, row_size(&w->engine->setup, row));
    return end > s.first ? end - s.first : 0;
}

size_t actor_floats(const struct actor *a, size_t i, struct span s)
{
    const struct local *w = a->world;
    size_t n = 0;
    for (row_set rows = s.rows; rows; rows = row_set_rest(rows)) {
        enum row row = row_set_first(rows);
        n += a->n_machines == 1 ? floats_in(w, s, row)
                                : team_floats(w->stage->team, i, &w->engine->setup.rows.of[row], s.first, s.end);
    }
    return n;
}

static fault fill_rows(struct actor *a, struct message *m, struct span s)
{
    for (row_set rows = s.rows; rows; rows = row_set_rest(rows)) {
        size_t n = floats_in(a->world, s, row_set_first(rows));
        if (n) {
            TRY(snapshot_take(a, row_set_first(rows), s.first, s.first + n, &m->rows[m->n_rows]));
            m->n_rows++;
        }
    }
    return OK;
}

fault local_send_rows(struct link *l, size_t to, uint64_t tag, struct span span)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    if (!wires_can_reach(a->world, l->self, to))
        return gone(a, to);
    struct message *m = message_new(a->world);
    if (!m)
        return OUT_OF_MEMORY;
    m->from = l->self;
    m->to = to;
    m->tag = tag;
    fault f = fill_rows(a, m, span);
    if (f) {
        message_free(a->world, m);
        return f;
    }
    return post(a, m, wires_carry_rows(a->world, a, &a->world->actors[to], span));
}

static fault send_bytes(struct actor *a, size_t to, uint64_t tag, const void *bytes, size_t n, bool dissolves)
{
    struct message *m = message_new(a->world);
    void *copy = m ? malloc(n ? n : 1) : NULL;
    if (!copy) {
        free(m);
        return OUT_OF_MEMORY;
    }
    memcpy(copy, bytes, n);
    m->from = a->link.self;
    m->to = to;
    m->tag = tag;
    m->bytes = copy;
    m->n_bytes = n;
    m->dissolves = dissolves;
    return post(a, m, wires_carry(a->world, a, &a->world->actors[to], n));
}

fault local_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    if (!wires_can_reach(a->world, l->self, to))
        return gone(a, to);
    return send_bytes(a, to, tag, bytes, n, false);
}

void local_dissolve(struct link *l, uint64_t below, const char *why)
{
    struct actor *a = actor_of(l);
    if (!a->alive || (below && below <= a->dissolved))
        return;
    if (below)
        hear_of_dissolution(a, below, why);
    char text[sizeof a->why_dissolved];
    snprintf(text, sizeof text, "%s", why);
    for (size_t to = 0; to < l->n_members; to++)
        if (to != l->self && wires_can_reach(a->world, l->self, to))
            fault_drop(send_bytes(a, to, below, text, strlen(text) + 1, true));
}

uint64_t local_dissolved(const struct link *l)
{
    return ((const struct actor *)l)->dissolved;
}

/* Takes the first message that fits out of the mail, or NULL. */
static struct message *take_mail(struct actor *a, size_t from, uint64_t tag)
{
    for (struct message **at = &a->mail; *at; at = &(*at)->next)
        if ((*at)->tag == tag && ((*at)->from == from || from == ANYONE)) {
            struct message *m = *at;
            take_out(a, at);
            a->link.counts.received++;
            return m;
        }
    return NULL;
}

bool local_has_mail(const struct link *l, uint64_t tag)
{
    for (const struct message *m = ((const struct actor *)l)->mail; m; m = m->next)
        if (m->tag == tag)
            return true;
    return false;
}

static bool holds_spare(const struct message *m, enum row row)
{
    for (size_t i = 0; i < m->n_rows; i++)
        if (m->rows[i]->row == row && m->rows[i]->at != m->from)
            return true;
    return false;
}

/* The link that points to the oldest message in the mail that holds a spare row, or NULL. */
static struct message **oldest_mail(struct local *w, enum row row)
{
    struct message **oldest = NULL;
    for (size_t i = 0; i < w->n; i++)
        for (struct message **at = &w->actors[i].mail; *at; at = &(*at)->next)
            if (holds_spare(*at, row) && (!oldest || (*at)->number < (*oldest)->number))
                oldest = at;
    return oldest;
}

static struct message *oldest_under_way(const struct local *w, enum row row)
{
    struct message *oldest = NULL;
    for (size_t i = 0; i < w->agenda.n; i++) {
        struct message *m = w->agenda.heap[i].kind == MOMENT_ARRIVE ? w->agenda.heap[i].what : NULL;
        if (m && holds_spare(m, row) && (!oldest || m->number < oldest->number))
            oldest = m;
    }
    return oldest;
}

bool message_give_up_oldest(struct local *w, enum row row)
{
    struct message **at = oldest_mail(w, row), *m = at ? *at : oldest_under_way(w, row);
    if (!m)
        return false;
    char text[128];
    snprintf(text, sizeof text,
             "rows from agent %zu to agent %zu are given up unread: too many are under way", m->from, m->to);
    local_link.note(&w->actors[m->from].link, "given-up", text);
    if (at) {
        take_out(&w->actors[m->to], at);
        w->actors[m->from].link.counts.lost++;
        message_free(w, m);
        return true;
    }
    m->given_up = true;
    while (m->n_rows)
        snapshot_drop(w, m->rows[--m->n_rows]);
    return true;
}

fault actor_add_deadline(struct actor *a)
{
    struct local *w = a->world;
    if (w->n_deadlines == w->deadline_room) {
        size_t room = w->deadline_room ? 2 * w->deadline_room : 64;
        struct deadline *ring = malloc(room * sizeof *ring);
        if (!ring)
            return OUT_OF_MEMORY;
        for (size_t i = 0; i < w->n_deadlines; i++)
            ring[i] = w->deadlines[(w->deadline_first + i) % w->deadline_room];
        free(w->deadlines);
        w->deadlines = ring;
        w->deadline_room = room;
        w->deadline_first = 0;
    }
    w->deadlines[(w->deadline_first + w->n_deadlines++) % w->deadline_room] = (struct deadline){
        w->now_s + w->stage->experiment->network.patience_s, (uint32_t)a->link.self, a->ticket + 1};
    return OK;
}

/* What a member waits for a peer while its own lesson goes on is no loss. */
void actor_count_wait(struct actor *a, size_t peer, double since_s)
{
    double learnt_s = a->lesson_began_s + a->lesson_takes_s, from = since_s > learnt_s ? since_s : learnt_s;
    double seconds = a->world->now_s > from ? a->world->now_s - from : 0;
    a->link.counts.waiting_s += seconds;
    waits_count(&a->world->waits, a->link.self, peer, seconds);
}

static fault wait_for_mail(struct actor *a, size_t from, uint64_t tag, struct message **out)
{
    MUST_BE_UP(a);
    if (is_dissolved(a, tag))
        return FAIL(FAULT_PEER, "%s", a->why_dissolved);
    struct message *m = take_mail(a, from, tag);
    if (!m) {
        if (from != ANYONE && !wires_can_reach(a->world, a->link.self, from))
            return gone(a, from);
        double since = a->world->now_s;
        TRY(actor_add_deadline(a));
        a->receives = true;
        a->from = from;
        a->tag = tag;
        fault f = actor_park(a);
        a->receives = false;
        m = f ? NULL : take_mail(a, from, tag);
        actor_count_wait(a, m ? m->from : from, since);
        TRY(f);
        if (!m)
            return FAIL(FAULT_PEER, "what agent %zu was sent is given up: too many rows are under way",
                        a->link.self);
    }
    *out = m;
    return OK;
}

fault local_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    struct message *m;
    TRY(wait_for_mail(actor_of(l), from, tag, &m));
    out->rows = m;
    if (sender)
        *sender = m->from;
    return OK;
}

fault local_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender)
{
    struct actor *a = actor_of(l);
    struct message *m;
    TRY(wait_for_mail(a, from, tag, &m));
    fault f = OK;
    if (m->n_bytes != n || !m->bytes)
        f = FAIL(FAULT_USAGE, "agent %zu sent %zu bytes where agent %zu expects %zu", m->from, m->n_bytes,
                 l->self, n);
    else
        memcpy(bytes, m->bytes, n);
    if (!f && sender)
        *sender = m->from;
    message_free(a->world, m);
    return f;
}

void local_drop(struct link *l, struct parcel *p)
{
    if (p->rows)
        message_free(actor_of(l)->world, p->rows);
    p->rows = NULL;
}

void local_forget(struct link *l, uint64_t tag)
{
    forget_between(actor_of(l), 0, tag);
}
