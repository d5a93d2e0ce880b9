/* Messages: a row arrives as it was when it was sent, mail keeps its order, and every wait ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"

#define STAR(network) TINY("consensus") "agents: 5\ntopology: star:5\n" network

static void must_have_all_spare_rows_back(const struct cast *g)
{
    for (enum row row = 0; row < g->run->engine->setup.rows.n; row++)
        assert_int_equal(g->world->n_free_rows[row], g->run->engine->setup.n_spare - 1);
}

/* ---- rows ---- */

/* My parameters become what the first parcel holds. */
static fault take_over(struct agent *a)
{
    a->shares[0] = 1;
    return agent_mix(a, ROWS_PARAMS, 0, 1);
}

/* Agent 0 sends its row to agent i after i steps; how many steps it takes in all is the group's to say. */
static fault send_while_learning(struct agent *a)
{
    const int *steps = cast_of_agent(a)->ctx;
    if (a->index == 0) {
        for (int i = 1; i <= steps[0]; i++) {
            TRY(agent_learn(a));
            TRY(agent_update(a));
            if (i < 5)
                TRY(link_send_rows(a->link, (size_t)i, 0, whole(ROWS_PARAMS)));
        }
        return OK;
    }
    if ((int)a->index > steps[0])
        return OK;
    TRY(link_sleep(a->link, steps[1] * 1e-3));
    TRY(link_recv_rows(a->link, 0, 0, &a->parcels[0], NULL));
    return take_over(a);
}

static void send_and_learn(struct cast *g, const char *text, int steps, int delay)
{
    int numbers[2] = {steps, delay};
    cast_open(g, text, 1);
    g->ctx = numbers;
    cast_run_instead(g, send_while_learning);
    cast_play(g);
    must_have_all_spare_rows_back(g);
}

static void a_row_arrives_as_it_was_when_it_was_sent(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int delay;
    } cases[] = {
        {STAR(""), 0},                                                /* at once                  */
        {STAR(""), 50},                                               /* held in the mail         */
        {STAR("network: {latency_ms: 40}\n"), 0},                     /* under way                */
        {STAR("network: {latency_ms: 3, bandwidth_mbps: 0.2}\n"), 30} /* some of each           */
    };
    float known[5][64] = {{0}};
    for (int i = 1; i < 5; i++) { /* what agent 0 is after i steps */
        struct cast g;
        send_and_learn(&g, cases[0].text, i, 0);
        memcpy(known[i], cast_row(&g, 0), g.size * sizeof(float));
        assert_true(i == 1 || memcmp(known[i], known[i - 1], g.size * sizeof(float)));
        cast_close(&g);
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cast g;
        send_and_learn(&g, cases[c].text, 8, cases[c].delay);
        for (int i = 1; i < 5; i++)
            assert_memory_equal(cast_row(&g, (size_t)i), known[i], g.size * sizeof(float));
        cast_close(&g);
    }
}

/* One row to many, and only then written: one copy serves them all. */
static fault send_to_all_then_write(struct agent *a)
{
    struct cast *g = cast_of_agent(a);
    if (a->index) {
        TRY(link_sleep(a->link, 5e-3));
        TRY(link_recv_rows(a->link, 0, 7, &a->parcels[0], NULL));
        return take_over(a);
    }
    for (size_t i = 1; i < 5; i++)
        TRY(link_send_rows(a->link, i, 7, whole(ROWS_PARAMS)));
    assert_int_equal(g->world->n_free_rows[ROW_PARAMS], g->run->engine->setup.n_spare - 1);
    TRY(agent_learn(a));
    TRY(agent_update(a));
    assert_int_equal(g->world->n_free_rows[ROW_PARAMS], g->run->engine->setup.n_spare - 2);
    return OK;
}

static void one_copy_serves_all_who_were_sent_the_same(void **state)
{
    (void)state;
    struct cast g;
    float sent[64];
    cast_open(&g, STAR(""), 1);
    memcpy(sent, cast_row(&g, 0), g.size * sizeof(float));
    cast_run_instead(&g, send_to_all_then_write);
    cast_play(&g);
    for (size_t i = 1; i < 5; i++)
        assert_memory_equal(cast_row(&g, i), sent, g.size * sizeof(float));
    assert_memory_not_equal(cast_row(&g, 0), sent, g.size * sizeof(float));
    must_have_all_spare_rows_back(&g);
    cast_close(&g);
}

/* Agent 0 sends far more versions of its row than anybody reads; agent 1 reads the last one. */
static fault send_more_than_is_read(struct agent *a)
{
    enum { MANY = 500 };
    if (a->index == 0)
        for (uint64_t i = 0; i < MANY; i++) {
            TRY(agent_learn(a));
            TRY(agent_update(a));
            TRY(link_send_rows(a->link, 1 + i % 4, i, whole(ROWS_PARAMS)));
        }
    if (a->index != 1)
        return OK;
    TRY(link_sleep(a->link, 2));
    TRY(link_recv_rows(a->link, 0, MANY - 4, &a->parcels[0], NULL));
    TRY(take_over(a));
    fault f = link_recv_rows(a->link, 0, 0, &a->parcels[0], NULL); /* the oldest are not there any more */
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    fault_drop(f);
    return OK;
}

static void what_nobody_reads_is_given_up_oldest_first(void **state)
{
    (void)state;
    static const char *const texts[] = {STAR(""), STAR("network: {latency_ms: 100, patience_s: 1}\n")};
    for (size_t i = 0; i < 2; i++) {
        struct cast g;
        cast_open(&g, texts[i], 1);
        cast_run_instead(&g, send_more_than_is_read);
        cast_play(&g);
        assert_true(cast_noted(&g, "0 given-up: rows from agent 0 to agent 1 are given up unread"));
        struct link_counts c = cast_counts(&g);
        assert_int_equal(c.messages, 500);
        assert_true(c.lost >= 500 - g.run->engine->setup.n_spare);
        assert_int_equal(local_counts(g.world, 1).received, 1);
        cast_close(&g);
    }
}

/* ---- bytes ---- */

static fault exchange_bytes(struct agent *a)
{
    int number, *seen = cast_of_agent(a)->ctx;
    size_t sender = 99;
    if (a->index) {
        TRY(link_sleep(a->link, 1e-3 * (double)(5 - a->index))); /* the last one sends first */
        for (int i = 0; i < 3; i++) {
            number = 10 * (int)a->index + i;
            TRY(link_send(a->link, 0, (uint64_t)i, &number, sizeof number));
        }
        return OK;
    }
    TRY(link_recv(a->link, 2, 1, &seen[0], sizeof(int), &sender)); /* one sender, the second tag first */
    assert_int_equal(sender, 2);
    TRY(link_recv(a->link, 2, 0, &seen[1], sizeof(int), NULL));
    for (int i = 0; i < 4; i++) { /* whoever came first under the tag */
        TRY(link_recv(a->link, ANYONE, 2, &seen[2 + i], sizeof(int), &sender));
        assert_int_equal(sender, seen[2 + i] / 10);
    }
    return OK;
}

static void bytes_are_received_by_sender_and_tag_in_their_order(void **state)
{
    (void)state;
    struct cast g;
    int seen[8] = {0};
    static const int expected[] = {21, 20, 42, 32, 22, 12};
    cast_open(&g, STAR(""), 1);
    g.ctx = seen;
    cast_run_instead(&g, exchange_bytes);
    cast_play(&g);
    assert_memory_equal(seen, expected, sizeof expected);
    struct link_counts c = cast_counts(&g);
    assert_int_equal(c.messages, 12);
    assert_int_equal(c.bytes, 12 * sizeof(int));
    cast_close(&g);
}

/* ---- waits ---- */

static fault wait_for_silence(struct agent *a)
{
    if (a->index)
        return OK;
    int number;
    double *waited = cast_of_agent(a)->ctx, since = link_now_s(a->link);
    fault f = link_recv(a->link, 1, 1, &number, sizeof number, NULL);
    *waited = link_now_s(a->link) - since;
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    must_fail(f, "agent 0 waited 0.25 s for agent 1 in vain");
    f = link_recv(a->link, ANYONE, 1, &number, sizeof number, NULL);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    must_fail(f, "agent 0 waited 0.25 s for anyone in vain");
    return OK;
}

static void a_wait_for_a_silent_peer_ends_with_patience(void **state)
{
    (void)state;
    struct cast g;
    double waited = 0;
    cast_open(&g, STAR("network: {patience_s: 0.25}\n"), 1);
    g.ctx = &waited;
    cast_run_instead(&g, wait_for_silence);
    cast_play(&g);
    assert_true(waited == 0.25);
    assert_true(local_counts(g.world, 0).waiting_s == 0.5);
    cast_close(&g);
}

static fault receive_late(struct agent *a)
{
    if (a->index == 1)
        return link_send_rows(a->link, 0, 1, whole(ROWS_PARAMS));
    if (a->index)
        return OK;
    fault f = link_recv_rows(a->link, 1, 1, &a->parcels[0], NULL);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    fault_drop(f);
    TRY(link_recv_rows(a->link, 1, 1, &a->parcels[0], NULL)); /* it is never too late */
    return take_over(a);
}

static void a_message_that_comes_after_patience_is_not_lost(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, STAR("network: {patience_s: 0.25, latency_ms: 400}\n"), 1);
    cast_run_instead(&g, receive_late);
    cast_play(&g);
    assert_true(local_now_s(g.world) == 0.4);
    must_have_all_spare_rows_back(&g);
    cast_close(&g);
}

/* An average over a wire too thin for one's patience is a wait like any other. */
static fault average_in_vain(struct agent *a)
{
    if (a->index)
        return OK;
    fault f = link_average(a->link, 1, ROWS_PARAMS);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    must_fail(f, "agent 0 waited 0.25 s for agent 1 in vain");
    assert_true(link_now_s(a->link) == 0.25);
    f = link_adopt(a->link, 1, NULL);
    assert_int_equal(fault_kind_of(f), FAULT_TIMEOUT);
    fault_drop(f);
    assert_true(link_now_s(a->link) == 0.5);
    return OK;
}

static void an_average_ends_with_patience_too(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, STAR("network: {patience_s: 0.25, latency_ms: 400}\n"), 1);
    cast_scatter(&g, 1);
    float before[64];
    memcpy(before, cast_row(&g, 0), g.size * sizeof(float));
    cast_run_instead(&g, average_in_vain);
    cast_play(&g);
    assert_memory_equal(cast_row(&g, 0), before, g.size * sizeof(float));
    cast_close(&g);
}

/* ---- notes ---- */

static void think_big(void *ctx, double now_s, size_t agent, const char *kind, const char *text)
{
    struct cast *g = ctx;
    volatile char paper[1 << 20]; /* more than an agent's stack */
    for (size_t i = 0; i < sizeof paper; i += 512)
        paper[i] = 1;
    assert_true(now_s == 1e-3 && agent == 1);
    assert_string_equal(kind, "test");
    assert_string_equal(text, "here I am");
    g->n_notes += (size_t)paper[512];
}

static fault say_something(struct agent *a)
{
    char text[32];
    TRY(link_sleep(a->link, 1e-3));
    strcpy(text, "here I am");
    if (a->index == 1)
        link_note(a->link, "test", text);
    memset(text, 0, sizeof text);
    return OK;
}

static void notes_are_told_on_a_stack_of_the_callers_own(void **state)
{
    (void)state;
    struct cast g;
    cast_open(&g, STAR(""), 1);
    cast_run_instead(&g, say_something);
    g.world->watcher.note = think_big;
    cast_play(&g);
    assert_int_equal(g.n_notes, 1);
    cast_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_arrives_as_it_was_when_it_was_sent),
        cmocka_unit_test(one_copy_serves_all_who_were_sent_the_same),
        cmocka_unit_test(what_nobody_reads_is_given_up_oldest_first),
        cmocka_unit_test(bytes_are_received_by_sender_and_tag_in_their_order),
        cmocka_unit_test(a_wait_for_a_silent_peer_ends_with_patience),
        cmocka_unit_test(a_message_that_comes_after_patience_is_not_lost),
        cmocka_unit_test(an_average_ends_with_patience_too),
        cmocka_unit_test(notes_are_told_on_a_stack_of_the_callers_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
