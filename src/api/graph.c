/* graph.c - the network of an experiment, before and after the passes, whole or in parts. */
#include "base/plain.h"

#include <stdlib.h>

#include "api/handle.h"
#include "data/data.h"
#include "graph/view/view.h"

typedef fault drawer(const struct network_view *v, char **text);

/* Writes what is asked for, all or nothing. */
static fault show(const struct network_view *v, char **const asked[])
{
    static drawer *const drawers[] = {view_text, view_json, view_svg};
    enum { N = sizeof drawers / sizeof *drawers };
    char *made[N] = {0};
    fault f = OK;
    for (size_t i = 0; !f && i < N; i++)
        f = asked[i] ? drawers[i](v, &made[i]) : OK;
    for (size_t i = 0; i < N; i++)
        if (f)
            free(made[i]);
        else if (asked[i])
            *asked[i] = made[i];
    return f;
}

static fault cut_and_show(struct network_view v, const char *const *cut, size_t n_cut, char **const asked[])
{
    if (n_cut == 0)
        return show(&v, asked);
    size_t *part_of = calloc(v.g->n_ops, sizeof *part_of);
    if (!part_of)
        return OUT_OF_MEMORY;
    fault f = view_cut_at(v.g, cut, n_cut, part_of);
    v.part_of = part_of;
    v.n_parts = n_cut + 1;
    if (!f)
        f = show(&v, asked);
    free(part_of);
    return f;
}

veche_fault *veche_graph(const veche_experiment *e, const char *const *cut, size_t n_cut, char **text,
                         char **json, char **svg)
{
    PLAIN_NUMBERS;
    char **const asked[] = {text, json, svg};
    struct sample_shape s;
    struct graph *written, *g;
    TRY(dataset_shape(&e->parsed->data, &s));
    struct shape input = {s.c, s.h, s.w};
    TRY(graph_build_as_written(&e->parsed->model, input, s.classes, &written));
    fault f = graph_build(&e->parsed->model, input, s.classes, &g);
    if (!f) {
        f = cut_and_show((struct network_view){.written = written, .g = g}, cut, n_cut, asked);
        graph_free(g);
    }
    graph_free(written);
    return f;
}
