/* parts.c - see parts.h. */
#include "team/parts.h"

#include "base/text.h"
#include "graph/cut.h"

static const char *name_at(const void *ctx, size_t i)
{
    const struct graph *g = ctx;
    return i < g->n_ops ? g->ops[i].name : NULL;
}

fault parts_by_name(const struct graph *g, const struct texts *names, struct place place, size_t n_parts, size_t *first)
{
    first[0] = 0;
    for (size_t k = 1; k < n_parts; k++) {
        const char *name = names->at[k - 1];
        first[k] = graph_cut_at(g, name);
        if (first[k] == g->n_ops) {
            const char *near = text_nearest(name, name_at, g);
            return fail_at(place, "team.cut: the network has no layer '%s'%s%s%s", text_shown(name).text,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        if (first[k] <= first[k - 1])
            return fail_at(place, "team.cut: '%s' does not come after '%s' in the network", name, g->ops[first[k - 1]].name);
    }
    return OK;
}
