/* svg.c - a drawing of a network: a box for each op, an arrow for each tensor that one reads of another, a shaded band for each part,
 * and below it what crosses from there to others, in bytes a sample.
 *
 *   layout.c -> bands -> lines -> boxes -> words
 */
#include <string.h>

#include "base/page.h"
#include "base/text.h"
#include "base/xml.h"
#include "graph/build.h"
#include "graph/describe.h"
#include "graph/view/layout.h"

enum { DRAWN_MOST = 5000 };

static const double margin = 40, head = 86, foot = 34, lane_step = 13, corner = 6, letter = 6.6,
                    label_width = 170;

#define INK   "#1f2a44"
#define QUIET "#66708a"
#define PAPER "#fbfbf8"
#define LINE  "#4a78b5"

struct drawing {
    FILE *out;
    const struct network_view *v;
    struct traffic traffic;
    struct view_layout l;
    double left, right;          /* of all boxes           */
    double name_room, what_room; /* in a box, in pixels    */
    double width, height;        /* of the sheet           */
};

/* ---- sizes ---- */

static double width_of(const char *text)
{
    return letter * (double)strlen(text_shown(text).text);
}

static double wider(double a, double b)
{
    return a > b ? a : b;
}

static void choose_sizes(struct drawing *d)
{
    const struct graph *g = d->v->g;
    double shape_room = width_of(shape_text(g->input).text);
    d->name_room = width_of("input");
    for (size_t i = 0; i < g->n_ops; i++) {
        d->name_room = wider(d->name_room, 1.08 * width_of(g->ops[i].name));
        d->what_room = wider(d->what_room, width_of(op_what(&g->ops[i]).text));
        if (g->ops[i].out >= 0)
            shape_room = wider(shape_room, width_of(shape_text(g->tensors[g->ops[i].out].shape).text));
    }
    d->left = margin + (d->v->part_of ? label_width : 0);
    d->right = d->left + d->name_room + d->what_room + shape_room + 52;
    d->width = wider(d->right + lane_step * (double)(d->l.n_lanes + 1) + margin, 640);
    d->height = d->l.bottom + foot;
}

/* ---- parts ---- */

static void draw_bands(const struct drawing *d)
{
    static const char *const tints[] = {"#e9eff8", "#f6efe2", "#e8f3ea", "#f5e9ee"};
    for (size_t k = 0; d->v->part_of && k < d->v->n_parts; k++) {
        const struct view_band *b = &d->l.bands[k];
        const struct part_load *p = &d->traffic.parts[k];
        fprintf(d->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"8\" fill=\"%s\"/>\n",
                margin - 14, b->top, d->width - 2 * (margin - 14), b->bottom - b->top, tints[k % 4]);
        fprintf(d->out,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"13\" font-weight=\"600\" fill=\"" INK
                "\">part %zu</text>\n"
                "<g font-size=\"11\" fill=\"" QUIET "\"><text x=\"%.1f\" y=\"%.1f\">%s parameters</text>",
                margin, b->top + 18, k, margin, b->top + 33, text_count(p->parameters).text);
        fprintf(d->out, "<text x=\"%.1f\" y=\"%.1f\">%s multiply-adds</text></g>\n", margin, b->top + 47,
                text_count((size_t)(p->flops_forward / 2)).text);
    }
}

/* ---- lines ---- */

static double straight_x(const struct drawing *d)
{
    return d->left + 16;
}

static double lane_x(const struct drawing *d, int lane)
{
    return d->right + lane_step * (lane + 1);
}

static void draw_straight(const struct drawing *d, size_t row)
{
    fprintf(d->out, "<path d=\"M%.1f %.1fV%.1f\"/>\n", straight_x(d),
            d->l.rows[row - 1].top + view_box_height, d->l.rows[row].top - 2);
}

/* Out of the maker's right side, down its lane, into the reader's. */
static void draw_far(const struct drawing *d, size_t row, int k)
{
    const struct view_row *from = &d->l.rows[d->l.row_of[d->v->g->ops[d->l.rows[row].op].in[k]]];
    double x = lane_x(d, from->lane), y = from->top + 0.76 * view_box_height;
    double end = d->l.rows[row].top + (k ? 0.48 : 0.26) * view_box_height;
    fprintf(d->out, "<path d=\"M%.1f %.1fH%.1fQ%.1f %.1f %.1f %.1f", d->right, y, x - corner, x, y, x,
            y + corner);
    fprintf(d->out, "V%.1fQ%.1f %.1f %.1f %.1fH%.1f\"/>\n", end - corner, x, end, x - corner, end,
            d->right + 2);
}

static void draw_lines(const struct drawing *d)
{
    fputs("<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
          "markerHeight=\"7\" "
          "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"" LINE "\"/></marker></defs>\n"
          "<g fill=\"none\" stroke=\"" LINE "\" stroke-width=\"1.3\" marker-end=\"url(#head)\">\n",
          d->out);
    for (size_t r = 1; r < d->l.n_rows; r++)
        for (int k = 0; k < 2 && d->v->g->ops[d->l.rows[r].op].in[k] >= 0; k++)
            if (view_is_far(d->v, &d->l, r, k))
                draw_far(d, r, k);
            else
                draw_straight(d, r);
    fputs("</g>\n", d->out);
}

/* ---- boxes ---- */

static void draw_box(const struct drawing *d, double top, const char *fill, const char *name,
                     const char *what, const char *shape)
{
    double base = top + 16;
    fprintf(d->out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" fill=\"%s\" stroke=\"" INK
            "\" stroke-width=\"0.8\"/><text x=\"%.1f\" y=\"%.1f\" font-weight=\"600\">",
            d->left, top, d->right - d->left, view_box_height, fill, d->left + 10, base);
    xml_text(d->out, text_shown(name).text);
    fprintf(d->out, "</text><text x=\"%.1f\" y=\"%.1f\">", d->left + 24 + d->name_room, base);
    xml_text(d->out, what);
    fprintf(d->out, "</text><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"" QUIET "\">%s</text>\n",
            d->right - 10, base, shape);
}

/* What learns, what joins, the rest. */
static const char *fill_of(const struct op *op)
{
    return op->weight >= 0 ? "#d7e5f7" : op->in[1] >= 0 ? "#fbe3c8" : "#ffffff";
}

static void draw_boxes(const struct drawing *d)
{
    const struct graph *g = d->v->g;
    fputs("<g font-size=\"12\" fill=\"" INK "\">\n", d->out);
    draw_box(d, d->l.rows[0].top, "#e4e4dd", "input", "", shape_text(g->input).text);
    for (size_t r = 1; r < d->l.n_rows; r++) {
        const struct op *op = &g->ops[d->l.rows[r].op];
        fprintf(d->out, "<g><title>%s parameters</title>", text_count(op_parameters(g, op)).text);
        draw_box(d, d->l.rows[r].top, fill_of(op), op->name, op_what(op).text,
                 op->out < 0 ? "" : shape_text(g->tensors[op->out].shape).text);
        fputs("</g>\n", d->out);
    }
    fputs("</g>\n", d->out);
}

/* ---- words ---- */

/* Whether a tensor comes to a part straight from the row above, or along its lane; it may do both. */
static void find_ways(const struct drawing *d, const struct crossed *c, bool ways[2])
{
    for (size_t r = 1; r < d->l.n_rows; r++)
        for (int k = 0; k < 2; k++)
            if (d->v->g->ops[d->l.rows[r].op].in[k] == c->tensor && d->v->part_of[d->l.rows[r].op] == c->to)
                ways[view_is_far(d->v, &d->l, r, k)] = true;
}

/* A dotted line to the one that a text is about. */
static void point_at(const struct drawing *d, double from, double to, double y)
{
    fprintf(d->out,
            "<path d=\"M%.1f %.1fH%.1f\" stroke=\"" QUIET
            "\" stroke-width=\"0.7\" stroke-dasharray=\"1.5 2.5\"/>"
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"" LINE "\"/>",
            from, y, to, to, y);
}

static void tell_crossed(const struct drawing *d, const struct crossed *c, double y)
{
    size_t row = d->l.row_of[c->tensor];
    double x = d->left + 34;
    bool ways[2] = {false, false};
    find_ways(d, c, ways);
    if (ways[0])
        point_at(d, x - 4, straight_x(d), y - 4);
    if (ways[1])
        point_at(d, x, lane_x(d, d->l.rows[row].lane), y - 4);
    fprintf(d->out,
            "<text x=\"%.1f\" y=\"%.1f\" stroke=\"" PAPER "\" stroke-width=\"5\" paint-order=\"stroke\">", x,
            y);
    xml_text(d->out, text_shown(d->v->g->ops[d->l.rows[row].op].name).text);
    fprintf(d->out, " to part %zu: %s bytes", c->to, text_count(c->floats * sizeof(float)).text);
    if (c->floats_back)
        fprintf(d->out, ", %s back", text_count(c->floats_back * sizeof(float)).text);
    fputs("</text>\n", d->out);
}

static void tell_traffic(const struct drawing *d)
{
    fputs("<g font-size=\"11\" fill=\"" INK "\">\n", d->out);
    for (size_t k = 0; d->v->part_of && k < d->v->n_parts; k++) {
        double y = d->l.bands[k].told_at;
        for (size_t i = 0; i < d->traffic.n_crossed; i++)
            if (d->traffic.crossed[i].from == k) {
                tell_crossed(d, &d->traffic.crossed[i], y);
                y += view_line_height;
            }
    }
    fputs("</g>\n", d->out);
}

static void write_head(const struct drawing *d)
{
    const struct graph *g = d->v->g;
    fprintf(d->out, "<text x=\"%.1f\" y=\"42\" font-size=\"24\" font-weight=\"600\" fill=\"" INK "\">",
            margin);
    xml_text(d->out, text_shown(g->name).text);
    fprintf(d->out, "</text>\n<text x=\"%.1f\" y=\"66\" font-size=\"13\" fill=\"" QUIET "\">%zu operations",
            margin, g->n_ops);
    if (g->n_gone)
        fprintf(d->out, " (%zu as written)", d->v->written->n_ops);
    fprintf(d->out, ", %s parameters", text_count(g->size).text);
    fprintf(d->out, ", %s multiply-adds a sample</text>\n", text_count((size_t)(g->flops_forward / 2)).text);
}

static void draw(const struct drawing *d)
{
    fprintf(
        d->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
        "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>",
        d->width, d->height, d->width, d->height);
    xml_text(d->out, text_shown(d->v->g->name).text);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"" PAPER "\"/>\n", d->out);
    write_head(d);
    draw_bands(d);
    draw_lines(d);
    draw_boxes(d);
    tell_traffic(d);
    fputs("</svg>\n", d->out);
}

static fault prepare(struct drawing *d, struct arena *arena)
{
    if (d->v->g->n_ops > DRAWN_MOST)
        return FAIL(FAULT_USAGE, "the network has %zu operations, and up to %d are drawn", d->v->g->n_ops,
                    DRAWN_MOST);
    TRY(traffic_find(d->v, arena, &d->traffic));
    TRY(view_lay_out(d->v, &d->traffic, head, arena, &d->l));
    choose_sizes(d);
    return OK;
}

fault view_svg(const struct network_view *v, char **svg)
{
    struct drawing d = {.v = v};
    struct arena arena = {0};
    struct page page;
    fault f = prepare(&d, &arena);
    if (!f)
        f = page_open(&page);
    if (!f) {
        d.out = page.out;
        draw(&d);
        f = page_close(&page, OK, svg);
    }
    arena_release(&arena);
    return f;
}
