/* verbs.c - what agents may ask for, on a virtual clock. A verb that takes time leaves an entry on the agenda
 * and parks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/machines.h"
#include "world/local/inside.h"

static struct actor *actor_of(struct link *l)
{
    return (struct actor *)l;
}

/* A machine that is down does nothing more. */
#define MUST_BE_UP(a)                                                                                        \
    do {                                                                                                     \
        if (!(a)->alive)                                                                                     \
            return FAIL(FAULT_CRASH, "the machine of agent %zu is down", (a)->link.self);                    \
    } while (0)

static fault gone(const struct actor *a, size_t peer)
{
    return FAIL(FAULT_PEER, "agent %zu cannot be reached from agent %zu", peer, a->link.self);
}

static double local_link_now(const struct link *l)
{
    return ((const struct actor *)l)->world->now_s;
}

static fault local_sleep(struct link *l, double seconds)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    TRY(expect(a->world, a->world->now_s + seconds, MOMENT_WAKE, a, 0, NULL));
    return park(a);
}

static fault local_learn(struct link *l, uint64_t lesson)
{
    struct actor *a = actor_of(l);
    const struct experiment *e = a->world->stage->experiment;
    MUST_BE_UP(a);
    TRY(about_to_write(a, ROW_STATS));
    TRY(tape_learn(a->world->tape, l->self, lesson));
    a->writes_at_lesson = a->writes;
    a->has_gradient = true;
    double slowdown = machine_slowdown(&e->machines, a->world->stage->seed, l->self, lesson);
    return local_sleep(l, (double)e->data.batch / (e->machines.rate * a->speed) * slowdown);
}

static fault local_update(struct link *l, double lr, uint64_t t)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    TRY(about_to_write(a, ROW_PARAMS));
    TRY(about_to_write(a, ROW_SLOT0));
    TRY(about_to_write(a, ROW_SLOT1));
    a->writes++;
    a->has_gradient = false;
    return tape_update(a->world->tape, l->self, lr, t);
}

/* ---- messages ---- */

static struct message *message_new(struct local *w)
{
    struct message *m = w->free_messages;
    if (m)
        w->free_messages = m->next;
    else
        m = malloc(sizeof *m);
    if (m)
        *m = (struct message){0};
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

void drop_mail(struct actor *a)
{
    while (a->mail) {
        struct message *next = a->mail->next;
        message_free(a->world, a->mail);
        a->mail = next;
        a->link.counts.unread++;
    }
    a->mail_end = &a->mail;
}

fault arrive(struct local *w, struct message *m)
{
    struct actor *to = &w->actors[m->to];
    if (m->given_up || !can_reach(w, m->from, m->to)) {
        w->actors[m->from].link.counts.lost++;
        message_free(w, m);
        return OK;
    }
    *to->mail_end = m;
    to->mail_end = &m->next;
    if (to->life == LIFE_PARKED && to->receives && to->tag == m->tag &&
        (to->from == m->from || to->from == ANYONE))
        wake(to, OK);
    return OK;
}

static fault post(struct actor *a, struct message *m, size_t n_bytes)
{
    struct local *w = a->world;
    double at_s = transfer(w, a, &w->actors[m->to], n_bytes);
    m->number = w->posted++;
    if (at_s <= w->now_s)
        return arrive(w, m);
    return agenda_add(
        &w->agenda, (struct moment){.at_s = at_s, .kind = MOMENT_ARRIVE, .who = (uint32_t)m->to, .what = m});
}

static size_t bytes_of_rows(const struct local *w, row_set rows)
{
    size_t n = 0;
    for (int row = 0; row < N_ROWS; row++)
        if (rows & 1u << row)
            n += row_size(&w->engine->setup, (enum row)row) * sizeof(float);
    return n;
}

static fault fill_rows(struct actor *a, struct message *m, row_set rows)
{
    for (int row = 0; row < N_ROWS; row++)
        if (rows & 1u << row && row_size(&a->world->engine->setup, (enum row)row)) {
            TRY(snapshot_take(a, (enum row)row, &m->rows[m->n_rows]));
            m->n_rows++;
        }
    return OK;
}

static fault local_send_rows(struct link *l, size_t to, uint64_t tag, row_set rows)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    if (!can_reach(a->world, l->self, to))
        return gone(a, to);
    struct message *m = message_new(a->world);
    if (!m)
        return OUT_OF_MEMORY;
    m->from = l->self;
    m->to = to;
    m->tag = tag;
    fault f = fill_rows(a, m, rows);
    if (f) {
        message_free(a->world, m);
        return f;
    }
    return post(a, m, bytes_of_rows(a->world, rows));
}

static fault local_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    if (!can_reach(a->world, l->self, to))
        return gone(a, to);
    struct message *m = message_new(a->world);
    void *copy = m ? malloc(n ? n : 1) : NULL;
    if (!copy) {
        free(m);
        return OUT_OF_MEMORY;
    }
    memcpy(copy, bytes, n);
    m->from = l->self;
    m->to = to;
    m->tag = tag;
    m->bytes = copy;
    m->n_bytes = n;
    return post(a, m, n);
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

bool give_up_oldest(struct local *w, enum row row)
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

static fault add_deadline(struct actor *a)
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

static fault wait_for_mail(struct actor *a, size_t from, uint64_t tag, struct message **out)
{
    MUST_BE_UP(a);
    struct message *m = take_mail(a, from, tag);
    if (!m) {
        if (from != ANYONE && !can_reach(a->world, a->link.self, from))
            return gone(a, from);
        double since = a->world->now_s;
        TRY(add_deadline(a));
        a->receives = true;
        a->from = from;
        a->tag = tag;
        fault f = park(a);
        a->receives = false;
        a->link.counts.waiting_s += a->world->now_s - since;
        TRY(f);
        m = take_mail(a, from, tag);
        if (!m)
            return FAIL(FAULT_PEER, "what agent %zu was sent is given up: too many rows are under way",
                        a->link.self);
    }
    *out = m;
    return OK;
}

static fault local_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out)
{
    struct message *m;
    TRY(wait_for_mail(actor_of(l), from, tag, &m));
    out->rows = m;
    return OK;
}

static fault local_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender)
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

static void local_drop(struct link *l, struct parcel *p)
{
    if (p->rows)
        message_free(actor_of(l)->world, p->rows);
    p->rows = NULL;
}

static void local_forget(struct link *l, uint64_t tag)
{
    struct actor *a = actor_of(l);
    struct message **at = &a->mail;
    while (*at) {
        struct message *m = *at;
        if (m->tag >= tag) {
            at = &m->next;
            continue;
        }
        take_out(a, at);
        a->link.counts.unread++;
        message_free(a->world, m);
    }
}

/* ---- rows ---- */

enum { MOST_TERMS = 64 };

static const struct snapshot *row_in(const struct message *m, enum row row)
{
    for (size_t i = 0; i < m->n_rows; i++)
        if (m->rows[i]->row == row)
            return m->rows[i];
    return NULL;
}

/* mine = self * mine + the parcels' rows, as one blend. Terms beyond the stack's room come from the heap. */
static fault blend_row(struct actor *a, enum row row, double self, const struct parcel *parcels,
                       const double *weights, size_t n)
{
    size_t from_here[MOST_TERMS], *from = from_here;
    float weights_here[MOST_TERMS], *w = weights_here;
    if (n + 1 > MOST_TERMS) {
        from = malloc((n + 1) * sizeof *from);
        w = malloc((n + 1) * sizeof *w);
    }
    fault f = from && w ? about_to_write(a, row) : OUT_OF_MEMORY;
    if (!f) {
        size_t terms = 0;
        from[terms] = a->link.self;
        w[terms++] = (float)self;
        for (size_t i = 0; i < n; i++) {
            const struct snapshot *s = row_in(parcels[i].rows, row);
            if (!s)
                continue;
            from[terms] = s->at;
            w[terms++] = (float)weights[i];
        }
        f = tape_blend(a->world->tape, (struct blend){row, a->link.self, NO_ROW, from, w, terms});
    }
    if (from != from_here)
        free(from);
    if (w != weights_here)
        free(w);
    return f;
}

static fault local_mix(struct link *l, row_set rows, double self, struct parcel *parcels,
                       const double *weights, size_t n)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    fault f = OK;
    for (int row = 0; !f && row < N_ROWS; row++)
        if (rows & 1u << row && row_size(&a->world->engine->setup, (enum row)row))
            f = blend_row(a, (enum row)row, self, parcels, weights, n);
    if (rows & ROWS_PARAMS)
        a->writes++;
    for (size_t i = 0; i < n; i++)
        local_drop(l, &parcels[i]);
    return f;
}

static double later_of(double a, double b)
{
    return a > b ? a : b;
}

/* Until the rows are there, which `kind` of moment will see to, or patience is at its end. */
static fault wait_for_rows(struct actor *a, double at_s, int kind, size_t peer, void *what)
{
    double since = a->world->now_s;
    TRY(expect(a->world, at_s, kind, a, peer, what));
    TRY(add_deadline(a));
    a->from = peer;
    fault f = park(a);
    a->link.counts.waiting_s += a->world->now_s - since;
    return f;
}

static fault local_average(struct link *l, size_t peer, row_set rows)
{
    struct actor *a = actor_of(l);
    struct local *w = a->world;
    MUST_BE_UP(a);
    if (!can_reach(w, l->self, peer))
        return gone(a, peer);
    struct actor *b = &w->actors[peer];
    size_t n_bytes = bytes_of_rows(w, rows);
    double there = transfer(w, a, b, n_bytes), back = transfer(w, b, a, n_bytes);
    if (later_of(there, back) <= w->now_s)
        return average_now(w, a, b, rows);
    return wait_for_rows(a, later_of(there, back), MOMENT_AVERAGE, peer, (void *)(uintptr_t)rows);
}

void average_lost(struct actor *a, struct actor *peer)
{
    a->link.counts.lost++;
    peer->link.counts.lost++;
}

fault average_now(struct local *w, struct actor *a, struct actor *peer, row_set rows)
{
    if (!can_reach(w, a->link.self, peer->link.self)) {
        average_lost(a, peer);
        return gone(a, peer->link.self);
    }
    size_t i = a->link.self, j = peer->link.self, from[2] = {i < j ? i : j, i < j ? j : i};
    float halves[2] = {0.5f, 0.5f};
    for (int row = 0; row < N_ROWS; row++)
        if (rows & 1u << row && row_size(&w->engine->setup, (enum row)row)) {
            TRY(about_to_write(a, (enum row)row));
            TRY(about_to_write(peer, (enum row)row));
            TRY(tape_blend(w->tape, (struct blend){(enum row)row, i, j, from, halves, 2}));
        }
    a->writes++;
    peer->writes++;
    a->link.counts.received++;
    peer->link.counts.received++;
    return OK;
}

static const row_set everything = ROWS_PARAMS | ROWS_STATS | ROWS_SLOTS;

static fault local_adopt(struct link *l, size_t peer)
{
    struct actor *a = actor_of(l);
    struct local *w = a->world;
    MUST_BE_UP(a);
    if (!can_reach(w, l->self, peer))
        return gone(a, peer);
    double at_s = transfer(w, &w->actors[peer], a, bytes_of_rows(w, everything));
    if (at_s <= w->now_s)
        return adopt_now(w, a, &w->actors[peer]);
    return wait_for_rows(a, at_s, MOMENT_ADOPT, peer, NULL);
}

fault adopt_now(struct local *w, struct actor *a, struct actor *peer)
{
    if (!can_reach(w, a->link.self, peer->link.self)) {
        peer->link.counts.lost++;
        return gone(a, peer->link.self);
    }
    float one = 1;
    for (int row = 0; row < N_ROWS; row++)
        if (everything & 1u << row && row_size(&w->engine->setup, (enum row)row)) {
            TRY(about_to_write(a, (enum row)row));
            TRY(tape_blend(w->tape,
                           (struct blend){(enum row)row, a->link.self, NO_ROW, &peer->link.self, &one, 1}));
        }
    a->writes++;
    a->link.counts.received++;
    return OK;
}

static bool local_takes_part(const struct link *l, size_t peer, uint64_t k)
{
    const struct actor *a = (const struct actor *)l;
    /* a peer that came to its end did take part: what it sent before may still be under way */
    return can_reach(a->world, l->self, peer) && k >= takes_part_from(a->world, l->self, peer);
}

static uint64_t local_staleness(const struct link *l)
{
    const struct actor *a = (const struct actor *)l;
    return a->writes - a->writes_at_lesson;
}

static void local_note(struct link *l, const char *kind, const char *text)
{
    say(actor_of(l)->world, l->self, kind, text);
}

const struct link_ops local_link = {
    .name = "local",
    .now_s = local_link_now,
    .sleep = local_sleep,
    .learn = local_learn,
    .update = local_update,
    .send_rows = local_send_rows,
    .recv_rows = local_recv_rows,
    .drop = local_drop,
    .mix = local_mix,
    .send = local_send,
    .recv = local_recv,
    .average = local_average,
    .adopt = local_adopt,
    .forget = local_forget,
    .takes_part = local_takes_part,
    .staleness = local_staleness,
    .note = local_note,
};
