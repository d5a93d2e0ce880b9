/* worker.c - the side that asks: workers, and nodes of the tree for those below them.
 *
 *   a worker's life:  learn -> push, pull -> learn -> push, pull -> ... -> goodbye
 *
 * A call goes to all servers at once, each for its part of the parameters, or to a node for all of them. Where the
 * node is lost the servers are called from then on.
 */
#include <stdio.h>

#include "strategy/ps/ps.h"

enum row ps_row_of(const struct ps_shared *s, size_t member)
{
    return member >= s->n_workers || s->settings.push_every > 1 ? ROW_SUM : ROW_GRADS;
}

/* ---- a call ---- */

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

fault ps_call(struct agent *a, struct letter ask, struct letter *answer)
{
    struct ps_client *c = &ps_of(a)->clients[a->index];
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
    a->staleness.most = later(a->staleness.most, stale);
    a->staleness.n++;
}

static fault call_servers(struct agent *a, struct ps_client *c, uint32_t what)
{
    c->clock += (what & PS_PUSHES) != 0;
    struct letter x, ask = {.head.what = what, .round = a->k, .clock = c->clock, .n = 1};
    TRY(ps_call(a, ask, &x));
    if (what & PS_PUSHES) {
        note_staleness(a, x.n);
        a->dropped += (x.head.what & PS_LATE) != 0;
    }
    c->round = x.round;
    return OK;
}

/* s = s + g, where not every gradient is pushed */
static fault add_gradient(struct agent *a, struct ps_client *c)
{
    struct term terms[] = {{1, ROW_GRADS, NULL, 0}, {1, ROW_SUM, NULL, 0}};
    size_t n = c->n_summed++ ? 2 : 1;
    return ps_row_of(ps_of(a), a->index) == ROW_GRADS ? OK : agent_combine(a, ROW_SUM, terms, n);
}

/* theta = the servers', for g or s; in rounds that do not pull theta - alpha g. */
static fault push_and_pull(struct agent *a, struct ps_client *c, const struct ps *s)
{
    bool pushes = is_nth(a->k, (uint64_t)s->push_every), pulls = is_nth(a->k, (uint64_t)s->pull_every);
    agent_rate(a);
    if (pushes || pulls)
        TRY(call_servers(a, c, (pushes ? PS_PUSHES : 0) | (pulls ? PS_PULLS : 0)));
    if (pushes)
        c->n_summed = 0;
    return pulls ? OK : link_update(a->link, 0, TO_END, a->lr, ++a->steps);
}

/* In sync mode the others may have gone on meanwhile. */
static void catch_up(struct agent *a, const struct ps_client *c)
{
    if (!a->stage->asynchronous && c->round > a->k)
        a->k = c->round;
}

static fault come_back(struct agent *a, struct ps_client *c)
{
    char text[96];
    c->is_back = false;
    c->n_summed = 0;
    TRY(call_servers(a, c, PS_PULLS));
    if (!a->stage->asynchronous)
        a->k = c->round;
    snprintf(text, sizeof text, "agent %zu is back with the servers' parameters", a->index);
    link_note(a->link, "return", text);
    return OK;
}

/* From a checkpoint: what was summed by then is in its row; how old the parameters are only the servers know. */
static fault go_on(struct agent *a, struct ps_client *c, const struct ps *s)
{
    c->n_summed = a->k % (uint64_t)s->push_every;
    return a->stage->asynchronous ? call_servers(a, c, PS_PULLS) : OK;
}

fault ps_work(struct agent *a)
{
    const struct ps *s = &ps_of(a)->settings;
    struct ps_client *c = &ps_of(a)->clients[a->index];
    if (c->is_back)
        TRY(come_back(a, c));
    else if (a->k)
        TRY(go_on(a, c, s));
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(add_gradient(a, c));
        TRY(push_and_pull(a, c, s));
        TRY(agent_end_round(a));
        catch_up(a, c);
    }
    if (c->n_summed)
        TRY(call_servers(a, c, PS_PUSHES | PS_PULLS));
    return call_servers(a, c, PS_BYE | PS_PULLS);
}
