/* changes.c - in which settings two resolved experiments differ.
 *
 * Both texts are as experiment_print writes them: every setting is there, always in the same order, so that
 * the first setting that differs is also the one that makes others differ (a kind before its settings).
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "experiment/experiment.h"

struct difference {
    struct arena *arena; /* borrowed */
    struct change *at;   /* owned */
    size_t n;
    bool is_full; /* memory was out */
};

enum { MOST_WRITTEN = 8 }; /* of a list or map */

/* A node as one would write it on a line, its first few items; NULL when memory is out. */
static const char *written(const struct node *node, struct arena *arena)
{
    bool is_map = node->kind == NODE_MAP;
    const char *text = is_map ? "{" : "[", *comma = "";
    size_t i = 0;
    if (node->kind == NODE_VALUE)
        return node->text;
    for (const struct node *child = node->first; child && text && i < MOST_WRITTEN;
         child = child->next, i++) {
        const char *value = written(child, arena);
        text = value ? arena_printf(arena, "%s%s%s%s%s", text, comma, is_map ? child->key : "",
                                    is_map ? ": " : "", value)
                     : NULL;
        comma = ", ";
    }
    return text ? arena_printf(arena, "%s%s%s", text, i < node->n ? ", ..." : "", is_map ? "}" : "]") : NULL;
}

static void add(struct difference *d, const struct node *was, const struct node *is)
{
    char path[256];
    struct change *more = realloc(d->at, (d->n + 1) * sizeof *more);
    node_path(was ? was : is, path, sizeof path);
    struct change c = {arena_text(d->arena, path), was ? written(was, d->arena) : "",
                       is ? written(is, d->arena) : ""};
    if (more)
        d->at = more;
    if (more && c.key && c.was && c.is)
        d->at[d->n++] = c;
    else
        d->is_full = true;
}

static bool is_plain_list(const struct node *list)
{
    for (const struct node *child = list->first; child; child = child->next)
        if (child->kind != NODE_VALUE)
            return false;
    return true;
}

static bool is_same_value(const struct node *was, const struct node *is)
{
    const struct node *a = was->first, *b = is->first;
    if (was->kind == NODE_VALUE)
        return text_is(was->text, is->text);
    for (; a && b && text_is(a->text, b->text); a = a->next)
        b = b->next;
    return !a && !b;
}

static void compare(struct difference *d, const struct node *was, const struct node *is);

static void compare_maps(struct difference *d, const struct node *was, const struct node *is)
{
    for (const struct node *child = was->first; child; child = child->next) {
        const struct node *other = node_find(is, child->key);
        if (other)
            compare(d, child, other);
        else
            add(d, child, NULL);
    }
    for (const struct node *child = is->first; child; child = child->next)
        if (!node_find(was, child->key))
            add(d, NULL, child);
}

static void compare(struct difference *d, const struct node *was, const struct node *is)
{
    if (was->kind == NODE_MAP && is->kind == NODE_MAP) {
        compare_maps(d, was, is);
    } else if (was->kind != is->kind || was->n != is->n) {
        add(d, was, is);
    } else if (was->kind == NODE_VALUE || (is_plain_list(was) && is_plain_list(is))) {
        if (!is_same_value(was, is))
            add(d, was, is);
    } else {
        for (const struct node *a = was->first, *b = is->first; a && b; a = a->next, b = b->next)
            compare(d, a, b);
    }
}

fault experiment_changes(const char *was, const char *is, struct arena *arena, struct change **out, size_t *n)
{
    struct node *before, *after;
    struct difference d = {.arena = arena};
    TRY(tree_read(was, strlen(was), "the experiment of a checkpoint", arena, &before));
    TRY(tree_read(is, strlen(is), "an experiment", arena, &after));
    compare(&d, before, after);
    if (d.is_full) {
        free(d.at);
        return OUT_OF_MEMORY;
    }
    *out = d.at;
    *n = d.n;
    return OK;
}
