/* Downpour: asynchronous servers that hear of their workers now and then, against the paper's loop written by
 * hand, and what is sent for it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "strategy/ps/ps.h"
#include "support/cast.h"

enum { BATCH = 2 };
#define PLAIN                                                                                                \
    "data: {set: {kind: blobs, samples: 240, test_samples: 10}, batch: 2}\nmodel: mlp:8-5\n"                 \
    "optim: {kind: sgd, lr: 0.1}\nengine: {kind: ref, threads: 1}\n"

static void open_text(struct cast *g, char *text, int rounds)
{
    cast_open(g, text, rounds);
    free(text);
}

static void must_be_close(const float *x, const float *y, size_t n, double most)
{
    for (size_t k = 0; k < n; k++)
        if (!(fabs(x[k] - y[k]) < most))
            fail_msg("float %zu: %g and %g", k, x[k], y[k]);
}

/* The parameters of the server. */
static void read_server(struct cast *g, float *out)
{
    must(local_settle(g->world));
    must(g->run->engine->ops->read(g->run->engine, ROW_PARAMS, g->n, out));
}

/* The sum of p plain steps is a step by the sum. */
static void one_agent_that_pushes_seldom_learns_as_single_does(void **state)
{
    (void)state;
    for (int push = 1; push <= 4; push++) {
        struct cast single, other;
        open_text(&single, text_of(PLAIN), 23);
        open_text(&other,
                  text_of(PLAIN "strategy: {kind: downpour, push_every: %d, pull_every: %d, servers: 2}\n",
                          push, push),
                  23);
        cast_play(&single);
        cast_play(&other);
        must_be_close(cast_row(&single, 0), cast_row(&other, 0), single.size, 1e-5);
        assert_int_equal(other.run->agents[0].staleness.n, (23 + push - 1) / push); /* the rest at the end */
        cast_close(&single);
        cast_close(&other);
    }
}

static void pushing_and_pulling_every_round_is_ps_in_async_bit_for_bit(void **state)
{
    (void)state;
    static const char *const strategies[] = {"{kind: ps, mode: async}",
                                             "{kind: downpour, push_every: 1, pull_every: 1}"};
    struct cast g[2];
    for (size_t s = 0; s < 2; s++) {
        open_text(&g[s],
                  text_of(PLAIN "strategy: %s\nagents: 3\nmachines: {speed: [1, 0.4, 0.7]}\n"
                                "network: {latency_ms: 1, bandwidth_mbps: 10}\n",
                          strategies[s]),
                  20);
        cast_play(&g[s]);
    }
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(cast_row(&g[0], i), cast_row(&g[1], i), g[0].size * sizeof(float));
    assert_true(local_now_s(g[0].world) == local_now_s(g[1].world));
    cast_close(&g[0]);
    cast_close(&g[1]);
}

/* ---- many agents ---- */

enum { M = 3, ROUNDS = 12 };

struct paper { /* algorithm 7.1 of the paper, for workers that take turns */
    struct cast *feeds, hand;
    float *server, *grad;
    float *worker[M];
    double *sum[M];
};

static float *floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    return x;
}

static void paper_open(struct paper *p, struct cast *feeds)
{
    p->feeds = feeds;
    open_text(&p->hand, text_of(PLAIN), 1);
    size_t n = p->hand.size;
    p->grad = floats(n);
    p->server = floats(n);
    memcpy(p->server, cast_row(&p->hand, 0), n * sizeof(float));
    for (size_t i = 0; i < M; i++) {
        p->worker[i] = floats(n);
        memcpy(p->worker[i], p->server, n * sizeof(float));
        assert_non_null(p->sum[i] = calloc(n, sizeof(double)));
    }
}

static void paper_close(struct paper *p)
{
    for (size_t i = 0; i < M; i++) {
        free(p->worker[i]);
        free(p->sum[i]);
    }
    free(p->grad);
    free(p->server);
    cast_close(&p->hand);
}

static void paper_gradient(struct paper *p, size_t worker, uint64_t lesson_number)
{
    struct engine *e = p->hand.run->engine;
    struct pick picks[BATCH];
    struct lesson lesson = {.picks = picks};
    feed_batch(&p->feeds->run->agents[worker].feed, lesson_number, picks);
    cast_write(&p->hand, 0, p->worker[worker]);
    must(e->ops->learn(e, &lesson, 1));
    must(e->ops->read(e, ROW_GRADS, 0, p->grad));
}

static void paper_push(struct paper *p, size_t worker)
{
    for (size_t j = 0; j < p->hand.size; j++) {
        p->server[j] -= (float)(0.1 * p->sum[worker][j]);
        p->sum[worker][j] = 0;
    }
}

static void paper_round(struct paper *p, size_t worker, uint64_t k, uint64_t push, uint64_t pull)
{
    size_t n = p->hand.size;
    paper_gradient(p, worker, k - 1);
    for (size_t j = 0; j < n; j++)
        p->sum[worker][j] += p->grad[j];
    if (k % push == 0)
        paper_push(p, worker);
    if (k % pull == 0)
        memcpy(p->worker[worker], p->server, n * sizeof(float));
    for (size_t j = 0; k % pull && j < n; j++)
        p->worker[worker][j] -= 0.1f * p->grad[j];
}

/* Equal machines on free wires take turns in the order of their numbers; what is left is pushed in the end. */
static void many_agents_do_as_the_paper_says(void **state)
{
    (void)state;
    static const unsigned cadences[][2] = {{1, 1}, {3, 3}, {2, 3}, {3, 2}, {4, 1}, {1, 4}, {5, 5}, {20, 20}};
    for (size_t c = 0; c < sizeof cadences / sizeof *cadences; c++) {
        unsigned push = cadences[c][0], pull = cadences[c][1];
        struct cast g;
        struct paper p;
        open_text(&g,
                  text_of(PLAIN "strategy: {kind: downpour, push_every: %u, pull_every: %u}\nagents: %d\n",
                          push, pull, M),
                  ROUNDS);
        paper_open(&p, &g);
        for (uint64_t k = 1; k <= ROUNDS; k++)
            for (size_t i = 0; i < M; i++)
                paper_round(&p, i, k, push, pull);
        for (size_t i = 0; ROUNDS % push && i < M; i++)
            paper_push(&p, i);
        cast_play(&g);
        float *server = floats(g.size);
        read_server(&g, server);
        must_be_close(server, p.server, g.size, 2e-5);
        for (size_t i = 0; i < M; i++)
            assert_memory_equal(cast_row(&g, i), server, g.size * sizeof(float));
        free(server);
        paper_close(&p);
        cast_close(&g);
    }
}

static void nobody_waits_for_a_slow_agent(void **state)
{
    (void)state;
    struct cast g;
    open_text(&g,
              text_of(PLAIN "strategy: {kind: downpour, push_every: 4, pull_every: 4}\nagents: 4\n"
                            "machines: {speed: [1, 1, 1, 0.1]}\n"),
              40);
    cast_play(&g);
    for (size_t i = 0; i < 3; i++)
        assert_true(g.run->agents[i].lessons > 4 * g.run->agents[3].lessons);
    assert_true(g.run->agents[0].staleness.most > 0);
    cast_close(&g);
}

static void pushes_and_pulls_are_counted_as_they_are_asked_for(void **state)
{
    (void)state;
    struct cast g;
    open_text(&g, text_of(TINY("{kind: downpour, push_every: 2, pull_every: 3}") "agents: 4\n"), 12);
    cast_play(&g);
    struct link_counts c = cast_counts(&g);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(g.run->agents[i].lessons, 12);
    /* of 12 rounds 6 push, 4 pull, 2 do both; who is not the last to do so pulls again at the end */
    assert_int_equal(c.messages, 4 * ((6 + 4) + 2 * (6 + 4 - 2) + 2) + 3);
    assert_int_equal(c.bytes,
                     (4 * (6 + 4) + 3) * g.size * sizeof(float) + 4 * (2 * 8 + 2) * sizeof(struct letter));
    cast_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_agent_that_pushes_seldom_learns_as_single_does),
        cmocka_unit_test(pushing_and_pulling_every_round_is_ps_in_async_bit_for_bit),
        cmocka_unit_test(many_agents_do_as_the_paper_says),
        cmocka_unit_test(nobody_waits_for_a_slow_agent),
        cmocka_unit_test(pushes_and_pulls_are_counted_as_they_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
