/* ask.c - the side that asks: workers, and nodes for those below them.
 *
 *   begin: [back after a crash: pull] -> every round: call the servers -> catch up with the round they are in
 *
 * A call goes to all servers at once, each for its part of the parameters, or to a node for all of them. Where the node
 * is lost the servers are called from then on.
 */
#include <stdio.h>

#include "strategy/ps/ps.h"

static struct ps_client *client_of(const struct agent *a)
{
    return &ps_of(a)->clients[a->index];
}

enum row ps_row_of(const struct ps_shared *s, size_t member)
{
    return member >= s->n_workers || s->settings.push_every > 1 ? ROW_SUM : ROW_GRADS;
}

/* Rounds, clocks and versions may be any: a member that comes back is told where to begin by its world. */
fault ps_check_letter(const struct agent *a, size_t from, const struct letter *x)
{
    bool is_push = x->head.what & PS_PUSHES, sums = x->n > 0 && x->n <= a->stage->n_agents;
    return x->head.what < 2 * PS_LATE && (sums || !is_push) ? OK : call_refuse(a->link, from);
}

static bool asks_node(const struct agent *a, const struct ps_client *c)
{
    return !c->skips_tree && ps_parent(ps_of(a), a->index) != NO_NODE;
}

static struct ps_shard *shard_of(const struct agent *a, struct ps_client *c, size_t i)
{
    return asks_node(a, c) ? &c->node : &c->shards[i];
}

/* theta = what came, in the floats of the shard. */
static fault take(struct agent *a, struct ps_shard *s, const struct letter *x, struct parcel *p)
{
    if (!p->rows)
        return OK;
    s->version = x->version;
    fault f = link_mix(a->link, ROW_PARAMS, s->first, s->end, &(struct term){1, ROW_PARAMS, p, 0}, 1);
    link_drop(a->link, p);
    return f;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_answer(struct letter *sum, const struct letter *x)
{
    sum->head.what |= x->head.what;
    sum->round = later(sum->round, x->round);
    sum->version = later(sum->version, x->version);
    sum->clock = later(sum->clock, x->clock);
    sum->n = later(sum->n, x->n);
}

static fault call_all(struct agent *a, struct ps_client *c, const struct letter *ask, struct letter *answer,
                      struct ps_shard **asked)
{
    size_t n = asks_node(a, c) ? 1 : ps_of(a)->n_servers;
    row_set gradient = ask->head.what & PS_PUSHES ? 1u << ps_row_of(ps_of(a), a->index) : 0;
    struct parcel *p = &a->parcels[a->link->n_members]; /* the others are for those that ask me */
    *answer = (struct letter){0};
    for (size_t i = 0; i < n; i++) {
        struct ps_shard *s = *asked = shard_of(a, c, i);
        s->ask = *ask;
        s->ask.version = s->version;
        TRY(call_begin(agent_caller(a), &s->line, &s->ask.head, (struct span){gradient, s->first, s->end}));
    }
    for (size_t i = 0; i < n; i++) {
        struct letter x = {0};
        *asked = shard_of(a, c, i);
        TRY(call_end(&(*asked)->line, &x.head, p));
        TRY(ps_check_letter(a, (*asked)->line.asked, &x));
        TRY(take(a, *asked, &x, p));
        add_answer(answer, &x);
    }
    return OK;
}

static void turn_to_servers(struct agent *a, struct ps_client *c)
{
    char text[128];
    c->skips_tree = true;
    snprintf(text, sizeof text, "%s %zu turns from member %zu to member %zu, a server: its node is lost",
             agent_helps(a) ? "node" : "agent", a->index, c->node.line.asked, c->shards[0].line.asked);
    link_note(a->link, "turn", text);
}

/* Of all servers, or of the node; a fault about peers: none answers any more. */
static fault call(struct agent *a, struct letter ask, struct letter *answer)
{
    struct ps_client *c = client_of(a);
    struct ps_shard *asked;
    fault f = call_all(a, c, &ask, answer, &asked);
    if (f && is_about_peers(f) && asks_node(a, c)) {
        fault_drop(f);
        turn_to_servers(a, c);
        f = call_all(a, c, &ask, answer, &asked);
    }
    if (f && is_about_peers(f))
        c->others_go_on = link_has_ended(a->link, asked->line.asked) ||
                          link_others_go_on(a->link, call_line_lost_since(&asked->line));
    c->clock = later(c->clock, answer->clock);
    return f;
}

/* ---- a worker ---- */

static void note_staleness(struct agent *a, uint64_t stale)
{
    a->staleness.sum += stale;
    a->staleness.most = stale > a->staleness.most ? stale : a->staleness.most;
    a->staleness.n++;
}

fault ps_call_servers(struct agent *a, uint32_t what)
{
    struct ps_client *c = client_of(a);
    c->clock += (what & PS_PUSHES) != 0;
    struct letter x, ask = {.head.what = what, .round = a->k, .clock = c->clock, .n = 1};
    TRY(call(a, ask, &x));
    if (what & PS_PUSHES) {
        note_staleness(a, x.n);
        a->dropped += (x.head.what & PS_LATE) != 0;
    }
    c->round = x.round;
    return OK;
}

static fault come_back(struct agent *a, struct ps_client *c)
{
    char text[96];
    c->is_back = false;
    c->n_summed = 0;
    TRY(ps_call_servers(a, PS_PULLS));
    if (!a->stage->asynchronous)
        a->k = c->round;
    snprintf(text, sizeof text, "agent %zu is back with the servers' parameters", a->index);
    link_note(a->link, "return", text);
    return OK;
}

/* From a checkpoint: what was summed by then is in its row; only the servers know how old the parameters are. */
static fault go_on(struct agent *a, struct ps_client *c)
{
    c->n_summed = a->k % (uint64_t)ps_of(a)->settings.push_every;
    return a->stage->asynchronous ? ps_call_servers(a, PS_PULLS) : OK;
}

fault ps_begin(struct agent *a)
{
    struct ps_client *c = client_of(a);
    if (c->is_back)
        return come_back(a, c);
    return a->k ? go_on(a, c) : OK;
}

void ps_catch_up(struct agent *a)
{
    uint64_t round = client_of(a)->round;
    if (!a->stage->asynchronous && round > a->k)
        a->k = round;
}

/* ---- a node ---- */

fault ps_ask_above(struct ps_helper *h, uint32_t what, uint64_t round, uint64_t n)
{
    struct letter x;
    TRY(call(h->agent, (struct letter){.head.what = what, .round = round, .n = n}, &x));
    h->agent->k = x.round;
    h->version = x.version;
    return OK;
}
