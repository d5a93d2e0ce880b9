/* IDX files: what is right comes in as it stands, what is wrong is named with file and byte. */
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

enum { N = 7, H = 5, W = 4, CLASSES = 3 };

static fault read_both(struct bytes images, struct bytes labels, size_t classes, struct intake *p)
{
    struct source i = {"images", images.at, images.n}, l = {"labels", labels.at, labels.n};
    return idx_read(&i, &l, classes, p);
}

static void assert_says(struct bytes images, struct bytes labels, const char *words)
{
    struct intake p = {0};
    assert_fault_says(read_both(images, labels, CLASSES, &p), words);
    assert_int_equal(p.n, 0);
    assert_null(p.pixels);
}

static void pictures_and_labels_come_in_as_they_stand(void **state)
{
    (void)state;
    struct bytes images = make_idx_images(N, H, W), labels = make_idx_labels(N, CLASSES);
    struct intake p = {0};
    for (size_t round = 1; round <= 2; round++) { /* the second time behind the first */
        assert_ok(read_both(images, labels, CLASSES, &p));
        assert_int_equal(p.n, round * N);
        assert_int_equal(p.c, 1);
        assert_int_equal(p.h, H);
        assert_int_equal(p.w, W);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(p.labels[(round - 1) * N + i], i % CLASSES);
        for (size_t i = 0; i < (size_t)N * H * W; i++)
            assert_int_equal(p.pixels[(round - 1) * N * H * W + i], test_pixel(i));
    }
    intake_close(&p);
    free(images.at);
    free(labels.at);
}

static void every_truncation_is_a_fault_that_names_where_the_file_ends(void **state)
{
    (void)state;
    struct bytes images = make_idx_images(N, H, W), labels = make_idx_labels(N, CLASSES);
    for (size_t n = 0; n < images.n; n++) {
        char words[64];
        sprintf(words, "images: byte %zu: the file ends", n);
        assert_says((struct bytes){images.at, n}, labels, words);
    }
    for (size_t n = 0; n < labels.n; n++) {
        char words[64];
        sprintf(words, "labels: byte %zu: the file ends", n);
        assert_says(images, (struct bytes){labels.at, n}, words);
    }
    free(images.at);
    free(labels.at);
}

static void every_flipped_bit_of_a_head_is_a_fault(void **state)
{
    (void)state;
    struct bytes images = make_idx_images(N, H, W), labels = make_idx_labels(N, CLASSES);
    for (size_t bit = 0; bit < 16 * 8; bit++) {
        images.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_says(images, labels, "images: byte ");
        images.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * 8; bit++) {
        labels.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_says(images, labels, "labels: byte ");
        labels.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(images.at);
    free(labels.at);
}

static void every_flipped_or_missing_byte_of_a_gzip_head_is_a_fault_or_changes_nothing(void **state)
{
    (void)state;
    struct bytes images = make_idx_images(N, H, W), labels = make_idx_labels(N, CLASSES);
    struct bytes gz = pack(images, "gzip");
    struct source l = {"labels", labels.at, labels.n};
    for (size_t at = 0; at < 2 * gz.n; at++) {
        struct source s = {0};
        struct intake p = {0};
        size_t n = at < gz.n ? gz.n : at - gz.n;
        if (at < gz.n)
            gz.at[at] ^= 0xff;
        fault f = source_unpack("x.gz", gz.at, n, 1 << 20, &s);
        if (!f)
            f = idx_read(&s, &l, CLASSES, &p);
        if (!f)
            for (size_t i = 0; i < (size_t)N * H * W; i++)
                assert_int_equal(p.pixels[i], test_pixel(i));
        fault_drop(f);
        if (at < gz.n)
            gz.at[at] ^= 0xff;
        source_close(&s);
        intake_close(&p);
    }
    free(images.at);
    free(labels.at);
    free(gz.at);
}

static void wrong_magic_sizes_ends_and_labels_are_named(void **state)
{
    (void)state;
    struct bytes images = make_idx_images(N, H, W), labels = make_idx_labels(N, CLASSES);
    assert_says(
        labels, images,
        "images: byte 0: expected the IDX number 0x00000803 (bytes in 3 dimensions), found 0x00000801");
    struct bytes fewer = make_idx_labels(N - 1, CLASSES);
    assert_says(images, fewer, "labels: byte 4: 6 labels, but images holds 7 pictures");
    labels.at[8 + 4] = CLASSES;
    assert_says(images, labels, "labels: byte 12: label 3, but there are 3 classes");
    images.at = realloc(images.at, images.n + 2);
    images.at[images.n] = images.at[images.n + 1] = 0;
    assert_says((struct bytes){images.at, images.n + 2}, labels, "byte 156: 2 bytes too many");
    memset(images.at + 4, 0xff, 12);
    assert_says(images, labels, "images: byte 12: sizes larger than any file");
    memset(images.at + 4, 0, 4);
    assert_says(images, labels, "images: byte 4: a size of 0");
    free(fewer.at);
    free(images.at);
    free(labels.at);
}

static void samples_of_another_shape_cannot_follow(void **state)
{
    (void)state;
    struct bytes images = make_idx_images(N, H, W), labels = make_idx_labels(N, CLASSES);
    struct bytes wide = make_idx_images(N, W, H);
    struct intake p = {0};
    assert_ok(read_both(images, labels, CLASSES, &p));
    assert_fault_says(read_both(wide, labels, CLASSES, &p),
                      "samples of 1 x 4 x 5 come after samples of 1 x 5 x 4");
    assert_int_equal(p.n, N);
    intake_close(&p);
    free(images.at);
    free(labels.at);
    free(wide.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_and_labels_come_in_as_they_stand),
        cmocka_unit_test(every_truncation_is_a_fault_that_names_where_the_file_ends),
        cmocka_unit_test(every_flipped_bit_of_a_head_is_a_fault),
        cmocka_unit_test(every_flipped_or_missing_byte_of_a_gzip_head_is_a_fault_or_changes_nothing),
        cmocka_unit_test(wrong_magic_sizes_ends_and_labels_are_named),
        cmocka_unit_test(samples_of_another_shape_cannot_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
