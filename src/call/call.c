/* call.c - see call.h: the side that asks.
 *
 *          begin
 *   IDLE ---------> ASKED  -- an answer ----------------------------------------------> ANSWERED
 *                     |
 *                     +---> ASKED  silent for a patience, but alive: asked again, without rows
 *                     +---> ASKED  "again", the rows did not come: asked again, with rows
 *                     +---> ASKED  gone or "moved", and the other of the pair is there: that one is asked
 *                     +---> LOST   gone or "moved", and the other is not there
 *                     +-- silent for too long; the group its answers are of is dissolved ---> GIVEN_UP
 *   LOST, looking again and again
 *                     +---> ASKED  it is there again, or the other is: asked, with rows
 *                     +-- lost for too long, or it will not come back ----------------------> GIVEN_UP
 *
 * A call may begin in any state: the program of a machine that went down was dropped in the midst of one. A
 * service that lives is asked again after the 1st, 2nd, 4th, 8th ... wait in vain, so that a thin wire is not
 * filled with questions.
 */
#include "call/call.h"

#include <assert.h>
#include <stdio.h>

#include "call/letter.h"

#define LOOKS 16 /* for a lost service, in a patience */

static void go_to(struct call_line *c, enum call_state next)
{
    static const unsigned may_follow[] = {
        [CALL_ASKED] = 1u << CALL_ASKED | 1u << CALL_LOST | 1u << CALL_ANSWERED | 1u << CALL_GIVEN_UP,
        [CALL_LOST] = 1u << CALL_ASKED | 1u << CALL_LOST | 1u << CALL_GIVEN_UP,
    };
    (void)may_follow;
    assert(c->state <= CALL_LOST && may_follow[c->state] >> next & 1);
    c->state = next;
}

struct call_line call_line_to(const char *service, size_t member)
{
    return (struct call_line){.service = service,
                              .asked = member,
                              .other = member,
                              .question_bytes = sizeof(struct call_head),
                              .answer_tag = CALL_ANSWER,
                              .silent = 1};
}

struct call_line call_line_to_pair(const char *service, size_t member, size_t other, size_t question_bytes,
                                   size_t answer_bytes)
{
    struct call_line line = call_line_to(service, member);
    line.other = other;
    line.question_bytes = question_bytes;
    line.answer_bytes = answer_bytes;
    line.silent = CALL_SILENT;
    line.lost = CALL_LOST_FOR; /* the others have gone on by then, if it is the caller that is cut off */
    return line;
}

static struct link *link_of(const struct call_line *c)
{
    return c->caller->link;
}

static bool can_answer(const struct call_line *c, size_t member)
{
    return link_can_reach(link_of(c), member) && !link_has_ended(link_of(c), member);
}

/* ASKED; or LOST, where it cannot be told. */
static fault ask(struct call_line *c, uint32_t how)
{
    struct link *l = link_of(c);
    bool has_rows = c->rows.rows != 0, sends_rows = has_rows && how & CALL_ROWS;
    fault f = can_answer(c, c->asked) ? OK : FAIL(FAULT_PEER, "it cannot be reached");
    c->question->kind = (how & CALL_SENT) | (has_rows ? CALL_NEEDS : 0) | (sends_rows ? CALL_ROWS : 0);
    if (!f && sends_rows)
        f = link_send_rows(l, c->asked, CALL_UP + c->number, c->rows);
    if (!f)
        f = call_send_letter(l, c->asked, CALL_ASK, c->question, c->question_bytes);
    go_to(c, f ? CALL_LOST : CALL_ASKED);
    return forgive(f);
}

fault call_begin(struct caller *caller, struct call_line *c, struct call_head *question, struct span rows)
{
    c->caller = caller;
    question->number = c->number = ++c->caller->number;
    c->question = question;
    c->rows = rows;
    c->n_waits = 0;
    c->state = CALL_ASKED;
    return ask(c, CALL_ROWS);
}

/* ---- when no answer comes ---- */

/* The group that its answers are of goes on without it. */
static bool is_dissolved(const struct call_line *c)
{
    return c->answer_tag >= TAG_GROUP && link_dissolved(link_of(c)) > c->answer_tag;
}

static bool has_had_its_time(const struct call_line *c)
{
    return link_now_s(link_of(c)) - c->since >= (c->silent + c->lost) * c->caller->patience_s * (1 - 1e-9);
}

static fault give_up(struct call_line *c, const char *why)
{
    struct link *l = link_of(c);
    c->caller->may_hear_twice = true;
    go_to(c, CALL_GIVEN_UP);
    return FAIL(FAULT_PEER, "%s %zu has lost %s %zu%s: %s", c->caller->name, l->self, c->service, c->asked,
                c->other == c->asked ? "" : " and its standby", why);
}

static fault turn(struct call_line *c, uint32_t how)
{
    size_t from = c->asked;
    c->caller->may_hear_twice = true;
    c->asked = c->other;
    c->other = from;
    return ask(c, how);
}

static void note_turn(const struct call_line *c)
{
    char text[128];
    snprintf(text, sizeof text, "%s %zu turns from member %zu to member %zu, which stands in for it",
             c->caller->name, link_of(c)->self, c->asked, c->other);
    link_note(link_of(c), "turn", text);
}

/* Waits a little, but not for ever; that the caller was down itself meanwhile makes it no longer. */
static fault look_again(struct call_line *c)
{
    struct link *l = link_of(c);
    double now = link_now_s(l);
    if (!c->is_lost)
        c->lost_since = now;
    c->is_lost = true;
    if (now - c->lost_since >= c->lost * c->caller->patience_s || link_has_ended(l, c->asked) ||
        !link_may_return(l, c->asked))
        return give_up(c, "it cannot be reached, and no standby takes its place");
    go_to(c, CALL_LOST);
    return link_sleep(l, c->caller->patience_s / LOOKS);
}

/* The one that was asked is LOST. */
static fault find_another(struct call_line *c)
{
    if (c->state == CALL_LOST && can_answer(c, c->asked))
        return ask(c, CALL_ROWS); /* it is back */
    if (c->other == c->asked || !can_answer(c, c->other))
        return look_again(c);
    note_turn(c);
    return turn(c, CALL_ROWS);
}

/* The one that was ASKED has not answered; it may live and be slow, or a message was lost. */
static fault recover(struct call_line *c)
{
    if (is_dissolved(c))
        return give_up(c, "others go on without it");
    if (!can_answer(c, c->asked))
        return find_another(c);
    if (!c->answer_bytes)
        return give_up(c, "it does not answer");
    c->is_lost = false;
    c->caller->may_hear_twice = true;
    c->n_waits++;
    bool is_power_of_two = (c->n_waits & (c->n_waits - 1)) == 0;
    return is_power_of_two ? ask(c, 0) : OK;
}

/* ---- the answer ---- */

/* Answers to earlier questions are of no interest any more, and make the call no longer. */
static fault hear(struct call_line *c, struct call_head *answer)
{
    do {
        if (has_had_its_time(c))
            return FAIL(FAULT_TIMEOUT, "it answers nothing but earlier questions");
        TRY(call_recv_letter(link_of(c), c->asked, c->answer_tag, answer, c->answer_bytes, NULL));
    } while (answer->number != c->number);
    return OK;
}

static fault hear_rows(struct call_line *c, struct parcel *rows)
{
    return link_recv_rows(link_of(c), c->asked, CALL_DOWN + c->number, rows, NULL);
}

/* The other serves, says the one that was asked; it may not be so as seen from here. */
static fault move(struct call_line *c)
{
    if (c->other != c->asked && can_answer(c, c->other))
        return turn(c, CALL_ROWS | CALL_SENT);
    return look_again(c);
}

static fault await(struct call_line *c, struct call_head *answer, struct parcel *rows)
{
    fault f = c->answer_bytes ? hear(c, answer) : hear_rows(c, rows);
    if (!f && c->answer_bytes && answer->kind & CALL_MOVED)
        return move(c);
    if (!f && c->answer_bytes && answer->kind & CALL_AGAIN)
        return ask(c, CALL_ROWS);
    if (!f && c->answer_bytes && answer->kind & CALL_ROWS)
        f = hear_rows(c, rows);
    if (f) {
        TRY(forgive(f));
        return recover(c);
    }
    c->is_lost = false;
    go_to(c, CALL_ANSWERED);
    return OK;
}

fault call_end(struct call_line *c, struct call_head *answer, struct parcel *rows)
{
    fault f = OK;
    rows->rows = NULL;
    c->since = link_now_s(link_of(c));
    while (!f && (c->state == CALL_ASKED || c->state == CALL_LOST)) {
        if (has_had_its_time(c))
            f = give_up(c, "it does not answer");
        else
            f = c->state == CALL_LOST ? find_another(c) : await(c, answer, rows);
    }
    if (c->caller->may_hear_twice)
        link_forget(link_of(c), CALL_DOWN + c->number + 1);
    return f;
}

double call_line_lost_since(const struct call_line *c)
{
    return c->is_lost ? c->lost_since : c->since;
}

void call_leave(struct caller *caller, const struct call_line *c, struct call_head *farewell)
{
    farewell->kind = CALL_LEAVE;
    fault_drop(call_send_letter(caller->link, c->asked, CALL_ASK, farewell, c->question_bytes));
}
