/* ask.c - what is asked of a peer whose program takes no notice: to average, to give its rows, and of the leader the
 * next round.
 *
 * An average is of both ends at one moment, though they have no clock in common:
 *
 *   a: sends x_a, lets none move it   -->   b: x_b becomes (x_a + x_b) / 2, sends what x_b was
 *   a: x_a becomes (x_a + x_b) / 2
 *
 * A member may ask a while it waits so: one that comes after a in their order waits as well, one that comes before it is
 * sent away and asks again, so those that wait for each other never form a ring. Where two have asked each other, and neither
 * question was answered before the other was sent, each is the answer to the other.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/host.h"
#include "world/far/inside.h"

static const uint64_t low_24 = (1u << 24) - 1;

static bool any_is_being_sent(const struct far *w, row_set rows)
{
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        if (rows & 1u << row && sendings_hold(w, row, 0, TO_END))
            return true;
    return false;
}

static bool is_answered(const struct far *w, const void *ctx)
{
    (void)ctx;
    return w->answer && (w->answer->head.tag & low_24) == w->question;
}

/* ---- answering ---- */

static bool have_crossed(const struct far *w, const struct incoming *m)
{
    return w->has_asked && !is_answered(w, NULL) && m->from == w->asked_whom && m->head.rows == w->asked_for;
}

static void take_for_answer(struct far *w, struct incoming *m)
{
    m->head.tag = w->question;
    ask_hear_answer(w, m);
}

/* An answer without rows. */
static void send_away(struct far *w, const struct incoming *m)
{
    w->link.counts.unread++;
    w->link.counts.messages++;
    far_tell(w, m->from, MSG_AVERAGE, m->head.tag, NULL, 0);
}

/* One that comes too late answers nothing. */
void ask_hear_answer(struct far *w, struct incoming *m)
{
    bool in_vain = (m->head.tag & low_24) != w->question;
    incoming_drop(w, in_vain ? m : w->answer);
    if (!in_vain)
        w->answer = m;
}

/* x becomes the mean; what x was takes the place of y. The lower member's comes first, so both get the same bits. */
static void average_and_swap(float *x, float *y, size_t n, bool x_first)
{
    for (size_t i = 0; i < n; i++) {
        float a = x_first ? x[i] : y[i], b = x_first ? y[i] : x[i], sum = 0.5f * a;
        y[i] = x[i];
        x[i] = sum + 0.5f * b;
    }
}

/* A lesson that is over counts as none, though I have not looked yet: I may be waiting, with the first part of its gradient,
 * for the very peer that asks. */
static bool rows_are_learnt_from(struct far *w)
{
    return w->lessons.job == JOB_LEARN && !w->keeps_copy && lessons_are_computing(w);
}

static bool try_to_average(struct far *w, struct incoming *m)
{
    if (w->has_asked && m->from < w->link.self && !is_answered(w, NULL)) {
        send_away(w, m);
        return true;
    }
    if (w->has_asked || rows_are_learnt_from(w) || any_is_being_sent(w, m->head.rows))
        return false;
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        if (m->head.rows & 1u << row && floats_of(w, row))
            average_and_swap(row_of(w, row), (float *)incoming_floats(w, m, row, 0, floats_of(w, row)),
                             floats_of(w, row), w->link.self < m->from);
    w->writes++;
    w->link.counts.received++;
    w->link.counts.messages++;
    w->link.counts.bytes += m->head.n_bytes;
    struct head h = m->head;
    h.kind = MSG_AVERAGE;
    far_tell_with_head(w, m->from, h, m->bytes);
    return true;
}

static bool try_to_give_rows(struct far *w, const struct incoming *m)
{
    if (rows_are_learnt_from(w))
        return false; /* the statistics are being written */
    struct span span = whole(ROWS_LASTING);
    w->link.counts.messages++;
    w->link.counts.bytes += packet_span_bytes(&w->bounds, span);
    far_tell_rows(w, m->from, MSG_ADOPT, m->head.tag | w->agent->k << 24, span);
    return true;
}

/* The leader's count, after it heard that a member has so many rounds behind it. */
static struct grant count_rounds(struct far *w, size_t who, uint64_t k)
{
    const struct stage *s = w->stage;
    struct totals *t = &w->totals;
    w->states[who].account.k = k;
    t->ended = 0;
    for (size_t i = 0; i < s->n_agents; i++)
        t->ended += w->states[i].account.k;
    bool is_given = t->begun < s->rounds * s->n_agents;
    t->begun += is_given;
    return (struct grant){is_given, t->ended};
}

static void give_grant(struct far *w, const struct incoming *m)
{
    unsigned char bytes[GRANT_BYTES];
    uint64_t k;
    if (!packet_read_number(m->bytes, (size_t)m->head.n_bytes, &k)) {
        courier_refuse(w, m->from);
        return;
    }
    struct grant t = count_rounds(w, m->from, k);
    packet_write_grant(bytes, &t);
    far_tell(w, m->from, MSG_ROUND, m->head.tag, bytes, sizeof bytes);
}

bool ask_try_to_answer(struct far *w, struct incoming *m)
{
    bool done = true;
    if (m->head.kind == MSG_ASK_AVERAGE && have_crossed(w, m)) {
        take_for_answer(w, m);
        return true;
    }
    if (m->head.kind == MSG_ASK_AVERAGE)
        done = try_to_average(w, m);
    else if (m->head.kind == MSG_ASK_ADOPT)
        done = try_to_give_rows(w, m);
    else {
        give_grant(w, m);
    }
    if (done)
        incoming_drop(w, m);
    return done;
}

/* ---- asking ---- */

static fault wait_for_answer(struct far *w, size_t peer)
{
    double since = far_now_s(w);
    fault f = wait_until(w, is_answered, NULL, peer);
    mail_count_own_wait(w, peer, since);
    return f;
}

static void drop_answer(struct far *w)
{
    incoming_drop(w, w->answer);
    w->answer = NULL;
}

/* It answers something else. */
static fault refuse_answer(struct far *w, size_t from)
{
    courier_refuse(w, from);
    return FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
}

static void next_question(struct far *w)
{
    w->question = (w->question + 1) & low_24;
}

/* My rows, packed as they are sent. */
static void pack(const struct far *w, row_set rows, float *into)
{
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        if (rows & 1u << row && floats_of(w, row)) {
            memcpy(into, row_of(w, row), floats_of(w, row) * sizeof(float));
            into += floats_of(w, row);
        }
}

static void meet_halfway(struct far *w, const struct incoming *theirs)
{
    const float halves[2] = {0.5f, 0.5f};
    bool first = w->link.self < theirs->from;
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
        size_t n = theirs->head.rows & 1u << row ? floats_of(w, row) : 0;
        if (!n)
            continue;
        float *x = row_of(w, row);
        const float *y = incoming_floats(w, theirs, row, 0, n);
        const float *both[2] = {first ? x : y, first ? y : x};
        host_blend(x, both, halves, 2, n);
    }
    w->writes++;
}

/* *met: the peer was not waiting itself. */
static fault wait_and_meet(struct far *w, size_t peer, row_set rows, bool *met)
{
    TRY(wait_for_answer(w, peer));
    w->link.counts.received++;
    const struct head *h = &w->answer->head;
    bool is_average = (h->kind == MSG_AVERAGE && (!h->rows || h->rows == rows)) || h->kind == MSG_ASK_AVERAGE;
    if (!is_average) {
        drop_answer(w);
        return refuse_answer(w, peer);
    }
    *met = h->rows != 0;
    for (enum row row = 0; *met && row < w->engine->setup.rows.n; row++)
        if (rows & 1u << row)
            TRY(sendings_await(w, row, 0, TO_END));
    if (*met)
        meet_halfway(w, w->answer);
    drop_answer(w);
    return OK;
}

static fault ask_to_average(struct far *w, size_t peer, row_set rows, struct incoming *mine, bool *met)
{
    pack(w, rows, (float *)(void *)mine->bytes);
    mine->head = (struct head){.kind = MSG_ASK_AVERAGE, .rows = rows, .end = TO_END};
    mine->head.n_bytes = packet_span_bytes(&w->bounds, whole(rows));
    next_question(w);
    mine->head.tag = w->question;
    w->link.counts.messages++;
    w->link.counts.bytes += mine->head.n_bytes;
    far_tell_with_head(w, peer, mine->head, mine->bytes);
    w->has_asked = true;
    w->asked_whom = peer;
    w->asked_for = rows;
    fault f = wait_and_meet(w, peer, rows, met);
    w->has_asked = false;
    return f;
}

/* One that was sent away gives those that wait for it a moment. */
static fault average_with(struct far *w, size_t peer, row_set rows, struct incoming *mine)
{
    double since = far_now_s(w), patience_s = patience_of(w);
    char name[128];
    for (;;) {
        bool met = false;
        fault f = ask_to_average(w, peer, rows, mine, &met);
        if (f || met)
            return f;
        if (far_now_s(w) - since > patience_s && !silence_has_suspect(w))
            return FAIL(FAULT_TIMEOUT, "agent %zu waited %g s for %s in vain", w->link.self, patience_s,
                        far_member_called(w, peer, name));
        w->stance = WILL_ASK_AGAIN;
        f = wait_to(w, clock_now_s() + 5e-5);
        w->stance = WAITS_FOR_OTHERS;
        TRY(f);
    }
}

fault far_average(struct link *l, size_t peer, row_set rows)
{
    struct far *w = far_of(l);
    struct incoming *mine = incoming_new(w, packet_span_bytes(&w->bounds, whole(rows)));
    if (!mine)
        return OUT_OF_MEMORY;
    fault f = average_with(w, peer, rows, mine);
    incoming_drop(w, mine);
    return f;
}

fault far_adopt(struct link *l, size_t peer, uint64_t *round)
{
    struct far *w = far_of(l);
    next_question(w);
    far_tell(w, peer, MSG_ASK_ADOPT, w->question, NULL, 0);
    TRY(wait_for_answer(w, peer));
    const struct incoming *m = w->answer;
    l->counts.received++;
    fault f = m->head.kind == MSG_ADOPT ? OK : refuse_answer(w, peer);
    if (!f && !w->keeps_copy)
        f = wait_for_members(w, lessons_are_over, NULL); /* it reads the rows that are about to be others */
    for (enum row row = 0; !f && row < w->engine->setup.rows.n; row++) {
        size_t n = ROWS_LASTING & 1u << row ? floats_of(w, row) : 0;
        if (n)
            f = sendings_await(w, row, 0, TO_END);
        if (n && !f)
            memcpy(row_of(w, row), incoming_floats(w, m, row, 0, n), n * sizeof(float));
    }
    w->writes++;
    if (round)
        *round = m->head.tag >> 24;
    drop_answer(w);
    return f;
}

static fault ask_for_round(struct far *w, struct grant *out)
{
    unsigned char k[8];
    packet_write_number(k, w->agent->k);
    next_question(w);
    far_tell(w, 0, MSG_ASK_ROUND, w->question, k, sizeof k);
    TRY(wait_for_answer(w, 0));
    bool is_grant = w->answer->head.kind == MSG_ROUND &&
                   packet_read_grant(w->answer->bytes, (size_t)w->answer->head.n_bytes, out);
    drop_answer(w);
    return is_grant ? OK : refuse_answer(w, 0);
}

bool far_take_round(struct link *l, uint64_t *ended)
{
    struct far *w = far_of(l);
    struct grant t = {0};
    fault f = OK;
    if (is_leader(w))
        t = count_rounds(w, 0, w->agent->k);
    else
        f = ask_for_round(w, &t);
    if (f)
        wait_break_off(w, f);
    *ended = t.ended;
    return t.is_given;
}
