/* Files come in plain, gzip or xz; what is damaged is named, never silently shortened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/source.h"
#include "support/data_files.h"

enum { MOST = 1 << 20 };

static struct bytes some_bytes(size_t n)
{
    struct bytes b = {malloc(n + 1), n};
    for (size_t i = 0; i < n; i++)
        b.at[i] = test_pixel(i / 3); /* compresses a little */
    b.at[0] = 0;
    return b;
}

static void assert_unpacks_to(struct bytes packed, struct bytes plain)
{
    struct source s = {0};
    assert_ok(source_unpack("x", packed.at, packed.n, MOST, &s));
    assert_int_equal(s.n, plain.n);
    assert_memory_equal(s.bytes, plain.at, plain.n);
    source_close(&s);
}

/* A fault, or else exactly the plain bytes. */
static int is_fault_or_same(struct bytes packed, struct bytes plain)
{
    struct source s = {0};
    fault f = source_unpack("x", packed.at, packed.n, MOST, &s);
    if (f) {
        fault_drop(f);
        assert_null(s.bytes);
        return 1;
    }
    int same = s.n == plain.n && memcmp(s.bytes, plain.at, plain.n) == 0;
    int untouched =
        s.n == packed.n && memcmp(s.bytes, packed.at, packed.n) == 0; /* no longer seen as packed */
    source_close(&s);
    return same || untouched;
}

static void plain_gzip_and_xz_give_the_same_bytes(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 300001; n = n * 7 + 1) {
        struct bytes plain = some_bytes(n), gz = pack(plain, "gzip"), xz = pack(plain, "xz");
        assert_unpacks_to(plain, plain);
        assert_unpacks_to(gz, plain);
        assert_unpacks_to(xz, plain);
        free(plain.at);
        free(gz.at);
        free(xz.at);
    }
}

static void every_truncation_of_a_packed_file_is_a_fault(void **state)
{
    (void)state;
    const char *const filters[] = {"gzip", "xz"};
    struct bytes plain = some_bytes(2000);
    for (size_t i = 0; i < 2; i++) {
        struct bytes packed = pack(plain, filters[i]);
        for (size_t n = i ? 6 : 2; n < packed.n; n++) {
            struct source s = {0};
            fault f = source_unpack("x", packed.at, n, MOST, &s);
            if (!f)
                fail_msg("%s cut to %zu of %zu bytes passes", filters[i], n, packed.n);
            fault_drop(f);
        }
        free(packed.at);
    }
    free(plain.at);
}

static void every_flipped_byte_of_a_packed_file_is_a_fault_or_changes_nothing(void **state)
{
    (void)state;
    const char *const filters[] = {"gzip", "xz"};
    struct bytes plain = some_bytes(1000);
    for (size_t i = 0; i < 2; i++) {
        struct bytes packed = pack(plain, filters[i]);
        for (size_t at = 0; at < packed.n; at++)
            for (int bit = 0; bit < 8; bit++) {
                packed.at[at] ^= (uint8_t)(1 << bit);
                if (!is_fault_or_same(packed, plain))
                    fail_msg("%s with bit %d of byte %zu flipped gives other bytes", filters[i], bit, at);
                packed.at[at] ^= (uint8_t)(1 << bit);
            }
        free(packed.at);
    }
    free(plain.at);
}

static void bytes_after_a_gzip_file_are_a_fault_with_their_offset(void **state)
{
    (void)state;
    struct bytes plain = some_bytes(100), gz = pack(plain, "gzip");
    struct source s = {0};
    gz.at = realloc(gz.at, gz.n + 3);
    memcpy(gz.at + gz.n, "abc", 3);
    assert_fault_says(source_unpack("x.gz", gz.at, gz.n + 3, MOST, &s), "3 bytes too many");
    free(plain.at);
    free(gz.at);
}

static void a_bomb_is_not_unpacked(void **state)
{
    (void)state;
    const char *const filters[] = {"gzip", "xz"};
    struct bytes zeros = {calloc(1, 10 * MOST), 10 * MOST};
    for (size_t i = 0; i < 2; i++) {
        struct bytes packed = pack(zeros, filters[i]);
        struct source s = {0};
        assert_fault_says(source_unpack("x", packed.at, packed.n, MOST, &s), "more than 1048576 bytes");
        free(packed.at);
    }
    free(zeros.at);
}

static void a_file_is_read_whole_and_named(void **state)
{
    (void)state;
    char *folder = temporary_folder(), *path = path_in(folder, "a.gz");
    struct bytes plain = some_bytes(70000), gz = pack(plain, "gzip");
    struct source s = {0};
    put_file(folder, "a.gz", gz);
    assert_ok(source_open(path, MOST, &s));
    assert_int_equal(s.n, plain.n);
    assert_memory_equal(s.bytes, plain.at, plain.n);
    assert_non_null(strstr(s.name, "a.gz (unpacked)"));
    source_close(&s);
    assert_fault_says(source_open("/nowhere/at/all", MOST, &s), "/nowhere/at/all: cannot be read");
    assert_fault_says(source_open(folder, MOST, &s), "is not a file");
    assert_fault_says(source_open(path, 100, &s), "more than");
    free(path);
    free(plain.at);
    free(gz.at);
    remove_folder(folder);
}

static void the_plain_file_is_preferred_to_a_packed_one(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4096];
    struct bytes b = some_bytes(10);
    assert_false(source_find(folder, "a", path, sizeof path));
    put_file(folder, "a.xz", b);
    assert_true(source_find(folder, "a", path, sizeof path));
    assert_string_equal(strrchr(path, '/'), "/a.xz");
    put_file(folder, "a.gz", b);
    assert_true(source_find(folder, "a", path, sizeof path));
    assert_string_equal(strrchr(path, '/'), "/a.gz");
    put_file(folder, "a", b);
    assert_true(source_find(folder, "a", path, sizeof path));
    assert_string_equal(strrchr(path, '/'), "/a");
    free(b.at);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_gzip_and_xz_give_the_same_bytes),
        cmocka_unit_test(every_truncation_of_a_packed_file_is_a_fault),
        cmocka_unit_test(every_flipped_byte_of_a_packed_file_is_a_fault_or_changes_nothing),
        cmocka_unit_test(bytes_after_a_gzip_file_are_a_fault_with_their_offset),
        cmocka_unit_test(a_bomb_is_not_unpacked),
        cmocka_unit_test(a_file_is_read_whole_and_named),
        cmocka_unit_test(the_plain_file_is_preferred_to_a_packed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
