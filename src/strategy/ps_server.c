/* ps_server.c - the side that answers: servers, their standbys, nodes of the tree.
 *
 *   a letter --> a gradient is kept in the parcels --> may the update be made?  --> who may be answered?
 *                sync:   once everybody has pushed: the mean, in the order of the agents     everybody
 *                async:  at once                                                             whoever pushed
 *                ssp:    at once                              whoever is at most s pushes ahead of the
 * slowest a node:      sync only; its "update" is an exchange with those above it: the sum goes up,
 * parameters come down
 *
 * Of a pair (server, standby) one leads and one follows. The leader sends its shard, slots included, every
 * `replicate_every` updates. The follower takes over when somebody asks it who cannot be served by the
 * leader. Two that lead, after the network fell apart, find out with the next replica, or when somebody has
 * waited for too long: the standby stays.
 *
 * Whoever cannot be reached is done without at once where that shows, and within patience otherwise; whoever
 * is silent while others wait is done without after patience. Both are named, and welcome when they are back.
 */
#include <stdio.h>

#include "strategy/ps.h"

static const struct link_ops *ops_of(const struct ps_helper *h)
{
    return h->agent->link->ops;
}

static double now_s(const struct ps_helper *h)
{
    return ops_of(h)->now_s(h->agent->link);
}

static bool can_reach(const struct ps_helper *h, size_t member)
{
    return ops_of(h)->can_reach(h->agent->link, member);
}

static bool has_ended(const struct ps_helper *h, size_t member)
{
    return ops_of(h)->has_ended(h->agent->link, member);
}

static struct parcel *parcel_of(const struct ps_helper *h, size_t child)
{
    return &h->agent->parcels[child];
}

static void drop(const struct ps_helper *h, struct parcel *p)
{
    ops_of(h)->drop(h->agent->link, p);
}

static const struct ps *settings_of(const struct ps_helper *h)
{
    return ps_of(h->agent)->settings;
}

static size_t n_members(const struct ps_helper *h)
{
    return ps_of(h->agent)->n_members;
}

static const char *name_of(const struct ps_helper *h)
{
    return h->is_node ? "node" : "server";
}

static void note_child(const struct ps_helper *h, size_t child, const char *kind, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s %zu goes on without agent %zu, which %s", name_of(h), h->agent->index,
             child, what);
    ops_of(h)->note(h->agent->link, kind, text);
}

static void note_self(const struct ps_helper *h, const char *kind, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s %zu %s", name_of(h), h->agent->index, what);
    ops_of(h)->note(h->agent->link, kind, text);
}

/* A message that cannot be delivered is the receiver's misfortune: it will ask again. */
static fault forgive(fault f)
{
    if (f && !is_about_peers(f))
        return f;
    fault_drop(f);
    return OK;
}

static fault tell(const struct ps_helper *h, size_t to, uint64_t tag, struct letter x)
{
    return forgive(ops_of(h)->send(h->agent->link, to, tag, &x, sizeof x));
}

/* ---- who is there ---- */

static bool has_said_goodbye(const struct ps_child *c)
{
    return c->ask.kind & LETTER_BYE;
}

/* Counts: known, has work to do, and not given up. */
static bool is_active(const struct ps_helper *h, size_t i)
{
    const struct ps_child *c = &h->children[i];
    return c->known && !c->gone && !c->silent && !has_said_goodbye(c) && !has_ended(h, i);
}

/* What everybody may be waiting for: something from one that owes it. */
static bool is_awaited(const struct ps_helper *h, size_t i)
{
    return is_active(h, i) && !h->children[i].waiting;
}

static void look_who_is_gone(struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        bool gone = c->known && !has_said_goodbye(c) && !can_reach(h, i);
        if (gone && !c->gone && h->leads)
            note_child(h, i, "gone", "cannot be reached");
        c->gone = gone;
    }
}

/* For the others, that is. At the end a server waits for as long as somebody lives, a node does not: whoever
 * comes after it has ended asks the servers. */
static bool somebody_waits(const struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].waiting && (h->is_node || !has_said_goodbye(&h->children[i])))
            return true;
    return false;
}

/* Somebody has been waiting for patience, and these have not been heard for as long. */
static void look_who_is_silent(struct ps_helper *h)
{
    double enough = h->agent->stage->experiment->network.patience_s * (1 - 1e-9), now = now_s(h);
    if (!h->is_awaited)
        h->awaited_since = now;
    h->is_awaited = somebody_waits(h);
    if (!h->is_awaited || now - h->awaited_since < enough)
        return;
    for (size_t i = 0; i < n_members(h); i++)
        if (is_awaited(h, i) && now - h->children[i].since >= enough) {
            h->children[i].silent = true;
            note_child(h, i, "silent", "has not been heard for too long");
        }
}

/* Whom to listen to. Where only one can matter next its going away is noticed at once. */
static size_t next_to_hear(const struct ps_helper *h)
{
    const struct ps_shared *s = ps_of(h->agent);
    size_t first = ANYONE, n = 0;
    if (!h->leads || s->has_standbys || s->settings->tree > 1)
        return ANYONE; /* who is not expected may come, too */
    for (size_t i = 0; i < s->n_workers; i++) {
        if (h->children[i].silent)
            return ANYONE;
        if (is_awaited(h, i) && n++ == 0)
            first = i;
    }
    return n == 1 || s->settings->mode == PS_SYNC ? first : ANYONE;
}

static uint64_t slowest_clock(const struct ps_helper *h, size_t but)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n_members(h); i++)
        if (i != but && is_active(h, i) && h->children[i].ask.clock < least)
            least = h->children[i].ask.clock;
    return least;
}

/* ---- answers ---- */

static fault answer(struct ps_helper *h, size_t to)
{
    struct ps_child *c = &h->children[to];
    struct link *l = h->agent->link;
    bool wants = c->ask.kind & LETTER_PULLS;
    if (has_said_goodbye(c) && c->ask.version == h->version)
        wants = false; /* it has them */
    struct letter x = {.kind = (wants ? LETTER_ROWS : 0) | (c->late ? LETTER_LATE : 0),
                       .number = c->ask.number,
                       .round = h->agent->k,
                       .clock = c->ask.clock,
                       .version = h->version,
                       .n = c->stale};
    c->waiting = false;
    c->since = now_s(h);
    if (wants)
        TRY(forgive(
            l->ops->send_rows(l, to, PS_DOWN + x.number, (struct span){ROWS_PARAMS, h->first, h->end})));
    return tell(h, to, PS_ANSWER, x);
}

static bool may_be_answered(const struct ps_helper *h, size_t i)
{
    const struct ps_child *c = &h->children[i];
    const struct ps *s = settings_of(h);
    if (!c->waiting || c->pending || has_said_goodbye(c))
        return false;
    uint64_t least = s->mode == PS_SSP ? slowest_clock(h, i) : UINT64_MAX;
    return least == UINT64_MAX || c->ask.clock <= least + (uint64_t)s->staleness;
}

static fault answer_all_that_may(struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (may_be_answered(h, i))
            TRY(answer(h, i));
    return OK;
}

/* ---- updates ---- */

/* With the shard as it is now, or only to say who serves. */
static fault write_to_other(struct ps_helper *h, bool with_rows)
{
    struct link *l = h->agent->link;
    struct letter x = {.kind = LETTER_REPLICA | (with_rows ? LETTER_ROWS : 0),
                       .number = h->version,
                       .version = h->version,
                       .round = h->agent->k};
    if (h->other == l->self || has_ended(h, h->other))
        return OK;
    if (with_rows)
        TRY(forgive(l->ops->send_rows(l, h->other, PS_REPLICA + x.number,
                                      (struct span){ROWS_PARAMS | ROWS_SLOTS, h->first, h->end})));
    return tell(h, h->other, PS_ASK, x);
}

static fault send_replica(struct ps_helper *h)
{
    uint64_t every = (uint64_t)settings_of(h)->replicate_every;
    return every && h->version % every == 0 ? write_to_other(h, true) : OK;
}

/* The sum over the terms becomes the gradient of the next step. */
static fault step(struct ps_helper *h, size_t n_terms, double divide_by)
{
    struct agent *a = h->agent;
    TRY(a->link->ops->mix(a->link, ROW_GRADS, h->first, h->end, h->terms, n_terms));
    TRY(a->link->ops->update(a->link, h->first, h->end, agent_rate(a) / divide_by, ++h->version));
    a->steps = h->version;
    return OK;
}

static fault ask_above(struct ps_helper *h, uint64_t kind, uint64_t round, uint64_t n)
{
    struct letter x;
    TRY(ps_exchange(h->agent, (struct letter){.kind = kind, .round = round, .n = n}, &x));
    h->agent->k = x.round;
    h->version = x.version;
    return OK;
}

/* The gradients of the latest round, in the order of the members; earlier ones have come too late. */
static size_t gather(struct ps_helper *h, uint64_t *round, uint64_t *n_workers)
{
    size_t n = 0;
    *round = *n_workers = 0;
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].pending && h->children[i].ask.round > *round)
            *round = h->children[i].ask.round;
    for (size_t i = 0; i < n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        c->late = c->pending && c->ask.round < *round;
        if (!c->pending || c->late)
            continue;
        h->terms[n++] = (struct term){1, ps_row_of(ps_of(h->agent), i), parcel_of(h, i)};
        *n_workers += c->ask.n;
    }
    return n;
}

static void let_go(struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++) {
        h->children[i].pending = false;
        drop(h, parcel_of(h, i));
    }
}

/* Everybody who is there has pushed. */
static fault update_together(struct ps_helper *h)
{
    struct agent *a = h->agent;
    uint64_t round, n_workers;
    size_t n = gather(h, &round, &n_workers);
    if (h->is_node) {
        TRY(a->link->ops->mix(a->link, ROW_KEEP0, 0, TO_END, h->terms, n));
        let_go(h);
        return ask_above(h, LETTER_PUSHES | LETTER_PULLS, round, n_workers);
    }
    for (size_t i = 0; i < n; i++)
        h->terms[i].weight = 1.0 / (double)n_workers;
    a->k = round; /* by which the rate is */
    TRY(step(h, n, 1));
    let_go(h);
    a->k = round + 1;
    return send_replica(h);
}

static fault update_with(struct ps_helper *h, size_t i)
{
    struct ps_child *c = &h->children[i];
    h->terms[0] = (struct term){1, ps_row_of(ps_of(h->agent), i), parcel_of(h, i)};
    c->stale = h->version > c->ask.version ? h->version - c->ask.version : 0;
    TRY(step(h, 1, settings_of(h)->staleness_aware && c->stale ? (double)c->stale : 1));
    c->pending = false;
    drop(h, parcel_of(h, i));
    return send_replica(h);
}

static fault update(struct ps_helper *h)
{
    size_t n_pending = 0, n_awaited = 0;
    for (size_t i = 0; i < n_members(h); i++) {
        if (h->children[i].pending && settings_of(h)->mode != PS_SYNC)
            TRY(update_with(h, i));
        n_pending += h->children[i].pending;
        n_awaited += is_awaited(h, i);
    }
    return n_pending && !n_awaited ? update_together(h) : OK;
}

/* ---- the end ---- */

/* A worker or node has said goodbye, or a node above it has for it. */
static bool has_taken_leave(const struct ps_helper *h, size_t member)
{
    for (size_t i = member; i != NO_NODE; i = ps_parent(ps_of(h->agent), i))
        if (h->children[i].known)
            return has_said_goodbye(&h->children[i]);
    return false;
}

static bool is_done_with(const struct ps_helper *h, size_t worker)
{
    return has_ended(h, worker) || !can_reach(h, worker) || has_taken_leave(h, worker);
}

static bool is_done_with_all(const struct ps_helper *h)
{
    for (size_t i = 0; i < ps_of(h->agent)->n_workers; i++)
        if (!is_done_with(h, i))
            return false;
    return true;
}

static bool has_heard_goodbye(const struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].known && has_said_goodbye(&h->children[i]))
            return true;
    return false;
}

static bool has_finished(const struct ps_helper *h)
{
    if (!has_heard_goodbye(h))
        return false;
    for (size_t i = 0; h->is_node && i < n_members(h); i++)
        if (is_active(h, i))
            return false;
    return h->is_node || is_done_with_all(h);
}

/* Everybody gets the last parameters, and those who wait for nothing hear that it is over. */
static fault finish(struct ps_helper *h)
{
    const struct ps_shared *s = ps_of(h->agent);
    if (h->is_node)
        TRY(ask_above(h, LETTER_BYE | LETTER_PULLS, h->agent->k, 0));
    for (size_t i = 0; i < n_members(h); i++)
        if (h->children[i].waiting)
            TRY(answer(h, i));
    for (size_t i = s->first_node; !h->is_node && i < s->n_members; i++)
        if (!has_ended(h, i) && !has_taken_leave(h, i))
            TRY(tell(h, i, PS_ASK, (struct letter){.kind = LETTER_END}));
    if (h->other != h->agent->index && !has_ended(h, h->other))
        TRY(tell(h, h->other, PS_ASK, (struct letter){.kind = LETTER_END}));
    h->is_over = true;
    return OK;
}

/* ---- of a pair ---- */

static void lead(struct ps_helper *h)
{
    h->leads = true;
    for (size_t i = 0; i < n_members(h); i++)
        h->children[i].since = now_s(h);
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
    let_go(h);
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
    static const enum row rows[] = {ROW_PARAMS, ROW_SLOT0, ROW_SLOT1};
    struct link *l = h->agent->link;
    struct parcel *p = parcel_of(h, n_members(h));
    TRY(settle_who_leads(h));
    if (!(x->kind & LETTER_ROWS))
        return OK;
    fault f = l->ops->recv_rows(l, h->other, PS_REPLICA + x->number, p, NULL);
    if (f || h->leads) {
        drop(h, p);
        return forgive(f);
    }
    for (size_t i = 0; !f && i < 3; i++)
        f = l->ops->mix(l, rows[i], h->first, h->end, &(struct term){1, rows[i], p}, 1);
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
        uint64_t least = slowest_clock(h, from); /* nobody waits for what it missed */
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
    fault f = l->ops->recv_rows(l, from, PS_UP + x->number, parcel_of(h, n_members(h)), NULL);
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
    c->waiting = true;
    c->stale = 0;
    c->late = x->kind & LETTER_PUSHES && settings_of(h)->mode == PS_SYNC && x->round < h->agent->k;
    c->pending = x->kind & LETTER_PUSHES && !c->late;
    if (c->pending) {
        *parcel_of(h, from) = *spare;
        spare->rows = NULL;
    }
}

/* The answer was lost, or is still to come; perhaps because those it waits for ask the other of the pair. */
static fault hear_again(struct ps_helper *h, struct ps_child *c)
{
    c->waiting = true;
    return write_to_other(h, false);
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
            f = hear_again(h, c);
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
    look_who_is_gone(h);
    if (!h->leads)
        return OK;
    look_who_is_silent(h);
    TRY(update(h));
    TRY(answer_all_that_may(h));
    h->is_awaited = somebody_waits(h);
    return has_finished(h) ? finish(h) : OK;
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
    if (h->is_back)
        come_back(h);
    while (!h->is_over) {
        struct letter x;
        size_t from;
        fault f = a->link->ops->recv(a->link, next_to_hear(h), PS_ASK, &x, sizeof x, &from);
        TRY(f ? hear_nothing(h, f) : hear(h, from, &x));
        if (!h->is_over)
            TRY(go_on(h));
    }
    return OK;
}
