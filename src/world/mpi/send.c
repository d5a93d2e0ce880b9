/* send.c - what this rank sends: heads and bytes as copies, rows from where they lie, or an offer to read
 * them there. */
#include <stdlib.h>
#include <string.h>

#include "world/mpi/inside.h"

static struct sending *sending_new(struct mpi *w, size_t n_bytes)
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

static void put_on_the_way(struct mpi *w, struct sending *s, const void *bytes, size_t n, size_t to, int tag)
{
    s->to = to;
    s->request = MPI_REQUEST_NULL;
    MPI_Isend(bytes, (int)n, MPI_BYTE, (int)to, tag, w->comm, &s->request);
    s->next = w->sendings;
    w->sendings = s;
}

/* The head, and what follows where it fits; `bytes` NULL: of rows. An offer is followed by places. */
static void send_head(struct mpi *w, size_t to, const struct head *h, const unsigned char *bytes)
{
    if (w->peers[to].is_gone)
        return;
    bool fits = h->n_bytes <= INLINE_BYTES;
    size_t n_beside = h->offer ? sizeof(struct places) : fits ? (size_t)h->n_bytes : 0;
    struct sending *s = sending_new(w, sizeof *h + n_beside);
    if (!s) {
        wait_break_off(w, OUT_OF_MEMORY);
        return;
    }
    memcpy(s->copy, h, sizeof *h);
    unsigned char *at = s->copy + sizeof *h;
    struct span span = span_of(h);
    if (bytes)
        memcpy(at, bytes, n_beside);
    for (enum row row = 0; fits && !bytes && row < w->engine->setup.rows.n; row++) {
        size_t some = message_floats_in_row(w, span, row) * sizeof(float);
        if (some)
            memcpy(at, row_of(w, row) + span.first, some);
        at += some;
    }
    if (h->kind <= LAST_OF_AGENTS) {
        w->sent++;
        w->peers[to].sent++;
    }
    w->told[to]++;
    put_on_the_way(w, s, s->copy, sizeof *h + n_beside, to, TAG_HEAD);
    if (h->kind == MSG_FETCHED)
        bell_ring_of_reading(w->peers[to].bell);
    else
        bell_ring(w->peers[to].bell);
}

void mpi_tell_with_head(struct mpi *w, size_t to, struct head h, const void *bytes)
{
    struct stretch stretches[MOST_BODIES];
    const unsigned char *at = bytes;
    if (w->is_leaving || w->peers[to].is_gone)
        return;
    int n_bodies = message_cut(w, &h, stretches);
    send_head(w, to, &h, bytes ? bytes : (const void *)&h);
    for (int i = 0; i < n_bodies; i++) {
        struct sending *s = sending_new(w, stretches[i].n_bytes);
        if (!s) {
            wait_break_off(w, OUT_OF_MEMORY);
            return;
        }
        memcpy(s->copy, at, stretches[i].n_bytes);
        at += stretches[i].n_bytes;
        put_on_the_way(w, s, s->copy, stretches[i].n_bytes, to, TAG_BODY);
    }
}

void mpi_tell(struct mpi *w, size_t to, enum kind_of_message kind, uint64_t tag, const void *bytes, size_t n)
{
    mpi_tell_with_head(w, to, (struct head){.kind = kind, .tag = tag, .n_bytes = n}, bytes);
}

void mpi_tell_all(struct mpi *w, enum kind_of_message kind, uint64_t tag)
{
    for (size_t i = 0; i < w->n; i++)
        if (i != w->link.self)
            mpi_tell(w, i, kind, tag, NULL, 0);
}

static void offer_rows(struct mpi *w, size_t to, struct head *h)
{
    struct span span = span_of(h);
    struct places places = {{0}};
    h->offer = ++w->offers;
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
        size_t n = message_floats_in_row(w, span, row);
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
    send_head(w, to, h, (const unsigned char *)&places);
}

void mpi_tell_rows(struct mpi *w, size_t to, enum kind_of_message kind, uint64_t tag, struct span span)
{
    struct head h = {kind, span.rows, tag, span.first, span.end, message_span_bytes(w, span), 0};
    struct stretch stretches[MOST_BODIES];
    if (w->is_leaving || w->peers[to].is_gone)
        return;
    if (kind == MSG_ROWS && offer_is_possible(w, to, (size_t)h.n_bytes)) {
        offer_rows(w, to, &h);
        return;
    }
    int n_bodies = message_cut(w, &h, stretches);
    send_head(w, to, &h, NULL);
    for (int i = 0; i < n_bodies; i++) {
        struct sending *s = sending_new(w, 0);
        if (!s) {
            wait_break_off(w, OUT_OF_MEMORY);
            return;
        }
        s->floats = row_of(w, (enum row)stretches[i].row) + stretches[i].first;
        s->n = stretches[i].end - stretches[i].first;
        put_on_the_way(w, s, s->floats, stretches[i].n_bytes, to, TAG_BODY);
    }
}

static void take_off(struct mpi *w, struct sending **at)
{
    struct sending *s = *at;
    *at = s->next;
    message_give_bytes(w, s->copy, s->room);
    s->next = w->free_sendings;
    w->free_sendings = s;
}

/* Where a process is gone a request may fail, and is none any more; then it never comes through, until all
 * that has to do with that process is let go of. */
bool mpi_is_through(MPI_Request *request, MPI_Status *status)
{
    int through = 0;
    if (*request == MPI_REQUEST_NULL)
        return false;
    int error = MPI_Test(request, &through, status);
    return through && (error == MPI_SUCCESS || gone_is_only_delayed(error));
}

void sendings_look_after(struct mpi *w)
{
    for (struct sending **at = &w->sendings; *at;)
        if (!(*at)->offer && mpi_is_through(&(*at)->request, MPI_STATUS_IGNORE))
            take_off(w, at);
        else
            at = &(*at)->next;
}

bool sendings_are_left(const struct mpi *w)
{
    for (const struct sending *s = w->sendings; s; s = s->next)
        if (!s->offer)
            return true;
    return false;
}

void sendings_hear_of_fetching(struct mpi *w, uint64_t offer)
{
    for (struct sending **at = &w->sendings; *at;)
        if ((*at)->offer == offer)
            take_off(w, at);
        else
            at = &(*at)->next;
}

static bool are_being_sent(const struct mpi *w, const float *floats, size_t n)
{
    for (const struct sending *s = w->sendings; s; s = s->next)
        if (!s->copy && s->floats < floats + n && s->floats + s->n > floats)
            return true;
    return false;
}

bool sendings_hold(const struct mpi *w, enum row row, size_t first, size_t end)
{
    size_t n = message_floats_in_row(w, (struct span){1u << row, first, end}, row);
    return n && are_being_sent(w, row_of(w, row) + first, n);
}

struct floats_on_the_way {
    const float *floats;
    size_t n;
};

static bool are_gone(const struct mpi *w, const void *ctx)
{
    const struct floats_on_the_way *f = ctx;
    return !are_being_sent(w, f->floats, f->n);
}

fault sendings_await_floats(struct mpi *w, const float *floats, size_t n)
{
    struct floats_on_the_way f = {floats, n};
    if (are_gone(w, &f))
        return OK;
    fetch_everything(w); /* who must wait for others to read may be waited for */
    bool before = w->goes_on;
    w->goes_on = w->awaits_readers = true;
    fault wrong = wait_until(w, are_gone, &f, ANYONE);
    w->goes_on = before;
    w->awaits_readers = false;
    return wrong;
}

fault sendings_await(struct mpi *w, enum row row, size_t first, size_t end)
{
    size_t n = message_floats_in_row(w, (struct span){1u << row, first, end}, row);
    return n ? sendings_await_floats(w, row_of(w, row) + first, n) : OK;
}

void sendings_forget(struct mpi *w)
{
    for (struct sending **at = &w->sendings; *at;)
        if ((*at)->offer) /* that nobody has taken */
            take_off(w, at);
        else
            at = &(*at)->next;
    while (w->free_sendings) {
        struct sending *next = w->free_sendings->next;
        free(w->free_sendings);
        w->free_sendings = next;
    }
}
