/* What is written is read again, by any machine, and what is damaged is seen to be. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/encode.h"

static size_t write_some(unsigned char *bytes, size_t room)
{
    struct encoder e = encode_into(bytes, room);
    encode_u32(&e, 0x01020304);
    encode_u64(&e, 0x1122334455667788);
    encode_f64(&e, -1.5);
    encode_text(&e, "veche");
    encode_bytes(&e, "!", 1);
    return e.is_full ? 0 : e.n;
}

enum { SOME = 4 + 8 + 8 + 4 + 5 + 1 };

static void numbers_lie_in_one_order_on_every_machine(void **state)
{
    static const unsigned char expected[SOME] = {4,    3,    2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
                                                 0x22, 0x11, 0, 0, 0,    0,    0,    0,    0xf8, 0xbf,
                                                 5,    0,    0, 0, 'v',  'e',  'c',  'h',  'e',  '!'};
    unsigned char bytes[SOME];
    (void)state;
    assert_int_equal(write_some(bytes, sizeof bytes), SOME);
    assert_memory_equal(bytes, expected, SOME);
}

static void what_was_written_is_read_again(void **state)
{
    unsigned char bytes[SOME];
    char text[6], mark;
    (void)state;
    struct decoder d = decode_from(bytes, write_some(bytes, sizeof bytes));
    assert_int_equal(decode_u32(&d), 0x01020304);
    assert_int_equal(decode_u64(&d), 0x1122334455667788);
    assert_true(decode_f64(&d) == -1.5);
    decode_text(&d, text, sizeof text);
    assert_string_equal(text, "veche");
    assert_false(decode_is_whole(&d)); /* something is left */
    decode_bytes(&d, &mark, 1);
    assert_true(mark == '!' && decode_is_whole(&d));
}

static void numbers_are_encoded_where_they_lie(void **state)
{
    const uint64_t numbers[] = {0x1122334455667788, 0, UINT64_MAX, 1};
    const double reals[] = {-1.5, NAN};
    static const unsigned char expected[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11},
                               real[] = {0, 0, 0, 0, 0, 0, 0xf8, 0xbf};
    uint64_t bytes[4];
    double others[2];
    (void)state;
    memcpy(bytes, numbers, sizeof bytes);
    memcpy(others, reals, sizeof others);
    encode_in_place(bytes, 3);
    encode_in_place(others, 2);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_memory_equal(others, real, sizeof real);
    assert_true(bytes[3] == 1); /* beyond them nothing is touched */
    decode_in_place(bytes, 3);
    decode_in_place(others, 2);
    assert_memory_equal(bytes, numbers, sizeof bytes);
    assert_memory_equal(others, reals, sizeof others);
}

static void every_double_keeps_its_bits(void **state)
{
    const double all[] = {0.0, -0.0, 1e-310, DBL_MAX, INFINITY, NAN};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned char bytes[8];
        struct encoder e = encode_into(bytes, sizeof bytes);
        encode_f64(&e, all[i]);
        struct decoder d = decode_from(bytes, e.n);
        double x = decode_f64(&d);
        assert_memory_equal(&x, &all[i], sizeof x);
    }
}

static void what_is_cut_short_anywhere_is_damaged_and_reads_as_nothing(void **state)
{
    unsigned char bytes[SOME];
    (void)state;
    write_some(bytes, sizeof bytes);
    for (size_t n = 0; n < SOME; n++) {
        struct decoder d = decode_from(bytes, n);
        char text[6] = "?", mark = '?';
        decode_u32(&d), decode_u64(&d), decode_f64(&d), decode_text(&d, text, sizeof text),
            decode_bytes(&d, &mark, 1);
        assert_false(decode_is_whole(&d));
        assert_int_equal(mark, 0);
        assert_int_equal(decode_u64(&d), 0);
    }
}

static void an_encoder_without_room_says_so_and_writes_nothing_beyond(void **state)
{
    unsigned char bytes[SOME + 1];
    (void)state;
    for (size_t room = 0; room < SOME; room++) {
        memset(bytes, 0xee, sizeof bytes);
        assert_int_equal(write_some(bytes, room), 0);
        for (size_t i = room; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xee);
    }
}

static void a_text_that_is_too_long_is_cut_and_one_that_lies_about_its_length_is_damaged(void **state)
{
    static const unsigned char lie[] = {255, 255, 255, 255, 'x'};
    unsigned char bytes[16];
    char text[4];
    (void)state;
    struct encoder e = encode_into(bytes, sizeof bytes);
    encode_text(&e, "veche");
    struct decoder d = decode_from(bytes, e.n);
    decode_text(&d, text, sizeof text);
    assert_string_equal(text, "vec");
    assert_true(decode_is_whole(&d));
    d = decode_from(lie, sizeof lie);
    decode_text(&d, text, sizeof text);
    assert_string_equal(text, "");
    assert_false(decode_is_whole(&d));
}

static void a_truth_is_0_or_1(void **state)
{
    static const unsigned char bytes[] = {0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0};
    (void)state;
    struct decoder d = decode_from(bytes, sizeof bytes);
    assert_false(decode_bool(&d));
    assert_true(decode_bool(&d));
    assert_false(d.is_damaged);
    assert_false(decode_bool(&d));
    assert_true(d.is_damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_lie_in_one_order_on_every_machine),
        cmocka_unit_test(what_was_written_is_read_again),
        cmocka_unit_test(numbers_are_encoded_where_they_lie),
        cmocka_unit_test(every_double_keeps_its_bits),
        cmocka_unit_test(what_is_cut_short_anywhere_is_damaged_and_reads_as_nothing),
        cmocka_unit_test(an_encoder_without_room_says_so_and_writes_nothing_beyond),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_and_one_that_lies_about_its_length_is_damaged),
        cmocka_unit_test(a_truth_is_0_or_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
