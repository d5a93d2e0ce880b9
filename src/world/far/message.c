/* message.c - a message that has come: memory that is kept, floats of rows, and the bodies its bytes are cut into. */
#include <stdlib.h>

#include "world/far/inside.h"

/* ---- memory ---- */

static unsigned log2_of(size_t room)
{
    return 63u - (unsigned)__builtin_clzll(room);
}

unsigned char *message_take_bytes(struct far *w, size_t n, size_t *room)
{
    *room = 64;
    while (*room < n)
        *room *= 2;
    struct blank *b = w->blanks[log2_of(*room)];
    if (b)
        w->blanks[log2_of(*room)] = b->next;
    return b ? (unsigned char *)b : aligned_alloc(64, *room);
}

void message_give_bytes(struct far *w, unsigned char *bytes, size_t room)
{
    struct blank *b = (struct blank *)(void *)bytes;
    if (!b)
        return;
    b->next = w->blanks[log2_of(room)];
    w->blanks[log2_of(room)] = b;
}

void message_free_blanks(struct far *w)
{
    for (size_t i = 0; i < 64; i++)
        while (w->blanks[i]) {
            struct blank *next = w->blanks[i]->next;
            free(w->blanks[i]);
            w->blanks[i] = next;
        }
}

struct incoming *incoming_new(struct far *w, size_t n_bytes)
{
    struct incoming *m = w->free_messages;
    if (m)
        w->free_messages = m->next;
    else
        m = malloc(sizeof *m);
    if (!m)
        return NULL;
    *m = (struct incoming){0};
    m->bytes = message_take_bytes(w, n_bytes, &m->room);
    return m->bytes ? m : (free(m), NULL);
}

void incoming_drop(struct far *w, struct incoming *m)
{
    if (!m)
        return;
    if (m->head.offer)
        offer_is_over(w, m);
    message_give_bytes(w, m->bytes, m->room);
    m->next = w->free_messages;
    w->free_messages = m;
}

/* ---- spans ---- */

static bool holds_rows(const struct incoming *m)
{
    switch (m->head.kind) {
    case MSG_ROWS:
    case MSG_ASK_AVERAGE:
    case MSG_AVERAGE:
    case MSG_ADOPT:
    case MSG_READ_BACK:
    case MSG_WRITE:
        return true;
    default:
        return false;
    }
}

const float *incoming_floats(const struct far *w, const struct incoming *m, enum row row, size_t first,
                            size_t end)
{
    const float *at = (const float *)(const void *)m->bytes;
    struct span s = packet_span(&m->head);
    size_t n = packet_floats_in_row(&w->bounds, s, row);
    if (!holds_rows(m) || s.first > first || s.first + n < end || !n)
        return NULL;
    if (m->head.offer)
        return offer_row(w, m, row) + first;
    for (int before = 0; before < (int)row; before++)
        at += packet_floats_in_row(&w->bounds, s, (enum row)before);
    return at + (first - s.first);
}

int message_cut(const struct far *w, const struct head *h, struct stretch out[MOST_BODIES])
{
    int n = 0;
    if (h->n_bytes <= INLINE_BYTES || h->offer)
        return 0;
    size_t piece = w->piece_bytes / sizeof(float);
    struct span s = packet_span(h);
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        for (size_t at = 0, all = packet_floats_in_row(&w->bounds, s, row); at < all && n < MOST_BODIES;
             at += piece) {
            size_t some = smaller(all - at, piece);
            out[n++] = (struct stretch){some * sizeof(float), row, s.first + at, s.first + at + some};
        }
    for (size_t at = 0; !h->rows && at < h->n_bytes && n < MOST_BODIES; at += w->piece_bytes) {
        size_t some = smaller(h->n_bytes - at, w->piece_bytes);
        out[n++] = (struct stretch){some, -1, at, at + some};
    }
    return n;
}
