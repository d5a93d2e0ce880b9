/* svg.c - a drawing of the graph: edges as wide as their weights, vertices with their numbers, the facts
 * above, what the lines mean below.
 *
 *   positions -> scaled to the sheet -> edges (negative ones last and in another colour) -> vertices -> numbers
 *
 * Edges that go round a torus leave as stubs on both sides, so that the grid stays to be seen; short chords
 * of a circle bend inwards, clear of the vertices they pass.
 */
#include <math.h>
#include <stdlib.h>

#include "base/page.h"
#include "base/text.h"
#include "base/xml.h"
#include "topology/layout.h"
#include "topology/spectrum.h"

enum { DRAWN_MOST = 5000, DRAWN_MOST_EDGES = 20000 };

static const double sheet = 760, margin = 48, head = 92, foot = 64; /* in pixels */
static const double least_radius = 2.2, most_radius = 17, least_numbered = 6.5;

#define INK      "#1f2a44"
#define QUIET    "#66708a"
#define PAPER    "#fbfbf8"
#define POSITIVE "#4a78b5"
#define NEGATIVE "#d1493f"

struct drawing {
    FILE *out;
    const struct topology *t;
    const struct survey *s;
    struct position *positions; /* owned; in pixels                                 */
    struct position centre; /* of all vertices                                  */
    double height;      /* of the sheet                                     */
    double radius;      /* of vertices                                      */
    double widest;      /* line                                             */
    double heaviest;    /* the largest absolute weight of an edge           */
};

/* ---- scale ---- */

struct box {
    double left, top, right, bottom;
};

static struct box box_of(const struct position *positions, size_t n)
{
    struct box b = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        b.left = fmin(b.left, positions[i].x);
        b.right = fmax(b.right, positions[i].x);
        b.top = fmin(b.top, positions[i].y);
        b.bottom = fmax(b.bottom, positions[i].y);
    }
    return b;
}

/* Spots fill the sheet's width or, for tall drawings, the same height; flat drawings get a low sheet. */
static void scale_positions(struct drawing *d)
{
    struct box b = box_of(d->positions, d->t->n);
    double room = sheet - 2 * margin, width = b.right - b.left, height = b.bottom - b.top;
    double scale = room / fmax(fmax(width, height), 1e-9);
    if (d->t->n <= 4) /* a handful needs no whole sheet */
        scale *= 0.6;
    double tall = fmax(height * scale, 60);
    double x = sheet / 2 - scale * (b.left + b.right) / 2,
           y = head + margin + tall / 2 - scale * (b.top + b.bottom) / 2;
    for (size_t i = 0; i < d->t->n; i++)
        d->positions[i] = (struct position){x + scale * d->positions[i].x, y + scale * d->positions[i].y};
    d->centre = (struct position){sheet / 2, head + margin + tall / 2};
    d->height = head + 2 * margin + tall + foot;
}

/* The distance of the nearest two vertices. */
static double closest(const struct position *positions, size_t n)
{
    double least = INFINITY;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            least = fmin(least, hypot(positions[i].x - positions[j].x, positions[i].y - positions[j].y));
    return least;
}

static void choose_sizes(struct drawing *d)
{
    d->radius = fmin(fmax(0.32 * closest(d->positions, d->t->n), least_radius), most_radius);
    d->widest = fmax(fmin(0.45 * d->radius, 6) * fmin(1, pow(72.0 / (double)(d->t->n_edges + 1), 0.85)), 0.6);
    d->heaviest = 0;
    for (size_t e = 0; e < d->t->n_edges; e++)
        d->heaviest = fmax(d->heaviest, fabs(d->s->weights.edge[e]));
}

/* ---- edges ---- */

static double width_of(const struct drawing *d, double weight)
{
    return d->widest * (0.2 + 0.8 * fabs(weight) / d->heaviest);
}

static void draw_line(const struct drawing *d, struct position from, struct position to, double width)
{
    fprintf(d->out, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke-width=\"%.2f\"/>", from.x, from.y, to.x, to.y,
            width);
}

/* A curve whose middle is moved by `by`. */
static void draw_curve(const struct drawing *d, struct position from, struct position to, struct position by,
                       double width)
{
    double x = (from.x + to.x) / 2 + 2 * by.x, y = (from.y + to.y) / 2 + 2 * by.y;
    fprintf(d->out, "<path d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\" stroke-width=\"%.2f\"/>", from.x, from.y, x,
            y, to.x, to.y, width);
}

/* Whether a chord of a circle passes so close under the vertices between its ends that it must bend; if so,
 * how far. */
static bool bends(const struct drawing *d, struct edge e, struct position *by)
{
    size_t n = d->t->n, steps = e.b - e.a < n - (e.b - e.a) ? e.b - e.a : n - (e.b - e.a);
    if (d->t->layout != LAYOUT_CIRCLE || steps < 2 || n < 6)
        return false;
    struct position a = d->positions[e.a], b = d->positions[e.b], middle = {(a.x + b.x) / 2, (a.y + b.y) / 2};
    double radius = hypot(a.x - d->centre.x, a.y - d->centre.y);
    double inside = hypot(middle.x - d->centre.x, middle.y - d->centre.y);
    double wanted = radius - d->radius * (1.5 + 0.6 * (double)steps);
    if (inside <= wanted || wanted <= 0)
        return false;
    double part = (wanted - inside) / inside;
    *by = (struct position){part * (middle.x - d->centre.x), part * (middle.y - d->centre.y)};
    return true;
}

/* Whether an edge of a torus goes round; if so, which way it leaves its smaller end. */
static bool goes_round(const struct topology *t, struct edge e, struct position *way)
{
    if (t->layout != LAYOUT_GRID || t->rows < 2 || t->columns < 2)
        return false;
    size_t rows = e.b / t->columns - e.a / t->columns;
    size_t first = e.a % t->columns, second = e.b % t->columns;
    *way = rows ? (struct position){0, -1} : (struct position){-1, 0};
    return rows > 1 || (rows == 0 && second - first > 1);
}

static void draw_edge(const struct drawing *d, size_t e)
{
    struct edge edge = d->t->edges[e];
    struct position from = d->positions[edge.a], to = d->positions[edge.b], way, by;
    double weight = d->s->weights.edge[e], width = width_of(d, weight), reach = 2.1 * d->radius;
    fprintf(d->out, "<g><title>%u to %u: %.4g</title>", edge.a, edge.b, weight);
    if (goes_round(d->t, edge, &way)) {
        draw_line(d, from, (struct position){from.x + reach * way.x, from.y + reach * way.y}, width);
        draw_line(d, to, (struct position){to.x - reach * way.x, to.y - reach * way.y}, width);
    } else if (bends(d, edge, &by)) {
        draw_curve(d, from, to, by, width);
    } else {
        draw_line(d, from, to, width);
    }
    fputs("</g>\n", d->out);
}

static void draw_edges(const struct drawing *d, bool negative)
{
    fprintf(d->out, "<g fill=\"none\" stroke=\"%s\" stroke-linecap=\"round\" stroke-opacity=\"%.2f\">\n",
            negative ? NEGATIVE : POSITIVE, d->t->n_edges > 300 ? 0.55 : 0.85);
    for (size_t e = 0; e < d->t->n_edges; e++)
        if ((d->s->weights.edge[e] < 0) == negative)
            draw_edge(d, e);
    fputs("</g>\n", d->out);
}

/* ---- vertices ---- */

static void draw_vertices(const struct drawing *d)
{
    fprintf(d->out, "<g fill=\"" INK "\" stroke=\"" PAPER "\" stroke-width=\"%.1f\">\n",
            fmin(2, d->radius / 5));
    for (size_t i = 0; i < d->t->n; i++)
        fprintf(d->out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>%zu: %.4g on itself</title></circle>\n",
                d->positions[i].x, d->positions[i].y, d->radius, i, d->s->weights.self[i]);
    fputs("</g>\n", d->out);
    if (d->radius < least_numbered)
        return;
    double size = d->radius * (d->t->n > 100 ? 0.85 : 1.05);
    fprintf(d->out, "<g fill=\"#fff\" font-size=\"%.1f\" text-anchor=\"middle\" pointer-events=\"none\">\n",
            size);
    for (size_t i = 0; i < d->t->n; i++)
        fprintf(d->out, "<text x=\"%.1f\" y=\"%.1f\">%zu</text>\n", d->positions[i].x,
                d->positions[i].y + 0.36 * size, i);
    fputs("</g>\n", d->out);
}

/* ---- words ---- */

static void write_head(const struct drawing *d)
{
    const struct topology_facts *facts = &d->s->facts;
    double gamma = facts->gamma[d->s->kind];
    fprintf(d->out, "<text x=\"%.0f\" y=\"42\" font-size=\"24\" font-weight=\"600\" fill=\"" INK "\">",
            margin);
    xml_text(d->out, text_shown(d->t->spec).text);
    fprintf(d->out,
            "</text>\n<g font-size=\"13\" fill=\"" QUIET "\"><text x=\"%.0f\" y=\"66\">%zu %s, %zu %s",
            margin, d->t->n, d->t->n == 1 ? "vertex" : "vertices", d->t->n_edges,
            d->t->n_edges == 1 ? "edge" : "edges");
    if (facts->diameter != DIAMETER_UNKNOWN)
        fprintf(d->out, ", diameter %zu", facts->diameter);
    if (!isnan(facts->connectivity))
        fprintf(d->out, ", algebraic connectivity %.4g", facts->connectivity);
    fprintf(d->out, "</text>\n<text x=\"%.0f\" y=\"85\">%s weights", margin, weights_name(d->s->kind));
    if (gamma > 0)
        fprintf(d->out,
                ": a round of mixing leaves at most %.4f of a disagreement, half is gone after %.3g rounds",
                gamma, survey_rounds_to_halve(gamma));
    else if (!isnan(gamma))
        fputs(": one round of mixing ends any disagreement", d->out);
    fputs("</text></g>\n", d->out);
}

/* A short line as wide and coloured as a weight is drawn, and the weight beside it; gives where the next
 * begins. */
static double draw_sample(const struct drawing *d, double x, double weight)
{
    double y = d->height - 38;
    fprintf(d->out,
            "<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.2f\"/>", x,
            y, x + 34, y, weight < 0 ? NEGATIVE : POSITIVE, width_of(d, weight));
    fprintf(d->out, "<text x=\"%.0f\" y=\"%.1f\">%.3g%s</text>\n", x + 42, y + 4.5, weight,
            weight < 0 ? " (negative)" : "");
    return x + (weight < 0 ? 180 : 105);
}

static void write_legend(const struct drawing *d)
{
    double least = INFINITY, most = -INFINITY, above = INFINITY; /* the least that is not negative */
    bool round = false;
    struct position way;
    for (size_t e = 0; e < d->t->n_edges; e++) {
        double w = d->s->weights.edge[e];
        least = fmin(least, w);
        most = fmax(most, w);
        above = w >= 0 ? fmin(above, w) : above;
        round |= goes_round(d->t, d->t->edges[e], &way);
    }
    fprintf(d->out, "<g font-size=\"13\" fill=\"" QUIET "\"><text x=\"%.0f\" y=\"%.1f\">%s</text>\n", margin,
            d->height - 33.5, "weight");
    double x = margin + 58;
    if (most >= 0)
        x = draw_sample(d, x, most);
    if (most - above > 1e-6)
        x = draw_sample(d, x, above);
    if (least < 0)
        x = draw_sample(d, x, least);
    if (round)
        fprintf(d->out, "<text x=\"%.0f\" y=\"%.1f\">stubs go on at the opposite side</text>\n", x,
                d->height - 33.5);
    fputs("</g>\n", d->out);
}

static void draw(const struct drawing *d)
{
    fprintf(
        d->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
        "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>",
        sheet, d->height, sheet, d->height);
    xml_text(d->out, text_shown(d->t->spec).text);
    fprintf(d->out, "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"" PAPER "\"/>\n");
    write_head(d);
    draw_edges(d, false);
    draw_edges(d, true);
    draw_vertices(d);
    if (d->t->n_edges)
        write_legend(d);
    fputs("</svg>\n", d->out);
}

static fault prepare(struct drawing *d)
{
    TRY(layout_positions(d->t, d->positions));
    scale_positions(d);
    choose_sizes(d);
    return OK;
}

fault survey_svg(const struct topology *t, const struct survey *s, char **svg)
{
    struct page page;
    if (t->n > DRAWN_MOST || t->n_edges > DRAWN_MOST_EDGES)
        return FAIL(FAULT_USAGE, "%s has %zu vertices and %zu edges, and up to %d and %d are drawn", t->spec,
                    t->n, t->n_edges, DRAWN_MOST, DRAWN_MOST_EDGES);
    struct drawing d = {.t = t, .s = s, .positions = calloc(t->n, sizeof *d.positions)};
    fault f = d.positions ? prepare(&d) : OUT_OF_MEMORY;
    if (!f)
        f = page_open(&page);
    if (!f) {
        d.out = page.out;
        draw(&d);
        f = page_close(&page, OK, svg);
    }
    free(d.positions);
    return f;
}
