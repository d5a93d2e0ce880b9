/* What ranks send each other in pieces, on a network that is slower, and who is told of it; the rest is tests/link. */
#include <unistd.h>

#include "base/clock.h"
#include "mpi/crew.h"

/* ---- rows ---- */

static fault double_parameters(struct agent *a)
{
    struct term twice = {2, ROW_PARAMS, NULL, 0};
    return link_mix(a->link, ROW_PARAMS, 0, TO_END, &twice, 1);
}

/* Each round everybody's parameters are sent, and doubled at once. */
static fault send_and_double(struct agent *a)
{
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    float theirs = (float)(before(a) + 1);
    for (uint64_t k = 0; k < 20; k++, theirs *= 2) {
        TRY(link_send_rows(a->link, after(a), k, whole(ROWS_PARAMS)));
        TRY(double_parameters(a));
        TRY(link_recv_rows(a->link, before(a), k, &p, NULL));
        CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, theirs));
        link_drop(a->link, &p);
    }
    return OK;
}

/* Spans [first, end): within a slot and beyond it, of one float and of none, to the end. */
static fault send_spans(struct agent *a)
{
    size_t slot = INLINE_BYTES / sizeof(float), size = crew_of(a)->size;
    const size_t spans[][2] = {{0, 1},        {3, 10},   {5, 5 + slot},   {5, 6 + slot},
                               {1, size - 1}, {0, size}, {size - 1, size}};
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        TRY(link_send_rows(a->link, after(a), i, (struct span){ROWS_PARAMS, spans[i][0], spans[i][1]}));
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        TRY(link_recv_rows(a->link, before(a), i, &p, NULL));
        CHECK(crew_parcel_is(a, &p, ROW_PARAMS, spans[i][0], spans[i][1], (float)(before(a) + 1)));
        CHECK(!crew_parcel_is(a, &p, ROW_STATS, 0, 1, 0)); /* no such row is in it */
        if (spans[i][0])
            CHECK(!crew_parcel_is(a, &p, ROW_PARAMS, spans[i][0] - 1, spans[i][1], (float)(before(a) + 1)));
        link_drop(a->link, &p);
    }
    return OK;
}

static fault send_in_pieces(struct agent *a)
{
    struct far *w = far_of(a->link);
    w->piece_bytes = 8192 - 4;
    for (size_t i = 0; i < w->n; i++)
        w->peers[i].sees_my_rows = false; /* else they would stay where they are */
    TRY(crew_barrier(a, 1ull << 40));     /* what comes before is cut as usual */
    TRY(send_spans(a));
    return send_and_double(a);
}

static void rows_too_long_for_one_message_go_in_pieces(void **state)
{
    (void)state;
    crew_run(send_in_pieces, "");
}

/* ---- bytes ---- */

/* The i-th byte of the k-th message of a rank. */
static unsigned char byte_of(size_t rank, size_t k, size_t i)
{
    return (unsigned char)(31 * rank + 7 * k + i + i / 251);
}

enum { MOST_BYTES = 100001 };
static const size_t lengths[] = {0,     1,          3, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1,
                                 20000, MOST_BYTES, 2};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static fault send_lengths(struct agent *a, unsigned char *bytes, int times, uint64_t tag)
{
    for (size_t k = 0; k < (size_t)times * N_LENGTHS; k++) {
        size_t n = lengths[k % N_LENGTHS];
        for (size_t i = 0; i < n; i++)
            bytes[i] = byte_of(a->index, k, i);
        TRY(link_send(a->link, after(a), tag, bytes, n));
        memset(bytes, 0, n);
    }
    return OK;
}

static fault receive_lengths(struct agent *a, unsigned char *bytes, int times, uint64_t tag)
{
    for (size_t k = 0; k < (size_t)times * N_LENGTHS; k++) {
        size_t n = lengths[k % N_LENGTHS], wrong = 0, who = ANYONE;
        TRY(link_recv(a->link, before(a), tag, bytes, n, &who));
        for (size_t i = 0; i < n; i++)
            wrong += bytes[i] != byte_of(before(a), k, i);
        CHECK(wrong == 0 && who == before(a));
    }
    return OK;
}

/* All under one tag, so that each must be the one whose turn it is. */
static fault exchange_lengths(struct agent *a)
{
    unsigned char *bytes = malloc(MOST_BYTES);
    fault f = bytes ? send_lengths(a, bytes, 5, 9) : OUT_OF_MEMORY;
    if (!f)
        f = receive_lengths(a, bytes, 5, 9);
    free(bytes);
    return f;
}

static fault exchange_in_pieces(struct agent *a)
{
    far_of(a->link)->piece_bytes = 8192;
    TRY(crew_barrier(a, 1ull << 40));
    return exchange_lengths(a);
}

static void bytes_too_long_for_one_message_go_in_pieces(void **state)
{
    (void)state;
    crew_run(exchange_in_pieces, "");
}

/* ---- patience ---- */

/* The last rank waits for the first in vain; the others have to wait for it. */
static fault wait_in_vain(struct agent *a)
{
    char byte = 'x', host[64] = "", words[160];
    size_t last = a->link->n_members - 1;
    gethostname(host, sizeof host - 1);
    snprintf(words, sizeof words, "for agent 0 (rank 0 on %s) in vain", host);
    if (a->index == last) {
        double since = clock_now_s();
        CHECK_FAULT(link_recv(a->link, 0, 1, &byte, 1, NULL), FAULT_TIMEOUT, words);
        CHECK(clock_now_s() - since >= 3);
        for (size_t i = 0; i < last; i++)
            TRY(link_send(a->link, i, 2, &byte, 1));
        return OK;
    }
    fault f = FAIL(FAULT_TIMEOUT, "not yet");
    for (int i = 0; i < 20 && f && fault_kind_of(f) == FAULT_TIMEOUT; i++) {
        fault_drop(f);
        f = link_recv(a->link, last, 2, &byte, 1, NULL);
    }
    return f;
}

static void a_wait_ends_after_patience_and_names_the_member_and_its_host(void **state)
{
    (void)state;
    crew_run(wait_in_vain, "network: {patience_s: 3}\n");
}

/* ---- a slower network than the real one ---- */

/* 30 ms and 8 Mbit/s: ten thousand bytes take 10 ms on the wire, one message after the other. */
static fault measure(struct agent *a)
{
    enum { BYTES = 10000, TIMES = 4 };
    union {
        double sent_s;
        char bytes[BYTES];
    } m = {0};
    for (uint64_t k = 0; k < 3; k++) {
        for (int i = 0; i < TIMES; i++) {
            m.sent_s = clock_now_s();
            TRY(link_send(a->link, after(a), k, &m, sizeof m));
        }
        double first = 0;
        for (int i = 0; i < TIMES; i++) {
            TRY(link_recv(a->link, before(a), k, &m, sizeof m, NULL));
            double now = clock_now_s();
            first = i ? first : m.sent_s;
            CHECK(now - first >= 0.030 + 0.010 * (i + 1));
        }
    }
    return OK;
}

static void a_slow_network_delays_messages_by_its_latency_and_bandwidth(void **state)
{
    (void)state;
    crew_run(measure, "network: {latency_ms: 30, bandwidth_mbps: 8, patience_s: 20}\n");
}

/* ---- counters ---- */

static fault send_some(struct agent *a)
{
    char bytes[100] = "";
    struct parcel p;
    TRY(link_send(a->link, after(a), 1, bytes, 100));
    TRY(link_send_rows(a->link, after(a), 1, (struct span){ROWS_PARAMS | ROWS_GRADS, 10, 20}));
    TRY(link_send_rows(a->link, after(a), 2, whole(ROWS_PARAMS)));
    TRY(link_recv(a->link, before(a), 1, bytes, 100, NULL));
    TRY(link_recv_rows(a->link, before(a), 1, &p, NULL));
    link_drop(a->link, &p);
    TRY(link_sleep(a->link, 0));
    while (!link_has_mail(a->link, 2))
        TRY(link_sleep(a->link, 0.001));
    link_forget(a->link, 3);
    return OK;
}

static void messages_bytes_and_what_became_of_them_are_counted(void **state)
{
    struct crew c;
    struct link_counts counts[64] = {{0}};
    (void)state;
    crew_open(&c, send_some, "");
    size_t size = c.size, n = crew_leads() ? c.n : 0;
    fault f = crew_play(&c);
    for (size_t i = 0; i < n; i++)
        counts[i] = c.run->world->ops->counts(c.run->world, i);
    crew_close(&c);
    must(f);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(counts[i].messages, 3);
        assert_int_equal(counts[i].bytes, 100 + 2 * 10 * 4 + size * 4);
        assert_int_equal(counts[i].received, 2);
        assert_int_equal(counts[i].unread, 1);
        assert_int_equal(counts[i].lost, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_too_long_for_one_message_go_in_pieces),
        cmocka_unit_test(bytes_too_long_for_one_message_go_in_pieces),
        cmocka_unit_test(a_wait_ends_after_patience_and_names_the_member_and_its_host),
        cmocka_unit_test(a_slow_network_delays_messages_by_its_latency_and_bandwidth),
        cmocka_unit_test(messages_bytes_and_what_became_of_them_are_counted),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
