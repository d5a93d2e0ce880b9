/* PNG mosaics and their labels in JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/reader.h"
#include "support/data_files.h"

enum { N = 3, CLASSES = 10 };

static const uint16_t labels[N] = {4, 0, 9};

static fault read_png(struct bytes b, size_t n, struct intake *p)
{
    struct source s = {"mosaic", b.at, b.n};
    return mosaic_read(&s, n, labels, p);
}

static fault read_json(const char *text, size_t n, uint16_t *out)
{
    struct source s = {"labels", (const uint8_t *)text, strlen(text)};
    return mosaic_labels(&s, n, CLASSES, out);
}

static int is_made(const struct intake *p)
{
    if (p->n != N || memcmp(p->labels, labels, sizeof labels) != 0)
        return 0;
    for (size_t i = 0; i < (size_t)N * 3072; i++)
        if (p->pixels[i] != test_pixel(i))
            return 0;
    return 1;
}

static void rows_become_pictures_in_planes(void **state)
{
    (void)state;
    struct bytes png = make_mosaic(N, 1024, 0);
    struct intake p = {0};
    assert_ok(read_png(png, N, &p));
    assert_int_equal(p.c, 3);
    assert_int_equal(p.h, 32);
    assert_int_equal(p.w, 32);
    assert_true(is_made(&p));
    intake_close(&p);
    free(png.at);
}

static void every_flipped_byte_of_a_png_is_a_fault_or_changes_nothing(void **state)
{
    (void)state;
    struct bytes png = make_mosaic(N, 1024, 0);
    for (size_t at = 0; at < png.n; at += at < 200 || at + 200 > png.n ? 1 : 37) {
        struct intake p = {0};
        png.at[at] ^= 0xff;
        fault f = read_png(png, N, &p);
        if (!f && !is_made(&p))
            fail_msg("byte %zu flipped gives other pixels", at);
        if (f)
            assert_fault_says(f, "mosaic: byte ");
        png.at[at] ^= 0xff;
        intake_close(&p);
    }
    free(png.at);
}

static void every_flipped_bit_of_a_png_head_is_a_fault(void **state)
{
    (void)state;
    struct bytes png = make_mosaic(N, 1024, 0);
    for (size_t bit = 0; bit < 33 * 8; bit++) { /* signature and IHDR */
        struct intake p = {0};
        png.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_fault_says(read_png(png, N, &p), "mosaic: byte ");
        assert_null(p.pixels);
        png.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(png.at);
}

static void every_truncation_of_a_png_is_a_fault(void **state)
{
    (void)state;
    struct bytes png = make_mosaic(N, 1024, 0);
    for (size_t n = 0; n < png.n; n += n < 200 || n + 200 > png.n ? 1 : 37) {
        struct intake p = {0};
        assert_fault_says(read_png((struct bytes){png.at, n}, N, &p), "the PNG is damaged");
        assert_null(p.pixels);
    }
    free(png.at);
}

static void a_png_of_another_size_or_with_a_tail_is_a_fault(void **state)
{
    (void)state;
    struct bytes png = make_mosaic(N, 1024, 0), narrow = make_mosaic(N, 1023, 0);
    struct intake p = {0};
    assert_fault_says(read_png(narrow, N, &p), "expected a PNG of 1024 x 3 pixels, found 1023 x 3");
    assert_fault_says(read_png(png, N - 1, &p), "expected a PNG of 1024 x 2 pixels, found 1024 x 3");
    png.at = realloc(png.at, png.n + 1);
    png.at[png.n] = 0;
    assert_fault_says(read_png((struct bytes){png.at, png.n + 1}, N, &p), "1 bytes too many after the PNG");
    assert_null(p.pixels);
    free(png.at);
    free(narrow.at);
}

static void a_damaged_png_leaves_what_was_there_before(void **state)
{
    (void)state;
    struct bytes png = make_mosaic(N, 1024, 0);
    struct intake p = {0};
    assert_ok(read_png(png, N, &p));
    fault f = read_png((struct bytes){png.at, png.n - 30}, N, &p);
    assert_non_null(f);
    fault_drop(f);
    assert_true(is_made(&p));
    intake_close(&p);
    free(png.at);
}

static void a_json_list_of_labels_comes_in_as_it_stands(void **state)
{
    (void)state;
    uint16_t out[5] = {0};
    assert_ok(read_json(" [ 1, 0,9 ,3,\n 3]\n", 5, out));
    const uint16_t expected[] = {1, 0, 9, 3, 3};
    assert_memory_equal(out, expected, sizeof expected);
}

static void anything_but_a_list_of_known_labels_is_a_fault(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",           "[",
        "[1,2",       "[1,2,3",
        "[1,2,]",     "[1,2,3]]",
        "[1,2,3] x",  "{\"a\":1}",
        "[1,2]",      "[1,2,3,4]",
        "[1,2,10]",   "[1,2,-1]",
        "[1,2,3.0]",  "[1,2,\"3\"]",
        "[1,2,null]", "[1,2,[3]]",
        "[1,2,3e0]",  "7",
        "null",       "[1,2,true]",
        "[[1,2,3]]",  "[1,2,99999999999999999999]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint16_t out[3] = {7, 7, 7};
        fault f = read_json(bad[i], 3, out);
        if (!f)
            fail_msg("%s passes", bad[i]);
        assert_fault_says(f, "labels: ");
        assert_int_equal(out[0], 7);
    }
    uint16_t out[3];
    assert_fault_says(read_json("[1,2,12]", 3, out), "label 2 of the list is not one of 0 to 9");
    assert_fault_says(read_json("[1,2,;]", 3, out), "labels: byte 6: not JSON");
}

static void every_flipped_or_missing_byte_of_json_is_a_fault_or_gives_known_labels(void **state)
{
    (void)state;
    struct bytes json = make_json_labels(20, CLASSES, 0);
    for (size_t at = 0; at < json.n * 9; at++) {
        uint16_t out[20];
        struct source s = {"labels", json.at, at < json.n * 8 ? json.n : at - json.n * 8};
        if (at < json.n * 8)
            json.at[at / 8] ^= (uint8_t)(1 << at % 8);
        fault f = mosaic_labels(&s, 20, CLASSES, out);
        for (size_t i = 0; !f && i < 20; i++)
            assert_in_range(out[i], 0, CLASSES - 1);
        if (at >= json.n * 8)
            assert_non_null(f);
        fault_drop(f);
        if (at < json.n * 8)
            json.at[at / 8] ^= (uint8_t)(1 << at % 8);
    }
    free(json.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_pictures_in_planes),
        cmocka_unit_test(every_flipped_byte_of_a_png_is_a_fault_or_changes_nothing),
        cmocka_unit_test(every_flipped_bit_of_a_png_head_is_a_fault),
        cmocka_unit_test(every_truncation_of_a_png_is_a_fault),
        cmocka_unit_test(a_png_of_another_size_or_with_a_tail_is_a_fault),
        cmocka_unit_test(a_damaged_png_leaves_what_was_there_before),
        cmocka_unit_test(a_json_list_of_labels_comes_in_as_it_stands),
        cmocka_unit_test(anything_but_a_list_of_known_labels_is_a_fault),
        cmocka_unit_test(every_flipped_or_missing_byte_of_json_is_a_fault_or_gives_known_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
