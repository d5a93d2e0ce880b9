/* view.h - a floor of the graph: a network shown as `veche graph` does, before and after the passes, whole or in parts.
 *
 *   text.c, json.c      tables, and one object for scripts
 *   svg.c               a drawing; where its boxes and lines lie is layout.c
 *   cut_at.c            parts by the names of layers
 *   traffic.c           what crosses between parts
 */
#ifndef VECHE_GRAPH_VIEW_H
#define VECHE_GRAPH_VIEW_H

#include "graph/graph.h"

struct network_view {
    const struct graph *written; /* before the passes ...                    */
    const struct graph *g;       /* ... and after them                       */
    const size_t *part_of;       /* per op of g; NULL where it is not cut    */
    size_t n_parts;
};

fault view_text(const struct network_view *v, char **text);
fault view_json(const struct network_view *v, char **json);
fault view_svg(const struct network_view *v, char **svg);

/* Cuts into n + 1 parts: each of these layers is the first of a part, the first of all parts begins with the network. A name may
 * be that of a residual or of another layer of several ops. */
fault view_cut_at(const struct graph *g, const char *const *layers, size_t n, size_t *part_of);

/* What a part has, for each sample. */
struct part_load {
    size_t n_ops, first_op; /* of the whole */
    size_t parameters;
    double flops_forward;
};

/* A tensor on its way to one part that reads it. Its values go there once, however many readers it has there; gradients
 * may come back in several (cut.h). */
struct crossed {
    int tensor; /* of the whole */
    size_t from, to;
    size_t floats, floats_back; /* of a sample */
};

struct traffic {
    struct part_load *parts; /* n_parts of the view */
    struct crossed *crossed;
    size_t n_crossed;
};

/* Nothing where the network is not cut. The lists lie in the arena. */
fault traffic_find(const struct network_view *v, struct arena *arena, struct traffic *out);

/* The floats that all ops make for a sample. */
size_t view_floats(const struct graph *g);

#endif
