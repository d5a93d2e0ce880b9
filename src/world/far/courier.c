/* courier.c - what travels between the ranks.
 *
 *   packet: a head, and what fits --> copied, and given back to the transport
 *   bodies, if it says so ----------> into memory of the message, in the order of the packets of their sender
 *                                     |
 *                                     +-> arriving (a queue for each sender) -> delivered, in the order of sending
 *
 * Rows are sent from where they lie. Memory for bytes is kept and used again, so that after the first rounds nothing is
 * allocated. A member that waits receives whatever comes, so every send comes to its end as long as its receiver lives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "world/far/inside.h"

/* ---- receiving ---- */

/* On a network that is slower than the real one: a receiver's card serves one message at a time. */
static double due_s(struct far *w, const struct incoming *m, double now)
{
    const struct network_settings *net = &w->stage->experiment->network;
    if (!net->written || m->head.kind > LAST_OF_AGENTS)
        return now;
    struct wire wire = network_wire(net, m->from, w->link.self);
    double start = now > w->card_in_s ? now : w->card_in_s;
    if (wire.bytes_per_s > 0)
        w->card_in_s = start = start + (double)m->head.n_bytes / wire.bytes_per_s;
    return (wire.bytes_per_s > 0 ? start : now) + wire.latency_s;
}

void courier_refuse(struct far *w, size_t from)
{
    char name[128];
    wait_break_off(
        w, FAIL(FAULT_DATA,
                "%s sent what cannot be read: the network between damages it, or another program is there",
                far_member_called(w, from, name)));
}

/* An offer is of rows that can be seen from here. */
static bool read_packet(struct far *w, size_t from, const unsigned char *packet, size_t n, struct head *h,
                        struct places *places)
{
    if (!packet_read_head(&w->bounds, from, packet, n, h))
        return false;
    return !h->offer ||
           (w->peers[from].rows && packet_read_places(&w->bounds, h, packet + HEAD_BYTES, places));
}

static void take_packet(struct far *w, size_t from, const unsigned char *packet, size_t n)
{
    struct peer *p = &w->peers[from];
    struct head h;
    struct places places;
    if (p->is_gone)
        return; /* it was given up: what it says is of no use any more */
    if (!read_packet(w, from, packet, n, &h, &places)) {
        courier_refuse(w, from);
        return;
    }
    size_t n_bytes = h.offer ? sizeof places : (size_t)h.n_bytes;
    struct incoming *m = incoming_new(w, n_bytes);
    if (!m) {
        wait_break_off(w, OUT_OF_MEMORY);
        return;
    }
    m->from = from;
    m->head = h;
    struct stretch stretches[MOST_BODIES];
    unsigned char *at = m->bytes;
    m->n_bodies = message_cut(w, &h, stretches);
    if (h.offer)
        memcpy(at, &places, sizeof places);
    else if (n_bytes <= INLINE_BYTES)
        memcpy(at, packet + HEAD_BYTES, n_bytes);
    for (int i = 0; i < m->n_bodies; i++) {
        w->transport->ops->recv_body(w->transport, from, at, stretches[i].n_bytes, &m->bodies[i]);
        at += stretches[i].n_bytes;
    }
    p->heard_s = clock_now_s();
    p->has_left = h.kind == MSG_FAREWELL;
    if (h.kind <= LAST_OF_AGENTS)
        lessons_expect_traffic(w);
    m->due_s = due_s(w, m, p->heard_s);
    *p->arriving_end = m;
    p->arriving_end = &m->next;
}

enum { MOST_PACKETS = 16 }; /* at one time */

static void take_packets(struct far *w)
{
    const unsigned char *packet;
    size_t from, n;
    for (int i = 0; i < MOST_PACKETS && (packet = w->transport->ops->next_packet(w->transport, &from, &n));
         i++)
        take_packet(w, from, packet, n);
}

static void add_last(struct incoming ***end, struct incoming *m)
{
    m->next = NULL;
    **end = m;
    *end = &m->next;
}

/* False: it is none. */
static bool read_text(const struct incoming *m, char text[MOST_TEXT])
{
    return packet_read_texts(m->bytes, (size_t)m->head.n_bytes, &text, 1, MOST_TEXT);
}

static void hear_of_failure(struct far *w, const struct incoming *m, const char *text)
{
    char name[128];
    wait_break_off(w,
                   FAIL((enum fault_kind)m->head.tag, "%s: %s", far_member_called(w, m->from, name), text));
}

static void hear_note(struct far *w, const struct incoming *m)
{
    char kind[MOST_TEXT], text[MOST_TEXT];
    if (packet_read_texts(m->bytes, (size_t)m->head.n_bytes, (char *const[]){kind, text}, 2, MOST_TEXT))
        w->watcher.note(w->watcher.ctx, far_now_s(w), m->from, kind, text);
    else
        courier_refuse(w, m->from);
}

/* Those that carry a text. */
static void hear_text(struct far *w, const struct incoming *m)
{
    char text[MOST_TEXT];
    if (!read_text(m, text))
        courier_refuse(w, m->from);
    else if (m->head.kind == MSG_DISSOLVE)
        mail_hear_of_dissolution(w, m->head.tag, text);
    else if (m->head.kind == MSG_GONE)
        gone_hear(w, (size_t)m->head.tag, text);
    else
        hear_of_failure(w, m, text);
}

/* A question is heard when it is answered. */
static void count_heard(struct far *w, size_t from)
{
    w->heard++;
    w->peers[from].heard++;
}

static void deliver(struct far *w, struct incoming *m)
{
    if (m->head.kind <= LAST_OF_AGENTS && m->head.kind != MSG_ASK_AVERAGE && m->head.kind != MSG_ASK_ADOPT)
        count_heard(w, m->from);
    switch (m->head.kind) {
    case MSG_ROWS:
    case MSG_BYTES:
        mail_arrives(w, m);
        return;
    case MSG_ASK_AVERAGE:
    case MSG_ASK_ADOPT:
        add_last(&w->asked_end, m);
        return;
    case MSG_ASK_ROUND:
        if (!ask_try_to_answer(w, m))
            incoming_drop(w, m);
        return;
    case MSG_AVERAGE:
    case MSG_ADOPT:
    case MSG_ROUND:
        ask_hear_answer(w, m);
        return;
    case MSG_DISSOLVE:
        w->link.counts.received++;
        hear_text(w, m);
        break;
    case MSG_ENDED:
        w->peers[m->from].has_ended = true;
        break;
    case MSG_GONE:
    case MSG_FAILED:
        hear_text(w, m);
        break;
    case MSG_NOTE:
        hear_note(w, m);
        break;
    case MSG_ALIVE:
        silence_hear_alive(w, m);
        break;
    case MSG_STOP:
    case MSG_HOLD:
    case MSG_AT:
    case MSG_PAUSED:
    case MSG_RUN_TO:
    case MSG_PROBE:
    case MSG_STATE:
    case MSG_WARM_UP:
    case MSG_STILL:
    case MSG_GO:
        pause_hear(w, m);
        break;
    case MSG_EXAMINED:
    case MSG_READ_BACK:
        look_hear(w, m);
        return;
    case MSG_CLOSED:
        w->peers[m->from].has_closed = true;
        break;
    case MSG_FETCHED:
        sendings_hear_of_fetching(w, m->from, m->head.tag);
        break;
    case MSG_FAREWELL:
        break;
    default:
        look_serve(w, m);
    }
    incoming_drop(w, m);
}

static bool is_whole(struct far *w, struct incoming *m)
{
    while (m->n_bodies && w->transport->ops->is_through(w->transport, &m->bodies[m->n_bodies - 1]))
        m->n_bodies--;
    return !m->n_bodies;
}

bool courier_all_is_here(struct far *w)
{
    for (size_t i = 0; i < w->n; i++) {
        for (struct incoming *m = w->peers[i].arriving; m; m = m->next)
            if (!is_whole(w, m))
                return false;
        if (i != w->link.self && !w->peers[i].has_left)
            return false;
    }
    return true;
}

static void deliver_what_is_here(struct far *w)
{
    double now = 0;
    for (size_t i = 0; i < w->n; i++)
        for (struct peer *p = &w->peers[i]; p->arriving;) {
            struct incoming *m = p->arriving;
            if (m->due_s > now)
                now = clock_now_s();
            if (!is_whole(w, m) || m->due_s > now)
                break;
            p->arriving = m->next;
            if (!p->arriving)
                p->arriving_end = &p->arriving;
            deliver(w, m);
        }
}

static void answer_questions(struct far *w)
{
    for (struct incoming **at = &w->asked; *at;) {
        struct incoming *m = *at, *next = m->next;
        size_t from = m->from;
        if (!ask_try_to_answer(w, m)) {
            at = &m->next;
            continue;
        }
        count_heard(w, from);
        *at = next;
    }
    w->asked_end = &w->asked;
    while (*w->asked_end)
        w->asked_end = &(*w->asked_end)->next;
}

void courier_progress(struct far *w)
{
    take_packets(w);
    deliver_what_is_here(w);
    sendings_look_after(w);
    if (w->asked)
        answer_questions(w);
    if (w->lessons.is_running && w->lessons.job == JOB_EXAM && !is_leader(w) && lessons_job_is_over(w))
        look_serve_exam(w);
    double now = clock_now_s();
    gone_look(w, now);
    silence_look(w, now);
}

/* ---- opening and closing ---- */

fault courier_open(struct far *w)
{
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* so that a nap is as short as it is meant to be */
    w->piece_bytes = w->transport->most_bytes;
    w->bounds = (struct packet_bounds){.n_members = w->n,
                                       .self = w->link.self,
                                       .most_bytes = MOST_BODIES * w->piece_bytes,
                                       .memory_bytes = w->engine->shared ? w->engine->shared->n_bytes : 0};
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        w->bounds.floats[row] = floats_of(w, row);
    w->peers = calloc(w->n, sizeof *w->peers);
    if (!w->peers)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < w->n; i++) {
        w->peers[i].arriving_end = &w->peers[i].arriving;
        w->peers[i].heard_s = clock_now_s();
    }
    return OK;
}

/* One that has not come whole is left to the transport, which may still write it. */
static void free_messages(struct far *w, struct incoming *m)
{
    while (m) {
        struct incoming *next = m->next;
        if (is_whole(w, m)) {
            free(m->bytes);
            free(m);
        }
        m = next;
    }
}

/* What is still on its way is let go: where all went well nothing is. */
void courier_close(struct far *w)
{
    for (size_t i = 0; w->peers && i < w->n; i++) {
        free_messages(w, w->peers[i].arriving);
        incoming_drop(w, w->peers[i].seen);
    }
    free_messages(w, w->mail);
    free_messages(w, w->asked);
    if (w->answer)
        incoming_drop(w, w->answer);
    while (w->free_messages) {
        struct incoming *next = w->free_messages->next;
        free(w->free_messages);
        w->free_messages = next;
    }
    sendings_forget(w);
    message_free_blanks(w);
    fetch_forget_rows(w);
    free(w->peers);
}
