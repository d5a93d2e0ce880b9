/* ADMM: residuals fall, the solution is the optimum of one machine with all the data, prices cancel, nobody
 * is later than allowed, and those that are lost are done without. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"
#include "support/trouble.h"

enum { FEATURES = 4, CLASSES = 3, SIZE = CLASSES * (FEATURES + 1), MOST = 64 };
#define DECAY "0.05"

/* A convex problem: logistic regression with weight decay, every lesson on all samples of a share. */
#define CONVEX                                                                                               \
    "data: {set: {kind: blobs, classes: 3, features: 4, samples: 60, test_samples: 6}, batch: 20, "          \
    "split: {kind: by-label, classes: 1}}\nmodel: logistic\n"                                                \
    "optim: {kind: sgd, lr: 0.3, weight_decay: " DECAY "}\nengine: {kind: ref, threads: 1}\nagents: 3\n"
enum { AGENTS = 3 }; /* each has seen a single class, and would never learn of the others */

static void open_convex(struct cast *g, const char *strategy, const char *more, int rounds)
{
    char *text = text_of(CONVEX "strategy: %s\n%s", strategy, more);
    cast_open(g, text, rounds);
    free(text);
    assert_int_equal(g->size, SIZE);
    for (size_t i = 0; i < AGENTS; i++)
        assert_int_equal(g->run->agents[i].feed.n_share, 20);
}

static void read_row(struct cast *g, enum row row, size_t member, double *x)
{
    float floats[MOST];
    must(local_settle(g->world));
    must(g->run->engine->ops->read(g->run->engine, row, member, floats));
    for (size_t j = 0; j < g->size; j++)
        x[j] = floats[j];
}

static double distance(const double *x, const double *y)
{
    double most = 0;
    for (size_t j = 0; j < SIZE; j++)
        most = fmax(most, fabs(x[j] - y[j]));
    return most;
}

/* ---- the optimum, by one machine in double ---- */

/* Adds share * the gradient of one sample's loss at theta = [weights by class][biases]. */
static void add_gradient(const struct samples *s, uint32_t sample, const double *theta, double share,
                         double *grad)
{
    double x[FEATURES], out[CLASSES], sum = 0;
    for (size_t f = 0; f < FEATURES; f++)
        x[f] = (s->pixels[sample * FEATURES + f] / 255.0 - s->mean[f]) / s->deviation[f];
    for (size_t c = 0; c < CLASSES; c++) {
        out[c] = theta[CLASSES * FEATURES + c];
        for (size_t f = 0; f < FEATURES; f++)
            out[c] += theta[c * FEATURES + f] * x[f];
        sum += exp(out[c]);
    }
    for (size_t c = 0; c < CLASSES; c++) {
        double error = share * (exp(out[c]) / sum - (s->labels[sample] == c));
        grad[CLASSES * FEATURES + c] += error;
        for (size_t f = 0; f < FEATURES; f++)
            grad[c * FEATURES + f] += error * x[f];
    }
}

/* Of the mean over the first n agents of the mean over their samples. */
static void find_optimum(const struct cast *g, size_t n, double *theta)
{
    const struct split *split = &g->run->split;
    memset(theta, 0, SIZE * sizeof *theta);
    for (int k = 0; k < 20000; k++) {
        double grad[SIZE];
        for (size_t j = 0; j < SIZE; j++)
            grad[j] = atof(DECAY) * theta[j];
        for (size_t i = 0; i < n; i++)
            for (size_t s = split->first[i]; s < split->first[i + 1]; s++)
                add_gradient(&g->run->dataset->train, split->samples[s], theta,
                             1.0 / (double)n / (double)(split->first[i + 1] - split->first[i]), grad);
        for (size_t j = 0; j < SIZE; j++)
            theta[j] -= 0.3 * grad[j];
    }
}

/* ---- convergence ---- */

struct residuals {
    uint64_t steps; /* in an update of x */
    double rho, primal, dual, first_primal;
    double z[SIZE];
    uint64_t seen;
};

/* Right after every z: how far the x are from it, and how far it moved. */
static fault measure(void *ctx)
{
    struct cast *g = ctx;
    struct residuals *r = g->ctx;
    uint64_t k = g->run->agents[0].k;
    double x[SIZE], z[SIZE];
    if (k % r->steps || k == r->seen)
        return OK;
    r->seen = k;
    r->primal = 0;
    read_row(g, ROW_PARAMS, g->n, z);
    for (size_t i = 0; i < g->n; i++) {
        read_row(g, ROW_PARAMS, i, x);
        r->primal = fmax(r->primal, distance(x, z));
    }
    if (k == r->steps)
        r->first_primal = r->primal;
    r->dual = r->rho * distance(z, r->z);
    memcpy(r->z, z, sizeof z);
    return OK;
}

static void must_be_optimal(struct cast *g, size_t n)
{
    double optimum[SIZE], z[SIZE];
    find_optimum(g, n, optimum);
    read_row(g, ROW_PARAMS, AGENTS, z);
    if (distance(z, optimum) >= 1e-5)
        fail_msg("%g away from the optimum", distance(z, optimum));
}

static void residuals_fall_and_the_solution_is_the_optimum(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        double rho;
    } cases[] = {{"{kind: admm, mode: sync, rho: 0.1, steps: 10}", 0.1},
                 {"{kind: admm, mode: sync, rho: 0.3, steps: 5}", 0.3},
                 {"{kind: admm, mode: async, rho: 0.3, steps: 5, barrier: 3}", 0.3},
                 {"{kind: admm, mode: sync, rho: 1, steps: 10}", 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cast g;
        struct residuals r = {.steps = c == 1 || c == 2 ? 5 : 10, .rho = cases[c].rho};
        open_convex(&g, cases[c].strategy, "", 4000);
        g.ctx = &r;
        g.world->watcher.moment = measure;
        cast_play(&g);
        assert_true(r.first_primal > 0.05);
        if (r.primal > 1e-6 || r.dual > 1e-6)
            fail_msg("%s: residuals %g and %g", cases[c].strategy, r.primal, r.dual);
        must_be_optimal(&g, AGENTS);
        cast_close(&g);
    }
}

static void what_comes_late_leads_to_the_same_optimum(void **state)
{
    (void)state;
    static const char *const strategies[] = {
        "{kind: admm, mode: async, rho: 0.3, steps: 5, barrier: 1, delay: 3}",
        "{kind: admm, mode: async, rho: 0.3, steps: 5, barrier: 2, delay: 6}"};
    for (size_t s = 0; s < 2; s++) {
        struct cast g;
        open_convex(&g, strategies[s],
                    "machines: {speed: [1, 0.7, 0.2]}\nnetwork: {latency_ms: 3, bandwidth_mbps: 1}\n", 4000);
        cast_play(&g);
        must_be_optimal(&g, AGENTS);
        assert_int_equal(g.n_notes, 0);
        cast_close(&g);
    }
}

static void the_living_find_their_own_optimum(void **state)
{
    (void)state;
    static const char *const modes[] = {"sync", "async"};
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *strategy = text_of("{kind: admm, mode: %s, rho: 0.3, steps: 5}", modes[m]);
        open_convex(&g, strategy, "events: [{at_s: 0.7, crash: 2}]\n", 4000);
        free(strategy);
        cast_play(&g);
        must_be_optimal(&g, 2);
        assert_true(cast_noted(&g, "the centre goes on without agent 2"));
        cast_close(&g);
    }
}

/* ---- laws ---- */

static void one_agent_with_one_step_equals_single_bit_for_bit(void **state)
{
    (void)state;
    static const char *const strategies[] = {"{kind: admm, mode: sync, steps: 1, rho: 0.7}",
                                             "{kind: admm, mode: async, steps: 1, rho: 0.7}"};
    static const char head[] =
        "data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
        "model: [{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, {linear: {out: 3}}]\n"
        "optim: {kind: sgd, lr: 0.05, momentum: 0.9}\nengine: {kind: ref, threads: 1}\n";
    for (size_t s = 0; s < 2; s++) {
        struct cast single, other;
        char *text = text_of("%sstrategy: %s\n", head, strategies[s]);
        cast_open(&single, head, 30);
        cast_open(&other, text, 30);
        free(text);
        cast_play(&single);
        cast_play(&other);
        assert_memory_equal(cast_row(&single, 0), cast_row(&other, 0), single.size * sizeof(float));
        assert_true(local_now_s(single.world) == local_now_s(other.world));
        cast_close(&single);
        cast_close(&other);
    }
}

static void prices_cancel_and_all_end_at_z(void **state)
{
    (void)state;
    for (int rounds = 20; rounds < 26; rounds++) {
        struct cast g;
        double x[SIZE], y[SIZE], z[SIZE], sum[SIZE] = {0}, most = 0;
        open_convex(&g, "{kind: admm, steps: 3, rho: 0.5}", "", rounds);
        cast_play(&g);
        read_row(&g, ROW_PARAMS, AGENTS, z);
        for (size_t i = 0; i < AGENTS; i++) {
            read_row(&g, ROW_PARAMS, i, x);
            read_row(&g, ROW_KEPT, i, y);
            assert_memory_equal(x, z, sizeof z);
            for (size_t j = 0; j < SIZE; j++) {
                sum[j] += y[j];
                most = fmax(most, fabs(y[j]));
            }
        }
        assert_true(most > 0.01);
        for (size_t j = 0; j < SIZE; j++)
            assert_true(fabs(sum[j]) < 1e-6);
        cast_close(&g);
    }
}

/* One round of everybody and then a z, in plain loops over what the engine calls a gradient. */
static void rounds_follow_the_paper(void **state)
{
    (void)state;
    enum { STEPS = 3, ROUNDS = 12 };
    struct cast g, hand;
    double x[AGENTS][SIZE], y[AGENTS][SIZE] = {{0}}, z[SIZE], found[SIZE], rho = 0.4;
    open_convex(&g, "{kind: admm, steps: 3, rho: 0.4}", "", ROUNDS);
    open_convex(&hand, "{kind: admm, steps: 3, rho: 0.4}", "", ROUNDS);
    read_row(&hand, ROW_PARAMS, AGENTS, z);
    for (size_t i = 0; i < AGENTS; i++)
        memcpy(x[i], z, sizeof z);
    for (int k = 1; k <= ROUNDS; k++) {
        double mean[SIZE] = {0};
        for (size_t i = 0; i < AGENTS; i++) {
            const struct split *split = &hand.run->split;
            double grad[SIZE] = {0};
            for (size_t s = split->first[i]; s < split->first[i + 1]; s++)
                add_gradient(&hand.run->dataset->train, split->samples[s], x[i], 1.0 / 20, grad);
            for (size_t j = 0; j < SIZE; j++) {
                x[i][j] -= 0.3 * (grad[j] + atof(DECAY) * x[i][j] + y[i][j] + rho * (x[i][j] - z[j]));
                mean[j] += (x[i][j] + y[i][j] / rho) / AGENTS;
            }
        }
        if (k % STEPS)
            continue;
        memcpy(z, mean, sizeof z);
        for (size_t i = 0; i < AGENTS; i++)
            for (size_t j = 0; j < SIZE; j++)
                y[i][j] += rho * (x[i][j] - z[j]);
    }
    cast_play(&g);
    read_row(&g, ROW_PARAMS, AGENTS, found);
    assert_true(distance(found, z) < 1e-5);
    for (size_t i = 0; i < AGENTS; i++) {
        read_row(&g, ROW_KEPT, i, found);
        assert_true(distance(found, y[i]) < 1e-5);
    }
    cast_close(&g);
    cast_close(&hand);
}

static void a_meeting_is_a_call_a_row_and_a_row_back(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 5; steps++) {
        struct cast g;
        char *strategy = text_of("{kind: admm, steps: %d}", steps);
        open_convex(&g, strategy, "", 12);
        free(strategy);
        cast_play(&g);
        uint64_t meetings = AGENTS * (uint64_t)((12 + steps - 1) / steps), call = 16;
        struct link_counts c = cast_counts(&g);
        assert_int_equal(c.messages, 3 * meetings + AGENTS);
        assert_int_equal(c.bytes, meetings * (2 * SIZE * sizeof(float) + call) + AGENTS * call);
        cast_close(&g);
    }
}

static void statistics_travel_only_when_asked_for(void **state)
{
    (void)state;
    static const char *const strategies[] = {"{kind: admm, steps: 2", "{kind: easgd, mode: sync, every: 2"};
    for (size_t s = 0; s < 2; s++)
        for (size_t asked = 0; asked < 2; asked++) {
            struct cast g;
            float stats[AGENTS + 1][MOST];
            char *strategy = text_of("%s%s}", strategies[s], asked ? ", mix_statistics: true" : "");
            char *text = text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
                                 "model: [{linear: {out: 6}}, batchnorm, relu, {linear: {out: 3}}]\n"
                                 "optim: {kind: sgd, lr: 0.05}\nengine: {kind: ref, threads: 1}\n"
                                 "strategy: %s\nagents: 3\n",
                                 strategy);
            cast_open(&g, text, 8);
            free(text);
            free(strategy);
            cast_play(&g);
            size_t n = row_size(&g.run->engine->setup, ROW_STATS), meetings = s ? 3 : 4;
            assert_int_equal(cast_counts(&g).bytes,
                             AGENTS * (meetings * (2 * (g.size + asked * n) * sizeof(float) + 16) + 16));
            for (size_t i = 0; i <= AGENTS; i++)
                must(g.run->engine->ops->read(g.run->engine, ROW_STATS, i, stats[i]));
            for (size_t i = 0; !s && i < AGENTS; i++) /* with z come the same statistics for all */
                assert_true(asked == !memcmp(stats[i], stats[AGENTS], n * sizeof(float)));
            cast_close(&g);
        }
}

/* ---- delay ---- */

struct books { /* of the centre */
    uint64_t made, given[8], latest;
    uint64_t calls, fewest_calls; /* for a z, while nobody had come to its end */
};

static struct books *books_of(const struct link *l)
{
    return ((struct cast *)((const struct actor *)l)->world->watcher.ctx)->ctx;
}

static bool is_centre(const struct link *l)
{
    return l->self + 1 == l->n_members;
}

static fault kept_mix(struct link *l, enum row into, size_t first, size_t end, const struct term *terms,
                      size_t n)
{
    struct books *b = books_of(l);
    if (is_centre(l)) {
        bool all = true;
        for (size_t i = 0; i < l->self; i++)
            all = all && !link_has_ended(l, i);
        b->made++;
        b->fewest_calls = all && b->calls < b->fewest_calls ? b->calls : b->fewest_calls;
        b->calls = 0;
    }
    return local_link.mix(l, into, first, end, terms, n);
}

static fault kept_send(struct link *l, size_t to, uint64_t tag, struct span span)
{
    if (is_centre(l))
        books_of(l)->given[to] = books_of(l)->made;
    return local_link.send_rows(l, to, tag, span);
}

static fault kept_recv(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    struct books *b = books_of(l);
    fault f = local_link.recv_rows(l, from, tag, out, sender);
    if (!f && is_centre(l)) {
        uint64_t late = b->made - b->given[from];
        b->latest = late > b->latest ? late : b->latest;
        b->calls++;
    }
    return f;
}

static void nobody_is_later_than_allowed_and_enough_have_come(void **state)
{
    (void)state;
    uint64_t tight = 0;
    for (unsigned seed = 0; seed < 200; seed++) {
        struct cast g;
        struct books b = {.fewest_calls = UINT64_MAX};
        unsigned delay = 1 + seed % 5, barrier = 1 + seed / 5 % 4;
        char *text = text_of(TINY("{kind: admm, mode: async, steps: %u, barrier: %u, delay: %u}") //
                             "agents: 5\nmachines: {speed: {kind: lognormal, sigma: 1.5}, "
                             "stragglers: {kind: random, chance: 0.1, factor: 20}}\n%s",
                             1 + seed % 3, barrier, delay,
                             seed % 2 ? "network: {latency_ms: 1, bandwidth_mbps: 2}\n" : "");
        must(cast_try(&g, text, 30, seed));
        free(text);
        g.ctx = &b;
        g.ops.mix = kept_mix;
        g.ops.send_rows = kept_send;
        g.ops.recv_rows = kept_recv;
        g.run->stage.rounds = 30;
        cast_play(&g);
        assert_true(b.made > 10 && b.latest <= delay);
        assert_true(b.fewest_calls >= barrier && b.fewest_calls <= 5);
        tight += b.latest == delay;
        cast_close(&g);
    }
    assert_true(tight > 100);
}

/* ---- death and return ---- */

static void without_a_centre_everybody_learns_alone(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct cast g;
        char *strategy = text_of("{kind: admm, mode: %s, steps: 2}", m ? "async" : "sync");
        open_convex(&g, strategy, "events: [{at_s: 0.2, crash: 3}]\n", 60);
        free(strategy);
        cast_play(&g);
        for (size_t i = 0; i < AGENTS; i++) {
            char *words = text_of("agent %zu goes on without the centre in round", i);
            assert_true(cast_noted(&g, words));
            free(words);
            assert_int_equal(g.world->actors[i].life, LIFE_DONE);
        }
        assert_int_equal(g.world->actors[AGENTS].life, LIFE_DOWN);
        cast_close(&g);
    }
}

static void whoever_is_back_is_one_of_them_again(void **state)
{
    (void)state;
    static const char *const events[] = {
        "events: [{at_s: 0.7, crash: 2}, {at_s: 1.1, return: 2}]\n",
        "events: [{at_s: 0.7, crash: 3}, {at_s: 1.1, return: 3}]\n",
        "events: [{at_s: 0.7, partition: [[0, 1], [2, 3]]}, {at_s: 1.1, heal: all}]\n",
    };
    for (size_t e = 0; e < 3; e++)
        for (size_t m = 0; m < 2; m++) {
            struct cast g;
            char *strategy = text_of("{kind: admm, mode: %s, rho: 0.3, steps: 5}", m ? "async" : "sync");
            open_convex(&g, strategy, events[e], 4000);
            free(strategy);
            cast_play(&g);
            assert_true(cast_noted(&g, "goes on without"));
            for (size_t i = 0; i <= AGENTS; i++)
                assert_int_equal(g.world->actors[i].life, LIFE_DONE);
            if (m || e) /* in sync somebody who was down still has rounds to do when the others are done */
                must_be_optimal(&g, AGENTS);
            cast_close(&g);
        }
}

static const char *const troubled[] = {
    "{kind: admm, mode: sync, steps: 1}",
    "{kind: admm, mode: sync, steps: 3}",
    "{kind: admm, mode: async, steps: 1, barrier: 2, delay: 2}",
    "{kind: admm, mode: async, steps: 2, barrier: 1, delay: 4}",
    "{kind: admm, mode: async, steps: 3, barrier: 2}",
};

static void worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    struct trouble seen =
        play_worlds_of_trouble(troubled, sizeof troubled / sizeof *troubled, 1000, "goes on without", state);
    assert_true(seen.noted > 300 && seen.went_on > 250 && seen.all_down < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residuals_fall_and_the_solution_is_the_optimum),
        cmocka_unit_test(what_comes_late_leads_to_the_same_optimum),
        cmocka_unit_test(the_living_find_their_own_optimum),
        cmocka_unit_test(one_agent_with_one_step_equals_single_bit_for_bit),
        cmocka_unit_test(prices_cancel_and_all_end_at_z),
        cmocka_unit_test(rounds_follow_the_paper),
        cmocka_unit_test(a_meeting_is_a_call_a_row_and_a_row_back),
        cmocka_unit_test(statistics_travel_only_when_asked_for),
        cmocka_unit_test(nobody_is_later_than_allowed_and_enough_have_come),
        cmocka_unit_test(without_a_centre_everybody_learns_alone),
        cmocka_unit_test(whoever_is_back_is_one_of_them_again),
        cmocka_unit_test_teardown(worlds_of_trouble_come_to_an_orderly_end, show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
