/* override.c - "key.key=value" from a command line into the tree.
 *
 *   engine: dnnl        with  engine.threads=2   is   engine: {kind: dnnl, threads: 2}
 *   model: [relu, ...]  with  model.0.relu.name=r  is   model: [relu: {name: r}, ...]
 *   model: [add: a]     with  model.0.add.name=s   is   model: [add: {from: a, name: s}]
 *
 * What an override writes stands at the place "command line: key.key=value", so later complaints name it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/text.h"
#include "experiment/tree.h"

struct override {
    struct place place;
    struct arena *arena;
};

static fault new_child(const struct override *o, struct node *parent, enum node_kind kind, const char *key,
                       struct node **out)
{
    struct node *node = ARENA_NEW(o->arena, struct node, 1);
    if (!node)
        return OUT_OF_MEMORY;
    *node = (struct node){.kind = kind, .place = o->place, .key_place = o->place, .key = key};
    node_append(parent, node);
    *out = node;
    return OK;
}

static void become_empty_map(struct node *node)
{
    node->kind = NODE_MAP;
    node->text = NULL;
    node->quoted = false;
}

/* The key whose value a section, or a layer in a list, may be written as. */
static const char *short_key(const struct node *node)
{
    const struct node *above = node->parent ? node->parent->parent : NULL;
    if (above && above->kind == NODE_LIST)
        return "from";
    return node->key && text_is(node->key, "topology") && !node->parent->parent ? "graph" : "kind";
}

/* A plain value that is to hold settings was the short form of a map. */
static fault open_value(const struct override *o, struct node *node)
{
    struct node was = *node, *inner = NULL;
    bool in_list = node->parent && node->parent->kind == NODE_LIST;
    become_empty_map(node);
    if (node_is_nothing(&was))
        return OK;
    if (in_list && !tree_is_key(was.text))
        return fail_at(o->place, "'%s' cannot take settings", text_shown(was.text).text);
    TRY(new_child(o, node, in_list ? NODE_MAP : NODE_VALUE, in_list ? was.text : short_key(&was), &inner));
    inner->place = inner->key_place = was.place;
    if (!in_list) {
        inner->text = was.text;
        inner->quoted = was.quoted;
    }
    return OK;
}

static fault item_of(const struct override *o, struct node *list, const char *part, struct node **out)
{
    char path[256];
    node_path(list, path, sizeof path);
    size_t digits = strspn(part, "0123456789");
    if (digits == 0 || part[digits])
        return fail_at(o->place, "%s is a list: its items are named by number, from 0", path);
    size_t i = digits < 9 ? (size_t)atol(part) : list->n;
    if (i >= list->n)
        return fail_at(o->place, "%s has %zu items, numbered from 0; there is no item %s", path, list->n,
                       text_shown(part).text);
    for (*out = list->first; i > 0; i--)
        *out = (*out)->next;
    return OK;
}

static fault step_into(const struct override *o, struct node *node, const char *part, struct node **out)
{
    if (*part == '\0')
        return fail_at(o->place, "an override is written as key=value or key.key=value");
    if (node->kind == NODE_LIST)
        return item_of(o, node, part, out);
    if (node->kind == NODE_VALUE)
        TRY(open_value(o, node));
    for (*out = node->first; *out; *out = (*out)->next)
        if (text_is((*out)->key, part))
            return OK;
    if (!tree_is_key(part))
        return fail_at(o->place, "'%s' cannot be a key: keys are words of letters, digits, '-' and '_'",
                       text_shown(part).text);
    TRY(new_child(o, node, NODE_VALUE, part, out));
    (*out)->text = ""; /* nothing yet: becomes a map when stepped into, or what the override says */
    return OK;
}

/* Takes over the content of `from`, keeping the node's own seat among its siblings. */
static void replace(struct node *node, const struct node *from)
{
    struct node old = *node;
    *node = *from;
    node->key = old.key;
    node->key_place = from->place;
    node->parent = old.parent;
    node->next = old.next;
    for (struct node *child = node->first; child; child = child->next)
        child->parent = node;
}

const char *override_undone(const char *const *overrides, size_t n, const char *assignment)
{
    size_t length = strcspn(assignment, "=");
    for (size_t i = 0; i < n; i++)
        if (strncmp(overrides[i], assignment, length) == 0 && overrides[i][length] == '.')
            return overrides[i];
    return NULL;
}

fault overrides_agree(const char *const *overrides, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *undone = override_undone(overrides, i, overrides[i]);
        if (undone)
            return FAIL(FAULT_EXPERIMENT,
                        "command line: %s: would undo '%s' before it; the whole goes first, then its parts",
                        text_shown(overrides[i]).text, text_shown(undone).text);
    }
    return OK;
}

fault tree_override(struct node *root, const char *assignment, struct arena *arena)
{
    char *source = arena_printf(arena, "command line: %s", text_shown(assignment).text);
    char *path = arena_text(arena, assignment);
    if (!source || !path)
        return OUT_OF_MEMORY;
    struct override o = {{source, 0, 0}, arena};
    char *equals = strchr(path, '=');
    if (!equals)
        return fail_at(o.place, "an override is written as key=value or key.key=value");
    *equals = '\0';
    struct node *value, *node = root;
    TRY(tree_read_at(equals + 1, strlen(equals + 1), o.place, arena, &value));
    size_t depth = 0;
    for (char *rest = path; rest;) {
        char *part = strsep(&rest, ".");
        if (depth++ == TREE_DEPTH)
            return fail_at(o.place, "more than %d keys in a row", TREE_DEPTH);
        TRY(step_into(&o, node, part, &node));
    }
    replace(node, value);
    return OK;
}
