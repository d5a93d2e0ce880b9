/* graph.c - the network of an experiment, before and after the passes, whole or in parts. */
#include "base/plain.h"

#include <stdlib.h>

#include "api/handle.h"
#include "data/data.h"
#include "graph/view/view.h"
#include "team/team.h"

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

/* As it is asked for, else as the experiment's team does it, if there is one. */
static fault cut(const struct experiment *e, const char *const *layers, size_t n_layers, size_t *part_of,
                 struct network_view *v)
{
    struct team *team = NULL;
    if (n_layers) {
        TRY(view_cut_at(v->g, layers, n_layers, part_of));
        v->part_of = part_of;
        v->n_parts = n_layers + 1;
        return OK;
    }
    TRY(experiment_team(e, v->g, &team));
    if (team) {
        for (size_t i = 0; i < v->g->n_ops; i++)
            part_of[i] = team_part_of(team, i);
        v->part_of = part_of;
        v->n_parts = team_parts(team);
    }
    team_close(team);
    return OK;
}

static fault cut_and_show(const struct experiment *e, struct network_view v, const char *const *layers,
                          size_t n_layers, char **const asked[])
{
    size_t *part_of = calloc(v.g->n_ops, sizeof *part_of);
    if (!part_of)
        return OUT_OF_MEMORY;
    fault f = cut(e, layers, n_layers, part_of, &v);
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
        f = cut_and_show(e->parsed, (struct network_view){.written = written, .g = g}, cut, n_cut, asked);
        graph_free(g);
    }
    graph_free(written);
    return f;
}
