/* tree.c - libyaml's events into nodes.
 *
 *   bytes -> yaml_event_t -> struct token (checked, copied, the event freed) -> struct node
 *
 * Every event passes through next_token, which refuses what experiments do not use; so nothing of libyaml is
 * held while the tree is built, and every node has a place.
 */
#include "experiment/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/field.h"
#include "base/text.h"

struct token {
    yaml_event_type_t type;
    struct place place;
    const char *text; /* of a scalar */
    bool quoted;
};

struct reader {
    yaml_parser_t parser;
    const char *text;   /* what is read, to turn an offset into a line */
    struct place place; /* the source; line 0 where lines mean nothing */
    struct arena *arena;
    size_t n_nodes;
};

static struct place place_of(const struct reader *r, yaml_mark_t mark)
{
    if (r->place.line == 0)
        return r->place;
    return (struct place){r->place.source, mark.line + 1, mark.column + 1};
}

/* libyaml gives no line for bytes that are no characters, only how many came before them. */
static struct place place_of_byte(const struct reader *r, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset; i++) {
        if (r->text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)r->text[i] & 0xC0) != 0x80) {
            mark.column++;
        }
    }
    return place_of(r, mark);
}

static fault syntax_fault(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return OUT_OF_MEMORY;
    if (p->error == YAML_READER_ERROR)
        return fail_at(place_of_byte(r, p->problem_offset), "this byte cannot stand in YAML text: %s",
                       p->problem);
    return fail_at(place_of(r, p->problem_mark), "this is not YAML: %s%s%s", p->problem,
                   p->context ? " " : "", p->context ? p->context : "");
}

static fault check_event(const yaml_event_t *event, struct place place)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
            return fail_at(place, "a text cannot hold a zero byte");
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    }
    if (anchor || event->type == YAML_ALIAS_EVENT)
        return fail_at(place, "anchors (&) and aliases (*) are not used in experiments");
    if (tag)
        return fail_at(place, "tags (!) are not used in experiments");
    return OK;
}

static fault next_token(struct reader *r, struct token *out)
{
    yaml_event_t event;
    if (!yaml_parser_parse(&r->parser, &event))
        return syntax_fault(r);
    struct token token = {.type = event.type, .place = place_of(r, event.start_mark)};
    fault f = check_event(&event, token.place);
    if (!f && event.type == YAML_SCALAR_EVENT) {
        yaml_scalar_style_t style = event.data.scalar.style;
        token.quoted = style != YAML_PLAIN_SCALAR_STYLE && style != YAML_ANY_SCALAR_STYLE;
        token.text = arena_text(r->arena, (const char *)event.data.scalar.value);
        if (!token.text)
            f = OUT_OF_MEMORY;
    }
    yaml_event_delete(&event);
    if (!f)
        *out = token;
    return f;
}

/* Nodes. */

static fault new_node(struct reader *r, const struct token *token, struct node **out)
{
    if (++r->n_nodes > TREE_NODES)
        return fail_at(token->place, "more than %d values in one file", TREE_NODES);
    struct node *node = ARENA_NEW(r->arena, struct node, 1);
    if (!node)
        return OUT_OF_MEMORY;
    node->kind = token->type == YAML_MAPPING_START_EVENT    ? NODE_MAP
                 : token->type == YAML_SEQUENCE_START_EVENT ? NODE_LIST
                                                            : NODE_VALUE;
    node->place = token->place;
    node->text = token->text;
    node->quoted = token->quoted;
    *out = node;
    return OK;
}

bool tree_is_key(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *text && strchr(letters, *text) &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] == '\0';
}

static fault check_key(const struct node *map, const struct token *key)
{
    if (key->type != YAML_SCALAR_EVENT)
        return fail_at(key->place, "a %s cannot be a key",
                       key->type == YAML_MAPPING_START_EVENT ? "map" : "list");
    if (!tree_is_key(key->text))
        return fail_at(key->place, "'%s' cannot be a key: keys are words of letters, digits, '-' and '_'",
                       text_shown(key->text).text);
    const struct node *twin = node_find(map, key->text);
    if (twin) {
        struct node second = *twin;
        second.key_place = key->place;
        return twin->key_place.line
                   ? fail_key(&second, "this key is written twice, first in line %zu", twin->key_place.line)
                   : fail_key(&second, "this key is written twice");
    }
    if (map->n == TREE_KEYS)
        return fail_at(key->place, "more than %d keys in one map", TREE_KEYS);
    return OK;
}

/* Reads the members of a list or map whose first event has been read. */
static fault fill(struct reader *r, struct node *node, size_t depth)
{
    if (node->kind == NODE_VALUE)
        return OK;
    if (depth == TREE_DEPTH)
        return fail_at(node->place, "lists and maps are nested more than %d deep", TREE_DEPTH);
    for (struct node *last = NULL;;) {
        struct token key = {0}, value;
        struct node *child = NULL;
        TRY(next_token(r, &value));
        if (value.type == YAML_MAPPING_END_EVENT || value.type == YAML_SEQUENCE_END_EVENT)
            return OK;
        if (node->kind == NODE_MAP) {
            key = value;
            TRY(check_key(node, &key));
            TRY(next_token(r, &value));
        }
        TRY(new_node(r, &value, &child));
        child->key = key.text;
        child->key_place = key.place;
        child->parent = node;
        *(last ? &last->next : &node->first) = child;
        last = child;
        node->n++;
        TRY(fill(r, child, depth + 1));
    }
}

static fault read_document(struct reader *r, struct node **out)
{
    struct token token;
    struct node *top = NULL;
    TRY(next_token(r, &token)); /* the stream begins */
    TRY(next_token(r, &token));
    if (token.type == YAML_STREAM_END_EVENT)
        return fail_at(token.place, "nothing is written here");
    TRY(next_token(r, &token)); /* after the document's begin */
    TRY(new_node(r, &token, &top));
    TRY(fill(r, top, 0));
    TRY(next_token(r, &token)); /* the document ends */
    TRY(next_token(r, &token));
    if (token.type != YAML_STREAM_END_EVENT)
        return fail_at(token.place, "a second document begins here; an experiment is one document");
    *out = top;
    return OK;
}

static fault read_text(struct reader *r, const char *text, size_t n_bytes, struct node **out)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* some editors put a byte order mark before UTF-8 */
    if (n_bytes >= 3 && memcmp(text, mark, 3) == 0) {
        text += 3;
        n_bytes -= 3;
    }
    if (!yaml_parser_initialize(&r->parser))
        return OUT_OF_MEMORY;
    r->text = text;
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, n_bytes);
    fault f = read_document(r, out);
    yaml_parser_delete(&r->parser);
    return f;
}

fault tree_read(const char *text, size_t n_bytes, const char *source, struct arena *arena, struct node **out)
{
    struct reader r = {.place = {source, 1, 1}, .arena = arena};
    return read_text(&r, text, n_bytes, out);
}

fault tree_read_at(const char *text, size_t n_bytes, struct place place, struct arena *arena,
                   struct node **out)
{
    struct reader r = {.place = {place.source, 0, 0}, .arena = arena};
    return read_text(&r, text, n_bytes, out);
}

const struct node *node_find(const struct node *map, const char *key)
{
    if (map->kind != NODE_MAP)
        return NULL;
    for (const struct node *n = map->first; n; n = n->next)
        if (text_is(n->key, key))
            return n;
    return NULL;
}

bool node_is_nothing(const struct node *node)
{
    return node->kind == NODE_VALUE && !node->quoted && (text_is(node->text, "") || text_is(node->text, "~"));
}

void node_append(struct node *parent, struct node *child)
{
    struct node **end = &parent->first;
    while (*end)
        end = &(*end)->next;
    *end = child;
    child->parent = parent;
    parent->n++;
}

/* Places in sentences. */

static size_t index_of(const struct node *node)
{
    size_t i = 0;
    for (const struct node *n = node->parent->first; n != node; n = n->next)
        i++;
    return i;
}

void node_path(const struct node *node, char *path, size_t n)
{
    path[0] = '\0';
    if (!node->parent)
        return;
    node_path(node->parent, path, n);
    size_t used = strlen(path);
    const char *dot = used ? "." : "";
    if (node->key)
        snprintf(path + used, n - used, "%s%s", dot, node->key);
    else
        snprintf(path + used, n - used, "%s%zu", dot, index_of(node));
}

static fault fail_with(struct place place, const char *path, const char *format, va_list args)
{
    char sentence[768];
    vsnprintf(sentence, sizeof sentence, format, args);
    const char *colon = *path ? ": " : "";
    if (place.line == 0)
        return FAIL(FAULT_EXPERIMENT, "%.200s: %s%s%s", place.source, path, colon, sentence);
    return FAIL(FAULT_EXPERIMENT, "%.200s:%zu:%zu: %s%s%s", place.source, place.line, place.column, path,
                colon, sentence);
}

fault fail_at(struct place place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault f = fail_with(place, "", format, args);
    va_end(args);
    return f;
}

/* "command line: optim.lr=nan" names the key already. */
static bool names_path(const char *source, const char *path)
{
    static const char head[] = "command line: ";
    size_t n = strlen(path);
    return text_starts(source, head) && text_starts(source + strlen(head), path) &&
           source[strlen(head) + n] == '=';
}

static fault fail_on(const struct node *node, struct place place, const char *format, va_list args)
{
    char path[256];
    node_path(node, path, sizeof path);
    if (place.line == 0 && names_path(place.source, path))
        path[0] = '\0';
    return fail_with(place, path, format, args);
}

fault fail_node(const struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault f = fail_on(node, node->place, format, args);
    va_end(args);
    return f;
}

fault fail_key(const struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault f = fail_on(node, node->key ? node->key_place : node->place, format, args);
    va_end(args);
    return f;
}
