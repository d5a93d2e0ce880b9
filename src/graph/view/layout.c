/* layout.c - a row for each op, a lane for each tensor that is read further down.
 *
 *   [ conv ]--.      rows: part by part, in each the whole's order. What flows goes down: nothing flows back
 *       v     |      between parts, and an op reads only earlier ones.
 *   [ relu ]  |      lanes: to the right of all boxes, so that no line crosses a box. A lane is taken by one tensor at
 *       v     |      a time, from its own row to the last that reads it, short ones first and next to the boxes.
 *   [ add  ]<-'
 */
#include "graph/view/layout.h"

#include <stdlib.h>

static const double gap = 14, band_margin = 9, least_band = 54;

static int read_by(const struct network_view *v, const struct view_layout *l, size_t row, int k)
{
    return row ? v->g->ops[l->rows[row].op].in[k] : -1;
}

bool view_is_far(const struct network_view *v, const struct view_layout *l, size_t row, int k)
{
    int tensor = read_by(v, l, row, k);
    return l->row_of[tensor] + 1 != row || (k && tensor == read_by(v, l, row, 0));
}

static void list_rows(const struct network_view *v, struct view_layout *l)
{
    l->n_rows = 1;
    for (size_t part = 0; part < (v->part_of ? v->n_parts : 1); part++)
        for (size_t i = 0; i < v->g->n_ops; i++) {
            if (v->part_of && v->part_of[i] != part)
                continue;
            if (v->g->ops[i].out >= 0)
                l->row_of[v->g->ops[i].out] = l->n_rows;
            l->rows[l->n_rows++] = (struct view_row){.op = i};
        }
}

static void find_far_readers(const struct network_view *v, struct view_layout *l)
{
    for (size_t r = 0; r < l->n_rows; r++)
        l->rows[r].lane = -1;
    for (size_t r = 1; r < l->n_rows; r++)
        for (int k = 0; k < 2 && read_by(v, l, r, k) >= 0; k++)
            if (view_is_far(v, l, r, k))
                l->rows[l->row_of[read_by(v, l, r, k)]].last = r;
}

/* Whether the lane is free between these rows: lines meet in a row, where one ends above the other's begin. */
static bool is_free(const struct view_layout *l, int lane, size_t first, size_t last)
{
    for (size_t r = 0; r < l->n_rows; r++)
        if (l->rows[r].lane == lane && r < last && first < l->rows[r].last)
            return false;
    return true;
}

static void choose_lanes(struct view_layout *l)
{
    for (size_t length = 1; length < l->n_rows; length++)
        for (size_t r = 0; r + length < l->n_rows; r++) {
            if (l->rows[r].last != r + length)
                continue;
            int lane = 0;
            while (!is_free(l, lane, r, r + length))
                lane++;
            l->rows[r].lane = lane;
            if ((size_t)lane >= l->n_lanes)
                l->n_lanes = (size_t)lane + 1;
        }
}

static size_t n_told(const struct traffic *t, size_t part)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_crossed; i++)
        n += t->crossed[i].from == part;
    return n;
}

/* Below a band there is room for a line on each crossing that begins in it. */
static double end_band(const struct traffic *t, struct view_band *band, size_t part, double y)
{
    band->bottom =
        y - gap + band_margin > band->top + least_band ? y - gap + band_margin : band->top + least_band;
    band->told_at = band->bottom + view_line_height + 2;
    return band->told_at + view_line_height * (double)n_told(t, part) + 2;
}

static void place_rows(const struct network_view *v, const struct traffic *t, double y, struct view_layout *l)
{
    size_t part = 0;
    l->rows[0].top = y;
    y += view_box_height + gap;
    for (size_t r = 1; r < l->n_rows; r++) {
        size_t mine = v->part_of ? v->part_of[l->rows[r].op] : 0;
        if (v->part_of && r > 1 && mine != part)
            y = end_band(t, &l->bands[part], part, y);
        if (v->part_of && (r == 1 || mine != part)) {
            part = mine;
            l->bands[part].top = y;
            y += band_margin;
        }
        l->rows[r].top = y;
        y += view_box_height + gap;
    }
    l->bottom = v->part_of ? end_band(t, &l->bands[part], part, y) - view_line_height : y;
}

fault view_lay_out(const struct network_view *v, const struct traffic *traffic, double top,
                   struct arena *arena, struct view_layout *out)
{
    struct view_layout l = {0};
    l.rows = ARENA_NEW(arena, struct view_row, v->g->n_ops + 1);
    l.row_of = ARENA_NEW(arena, size_t, v->g->n_tensors);
    l.bands = ARENA_NEW(arena, struct view_band, v->n_parts);
    if (!l.rows || !l.row_of || !l.bands)
        return OUT_OF_MEMORY;
    list_rows(v, &l);
    find_far_readers(v, &l);
    choose_lanes(&l);
    place_rows(v, traffic, top, &l);
    *out = l;
    return OK;
}
