/* send.c - what this rank sends: heads and bytes as copies, rows from where they lie, or an offer to read
 * them there. */
#include <stdlib.h>
#include <string.h>

#include "world/far/inside.h"

static struct sending *sending_new(struct far *w, size_t n_bytes)
{
    struct sending *s = w->free_sendings;
    if (s)
        w->free_sendings = s->next;
    else
        s = malloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (struct sending){0};
    if (n_bytes && !(s->copy = message_take_bytes(w, n_bytes, &s->room))) {
        free(s);
        return NULL;
    }
    return s;
}

static void put_on_the_way(struct far *w, struct sending *s, size_t to)
{
    s->to = to;
    s->next = w->sendings;
    w->sendings = s;
}

static void send_body(struct far *w, struct sending *s, const void *bytes, size_t n, size_t to)
{
    w->transport->ops->send_body(w->transport, to, bytes, n, &s->passage);
    put_on_the_way(w, s, to);
}

/* The head, and what follows where it fits; `bytes` NULL: of rows. An offer is followed by its places. */
static void send_packet(struct far *w, size_t to, const struct head *h, const unsigned char *bytes,
                        const struct places *places)
{
    if (w->peers[to].is_gone)
        return;
    bool fits = h->n_bytes <= INLINE_BYTES;
    size_t n_beside = h->offer ? 8 * N_ROWS : fits ? (size_t)h->n_bytes : 0;
    struct sending *s = sending_new(w, HEAD_BYTES + n_beside);
    if (!s) {
        wait_break_off(w, OUT_OF_MEMORY);
        return;
    }
    packet_write_head(s->copy, h);
    unsigned char *at = s->copy + HEAD_BYTES;
    struct span span = packet_span(h);
    if (h->offer)
        n_beside = packet_write_places(&w->bounds, h, places, at);
    else if (bytes)
        memcpy(at, bytes, n_beside);
    for (enum row row = 0; fits && !bytes && !h->offer && row < w->engine->setup.rows.n; row++) {
        size_t some = packet_floats_in_row(&w->bounds, span, row) * sizeof(float);
        if (some)
            memcpy(at, row_of(w, row) + span.first, some);
        at += some;
    }
    if (h->kind <= LAST_OF_AGENTS) {
        w->sent++;
        w->peers[to].sent++;
    }
    w->transport->ops->send_packet(w->transport, to, s->copy, HEAD_BYTES + n_beside, &s->passage);
    put_on_the_way(w, s, to);
    if (h->kind == MSG_FETCHED)
        bell_ring_of_reading(w->peers[to].bell);
    else
        bell_ring(w->peers[to].bell);
}

void far_tell_with_head(struct far *w, size_t to, struct head h, const void *bytes)
{
    struct stretch stretches[MOST_BODIES];
    const unsigned char *at = bytes;
    if (w->is_leaving || w->peers[to].is_gone)
        return;
    int n_bodies = message_cut(w, &h, stretches);
    send_packet(w, to, &h, bytes ? bytes : (const void *)&h, NULL);
    for (int i = 0; i < n_bodies; i++) {
        struct sending *s = sending_new(w, stretches[i].n_bytes);
        if (!s) {
            wait_break_off(w, OUT_OF_MEMORY);
            return;
        }
        memcpy(s->copy, at, stretches[i].n_bytes);
        at += stretches[i].n_bytes;
        send_body(w, s, s->copy, stretches[i].n_bytes, to);
    }
}

void far_tell(struct far *w, size_t to, enum kind_of_message kind, uint64_t tag, const void *bytes, size_t n)
{
    far_tell_with_head(w, to, (struct head){.kind = kind, .tag = tag, .n_bytes = n}, bytes);
}

void far_tell_text(struct far *w, size_t to, enum kind_of_message kind, uint64_t tag, const char *text)
{
    unsigned char bytes[MOST_TEXT];
    far_tell(w, to, kind, tag, bytes, packet_write_texts(bytes, sizeof bytes, &text, 1));
}

void far_tell_all(struct far *w, enum kind_of_message kind, uint64_t tag)
{
    for (size_t i = 0; i < w->n; i++)
        if (i != w->link.self)
            far_tell(w, i, kind, tag, NULL, 0);
}

static void offer_rows(struct far *w, size_t to, struct head *h)
{
    struct span span = packet_span(h);
    struct places places = {{0}};
    h->offer = ++w->offers;
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
        size_t n = packet_floats_in_row(&w->bounds, span, row);
        places.at[row] =
            (uint64_t)((unsigned char *)row_of(w, row) - (unsigned char *)w->engine->shared->bytes);
        struct sending *s = n ? sending_new(w, 0) : NULL;
        if (n && !s)
            wait_break_off(w, OUT_OF_MEMORY);
        if (!s)
            continue;
        *s = (struct sending){
            .next = w->sendings, .to = to, .floats = row_of(w, row) + span.first, .n = n, .offer = h->offer};
        w->sendings = s;
    }
    send_packet(w, to, h, NULL, &places);
}

void far_tell_rows(struct far *w, size_t to, enum kind_of_message kind, uint64_t tag, struct span span)
{
    struct head h = {kind, span.rows, tag, span.first, span.end, packet_span_bytes(&w->bounds, span), 0};
    struct stretch stretches[MOST_BODIES];
    if (w->is_leaving || w->peers[to].is_gone)
        return;
    if (kind == MSG_ROWS && offer_is_possible(w, to, (size_t)h.n_bytes)) {
        offer_rows(w, to, &h);
        return;
    }
    int n_bodies = message_cut(w, &h, stretches);
    send_packet(w, to, &h, NULL, NULL);
    for (int i = 0; i < n_bodies; i++) {
        struct sending *s = sending_new(w, 0);
        if (!s) {
            wait_break_off(w, OUT_OF_MEMORY);
            return;
        }
        s->floats = row_of(w, (enum row)stretches[i].row) + stretches[i].first;
        s->n = stretches[i].end - stretches[i].first;
        send_body(w, s, s->floats, stretches[i].n_bytes, to);
    }
}

static void take_off(struct far *w, struct sending **at)
{
    struct sending *s = *at;
    *at = s->next;
    message_give_bytes(w, s->copy, s->room);
    s->next = w->free_sendings;
    w->free_sendings = s;
}

void sendings_look_after(struct far *w)
{
    for (struct sending **at = &w->sendings; *at;)
        if (!(*at)->offer && w->transport->ops->is_through(w->transport, &(*at)->passage))
            take_off(w, at);
        else
            at = &(*at)->next;
}

bool sendings_are_left(const struct far *w)
{
    for (const struct sending *s = w->sendings; s; s = s->next)
        if (!s->offer)
            return true;
    return false;
}

void sendings_hear_of_fetching(struct far *w, size_t by, uint64_t offer)
{
    for (struct sending **at = &w->sendings; *at;)
        if ((*at)->offer == offer && (*at)->to == by)
            take_off(w, at);
        else
            at = &(*at)->next;
}

static bool are_being_sent(const struct far *w, const float *floats, size_t n)
{
    for (const struct sending *s = w->sendings; s; s = s->next)
        if (!s->copy && s->floats < floats + n && s->floats + s->n > floats)
            return true;
    return false;
}

bool sendings_hold(const struct far *w, enum row row, size_t first, size_t end)
{
    size_t n = packet_floats_in_row(&w->bounds, (struct span){1u << row, first, end}, row);
    return n && are_being_sent(w, row_of(w, row) + first, n);
}

struct floats_on_the_way {
    const float *floats;
    size_t n;
};

static bool are_gone(const struct far *w, const void *ctx)
{
    const struct floats_on_the_way *f = ctx;
    return !are_being_sent(w, f->floats, f->n);
}

fault sendings_await_floats(struct far *w, const float *floats, size_t n)
{
    struct floats_on_the_way f = {floats, n};
    if (are_gone(w, &f))
        return OK;
    fetch_everything(w); /* a member that awaits readers may be awaited as one itself */
    enum stance before = w->stance;
    w->stance = AWAITS_READERS;
    fault wrong = wait_until(w, are_gone, &f, ANYONE);
    w->stance = before;
    return wrong;
}

fault sendings_await(struct far *w, enum row row, size_t first, size_t end)
{
    size_t n = packet_floats_in_row(&w->bounds, (struct span){1u << row, first, end}, row);
    return n ? sendings_await_floats(w, row_of(w, row) + first, n) : OK;
}

void sendings_forget(struct far *w)
{
    for (struct sending **at = &w->sendings; *at;)
        if ((*at)->offer) /* that was not fetched */
            take_off(w, at);
        else
            at = &(*at)->next;
    while (w->free_sendings) {
        struct sending *next = w->free_sendings->next;
        free(w->free_sendings);
        w->free_sendings = next;
    }
}
