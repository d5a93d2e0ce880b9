/* service.c - see service.h.
 *
 *   a letter of a caller, by its number:
 *       beyond the last    its rows are here, or it has none -> QUESTION, pending until it is applied
 *                          its rows did not come             -> "again"
 *       the last           REPEAT: it waits again; a pair makes sure who leads
 *       before the last    nothing: it was overtaken
 *   to the one of a pair that follows: "moved", if the leader can be reached and did not send it; else it leads
 *
 *   a visitor:  unknown --(asks)--> active --(cannot be reached)---> gone      --(can be reached)--> active
 *                                          --(waited for in vain)--> silent    --(asks)------------> active
 *                                          --(says farewell)-------> has left  --(asks)------------> active
 *
 *   of a pair:  leads --(hears that the other does; the standby stays)--> follows
 *               follows --(asked by a caller that the leader cannot serve)--> leads
 */
#include "call/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "call/letter.h"

fault service_init(struct service *s, size_t self, size_t n, size_t n_agents, size_t question_bytes,
                   size_t answer_bytes)
{
    size_t most = larger(question_bytes, answer_bytes);
    *s = (struct service){.n_agents = n_agents,
                          .n = n,
                          .visitors = calloc(n, sizeof *s->visitors),
                          .question_bytes = question_bytes,
                          .answer_bytes = answer_bytes,
                          .answer_tag = CALL_ANSWER,
                          .question = calloc(1, most),
                          .other = self,
                          .tells_applied = true,
                          .leads = true,
                          .reply = calloc(1, most),
                          .numbers = calloc(n, sizeof *s->numbers)};
    return s->visitors && s->question && s->reply && s->numbers ? OK : OUT_OF_MEMORY;
}

void service_release(struct service *s)
{
    free(s->visitors);
    free(s->question);
    free(s->reply);
    free(s->numbers);
    *s = (struct service){0};
}

static bool is_of_pair(const struct service *s)
{
    return s->other != s->link->self;
}

void service_return(struct service *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct visitor *v = &s->visitors[i];
        v->taken = v->applied;
        v->pending = v->waits = v->silent = false;
        v->since = link_now_s(s->link);
    }
    s->leads = s->leads && !is_of_pair(s);
}

void service_note(const struct service *s, const char *kind, const char *what)
{
    char text[192];
    snprintf(text, sizeof text, "%s %s", s->name, what);
    link_note(s->link, kind, text);
}

/* A letter of the service's own; what cannot be delivered is the receiver's misfortune: it will ask again. */
static fault tell(struct service *s, size_t to, uint64_t tag, size_t n_bytes, struct call_head head)
{
    memset(s->reply, 0, n_bytes);
    memcpy(s->reply, &head, sizeof head);
    return forgive(call_send_letter(s->link, to, tag, s->reply, n_bytes));
}

static fault tell_caller(struct service *s, size_t to, uint64_t number, uint32_t kind)
{
    struct call_head head = {.number = number, .kind = kind};
    return s->answer_bytes ? tell(s, to, s->answer_tag, s->answer_bytes, head) : OK;
}

static fault tell_helper(struct service *s, size_t to, uint32_t kind)
{
    return tell(s, to, CALL_ASK, s->question_bytes, (struct call_head){.kind = kind});
}

fault service_dismiss(struct service *s, size_t member)
{
    return tell_helper(s, member, CALL_END);
}

/* ---- of a pair ---- */

static void lead(struct service *s, struct arrival *out)
{
    s->leads = out->takes_over = true;
    for (size_t i = 0; i < s->n; i++) {
        s->visitors[i].since = link_now_s(s->link);
        s->visitors[i].gone = false; /* whom it does without is for it to say now */
    }
    service_note(s, "takeover", "takes over from the other of its pair");
}

/* What is pending is for the other to apply; visitors that wait are sent there. */
static fault follow(struct service *s, struct arrival *out)
{
    if (!s->leads)
        return OK;
    s->leads = false;
    out->yields = true;
    service_note(s, "takeover", "follows the other of its pair, which serves");
    for (size_t i = 0; i < s->n; i++) {
        struct visitor *v = &s->visitors[i];
        if (v->waits)
            TRY(tell_caller(s, i, v->taken, CALL_MOVED));
        v->waits = v->pending = v->has_left = false;
        v->taken = v->applied;
    }
    return OK;
}

/* Of two that lead the standby stays. */
static fault settle_who_leads(struct service *s, struct arrival *out)
{
    return s->leads && s->other < s->link->self ? tell_helper(s, s->other, CALL_YIELD) : follow(s, out);
}

fault service_copy(struct service *s, struct call_head *letter, struct span rows)
{
    if (!is_of_pair(s) || link_has_ended(s->link, s->other))
        return OK;
    letter->number = ++s->n_copies;
    letter->kind = CALL_LEADS | CALL_ROWS;
    uint64_t tag = CALL_COPY + 2 * letter->number;
    for (size_t i = 0; s->tells_applied && i < s->n; i++)
        s->numbers[i] = s->visitors[i].applied;
    encode_in_place(s->numbers, s->n);
    fault f = link_send_rows(s->link, s->other, tag, rows);
    if (!f && s->tells_applied)
        f = link_send(s->link, s->other, tag + 1, s->numbers, s->n * sizeof *s->numbers);
    if (!f)
        f = call_send_letter(s->link, s->other, CALL_ASK, letter, s->question_bytes);
    return forgive(f);
}

/* The rows of a copy and its numbers; one without the other is none. */
static fault hear_copy(struct service *s, const struct call_head *x, struct parcel *rows, struct arrival *out)
{
    TRY(settle_who_leads(s, out));
    if (!(x->kind & CALL_ROWS))
        return OK;
    uint64_t tag = CALL_COPY + 2 * x->number;
    TRY(forgive(link_recv_rows(s->link, s->other, tag, rows, NULL)));
    fault f = s->tells_applied
                  ? link_recv(s->link, s->other, tag + 1, s->numbers, s->n * sizeof *s->numbers, NULL)
                  : OK; /* all zero */
    if (f || !rows->rows || s->leads) {
        link_drop(s->link, rows);
        return forgive(f);
    }
    decode_in_place(s->numbers, s->n);
    for (size_t i = 0; i < s->n; i++)
        s->visitors[i].taken = s->visitors[i].applied = s->numbers[i];
    out->what = ARRIVED_COPY;
    return OK;
}

/* ---- questions ---- */

/* The rows of a letter are fetched even where they are of no use: else they would lie in the mail for ever. */
static fault fetch_rows(struct service *s, size_t from, const struct call_head *x, struct parcel *rows)
{
    if (!(x->kind & CALL_ROWS))
        return OK;
    return forgive(link_recv_rows(s->link, from, CALL_UP + x->number, rows, NULL));
}

static void meet(struct service *s, struct visitor *v, struct arrival *out)
{
    out->is_new = !v->known || v->gone || v->silent;
    v->known = true;
    v->gone = v->silent = false;
    v->since = link_now_s(s->link);
}

static bool lets_other_serve(const struct service *s, const struct call_head *x)
{
    return !s->leads && !(x->kind & CALL_SENT) && link_can_reach(s->link, s->other) &&
           !link_has_ended(s->link, s->other);
}

static void take(struct visitor *v, const struct call_head *x, struct arrival *out)
{
    assert(x->number > v->taken && v->taken >= v->applied);
    v->taken = x->number;
    v->waits = true;
    v->has_left = false;
    v->n_again = 0;
    v->pending = x->kind & CALL_NEEDS;
    if (!v->pending)
        v->applied = v->taken;
    out->what = ARRIVED_QUESTION;
}

/* The answer was lost, or is still to come; perhaps because those it waits for ask the other of the pair. */
static fault take_again(struct service *s, struct visitor *v, struct arrival *out)
{
    v->waits = true;
    v->n_again++;
    out->what = ARRIVED_REPEAT;
    return is_of_pair(s) && !link_has_ended(s->link, s->other) ? tell_helper(s, s->other, CALL_LEADS) : OK;
}

static fault hear_question(struct service *s, size_t from, const struct call_head *x, struct parcel *rows,
                           struct arrival *out)
{
    struct visitor *v = &s->visitors[from];
    fault f = OK;
    TRY(fetch_rows(s, from, x, rows));
    meet(s, v, out);
    if (lets_other_serve(s, x)) {
        f = tell_caller(s, from, x->number, CALL_MOVED);
    } else {
        if (!s->leads)
            lead(s, out);
        if (x->number == v->taken)
            f = take_again(s, v, out);
        else if (x->number > v->taken && x->kind & CALL_NEEDS && !rows->rows)
            f = tell_caller(s, from, x->number, CALL_AGAIN);
        else if (x->number > v->taken)
            take(v, x, out);
    }
    if (out->what != ARRIVED_QUESTION)
        link_drop(s->link, rows);
    return f;
}

/* Who leads is for the other of the pair to say, questions and farewells for those that may call. */
static bool may_say(const struct service *s, size_t who, uint32_t kind)
{
    if (kind & (CALL_LEADS | CALL_YIELD))
        return is_of_pair(s) && who == s->other;
    return kind == CALL_END || who < s->n;
}

static fault hear_letter(struct service *s, const struct call_head *x, struct parcel *rows,
                         struct arrival *out)
{
    if (!may_say(s, out->who, x->kind))
        return call_refuse(s->link, out->who);
    if (x->kind & CALL_LEADS)
        return hear_copy(s, x, rows, out);
    if (x->kind & CALL_YIELD)
        return follow(s, out);
    if (x->kind & CALL_END)
        s->is_over = true;
    if (x->kind & CALL_LEAVE) {
        meet(s, &s->visitors[out->who], out);
        s->visitors[out->who].has_left = true;
        out->what = ARRIVED_FAREWELL;
    }
    return x->kind & (CALL_END | CALL_LEAVE) ? OK : hear_question(s, out->who, x, rows, out);
}

fault service_hear(struct service *s, size_t from, struct parcel *rows, struct arrival *out)
{
    *out = (struct arrival){.who = from, .letter = s->question};
    assert(!rows->rows);
    fault f = call_recv_letter(s->link, from, CALL_ASK, s->question, s->question_bytes, &out->who);
    out->in_vain = f && fault_kind_of(f) == FAULT_TIMEOUT;
    return f ? forgive(f) : hear_letter(s, s->question, rows, out);
}

void service_applied(struct service *s, size_t who)
{
    struct visitor *v = &s->visitors[who];
    v->pending = false;
    v->applied = v->taken;
}

fault service_answer(struct service *s, size_t to, struct call_head *letter, struct span rows)
{
    struct visitor *v = &s->visitors[to];
    assert(v->waits);
    v->waits = false;
    v->since = link_now_s(s->link);
    fault f = rows.rows ? link_send_rows(s->link, to, CALL_DOWN + v->taken, rows) : OK;
    if (!f && letter) {
        letter->number = v->taken;
        letter->kind = rows.rows ? CALL_ROWS : 0;
        f = call_send_letter(s->link, to, s->answer_tag, letter, s->answer_bytes);
    }
    return forgive(f);
}

/* ---- who is there ---- */

static void note_visitor(const struct service *s, size_t who, const char *kind, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "goes on without %s %zu, which %s", who < s->n_agents ? "agent" : "node", who,
             what);
    service_note(s, kind, text);
}

bool service_is_active(const struct service *s, size_t who)
{
    const struct visitor *v = &s->visitors[who];
    return v->known && !v->gone && !v->silent && !v->has_left && !link_has_ended(s->link, who);
}

bool service_awaits(const struct service *s, size_t who)
{
    return service_is_active(s, who) && !s->visitors[who].waits;
}

void service_look_who_is_gone(struct service *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct visitor *v = &s->visitors[i];
        bool gone = v->known && !v->has_left && !link_can_reach(s->link, i);
        if (gone && !v->gone && s->leads)
            note_visitor(s, i, "gone", "cannot be reached");
        v->gone = gone;
    }
}

void service_misses(struct service *s, size_t who)
{
    if (!s->visitors[who].silent)
        note_visitor(s, who, "silent", "has not been heard for too long");
    s->visitors[who].silent = true;
}

void service_look_who_is_silent(struct service *s, bool is_awaited)
{
    double enough = s->patience_s * (1 - 1e-9), now = link_now_s(s->link);
    if (!s->is_awaited)
        s->awaited_since = now;
    s->is_awaited = is_awaited;
    if (!is_awaited || now - s->awaited_since < enough)
        return;
    for (size_t i = 0; i < s->n; i++)
        if (service_awaits(s, i) && now - s->visitors[i].since >= enough)
            service_misses(s, i);
}

bool service_is_needed(const struct service *s)
{
    bool is_needed = false;
    for (size_t i = 0; i < s->n_agents; i++)
        is_needed |= link_can_reach(s->link, i) && !link_has_ended(s->link, i);
    return is_needed;
}
