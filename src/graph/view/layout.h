/* layout.h - where the boxes and lines of a drawn network lie. */
#ifndef VECHE_GRAPH_VIEW_LAYOUT_H
#define VECHE_GRAPH_VIEW_LAYOUT_H

#include "graph/view/view.h"

/* Row 0 is the samples; row r the op `op` of the whole. */
struct view_row {
    size_t op;
    double top;  /* in pixels, of the box */
    int lane;    /* where the line runs down to readers that are not in the next row; -1: there are none */
    size_t last; /* the lowest row that it leads to */
};

struct view_band { /* of a part */
    double top, bottom;
    double told_at; /* where the first crossing that begins in it is written, below it */
};

/* The ops of a part stand together, parts one below the other. */
struct view_layout {
    struct view_row *rows;
    size_t n_rows;
    size_t *row_of;          /* per tensor: that of its box */
    struct view_band *bands; /* n_parts of the view         */
    size_t n_lanes;
    double bottom; /* of all boxes and bands */
};

static const double view_box_height = 24, view_line_height = 15;

/* From `top` on. The lists lie in the arena. */
fault view_lay_out(const struct network_view *v, const struct traffic *traffic, double top,
                   struct arena *arena, struct view_layout *out);

/* Whether the k-th input comes along a lane; else it comes straight from the row above. */
bool view_is_far(const struct network_view *v, const struct view_layout *l, size_t row, int k);

#endif
