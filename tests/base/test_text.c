/* The nearest known word is found for the slips people make, and none is offered where nothing is near. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char *word_at(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

static const char *const words[] = {"learning_rate", "momentum",     "lr", "kind",
                                    "schedule",      "weight_decay", NULL};

static void equal_texts_are_equal(void **state)
{
    (void)state;
    assert_true(text_is("a", "a"));
    assert_true(text_is("", ""));
    assert_false(text_is("a", "A"));
    assert_false(text_is("a", "ab"));
    assert_true(text_starts("abc", "ab"));
    assert_true(text_starts("abc", ""));
    assert_true(text_starts("abc", "abc"));
    assert_false(text_starts("ab", "abc"));
    assert_false(text_starts("xab", "ab"));
}

static void slips_find_their_word(void **state)
{
    (void)state;
    static const char *const slips[][2] = {
        {"learning_rte", "learning_rate"},   /* a letter left out     */
        {"learnning_rate", "learning_rate"}, /* put in                */
        {"learning-rate", "learning_rate"},  /* exchanged             */
        {"laerning_rate", "learning_rate"},  /* two neighbours swapped */
        {"knid", "kind"},                    /* a swap counts once    */
        {"momentun", "momentum"},
        {"shedule", "schedule"},
        {"weigth_deacy", "weight_decay"},
        {"lr", "lr"},
        {"Lr", "lr"},
    };
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        const char *near = text_nearest(slips[i][0], word_at, words);
        assert_non_null(near);
        assert_string_equal(near, slips[i][1]);
    }
}

static void nothing_is_offered_where_nothing_is_near(void **state)
{
    (void)state;
    static const char *const strange[] = {"batchnorm", "x", "completely-else", "epochs", ""};
    for (size_t i = 0; i < 4; i++)
        assert_null(text_nearest(strange[i], word_at, words));
    static const char *const none[] = {NULL};
    assert_null(text_nearest("kind", word_at, none));
}

static void the_nearest_of_several_wins(void **state)
{
    (void)state;
    static const char *const alike[] = {"resnet110", "resnet20", "resnet32", "resnet56", NULL};
    assert_string_equal(text_nearest("resnet2", word_at, alike), "resnet20");
    assert_string_equal(text_nearest("resnt56", word_at, alike), "resnet56");
    assert_string_equal(text_nearest("resnet11", word_at, alike), "resnet110");
}

static void words_of_any_length_are_safe(void **state)
{
    (void)state;
    char longest[5000];
    memset(longest, 'a', sizeof longest);
    longest[4999] = '\0';
    text_nearest(longest, word_at, words);
    const char *const self[] = {longest, NULL};
    text_nearest("kind", word_at, self);
    longest[63] = '\0';
    assert_string_equal(text_nearest(longest, word_at, self), longest);
}

static void what_is_shown_is_short_and_on_one_line(void **state)
{
    (void)state;
    assert_string_equal(text_shown("as it is").text, "as it is");
    assert_string_equal(text_shown("a\nb\x01").text, "a?b?");
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[299] = '\0';
    assert_int_equal(strlen(text_shown(longest).text), 63);
    assert_string_equal(text_shown(longest).text + 58, "xx...");
    for (size_t i = 0; i < 149; i++) /* letters of two bytes: the cut may not go through one */
        memcpy(longest + 2 * i, "\xD0\xB6", 2);
    longest[298] = '\0';
    struct shown s = text_shown(longest);
    size_t n = strlen(s.text);
    assert_true(n > 55);
    assert_string_equal(s.text + n - 3, "...");
    assert_int_equal((n - 3) % 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_are_equal),
        cmocka_unit_test(slips_find_their_word),
        cmocka_unit_test(nothing_is_offered_where_nothing_is_near),
        cmocka_unit_test(the_nearest_of_several_wins),
        cmocka_unit_test(words_of_any_length_are_safe),
        cmocka_unit_test(what_is_shown_is_short_and_on_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
