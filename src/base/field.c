/* field.c - the text of one value into a member of a struct, and back.
 *
 *   text -> grammar (plain decimal, a known word) -> value -> range -> member
 *
 * The grammar is checked before the C library sees a number: strtod also takes hexadecimal, "infinity" and
 * blanks, and its decimal point follows the locale. What is printed reads back as the same value, to the last
 * bit.
 */
#include "base/field.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define DIGITS "0123456789"

enum { REAL_TEXT = 40, MOST_SIGNIFICANT = 17 };
static const int64_t MOST_WHOLE = 1000000000000000;
static const double MOST_EVERY = 1e9; /* far beyond any run; keeps later sums of rounds whole */

static void *member_of(const struct field *field, void *settings)
{
    return (char *)settings + field->offset;
}

static const void *member_in(const struct field *field, const void *settings)
{
    return (const char *)settings + field->offset;
}

/* Numbers. */

/* The program's own locale may write 0,5; files never do. */
static locale_t enter_c_locale(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static bool is_decimal(const char *t, bool whole)
{
    t += *t == '-' || *t == '+';
    size_t n = strspn(t, DIGITS);
    t += n;
    if (!whole && *t == '.') {
        size_t after = strspn(t + 1, DIGITS);
        t += 1 + after;
        n += after;
    }
    if (n > 0 && !whole && (*t == 'e' || *t == 'E')) {
        t++;
        t += *t == '-' || *t == '+';
        n = strspn(t, DIGITS);
        t += n;
    }
    return n > 0 && *t == '\0';
}

/* 010 is ten to some readers and eight to others. */
static fault refuse_leading_zero(const char *text)
{
    const char *t = text + (*text == '-' || *text == '+');
    if (t[0] == '0' && t[1] >= '0' && t[1] <= '9')
        return FAIL(FAULT_EXPERIMENT, "'%s' begins with a zero, which some read as octal; write it without",
                    text_shown(text).text);
    return OK;
}

static bool is_infinite_or_nan(const char *text)
{
    static const char *const words[] = {"nan", "inf", "infinity"};
    text += *text == '-' || *text == '+';
    text += *text == '.';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

static fault parse_real(const char *text, double *out)
{
    if (is_infinite_or_nan(text))
        return FAIL(FAULT_EXPERIMENT, "'%s' is not a finite number", text_shown(text).text);
    if (!is_decimal(text, false))
        return FAIL(FAULT_EXPERIMENT, "'%s' is not a number", text_shown(text).text);
    TRY(refuse_leading_zero(text));
    locale_t own = enter_c_locale();
    double value = strtod(text, NULL);
    uselocale(own);
    if (!isfinite(value))
        return FAIL(FAULT_EXPERIMENT, "'%s' is too large to be a finite number", text_shown(text).text);
    if (value == 0 && strcspn(text, "123456789") < strcspn(text, "eE"))
        return FAIL(FAULT_EXPERIMENT, "'%s' is too small to be told from zero", text_shown(text).text);
    *out = value;
    return OK;
}

static fault parse_int(const char *text, int64_t *out)
{
    if (!is_decimal(text, true))
        return FAIL(FAULT_EXPERIMENT, "'%s' is not a whole number", text_shown(text).text);
    TRY(refuse_leading_zero(text));
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE)
        return FAIL(FAULT_EXPERIMENT, "'%s' does not fit into 64 bits", text_shown(text).text);
    *out = value;
    return OK;
}

/* The fewest significant digits that read back as the same double; as 0.001 or 200 where that is not too
 * long. */
static void print_real(double value, char text[REAL_TEXT])
{
    locale_t own = enter_c_locale();
    int digits = 1;
    do
        snprintf(text, REAL_TEXT, "%.*e", digits - 1, value);
    while (strtod(text, NULL) != value && digits++ < MOST_SIGNIFICANT);
    const char *e = strchr(text, 'e');
    int exponent = e ? atoi(e + 1) : 0; /* no `e` in an infinite bound */
    if (e && exponent >= -5 && exponent < 15)
        snprintf(text, REAL_TEXT, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 0, value);
    uselocale(own);
}

static fault check_range(const struct field *field, double value, const char *text)
{
    char bound[REAL_TEXT];
    bool any = field->min == 0 && field->max == 0 && !field->above_min;
    if (!any && (value < field->min || (value == field->min && field->above_min))) {
        print_real(field->min, bound);
        if (field->above_min)
            return FAIL(FAULT_EXPERIMENT, "%s is too small: it must be above %s", text_shown(text).text,
                        bound);
        return FAIL(FAULT_EXPERIMENT, "%s is below the least allowed, %s", text_shown(text).text, bound);
    }
    if (field->max > field->min && value > field->max) {
        print_real(field->max, bound);
        return FAIL(FAULT_EXPERIMENT, "%s is above the most allowed, %s", text_shown(text).text, bound);
    }
    return OK;
}

/* Reading, one function a kind. */

static fault read_int(const struct field *field, const char *text, int64_t *out)
{
    int64_t value = 0;
    if (field->word && text_is(text, field->word)) {
        *out = 0;
        return OK;
    }
    if (field->word && !is_decimal(text, true))
        return FAIL(FAULT_EXPERIMENT, "'%s' is neither a whole number nor '%s'", text_shown(text).text,
                    field->word);
    TRY(parse_int(text, &value));
    TRY(check_range(field, (double)value, text));
    *out = value;
    return OK;
}

static fault read_real(const struct field *field, const char *text, double *out)
{
    double value = 0;
    TRY(parse_real(text, &value));
    TRY(check_range(field, value, text));
    *out = value;
    return OK;
}

static fault read_flag(const char *text, bool *out)
{
    if (!text_is(text, "true") && !text_is(text, "false"))
        return FAIL(FAULT_EXPERIMENT, "'%s' is neither true nor false", text_shown(text).text);
    *out = text_is(text, "true");
    return OK;
}

static fault read_text(const char *text, struct arena *arena, const char **out)
{
    const char *copy = arena_text(arena, text);
    if (!copy)
        return OUT_OF_MEMORY;
    *out = copy;
    return OK;
}

static const char *choice_at(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

static fault unknown_choice(const struct field *field, const char *text)
{
    char all[256] = "";
    for (size_t i = 0, n = 0; field->choices[i] && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", field->choices[i]);
    const char *near = text_nearest(text, choice_at, field->choices);
    if (near)
        return FAIL(FAULT_EXPERIMENT, "'%s' is not one of %s; did you mean '%s'?", text_shown(text).text, all,
                    near);
    return FAIL(FAULT_EXPERIMENT, "'%s' is not one of %s", text_shown(text).text, all);
}

static fault read_choice(const struct field *field, const char *text, int *out)
{
    for (int i = 0; field->choices[i]; i++)
        if (text_is(field->choices[i], text)) {
            *out = i;
            return OK;
        }
    return unknown_choice(field, text);
}

static bool unit_of(const char *word, enum every_unit *out)
{
    *out = text_starts(word, "round") ? EVERY_ROUNDS : EVERY_EPOCHS;
    return text_is(word, "epoch") || text_is(word, "epochs") || text_is(word, "round") ||
           text_is(word, "rounds");
}

static fault read_every(const struct field *field, const char *text, struct every *out)
{
    if (text_is(text, "never")) {
        *out = (struct every){0};
        return OK;
    }
    char number[REAL_TEXT];
    size_t n = strcspn(text, " ");
    struct every every;
    if (n == 0 || n >= sizeof number || !unit_of(text + n + strspn(text + n, " "), &every.unit))
        return FAIL(FAULT_EXPERIMENT,
                    "'%s' is not a time such as '1 epoch', '0.5 epochs', '100 rounds' or 'never'",
                    text_shown(text).text);
    memcpy(number, text, n);
    number[n] = '\0';
    TRY(parse_real(number, &every.count));
    if (every.count <= 0)
        return FAIL(FAULT_EXPERIMENT, "%s is too small: it must be above 0 %s, or 'never'", number,
                    every.unit == EVERY_ROUNDS ? "rounds" : "epochs");
    if (every.unit == EVERY_ROUNDS && every.count != floor(every.count))
        return FAIL(FAULT_EXPERIMENT, "'%s' is not a whole number of rounds", text_shown(text).text);
    if (every.count > MOST_EVERY)
        return FAIL(FAULT_EXPERIMENT, "%s is above the most allowed, 1000000000", number);
    TRY(check_range(field, every.count, number));
    *out = every;
    return OK;
}

/* A whole number that a double holds exactly and that is printed without an exponent. */
static fault read_whole(const struct field *field, const char *text, double *out)
{
    int64_t value = 0;
    TRY(parse_int(text, &value));
    if (value >= MOST_WHOLE || value <= -MOST_WHOLE)
        return FAIL(FAULT_EXPERIMENT, "%s is too large a number for a list", text_shown(text).text);
    TRY(check_range(field, (double)value, text));
    *out = (double)value;
    return OK;
}

static fault read_reals(const struct field *field, const char *const *texts, size_t n, struct arena *arena,
                        struct reals *out)
{
    double *at = n > 0 ? ARENA_NEW(arena, double, n) : NULL;
    if (n > 0 && !at)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        TRY(field->whole ? read_whole(field, texts[i], &at[i]) : read_real(field, texts[i], &at[i]));
    *out = (struct reals){at, n};
    return OK;
}

static fault read_texts(const char *const *texts, size_t n, struct arena *arena, struct texts *out)
{
    const char **at = n > 0 ? ARENA_NEW(arena, const char *, n) : NULL;
    if (n > 0 && !at)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        TRY(read_text(texts[i], arena, &at[i]));
    *out = (struct texts){at, n};
    return OK;
}

fault field_read_list(const struct field *field, const char *const *texts, size_t n, struct arena *arena,
                      void *settings)
{
    void *member = member_of(field, settings);
    return field->kind == FIELD_TEXTS ? read_texts(texts, n, arena, member)
                                    : read_reals(field, texts, n, arena, member);
}

/* "[1, 2]" as the defaults in a table are written; a file's lists come as nodes, through field_read_list. */
static fault read_written_list(const struct field *field, const char *text, struct arena *arena, void *settings)
{
    size_t length = strlen(text);
    if (text[0] != '[')
        return field_read_list(field, &text, 1, arena, settings);
    if (text[length - 1] != ']')
        return FAIL(FAULT_EXPERIMENT, "'%s' is not a list of numbers", text_shown(text).text);
    char *inside = arena_text(arena, text + 1);
    const char **texts = ARENA_NEW(arena, const char *, length);
    if (!inside || !texts)
        return OUT_OF_MEMORY;
    inside[length - 2] = '\0';
    size_t n = 0;
    char *rest = inside;
    for (char *word; (word = strtok_r(rest, ", ", &rest)) != NULL;)
        texts[n++] = word;
    return field_read_list(field, texts, n, arena, settings);
}

fault field_read(const struct field *field, const char *text, struct arena *arena, void *settings)
{
    void *member = member_of(field, settings);
    switch (field->kind) {
    case FIELD_INT:
        return read_int(field, text, member);
    case FIELD_REAL:
        return read_real(field, text, member);
    case FIELD_FLAG:
        return read_flag(text, member);
    case FIELD_TEXT:
        return read_text(text, arena, member);
    case FIELD_CHOICE:
        return read_choice(field, text, member);
    case FIELD_EVERY:
        return read_every(field, text, member);
    case FIELD_REALS:
        return read_written_list(field, text, arena, settings);
    case FIELD_TEXTS:
        return field_read_list(field, &text, 1, arena, settings);
    }
    return FAIL(FAULT_USAGE, "the setting '%s' is of no known kind", field->name);
}

fault field_defaults(const struct field *fields, size_t n, struct arena *arena, void *settings)
{
    for (size_t i = 0; i < n; i++) {
        fault f = fields[i].fallback ? field_read(&fields[i], fields[i].fallback, arena, settings) : OK;
        if (f)
            return fault_before(f, "the default of '%s': ", fields[i].name);
    }
    return OK;
}

/* Printing. */

static bool is_plain(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "/";
    size_t first = strspn(text, letters);
    return first > 0 &&
           text[first + strspn(text + first, "abcdefghijklmnopqrstuvwxyz"
                                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "/._+-")] == '\0';
}

/* Characters beyond ASCII that YAML takes for line breaks, marks or no characters at all. */
static bool must_escape(const unsigned char *at, size_t n, unsigned *code)
{
    static const unsigned char lead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    *code = at[0] & lead[n];
    for (size_t i = 1; i < n; i++)
        *code = *code << 6 | (at[i] & 0x3F);
    return *code < 0x20 || (*code >= 0x7F && *code <= 0xA0) || *code == 0x2028 || *code == 0x2029 ||
           *code == 0xFEFF || *code == 0xFFFE || *code == 0xFFFF;
}

static size_t character_bytes(const unsigned char *at)
{
    size_t n = at[0] < 0xC0 ? 1 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 1;
    return n;
}

const char *field_print_text(const char *text, struct arena *arena)
{
    if (is_plain(text))
        return arena_text(arena, text);
    char *out = arena_take(arena, 6 * strlen(text) + 3), *o = out;
    if (!out)
        return NULL;
    *o++ = '"';
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        unsigned code;
        size_t n = character_bytes(at);
        if (must_escape(at, n, &code))
            o += sprintf(o, "\\u%04X", code & 0xFFFF);
        else {
            if (*at == '"' || *at == '\\')
                *o++ = '\\';
            memcpy(o, at, n);
            o += n;
        }
        at += n;
    }
    memcpy(o, "\"", 2);
    return out;
}

static const char *print_every(const struct every *every, struct arena *arena)
{
    if (every->unit == EVERY_NEVER)
        return "never";
    char count[REAL_TEXT];
    print_real(every->count, count);
    return arena_printf(arena, "%s %s%s", count, every->unit == EVERY_EPOCHS ? "epoch" : "round",
                        every->count == 1 ? "" : "s");
}

static const char *print_reals(const struct reals *reals, struct arena *arena)
{
    char *text = arena_take(arena, (REAL_TEXT + 2) * reals->n + 3), *t = text;
    if (!text)
        return NULL;
    *t++ = '[';
    for (size_t i = 0; i < reals->n; i++) {
        char number[REAL_TEXT];
        print_real(reals->at[i], number);
        t += sprintf(t, "%s%s", i ? ", " : "", number);
    }
    memcpy(t, "]", 2);
    return text;
}

static const char *print_texts(const struct texts *texts, struct arena *arena)
{
    const char **words = ARENA_NEW(arena, const char *, texts->n + 1);
    size_t n = sizeof "[]";
    for (size_t i = 0; words && i < texts->n; i++) {
        words[i] = field_print_text(texts->at[i], arena);
        if (!words[i])
            return NULL;
        n += strlen(words[i]) + 2;
    }
    char *text = words ? arena_take(arena, n) : NULL, *t = text;
    if (!text)
        return NULL;
    *t++ = '[';
    for (size_t i = 0; i < texts->n; i++)
        t = stpcpy(stpcpy(t, i ? ", " : ""), words[i]);
    memcpy(t, "]", 2);
    return text;
}

const char *field_print(const struct field *field, const void *settings, struct arena *arena)
{
    const void *member = member_in(field, settings);
    char number[REAL_TEXT];
    switch (field->kind) {
    case FIELD_INT:
        if (field->word && *(const int64_t *)member == 0)
            return field->word;
        return arena_printf(arena, "%lld", (long long)*(const int64_t *)member);
    case FIELD_REAL:
        print_real(*(const double *)member, number);
        return arena_text(arena, number);
    case FIELD_FLAG:
        return *(const bool *)member ? "true" : "false";
    case FIELD_TEXT:
        return *(const char *const *)member ? field_print_text(*(const char *const *)member, arena) : "~";
    case FIELD_CHOICE:
        return field->choices[*(const int *)member];
    case FIELD_EVERY:
        return print_every(member, arena);
    case FIELD_REALS:
        return print_reals(member, arena);
    case FIELD_TEXTS:
        return print_texts(member, arena);
    }
    return NULL;
}

bool field_is_unset(const struct field *field, const void *settings)
{
    const void *member = member_in(field, settings);
    if (field->fallback || !field->optional)
        return false;
    switch (field->kind) {
    case FIELD_INT:
        return *(const int64_t *)member == 0;
    case FIELD_REAL:
        return *(const double *)member == 0 && !signbit(*(const double *)member);
    case FIELD_FLAG:
        return !*(const bool *)member;
    case FIELD_TEXT:
        return !*(const char *const *)member;
    case FIELD_CHOICE:
        return *(const int *)member == 0;
    case FIELD_EVERY:
        return ((const struct every *)member)->unit == EVERY_NEVER;
    case FIELD_REALS:
        return ((const struct reals *)member)->n == 0;
    case FIELD_TEXTS:
        return ((const struct texts *)member)->n == 0;
    }
    return false;
}

const char *field_kind_name(enum field_kind k)
{
    static const char *const names[] = {
        [FIELD_INT] = "a whole number",        [FIELD_REAL] = "a number",
        [FIELD_FLAG] = "true or false",        [FIELD_TEXT] = "a text",
        [FIELD_CHOICE] = "one of a few words", [FIELD_EVERY] = "a time such as '1 epoch'",
        [FIELD_REALS] = "a list of numbers",   [FIELD_TEXTS] = "a list of texts",
    };
    return names[k];
}
