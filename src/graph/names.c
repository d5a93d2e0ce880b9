/* names.c - see names.h. */
#include "graph/names.h"

#include <string.h>

#include "base/text.h"

enum { LISTED = 400 }; /* characters of a list of names in a sentence */

static const char samples_name[] = "input";

static struct output *new_output(struct builder *b, struct names *n)
{
    if (n->n == n->room) {
        size_t room = n->room ? 2 * n->room : 16;
        struct output *longer = ARENA_NEW(n->arena, struct output, room);
        if (!longer) {
            build_fail(b, OUT_OF_MEMORY);
            return NULL;
        }
        if (n->n)
            memcpy(longer, n->at, n->n * sizeof *longer);
        n->at = longer;
        n->room = room;
    }
    return &n->at[n->n++];
}

static void refuse_twins(struct builder *b, const struct names *n, const char *name)
{
    for (size_t i = 1; i < n->n && !b->fault; i++)
        if (text_is(n->at[i].name, name))
            build_fail(b, FAIL(FAULT_EXPERIMENT, "the name '%s' is taken by another layer", name));
}

static void collect(struct builder *b, const struct scope *scope, const struct layer *first);

/* The body's layers; they have the residual's name before their own. */
static void collect_body(struct builder *b, const struct scope *around, const char *name,
                         const struct layer *residual)
{
    struct scope *body = ARENA_NEW(around->names->arena, struct scope, 1);
    const char *prefix = build_name(b, "%s.", name);
    if (!body)
        build_fail(b, OUT_OF_MEMORY);
    if (b->fault)
        return;
    *body = (struct scope){around->names, around, prefix, residual->name ? around->open : strlen(prefix)};
    collect(b, body, residual->body);
}

static void collect_layer(struct builder *b, const struct scope *scope, const struct layer *l, size_t number)
{
    b->place = l->place;
    const char *name = l->name ? build_name(b, "%s%s", scope->prefix, l->name)
                               : build_name(b, "%s%zu", scope->prefix, number);
    if (l->name && text_is(l->name, samples_name))
        build_fail(
            b, FAIL(FAULT_EXPERIMENT, "'%s' stands for the samples and cannot be a layer's name", l->name));
    refuse_twins(b, scope->names, name);
    struct output *o = b->fault ? NULL : new_output(b, scope->names);
    if (!o)
        return;
    *o = (struct output){.name = name, .layer = l, .scope = scope, .tensor = -1};
    if (l->body)
        collect_body(b, scope, name, l);
}

static void collect(struct builder *b, const struct scope *scope, const struct layer *first)
{
    size_t number = 0;
    for (const struct layer *l = first; l && !b->fault; l = l->next)
        collect_layer(b, scope, l, number++);
}

void names_collect(struct builder *b, int x, const struct layer *first, struct names *names)
{
    *names = (struct names){.arena = &b->g->arena, .n_begun = 1};
    struct scope *whole = ARENA_NEW(names->arena, struct scope, 1);
    struct output *samples = whole ? new_output(b, names) : NULL;
    if (!samples) {
        build_fail(b, OUT_OF_MEMORY);
        return;
    }
    *whole = (struct scope){.names = names, .prefix = ""};
    *samples = (struct output){.name = samples_name, .scope = whole, .tensor = x};
    collect(b, whole, first);
}

/* How this list names it; NULL where it cannot. */
static const char *name_in(const struct scope *scope, const struct output *o)
{
    size_t n = strlen(scope->prefix);
    bool is_named = !o->layer || o->layer->name;
    return is_named && o->scope->open <= n && text_starts(o->name, scope->prefix) ? o->name + n : NULL;
}

static struct output *find(const struct scope *scope, const char *name)
{
    for (; scope; scope = scope->around)
        for (size_t i = 0; i < scope->names->n; i++) {
            const char *here = name_in(scope, &scope->names->at[i]);
            if (here && text_is(here, name))
                return &scope->names->at[i];
        }
    return NULL;
}

/* The i-th name that can be read from this list. */
static const char *readable(const void *ctx, size_t i)
{
    for (const struct scope *scope = ctx; scope; scope = scope->around)
        for (size_t k = 0; k < scope->names->n; k++) {
            const struct output *o = &scope->names->at[k];
            const char *name = o->tensor >= 0 ? name_in(scope, o) : NULL;
            if (name && find(ctx, name) == o && i-- == 0)
                return name;
        }
    return NULL;
}

static void fail_to_find(struct builder *b, const struct scope *scope, const char *name, bool is_later)
{
    char all[LISTED] = "";
    const char *near = text_nearest(name, readable, scope), *word;
    for (size_t i = 0, n = 0; !near && n < sizeof all && (word = readable(scope, i)) != NULL; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", word);
    const char *what = is_later ? "does not stand before this layer, which can read earlier ones only"
                                : "is not the name of an earlier layer";
    if (near)
        build_fail(b,
                   FAIL(FAULT_EXPERIMENT, "'%s' %s; did you mean '%s'?", text_shown(name).text, what, near));
    else
        build_fail(b, FAIL(FAULT_EXPERIMENT, "'%s' %s: %s", text_shown(name).text, what, all));
}

static struct output *named(struct builder *b, const struct scope *scope, const char *name)
{
    struct output *o = find(scope, name);
    if (o && o->tensor >= 0)
        return o;
    fail_to_find(b, scope, name, o);
    return NULL;
}

static void refuse_count(struct builder *b, const struct output *o)
{
    const struct kind *kind = o->layer->kind;
    if (kind->joins_layers && o->n_in < 2)
        build_fail(b, FAIL(FAULT_EXPERIMENT, "%s joins layers, but none are named", kind->name));
    else if (!kind->joins_layers && o->n_in > 1)
        build_fail(b, FAIL(FAULT_EXPERIMENT,
                           "%s reads one layer, but %zu are named: join them by add or concat first",
                           kind->name, o->n_in));
    for (size_t i = 1; i < o->n_in; i++)
        for (size_t k = 0; k < i; k++)
            if (o->in[k] == o->in[i])
                build_fail(b,
                           FAIL(FAULT_EXPERIMENT, "%s joins '%s' with itself", kind->name, o->in[i]->name));
}

struct output *names_read(struct builder *b, struct names *n, struct output *before)
{
    struct output *o = &n->at[n->n_begun++];
    const struct texts *from = &o->layer->from;
    bool joins_before = o->layer->kind->joins_layers && from->n == 1;
    o->in = ARENA_NEW(n->arena, struct output *, from->n + 1);
    if (!o->in) {
        build_fail(b, OUT_OF_MEMORY);
        return NULL;
    }
    b->place = from->n ? o->layer->from_place : o->layer->place;
    if (!from->n || joins_before)
        o->in[o->n_in++] = before;
    for (size_t i = 0; i < from->n && !b->fault; i++)
        o->in[o->n_in++] = named(b, o->scope, from->at[i]);
    if (!b->fault)
        refuse_count(b, o);
    for (size_t i = 0; i < o->n_in && !b->fault; i++)
        o->in[i]->is_read = true;
    b->place = o->layer->place;
    return b->fault ? NULL : o;
}

void names_check(struct builder *b, const struct names *names)
{
    for (size_t i = 1; i < names->n && !b->fault; i++) {
        const struct output *o = &names->at[i];
        if (o->is_read)
            continue;
        b->place = o->layer->place;
        build_fail(b, FAIL(FAULT_EXPERIMENT, "%s (%s): no layer reads what this one computes", o->name,
                           o->layer->kind->name));
    }
}
