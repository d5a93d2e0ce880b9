/* update.c - when a server or node makes an update, and whom it answers then.
 *
 *   sync    once everybody has pushed, one step by the mean, in the order of the members: all are answered
 *   async   a step by each gradient as it comes: whoever pushed is answered
 *   ssp     the same, but whoever is more than s pushes ahead of the slowest is answered later
 *   a node  sync; instead of a step, its sum goes to those above it and their parameters come back
 */
#include "strategy/ps/inside.h"

fault ps_answer(struct ps_helper *h, size_t to)
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
        TRY(forgive(link_send_rows(l, to, PS_DOWN + x.number, (struct span){ROWS_PARAMS, h->first, h->end})));
    return tell(h, to, PS_ANSWER, x);
}

/* `least` is the slowest clock, for which ssp waits. */
static bool may_be_answered(const struct ps_child *c, uint64_t least, uint64_t staleness)
{
    if (!c->waiting || c->pending || has_said_goodbye(c))
        return false;
    return least == UINT64_MAX || c->ask.clock <= least + staleness;
}

fault ps_answer_all_that_may(struct ps_helper *h)
{
    const struct ps *s = settings_of(h);
    uint64_t least = s->mode == PS_SSP ? ps_slowest_clock(h) : UINT64_MAX;
    for (size_t i = 0; i < n_members(h); i++)
        if (may_be_answered(&h->children[i], least, (uint64_t)s->staleness))
            TRY(ps_answer(h, i));
    return OK;
}

/* ---- updates ---- */

fault ps_write_to_other(struct ps_helper *h, bool with_rows)
{
    struct link *l = h->agent->link;
    struct letter x = {.kind = LETTER_REPLICA | (with_rows ? LETTER_ROWS : 0),
                       .number = h->version,
                       .version = h->version,
                       .round = h->agent->k};
    if (h->other == l->self || has_ended(h, h->other))
        return OK;
    if (with_rows)
        TRY(forgive(link_send_rows(l, h->other, PS_REPLICA + x.number,
                                   (struct span){ROWS_PARAMS | ROWS_SLOTS, h->first, h->end})));
    return tell(h, h->other, PS_ASK, x);
}

static fault send_replica(struct ps_helper *h)
{
    uint64_t every = (uint64_t)settings_of(h)->replicate_every;
    return every && h->version % every == 0 ? ps_write_to_other(h, true) : OK;
}

/* The sum over the terms becomes the gradient of the next step. */
static fault step(struct ps_helper *h, size_t n_terms, double divide_by)
{
    struct agent *a = h->agent;
    TRY(link_mix(a->link, ROW_GRADS, h->first, h->end, h->terms, n_terms));
    TRY(link_update(a->link, h->first, h->end, agent_rate(a) / divide_by, ++h->version));
    a->steps = h->version;
    h->listens_to_all = false;
    return OK;
}

fault ps_ask_above(struct ps_helper *h, uint64_t kind, uint64_t round, uint64_t n)
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
        if (!c->pending)
            continue;
        c->late = c->ask.round < *round;
        if (c->late)
            continue;
        h->terms[n++] = (struct term){1, ps_row_of(ps_of(h->agent), i), parcel_of(h, i), 0};
        *n_workers += c->ask.n;
    }
    return n;
}

void ps_let_go(struct ps_helper *h)
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
        TRY(link_mix(a->link, ROW_SUM, 0, TO_END, h->terms, n));
        ps_let_go(h);
        return ps_ask_above(h, LETTER_PUSHES | LETTER_PULLS, round, n_workers);
    }
    for (size_t i = 0; i < n; i++)
        h->terms[i].weight = 1.0 / (double)n_workers;
    a->k = round; /* by which the rate is */
    TRY(step(h, n, 1));
    ps_let_go(h);
    a->k = round + 1;
    return send_replica(h);
}

static fault update_with(struct ps_helper *h, size_t i)
{
    struct ps_child *c = &h->children[i];
    h->terms[0] = (struct term){1, ps_row_of(ps_of(h->agent), i), parcel_of(h, i), 0};
    c->stale = h->version > c->ask.version ? h->version - c->ask.version : 0;
    TRY(step(h, 1, settings_of(h)->staleness_aware && c->stale ? (double)c->stale : 1));
    c->pending = false;
    drop(h, parcel_of(h, i));
    return send_replica(h);
}

fault ps_update(struct ps_helper *h)
{
    size_t n_pending = 0, n_missing = 0;
    for (size_t i = 0; i < n_members(h); i++) {
        if (h->children[i].pending && settings_of(h)->mode != PS_SYNC)
            TRY(update_with(h, i));
        n_pending += h->children[i].pending;
        n_missing += ps_is_active(h, i) && !h->children[i].pending; /* who has only pulled, too */
    }
    return n_pending && !n_missing ? update_together(h) : OK;
}
