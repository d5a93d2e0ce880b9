/* server.c - the side that answers: servers, their standbys, nodes of the tree.
 *
 *   a question -> its gradient is kept in the parcels -> an update (ps.c), if it is time -> answers
 *
 *   sync    all are answered once all have pushed, or are gone or silent (service.h)
 *   async   a worker is answered as soon as it has pushed
 *   ssp     the same, but one that is more than s pushes ahead of the slowest is answered later
 *   a node  as sync, with what comes from above
 *
 * A goodbye is answered when all have said it, or when it is said for the third time: those that this server
 * misses may be waiting for another one.
 */
#include "strategy/ps/ps.h"

static void drop(const struct ps_helper *h, size_t child)
{
    link_drop(h->agent->link, ps_parcel(h, child));
}

void ps_let_go(struct ps_helper *h, size_t child)
{
    service_applied(&h->service, child);
    link_drop(h->agent->link, ps_parcel(h, child));
}

void ps_let_all_go(struct ps_helper *h)
{
    for (size_t i = 0; i < ps_n_members(h); i++)
        if (ps_visitor(h, i)->pending)
            ps_let_go(h, i);
}

/* The pushes of the active child that has made fewest, but for one; UINT64_MAX: there is none. */
static uint64_t slowest_clock(const struct ps_helper *h, size_t but_for)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < ps_n_members(h); i++)
        if (i != but_for && service_is_active(&h->service, i) && h->children[i].ask.clock < least)
            least = h->children[i].ask.clock;
    return least;
}

/* ---- answers ---- */

static fault answer(struct ps_helper *h, size_t to)
{
    const struct ps_child *c = &h->children[to];
    bool has_them = ps_visitor(h, to)->has_left && c->ask.version == h->version;
    bool wants = c->ask.head.what & PS_PULLS && !has_them;
    struct letter x = {.head.what = c->late ? PS_LATE : 0,
                       .round = h->agent->k,
                       .clock = c->ask.clock,
                       .version = h->version,
                       .n = c->stale};
    return service_answer(&h->service, to, &x.head, ps_span(h, wants ? ROWS_PARAMS : 0));
}

/* Not before its gradient is applied, and under ssp not before the slowest has come near enough. */
static fault answer_all_that_may(struct ps_helper *h)
{
    const struct ps *s = ps_settings(h);
    uint64_t least = s->mode == PS_SSP ? slowest_clock(h, ANYONE) : UINT64_MAX;
    for (size_t i = 0; i < ps_n_members(h); i++) {
        const struct visitor *v = ps_visitor(h, i);
        bool is_ahead = least != UINT64_MAX && h->children[i].ask.clock > least + (uint64_t)s->staleness;
        if (v->waits && !v->pending && !v->has_left && !is_ahead)
            TRY(answer(h, i));
    }
    return OK;
}

fault ps_send_copy(struct ps_helper *h)
{
    uint64_t every = (uint64_t)ps_settings(h)->replicate_every;
    struct letter x = {.version = h->version, .round = h->agent->k};
    return every && h->version % every == 0
               ? service_copy(&h->service, &x.head, ps_span(h, ROWS_PARAMS | ROWS_SLOTS))
               : OK;
}

static fault take_copy(struct ps_helper *h, const struct letter *x)
{
    static const enum row rows[] = {ROW_PARAMS, ROW_SLOT, ROW_SLOT + 1};
    struct term copied = {.weight = 1, .parcel = ps_parcel(h, ps_n_members(h))};
    fault f = OK;
    for (size_t i = 0; !f && i < 3; i++) {
        copied.row = rows[i];
        f = link_mix(h->agent->link, rows[i], h->first, h->end, &copied, 1);
    }
    drop(h, ps_n_members(h));
    h->version = h->agent->steps = x->version;
    h->agent->k = x->round;
    return f;
}

/* ---- the group's round ---- */

/* From what is known of all together: what each has done of it is not. */
static void begin_at(struct ps_helper *h, uint64_t round)
{
    h->ended = round * ps_of(h->agent)->n_workers;
    for (size_t i = 0; i < ps_n_members(h); i++)
        h->children[i].rounds = ROUNDS_UNKNOWN;
}

/* Where the workers share their rounds the rate moves by what they have done together. */
static void count_rounds(struct ps_helper *h, struct ps_child *c, uint64_t rounds)
{
    if (ps_settings(h)->mode == PS_SYNC)
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
    struct parcel *came = ps_parcel(h, ps_n_members(h));
    uint64_t least = x->is_new && ps_settings(h)->mode == PS_SSP ? slowest_clock(h, x->who) : UINT64_MAX;
    c->ask = *(const struct letter *)x->letter;
    if (least != UINT64_MAX && least > c->ask.clock)
        c->ask.clock = least; /* the others do not wait for what it missed */
    c->stale = 0;
    c->late = came->rows && ps_settings(h)->mode == PS_SYNC && c->ask.round < h->agent->k;
    drop(h, x->who); /* from before a crash */
    *ps_parcel(h, x->who) = *came;
    came->rows = NULL;
    if (c->late)
        ps_let_go(h, x->who);
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
    struct visitor *v = ps_visitor(h, x->who);
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
    for (size_t i = 0; x->yields && i < ps_n_members(h); i++) {
        h->children[i].ask = (struct letter){0};
        drop(h, i);
    }
    if (x->in_vain)
        hear_nothing(h);
    if (x->what == ARRIVED_COPY || arrival_asks(x))
        TRY(ps_check_letter(h->agent, x->who, x->letter));
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
        return ANYONE; /* a child that is not expected may come, too, or one that only pulls */
    for (size_t i = 0; i < s->n_workers; i++) {
        if (ps_visitor(h, i)->silent)
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
        if (ps_visitor(h, i)->known)
            return ps_visitor(h, i)->has_left;
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
    for (size_t i = 0; i < ps_n_members(h); i++) {
        heard_goodbye |= ps_visitor(h, i)->has_left;
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
        TRY(ps_ask_above(h, PS_BYE | PS_PULLS, h->agent->k, 0));
    for (size_t i = 0; i < ps_n_members(h); i++)
        if (ps_visitor(h, i)->waits)
            TRY(answer(h, i));
    for (size_t i = s->first_node; !h->is_node && i < s->n_members; i++)
        if (!link_has_ended(l, i) && !has_taken_leave(h, i))
            TRY(service_dismiss(service, i));
    if (service->other != l->self && !link_has_ended(l, service->other))
        TRY(service_dismiss(service, service->other));
    service->is_over = true;
    return OK;
}

/* For the others, that is. At the end a server waits for as long as a worker lives, a node does not. */
static bool a_child_waits(const struct ps_helper *h)
{
    for (size_t i = 0; i < ps_n_members(h); i++)
        if (ps_visitor(h, i)->waits && (h->is_node || !ps_visitor(h, i)->has_left))
            return true;
    return false;
}

static fault go_on(struct ps_helper *h)
{
    service_look_who_is_gone(&h->service);
    if (!h->service.leads)
        return OK;
    service_look_who_is_silent(&h->service, a_child_waits(h));
    TRY(ps_update(h));
    TRY(answer_all_that_may(h));
    h->service.is_awaited = a_child_waits(h);
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
        TRY(service_hear(&h->service, next_to_hear(h), ps_parcel(h, ps_n_members(h)), &x));
        TRY(hear(h, &x));
        if (!h->service.is_over)
            TRY(go_on(h));
    }
    return OK;
}
