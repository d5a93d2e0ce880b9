/* A setting's field turns text into a member, refuses everything else in one sentence, and prints what reads
 * back. */
#include "base/field.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/text.h"
#include "support/comma.h"
#include "support/must.h"

static const char *const colours[] = {"red", "green", "blue", NULL};

struct settings {
    int64_t whole;
    double real;
    bool flag;
    const char *text;
    int colour;
    struct every every;
    struct reals reals;
    struct texts texts;
};

static const struct field fields[] = {
    [FIELD_INT] = {"whole", FIELD_INT, offsetof(struct settings, whole), .fallback = "7"},
    [FIELD_REAL] = {"real", FIELD_REAL, offsetof(struct settings, real), .fallback = "0.25"},
    [FIELD_FLAG] = {"flag", FIELD_FLAG, offsetof(struct settings, flag), .fallback = "true"},
    [FIELD_TEXT] = {"text", FIELD_TEXT, offsetof(struct settings, text), .fallback = "hello"},
    [FIELD_CHOICE] = {"colour", FIELD_CHOICE, offsetof(struct settings, colour), .fallback = "green",
                      .choices = colours},
    [FIELD_EVERY] = {"every", FIELD_EVERY, offsetof(struct settings, every), .fallback = "2 epochs"},
    [FIELD_REALS] = {"reals", FIELD_REALS, offsetof(struct settings, reals), .fallback = "[1, 2.5, -3]"},
    [FIELD_TEXTS] = {"texts", FIELD_TEXTS, offsetof(struct settings, texts), .fallback = "hello"},
};
enum { N_ROWS = sizeof fields / sizeof *fields };

static void reads(const struct field *field, const char *text, struct arena *arena, struct settings *out)
{
    fault f = field_read(field, text, arena, out);
    if (f)
        fail_msg("'%s' was refused: %s", text, fault_text(f));
}

/* The value is refused with exactly this sentence, and nothing is written. */
static void refuses(const struct field *field, const char *text, const char *sentence)
{
    struct arena arena = {0};
    struct settings before, after;
    memset(&before, 0x5A, sizeof before);
    memset(&after, 0x5A, sizeof after);
    fault f = field_read(field, text, &arena, &after);
    if (!f)
        fail_msg("'%s' was accepted", text);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_string_equal(fault_text(f), sentence);
    assert_memory_equal(&before, &after, sizeof before);
    fault_drop(f);
    arena_release(&arena);
}

static void defaults_fill_every_kind(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    assert_null(field_defaults(fields, N_ROWS, &arena, &s));
    assert_int_equal(s.whole, 7);
    assert_true(s.real == 0.25);
    assert_true(s.flag);
    assert_string_equal(s.text, "hello");
    assert_int_equal(s.colour, 1);
    assert_int_equal(s.every.unit, EVERY_EPOCHS);
    assert_true(s.every.count == 2);
    assert_int_equal(s.reals.n, 3);
    assert_true(s.reals.at[0] == 1 && s.reals.at[1] == 2.5 && s.reals.at[2] == -3);
    arena_release(&arena);
}

static void a_default_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    const struct field bad = {"whole", FIELD_INT, offsetof(struct settings, whole), .fallback = "seven"};
    fault f = field_defaults(&bad, 1, &arena, &s);
    assert_non_null(f);
    assert_string_equal(fault_text(f), "the default of 'whole': 'seven' is not a whole number");
    fault_drop(f);
    arena_release(&arena);
}

static void a_row_without_a_default_leaves_its_member(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {.whole = 42};
    const struct field none = {"whole", FIELD_INT, offsetof(struct settings, whole), .fallback = NULL};
    assert_null(field_defaults(&none, 1, &arena, &s));
    assert_int_equal(s.whole, 42);
    arena_release(&arena);
}

static void whole_numbers_reach_both_ends_of_64_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"+12", 12},
        {"-12", -12},
        {"1000000", 1000000},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s = {.whole = 99};
        reads(&fields[FIELD_INT], cases[i].text, &arena, &s);
        assert_int_equal(s.whole, cases[i].value);
    }
    arena_release(&arena);
}

static void what_is_no_plain_whole_number_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     " 1",   "1 ",    "1x",    "x",   "1.0", "1e3",
                                      "0x10", "0b1",  "1_000", "1,000", "--1", "+-1", "+",
                                      "-",    "true", "~",     "nan",   "inf", "1\n", "\xD9\xA1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char sentence[100];
        snprintf(sentence, sizeof sentence, "'%s' is not a whole number", text_shown(bad[i]).text);
        refuses(&fields[FIELD_INT], bad[i], sentence);
    }
    refuses(&fields[FIELD_INT], "010", "'010' begins with a zero, which some read as octal; write it without");
    refuses(&fields[FIELD_INT], "-007",
            "'-007' begins with a zero, which some read as octal; write it without");
    refuses(&fields[FIELD_INT], "9223372036854775808", "'9223372036854775808' does not fit into 64 bits");
    refuses(&fields[FIELD_INT], "-9223372036854775809", "'-9223372036854775809' does not fit into 64 bits");
}

static void a_word_may_stand_in_place_of_a_whole_number(void **state)
{
    (void)state;
    const struct field field = {
        "whole", FIELD_INT, offsetof(struct settings, whole), .word = "end", .min = 1, .max = 9};
    struct settings s = {.whole = 99};
    struct arena arena = {0};
    reads(&field, "end", &arena, &s);
    assert_int_equal(s.whole, 0);
    assert_string_equal(field_print(&field, &s, &arena), "end");
    reads(&field, "3", &arena, &s);
    assert_int_equal(s.whole, 3);
    assert_string_equal(field_print(&field, &s, &arena), "3");
    refuses(&field, "ends", "'ends' is neither a whole number nor 'end'");
    refuses(&field, "0", "0 is below the least allowed, 1");
    refuses(&field, "03", "'03' begins with a zero, which some read as octal; write it without");
    arena_release(&arena);
}

static void numbers_are_read_to_the_last_bit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0},
        {"0.1", 0.1},
        {".5", 0.5},
        {"5.", 5},
        {"1e-3", 0.001},
        {"1E+3", 1000},
        {"-2.5e2", -250},
        {"0e999", 0},
        {"0.0", 0},
        {"3.141592653589793", 3.141592653589793},
        {"1.7976931348623157e308", DBL_MAX},
        {"5e-324", 0x1p-1074},
        {"9007199254740993", 9007199254740992.0},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s = {.real = 99};
        reads(&fields[FIELD_REAL], cases[i].text, &arena, &s);
        if (s.real != cases[i].value)
            fail_msg("'%s' was read as %.17g", cases[i].text, s.real);
    }
    arena_release(&arena);
}

static void what_is_no_finite_plain_number_is_refused(void **state)
{
    (void)state;
    static const char *const not_finite[] = {"nan",  "NaN",   ".nan",  "-nan",    "inf",
                                             ".inf", "-.inf", "+.Inf", "Infinity"};
    static const char *const no_number[] = {"",     "x",     "1x",     "1e", "1e+",   "e5",   ".",
                                            "-",    "1.2.3", "1 2",    " 1", "1 ",    "0,5",  "0x1p3",
                                            "0x10", "1e5.5", "nan(1)", "1f", "1e-3-", "true", "~"};
    char sentence[100];
    for (size_t i = 0; i < sizeof not_finite / sizeof *not_finite; i++) {
        snprintf(sentence, sizeof sentence, "'%s' is not a finite number", not_finite[i]);
        refuses(&fields[FIELD_REAL], not_finite[i], sentence);
    }
    for (size_t i = 0; i < sizeof no_number / sizeof *no_number; i++) {
        snprintf(sentence, sizeof sentence, "'%s' is not a number", no_number[i]);
        refuses(&fields[FIELD_REAL], no_number[i], sentence);
    }
    refuses(&fields[FIELD_REAL], "1e999", "'1e999' is too large to be a finite number");
    refuses(&fields[FIELD_REAL], "-1e400", "'-1e400' is too large to be a finite number");
    refuses(&fields[FIELD_REAL], "1e-400", "'1e-400' is too small to be told from zero");
    refuses(&fields[FIELD_REAL], "01.5",
            "'01.5' begins with a zero, which some read as octal; write it without");
}

static void a_number_out_of_range_is_refused_with_the_bound(void **state)
{
    (void)state;
    struct field field = {"real", FIELD_REAL, offsetof(struct settings, real), .min = 0, .max = 1};
    refuses(&field, "12", "12 is above the most allowed, 1");
    refuses(&field, "1.0000000000000002", "1.0000000000000002 is above the most allowed, 1");
    refuses(&field, "-0.001", "-0.001 is below the least allowed, 0");
    field.above_min = true;
    refuses(&field, "0", "0 is too small: it must be above 0");
    refuses(&field, "-1", "-1 is too small: it must be above 0");
    field = (struct field){"whole", FIELD_INT, offsetof(struct settings, whole), .min = -5, .max = 1e6};
    refuses(&field, "-6", "-6 is below the least allowed, -5");
    refuses(&field, "1000001", "1000001 is above the most allowed, 1000000");
}

static void bounds_themselves_are_in_range(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s;
    struct field field = {"real", FIELD_REAL, offsetof(struct settings, real), .min = 0, .max = 1};
    reads(&field, "0", &arena, &s);
    reads(&field, "1", &arena, &s);
    field.min = -1;
    field.max = 0; /* a most of zero is a bound like any other */
    reads(&field, "-1", &arena, &s);
    reads(&field, "0", &arena, &s);
    refuses(&field, "0.5", "0.5 is above the most allowed, 0");
    field.min = 3; /* no most above the least: no most */
    reads(&field, "1e300", &arena, &s);
    refuses(&field, "2", "2 is below the least allowed, 3");
    field = (struct field){"real", FIELD_REAL, offsetof(struct settings, real), .above_min = true};
    reads(&field, "1e300", &arena, &s);
    refuses(&field, "0", "0 is too small: it must be above 0");
    arena_release(&arena);
}

static void a_flag_is_true_or_false_and_nothing_else(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    reads(&fields[FIELD_FLAG], "true", &arena, &s);
    assert_true(s.flag);
    reads(&fields[FIELD_FLAG], "false", &arena, &s);
    assert_false(s.flag);
    refuses(&fields[FIELD_FLAG], "yes", "'yes' is neither true nor false");
    refuses(&fields[FIELD_FLAG], "True", "'True' is neither true nor false");
    refuses(&fields[FIELD_FLAG], "1", "'1' is neither true nor false");
    refuses(&fields[FIELD_FLAG], "", "'' is neither true nor false");
    arena_release(&arena);
}

static void a_choice_is_one_of_its_words(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    reads(&fields[FIELD_CHOICE], "blue", &arena, &s);
    assert_int_equal(s.colour, 2);
    refuses(&fields[FIELD_CHOICE], "gren", "'gren' is not one of red, green, blue; did you mean 'green'?");
    refuses(&fields[FIELD_CHOICE], "vermilion", "'vermilion' is not one of red, green, blue");
    refuses(&fields[FIELD_CHOICE], "Red", "'Red' is not one of red, green, blue; did you mean 'red'?");
    arena_release(&arena);
}

static void times_are_epochs_rounds_or_never(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct every value;
        const char *printed;
    } cases[] = {
        {"1 epoch", {EVERY_EPOCHS, 1}, "1 epoch"},
        {"2 epochs", {EVERY_EPOCHS, 2}, "2 epochs"},
        {"0.5 epochs", {EVERY_EPOCHS, 0.5}, "0.5 epochs"},
        {"1 round", {EVERY_ROUNDS, 1}, "1 round"},
        {"100 rounds", {EVERY_ROUNDS, 100}, "100 rounds"},
        {"1e3 rounds", {EVERY_ROUNDS, 1000}, "1000 rounds"},
        {"never", {EVERY_NEVER, 0}, "never"},
        {"3  epoch", {EVERY_EPOCHS, 3}, "3 epochs"},
        {"1e9 rounds", {EVERY_ROUNDS, 1e9}, "1000000000 rounds"},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s = {.every = {EVERY_ROUNDS, 77}};
        reads(&fields[FIELD_EVERY], cases[i].text, &arena, &s);
        assert_int_equal(s.every.unit, cases[i].value.unit);
        assert_true(s.every.count == cases[i].value.count);
        assert_string_equal(field_print(&fields[FIELD_EVERY], &s, &arena), cases[i].printed);
    }
    arena_release(&arena);
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "5",
                                      "epoch",
                                      "1epoch",
                                      "1 hour",
                                      "1 epoch ",
                                      "1 epochss",
                                      " 1 epoch",
                                      "Never",
                                      "1 2 epochs",
                                      "every epoch and then some more"};
    char sentence[160];
    for (size_t i = 0; i + 1 < sizeof bad / sizeof *bad; i++) {
        snprintf(sentence, sizeof sentence,
                 "'%s' is not a time such as '1 epoch', '0.5 epochs', '100 rounds' or 'never'", bad[i]);
        refuses(&fields[FIELD_EVERY], bad[i], sentence);
    }
    refuses(&fields[FIELD_EVERY], "one epoch", "'one' is not a number");
    refuses(&fields[FIELD_EVERY], "nan epochs", "'nan' is not a finite number");
    refuses(&fields[FIELD_EVERY], "0 epochs", "0 is too small: it must be above 0 epochs, or 'never'");
    refuses(&fields[FIELD_EVERY], "-1 rounds", "-1 is too small: it must be above 0 rounds, or 'never'");
    refuses(&fields[FIELD_EVERY], "0.5 rounds", "'0.5 rounds' is not a whole number of rounds");
    refuses(&fields[FIELD_EVERY], "1e10 epochs", "1e10 is above the most allowed, 1000000000");
    struct field bounded = fields[FIELD_EVERY];
    bounded.min = 2;
    bounded.max = 10;
    refuses(&bounded, "1 epoch", "1 is below the least allowed, 2");
    refuses(&bounded, "11 epochs", "11 is above the most allowed, 10");
}

static void lists_are_read_element_by_element(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    const char *const texts[] = {"1", "1e-3", "-7"};
    assert_null(field_read_list(&fields[FIELD_REALS], texts, 3, &arena, &s));
    assert_int_equal(s.reals.n, 3);
    assert_true(s.reals.at[1] == 0.001 && s.reals.at[2] == -7);
    assert_string_equal(field_print(&fields[FIELD_REALS], &s, &arena), "[1, 0.001, -7]");
    assert_null(field_read_list(&fields[FIELD_REALS], NULL, 0, &arena, &s));
    assert_int_equal(s.reals.n, 0);
    assert_string_equal(field_print(&fields[FIELD_REALS], &s, &arena), "[]");
    reads(&fields[FIELD_REALS], "4.5", &arena, &s);
    assert_int_equal(s.reals.n, 1);
    assert_true(s.reals.at[0] == 4.5);
    reads(&fields[FIELD_REALS], "[]", &arena, &s);
    assert_int_equal(s.reals.n, 0);
    refuses(&fields[FIELD_REALS], "[1, x]", "'x' is not a number");
    refuses(&fields[FIELD_REALS], "[1, 2", "'[1, 2' is not a list of numbers");
    refuses(&fields[FIELD_REALS], "[", "'[' is not a list of numbers");
    struct field bounded = fields[FIELD_REALS];
    bounded.max = 1;
    refuses(&bounded, "[0.5, 2]", "2 is above the most allowed, 1");
    arena_release(&arena);
}

static void whole_numbers_may_be_asked_of_a_list(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    struct field whole = fields[FIELD_REALS];
    whole.whole = true;
    reads(&whole, "[3, -4, 999999999999999]", &arena, &s);
    assert_int_equal(s.reals.n, 3);
    assert_true(s.reals.at[1] == -4 && s.reals.at[2] == 999999999999999);
    assert_string_equal(field_print(&whole, &s, &arena), "[3, -4, 999999999999999]");
    refuses(&whole, "2.5", "'2.5' is not a whole number");
    refuses(&whole, "[1, 1e3]", "'1e3' is not a whole number");
    refuses(&whole, "1000000000000000", "1000000000000000 is too large a number for a list");
    refuses(&whole, "-1000000000000000", "-1000000000000000 is too large a number for a list");
    whole.min = 1;
    refuses(&whole, "[2, 0]", "0 is below the least allowed, 1");
    arena_release(&arena);
}

static void texts_may_be_many(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0};
    const char *const texts[] = {"a.bin", "two words", "", "[x]"};
    assert_null(field_read_list(&fields[FIELD_TEXTS], texts, 4, &arena, &s));
    assert_int_equal(s.texts.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(s.texts.at[i], texts[i]);
    assert_string_equal(field_print(&fields[FIELD_TEXTS], &s, &arena), "[a.bin, \"two words\", \"\", \"[x]\"]");
    reads(&fields[FIELD_TEXTS], "[one, text]", &arena, &s);
    assert_int_equal(s.texts.n, 1);
    assert_string_equal(s.texts.at[0], "[one, text]");
    assert_null(field_read_list(&fields[FIELD_TEXTS], NULL, 0, &arena, &s));
    assert_string_equal(field_print(&fields[FIELD_TEXTS], &s, &arena), "[]");
    arena_release(&arena);
}

static void reals_print_in_the_fewest_digits(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *printed;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {0.1, "0.1"},
        {200, "200"},
        {0.001, "0.001"},
        {1e-5, "0.00001"},
        {1e-7, "1e-07"},
        {123456.75, "123456.75"},
        {1e6, "1000000"},
        {1e14, "100000000000000"},
        {1e15, "1e+15"},
        {1.0 / 3, "0.3333333333333333"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {0x1p-1074, "5e-324"},
        {0.1 + 0.2, "0.30000000000000004"},
        {-42.5, "-42.5"},
        {9007199254740992.0, "9.007199254740992e+15"},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s = {.real = cases[i].value};
        assert_string_equal(field_print(&fields[FIELD_REAL], &s, &arena), cases[i].printed);
    }
    arena_release(&arena);
}

static void any_double_prints_and_reads_back_bit_for_bit(void **state)
{
    (void)state;
    struct rng r = rng_stream(1, 0, RNG_TEST, 0);
    for (int i = 0; i < 20000; i++) {
        struct arena arena = {0};
        struct settings s = {0}, back = {0};
        uint64_t bits = rng_next(&r);
        memcpy(&s.real, &bits, sizeof bits);
        if (i % 2)
            s.real = rng_normal(&r) * pow(10, (double)rng_below(&r, 20) - 10); /* as people's numbers are */
        if (!isfinite(s.real))
            continue;
        reads(&fields[FIELD_REAL], field_print(&fields[FIELD_REAL], &s, &arena), &arena, &back);
        assert_memory_equal(&s.real, &back.real, sizeof s.real);
        arena_release(&arena);
    }
}

static void every_kind_prints_what_reads_back(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct settings s = {0}, back = {0};
    assert_null(field_defaults(fields, N_ROWS, &arena, &s));
    for (size_t i = 0; i < FIELD_TEXTS; i++) { /* texts read back as nodes, not as one text */
        const char *printed = field_print(&fields[i], &s, &arena);
        assert_string_equal(printed, fields[i].fallback);
        reads(&fields[i], printed, &arena, &back);
        assert_string_equal(field_print(&fields[i], &back, &arena), printed);
    }
    arena_release(&arena);
}

static void texts_are_quoted_only_where_they_must_be(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"/a/b.c_d-e+f", "/a/b.c_d-e+f"},
        {"", "\"\""},
        {"~", "\"~\""},
        {"-x", "\"-x\""},
        {"...", "\"...\""},
        {"two words", "\"two words\""},
        {"mlp:784-10", "\"mlp:784-10\""},
        {"say \"hi\" \\ there", "\"say \\\"hi\\\" \\\\ there\""},
        {"a\nb\tc\x7F", "\"a\\u000Ab\\u0009c\\u007F\""},
        {"данные", "\"данные\""},
        {"\xE2\x80\xA8", "\"\\u2028\""},
        {"\xC2\x85", "\"\\u0085\""},
        {"\xEF\xBB\xBF", "\"\\uFEFF\""},
        {"\xF0\x9F\x99\x82", "\"\xF0\x9F\x99\x82\""},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(field_print_text(cases[i][0], &arena), cases[i][1]);
    arena_release(&arena);
}

static void an_optional_member_at_zero_is_unset(void **state)
{
    (void)state;
    struct settings zero = {0};
    struct arena arena = {0};
    struct settings full = {0};
    assert_null(field_defaults(fields, N_ROWS, &arena, &full));
    for (size_t i = 0; i < N_ROWS; i++) {
        struct field field = fields[i];
        assert_false(field_is_unset(&field, &zero)); /* it has a default, so zero was written */
        field.fallback = NULL;
        assert_false(field_is_unset(&field, &zero)); /* it must be written */
        field.optional = true;
        assert_true(field_is_unset(&field, &zero));
        assert_false(field_is_unset(&field, &full));
    }
    arena_release(&arena);
}

static void a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    enter_comma_locale();
    struct arena arena = {0};
    struct settings s = {0};
    reads(&fields[FIELD_REAL], "0.5", &arena, &s);
    assert_true(s.real == 0.5);
    assert_string_equal(field_print(&fields[FIELD_REAL], &s, &arena), "0.5");
    refuses(&fields[FIELD_REAL], "0,5", "'0,5' is not a number");
    arena_release(&arena);
    leave_comma_locale();
}

static void every_kind_has_a_name_for_people(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++)
        assert_true(strlen(field_kind_name((enum field_kind)i)) > 5);
    assert_string_equal(field_kind_name(FIELD_INT), "a whole number");
    assert_string_equal(field_kind_name(FIELD_REAL), "a number");
    assert_string_equal(field_kind_name(FIELD_FLAG), "true or false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_every_kind),
        cmocka_unit_test(a_default_that_cannot_be_read_is_named),
        cmocka_unit_test(a_row_without_a_default_leaves_its_member),
        cmocka_unit_test(whole_numbers_reach_both_ends_of_64_bits),
        cmocka_unit_test(what_is_no_plain_whole_number_is_refused),
        cmocka_unit_test(a_word_may_stand_in_place_of_a_whole_number),
        cmocka_unit_test(numbers_are_read_to_the_last_bit),
        cmocka_unit_test(what_is_no_finite_plain_number_is_refused),
        cmocka_unit_test(a_number_out_of_range_is_refused_with_the_bound),
        cmocka_unit_test(bounds_themselves_are_in_range),
        cmocka_unit_test(a_flag_is_true_or_false_and_nothing_else),
        cmocka_unit_test(a_choice_is_one_of_its_words),
        cmocka_unit_test(times_are_epochs_rounds_or_never),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(lists_are_read_element_by_element),
        cmocka_unit_test(whole_numbers_may_be_asked_of_a_list),
        cmocka_unit_test(texts_may_be_many),
        cmocka_unit_test(reals_print_in_the_fewest_digits),
        cmocka_unit_test(any_double_prints_and_reads_back_bit_for_bit),
        cmocka_unit_test(every_kind_prints_what_reads_back),
        cmocka_unit_test(texts_are_quoted_only_where_they_must_be),
        cmocka_unit_test(an_optional_member_at_zero_is_unset),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_nothing),
        cmocka_unit_test(every_kind_has_a_name_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
