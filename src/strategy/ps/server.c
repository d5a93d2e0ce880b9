/* server.c - the side that answers: servers, their standbys, nodes of the tree.
 *
 *   sync    once all have pushed, one step by the mean, in the order of the members: all are answered
 *   async   a step by each gradient as it comes: who pushed it is answered
 *   ssp     the same, but who is more than s pushes ahead of the slowest is answered later
 *   a node  sync; instead of a step, its sum goes to those above it and their parameters come back
 *
 * Who is gone or silent is done without (service.h). A goodbye is answered when all have said it, or when it is said
 * for the third time: those that this server misses may be waiting for another one.
 */
#include "strategy/ps/ps.h"

static const struct ps *settings_of(const struct ps_helper *h)
{
    return &ps_of(h->agent)->settings;
}

static size_t n_members(const struct ps_helper *h)
{
    return h->service.n;
}

static struct visitor *visitor_of(const struct ps_helper *h, size_t child)
{
    return &h->service.visitors[child];
}

/* The gradient of a child; of nobody, n_members: what has just come. */
static struct parcel *parcel_of(const struct ps_helper *h, size_t child)
{
    return &h->agent->parcels[child];
}

static void drop(const struct ps_helper *h, size_t child)
{
    link_drop(h->agent->link, parcel_of(h, child));
}

static struct span span_of(const struct ps_helper *h, row_set rows)
{
    return (struct span){rows, h->first, h->end};
}

/* The pushes of the active child that has made fewest, but for one; UINT64_MAX: there is none. */
static uint64_t slowest_clock(const struct ps_helper *h, size_t but_for)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n_members(h); i++)
        if (i != but_for && service_is_active(&h->service, i) && h->children[i].ask.clock < least)
            least = h->children[i].ask.clock;
    return least;
}

/* ---- answers ---- */

static fault answer(struct ps_helper *h, size_t to)
{
    const struct ps_child *c = &h->children[to];
    bool has_them = visitor_of(h, to)->has_left && c->ask.version == h->version;
    bool wants = c->ask.head.what & PS_PULLS && !has_them;
    struct letter x = {.head.what = c->late ? PS_LATE : 0,
                       .round = h->agent->k,
                       .clock = c->ask.clock,
                       .version = h->version,
                       .n = c->stale};
    return service_answer(&h->service, to, &x.head, span_of(h, wants ? ROWS_PARAMS : 0));
}

/* Not before its gradient is applied, and under ssp not before the slowest has come near enough. */
static fault answer_all_that_may(struct ps_helper *h)
{
    const struct ps *s = settings_of(h);
    uint64_t least = s->mode == PS_SSP ? slowest_clock(h, ANYONE) : UINT64_MAX;
    for (size_t i = 0; i < n_members(h); i++) {
        const struct visitor *v = visitor_of(h, i);
        bool is_ahead = least != UINT64_MAX && h->children[i].ask.clock > least + (uint64_t)s->staleness;
        if (v->waits && !v->pending && !v->has_left && !is_ahead)
            TRY(answer(h, i));
    }
    return OK;
}

/* ---- updates ---- */

static fault send_copy(struct ps_helper *h)
{
    uint64_t every = (uint64_t)settings_of(h)->replicate_every;
    struct letter x = {.version = h->version, .round = h->agent->k};
    return every && h->version % every == 0
               ? service_copy(&h->service, &x.head, span_of(h, ROWS_PARAMS | ROWS_SLOTS))
               : OK;
}

static fault take_copy(struct ps_helper *h, const struct letter *x)
{
    static const enum row rows[] = {ROW_PARAMS, ROW_SLOT, ROW_SLOT + 1};
    struct term copied = {.weight = 1, .parcel = parcel_of(h, n_members(h))};
    fault f = OK;
    for (size_t i = 0; !f && i < 3; i++) {
        copied.row = rows[i];
        f = link_mix(h->agent->link, rows[i], h->first, h->end, &copied, 1);
    }
    drop(h, n_members(h));
    h->version = h->agent->steps = x->version;
    h->agent->k = x->round;
    return f;
}

/* theta = theta - alpha / divide_by * the sum of the terms */
static fault step(struct ps_helper *h, size_t n_terms, double divide_by)
{
    struct agent *a = h->agent;
    TRY(link_mix(a->link, ROW_GRADS, h->first, h->end, h->terms, n_terms));
    TRY(link_update(a->link, h->first, h->end, agent_rate(a) / divide_by, ++h->version));
    a->steps = h->version;
    h->listens_to_all = false;
    return OK;
}

static void let_go(struct ps_helper *h, size_t child)
{
    service_applied(&h->service, child);
    drop(h, child);
}

static struct term gradient_of(const struct ps_helper *h, size_t child, double weight)
{
    return (struct term){weight, ps_row_of(ps_of(h->agent), child), parcel_of(h, child), 0};
}

/* async, ssp: theta = theta - alpha g^i, or alpha / staleness */
static fault update_with(struct ps_helper *h, size_t i)
{
    struct ps_child *c = &h->children[i];
    h->terms[0] = gradient_of(h, i, 1);
    c->stale = h->version > c->ask.version ? h->version - c->ask.version : 0;
    TRY(step(h, 1, settings_of(h)->staleness_aware && c->stale ? (double)c->stale : 1));
    let_go(h, i);
    return send_copy(h);
}

/* The gradients of the latest round, in the order of the members; earlier ones have come too late. */
static size_t gather(struct ps_helper *h, uint64_t *round, uint64_t *n_workers)
{
    size_t n = 0;
    *round = *n_workers = 0;
    for (size_t i = 0; i < n_members(h); i++)
        if (visitor_of(h, i)->pending && h->children[i].ask.round > *round)
            *round = h->children[i].ask.round;
    for (size_t i = 0; i < n_members(h); i++) {
        struct ps_child *c = &h->children[i];
        if (!visitor_of(h, i)->pending)
            continue;
        c->late = c->ask.round < *round;
        if (c->late)
            continue;
        h->terms[n++] = gradient_of(h, i, 1);
        *n_workers += c->ask.n;
    }
    return n;
}

static void let_all_go(struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (visitor_of(h, i)->pending)
            let_go(h, i);
}

static fault ask_above(struct ps_helper *h, uint32_t what, uint64_t round, uint64_t n)
{
    struct letter x;
    TRY(ps_call(h->agent, (struct letter){.head.what = what, .round = round, .n = n}, &x));
    h->agent->k = x.round;
    h->version = x.version;
    return OK;
}

/* sync: theta = theta - alpha / m sum_i g^i; a node: the sum goes up, theta comes down. */
static fault update_together(struct ps_helper *h)
{
    struct agent *a = h->agent;
    uint64_t round, n_workers;
    size_t n = gather(h, &round, &n_workers);
    if (h->is_node) {
        TRY(link_mix(a->link, ROW_SUM, 0, TO_END, h->terms, n));
        let_all_go(h);
        return ask_above(h, PS_PUSHES | PS_PULLS, round, n_workers);
    }
    for (size_t i = 0; i < n; i++)
        h->terms[i].weight = 1.0 / (double)n_workers;
    a->k = round; /* by which the rate is */
    TRY(step(h, n, 1));
    let_all_go(h);
    a->k = round + 1;
    return send_copy(h);
}

static fault update(struct ps_helper *h)
{
    size_t n_pending = 0, n_missing = 0;
    for (size_t i = 0; i < n_members(h); i++) {
        const struct visitor *v = visitor_of(h, i);
        if (v->pending && settings_of(h)->mode != PS_SYNC)
            TRY(update_with(h, i));
        n_pending += v->pending;
        n_missing += service_is_active(&h->service, i) && !v->pending; /* who has only pulled, too */
    }
    return n_pending && !n_missing ? update_together(h) : OK;
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
static void count_rounds(struct ps_helper *h, struct ps_child *c, uint64_t rounds)
{
    if (settings_of(h)->mode == PS_SYNC)
        return;
    if (c->rounds != ROUNDS_UNKNOWN && rounds > c->rounds)
        h->ended += rounds - c->rounds;
    c->rounds = rounds;
    h->agent->k = h->ended / ps_of(h->agent)->n_workers;
}

/* ---- questions ---- */

/* Its gradient is kept in the parcels; one of a round that is done does not count. */
static void keep(struct ps_helper *h, const struct arrival *x)
{
    struct ps_child *c = &h->children[x->who];
    struct parcel *came = parcel_of(h, n_members(h));
    uint64_t least = x->is_new && settings_of(h)->mode == PS_SSP ? slowest_clock(h, x->who) : UINT64_MAX;
    c->ask = *(const struct letter *)x->letter;
    if (least != UINT64_MAX && least > c->ask.clock)
        c->ask.clock = least; /* nobody waits for what it missed */
    c->stale = 0;
    c->late = came->rows && settings_of(h)->mode == PS_SYNC && c->ask.round < h->agent->k;
    drop(h, x->who); /* from before a crash */
    *parcel_of(h, x->who) = *came;
    came->rows = NULL;
    if (c->late)
        let_go(h, x->who);
}

/* It may have been heard by the other of a pair first. */
static void hear_again(struct ps_helper *h, const struct arrival *x)
{
    struct ps_child *c = &h->children[x->who];
    uint64_t clock = c->ask.clock;
    c->ask = *(const struct letter *)x->letter;
    c->ask.clock = clock > c->ask.clock ? clock : c->ask.clock;
}

static fault take_question(struct ps_helper *h, const struct arrival *x)
{
    struct ps_child *c = &h->children[x->who];
    struct visitor *v = visitor_of(h, x->who);
    if (x->what == ARRIVED_QUESTION)
        keep(h, x);
    else
        hear_again(h, x);
    v->has_left = c->ask.head.what & PS_BYE;
    count_rounds(h, c, c->ask.round);
    return v->has_left && v->n_again > 1 ? answer(h, x->who) : OK;
}

/* An idle server is no fault, but one that no worker can reach is of no use. */
static void hear_nothing(struct ps_helper *h)
{
    h->listens_to_all = true;
    if (service_is_needed(&h->service))
        return;
    service_note(&h->service, "alone", "ends: no worker is left that it could reach");
    h->service.is_over = true;
}

static fault hear(struct ps_helper *h, const struct arrival *x)
{
    if (x->takes_over)
        begin_at(h, h->agent->k);
    for (size_t i = 0; x->yields && i < n_members(h); i++) {
        h->children[i].ask = (struct letter){0};
        drop(h, i);
    }
    if (x->in_vain)
        hear_nothing(h);
    if (x->what == ARRIVED_COPY)
        return take_copy(h, x->letter);
    return arrival_asks(x) ? take_question(h, x) : OK;
}

/* Where only one can matter next its going away is noticed at once. */
static size_t next_to_hear(const struct ps_helper *h)
{
    const struct ps_shared *s = ps_of(h->agent);
    size_t first = ANYONE, n = 0;
    if (!h->service.leads || h->listens_to_all || s->has_standbys || s->settings.tree > 1 ||
        s->settings.pull_every % s->settings.push_every)
        return ANYONE; /* who is not expected may come, too, or somebody who only pulls */
    for (size_t i = 0; i < s->n_workers; i++) {
        if (visitor_of(h, i)->silent)
            return ANYONE;
        if (service_awaits(&h->service, i) && n++ == 0)
            first = i;
    }
    return n == 1 || s->settings.mode == PS_SYNC ? first : ANYONE;
}

/* ---- the end ---- */

/* A worker or node has said goodbye, or a node above it has for it. */
static bool has_taken_leave(const struct ps_helper *h, size_t member)
{
    for (size_t i = member; i != NO_NODE; i = ps_parent(ps_of(h->agent), i))
        if (visitor_of(h, i)->known)
            return visitor_of(h, i)->has_left;
    return false;
}

static bool is_done_with(const struct ps_helper *h, size_t worker)
{
    const struct link *l = h->agent->link;
    return link_has_ended(l, worker) || !link_can_reach(l, worker) || has_taken_leave(h, worker);
}

/* A node waits for those below it alone: who comes after it has ended asks the servers. */
static bool has_finished(const struct ps_helper *h)
{
    bool heard_goodbye = false, is_done = true;
    for (size_t i = 0; i < n_members(h); i++) {
        heard_goodbye |= visitor_of(h, i)->has_left;
        is_done &= !h->is_node || !service_is_active(&h->service, i);
    }
    for (size_t i = 0; !h->is_node && i < ps_of(h->agent)->n_workers; i++)
        is_done &= is_done_with(h, i);
    return heard_goodbye && is_done;
}

/* All get the last parameters, and helpers that wait for nothing hear that it is over. */
static fault finish(struct ps_helper *h)
{
    const struct ps_shared *s = ps_of(h->agent);
    struct service *service = &h->service;
    const struct link *l = h->agent->link;
    if (h->is_node)
        TRY(ask_above(h, PS_BYE | PS_PULLS, h->agent->k, 0));
    for (size_t i = 0; i < n_members(h); i++)
        if (visitor_of(h, i)->waits)
            TRY(answer(h, i));
    for (size_t i = s->first_node; !h->is_node && i < s->n_members; i++)
        if (!link_has_ended(l, i) && !has_taken_leave(h, i))
            TRY(service_dismiss(service, i));
    if (service->other != l->self && !link_has_ended(l, service->other))
        TRY(service_dismiss(service, service->other));
    service->is_over = true;
    return OK;
}

/* For the others, that is. At the end a server waits for as long as somebody lives, a node does not. */
static bool somebody_waits(const struct ps_helper *h)
{
    for (size_t i = 0; i < n_members(h); i++)
        if (visitor_of(h, i)->waits && (h->is_node || !visitor_of(h, i)->has_left))
            return true;
    return false;
}

static fault go_on(struct ps_helper *h)
{
    service_look_who_is_gone(&h->service);
    if (!h->service.leads)
        return OK;
    service_look_who_is_silent(&h->service, somebody_waits(h));
    TRY(update(h));
    TRY(answer_all_that_may(h));
    h->service.is_awaited = somebody_waits(h);
    return has_finished(h) ? finish(h) : OK;
}

static void begin(struct ps_helper *h, struct agent *a)
{
    struct service *s = agent_serves(a, &h->service);
    h->agent = a;
    if (h->version < a->steps) { /* it goes on from a checkpoint */
        h->version = a->steps;
        begin_at(h, a->k);
    }
    if (h->is_back) {
        service_return(s);
        service_note(s, "return", s->leads ? "is back with the parameters it had" : "is back, and follows");
    }
    h->is_back = false;
}

fault ps_serve(struct agent *a)
{
    struct ps_helper *h = &ps_of(a)->helpers[a->index - ps_of(a)->n_workers];
    begin(h, a);
    while (!h->service.is_over) {
        struct arrival x;
        TRY(service_hear(&h->service, next_to_hear(h), parcel_of(h, n_members(h)), &x));
        TRY(hear(h, &x));
        if (!h->service.is_over)
            TRY(go_on(h));
    }
    return OK;
}
