/* What an all-reduce costs: messages and floats of every member, and virtual seconds, against the formulas of
 * the literature, for 1 to 17 members, spans from nothing to a million floats, and networks fast and slow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "collective/collective.h"
#include "support/cast.h"

enum { MOST = 17, LONG = 1000003, N_LENGTHS = 6, N_CASES = N_COLLECTIVES * N_LENGTHS };

struct count {
    uint64_t messages, floats;
};

struct books {
    size_t lengths[N_LENGTHS];
    struct count sent[N_CASES][MOST];
    double seconds[N_CASES]; /* of the last to be done */
};

/* ---- playing ---- */

/* Everybody wakes at this moment, in the order of ranks. All these times are exact in binary. */
static fault wake_together(struct agent *a, double at_s)
{
    double early = at_s - 1 + (double)a->index / 1024;
    TRY(link_sleep(a->link, early - link_now_s(a->link)));
    return link_sleep(a->link, at_s - early);
}

static double start_of(int algorithm, size_t length)
{
    return 1024 * (double)((size_t)algorithm * N_LENGTHS + length + 1);
}

static fault sum_in_every_way(struct agent *a)
{
    struct books *b = cast_of_agent(a)->ctx;
    for (size_t i = 0; i < N_CASES; i++) {
        double began = start_of((int)(i / N_LENGTHS), i % N_LENGTHS);
        TRY(wake_together(a, began));
        struct link_counts before = a->link->counts;
        size_t length = b->lengths[i % N_LENGTHS];
        TRY(group_sum(agent_group(a), collective_rows[i / N_LENGTHS], ROW_PARAMS, 1, 1 + length));
        b->sent[i][a->index] = (struct count){a->link->counts.messages - before.messages,
                                              (a->link->counts.bytes - before.bytes) / sizeof(float)};
        b->seconds[i] = fmax(b->seconds[i], link_now_s(a->link) - began);
    }
    return OK;
}

static struct books play(size_t m, double latency_ms, double bandwidth_mbps)
{
    struct cast g;
    struct books b = {.lengths = {0, 1, m - 1, m, m + 1, LONG}};
    char *text = text_of(
        "data: {set: {kind: blobs, classes: 2, features: 16, samples: 20, test_samples: 2}, batch: 1}\n"
        "model: [{linear: {out: 1000}}, {linear: {out: 984}}, {linear: {out: 2}}]\n"
        "optim: {kind: sgd, lr: 0.1}\nengine: null\nstrategy: single\nagents: %zu\n"
        "network: {latency_ms: %g, bandwidth_mbps: %g}\n",
        m, latency_ms, bandwidth_mbps);
    cast_form(&g, text, 1, 1, sum_in_every_way);
    assert_true(g.size > LONG);
    g.ctx = &b;
    cast_play(&g);
    struct link_counts sum = cast_counts(&g);
    assert_int_equal(sum.messages, sum.received);
    assert_int_equal(g.world->n_free_rows[ROW_PARAMS], g.run->engine->setup.n_spare - 1);
    assert_int_equal(g.n_notes, 0);
    cast_close(&g);
    free(text);
    return b;
}

/* ---- formulas: what the member of this rank sends ---- */

static size_t log2_of(size_t n) /* rounded down */
{
    return n > 1 ? 1 + log2_of(n / 2) : 0;
}

/* Ranks [head, head + n): the head hands over the upper half, the longer one, and goes on with the rest. */
static size_t children(size_t rank, size_t head, size_t n)
{
    size_t kept = n / 2;
    if (n == 1)
        return 0;
    return rank >= head + kept ? children(rank, head + kept, n - kept)
                               : (rank == head) + children(rank, head, kept);
}

static size_t share(size_t i, size_t n, size_t m)
{
    return n / m + (i % m < n % m);
}

/* What is left of n floats after halving them along the bits of an index; adds what there was before each
 * time. */
static size_t halve(size_t index, size_t levels, size_t n, uint64_t *sum)
{
    for (size_t l = levels; l-- > 0;) {
        *sum += n;
        n = index >> l & 1 ? n / 2 : n - n / 2;
    }
    return n;
}

/* Pairs of ranks at the beginning fold: the even one gives its floats to the odd one, which gives back the
 * result. */
static struct count folded(size_t rank, size_t m, size_t n)
{
    size_t levels = log2_of(m), extra = m - ((size_t)1 << levels), paired = rank < 2 * extra;
    size_t messages = paired && rank % 2 == 0 ? 1 : levels + paired;
    return (struct count){messages, messages * n};
}

static struct count halved(size_t rank, size_t m, size_t n)
{
    struct count c = {2 * log2_of(m), 0};
    halve(rank, log2_of(m), n, &c.floats);
    return c;
}

/* The numbers of shares, from `first` on, that a member of a circle gives away; two messages where they go
 * round the end. */
static void give_shares(struct count *c, size_t first, size_t many, size_t m, size_t n)
{
    bool goes_round = false;
    for (size_t i = 0; i < many; i++) {
        c->floats += share(first + i, n, m);
        goes_round |= i > 0 && (first + i) % m == 0;
    }
    c->messages += 1 + goes_round;
}

static struct count in_a_circle(size_t rank, size_t m, size_t n)
{
    struct count c = {0, 0};
    for (size_t has = m; has > 1; has -= has / 2) {
        give_shares(&c, rank + has - has / 2, has / 2, m, n);
        give_shares(&c, rank, has / 2, m, n);
    }
    return c;
}

/* Of a block: halving and doubling; shares and as many words for the larger one; a share for the smaller one,
 * and a question where that is smaller by more than a half. */
static struct count in_blocks(size_t rank, size_t m, size_t n)
{
    size_t levels = log2_of(m), larger = 0;
    while (rank >= (size_t)1 << levels) {
        rank -= (size_t)1 << levels;
        m -= (size_t)1 << levels;
        larger = levels;
        levels = log2_of(m);
    }
    struct count c = {2 * levels, 0};
    size_t left = halve(rank, levels, n, &c.floats), smaller = m - ((size_t)1 << levels);
    if (larger) {
        c.messages += 2 * ((size_t)1 << (larger - levels));
        c.floats += left;
    }
    if (smaller) {
        c.messages += log2_of(smaller) + 1 < levels ? 2 : 1;
        c.floats += left;
    }
    return c;
}

/* Pieces of 64 KiB or more, eight or less. */
static size_t pieces(size_t n)
{
    size_t k = 1;
    while (k < 8 && 4 * n / (k + 1) >= 65536)
        k++;
    return k;
}

static struct count formula(int algorithm, size_t rank, size_t m, size_t n)
{
    size_t links = 0;
    if (m == 1 || n == 0)
        return (struct count){0, 0};
    switch (algorithm) {
    case ALL_TO_ALL:
        return (struct count){m - 1, (m - 1) * n};
    case STAR:
        links = rank ? 1 : m - 1;
        break;
    case TREE:
        links = children(rank, 0, m) + (rank > 0);
        break;
    case RING:
        return (struct count){2 * (m - 1), 2 * n - share(rank + 1, n, m) - share(rank + 2, n, m)};
    case BUTTERFLY:
        return folded(rank, m, n);
    case HALVING_DOUBLING:
        return (m & (m - 1)) ? in_a_circle(rank, m, n) : halved(rank, m, n);
    case BINARY_BLOCKS:
        return in_blocks(rank, m, n);
    }
    return (struct count){links * pieces(n), links * n};
}

/* ---- judging ---- */

static void judge_counts(const struct books *b, size_t m, int algorithm, size_t length)
{
    const struct count *sent = b->sent[(size_t)algorithm * N_LENGTHS + length];
    size_t n = b->lengths[length];
    struct count most = {0, 0};
    for (size_t rank = 0; rank < m; rank++) {
        struct count want = formula(algorithm, rank, m, n);
        if (sent[rank].messages != want.messages || sent[rank].floats != want.floats)
            fail_msg(
                "%s, %zu floats: rank %zu of %zu sent %llu messages, %llu floats; %llu, %llu by the formula",
                collective_names[algorithm], n, rank, m, (unsigned long long)sent[rank].messages,
                (unsigned long long)sent[rank].floats, (unsigned long long)want.messages,
                (unsigned long long)want.floats);
        most.messages = sent[rank].messages > most.messages ? sent[rank].messages : most.messages;
        most.floats = sent[rank].floats > most.floats ? sent[rank].floats : most.floats;
    }
    struct cost c = collective_cost(collective_rows[algorithm], m, n);
    assert_true(c.messages == (double)most.messages && c.floats == (double)most.floats);
}

static void judge_time(const struct books *b, size_t m, int algorithm, size_t length, double alpha_s,
                       double beta_s)
{
    size_t n = b->lengths[length];
    double took = b->seconds[(size_t)algorithm * N_LENGTHS + length];
    double want = cost_seconds(collective_cost(collective_rows[algorithm], m, n), alpha_s, beta_s);
    if (fabs(took - want) > 0.01 * want)
        fail_msg("%s, %zu members, %zu floats: %g s, but %g s by the formula", collective_names[algorithm], m,
                 n, took, want);
}

static void every_member_sends_what_the_formulas_say_in_the_time_they_say(double latency_ms)
{
    double mbps = 1000, beta_s = 32 / (mbps * 1e6);
    for (size_t m = 1; m <= MOST; m++) {
        struct books b = play(m, latency_ms, mbps);
        for (int a = 0; a < N_COLLECTIVES; a++)
            for (size_t l = 0; l < N_LENGTHS; l++) {
                judge_counts(&b, m, a, l);
                judge_time(&b, m, a, l, latency_ms / 1000, beta_s);
            }
    }
}

static void costs_are_those_of_the_literature_where_latency_is_small(void **state)
{
    (void)state;
    every_member_sends_what_the_formulas_say_in_the_time_they_say(0.05);
}

static void costs_are_those_of_the_literature_where_latency_is_moderate(void **state)
{
    (void)state;
    every_member_sends_what_the_formulas_say_in_the_time_they_say(3);
}

static void costs_are_those_of_the_literature_where_latency_is_as_long_as_the_span(void **state)
{
    (void)state;
    every_member_sends_what_the_formulas_say_in_the_time_they_say(32);
}

static void costs_are_those_of_the_literature_where_latency_is_large(void **state)
{
    (void)state;
    every_member_sends_what_the_formulas_say_in_the_time_they_say(300);
}

static double seconds_of(int algorithm, size_t m, double alpha_s, double beta_s, size_t n)
{
    return cost_seconds(collective_cost(collective_rows[algorithm], m, n), alpha_s, beta_s);
}

static void must_be_near(double a, double b)
{
    if (fabs(a - b) > 1e-3 * b)
        fail_msg("%g and not %g", a, b);
}

/* As papers write them, for spans that can be divided. */
static void formulas_are_those_of_the_literature(void **state)
{
    (void)state;
    size_t n = 16000; /* one piece */
    for (double a = 1e-3; a < 2000; a *= 7)
        for (size_t m = 2; m <= MOST; m++) {
            double down = (double)log2_of(m), up = (double)log2_of(2 * m - 1), all = (double)m, s = (double)n;
            double optimal = 2 * (1 - 1 / all) * s;
            must_be_near(seconds_of(ALL_TO_ALL, m, a * s, 1, n), (all - 1) * (a * s + s));
            must_be_near(seconds_of(STAR, m, a * s, 1, n), 2 * a * s + 2 * (all - 1) * s);
            must_be_near(seconds_of(TREE, m, a * s, 1, n), 2 * up * (a * s + s));
            must_be_near(seconds_of(RING, m, a * s, 1, n), 2 * (all - 1) * a * s + optimal);
            must_be_near(seconds_of(HALVING_DOUBLING, m, a * s, 1, n), 2 * up * a * s + optimal);
            if (down == up) {
                must_be_near(seconds_of(BUTTERFLY, m, a * s, 1, n), down * (a * s + s));
                must_be_near(seconds_of(BINARY_BLOCKS, m, a * s, 1, n), 2 * down * a * s + optimal);
            }
            if (2 * m == 3 * ((size_t)1 << log2_of(m))) /* two neighbouring blocks */
                must_be_near(seconds_of(BINARY_BLOCKS, m, a * s, 1, n),
                             2 * down * a * s + (2 + 1.5 / all) * s);
        }
}

/* As docs/collectives.md says: 2 L for powers of two; shares round the end of the row are a message more. */
static void halving_and_doubling_sends_at_most_three_messages_a_step_there_and_back_less_one(void **state)
{
    (void)state;
    for (size_t m = 2; m <= 300; m++) {
        size_t up = log2_of(2 * m - 1), most = m & (m - 1) ? 3 * up - 1 : 2 * up;
        double messages = collective_cost(collective_rows[HALVING_DOUBLING], m, 1000 * m).messages;
        assert_true(messages >= (double)(2 * up) && messages <= (double)most);
    }
}

static void
on_a_network_that_is_not_known_short_spans_have_few_steps_and_long_ones_little_to_send(void **state)
{
    (void)state;
    for (size_t m = 2; m < 40; m += 5) {
        assert_ptr_equal(collective_fastest(m, 1000, 0, 0), collective_rows[BUTTERFLY]);
        assert_ptr_equal(collective_fastest(m, 100000, 0, 0), collective_rows[HALVING_DOUBLING]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            on_a_network_that_is_not_known_short_spans_have_few_steps_and_long_ones_little_to_send),
        cmocka_unit_test(formulas_are_those_of_the_literature),
        cmocka_unit_test(halving_and_doubling_sends_at_most_three_messages_a_step_there_and_back_less_one),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_small),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_moderate),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_as_long_as_the_span),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
