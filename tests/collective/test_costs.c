/* What an all-reduce costs: messages and floats of every member, and virtual seconds, against the formulas of
 * the literature, for 1 to 17 members, spans from nothing to a million floats, and networks fast and slow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    TRY(a->link->ops->sleep(a->link, early - a->link->ops->now_s(a->link)));
    return a->link->ops->sleep(a->link, at_s - early);
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
        TRY(group_sum(agent_group(a), collectives[i / N_LENGTHS], ROW_PARAMS, 1, 1 + length));
        b->sent[i][a->index] = (struct count){a->link->counts.messages - before.messages,
                                              (a->link->counts.bytes - before.bytes) / sizeof(float)};
        b->seconds[i] = fmax(b->seconds[i], a->link->ops->now_s(a->link) - began);
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
static struct count folded(size_t rank, size_t m, size_t n, bool halving)
{
    size_t levels = log2_of(m), extra = m - ((size_t)1 << levels), paired = rank < 2 * extra;
    if (paired && rank % 2 == 0)
        return (struct count){1, n};
    size_t index = paired ? extra - 1 - rank / 2 : rank - extra;
    struct count c = {halving ? 2 * levels : levels, halving ? 0 : levels * n};
    if (halving)
        halve(index, levels, n, &c.floats);
    return (struct count){c.messages + paired, c.floats + paired * n};
}

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
    size_t left = halve(rank, levels, n, &c.floats);
    bool is_last = m == (size_t)1 << levels;
    c.messages += (larger ? (size_t)1 << (larger - levels) : 0) + !is_last;
    c.floats += (larger ? left : 0) + (is_last ? 0 : left);
    return c;
}

static struct count formula(int algorithm, size_t rank, size_t m, size_t n)
{
    if (m == 1 || n == 0)
        return (struct count){0, 0};
    size_t messages = 0;
    switch (algorithm) {
    case ALL_TO_ALL:
        messages = m - 1;
        break;
    case STAR:
        messages = rank ? 1 : m - 1;
        break;
    case TREE:
        messages = children(rank, 0, m) + (rank > 0);
        break;
    case RING:
        return (struct count){2 * (m - 1), 2 * n - share(rank + 1, n, m) - share(rank + 2, n, m)};
    case BUTTERFLY:
        return folded(rank, m, n, false);
    case HALVING_DOUBLING:
        return folded(rank, m, n, true);
    case BINARY_BLOCKS:
        return in_blocks(rank, m, n);
    }
    return (struct count){messages, messages * n};
}

/* ---- binary blocks have no formula for their time: their schedule on paper ---- */

struct paper {
    struct act {
        size_t peer, floats;
        bool sends;
    } acts[MOST][64];
    size_t n_acts[MOST], at[MOST];
    double out_s[MOST], in_s[MOST], done_s[MOST], now_s;
    size_t unread[MOST][MOST]; /* messages of these that are there, from and to */
    struct flight {
        double at_s;
        size_t from, to;
    } flights[1024];
    size_t n_flights;
};

static void note_act(struct paper *p, size_t who, size_t peer, size_t floats, bool sends)
{
    p->acts[who][p->n_acts[who]++] = (struct act){peer, floats, sends};
}

static void swap_on_paper(struct paper *p, size_t who, size_t peer, size_t sent)
{
    note_act(p, who, peer, sent, true);
    note_act(p, who, peer, 0, false);
}

/* Floats in part `index` of a long span that was halved so often. */
static size_t part(size_t index, size_t times)
{
    uint64_t ignored = 0;
    return halve(index, times, LONG, &ignored);
}

/* The block of 2^levels members from rank `first` on, and the smaller ones; the next larger begins at
 * `above`. */
static void write_block(struct paper *p, size_t first, size_t levels, size_t above, size_t levels_above,
                        size_t m)
{
    size_t size = (size_t)1 << levels, rest = m - first - size, many = (size_t)1 << (levels_above - levels);
    for (size_t i = 0; i < size; i++) {
        size_t who = first + i, below = rest ? first + size + (i >> (levels - log2_of(rest))) : 0;
        for (size_t l = levels; l-- > 0;)
            swap_on_paper(p, who, first + (i ^ (size_t)1 << l), part(i >> l ^ 1, levels - l));
        if (rest)
            note_act(p, who, below, 0, false);
        for (size_t j = i * many; first && j < (i + 1) * many; j++)
            note_act(p, who, above + j, part(j, levels_above), true);
        for (size_t j = i * many; first && j < (i + 1) * many; j++)
            note_act(p, who, above + j, 0, false);
        if (rest)
            note_act(p, who, below, part(i, levels), true);
        for (size_t l = 0; l < levels; l++)
            swap_on_paper(p, who, first + (i ^ (size_t)1 << l), part(i >> l, levels - l));
    }
    if (rest)
        write_block(p, first + size, log2_of(rest), first, levels, m);
}

/* Until it has to wait for something that is not there. */
static void act_on_paper(struct paper *p, size_t who, double alpha_s, double beta_s)
{
    for (; p->at[who] < p->n_acts[who]; p->at[who]++) {
        const struct act *a = &p->acts[who][p->at[who]];
        if (!a->sends) {
            if (!p->unread[a->peer][who])
                return;
            p->unread[a->peer][who]--;
            continue;
        }
        double start = fmax(p->now_s, fmax(p->out_s[who], p->in_s[a->peer]));
        p->out_s[who] = p->in_s[a->peer] = start + (double)a->floats * beta_s;
        p->flights[p->n_flights++] = (struct flight){p->in_s[a->peer] + alpha_s, who, a->peer};
    }
    p->done_s[who] = p->now_s;
}

/* It begins when the play does, for the same rounding: who comes first decides who waits. */
static double seconds_on_paper(size_t m, double began_s, double alpha_s, double beta_s)
{
    struct paper p = {.now_s = began_s};
    write_block(&p, 0, log2_of(m), 0, log2_of(m), m);
    for (size_t i = 0; i < m; i++)
        act_on_paper(&p, i, alpha_s, beta_s);
    for (size_t landed = 0; landed < p.n_flights; landed++) {
        size_t next = landed; /* the earliest, and of those the first to be sent */
        for (size_t i = landed; i < p.n_flights; i++)
            next = p.flights[i].at_s < p.flights[next].at_s ? i : next;
        struct flight f = p.flights[next];
        memmove(p.flights + landed + 1, p.flights + landed, (next - landed) * sizeof f);
        p.now_s = f.at_s;
        p.unread[f.from][f.to]++;
        act_on_paper(&p, f.to, alpha_s, beta_s);
    }
    double last = 0;
    for (size_t i = 0; i < m; i++)
        last = fmax(last, p.done_s[i]);
    return last - began_s;
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
    struct cost c = collective_cost(collectives[algorithm], m, n);
    assert_true(c.messages == (double)most.messages && c.floats == (double)most.floats);
}

static void judge_time(const struct books *b, size_t m, int algorithm, size_t length, double alpha_s,
                       double beta_s)
{
    size_t n = b->lengths[length];
    double took = b->seconds[(size_t)algorithm * N_LENGTHS + length];
    double want = cost_seconds(collective_cost(collectives[algorithm], m, n), alpha_s, beta_s);
    if (algorithm == BINARY_BLOCKS && n == LONG) {
        double least = want;
        want = m > 1 ? seconds_on_paper(m, start_of(BINARY_BLOCKS, length), alpha_s, beta_s) : 0;
        assert_true(want >= least * (1 - 1e-4));
    }
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
    every_member_sends_what_the_formulas_say_in_the_time_they_say(5);
}

static void costs_are_those_of_the_literature_where_latency_is_large(void **state)
{
    (void)state;
    every_member_sends_what_the_formulas_say_in_the_time_they_say(100);
}

static void names_are_those_of_the_algorithms(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_COLLECTIVES; i++)
        assert_string_equal(collectives[i]->name, collective_names[i]);
    assert_null(collective_names[N_COLLECTIVES]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_algorithms),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_small),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_moderate),
        cmocka_unit_test(costs_are_those_of_the_literature_where_latency_is_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
