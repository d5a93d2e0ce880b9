/* What ranks settle before a world is open: by what each says, and in spite of what it should not say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "world/far/far.h"

/* A door behind which all ranks say what this one says, but for rank 1. */
enum { RANKS = 3, MOST = 4096 };

static struct {
    size_t cut;  /* so many bytes are missing at its end */
    size_t flip; /* this bit of its bytes is another one */
    bool flips;
} rank_1;

static fault pretend_to_gather(const struct ranks *ranks, const void *mine, size_t n, double patience_s,
                               unsigned char **all, size_t *lengths)
{
    unsigned char *bytes = malloc(RANKS * MOST), *at = bytes;
    (void)patience_s;
    assert_true(bytes && n <= MOST);
    for (size_t i = 0; i < ranks->n; i++) {
        lengths[i] = n;
        if (n)
            memcpy(at, mine, n);
        if (i == 1 && rank_1.flips && rank_1.flip / 8 < lengths[i])
            at[rank_1.flip / 8] ^= (unsigned char)(1 << rank_1.flip % 8);
        lengths[i] -= i == 1 ? smaller(rank_1.cut, lengths[i]) : 0;
        at += lengths[i];
    }
    *all = realloc(bytes, (size_t)(at - bytes) + 1); /* so that a sanitizer sees who reads beyond */
    return OK;
}

static const struct world_door door = {.name = "pretended", .gather = pretend_to_gather};
static const struct ranks ranks = {.door = &door, .self = 2, .n = RANKS},
                          leader = {.door = &door, .n = RANKS}, alone = {.door = &door};

static int all_say_the_same(void **state)
{
    (void)state;
    memset(&rank_1, 0, sizeof rank_1);
    return 0;
}

static void those_who_say_the_same_agree(void **state)
{
    uint64_t largest = 0;
    char *text = strdup("word"), *all;
    (void)state;
    must(world_agree(&ranks, OK, 1));
    must(world_compare(&ranks, "hat", "green", 1));
    must(world_largest(&ranks, 7, 1, &largest));
    assert_int_equal(largest, 7);
    must(world_spread_text(&leader, &text, 1));
    assert_string_equal(text, "word");
    free(text);
    must(world_gather_texts(&ranks, "ab", 3, 1, &all));
    assert_memory_equal(all, "ab\0ab\0ab", 9);
    free(all);
}

static void who_is_alone_agrees_with_itself(void **state)
{
    uint64_t largest = 0;
    char *text = NULL;
    (void)state;
    must(world_agree(&alone, OK, 1));
    must_fail(world_agree(&alone, FAIL(FAULT_DATA, "the roof is open"), 1), "the roof is open");
    must(world_compare(&alone, "hat", "green", 1));
    must(world_largest(&alone, 7, 1, &largest));
    assert_int_equal(largest, 7);
    must(world_spread_text(&alone, &text, 1));
    assert_null(text);
}

static void what_rank_says_too_little_is_named(void **state)
{
    uint64_t largest;
    char *all;
    struct ranks joined = ranks;
    static const char *const words = "what rank 1 says before the start cannot be read";
    (void)state;
    for (rank_1.cut = 1; rank_1.cut < 40; rank_1.cut += 3) {
        must_fail(world_agree(&ranks, OK, 1), words);
        must_fail(world_compare(&ranks, "hat", "green", 1), words);
        must_fail(world_largest(&ranks, 7, 1, &largest), words);
        must_fail(far_join(&joined), words);
    }
    rank_1.cut = 1;
    must_fail(world_gather_texts(&ranks, "ab", 3, 1, &all), words);
}

static void a_rank_of_another_version_is_told_from_one_that_is_damaged(void **state)
{
    struct ranks joined = ranks;
    (void)state;
    must(far_join(&joined));
    assert_true(joined.here == 2 && joined.threads >= 1);
    rank_1.flips = true;
    for (rank_1.flip = 0; rank_1.flip < 32; rank_1.flip++)
        must_fail(far_join(&joined), "rank 1 is of another version of veche than this one");
}

static void no_flipped_bit_of_a_word_does_harm(void **state)
{
    uint64_t largest;
    struct ranks joined = ranks;
    (void)state;
    rank_1.flips = true;
    for (rank_1.flip = 0; rank_1.flip < 8 * 200; rank_1.flip++) {
        fault_drop(world_agree(&leader, OK, 1));
        fault_drop(world_compare(&leader, "hat", "green", 1));
        fault_drop(world_largest(&leader, 7, 1, &largest));
        fault_drop(far_join(&joined));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(those_who_say_the_same_agree, all_say_the_same),
        cmocka_unit_test_setup(who_is_alone_agrees_with_itself, all_say_the_same),
        cmocka_unit_test_setup(what_rank_says_too_little_is_named, all_say_the_same),
        cmocka_unit_test_setup(a_rank_of_another_version_is_told_from_one_that_is_damaged, all_say_the_same),
        cmocka_unit_test_setup(no_flipped_bit_of_a_word_does_harm, all_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
