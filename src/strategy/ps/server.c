/* server.c - the side that answers: servers, their standbys, nodes of the tree.
 *
 *   a letter --> its gradient is kept in the parcels --> an update, if it is time --> answers
 *
 * Of a pair (server, standby) one leads and one follows. The leader sends its shard, slots included, every
 * `replicate_every` updates. The follower takes over when somebody asks it who cannot be served by the
 * leader. Two that lead, after the network fell apart, find out with the next replica, or when somebody has
 * waited for too long: the standby stays. What the other had learnt since then is lost.
 */
#include <stdio.h>

#include "strategy/ps/inside.h"

static void note_self(const struct ps_helper *h, const char *kind, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s %zu %s", name_of(h), h->agent->index, what);
    link_note(h->agent->link, kind, text);
}

/* ---- the end ---- */

/* Everybody gets the last parameters, and those who wait for nothing hear that it is over. */
static fault finish(struct ps_helper *h)
{
    const struct ps_shared *s = ps_of(h->agent);
    if (h->is_node)
        TRY(ps_ask_above(h, LETTER_BYE | LETTER_PULLS, h->agent->k, 0));
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].waiting)
            TRY(ps_answer(h, i));
    for (size_t i = s->first_node; !h->is_node && i < s->n_members; i++)
        if (!has_ended(h, i) && !ps_has_taken_leave(h, i))
            TRY(tell(h, i, PS_ASK, (struct letter){.kind = LETTER_END}));
    if (h->other != h->agent->index && !has_ended(h, h->other))
        TRY(tell(h, h->other, PS_ASK, (struct letter){.kind = LETTER_END}));
    h->is_over = true;
    return OK;
}

/* ---- the group's round ---- */

/* From what is known of all together: what each has done of it is not. */
static void begin_at(struct ps_helper *h, uint64_t round)
{
    h->ended = round * ps_of(h->agent)->n_workers;
    for (size_t i = 0; i < n_members(h); i++)
        h->children[i].rounds = ROUNDS_UNKNOWN;
}

/* Where the workers share their rounds the rate moves by what they have done together. */
static void count_rounds(struct ps_helper *h, size_t from, uint64_t rounds)
{
    struct ps_child *c = &h->children[from];
    if (c->rounds != ROUNDS_UNKNOWN && rounds > c->rounds)
        h->ended += rounds - c->rounds;
    c->rounds = rounds;
    h->agent->k = h->ended / ps_of(h->agent)->n_workers;
}

/* ---- of a pair ---- */

static void lead(struct ps_helper *h)
{
    h->leads = true;
    begin_at(h, h->agent->k);
    for (size_t i = 0; i < n_members(h); i++) {
        h->children[i].since = now_s(h);
        h->children[i].gone = false; /* whom it does without is for it to say now */
    }
    note_self(h, "takeover", "takes over from the other of its pair");
}

static fault follow(struct ps_helper *h)
{
    if (!h->leads)
        return OK;
    h->leads = false;
    note_self(h, "takeover", "follows the other of its pair, which serves");
    for (size_t i = 0; i < n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        if (c->waiting)
            TRY(tell(h, i, PS_ANSWER, (struct letter){.kind = LETTER_MOVED, .number = c->ask.number}));
        c->waiting = false;
        c->ask = (struct letter){0};
    }
    ps_let_go(h);
    return OK;
}

/* Of two that lead the standby stays. */
static fault settle_who_leads(struct ps_helper *h)
{
    if (h->leads && h->other < h->agent->index)
        return tell(h, h->other, PS_ASK, (struct letter){.kind = LETTER_YIELD});
    return follow(h);
}

static fault take_replica(struct ps_helper *h, const struct letter *x)
{
    static const enum row rows[] = {ROW_PARAMS, ROW_SLOT, ROW_SLOT + 1};
    struct link *l = h->agent->link;
    struct parcel *p = parcel_of(h, n_members(h));
    TRY(settle_who_leads(h));
    if (!(x->kind & LETTER_ROWS))
        return OK;
    fault f = link_recv_rows(l, h->other, PS_REPLICA + x->number, p, NULL);
    if (f || h->leads) {
        drop(h, p);
        return forgive(f);
    }
    for (size_t i = 0; !f && i < 3; i++)
        f = link_mix(l, rows[i], h->first, h->end, &(struct term){1, rows[i], p, 0}, 1);
    drop(h, p);
    h->version = h->agent->steps = x->version;
    h->agent->k = x->round;
    return f;
}

/* ---- letters ---- */

static void meet(struct ps_helper *h, size_t from, struct letter *x)
{
    struct ps_child *c = &h->children[from];
    if ((c->gone || c->silent || !c->known) && settings_of(h)->mode == PS_SSP) {
        uint64_t least = ps_slowest_clock(h); /* nobody waits for what it missed */
        if (least != UINT64_MAX && least > x->clock)
            x->clock = least;
    }
    c->known = true;
    c->gone = c->silent = false;
    c->since = now_s(h);
}

static bool lets_other_serve(const struct ps_helper *h, const struct letter *x)
{
    return !(x->kind & LETTER_SENT) && can_reach(h, h->other) && !has_ended(h, h->other);
}

/* The gradient that came with a letter, into the spare parcel; *is_here: it did come. */
static fault fetch_gradient(struct ps_helper *h, size_t from, const struct letter *x, bool *is_here)
{
    struct link *l = h->agent->link;
    *is_here = false;
    if (!(x->kind & LETTER_ROWS))
        return OK;
    fault f = link_recv_rows(l, from, PS_UP + x->number, parcel_of(h, n_members(h)), NULL);
    *is_here = !f;
    return forgive(f);
}

/* A letter that has not been here before. */
static void keep(struct ps_helper *h, size_t from, const struct letter *x)
{
    struct ps_child *c = &h->children[from];
    struct parcel *spare = parcel_of(h, n_members(h));
    drop(h, parcel_of(h, from)); /* from before a crash */
    c->ask = *x;
    if (settings_of(h)->mode != PS_SYNC)
        count_rounds(h, from, x->round);
    c->waiting = true;
    c->stale = c->n_again = 0;
    c->late = x->kind & LETTER_PUSHES && settings_of(h)->mode == PS_SYNC && x->round < h->agent->k;
    c->pending = x->kind & LETTER_PUSHES && !c->late;
    if (c->pending) {
        *parcel_of(h, from) = *spare;
        spare->rows = NULL;
    }
}

/* The answer was lost, or is still to come; perhaps because those it waits for ask the other of the pair.
 * Whoever has waited long enough at its end may go: those that this server misses may be waiting for another
 * one. */
static fault hear_again(struct ps_helper *h, size_t from)
{
    struct ps_child *c = &h->children[from];
    c->waiting = true;
    TRY(ps_write_to_other(h, false));
    return has_said_goodbye(c) && ++c->n_again > 1 ? ps_answer(h, from) : OK;
}

static fault hear_child(struct ps_helper *h, size_t from, struct letter *x)
{
    struct ps_child *c = &h->children[from];
    bool is_here;
    TRY(fetch_gradient(h, from, x, &is_here));
    meet(h, from, x);
    fault f = OK;
    if (!h->leads && lets_other_serve(h, x)) {
        f = tell(h, from, PS_ANSWER, (struct letter){.kind = LETTER_MOVED, .number = x->number});
    } else {
        if (!h->leads)
            lead(h);
        if (x->number == c->ask.number)
            f = hear_again(h, from);
        else if (x->number > c->ask.number && x->kind & LETTER_PUSHES && !is_here)
            f = tell(h, from, PS_ANSWER, (struct letter){.kind = LETTER_AGAIN, .number = x->number});
        else if (x->number > c->ask.number)
            keep(h, from, x);
    }
    drop(h, parcel_of(h, n_members(h)));
    return f;
}

static fault hear(struct ps_helper *h, size_t from, struct letter *x)
{
    if (x->kind & LETTER_REPLICA)
        return take_replica(h, x);
    if (x->kind & LETTER_YIELD)
        return follow(h);
    if (x->kind & LETTER_END) {
        h->is_over = true;
        return OK;
    }
    return hear_child(h, from, x);
}

/* Nobody wrote: an idle server is no fault, but one that nobody can reach is of no use. */
static fault hear_nothing(struct ps_helper *h, fault f)
{
    if (!is_about_peers(f))
        return f;
    bool in_vain = fault_kind_of(f) == FAULT_TIMEOUT;
    h->listens_to_all |= in_vain;
    fault_drop(f);
    for (size_t i = 0; in_vain && i < ps_of(h->agent)->n_workers; i++)
        in_vain = has_ended(h, i) || !can_reach(h, i);
    if (in_vain) {
        note_self(h, "alone", "ends: no worker is left that it could reach");
        h->is_over = true;
    }
    return OK;
}

static fault go_on(struct ps_helper *h)
{
    ps_look_who_is_gone(h);
    if (!h->leads)
        return OK;
    ps_look_who_is_silent(h);
    TRY(ps_update(h));
    TRY(ps_answer_all_that_may(h));
    h->is_awaited = ps_somebody_waits(h);
    return ps_has_finished(h) ? finish(h) : OK;
}

/* Back after a crash: what it had received is lost, what it had computed is not. */
static void come_back(struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        if (c->pending)
            c->ask.number = 0;
        c->pending = c->waiting = c->silent = false;
        c->since = now_s(h);
    }
    if (h->other != h->agent->index)
        h->leads = false;
    h->is_back = false;
    note_self(h, "return", h->leads ? "is back with the parameters it had" : "is back, and follows");
}

fault ps_serve(struct agent *a)
{
    struct ps_shared *s = ps_of(a);
    struct ps_helper *h = &s->helpers[a->index - s->n_workers];
    h->agent = a;
    if (h->version < a->steps) { /* it goes on from a checkpoint */
        h->version = a->steps;
        begin_at(h, a->k);
    }
    if (h->is_back)
        come_back(h);
    while (!h->is_over) {
        struct letter x;
        size_t from;
        fault f = link_recv(a->link, ps_next_to_hear(h), PS_ASK, &x, sizeof x, &from);
        TRY(f ? hear_nothing(h, f) : hear(h, from, &x));
        if (!h->is_over)
            TRY(go_on(h));
    }
    return OK;
}
