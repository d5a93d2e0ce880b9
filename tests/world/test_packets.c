/* What members of a far world write to each other is read again, and what was damaged on the way is
 * refused or harmless. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "world/far/packet.h"

/* Five members, of whom this is the third, with rows of three kinds. */
static const struct packet_bounds bounds = {
    .n_members = 5,
    .self = 2,
    .floats = {[ROW_PARAMS] = 1000, [ROW_GRADS] = 1000, [ROW_STATS] = 10},
    .most_bytes = 1 << 20,
    .memory_bytes = 1 << 14};

static struct packet_bounds of_leader(void)
{
    struct packet_bounds b = bounds;
    b.self = 0;
    return b;
}

static size_t write_packet(const struct head *h, unsigned char packet[PACKET_BYTES])
{
    memset(packet, 0xab, PACKET_BYTES);
    packet_write_head(packet, h);
    return HEAD_BYTES + (h->n_bytes <= INLINE_BYTES && !h->offer ? h->n_bytes : 0);
}

static bool is_read(const struct packet_bounds *b, size_t from, const struct head *h, struct head *out)
{
    unsigned char packet[PACKET_BYTES];
    return packet_read_head(b, from, packet, write_packet(h, packet), out);
}

static void must_be_read(const struct packet_bounds *b, size_t from, struct head h)
{
    struct head out;
    assert_true(is_read(b, from, &h, &out));
    assert_memory_equal(&out, &h, sizeof h); /* it has no gaps */
}

static void must_be_refused(const struct packet_bounds *b, size_t from, struct head h)
{
    struct head out;
    assert_false(is_read(b, from, &h, &out));
}

/* ---- heads ---- */

static const struct head plain = {.kind = MSG_BYTES, .tag = 77, .n_bytes = 100};
static const struct head rows = {.kind = MSG_ROWS,
                                 .rows = ROWS_PARAMS | ROWS_STATS,
                                 .tag = 1ull << 63,
                                 .first = 3,
                                 .end = 20,
                                 .n_bytes = 4 * (17 + 7)};

static void a_head_is_read_as_it_was_written(void **state)
{
    struct packet_bounds leader = of_leader();
    (void)state;
    must_be_read(&bounds, 4, plain);
    must_be_read(&bounds, 4, rows);
    must_be_read(&bounds, 2, plain); /* from itself */
    must_be_read(&bounds, 0, (struct head){.kind = MSG_BYTES, .n_bytes = 1 << 20});
    must_be_read(&bounds, 1, (struct head){.kind = MSG_AVERAGE, .tag = 5}); /* sent away */
    must_be_read(&bounds, 0, (struct head){.kind = MSG_READ, .rows = ROWS_GRADS, .tag = 9});
    must_be_read(&bounds, 0, (struct head){.kind = MSG_ALIVE, .tag = UINT64_MAX});
    must_be_read(&leader, 3, (struct head){.kind = MSG_FAILED, .tag = FAULT_DATA, .n_bytes = 30});
}

static void what_a_head_cannot_say_is_refused(void **state)
{
    struct packet_bounds leader = of_leader();
    struct head h;
    (void)state;
    must_be_refused(&bounds, 5, plain); /* there is no such member */
    must_be_refused(&bounds, 0, (struct head){.kind = KINDS_OF_MESSAGE});
    must_be_refused(&bounds, 0, (struct head){.kind = MSG_BYTES, .n_bytes = (1 << 20) + 1});
    must_be_refused(&bounds, 0, (struct head){.kind = MSG_BYTES, .n_bytes = UINT64_MAX});
    must_be_refused(&bounds, 0, (struct head){.kind = MSG_BYTES, .rows = ROWS_PARAMS, .n_bytes = 4});
    must_be_refused(&bounds, 0, (struct head){.kind = MSG_GO, .n_bytes = 1});
    must_be_refused(&bounds, 1, (struct head){.kind = MSG_GO});   /* only the leader says so */
    must_be_refused(&bounds, 1, (struct head){.kind = MSG_STOP}); /* to the leader only */
    must_be_refused(&bounds, 1, (struct head){.kind = MSG_GONE, .tag = 5});
    must_be_refused(&bounds, 1, (struct head){.kind = MSG_ALIVE, .tag = 5});
    must_be_refused(&bounds, 1, (struct head){.kind = MSG_FETCHED});
    must_be_refused(&leader, 1, (struct head){.kind = MSG_FAILED, .tag = FAULT_KINDS, .n_bytes = 30});
    h = rows, h.n_bytes += 4;
    must_be_refused(&bounds, 0, h);
    h = rows, h.rows = 1u << N_ROWS;
    must_be_refused(&bounds, 0, h);
    h = (struct head){.kind = MSG_ADOPT, .rows = ROWS_PARAMS, .end = TO_END, .n_bytes = 4000};
    must_be_refused(&bounds, 0, h); /* not all that lasts */
    h = (struct head){.kind = MSG_AVERAGE, .rows = ROWS_PARAMS, .first = 1, .end = TO_END, .n_bytes = 3996};
    must_be_refused(&bounds, 0, h); /* not whole */
}

static void a_packet_of_another_length_than_its_head_says_is_refused(void **state)
{
    unsigned char packet[PACKET_BYTES];
    struct head out;
    (void)state;
    for (size_t n = 0; n <= PACKET_BYTES; n++) {
        write_packet(&plain, packet);
        assert_int_equal(packet_read_head(&bounds, 0, packet, n, &out), n == HEAD_BYTES + plain.n_bytes);
    }
}

/* ---- offers ---- */

static void rows_are_offered_only_where_they_can_lie(void **state)
{
    unsigned char bytes[8 * N_ROWS];
    struct head h = {.kind = MSG_ROWS,
                     .rows = ROWS_PARAMS | ROWS_STATS,
                     .end = TO_END,
                     .n_bytes = 4040,
                     .offer = 3},
                out;
    static const struct {
        uint64_t params, stats;
        bool fit;
    } cases[] = {{0, 4000, true},
                 {(1 << 14) - 4000, (1 << 14) - 40, true},
                 {(1 << 14) - 3996, 0, false},
                 {0, (1 << 14) - 36, false},
                 {2, 0, false},
                 {UINT64_MAX - 3, 0, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct places in = {{[ROW_PARAMS] = cases[i].params, [ROW_STATS] = cases[i].stats}}, places;
        unsigned char packet[PACKET_BYTES];
        assert_int_equal(packet_write_places(&bounds, &h, &in, bytes), 16);
        assert_int_equal(packet_read_places(&bounds, &h, bytes, &places), cases[i].fit);
        assert_true(places.at[ROW_PARAMS] == cases[i].params && places.at[ROW_STATS] == cases[i].stats);
        packet_write_head(packet, &h);
        assert_true(packet_read_head(&bounds, 0, packet, HEAD_BYTES + 16, &out));
        assert_false(packet_read_head(&bounds, 0, packet, HEAD_BYTES + 8, &out));
    }
}

/* ---- what follows ---- */

static const struct account account = {.k = 1,
                                       .lessons = 2,
                                       .steps = 3,
                                       .dropped = 4,
                                       .lr = 0.1,
                                       .loss = -0.0,
                                       .staleness = {5, 6, 7},
                                       .tally = {1e300, 8, 9, 10},
                                       .counts = {11, 12, 13, 14, 15, 1e-300}};

static void must_be_that_account(const struct account *a)
{
    assert_int_equal(sizeof *a, ACCOUNT_BYTES); /* a number that is added to it has to be written, too */
    assert_memory_equal(a, &account, sizeof account);
}

static void what_follows_a_head_is_read_as_it_was_written(void **state)
{
    const struct state stands = {.is_busy = true, .sent = 21, .heard = 22, .n_gone = 1, .account = account};
    const double waits[] = {0.5, 0, 1e9};
    const struct exam exam = {.on_train = true, .first = 30, .n = 31, .loss = 0.25, .hits = 32};
    unsigned char bytes[STATE_BYTES + 3 * 8 + 1];
    struct account a = {0};
    struct state s;
    struct exam x;
    struct grant t;
    uint64_t number;
    double w[3];
    (void)state;
    packet_write_account(bytes, &account);
    assert_true(packet_read_account(bytes, ACCOUNT_BYTES, &a));
    must_be_that_account(&a);
    packet_write_state(bytes, &stands, waits, 3);
    assert_true(packet_read_state(bytes, STATE_BYTES + 24, &s, w, 3));
    must_be_that_account(&s.account);
    assert_true(s.is_busy && s.sent == 21 && s.heard == 22 && s.n_gone == 1);
    assert_memory_equal(w, waits, sizeof w);
    packet_write_exam(bytes, &exam);
    assert_true(packet_read_exam(bytes, EXAM_BYTES, &x));
    assert_true(x.on_train && x.first == 30 && x.n == 31 && x.loss == 0.25 && x.hits == 32 && x.replica == 0);
    packet_write_grant(bytes, &(struct grant){true, 40});
    assert_true(packet_read_grant(bytes, GRANT_BYTES, &t) && t.is_given && t.ended == 40);
    packet_write_number(bytes, 50);
    assert_true(packet_read_number(bytes, 8, &number) && number == 50);
}

static void one_byte_more_or_less_is_refused(void **state)
{
    unsigned char bytes[STATE_BYTES + 25] = {0};
    struct account a;
    struct state s;
    struct exam x;
    struct grant t;
    uint64_t number;
    double w[3];
    (void)state;
    for (int more = -1; more <= 1; more += 2) {
        assert_false(packet_read_account(bytes, (size_t)(ACCOUNT_BYTES + more), &a));
        assert_false(packet_read_state(bytes, (size_t)(STATE_BYTES + 24 + more), &s, w, 3));
        assert_false(packet_read_exam(bytes, (size_t)(EXAM_BYTES + more), &x));
        assert_false(packet_read_grant(bytes, (size_t)(GRANT_BYTES + more), &t));
        assert_false(packet_read_number(bytes, (size_t)(8 + more), &number));
    }
}

static void texts_are_read_as_they_were_written_and_cut_where_they_have_no_room(void **state)
{
    static const char *const texts[] = {"gone", "rank 2 on node7"};
    unsigned char bytes[64];
    char kind[32], text[32];
    (void)state;
    size_t n = packet_write_texts(bytes, sizeof bytes, texts, 2);
    assert_true(packet_read_texts(bytes, n, (char *const[]){kind, text}, 2, 32));
    assert_string_equal(kind, "gone");
    assert_string_equal(text, "rank 2 on node7");
    for (size_t less = 0; less < n; less++)
        assert_false(packet_read_texts(bytes, less, (char *const[]){kind, text}, 2, 32));
    n = packet_write_texts(bytes, 17, texts, 2);
    assert_int_equal(n, 17);
    assert_true(packet_read_texts(bytes, n, (char *const[]){kind, text}, 2, 32));
    assert_string_equal(kind, "gone");
    assert_string_equal(text, "rank ");
}

/* ---- damage ---- */

/* Whatever is made of a damaged packet stays within its bounds: what would be read, written or waited for
 * by it. */
static void must_be_harmless(const struct packet_bounds *b, size_t from, const unsigned char *packet,
                             size_t n)
{
    struct head h;
    if (!packet_read_head(b, from, packet, n, &h))
        return;
    assert_true(h.kind < KINDS_OF_MESSAGE && h.rows < 1u << N_ROWS);
    assert_true(h.offer || h.n_bytes > INLINE_BYTES || n == HEAD_BYTES + h.n_bytes);
    assert_true(h.n_bytes <= b->most_bytes);
    struct places places;
    if (!h.offer || !packet_read_places(b, &h, packet + HEAD_BYTES, &places))
        return;
    for (enum row row = 0; row < N_ROWS; row++)
        if (packet_floats_in_row(b, packet_span(&h), row))
            assert_true(places.at[row] + 4 * b->floats[row] <= b->memory_bytes);
}

static void no_flipped_bit_does_harm(void **state)
{
    const struct head heads[] = {
        plain, rows, {.kind = MSG_ROWS, .rows = ROWS_GRADS, .end = TO_END, .n_bytes = 4000, .offer = 1}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        unsigned char packet[PACKET_BYTES];
        size_t n = write_packet(&heads[i], packet) + (heads[i].offer ? 8 : 0);
        for (size_t bit = 0; bit < 8 * (HEAD_BYTES + 8); bit++) {
            packet[bit / 8] ^= (unsigned char)(1 << bit % 8);
            must_be_harmless(&bounds, 1, packet, n);
            packet[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

static void no_nonsense_does_harm(void **state)
{
    struct rng r = rng_stream(3, 0, RNG_TEST, 1);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        unsigned char packet[HEAD_BYTES + 64] = {0};
        packet_write_head(packet, i % 2 ? &plain : &rows);
        for (int k = 0; k < 4; k++)
            packet[rng_below(&r, HEAD_BYTES)] = (unsigned char)rng_below(&r, 256);
        packet[0] = (unsigned char)rng_below(&r, KINDS_OF_MESSAGE + 1);
        must_be_harmless(&bounds, rng_below(&r, 6), packet, rng_below(&r, sizeof packet + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_read_as_it_was_written),
        cmocka_unit_test(what_a_head_cannot_say_is_refused),
        cmocka_unit_test(a_packet_of_another_length_than_its_head_says_is_refused),
        cmocka_unit_test(rows_are_offered_only_where_they_can_lie),
        cmocka_unit_test(what_follows_a_head_is_read_as_it_was_written),
        cmocka_unit_test(one_byte_more_or_less_is_refused),
        cmocka_unit_test(texts_are_read_as_they_were_written_and_cut_where_they_have_no_room),
        cmocka_unit_test(no_flipped_bit_does_harm),
        cmocka_unit_test(no_nonsense_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
