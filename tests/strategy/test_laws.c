/* The laws of mixing: one agent is alone, the mean never moves, disagreement shrinks by gamma, every message
 * is counted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"

/* ---- one agent ---- */

static const char *const models[] = {
    "logistic",
    "mlp:8-5",
    "[{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, {linear: {out: 3}}]",
};

static const char *const optimisers[] = {
    "{kind: sgd, lr: 0.05, momentum: 0.9, schedule: {warmup_epochs: 0.5}}",
    "{kind: adam, lr: 0.01}",
    "{kind: sgd, lr: 0.1}",
};

static void learn_alone(struct cast *g, const char *strategy, size_t model)
{
    char *text = text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
                         "model: %s\noptim: %s\nengine: {kind: ref, threads: 1}\nstrategy: %s\n",
                         models[model], optimisers[model], strategy);
    cast_open(g, text, 30);
    free(text);
    cast_play(g);
}

static void one_agent_equals_single_bit_for_bit(void **state)
{
    (void)state;
    static const char *const strategies[] = {"consensus", "{kind: consensus, order: combine-then-adapt}",
                                             "gossip", "adpsgd"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct cast single;
        learn_alone(&single, "single", m);
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
            struct cast other;
            learn_alone(&other, strategies[s], m);
            assert_int_equal(single.size, other.size);
            assert_memory_equal(cast_row(&single, 0), cast_row(&other, 0), single.size * sizeof(float));
            assert_int_equal(cast_counts(&other).messages, 0);
            assert_true(local_now_s(single.world) == local_now_s(other.world));
            cast_close(&other);
        }
        cast_close(&single);
    }
}

/* ---- many agents that only mix ---- */

static const char *const graphs[] = {
    "cycle:4",       "cycle:9",
    "chords:12:2",   "expander:9",
    "torus:3x4",     "grid:3x3",
    "complete:6",    "star:7",
    "path:6",        "hypercube:3",
    "exponential:8", "random:10:0.4",
    "regular:12:4",  "small-world:12:4:0.2",
    "tree:7:2",
};
static const size_t vertices[] = {4, 9, 12, 9, 12, 9, 6, 7, 6, 8, 8, 10, 12, 12, 7};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs };
_Static_assert(sizeof vertices / sizeof *vertices == N_GRAPHS, "as many as graphs");

static void open_mixing(struct cast *g, const char *strategy, size_t graph, const char *weights, int rounds)
{
    char *text = text_of(TINY("%s") "agents: %zu\ntopology: {graph: \"%s\", weights: %s}\n", strategy,
                         vertices[graph], graphs[graph], weights);
    cast_open(g, text, rounds);
    free(text);
    cast_scatter(g, graph + 1);
    cast_keep_from_learning(g);
}

static const char *const weights[] = {"uniform", "metropolis", "best-constant", "fastest"};

/* W x, from the edges and nothing else. */
static void multiply(const struct cast *g, const double *x, double *y)
{
    const struct topology *t = g->run->topology;
    memcpy(y, x, t->n * sizeof *y);
    for (size_t e = 0; e < t->n_edges; e++) {
        double flow = g->run->weights.edge[e] * (x[t->edges[e].b] - x[t->edges[e].a]);
        y[t->edges[e].a] += flow;
        y[t->edges[e].b] -= flow;
    }
}

static double normalise(double *x, size_t n)
{
    double mean = 0, length = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        x[i] -= mean;
        length += x[i] * x[i];
    }
    for (size_t i = 0; length > 0 && i < n; i++)
        x[i] /= sqrt(length);
    return sqrt(length);
}

/* The direction in which disagreement shrinks slowest, by power iteration with W^2; returns |lambda|. */
static double slowest(const struct cast *g, double *x)
{
    double y[16], gamma = 0;
    for (size_t i = 0; i < g->n; i++)
        x[i] = sin(1.0 + 7.0 * (double)(i * i));
    normalise(x, g->n);
    for (int i = 0; i < 4000; i++) {
        multiply(g, x, y);
        multiply(g, y, x);
        gamma = sqrt(normalise(x, g->n));
    }
    return gamma;
}

static void write_direction(struct cast *g, const double *x)
{
    for (size_t i = 0; i < g->n; i++) {
        for (size_t j = 0; j < g->size; j++)
            g->rows[i * g->size + j] = (float)(x[i] * (1 + (double)j / 7));
        cast_write(g, i, g->rows + i * g->size);
    }
}

static double played(struct cast *g)
{
    double *before = cast_rows(g);
    cast_play(g);
    double *after = cast_rows(g);
    double shrunk = disagreement_of(after, g->n, g->size) / disagreement_of(before, g->n, g->size);
    assert_true(furthest_mean(before, after, g->n, g->size) < 1e-6);
    free(before);
    free(after);
    return shrunk;
}

static void disagreement_shrinks_by_gamma_squared_a_round(void **state)
{
    (void)state;
    enum { ROUNDS = 6 };
    for (size_t i = 0; i < N_GRAPHS; i++)
        for (size_t w = 0; w < 4; w++) {
            struct cast g;
            double x[16], y[16];
            open_mixing(&g, "consensus", i, weights[w], ROUNDS);
            double gamma = slowest(&g, x), known, most = pow(gamma, 2 * ROUNDS);
            must(weights_gamma(g.run->topology, &g.run->weights, &known));
            assert_true(fabs(gamma - known) < 2e-4);
            double shrunk = played(&g); /* from anywhere: at least as fast */
            assert_true(shrunk <= most * 1.001 + 1e-12);
            cast_close(&g);

            open_mixing(&g, "consensus", i, weights[w], ROUNDS);
            multiply(&g, x, y);
            write_direction(&g, y); /* from the slowest direction: just so */
            shrunk = gamma > 1e-3 ? played(&g) : 0;
            assert_true(fabs(shrunk - most) < 2e-3 * most + 1e-12);
            cast_close(&g);
        }
}

static void many_rounds_are_powers_of_the_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GRAPHS; i++) {
        struct cast g;
        open_mixing(&g, "consensus", i, weights[i % 4], 5);
        double *rows = cast_rows(&g), x[16], y[16];
        cast_play(&g);
        for (size_t j = 0; j < g.size; j++) {
            for (size_t a = 0; a < g.n; a++)
                x[a] = rows[a * g.size + j];
            for (int k = 0; k < 5; k++) {
                multiply(&g, x, y);
                memcpy(x, y, sizeof x);
            }
            for (size_t a = 0; a < g.n; a++)
                assert_true(fabs(x[a] - cast_row(&g, a)[j]) < 1e-5);
        }
        free(rows);
        cast_close(&g);
    }
}

/* Unequal machines and a network, so that everybody is somewhere else when they mix. */
static const char unequal[] = "machines: {speed: {kind: lognormal, sigma: 1}, "
                              "stragglers: {kind: random, chance: 0.3, factor: 9}}\n"
                              "network: {latency_ms: 2, bandwidth_mbps: 0.5}\n";

static void the_mean_never_moves(const char *strategy, bool shrinks)
{
    for (size_t i = 0; i < N_GRAPHS; i++)
        for (size_t w = 0; w < 4; w++) {
            struct cast g;
            char *text = text_of(TINY("%s") "agents: %zu\ntopology: {graph: \"%s\", weights: %s}\n%s",
                                 strategy, vertices[i], graphs[i], weights[w], (i + w) % 2 ? unequal : "");
            cast_open(&g, text, 7);
            free(text);
            cast_scatter(&g, 100 * i + w);
            cast_keep_from_learning(&g);
            double shrunk = played(&g);
            assert_true(!shrinks || shrunk < 1);
            assert_int_equal(g.n_notes, 0);
            cast_close(&g);
        }
}

static void the_mean_never_moves_under_consensus(void **state)
{
    (void)state;
    the_mean_never_moves("consensus", true);
    the_mean_never_moves("{kind: consensus, every: 3}", true);
    the_mean_never_moves("{kind: consensus, mix_every: 2, learn_every: 3}", true);
}

static void the_mean_never_moves_when_one_combines_before_adapting(void **state)
{
    (void)state;
    the_mean_never_moves("{kind: consensus, order: combine-then-adapt}", true);
}

static void the_mean_never_moves_under_gossip(void **state)
{
    (void)state;
    the_mean_never_moves("gossip", true);
    the_mean_never_moves("{kind: gossip, pairs: 3, every: 2}", true);
}

static void the_mean_never_moves_under_adpsgd(void **state)
{
    (void)state;
    the_mean_never_moves("adpsgd", true);
    the_mean_never_moves("{kind: adpsgd, every: 2}", true);
}

static void the_mean_never_moves_where_agents_mix_unequally_often(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct cast g;
        char *text = text_of(TINY("{kind: consensus, mix_every: [1, 2, 3, 1], learn_every: [1, 1, 2, 4]}") //
                             "agents: 4\ntopology: complete:4\n%s",
                             slow ? unequal : "");
        cast_open(&g, text, 12);
        free(text);
        cast_scatter(&g, 5);
        cast_keep_from_learning(&g);
        assert_true(played(&g) < 1);
        cast_close(&g);
    }
}

/* ---- counts ---- */

static void must_count(struct cast *g, uint64_t messages)
{
    cast_play(g);
    struct link_counts c = cast_counts(g);
    assert_int_equal(c.messages, messages);
    assert_int_equal(c.bytes, messages * g->size * sizeof(float));
    assert_int_equal(c.lost, 0);
    cast_close(g);
}

static void consensus_sends_a_row_to_each_neighbour_in_each_mixing_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GRAPHS; i++) {
        struct cast g;
        open_mixing(&g, "consensus", i, "metropolis", 6);
        for (size_t a = 0; a < g.n; a++)
            assert_int_equal(local_counts(g.world, a).messages, 0);
        size_t n_edges = g.run->topology->n_edges;
        must_count(&g, 2 * n_edges * 6);
        open_mixing(&g, "{kind: consensus, every: 2}", i, "metropolis", 6);
        must_count(&g, 2 * n_edges * 3);
        open_mixing(&g, "{kind: consensus, mix_every: 3, order: combine-then-adapt}", i, "metropolis", 6);
        must_count(&g, 2 * n_edges * 2);
    }
}

static void every_agent_of_consensus_sends_as_its_degree_says(void **state)
{
    (void)state;
    struct cast g;
    open_mixing(&g, "consensus", 7, "metropolis", 6); /* star:7 */
    cast_play(&g);
    assert_int_equal(local_counts(g.world, 0).messages, 6 * 6);
    for (size_t a = 1; a < 7; a++)
        assert_int_equal(local_counts(g.world, a).messages, 6);
    cast_close(&g);
}

static void gossip_sends_two_rows_for_each_pair(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GRAPHS; i++) {
        struct cast g;
        open_mixing(&g, "{kind: gossip, pairs: 5}", i, "metropolis", 6);
        must_count(&g, 2 * 5 * 6);
        open_mixing(&g, "{kind: gossip, every: 4}", i, "metropolis", 6);
        size_t n_edges = g.run->topology->n_edges;
        must_count(&g, 2 * n_edges);
    }
}

static void adpsgd_sends_two_rows_for_each_averaging(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GRAPHS; i++) {
        struct cast g;
        open_mixing(&g, "adpsgd", i, "metropolis", 6);
        must_count(&g, 2 * 6 * vertices[i]);
        open_mixing(&g, "{kind: adpsgd, every: 3}", i, "metropolis", 6);
        must_count(&g, 2 * 2 * vertices[i]);
    }
}

/* ---- when ---- */

struct counted { /* what agent 0 has asked for */
    struct link_ops real;
    uint64_t rows;
};

static struct counted *counted_by(struct link *l)
{
    return ((struct cast *)((struct actor *)l)->world->watcher.ctx)->ctx;
}

static fault count_rows(struct link *l, size_t to, uint64_t tag, struct span span)
{
    counted_by(l)->rows += l->self == 0;
    return counted_by(l)->real.send_rows(l, to, tag, span);
}

static fault count_average(struct link *l, size_t peer, row_set rows)
{
    counted_by(l)->rows += l->self == 0;
    return counted_by(l)->real.average(l, peer, rows);
}

/* In the n-th, the 2n-th, ... round; and, so that all end with one model, in the last one. EASGD's forces
 * travel while the next round learns, so the last round is followed by none. */
static void what_happens_every_n_rounds_happens_in_the_nth(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        uint64_t rows; /* sent by an agent each time */
        bool at_the_end;
        uint64_t later;
    } cases[] = {
        {"{kind: consensus, every: 3}", 1, false, 0},
        {"{kind: consensus, every: 3, order: combine-then-adapt}", 1, false, 0},
        {"{kind: consensus, mix_every: 3}", 1, false, 0},
        {"{kind: gossip, every: 3, pairs: 1}", 1, false, 0},
        {"{kind: adpsgd, every: 3}", 1, false, 0},
        {"{kind: average, tau: 3, algorithm: ring}", 2, true, 0},
        {"{kind: downpour, push_every: 3, pull_every: 3}", 1, true, 0},
        {"{kind: downpour, push_every: 3, pull_every: 1}", 1, true, 0},
        {"{kind: admm, steps: 3}", 1, true, 0},
        {"{kind: easgd, every: 3}", 1, false, 1},
        {"{kind: easgd, mode: sync, every: 3}", 1, false, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint64_t rounds = 1; rounds <= 10; rounds++) {
            struct cast g;
            char *text = text_of(TINY("%s") "agents: 2\ntopology: path:2\n", cases[c].strategy);
            cast_open(&g, text, (int)rounds);
            free(text);
            struct counted counted = {.real = g.ops};
            g.ctx = &counted;
            g.ops.send_rows = count_rows;
            g.ops.average = count_average;
            cast_play(&g);
            uint64_t times = (rounds - cases[c].later) / 3 + (cases[c].at_the_end && rounds % 3);
            if (counted.rows != times * cases[c].rows)
                fail_msg("%s: %d rows in %d rounds", cases[c].strategy, (int)counted.rows, (int)rounds);
            cast_close(&g);
        }
}

static void an_agent_that_learns_every_n_rounds_learns_in_the_nth(void **state)
{
    (void)state;
    for (int rounds = 1; rounds <= 10; rounds++) {
        struct cast g;
        cast_open(&g, TINY("{kind: consensus, learn_every: [1, 3]}") "agents: 2\ntopology: path:2\n", rounds);
        cast_play(&g);
        assert_int_equal(g.run->agents[0].lessons, rounds);
        assert_int_equal(g.run->agents[1].lessons, rounds / 3);
        cast_close(&g);
    }
}

static void statistics_and_momentum_travel_only_when_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        bool stats, slots;
    } cases[] = {
        {"{kind: consensus}", false, false},
        {"{kind: consensus, mix_statistics: true}", true, false},
        {"{kind: consensus, mix_momentum: true}", false, true},
        {"{kind: gossip, pairs: 2, mix_statistics: true, mix_momentum: true}", true, true},
        {"{kind: adpsgd, mix_statistics: true, mix_momentum: true}", true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cast g;
        char *text = text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
                             "model: [{linear: {out: 6}}, batchnorm, relu, {linear: {out: 3}}]\n"
                             "optim: {kind: sgd, lr: 0.05, momentum: 0.9}\nengine: {kind: ref, threads: 1}\n"
                             "strategy: %s\nagents: 2\ntopology: path:2\n",
                             cases[i].strategy);
        cast_open(&g, text, 4);
        free(text);
        cast_play(&g);
        const struct engine_setup *s = &g.run->engine->setup;
        size_t floats = g.size + cases[i].stats * row_size(s, ROW_STATS) +
                        cases[i].slots * (row_size(s, ROW_SLOT) + row_size(s, ROW_SLOT + 1));
        struct link_counts c = cast_counts(&g);
        assert_true(c.messages > 0);
        assert_int_equal(c.bytes, c.messages * floats * sizeof(float));
        float stats[2][64], slots[2][128];
        for (size_t a = 0; a < 2; a++) {
            must(g.run->engine->ops->read(g.run->engine, ROW_STATS, a, stats[a]));
            must(g.run->engine->ops->read(g.run->engine, ROW_SLOT, a, slots[a]));
        }
        /* after the last round's mixing with weights of a half what was mixed is equal, the rest is not */
        if (i < 3) {
            assert_true(cases[i].stats ==
                        !memcmp(stats[0], stats[1], row_size(s, ROW_STATS) * sizeof(float)));
            assert_true(cases[i].slots == !memcmp(slots[0], slots[1], row_size(s, ROW_SLOT) * sizeof(float)));
        }
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_agent_equals_single_bit_for_bit),
        cmocka_unit_test(disagreement_shrinks_by_gamma_squared_a_round),
        cmocka_unit_test(many_rounds_are_powers_of_the_weights),
        cmocka_unit_test(the_mean_never_moves_under_consensus),
        cmocka_unit_test(the_mean_never_moves_when_one_combines_before_adapting),
        cmocka_unit_test(the_mean_never_moves_under_gossip),
        cmocka_unit_test(the_mean_never_moves_under_adpsgd),
        cmocka_unit_test(the_mean_never_moves_where_agents_mix_unequally_often),
        cmocka_unit_test(consensus_sends_a_row_to_each_neighbour_in_each_mixing_round),
        cmocka_unit_test(every_agent_of_consensus_sends_as_its_degree_says),
        cmocka_unit_test(gossip_sends_two_rows_for_each_pair),
        cmocka_unit_test(adpsgd_sends_two_rows_for_each_averaging),
        cmocka_unit_test(what_happens_every_n_rounds_happens_in_the_nth),
        cmocka_unit_test(an_agent_that_learns_every_n_rounds_learns_in_the_nth),
        cmocka_unit_test(statistics_and_momentum_travel_only_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
