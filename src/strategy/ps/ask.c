/* ask.c - the side that asks: a worker, or a node of the tree that asks for those below it.
 *
 *   ask all shards --> an answer: take the parameters                        (the usual course)
 *                      none in time, but the server lives: ask once more, without rows; one that has stalled is gone
 *                      as soon as its world has noticed, after patience
 *                      the node is gone: ask the servers from now on
 *                      the server is gone: ask its standby, which serves from then on
 *                      nobody is left: try again for twice the patience where it may come back, then give up
 *
 * Twice, so that the servers have had the time to go on without somebody who is merely cut off itself: what
 * the rest of the group did meanwhile tells that from a dead server.
 */
#include <stdio.h>

#include "strategy/ps/ps.h"

struct errand { /* one exchange with one that answers */
    struct agent *agent;
    struct ps_client *client;
    struct ps_shard *shard;
    uint64_t n_waits; /* in vain, for one that lives */
    bool gives_up;
};

enum row ps_row_of(const struct ps_shared *s, size_t member)
{
    return member >= s->n_workers || s->settings.push_every > 1 ? ROW_SUM : ROW_GRADS;
}

static double patience_s(const struct agent *a)
{
    return a->stage->experiment->network.patience_s;
}

/* Its node answers for all shards together. */
static bool asks_node(const struct agent *a, const struct ps_client *c)
{
    return !c->skips_tree && ps_parent(ps_of(a), a->index) != NO_NODE;
}

static size_t n_shards(const struct agent *a, const struct ps_client *c)
{
    return asks_node(a, c) ? 1 : ps_of(a)->n_servers;
}

static size_t asked(const struct errand *e)
{
    return asks_node(e->agent, e->client) ? ps_parent(ps_of(e->agent), e->agent->index) : e->shard->asked;
}

static struct span span_of(const struct errand *e, row_set rows)
{
    const struct ps_shared *s = ps_of(e->agent);
    const struct ps_helper *h = &s->helpers[asked(e) - s->n_workers];
    return (struct span){rows, h->first, h->end};
}

static bool can_answer(const struct agent *a, size_t helper)
{
    return link_can_reach(a->link, helper) && !link_has_ended(a->link, helper);
}

/* The other of a pair, or the same where there is none. */
static size_t other_of(const struct errand *e)
{
    const struct ps_shared *s = ps_of(e->agent);
    return asks_node(e->agent, e->client) ? asked(e) : s->helpers[asked(e) - s->n_workers].other;
}

static fault ask(const struct errand *e, bool with_rows, bool was_sent)
{
    struct agent *a = e->agent;
    struct letter x = e->shard->ask;
    with_rows = with_rows && x.kind & LETTER_PUSHES;
    x.kind |= (with_rows ? LETTER_ROWS : 0) | (was_sent ? LETTER_SENT : 0);
    if (with_rows)
        TRY(link_send_rows(a->link, asked(e), PS_UP + x.number,
                           span_of(e, 1u << ps_row_of(ps_of(a), a->index))));
    return link_send(a->link, asked(e), PS_ASK, &x, sizeof x);
}

/* The answer to this question; those to earlier ones are of no interest any more. */
static fault hear(const struct errand *e, struct letter *out)
{
    struct link *l = e->agent->link;
    do
        TRY(link_recv(l, asked(e), PS_ANSWER, out, sizeof *out, NULL));
    while (out->number != e->client->number);
    return OK;
}

static fault take_parameters(const struct errand *e, const struct letter *answer)
{
    struct agent *a = e->agent;
    struct link *l = a->link;
    struct parcel *p = &a->parcels[l->n_members]; /* the others are for those that ask me */
    if (!(answer->kind & LETTER_ROWS))
        return OK;
    TRY(link_recv_rows(l, asked(e), PS_DOWN + answer->number, p, NULL));
    struct span span = span_of(e, ROWS_PARAMS);
    fault f = link_mix(l, ROW_PARAMS, span.first, span.end, &(struct term){1, ROW_PARAMS, p, 0}, 1);
    link_drop(l, p);
    return f;
}

/* ---- when nobody answers ---- */

static void note_turn(const struct errand *e, size_t from, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "agent %zu turns from member %zu to member %zu: %.100s", e->agent->index,
             from, asked(e), why);
    link_note(e->agent->link, "turn", text);
}

/* Waits a little, but not for ever; that it crashed meanwhile does not make anybody wait longer. */
static fault wait_a_little(struct errand *e)
{
    struct agent *a = e->agent;
    struct ps_shard *s = e->shard;
    bool has_ended = link_has_ended(a->link, asked(e));
    double now = link_now_s(a->link);
    if (!s->is_lost)
        s->lost_since = now;
    s->is_lost = true;
    if (now - s->lost_since < 2 * patience_s(a) && !has_ended && link_may_return(a->link, asked(e)))
        return link_sleep(a->link, patience_s(a) / 16);
    e->gives_up = true;
    e->client->others_go_on = link_others_go_on(a->link, s->lost_since) || has_ended;
    return FAIL(FAULT_PEER, "%s %zu has lost server %zu%s: it cannot be reached, and nobody stands in for it",
                agent_helps(a) ? "node" : "agent", a->index, asked(e),
                ps_of(a)->has_standbys ? " and its standby" : "");
}

/* The waits after which one asks again: more and more seldom, since a thin wire must not be filled with
 * questions. */
static bool is_power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

/* After a fault about a peer, which is taken: the next one to ask is asked. *again: the exchange must begin
 * anew, with the servers. */
static fault recover(struct errand *e, fault why, bool *again)
{
    struct agent *a = e->agent;
    size_t was = asked(e), other = other_of(e);
    if (can_answer(a, was)) { /* a slow one, or a message was lost */
        e->shard->is_lost = false;
        fault_drop(why);
        return is_power_of_two(++e->n_waits) ? ask(e, false, false) : OK;
    }
    if (asks_node(a, e->client)) {
        e->client->skips_tree = *again = true;
        note_turn(e, was, fault_text(why));
        fault_drop(why);
        return OK;
    }
    if (other != was && can_answer(a, other)) {
        e->shard->asked = other;
        note_turn(e, was, fault_text(why));
        fault_drop(why);
        return ask(e, true, false);
    }
    fault_drop(why);
    TRY(wait_a_little(e));
    return can_answer(a, was) ? ask(e, true, false) : OK;
}

/* The one that was asked says that its other serves. */
static fault move(struct errand *e)
{
    size_t other = other_of(e);
    if (!can_answer(e->agent, other)) { /* not as seen from here */
        TRY(wait_a_little(e));
        return ask(e, true, false);
    }
    e->shard->asked = other;
    return ask(e, true, true);
}

static fault answered(struct errand *e, const struct letter *answer, bool *done)
{
    if (answer->kind & LETTER_MOVED)
        return move(e);
    if (answer->kind & LETTER_AGAIN)
        return ask(e, true, false);
    TRY(take_parameters(e, answer));
    e->shard->is_lost = false;
    *done = true;
    return OK;
}

static fault await_answer(struct errand *e, struct letter *answer, bool *again)
{
    bool done = false;
    while (!done && !*again) {
        fault f = hear(e, answer);
        if (!f)
            f = answered(e, answer, &done);
        while (f && !*again) { /* what recovering asks may fail in its turn */
            if (!is_about_peers(f) || e->gives_up)
                return f;
            f = recover(e, f, again);
        }
    }
    return OK;
}

static void remember(const struct errand *e, const struct letter *x, struct letter *answer)
{
    struct ps_client *c = e->client;
    if (x->kind & LETTER_ROWS)
        e->shard->version = x->version;
    c->clock = x->clock > c->clock ? x->clock : c->clock;
    answer->kind |= x->kind;
    answer->round = x->round > answer->round ? x->round : answer->round;
    answer->version = x->version > answer->version ? x->version : answer->version;
    answer->n = x->n > answer->n ? x->n : answer->n;
}

static fault exchange_once(struct agent *a, struct ps_client *c, struct letter letter, struct letter *answer,
                           bool *again)
{
    letter.number = ++c->number;
    for (size_t i = 0; i < n_shards(a, c); i++) {
        struct errand e = {.agent = a, .client = c, .shard = &c->shards[i]};
        e.shard->ask = letter;
        e.shard->ask.version = e.shard->version;
        TRY(forgive(ask(&e, true, false))); /* what went wrong is seen to when its answer is waited for */
    }
    for (size_t i = 0; i < n_shards(a, c) && !*again; i++) {
        struct errand e = {.agent = a, .client = c, .shard = &c->shards[i]};
        struct letter x = {0};
        TRY(await_answer(&e, &x, again));
        remember(&e, &x, answer);
    }
    link_forget(a->link, PS_DOWN + c->number + 1); /* answers that came twice */
    return OK;
}

fault ps_exchange(struct agent *a, struct letter letter, struct letter *answer)
{
    struct ps_client *c = &ps_of(a)->clients[a->index];
    bool again;
    do {
        again = false;
        *answer = (struct letter){0};
        TRY(exchange_once(a, c, letter, answer, &again));
    } while (again);
    return OK;
}
