/* Memory from an arena is zeroed, aligned, apart from all other pieces, and stays where it is until the
 * release. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/rng.h"

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    enum { PIECES = 2000 };
    static unsigned char *piece[PIECES];
    static size_t size[PIECES];
    struct arena a = {0};
    struct rng r = rng_stream(1, 0, RNG_TEST, 0);
    for (size_t i = 0; i < PIECES; i++) {
        size[i] = rng_below(&r, i % 100 == 0 ? 20000 : 200);
        piece[i] = arena_take(&a, size[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], 0);
        memset(piece[i], (int)(i % 251) + 1, size[i]);
    }
    for (size_t i = 0; i < PIECES; i++) /* nobody wrote into a neighbour */
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], i % 251 + 1);
    arena_release(&a);
    assert_null(a.chunks);
}

static void nothing_at_all_is_still_a_piece_of_its_own(void **state)
{
    (void)state;
    struct arena a = {0};
    void *x = arena_take(&a, 0), *y = arena_take(&a, 0);
    assert_non_null(x);
    assert_ptr_not_equal(x, y);
    arena_release(&a);
}

static void an_impossible_size_is_refused(void **state)
{
    (void)state;
    struct arena a = {0};
    assert_null(arena_take(&a, SIZE_MAX));
    assert_null(arena_take(&a, SIZE_MAX / 2));
    assert_non_null(arena_take(&a, 8)); /* and harms nothing */
    arena_release(&a);
}

static void texts_are_copied(void **state)
{
    (void)state;
    struct arena a = {0};
    char word[] = "word";
    char *copy = arena_text(&a, word);
    word[0] = 'l';
    assert_string_equal(copy, "word");
    assert_string_equal(arena_text(&a, ""), "");
    assert_string_equal(arena_printf(&a, "%s-%03d", word, 7), "lord-007");
    char longest[10000];
    memset(longest, 'x', sizeof longest);
    longest[9999] = '\0';
    assert_int_equal(strlen(arena_printf(&a, "%s!", longest)), 10000);
    arena_release(&a);
}

static void a_released_arena_can_be_used_again(void **state)
{
    (void)state;
    struct arena a = {0};
    arena_release(&a);
    int *x = ARENA_NEW(&a, int, 10);
    memset(x, 0xFF, 10 * sizeof *x);
    arena_release(&a);
    x = ARENA_NEW(&a, int, 10);
    assert_int_equal(x[9], 0);
    arena_release(&a);
}

static void blocks_are_zeroed_aligned_and_as_large_as_asked(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct block b = {0};
        assert_null(block_open(sizes[i], &b));
        assert_true(b.n_bytes >= sizes[i]);
        assert_int_equal((uintptr_t)b.bytes % 64, 0);
        const unsigned char *bytes = b.bytes;
        for (size_t j = 0; j < b.n_bytes; j += 509)
            assert_int_equal(bytes[j], 0);
        memset(b.bytes, 1, sizes[i]);
        block_close(&b);
        assert_null(b.bytes);
        block_close(&b); /* twice is allowed */
    }
}

static void a_shared_block_can_be_seen_through_its_file(void **state)
{
    (void)state;
    struct block b = {0};
    assert_null(block_open_shared(100000, &b));
    char *bytes = b.bytes;
    assert_int_equal(bytes[0] | bytes[99999], 0);
    if (b.is_shared) {
        char *seen = mmap(NULL, b.n_bytes, PROT_READ, MAP_SHARED, b.file, 0);
        assert_ptr_not_equal(seen, MAP_FAILED);
        bytes[99999] = 'x';
        assert_int_equal(seen[99999], 'x');
        munmap(seen, b.n_bytes);
    }
    block_close(&b);
    block_close(&b); /* twice is allowed */
}

static void a_block_beyond_all_memory_is_a_fault_with_its_size(void **state)
{
    (void)state;
    struct block b = {0};
    fault f = block_open((size_t)1 << 60, &b);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_MEMORY);
    assert_string_equal(fault_text(f), "out of memory: 1099511627776 MiB asked for in one piece");
    assert_null(b.bytes);
    fault_drop(f);
}

static void round_up_gives_the_next_multiple(void **state)
{
    (void)state;
    for (size_t step = 1; step <= 64; step *= 2)
        for (size_t n = 0; n < 300; n++) {
            size_t up = round_up(n, step);
            assert_true(up >= n && up < n + step && up % step == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(nothing_at_all_is_still_a_piece_of_its_own),
        cmocka_unit_test(an_impossible_size_is_refused),
        cmocka_unit_test(texts_are_copied),
        cmocka_unit_test(a_released_arena_can_be_used_again),
        cmocka_unit_test(blocks_are_zeroed_aligned_and_as_large_as_asked),
        cmocka_unit_test(a_shared_block_can_be_seen_through_its_file),
        cmocka_unit_test(a_block_beyond_all_memory_is_a_fault_with_its_size),
        cmocka_unit_test(round_up_gives_the_next_multiple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
