/* Parameter servers in small worlds of trouble: unequal machines, thin wires, agents and servers that crash
 * and return, cuts and partitions. Whatever happens, nobody waits longer than patience, every life ends in a
 * stated way and every message is accounted for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "strategy/ps/ps.h"
#include "support/cast.h"
#include "support/worlds.h"

enum { MOST_AGENTS = 7, MOST_ROUNDS = 12, WORLDS = 1000, MOST_STEPS = 400000 };

/* ---- worlds ---- */

static const struct {
    const char *strategy;
    int servers; /* with their standbys */
} methods[] = {
    {"ps", 1},
    {"{kind: ps, servers: 2}", 2},
    {"{kind: ps, replicate_every: 1}", 2},
    {"{kind: ps, servers: 2, replicate_every: 3}", 4},
    {"{kind: ps, tree: 2}", 1},
    {"{kind: ps, tree: 3, servers: 2, replicate_every: 2}", 4},
    {"{kind: downpour, push_every: 2, pull_every: 3}", 1},
    {"{kind: ps, mode: async}", 1},
    {"{kind: ps, mode: async, servers: 3, staleness_aware: true}", 3},
    {"{kind: downpour, replicate_every: 2, push_every: 2, pull_every: 2}", 2},
    {"{kind: ps, mode: ssp, staleness: 1}", 1},
    {"{kind: ps, mode: ssp, staleness: 0, servers: 2, replicate_every: 1}", 4},
};
enum { N_METHODS = sizeof methods / sizeof *methods };

/* What happens to a helper, whose number is at least that of the agents. */
static char *trouble_for_helpers(struct rng *r, int n_agents, int n_helpers)
{
    double at_s = 0.03 * rng_uniform(r);
    int who = n_agents + (int)rng_below(r, (uint64_t)n_helpers),
        agent = (int)rng_below(r, (uint64_t)n_agents);
    switch (rng_below(r, 5)) {
    case 0:
        return text_of("  - {at_s: %g, crash: %d}\n", at_s, who);
    case 1:
        return text_of("  - {at_s: %g, crash: %d}\n  - {at_s: %g, return: %d}\n", at_s, who,
                       at_s + 0.02 * rng_uniform(r), who);
    case 2:
        return text_of("  - {at_s: %g, cut: [%d, %d]}\n  - {at_s: %g, mend: [%d, %d]}\n", at_s, agent, who,
                       at_s + 0.02 * rng_uniform(r), agent, who);
    case 3:
        return text_of("  - {at_s: %g, partition: [[%d, %d]]}\n", at_s, agent, who);
    default:
        return text_of("  - {at_s: %g, heal: all}\n", at_s);
    }
}

static int agents_in(const char *text)
{
    return atoi(strstr(text, "agents: ") + strlen("agents: "));
}

/* Where nothing is said of patience it is a minute, in which the troubles of ten thousand rounds would
 * happen. */
static char *made_impatient(char *text)
{
    static const char wire[] = "network: {bandwidth_mbps: 0.5";
    char *at = strstr(text, wire), *whole;
    if (at)
        whole = text_of("%.*s, patience_s: 0.03%s", (int)(at - text + (int)strlen(wire)), text,
                        at + strlen(wire));
    else
        whole = text_of("%s%s", strstr(text, "network:") ? "" : "network: {patience_s: 0.05}\n", text);
    free(text);
    return whole;
}

static char *random_ps_world(struct rng *r)
{
    size_t m = rng_below(r, N_METHODS);
    char *text = made_impatient(random_world(r, &methods[m].strategy, 1, MOST_AGENTS));
    char *whole =
        text_of("%s%s", text, strstr(text, "events:\n") ? "" : "events:\n  - {at_s: 0.5, heal: all}\n");
    free(text);
    for (size_t i = rng_below(r, 4); i-- > 0;) {
        char *event = trouble_for_helpers(r, agents_in(whole), methods[m].servers);
        text = text_of("%s%s", whole, event);
        free(event);
        free(whole);
        whole = text;
    }
    return whole;
}

/* ---- books ---- */

struct books {
    double patience_s, longest_s;
};

static struct cast *cast_of(const struct link *l)
{
    return ((const struct actor *)l)->world->watcher.ctx;
}

static fault waited(struct link *l, double since, fault f)
{
    struct books *b = cast_of(l)->ctx;
    b->longest_s = fmax(b->longest_s, local_link.now_s(l) - since);
    return f;
}

static fault kept_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    double since = local_link.now_s(l);
    return waited(l, since, local_link.recv_rows(l, from, tag, out, sender));
}

static fault kept_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender)
{
    double since = local_link.now_s(l);
    return waited(l, since, local_link.recv(l, from, tag, bytes, n, sender));
}

static fault no_end_in_sight(void *ctx)
{
    struct cast *g = ctx;
    return local_steps(g->world) < MOST_STEPS ? OK : FAIL(FAULT_USAGE, "this world goes on for ever");
}

static void keep_books(struct cast *g, struct books *b)
{
    g->ctx = b;
    b->patience_s = g->run->experiment->network.patience_s;
    g->ops.recv_rows = kept_recv_rows;
    g->ops.recv = kept_recv;
    g->world->watcher.moment = no_end_in_sight;
}

/* ---- the judgement ---- */

struct remains {
    uint64_t messages;
    size_t n_rows[N_ROWS];
    bool held[N_ROWS][512];
};

static void count_rows(struct remains *r, const struct cast *g, const struct message *m)
{
    for (size_t i = 0; i < m->n_rows; i++) {
        const struct snapshot *s = m->rows[i];
        if (s->at < g->run->stage.n_members)
            continue;
        assert_true(s->at < 512);
        r->n_rows[s->row] += !r->held[s->row][s->at];
        r->held[s->row][s->at] = true;
    }
}

static struct remains remains_of(const struct cast *g)
{
    struct remains r = {0};
    for (size_t i = 0; i < g->run->stage.n_members; i++) {
        const struct agent *a = &g->run->agents[i];
        for (const struct message *m = g->world->actors[i].mail; m; m = m->next) {
            r.messages++;
            count_rows(&r, g, m);
        }
        for (size_t p = 0; p < a->parcel_room; p++) /* received: of a run that a fault ended */
            if (a->parcels[p].rows)
                count_rows(&r, g, a->parcels[p].rows);
    }
    for (size_t i = 0; i < g->world->agenda.n; i++)
        if (g->world->agenda.heap[i].kind == MOMENT_ARRIVE) {
            r.messages++;
            count_rows(&r, g, g->world->agenda.heap[i].what);
        }
    return r;
}

static void no_message_was_lost_or_doubled(const struct cast *g)
{
    struct link_counts sum = cast_counts(g);
    struct remains r = remains_of(g);
    assert_int_equal(sum.messages, sum.received + sum.lost + sum.unread + r.messages);
    for (enum row row = 0; row < g->run->engine->setup.rows.n; row++)
        assert_int_equal(g->world->n_free_rows[row] + r.n_rows[row], g->run->engine->setup.n_spare - 1);
}

static bool noted_of(const struct cast *g, size_t agent, const char *kind)
{
    char *words = text_of(" %zu %s:", agent, kind);
    bool noted = cast_noted(g, words);
    free(words);
    return noted;
}

static void every_life_ended_in_a_stated_way(const struct cast *g)
{
    for (size_t i = 0; i < g->run->stage.n_members; i++) {
        const struct actor *a = &g->world->actors[i];
        assert_true(a->life == LIFE_DONE || (a->life == LIFE_DOWN && !a->alive));
        if (i < g->n && a->life == LIFE_DONE && !g->run->stage.asynchronous)
            assert_true(a->agent->k >= g->run->stage.rounds || noted_of(g, i, "lost"));
    }
}

struct history { /* over all worlds: that the chaos was one, and that most went well */
    unsigned well, all_down, server_lost, taken_over, silent, gone, back, left, late, alone, turned;
};

static void judge(struct cast *g, const struct books *b, fault f, struct history *h)
{
    bool lost = f && strstr(fault_text(f), "has lost server");
    bool down = f && strstr(fault_text(f), "are down, and none came to its end");
    if (f && !lost && !down)
        fail_msg("%s", fault_text(f));
    fault_drop(f);
    h->server_lost += lost;
    h->all_down += down;
    h->well += !f;
    if (!lost)
        every_life_ended_in_a_stated_way(g);
    no_message_was_lost_or_doubled(g);
    assert_true(b->longest_s <= b->patience_s * (1 + 1e-12) + 1e-12);
    h->taken_over += cast_noted(g, "takes over");
    h->turned += cast_noted(g, "turns from");
    h->silent += cast_noted(g, "has not been heard for too long");
    h->gone += cast_noted(g, "cannot be reached\n");
    h->back += cast_noted(g, "is back with the servers' parameters");
    h->left += cast_noted(g, "lost: ");
    h->alone += cast_noted(g, "no worker is left");
    for (size_t i = 0; i < g->n; i++)
        h->late += g->run->agents[i].dropped > 0;
}

/* After the first ones, a few in which everybody waits for somebody else if any rule of the protocol is left
 * out. */
static unsigned seed_of(unsigned world)
{
    static const unsigned tangled[] = {1776, 4233, 10002, 14576, 31926, 133321};
    return world < WORLDS ? world : tangled[world - WORLDS];
}

static void worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    struct history h = {0};
    for (unsigned world = 0; world < WORLDS + 6; world++) {
        unsigned seed = seed_of(world);
        struct rng r = rng_stream(seed, 0, RNG_TEST, 11);
        char *text = *state = random_ps_world(&r);
        struct cast g;
        struct books b = {0};
        must(cast_try(&g, text, 1 + (int)rng_below(&r, MOST_ROUNDS), seed));
        keep_books(&g, &b);
        judge(&g, &b, cast_go(&g), &h);
        cast_close(&g);
        free(text);
        *state = NULL;
    }
    assert_true(h.gone > 300 && h.silent > 50 && h.back > 100 && h.late > 100 && h.left > 100);
    assert_true(h.turned > 150 && h.taken_over > 100 && h.alone > 50);
    assert_true(h.all_down > 20 && h.server_lost > 100 && h.well > WORLDS / 2);
}

static int show_the_world_that_failed(void **state)
{
    if (*state)
        print_message("%s", (const char *)*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(worlds_of_trouble_come_to_an_orderly_end, show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
