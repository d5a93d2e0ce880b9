/* over.c - lists of values on a command line.
 *
 *   strategy.kind=consensus,gossip
 *   strategy={kind: consensus, every: 5},gossip
 *   machines.speed=[1,1,1,0.5],[1,1,1,0.1]
 */
#include <ctype.h>
#include <string.h>

#include "api/compare/compare.h"
#include "base/text.h"

/* The length of the value at the head of the text: up to a comma outside brackets and quotes. */
static size_t value_length(const char *text)
{
    size_t n = 0, depth = 0;
    char quote = 0;
    for (; text[n]; n++) {
        char c = text[n];
        if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        } else if (c == ',' && !depth) {
            break;
        }
    }
    return n;
}

static const char *trimmed(struct arena *arena, const char *text, size_t n)
{
    while (n && isspace((unsigned char)*text)) {
        text++;
        n--;
    }
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    return arena_printf(arena, "%.*s", (int)n, text);
}

static fault add_value(const char *text, const char *value, struct over *o)
{
    if (!value)
        return OUT_OF_MEMORY;
    if (!*value)
        return FAIL(FAULT_USAGE, "--over %s: a value is missing beside a comma", text_shown(text).text);
    for (size_t i = 0; i < o->n; i++)
        if (text_is(o->values[i], value))
            return FAIL(FAULT_USAGE, "--over %s: the value '%s' stands there twice", text_shown(text).text,
                        text_shown(value).text);
    o->values[o->n++] = value;
    return OK;
}

fault over_read(const char *text, struct arena *arena, struct over *out)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return FAIL(FAULT_USAGE, "--over %s: is written as KEY=VALUE,VALUE,...", text_shown(text).text);
    struct over o = {.key = trimmed(arena, text, (size_t)(equals - text)),
                     .values = ARENA_NEW(arena, const char *, strlen(equals))};
    if (!o.key || !o.values)
        return OUT_OF_MEMORY;
    if (text_is(o.key, "name"))
        return FAIL(FAULT_USAGE, "--over name: runs of a comparison are named after their methods");
    for (const char *at = equals + 1;; at++) {
        size_t n = value_length(at);
        TRY(add_value(text, trimmed(arena, at, n), &o));
        at += n;
        if (!*at)
            break;
    }
    *out = o;
    return OK;
}

/* "{kind: ps, mode: async}" becomes "ps, mode async". */
static void say_map(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (text_starts(from, "kind: ")) {
            from += strlen("kind: ") - 1;
            continue;
        }
        if (strchr("{}\"'", *from) || (from[0] == ':' && from[1] == ' '))
            continue;
        *to++ = iscntrl((unsigned char)*from) ? '?' : *from;
    }
    *to = 0;
}

const char *over_words(const char *key, const char *value, struct arena *arena)
{
    const char *last = strrchr(key, '.');
    char *words = text_is(key, "strategy") || text_is(key, "strategy.kind")
                      ? arena_text(arena, value)
                      : arena_printf(arena, "%s %s", last ? last + 1 : key, value);
    if (words)
        say_map(words);
    return words;
}
