/* decode.c - a map against the fields that say what it may hold.
 *
 * First every key that is there must be known, then every field that is known must be there or have a default:
 * so a misspelt key is named as such, and not as the one that is then missing.
 */
#include "experiment/decode.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { LISTED = 400 }; /* characters of a list of names in a sentence */

struct fields decode_fields_of(enum section_id id, void *settings)
{
    return (struct fields){section_table[id].fields, section_table[id].n_fields, settings};
}

bool experiment_is_name(const char *text)
{
    static const char inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(text);
    return n > 0 && n <= 100 && !strchr("._-", *text) && strspn(text, inner) == n;
}

/* "a, b, c" of the candidates, as far as there is room. */
static void list_names(const char *(*name)(const void *, size_t), const void *ctx, char out[LISTED])
{
    const char *word;
    out[0] = '\0';
    for (size_t i = 0, n = 0; (word = name(ctx, i)) != NULL && n < LISTED; i++)
        n += (size_t)snprintf(out + n, LISTED - n, "%s%s", i ? ", " : "", word);
}

/* Keys. */

/* A kind that may be written as `{NAME: its first setting}`. */
static bool may_be_key(const struct kind *kind)
{
    return kind->n_fields > 0 && !kind->pattern;
}

static const char *key_at(const void *ctx, size_t i)
{
    const struct form *form = ctx;
    for (size_t r = 0; r < 2; r++) {
        if (i < form->fields[r].n)
            return form->fields[r].at[i].name;
        i -= form->fields[r].n;
    }
    for (size_t o = 0; form->others && form->others[o]; o++)
        if (i-- == 0)
            return form->others[o];
    for (size_t k = 0; form->short_kinds && k < form->short_kinds->n; k++)
        if (may_be_key(kinds_at(form->short_kinds, k)) && i-- == 0)
            return kinds_at(form->short_kinds, k)->name;
    return NULL;
}

static bool is_known(const struct form *form, const struct node *node)
{
    const char *known;
    for (size_t i = 0; (known = key_at(form, i)) != NULL; i++)
        if (text_is(known, node->key))
            return true;
    return node == form->first;
}

static fault unknown_key(const struct node *node, const struct form *form)
{
    char path[200], of_kind[80] = "", known[LISTED];
    node_path(node->parent, path, sizeof path);
    if (form->kind)
        snprintf(of_kind, sizeof of_kind, " of kind %s", form->kind->name);
    const char *in = *path ? " in " : "", *near = text_nearest(node->key, key_at, form);
    if (near)
        return fail_key(node, "unknown key '%s'%s%s%s; did you mean '%s'?", text_shown(node->key).text, in,
                        path, of_kind, near);
    list_names(key_at, form, known);
    return fail_key(node, "unknown key '%s'%s%s%s; known are: %s", text_shown(node->key).text, in, path,
                    of_kind, known);
}

/* Values. */

static fault wrong_type(const struct node *node, const char *expected)
{
    if (node->kind == NODE_LIST)
        return fail_node(node, "a list was written where %s is expected", expected);
    if (node->kind == NODE_MAP)
        return fail_node(node, "a map was written where %s is expected", expected);
    if (node_is_nothing(node))
        return fail_node(node, "nothing was written where %s is expected", expected);
    return fail_node(node, "'%s'%s was written where %s is expected", text_shown(node->text).text,
                     node->quoted ? " in quotes" : "", expected);
}

static bool is_numeric(enum field_kind kind)
{
    return kind == FIELD_INT || kind == FIELD_REAL || kind == FIELD_FLAG || kind == FIELD_REALS;
}

static fault check_scalar(const struct node *node, enum field_kind kind, const char *expected)
{
    bool fits = node->kind == NODE_VALUE && !node_is_nothing(node) && !(node->quoted && is_numeric(kind));
    return fits ? OK : wrong_type(node, expected);
}

/* A fault about a value, with the value's place and key put before it. */
static fault at_node(fault f, const struct node *node)
{
    if (!f || fault_kind_of(f) != FAULT_EXPERIMENT)
        return f;
    fault placed = fail_node(node, "%s", fault_text(f));
    fault_drop(f);
    return placed;
}

/* One element by itself, so that a fault has its place. */
static fault check_element(const struct document *d, const struct node *item, const struct field *field)
{
    enum field_kind kind = field->kind == FIELD_TEXTS ? FIELD_TEXT : field->whole ? FIELD_INT : FIELD_REAL;
    TRY(check_scalar(item, kind, field_kind_name(kind)));
    struct field alone = *field;
    union {
        struct reals reals;
        struct texts texts;
    } nowhere;
    alone.offset = 0;
    return at_node(field_read_list(&alone, (const char *const[]){item->text}, 1, d->arena, &nowhere), item);
}

static fault decode_list(const struct document *d, const struct node *list, const struct field *field,
                         void *settings)
{
    const char **texts = ARENA_NEW(d->arena, const char *, list->n + 1);
    if (!texts)
        return OUT_OF_MEMORY;
    size_t n = 0;
    for (const struct node *item = list->first; item; item = item->next) {
        TRY(check_element(d, item, field));
        texts[n++] = item->text;
    }
    return field_read_list(field, texts, n, d->arena, settings);
}

fault decode_field(const struct document *d, const struct node *node, const struct field *field, void *settings)
{
    bool lists = field->kind == FIELD_REALS || field->kind == FIELD_TEXTS;
    if (lists && node->kind == NODE_LIST)
        return decode_list(d, node, field, settings);
    TRY(check_scalar(node, field->kind, field_kind_name(field->kind)));
    return at_node(field_read(field, node->text, d->arena, settings), node);
}

static fault decode_one(const struct document *d, const struct node *node, const struct field *field,
                        void *settings, const struct node *blamed)
{
    if (node)
        return decode_field(d, node, field, settings);
    if (field->fallback)
        return field_defaults(field, 1, d->arena, settings);
    return field->optional ? OK : fail_node(blamed, "the key '%s' is missing (%s)", field->name, field->help);
}

static fault decode_fields(const struct document *d, const struct node *map, const struct fields *fields,
                           const struct node *first, const struct node *blamed)
{
    for (size_t i = 0; i < fields->n; i++) {
        const struct field *field = &fields->at[i];
        const struct node *node = map ? node_find(map, field->name) : NULL;
        if (i == 0 && first && node && node != first)
            return fail_key(node, "this is written already, as '%s'", first->key);
        TRY(decode_one(d, i == 0 && first ? first : node, field, fields->settings, blamed));
    }
    return OK;
}

fault decode_map(const struct document *d, const struct node *map, const struct form *form,
                 const struct node *blamed)
{
    if (map && map->kind != NODE_MAP)
        return wrong_type(map, "a map of settings");
    for (const struct node *node = map ? map->first : NULL; node; node = node->next)
        if (!is_known(form, node))
            return unknown_key(node, form);
    TRY(decode_fields(d, map, &form->fields[0], form->first, blamed));
    return decode_fields(d, map, &form->fields[1], NULL, blamed);
}

/* Choices. */

static const char *kind_at(const void *ctx, size_t i)
{
    const struct kinds *kinds = ctx;
    return i < kinds->n ? kinds_at(kinds, i)->name : NULL;
}

static fault unknown_kind(const struct node *node, const char *name, enum category category,
                          const struct kinds *kinds)
{
    const char *near = kind_nearest(kinds, name);
    if (near)
        return fail_node(node, "'%s' is not among the %s; did you mean '%s'?", text_shown(name).text,
                         category_name(category), near);
    char known[LISTED];
    list_names(kind_at, kinds, known);
    return fail_node(node, "'%s' is not among the %s: %s", text_shown(name).text, category_name(category),
                     known);
}

fault decode_kind(const struct document *d, const struct node *node, const char *name, enum category category,
                  struct choice *out)
{
    const struct kinds *kinds = &d->registry->of[category];
    const struct kind *kind = kind_find(kinds, name);
    if (!kind)
        return unknown_kind(node, name, category, kinds);
    if (kind->missing)
        return fail_node(node, "'%s' cannot be used: %s", kind->name, kind->missing);
    const char *colon = kind->pattern ? strchr(name, ':') : NULL;
    if (kind->pattern && (!colon || !colon[1]))
        return fail_node(node, "'%s' says too little: it is written as %s", name, kind->pattern);
    *out = (struct choice){
        .kind = kind, .tail = colon ? arena_text(d->arena, colon + 1) : NULL, .place = node->place};
    out->settings = kind->n_fields ? arena_take(d->arena, kind->size) : NULL;
    if ((kind->n_fields && !out->settings) || (colon && !out->tail))
        return OUT_OF_MEMORY;
    return OK;
}

/* Whether a kind's first setting stands for the whole choice: `speed: 2`, `speed: [1, 2]`. */
static bool is_bare(const struct node *node, const struct form *form)
{
    if (!form->bare || node->kind == NODE_MAP)
        return false;
    return node->kind == NODE_LIST || (!node->quoted && *node->text && strchr("+-.0123456789", *node->text));
}

/* The member of a map that is written under the name of a kind, or NULL. A key of the section is no such
 * name. */
static const struct node *find_short(const struct node *map, const struct kinds *kinds,
                                     const struct form *form)
{
    for (const struct node *node = map->first; node; node = node->next) {
        const struct kind *kind = kind_find(kinds, node->key);
        if (kind && may_be_key(kind) && !is_known(form, node))
            return node;
    }
    return NULL;
}

const struct node *decode_first_setting(const struct node *choice, const struct kind *kind)
{
    const struct node *named = node_find(choice, kind->name), *set = node_find(choice, kind->fields[0].name);
    return node_find(choice, "kind") || !named ? (set ? set : choice) : named;
}

static fault decode_named(const struct document *d, const struct node *node, const struct node *named,
                          const char *name, enum category category, struct form form, struct choice *out)
{
    const struct node *blamed = node ? node : d->top;
    TRY(decode_kind(d, named ? named : blamed, name, category, out));
    form.kind = out->kind;
    form.fields[0] = (struct fields){out->kind->fields, out->kind->n_fields, out->settings};
    return decode_map(d, node && node->kind == NODE_MAP ? node : NULL, &form, blamed);
}

fault decode_choice(const struct document *d, const struct node *node, enum category category,
                    const char *fallback, struct form form, struct choice *out)
{
    const struct kinds *kinds = &d->registry->of[category];
    if (!node)
        return decode_named(d, NULL, NULL, fallback, category, form, out);
    if (is_bare(node, &form)) {
        form.first = node;
        return decode_named(d, node, node, form.bare, category, form, out);
    }
    if (node->kind == NODE_LIST)
        return wrong_type(node, "a name or a map with the key 'kind'");
    const struct node *named = node->kind == NODE_MAP ? node_find(node, "kind") : node;
    if (named) {
        TRY(check_scalar(named, FIELD_TEXT, "a name"));
        return decode_named(d, node, named, named->text, category, form, out);
    }
    form.first = find_short(node, kinds, &form);
    if (form.first) {
        struct node name = *form.first; /* complaints about the kind are about the key */
        name.place = name.key_place;
        return decode_named(d, node, &name, name.key, category, form, out);
    }
    if (!fallback)
        return fail_node(node, "the key 'kind' is missing (one of the %s)", category_name(category));
    form.short_kinds = kinds;
    return decode_named(d, node, NULL, fallback, category, form, out);
}
