/* parts.c - see parts.h. */
#include "team/parts.h"

#include <string.h>

#include "base/text.h"

/* "layer1" names "layer1", and "layer1.0.conv1" where nothing is called that. */
static size_t first_op_of(const struct graph *g, const char *name)
{
    size_t n = strlen(name), within = g->n_ops;
    for (size_t i = g->n_ops; i-- > 0;) {
        if (text_is(g->ops[i].name, name))
            return i;
        if (strncmp(g->ops[i].name, name, n) == 0 && g->ops[i].name[n] == '.')
            within = i;
    }
    return within;
}

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
        first[k] = first_op_of(g, name);
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
