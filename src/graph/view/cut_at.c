/* cut_at.c - where parts begin, by the names of layers. */
#include <string.h>

#include "base/text.h"
#include "graph/cut.h"
#include "graph/passes/passes.h"
#include "graph/view/view.h"

/* What one may write: all ops, and what stands before a dot in their names. */
static const char **cut_names(const struct graph *g, struct arena *arena)
{
    size_t n = 0, most = 1;
    for (size_t i = 0; i < g->n_ops; i++)
        most += strlen(g->ops[i].name) + 1;
    const char **names = ARENA_NEW(arena, const char *, most);
    for (size_t i = 0; names && i < g->n_ops; i++) {
        names[n++] = g->ops[i].name;
        for (const char *dot = strchr(g->ops[i].name, '.'); dot; dot = strchr(dot + 1, '.')) {
            names[n] = arena_printf(arena, "%.*s", (int)(dot - g->ops[i].name), g->ops[i].name);
            n += names[n] != NULL;
        }
    }
    return names;
}

static const char *nth(const void *names, size_t i)
{
    return ((const char *const *)names)[i];
}

static fault no_such_layer(const struct graph *g, const char *layer)
{
    struct arena arena = {0};
    struct shown said = text_shown(layer);
    const char **names = cut_names(g, &arena), *nearest = names ? text_nearest(layer, nth, names) : NULL;
    fault f = nearest
                  ? FAIL(FAULT_USAGE, "%s has no layer '%s'; did you mean '%s'?", g->name, said.text, nearest)
                  : FAIL(FAULT_USAGE, "%s has no layer '%s'; `veche graph` without a cut lists them", g->name,
                         said.text);
    arena_release(&arena);
    return f;
}

/* A fault for an op that a pass has taken out. */
static fault refuse_gone(const struct graph *g, const char *layer)
{
    for (size_t i = 0; i < g->n_gone; i++)
        if (text_is(g->gone[i].name, layer))
            return g->gone[i].instead
                       ? FAIL(FAULT_USAGE,
                              "no part can begin with '%s', in whose place '%s' is read (pass %s)", layer,
                              g->gone[i].instead, pass_names[g->gone[i].pass])
                       : FAIL(FAULT_USAGE, "no part can begin with '%s', which no op reads", layer);
    return OK;
}

static fault find_first(const struct graph *g, const char *layer, size_t *out)
{
    *out = graph_cut_at(g, layer);
    if (*out < g->n_ops)
        return OK;
    TRY(refuse_gone(g, layer));
    return no_such_layer(g, layer);
}

fault view_cut_at(const struct graph *g, const char *const *layers, size_t n, size_t *part_of)
{
    size_t begin = 0, end;
    for (size_t k = 0; k <= n; k++) {
        end = g->n_ops;
        if (k < n)
            TRY(find_first(g, layers[k], &end));
        if (end == 0)
            return FAIL(FAULT_USAGE,
                        "'%s' begins the network, so that nothing would be left for the part before it",
                        text_shown(layers[k]).text);
        if (end <= begin)
            return FAIL(
                FAULT_USAGE,
                "'%s' does not stand behind '%s': the layers that parts begin with are named in their order",
                text_shown(layers[k]).text, text_shown(layers[k - 1]).text);
        for (; begin < end; begin++)
            part_of[begin] = k;
    }
    return OK;
}
