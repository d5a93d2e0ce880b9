/* packet.c - see packet.h. */
#include "world/far/packet.h"

#include <string.h>

#include "base/encode.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "rows travel as they lie in memory, which must be little-endian"
#endif

/* ---- spans ---- */

size_t packet_floats_in_row(const struct packet_bounds *b, struct span s, enum row row)
{
    size_t size = s.rows & 1u << row ? b->floats[row] : 0, end = smaller(s.end, size);
    return end > s.first ? end - s.first : 0;
}

size_t packet_span_bytes(const struct packet_bounds *b, struct span s)
{
    size_t n = 0;
    for (enum row row = 0; row < N_ROWS; row++)
        n += packet_floats_in_row(b, s, row) * sizeof(float);
    return n;
}

/* ---- heads ---- */

/* What follows a head of each kind, and who may send it. */
static const struct manner {
    enum { NOTHING, SPAN, WHOLE, WORDS, BYTES } carries; /* WHOLE: rows, or none of them */
    enum { ANYONE_TO_ANYONE, FROM_LEADER, TO_LEADER } goes;
} manners[KINDS_OF_MESSAGE] = {
    [MSG_ROWS] = {SPAN, ANYONE_TO_ANYONE},
    [MSG_BYTES] = {BYTES, ANYONE_TO_ANYONE},
    [MSG_DISSOLVE] = {WORDS, ANYONE_TO_ANYONE},
    [MSG_ASK_AVERAGE] = {WHOLE, ANYONE_TO_ANYONE},
    [MSG_AVERAGE] = {WHOLE, ANYONE_TO_ANYONE},
    [MSG_ASK_ADOPT] = {NOTHING, ANYONE_TO_ANYONE},
    [MSG_ADOPT] = {WHOLE, ANYONE_TO_ANYONE},
    [MSG_ASK_ROUND] = {WORDS, TO_LEADER},
    [MSG_ROUND] = {WORDS, FROM_LEADER},
    [MSG_ENDED] = {NOTHING, ANYONE_TO_ANYONE},
    [MSG_GONE] = {WORDS, ANYONE_TO_ANYONE},
    [MSG_FAILED] = {WORDS, TO_LEADER},
    [MSG_NOTE] = {WORDS, TO_LEADER},
    [MSG_ALIVE] = {NOTHING, ANYONE_TO_ANYONE},
    [MSG_STOP] = {NOTHING, TO_LEADER},
    [MSG_HOLD] = {NOTHING, FROM_LEADER},
    [MSG_AT] = {NOTHING, TO_LEADER},
    [MSG_PAUSED] = {NOTHING, TO_LEADER},
    [MSG_RUN_TO] = {NOTHING, FROM_LEADER},
    [MSG_PROBE] = {NOTHING, FROM_LEADER},
    [MSG_STATE] = {WORDS, TO_LEADER},
    [MSG_WARM_UP] = {NOTHING, FROM_LEADER},
    [MSG_STILL] = {NOTHING, FROM_LEADER},
    [MSG_GO] = {NOTHING, FROM_LEADER},
    [MSG_EXAMINE] = {WORDS, FROM_LEADER},
    [MSG_EXAMINED] = {WORDS, TO_LEADER},
    [MSG_READ] = {NOTHING, FROM_LEADER},
    [MSG_READ_BACK] = {WHOLE, TO_LEADER},
    [MSG_WRITE] = {WHOLE, FROM_LEADER},
    [MSG_SET_ACCOUNT] = {WORDS, FROM_LEADER},
    [MSG_CLOSE] = {NOTHING, FROM_LEADER},
    [MSG_CLOSED] = {NOTHING, TO_LEADER},
    [MSG_FETCHED] = {NOTHING, ANYONE_TO_ANYONE},
    [MSG_FAREWELL] = {NOTHING, ANYONE_TO_ANYONE},
};

enum { MOST_WORDS = 1 << 16 }; /* bytes of them */

void packet_write_head(unsigned char bytes[HEAD_BYTES], const struct head *h)
{
    struct encoder e = encode_into(bytes, HEAD_BYTES);
    encode_u32(&e, h->kind);
    encode_u32(&e, h->rows);
    encode_u64(&e, h->tag);
    encode_u64(&e, h->first);
    encode_u64(&e, h->end);
    encode_u64(&e, h->n_bytes);
    encode_u64(&e, h->offer);
}

static bool may_come(const struct packet_bounds *b, size_t from, const struct head *h)
{
    switch (manners[h->kind].goes) {
    case FROM_LEADER:
        return from == 0;
    case TO_LEADER:
        return b->self == 0;
    default:
        return true;
    }
}

static bool is_whole_span(const struct head *h)
{
    return h->first == 0 && h->end == (uint64_t)TO_END;
}

static bool has_its_bytes(const struct packet_bounds *b, const struct head *h)
{
    switch (manners[h->kind].carries) {
    case NOTHING:
        return h->n_bytes == 0;
    case WHOLE:
        return h->n_bytes == packet_span_bytes(b, packet_span(h)) && (!h->rows || is_whole_span(h));
    case SPAN:
        return h->n_bytes == packet_span_bytes(b, packet_span(h));
    case WORDS:
        return h->n_bytes <= MOST_WORDS && !h->rows;
    default:
        return h->n_bytes <= b->most_bytes && !h->rows;
    }
}

static bool has_its_tag(const struct packet_bounds *b, const struct head *h)
{
    switch (h->kind) {
    case MSG_GONE:
        return h->tag < b->n_members;
    case MSG_ALIVE:
        return h->tag < b->n_members || h->tag == UINT64_MAX; /* none is suspected */
    case MSG_FETCHED:
        return h->tag != 0;
    case MSG_FAILED:
        return h->tag < FAULT_KINDS;
    case MSG_ADOPT:
        return h->rows == ROWS_LASTING;
    default:
        return true;
    }
}

static size_t places_bytes(const struct packet_bounds *b, const struct head *h)
{
    size_t n = 0;
    for (enum row row = 0; row < N_ROWS; row++)
        n += packet_floats_in_row(b, packet_span(h), row) ? 8 : 0;
    return n;
}

static bool is_as_long_as_it_says(const struct packet_bounds *b, const struct head *h, size_t n)
{
    if (h->offer)
        return h->kind == MSG_ROWS && n == HEAD_BYTES + places_bytes(b, h);
    return n == HEAD_BYTES + (h->n_bytes <= INLINE_BYTES ? h->n_bytes : 0);
}

bool packet_read_head(const struct packet_bounds *b, size_t from, const unsigned char *packet, size_t n,
                      struct head *out)
{
    struct decoder d = decode_from(packet, smaller(n, HEAD_BYTES));
    struct head h;
    h.kind = decode_u32(&d);
    h.rows = decode_u32(&d);
    h.tag = decode_u64(&d);
    h.first = decode_u64(&d);
    h.end = decode_u64(&d);
    h.n_bytes = decode_u64(&d);
    h.offer = decode_u64(&d);
    if (!decode_is_whole(&d) || from >= b->n_members || h.kind >= KINDS_OF_MESSAGE || h.rows >> N_ROWS)
        return false;
    *out = h;
    return may_come(b, from, &h) && has_its_bytes(b, &h) && has_its_tag(b, &h) &&
           is_as_long_as_it_says(b, &h, n);
}

size_t packet_write_places(const struct packet_bounds *b, const struct head *h, const struct places *places,
                           unsigned char *bytes)
{
    struct encoder e = encode_into(bytes, 8 * N_ROWS);
    for (enum row row = 0; row < N_ROWS; row++)
        if (packet_floats_in_row(b, packet_span(h), row))
            encode_u64(&e, places->at[row]);
    return e.n;
}

/* The whole row must lie in the memory it is offered in. */
bool packet_read_places(const struct packet_bounds *b, const struct head *h, const unsigned char *bytes,
                        struct places *out)
{
    struct decoder d = decode_from(bytes, places_bytes(b, h));
    bool lie_there = true;
    *out = (struct places){{0}};
    for (enum row row = 0; row < N_ROWS; row++) {
        uint64_t n_bytes = b->floats[row] * sizeof(float);
        if (!packet_floats_in_row(b, packet_span(h), row))
            continue;
        out->at[row] = decode_u64(&d);
        lie_there &= out->at[row] % sizeof(float) == 0 && n_bytes <= b->memory_bytes &&
                     out->at[row] <= b->memory_bytes - n_bytes;
    }
    return decode_is_whole(&d) && lie_there;
}

/* ---- numbers ---- */

void packet_write_grant(unsigned char bytes[GRANT_BYTES], const struct grant *t)
{
    struct encoder e = encode_into(bytes, GRANT_BYTES);
    encode_u32(&e, t->is_given);
    encode_u64(&e, t->ended);
}

bool packet_read_grant(const unsigned char *bytes, size_t n, struct grant *out)
{
    struct decoder d = decode_from(bytes, n);
    out->is_given = decode_bool(&d);
    out->ended = decode_u64(&d);
    return decode_is_whole(&d);
}

void packet_write_number(unsigned char bytes[8], uint64_t number)
{
    struct encoder e = encode_into(bytes, 8);
    encode_u64(&e, number);
}

bool packet_read_number(const unsigned char *bytes, size_t n, uint64_t *out)
{
    struct decoder d = decode_from(bytes, n);
    *out = decode_u64(&d);
    return decode_is_whole(&d);
}

void packet_write_exam(unsigned char bytes[EXAM_BYTES], const struct exam *exam)
{
    struct encoder e = encode_into(bytes, EXAM_BYTES);
    encode_u32(&e, exam->on_train);
    encode_u64(&e, exam->first);
    encode_u64(&e, exam->n);
    encode_f64(&e, exam->loss);
    encode_u64(&e, exam->hits);
}

bool packet_read_exam(const unsigned char *bytes, size_t n, struct exam *out)
{
    struct decoder d = decode_from(bytes, n);
    *out = (struct exam){.on_train = decode_bool(&d)};
    out->first = decode_u64(&d);
    out->n = decode_u64(&d);
    out->loss = decode_f64(&d);
    out->hits = decode_u64(&d);
    return decode_is_whole(&d);
}

static void encode_account(struct encoder *e, const struct account *a)
{
    const uint64_t counts[] = {a->k,
                               a->lessons,
                               a->steps,
                               a->dropped,
                               a->staleness.sum,
                               a->staleness.most,
                               a->staleness.n,
                               a->tally.hits,
                               a->tally.samples,
                               a->tally.lessons,
                               a->counts.bytes,
                               a->counts.messages,
                               a->counts.lost,
                               a->counts.received,
                               a->counts.unread};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        encode_u64(e, counts[i]);
    encode_f64(e, a->lr);
    encode_f64(e, a->loss);
    encode_f64(e, a->tally.loss);
    encode_f64(e, a->counts.waiting_s);
}

static void decode_account(struct decoder *d, struct account *a)
{
    uint64_t *const counts[] = {&a->k,
                                &a->lessons,
                                &a->steps,
                                &a->dropped,
                                &a->staleness.sum,
                                &a->staleness.most,
                                &a->staleness.n,
                                &a->tally.hits,
                                &a->tally.samples,
                                &a->tally.lessons,
                                &a->counts.bytes,
                                &a->counts.messages,
                                &a->counts.lost,
                                &a->counts.received,
                                &a->counts.unread};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *counts[i] = decode_u64(d);
    a->lr = decode_f64(d);
    a->loss = decode_f64(d);
    a->tally.loss = decode_f64(d);
    a->counts.waiting_s = decode_f64(d);
}

void packet_write_account(unsigned char bytes[ACCOUNT_BYTES], const struct account *a)
{
    struct encoder e = encode_into(bytes, ACCOUNT_BYTES);
    encode_account(&e, a);
}

bool packet_read_account(const unsigned char *bytes, size_t n, struct account *out)
{
    struct decoder d = decode_from(bytes, n);
    decode_account(&d, out);
    return decode_is_whole(&d);
}

void packet_write_state(unsigned char *bytes, const struct state *s, const double *waits, size_t n_waits)
{
    struct encoder e = encode_into(bytes, STATE_BYTES + 8 * n_waits);
    encode_u32(&e, s->is_busy);
    encode_u64(&e, s->sent);
    encode_u64(&e, s->heard);
    encode_u64(&e, s->n_gone);
    encode_account(&e, &s->account);
    for (size_t i = 0; i < n_waits; i++)
        encode_f64(&e, waits[i]);
}

bool packet_read_state(const unsigned char *bytes, size_t n, struct state *out, double *waits, size_t n_waits)
{
    struct decoder d = decode_from(bytes, n);
    out->is_busy = decode_bool(&d);
    out->sent = decode_u64(&d);
    out->heard = decode_u64(&d);
    out->n_gone = decode_u64(&d);
    decode_account(&d, &out->account);
    for (size_t i = 0; i < n_waits; i++)
        waits[i] = decode_f64(&d);
    return decode_is_whole(&d);
}

/* ---- texts ---- */

size_t packet_write_texts(unsigned char *bytes, size_t room, const char *const *texts, size_t n_texts)
{
    struct encoder e = encode_into(bytes, room);
    for (size_t i = 0; i < n_texts; i++) {
        size_t lengths = 4 * (n_texts - i), left = room - e.n - lengths, n = strlen(texts[i]);
        n = smaller(n, left);
        encode_u32(&e, (uint32_t)n);
        encode_bytes(&e, texts[i], n);
    }
    return e.n;
}

bool packet_read_texts(const unsigned char *bytes, size_t n, char *const *texts, size_t n_texts, size_t room)
{
    struct decoder d = decode_from(bytes, n);
    for (size_t i = 0; i < n_texts; i++)
        decode_text(&d, texts[i], room);
    return decode_is_whole(&d);
}
