/* Staleness: measured as it is, never beyond its bound, and what the steps make of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/encode.h"
#include "base/rng.h"
#include "strategy/ps/ps.h"
#include "support/cast.h"

enum { MOST_AGENTS = 8, MOST_SERVERS = 3, WORLDS = 1000 };

/* ---- books: kept from what passes over the links of the servers ---- */

struct books {
    size_t n_agents;
    bool is_aware; /* of the staleness */
    struct per_server {
        uint64_t updates;
        uint64_t pulled[MOST_AGENTS]; /* updates when the agent was last sent parameters */
        uint64_t clock[MOST_AGENTS];  /* its pushes */
        bool has_left[MOST_AGENTS];
        size_t last;    /* whose gradient came last */
        uint64_t stale; /* and how stale it was */
    } servers[MOST_SERVERS];
    uint64_t stale_sum[MOST_AGENTS], stale_most[MOST_AGENTS]; /* one server only */
    uint64_t most_ahead;
    double least_divisor, most_divisor; /* of steps, where the rate is 0.1 */
};

static struct books *books_of(const struct link *l)
{
    return ((struct cast *)((const struct actor *)l)->world->watcher.ctx)->ctx;
}

static struct per_server *server_of(const struct link *l)
{
    struct books *b = books_of(l);
    return l->self < b->n_agents ? NULL : &b->servers[l->self - b->n_agents];
}

static fault kept_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender)
{
    struct per_server *s = server_of(l);
    size_t who = from;
    TRY(local_link.recv(l, from, tag, bytes, n, &who));
    struct decoder d = decode_from(bytes, n);
    decode_u64(&d), decode_u32(&d); /* number and kind */
    if (s && tag == CALL_ASK && decode_u32(&d) & PS_BYE)
        s->has_left[who] = true;
    if (sender)
        *sender = who;
    return OK;
}

static fault kept_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    struct per_server *s = server_of(l);
    TRY(local_link.recv_rows(l, from, tag, out, sender));
    if (!s)
        return OK;
    struct books *b = books_of(l);
    s->clock[from]++;
    s->last = from;
    s->stale = s->updates - s->pulled[from];
    b->stale_sum[from] += s->stale;
    b->stale_most[from] = s->stale > b->stale_most[from] ? s->stale : b->stale_most[from];
    return OK;
}

static fault kept_update(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    struct per_server *s = server_of(l);
    struct books *b = books_of(l);
    if (s) {
        assert_int_equal(t, ++s->updates);
        double divisor = 0.1 / lr, due = b->is_aware && s->stale > 1 ? (double)s->stale : 1;
        assert_true(fabs(divisor - due) < 1e-9);
        b->least_divisor = fmin(b->least_divisor, divisor);
        b->most_divisor = fmax(b->most_divisor, divisor);
    }
    return local_link.update(l, first, end, lr, t);
}

static fault kept_send_rows(struct link *l, size_t to, uint64_t tag, struct span span)
{
    struct per_server *s = server_of(l);
    struct books *b = books_of(l);
    if (s) {
        s->pulled[to] = s->updates;
        for (size_t i = 0; i < b->n_agents && !s->has_left[to]; i++)
            if (!s->has_left[i] && s->clock[to] > s->clock[i] && s->clock[to] - s->clock[i] > b->most_ahead)
                b->most_ahead = s->clock[to] - s->clock[i];
    }
    return local_link.send_rows(l, to, tag, span);
}

static void keep_books(struct cast *g, struct books *b)
{
    const struct ps *settings = g->run->experiment->strategy.settings;
    *b = (struct books){.n_agents = g->n, .is_aware = settings->staleness_aware, .least_divisor = INFINITY};
    g->ctx = b;
    g->ops.recv = kept_recv;
    g->ops.recv_rows = kept_recv_rows;
    g->ops.update = kept_update;
    g->ops.send_rows = kept_send_rows;
}

/* ---- worlds without trouble, but with every kind of slowness ---- */

static const char *one_of(struct rng *r, const char *const *list, size_t n)
{
    return list[rng_below(r, n)];
}

static void play_slow_world(struct cast *g, struct books *b, struct rng *r, const char *strategy, int agents)
{
    static const char *const machines[] = {
        "",
        "machines: {speed: {kind: lognormal, sigma: 1.5}}\n",
        "machines: {stragglers: {kind: random, chance: 0.3, factor: 30}}\n",
        "machines: {speed: {kind: uniform, between: [0.05, 3]}, stragglers: {kind: random, chance: 0.1, "
        "factor: "
        "9}}\n",
    };
    static const char *const networks[] = {
        "",
        "network: {latency_ms: 0.3}\n",
        "network: {latency_ms: 1, bandwidth_mbps: 2}\n",
        "network: {latency_ms: 4, bandwidth_mbps: 0.3}\n",
    };
    char *text = text_of(TINY("%s") "agents: %d\n%s%s", strategy, agents, one_of(r, machines, 4),
                         one_of(r, networks, 4));
    must(cast_try(g, text, 2 + (int)rng_below(r, 12), (unsigned)rng_below(r, 1000000)));
    free(text);
    keep_books(g, b);
    cast_play(g);
    assert_int_equal(g->n_notes, 0);
}

static void nobody_is_ever_further_ahead_than_the_bound(void **state)
{
    (void)state;
    unsigned at_the_bound = 0, far = 0;
    for (unsigned world = 0; world < WORLDS; world++) {
        struct rng r = rng_stream(world, 0, RNG_TEST, 12);
        struct cast g;
        struct books b;
        unsigned s = (unsigned)rng_below(&r, 5), servers = 1 + (unsigned)rng_below(&r, MOST_SERVERS);
        int agents = 2 + (int)rng_below(&r, MOST_AGENTS - 1);
        char *strategy = text_of("{kind: ps, mode: ssp, staleness: %u, servers: %u}", s, servers);
        play_slow_world(&g, &b, &r, strategy, agents);
        free(strategy);
        assert_true(b.most_ahead <= s);
        at_the_bound += b.most_ahead == s;
        for (size_t i = 0; i < g.n;
             i++) /* everyone else makes at most 2 s + 1 updates between a pull and a push */
            assert_true(g.run->agents[i].staleness.most <= (g.n - 1) * (2 * s + 1));
        cast_close(&g);

        r = rng_stream(world, 0, RNG_TEST, 12);
        play_slow_world(&g, &b, &r, "{kind: ps, mode: async}", agents);
        far += b.most_ahead > 4;
        cast_close(&g);
    }
    assert_true(at_the_bound > WORLDS / 2); /* the bound is met, */
    assert_true(far > WORLDS / 10);         /* and without it one gets further */
}

static void staleness_is_noted_as_measured(void **state)
{
    (void)state;
    static const char *const modes[] = {"async", "ssp, staleness: 2", "sync"};
    for (unsigned world = 0; world < 60; world++) {
        struct rng r = rng_stream(world, 0, RNG_TEST, 13);
        struct cast g;
        struct books b;
        char *strategy = text_of("{kind: ps, mode: %s}", modes[world % 3]);
        play_slow_world(&g, &b, &r, strategy, 5);
        free(strategy);
        uint64_t pushes = 0;
        for (size_t i = 0; i < g.n; i++) {
            const struct staleness *s = &g.run->agents[i].staleness;
            assert_int_equal(s->sum, b.stale_sum[i]);
            assert_int_equal(s->most, b.stale_most[i]);
            assert_int_equal(s->n, g.run->agents[i].lessons);
            pushes += s->n;
        }
        assert_int_equal(pushes, session_totals(g.run).ended);
        assert_true(b.most_divisor < 1 + 1e-12 && b.least_divisor > 1 - 1e-12);
        cast_close(&g);
    }
}

static void steps_are_divided_by_the_staleness_where_that_is_asked_for(void **state)
{
    (void)state;
    for (unsigned world = 0; world < 40; world++) {
        struct rng r = rng_stream(world, 0, RNG_TEST, 14);
        struct cast g;
        struct books b;
        play_slow_world(&g, &b, &r,
                        world % 2 ? "{kind: ps, mode: async, staleness_aware: true}"
                                  : "{kind: ps, mode: ssp, staleness: 3, staleness_aware: true, servers: 2}",
                        6);
        assert_true(b.most_divisor >= 3 && b.least_divisor == 1);
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_ever_further_ahead_than_the_bound),
        cmocka_unit_test(staleness_is_noted_as_measured),
        cmocka_unit_test(steps_are_divided_by_the_staleness_where_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
