/* courier.c - what travels between the ranks.
 *
 *   head ---------------------------> into one of a ring of slots, received from anyone in turn
 *   bodies, if it says so ----------> into memory of the message, in the order of the heads of their sender
 *                                     |
 *                                     +-> arriving (a queue for each sender) -> delivered, in the order of sending
 *
 * Rows are sent from where they lie. Memory for bytes is kept and used again, so that after the first rounds nothing is
 * allocated. Whoever waits receives whatever comes, so every send comes to its end as long as its receiver lives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "world/mpi/inside.h"

enum { TAG_HEAD = 1, TAG_BODY = 2 };

/* ---- memory ---- */

static unsigned log2_of(size_t room)
{
    return 63u - (unsigned)__builtin_clzll(room);
}

unsigned char *take_bytes(struct mpi *w, size_t n, size_t *room)
{
    *room = 64;
    while (*room < n)
        *room *= 2;
    struct blank *b = w->blanks[log2_of(*room)];
    if (b)
        w->blanks[log2_of(*room)] = b->next;
    return b ? (unsigned char *)b : aligned_alloc(64, *room);
}

void give_bytes(struct mpi *w, unsigned char *bytes, size_t room)
{
    struct blank *b = (struct blank *)(void *)bytes;
    if (!b)
        return;
    b->next = w->blanks[log2_of(room)];
    w->blanks[log2_of(room)] = b;
}

struct message *message_new(struct mpi *w, size_t n_bytes)
{
    struct message *m = w->free_messages;
    if (m)
        w->free_messages = m->next;
    else
        m = malloc(sizeof *m);
    if (!m)
        return NULL;
    *m = (struct message){0};
    m->bytes = take_bytes(w, n_bytes, &m->room);
    return m->bytes ? m : (free(m), NULL);
}

void message_drop(struct mpi *w, struct message *m)
{
    if (!m)
        return;
    if (m->head.offer)
        offer_is_over(w, m);
    give_bytes(w, m->bytes, m->room);
    m->next = w->free_messages;
    w->free_messages = m;
}

/* ---- spans ---- */

size_t floats_in_row(const struct mpi *w, struct span s, enum row row)
{
    size_t size = s.rows & 1u << row ? floats_of(w, row) : 0, end = s.end < size ? s.end : size;
    return end > s.first ? end - s.first : 0;
}

size_t span_bytes(const struct mpi *w, struct span s)
{
    size_t n = 0;
    for (int row = 0; row < N_ROWS; row++)
        n += floats_in_row(w, s, (enum row)row) * sizeof(float);
    return n;
}

const float *floats_in(const struct mpi *w, const struct message *m, enum row row, size_t first, size_t end)
{
    const float *at = (const float *)(const void *)m->bytes;
    struct span s = span_of(&m->head);
    size_t n = floats_in_row(w, s, row);
    if (m->head.kind == MSG_BYTES || s.first > first || s.first + n < end || !n)
        return NULL;
    if (m->head.offer)
        return offered_row(w, m->from, row) + first;
    for (int before = 0; before < (int)row; before++)
        at += floats_in_row(w, s, (enum row)before);
    return at + (first - s.first);
}

/* A stretch of the bytes that follow a head: of a row, or of plain bytes. */
struct stretch {
    size_t n_bytes;
    int row; /* -1: plain */
    size_t first, end;
};

/* How the bytes after a head are cut into bodies; sender and receiver cut alike. */
static int cut(const struct mpi *w, const struct head *h, struct stretch out[MOST_BODIES])
{
    int n = 0;
    if (h->n_bytes <= INLINE_BYTES || h->offer)
        return 0;
    size_t piece = w->piece_bytes / sizeof(float);
    struct span s = span_of(h);
    for (int row = 0; row < N_ROWS; row++)
        for (size_t at = 0, all = floats_in_row(w, s, (enum row)row); at < all && n < MOST_BODIES; at += piece) {
            size_t some = all - at < piece ? all - at : piece;
            out[n++] = (struct stretch){some * sizeof(float), row, s.first + at, s.first + at + some};
        }
    for (size_t at = 0; !h->rows && at < h->n_bytes && n < MOST_BODIES; at += w->piece_bytes) {
        size_t some = h->n_bytes - at < w->piece_bytes ? h->n_bytes - at : w->piece_bytes;
        out[n++] = (struct stretch){some, -1, at, at + some};
    }
    return n;
}

/* ---- sending ---- */

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
    if (n_bytes && !(s->copy = take_bytes(w, n_bytes, &s->room))) {
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

static void out_of_memory(struct mpi *w)
{
    break_off(w, OUT_OF_MEMORY);
}

/* The head, and what follows where it fits; `bytes` NULL: of rows. */
static void send_head(struct mpi *w, size_t to, const struct head *h, const unsigned char *bytes)
{
    if (w->peers[to].is_gone)
        return;
    bool fits = h->n_bytes <= INLINE_BYTES;
    size_t n = sizeof *h + (fits ? (size_t)h->n_bytes : 0);
    struct sending *s = sending_new(w, n);
    if (!s) {
        out_of_memory(w);
        return;
    }
    memcpy(s->copy, h, sizeof *h);
    unsigned char *at = s->copy + sizeof *h;
    struct span span = span_of(h);
    if (fits && bytes)
        memcpy(at, bytes, (size_t)h->n_bytes);
    for (int row = 0; fits && !bytes && row < N_ROWS; row++) {
        size_t some = floats_in_row(w, span, (enum row)row) * sizeof(float);
        if (some)
            memcpy(at, row_of(w, (enum row)row) + span.first, some);
        at += some;
    }
    if (h->kind <= LAST_OF_AGENTS) {
        w->sent++;
        w->peers[to].sent++;
    }
    w->told[to]++;
    put_on_the_way(w, s, s->copy, n, to, TAG_HEAD);
}

void tell_with_head(struct mpi *w, size_t to, struct head h, const void *bytes)
{
    struct stretch stretches[MOST_BODIES];
    const unsigned char *at = bytes;
    if (w->is_leaving || w->peers[to].is_gone)
        return;
    int n_bodies = cut(w, &h, stretches);
    send_head(w, to, &h, bytes ? bytes : (const void *)&h);
    for (int i = 0; i < n_bodies; i++) {
        struct sending *s = sending_new(w, stretches[i].n_bytes);
        if (!s) {
            out_of_memory(w);
            return;
        }
        memcpy(s->copy, at, stretches[i].n_bytes);
        at += stretches[i].n_bytes;
        put_on_the_way(w, s, s->copy, stretches[i].n_bytes, to, TAG_BODY);
    }
}

void tell(struct mpi *w, size_t to, enum kind_of_message kind, uint64_t tag, const void *bytes, size_t n)
{
    tell_with_head(w, to, (struct head){.kind = kind, .tag = tag, .n_bytes = n}, bytes);
}

void tell_all(struct mpi *w, enum kind_of_message kind, uint64_t tag)
{
    for (size_t i = 0; i < w->n; i++)
        if (i != w->link.self)
            tell(w, i, kind, tag, NULL, 0);
}

static void offer_rows(struct mpi *w, size_t to, struct head *h)
{
    struct span span = span_of(h);
    h->offer = ++w->offers;
    for (int row = 0; row < N_ROWS; row++) {
        size_t n = floats_in_row(w, span, (enum row)row);
        struct sending *s = n ? sending_new(w, 0) : NULL;
        if (n && !s)
            out_of_memory(w);
        if (!s)
            continue;
        *s = (struct sending){
            .next = w->sendings, .to = to, .row = (enum row)row, .first = span.first, .end = span.first + n,
            .offer = h->offer};
        w->sendings = s;
    }
    send_head(w, to, h, NULL);
}

void tell_rows(struct mpi *w, size_t to, enum kind_of_message kind, uint64_t tag, struct span span)
{
    struct head h = {kind, span.rows, tag, span.first, span.end, span_bytes(w, span), 0};
    struct stretch stretches[MOST_BODIES];
    if (w->is_leaving || w->peers[to].is_gone)
        return;
    if (kind == MSG_ROWS && can_offer(w, to, (size_t)h.n_bytes)) {
        offer_rows(w, to, &h);
        return;
    }
    int n_bodies = cut(w, &h, stretches);
    send_head(w, to, &h, NULL);
    for (int i = 0; i < n_bodies; i++) {
        struct sending *s = sending_new(w, 0);
        if (!s) {
            out_of_memory(w);
            return;
        }
        s->row = (enum row)stretches[i].row;
        s->first = stretches[i].first;
        s->end = stretches[i].end;
        put_on_the_way(w, s, row_of(w, s->row) + s->first, stretches[i].n_bytes, to, TAG_BODY);
    }
}

static void take_off(struct mpi *w, struct sending **at)
{
    struct sending *s = *at;
    *at = s->next;
    give_bytes(w, s->copy, s->room);
    s->next = w->free_sendings;
    w->free_sendings = s;
}

/* Where a process is gone a request may fail, and is none any more; then it never comes through, until all that has to do
 * with that process is let go of. */
static bool is_through(MPI_Request *request, MPI_Status *status)
{
    int through = 0;
    if (*request == MPI_REQUEST_NULL)
        return false;
    int error = MPI_Test(request, &through, status);
    return through && (error == MPI_SUCCESS || is_only_delayed(error));
}

static void look_after_sendings(struct mpi *w)
{
    for (struct sending **at = &w->sendings; *at;)
        if (!(*at)->offer && is_through(&(*at)->request, MPI_STATUS_IGNORE))
            take_off(w, at);
        else
            at = &(*at)->next;
}

static void hear_of_fetching(struct mpi *w, uint64_t offer)
{
    for (struct sending **at = &w->sendings; *at;)
        if ((*at)->offer == offer)
            take_off(w, at);
        else
            at = &(*at)->next;
}

bool is_being_sent(const struct mpi *w, enum row row, size_t first, size_t end)
{
    for (const struct sending *s = w->sendings; s; s = s->next)
        if (!s->copy && s->row == row && s->first < end && s->end > first)
            return true;
    return false;
}

struct floats_on_the_way {
    enum row row;
    size_t first, end;
};

static bool are_gone(const struct mpi *w, const void *ctx)
{
    const struct floats_on_the_way *f = ctx;
    return !is_being_sent(w, f->row, f->first, f->end);
}

fault before_writing(struct mpi *w, enum row row, size_t first, size_t end)
{
    struct floats_on_the_way f = {row, first, end};
    if (are_gone(w, &f))
        return OK;
    fetch_everything(w); /* who must wait for others to read may be waited for */
    bool before = w->goes_on;
    w->goes_on = true;
    fault wrong = wait_until(w, are_gone, &f, ANYONE);
    w->goes_on = before;
    return wrong;
}

/* ---- receiving ---- */

static void listen(struct mpi *w, struct slot *s)
{
    s->request = MPI_REQUEST_NULL;
    MPI_Irecv(s->bytes, SLOT_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG_HEAD, w->comm, &s->request);
}

/* On a network that is slower than the real one: a receiver's card serves one message at a time. */
static double due_s(struct mpi *w, const struct message *m, double now)
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

static void take_head(struct mpi *w, struct slot *slot, size_t from)
{
    struct head h;
    memcpy(&h, slot->bytes, sizeof h);
    struct message *m = message_new(w, h.offer ? 0 : (size_t)h.n_bytes);
    if (!m) {
        out_of_memory(w);
        return;
    }
    w->n_heads++;
    m->from = from;
    m->head = h;
    struct stretch stretches[MOST_BODIES];
    unsigned char *at = m->bytes;
    m->n_bodies = cut(w, &h, stretches);
    if (h.n_bytes <= INLINE_BYTES)
        memcpy(at, slot->bytes + sizeof h, (size_t)h.n_bytes);
    for (int i = 0; i < m->n_bodies; i++) {
        MPI_Irecv(at, (int)stretches[i].n_bytes, MPI_BYTE, (int)from, TAG_BODY, w->comm, &m->bodies[i]);
        at += stretches[i].n_bytes;
    }
    struct peer *p = &w->peers[from];
    p->heard_s = clock_now_s();
    if (h.kind <= LAST_OF_AGENTS)
        expect_traffic(w);
    m->due_s = due_s(w, m, p->heard_s);
    *p->arriving_end = m;
    p->arriving_end = &m->next;
}

/* A slot whose request has failed was about to be filled by somebody who is gone. */
static void take_heads(struct mpi *w)
{
    for (size_t n = 0; n < N_SLOTS; n++) {
        struct slot *s = &w->slots[w->oldest_slot];
        MPI_Status status;
        if (is_through(&s->request, &status))
            take_head(w, s, (size_t)status.MPI_SOURCE);
        else if (s->request != MPI_REQUEST_NULL)
            return;
        listen(w, s);
        w->oldest_slot = (w->oldest_slot + 1) % N_SLOTS;
    }
}

static void add_last(struct message ***end, struct message *m)
{
    m->next = NULL;
    **end = m;
    *end = &m->next;
}

static void hear_of_failure(struct mpi *w, const struct message *m)
{
    char name[128];
    if (is_leader(w))
        break_off(w, FAIL((enum fault_kind)m->head.tag, "%s: %s", member_called(w, m->from, name), (const char *)m->bytes));
}

static void hear_note(struct mpi *w, const struct message *m)
{
    const char *kind = (const char *)m->bytes;
    w->watcher.note(w->watcher.ctx, world_now_s(w), m->from, kind, kind + strlen(kind) + 1);
}

/* A question is heard when it is answered. */
static void count_heard(struct mpi *w, size_t from)
{
    w->heard++;
    w->peers[from].heard++;
}

static void deliver(struct mpi *w, struct message *m)
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
        if (!try_to_answer(w, m))
            message_drop(w, m);
        return;
    case MSG_AVERAGE:
    case MSG_ADOPT:
    case MSG_ROUND:
        hear_answer(w, m);
        return;
    case MSG_DISSOLVE:
        w->link.counts.received++;
        hear_of_dissolution(w, m->head.tag, (const char *)m->bytes);
        break;
    case MSG_ENDED:
        w->peers[m->from].has_ended = true;
        break;
    case MSG_GONE:
        member_is_gone(w, (size_t)m->head.tag);
        break;
    case MSG_FAILED:
        hear_of_failure(w, m);
        break;
    case MSG_NOTE:
        hear_note(w, m);
        break;
    case MSG_ALIVE:
        break;
    case MSG_STOP:
    case MSG_HOLD:
    case MSG_AT:
    case MSG_PAUSED:
    case MSG_RUN_TO:
    case MSG_PROBE:
    case MSG_STATE:
    case MSG_STILL:
    case MSG_GO:
        hear_of_pause(w, m);
        break;
    case MSG_CLOSED:
        w->peers[m->from].has_closed = true;
        break;
    case MSG_FETCHED:
        hear_of_fetching(w, m->head.tag);
        break;
    default:
        serve_look(w, m);
    }
    message_drop(w, m);
}

static bool is_whole(struct message *m)
{
    while (m->n_bodies && is_through(&m->bodies[m->n_bodies - 1], MPI_STATUS_IGNORE))
        m->n_bodies--;
    return !m->n_bodies;
}

bool all_is_here(struct mpi *w, uint64_t n_heads)
{
    for (size_t i = 0; i < w->n; i++)
        for (struct message *m = w->peers[i].arriving; m; m = m->next)
            if (!is_whole(m))
                return false;
    return w->n_heads == n_heads;
}

static void deliver_what_is_here(struct mpi *w)
{
    double now = 0;
    for (size_t i = 0; i < w->n; i++)
        for (struct peer *p = &w->peers[i]; p->arriving;) {
            struct message *m = p->arriving;
            if (m->due_s > now)
                now = clock_now_s();
            if (!is_whole(m) || m->due_s > now)
                break;
            p->arriving = m->next;
            if (!p->arriving)
                p->arriving_end = &p->arriving;
            deliver(w, m);
        }
}

static void answer_questions(struct mpi *w)
{
    for (struct message **at = &w->asked; *at;) {
        struct message *m = *at, *next = m->next;
        size_t from = m->from;
        if (!try_to_answer(w, m)) {
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

/* ---- signs of life ---- */

static void say_alive(struct mpi *w, double now)
{
    double every = patience_of(w) / 8 < 1 ? patience_of(w) / 8 : 1;
    if (now - w->alive_said_s < every)
        return;
    w->alive_said_s = now;
    if (is_leader(w))
        tell_all(w, MSG_ALIVE, 0);
    else
        tell(w, 0, MSG_ALIVE, 0, NULL, 0);
    if (!is_leader(w) && !w->has_said_stop && w->watcher.has_to_stop && w->watcher.has_to_stop(w->watcher.ctx)) {
        w->has_said_stop = true;
        tell(w, 0, MSG_STOP, 0, NULL, 0);
    }
}

void progress(struct mpi *w)
{
    take_heads(w);
    deliver_what_is_here(w);
    look_after_sendings(w);
    if (w->asked)
        answer_questions(w);
    if (w->lessons.is_running && w->lessons.job == JOB_EXAM && !is_leader(w) && job_is_over(w))
        serve_exam(w);
    double now = clock_now_s();
    say_alive(w, now);
    look_who_is_gone(w, now);
}

/* ---- opening and closing ---- */

fault courier_open(struct mpi *w)
{
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* so that a nap is as short as it is meant to be */
    w->piece_bytes = (size_t)1 << 30;
    w->slots = calloc(N_SLOTS, sizeof *w->slots);
    w->peers = calloc(w->n, sizeof *w->peers);
    w->told = calloc(w->n, sizeof *w->told);
    if (!w->slots || !w->peers || !w->told)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < w->n; i++) {
        w->peers[i].arriving_end = &w->peers[i].arriving;
        w->peers[i].heard_s = clock_now_s();
    }
    for (size_t i = 0; i < N_SLOTS; i++)
        listen(w, &w->slots[i]);
    return OK;
}

static void free_messages(struct message *m)
{
    while (m) {
        struct message *next = m->next;
        free(m->bytes);
        free(m);
        m = next;
    }
}

/* What is still on its way is let go: where all went well nothing is. */
void courier_close(struct mpi *w)
{
    bool nobody_writes = true; /* into the slots, whose memory is else left to the library */
    for (size_t i = 0; w->slots && i < N_SLOTS; i++) {
        if (w->slots[i].request != MPI_REQUEST_NULL)
            MPI_Cancel(&w->slots[i].request);
        nobody_writes &= MPI_Wait(&w->slots[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    }
    for (size_t i = 0; w->peers && i < w->n; i++)
        free_messages(w->peers[i].arriving);
    free_messages(w->mail);
    free_messages(w->asked);
    if (w->answer)
        message_drop(w, w->answer);
    while (w->free_messages) {
        struct message *next = w->free_messages->next;
        free(w->free_messages);
        w->free_messages = next;
    }
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
    for (size_t i = 0; i < 64; i++)
        while (w->blanks[i]) {
            struct blank *next = w->blanks[i]->next;
            free(w->blanks[i]);
            w->blanks[i] = next;
        }
    forget_rows(w);
    if (nobody_writes)
        free(w->slots);
    free(w->peers);
    free(w->told);
}
