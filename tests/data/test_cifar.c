/* CIFAR's binary records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "data/reader.h"
#include "support/data_files.h"

enum { N = 3 };

static fault read_it(struct bytes b, size_t classes, bool coarse, struct intake *p)
{
    struct source s = {"records", b.at, b.n};
    return cifar_read(&s, classes, coarse, p);
}

static void assert_is_made(const struct intake *p, size_t n, size_t classes)
{
    assert_int_equal(p->n, n);
    assert_int_equal(p->c, 3);
    assert_int_equal(p->h, 32);
    assert_int_equal(p->w, 32);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p->labels[i], i % classes);
    for (size_t i = 0; i < n * 3072; i++)
        assert_int_equal(p->pixels[i], test_pixel(i));
}

static void records_of_both_layouts_come_in_as_they_stand(void **state)
{
    (void)state;
    for (int coarse = 0; coarse <= 1; coarse++) {
        size_t classes = coarse ? 100 : 10;
        struct bytes a = make_cifar(N, (unsigned)classes, coarse, 0),
                     b = make_cifar(N, (unsigned)classes, coarse, N);
        struct intake p = {0};
        assert_ok(read_it(a, classes, coarse, &p));
        assert_ok(read_it(b, classes, coarse, &p)); /* a second file goes behind the first */
        assert_is_made(&p, 2 * N, classes);
        intake_close(&p);
        free(a.at);
        free(b.at);
    }
}

static void every_truncation_names_the_record_that_is_cut(void **state)
{
    (void)state;
    for (int coarse = 0; coarse <= 1; coarse++) {
        struct bytes b = make_cifar(N, 10, coarse, 0);
        size_t record = 3073 + (size_t)coarse;
        for (size_t n = 0; n < b.n; n++) {
            struct intake p = {0};
            fault f = read_it((struct bytes){b.at, n}, 10, coarse, &p);
            if (n % record || n == 0) {
                char words[64];
                sprintf(words, "records: byte %zu: ", n / record * record);
                assert_fault_says(f, words);
                assert_null(p.pixels);
            } else {
                assert_ok(f); /* nothing in the format tells how many records there should be */
                assert_is_made(&p, n / record, 10);
            }
            intake_close(&p);
        }
        free(b.at);
    }
}

static void a_label_is_named_exactly_when_it_is_none_of_the_classes(void **state)
{
    (void)state;
    struct bytes b = make_cifar(N, 10, 1, 0);
    for (unsigned label = 0; label < 256; label++) {
        struct intake p = {0};
        b.at[3074] = (uint8_t)label;
        fault f = read_it(b, 100, true, &p);
        if (label < 20)
            assert_ok(f);
        else
            assert_fault_says(f, "records: byte 3074: coarse label ");
        b.at[3074] = 0;
        intake_close(&p);
        b.at[3075] = (uint8_t)label;
        f = read_it(b, 100, true, &p);
        if (label < 100)
            assert_ok(f);
        else
            assert_fault_says(f, "records: byte 3075: label ");
        b.at[3075] = 0;
        intake_close(&p);
    }
    free(b.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_both_layouts_come_in_as_they_stand),
        cmocka_unit_test(every_truncation_names_the_record_that_is_cut),
        cmocka_unit_test(a_label_is_named_exactly_when_it_is_none_of_the_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
