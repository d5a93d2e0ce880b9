/* svg.c - a chart from top to bottom: title, legend, plot, ticks, labels.
 *
 *   +------------------------------+
 *   | title                        |
 *   | -o- one   -x- other          |  legend, as many rows as it needs
 *   |  +------------------------+  |
 *   |  |  x   o      marks      |  |
 *   |  |     lines and bands    |  |  PLOT_HEIGHT
 *   |  +------------------------+  |
 *   |       x label                |
 *   +------------------------------+
 */
#include "record/svg.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/xml.h"

enum {
    WIDTH = 640,
    LEFT = 68,
    RIGHT = 16,
    PLOT_WIDTH = WIDTH - LEFT - RIGHT,
    PLOT_HEIGHT = 230,
    LEGEND_TOP = 36,
    LEGEND_ROW = 18,
    BELOW = 46,
    FEW_BANDS = 4,
    MOST_MARKERS = 9,
    MOST_TOLD = 120,
    MOST_RULES = 16, /* marks with a line down through the plot; more would be a fence */
    NAME = 44        /* characters of a name in the legend */
};

/* ---- looks ---- */

enum { COLOURS = 10 };

static const char *const light[COLOURS] = {"#0b62c1", "#c2410c", "#0a7a5c", "#7a3db8", "#946200",
                                           "#bd1a72", "#0d7288", "#5b6673", "#4b7a12", "#8c1d1d"};
static const char *const dark[COLOURS] = {"#6fb3ff", "#ff9a68", "#4fd0a6", "#c7a3ff", "#e6bd4a",
                                          "#ff8ac6", "#5fd2e6", "#b1bac5", "#a9d561", "#f08a84"};
static const char *const dashes[] = {"", "7 3", "2 3", "9 3 2 3"};

static const char *dash_of(size_t look)
{
    return dashes[look / 5 % 4];
}

void svg_style(FILE *to)
{
    fputs(".chart text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu "
          "Sans',sans-serif;fill:#2b3440}"
          ".chart .title{font-size:14px;font-weight:600}.chart .small{font-size:11px}"
          ".chart .back{fill:#fff}.chart .grid{stroke:#e3e7ec}.chart .edge{stroke:#9aa4b0;fill:none}"
          ".chart "
          ".line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
          ".chart .faint{fill:none;stroke:currentColor;stroke-width:1;opacity:.3;stroke-linecap:round}"
          ".chart .band{fill:currentColor;opacity:.16}.chart .dot{fill:currentColor;stroke:none}"
          ".chart .rule{stroke:currentColor;stroke-width:1;stroke-dasharray:1 4;opacity:.7}"
          ".chart .mark{fill:none;stroke:currentColor;stroke-width:1.8}.chart "
          ".told{fill:transparent;stroke:none}"
          ".chart .crowd .band{opacity:.06}.chart .ink{color:#2b3440}",
          to);
    for (size_t i = 0; i < COLOURS; i++)
        fprintf(to, ".chart .k%zu{color:%s}", i, light[i]);
    fputs("@media screen and (prefers-color-scheme:dark){.chart text{fill:#d6dbe2}.chart .back{fill:#15181d}"
          ".chart .grid{stroke:#2c323a}.chart .edge{stroke:#5d6874}.chart .ink{color:#d6dbe2}"
          ".chart .band{opacity:.2}.chart .crowd .band{opacity:.08}.chart .faint{opacity:.38}",
          to);
    for (size_t i = 0; i < COLOURS; i++)
        fprintf(to, ".chart .k%zu{color:%s}", i, dark[i]);
    fputs("}\n", to);
}

/* A shape about 8 wide around x, y; the next looks have others. */
static void marker(FILE *to, size_t look, double x, double y)
{
    static const char *const shapes[] = {
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",                          /* disc            */
        "m-3.5-3.5h7v7h-7z",                                           /* square          */
        "m0-4.8l4.5 8h-9z",                                            /* triangle        */
        "m0-5l5 5l-5 5l-5-5z",                                         /* diamond         */
        "m0 4.8l4.5-8h-9z",                                            /* triangle, down  */
        "m-1.3-4.5h2.6v3.2h3.2v2.6h-3.2v3.2h-2.6v-3.2h-3.2v-2.6h3.2z", /* cross */
        "m-5-2h10v4h-10z",                                             /* bar             */
    };
    fprintf(to, "<path class=\"dot\" d=\"M%.1f %.1f%s\"/>", x, y, shapes[look % 7]);
}

static void stroke(FILE *to, size_t look, double x, double y)
{
    fprintf(to, "<path class=\"line\" stroke-dasharray=\"%s\" d=\"M%.1f %.1fh26\"/>", dash_of(look), x, y);
    marker(to, look, x + 13, y);
}

void svg_swatch(FILE *to, size_t look)
{
    fprintf(to,
            "<svg class=\"chart swatch\" viewBox=\"0 0 30 12\" width=\"30\" height=\"12\" "
            "aria-hidden=\"true\"><g class=\"k%zu\">",
            look % COLOURS);
    stroke(to, look, 2, 6);
    fputs("</g></svg>", to);
}

/* ---- the legend ---- */

/* How many bytes of the text its first NAME characters take, and how many characters these are. */
static size_t shown_bytes(const char *text, size_t *characters)
{
    size_t n = 0;
    *characters = 0;
    while (text[n] && *characters < NAME) {
        for (n++; (text[n] & 0xc0) == 0x80;)
            n++;
        ++*characters;
    }
    return n;
}

struct legend {
    FILE *to; /* NULL: only measures */
    double x;
    size_t rows;
};

static void legend_name(FILE *to, double x, double y, const char *name)
{
    char shown[4 * NAME + 8];
    size_t characters, n = shown_bytes(name, &characters);
    snprintf(shown, sizeof shown, "%.*s%s", (int)smaller(n, 4 * NAME), name,
             name[n] ? "\xe2\x80\xa6" : "");
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    xml_text(to, shown);
    fputs("</text>", to);
}

/* Room for the next entry, on a new row where this one is full; its left end is in l->x. */
static double legend_room(struct legend *l, const char *name)
{
    size_t characters;
    shown_bytes(name, &characters);
    double wide = 32 + 6.7 * (double)characters + 18;
    if (l->x > LEFT && l->x + wide > WIDTH) {
        l->x = LEFT;
        l->rows++;
    }
    double at = l->x;
    l->x += wide;
    return at;
}

static const char *const glyph_shapes[N_GLYPHS] = {
    [GLYPH_CROSS] = "m-4-4l8 8m0-8l-8 8",
    [GLYPH_RING] = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    [GLYPH_FLAG] = "m-4-4h8l-4 7z",
};

static void put_glyph(FILE *to, enum glyph glyph, double x, double y)
{
    fprintf(to, "<path class=\"mark\" d=\"M%.1f %.1f%s\"/>", x, y, glyph_shapes[glyph]);
}

static void legend_lines(struct legend *l, const struct chart *c)
{
    for (size_t i = 0; i < c->n_lines; i++) {
        const struct chart_line *line = &c->lines[i];
        if (!line->name)
            continue;
        double x = legend_room(l, line->name), y = LEGEND_TOP + LEGEND_ROW * (double)(l->rows - 1);
        if (!l->to)
            continue;
        fprintf(l->to, "<g class=\"k%zu\">", line->look % COLOURS);
        if (line->style == LINE_FAINT)
            fprintf(l->to, "<path class=\"faint\" d=\"M%.1f %.1fh26m-26 3h26m-26 3h26\"/>", x, y);
        else
            stroke(l->to, line->look, x, y + 3);
        fputs("</g>", l->to);
        legend_name(l->to, x + 32, y + 7, line->name);
    }
}

static bool has_glyph(const struct chart *c, enum glyph glyph)
{
    for (size_t i = 0; i < c->n_marks; i++)
        if (c->marks[i].glyph == glyph)
            return true;
    return false;
}

/* Draws the legend, or measures it when there is nothing to draw to; returns its rows. */
static size_t put_legend(FILE *to, const struct chart *c)
{
    struct legend l = {to, LEFT, 1};
    if (c->empty)
        return 0;
    legend_lines(&l, c);
    for (enum glyph g = 0; g < N_GLYPHS; g++) {
        if (!has_glyph(c, g))
            continue;
        double x = legend_room(&l, c->glyph_names[g]), y = LEGEND_TOP + LEGEND_ROW * (double)(l.rows - 1);
        if (!to)
            continue;
        fputs("<g class=\"ink\">", to);
        put_glyph(to, g, x + 13, y + 3);
        fputs("</g>", to);
        legend_name(to, x + 26, y + 7, c->glyph_names[g]);
    }
    return l.rows;
}

/* ---- the plot ---- */

struct area {
    const struct chart *chart;
    double top;
};

/* Far outside is as good as very far outside, and short to write. */
static double within(double at)
{
    return isnan(at) ? at : fmin(fmax(at, -WIDTH), 2 * WIDTH);
}

static double px(const struct area *a, double x)
{
    return within(LEFT + PLOT_WIDTH * scale_at(&a->chart->x, x));
}

static double py(const struct area *a, double y)
{
    return within(a->top + PLOT_HEIGHT * (1 - scale_at(&a->chart->y, y)));
}

static void put_axes(FILE *to, const struct area *a)
{
    const struct chart *c = a->chart;
    double ticks[PLOT_TICKS], bottom = a->top + PLOT_HEIGHT;
    char text[PLOT_TEXT];
    size_t n = scale_ticks(&c->y, 7, ticks);
    for (size_t i = 0; i < n; i++) {
        double y = py(a, ticks[i]);
        tick_text(&c->y, ticks, n, i, text);
        fprintf(to, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>", LEFT, y, PLOT_WIDTH);
        fprintf(to, "<text class=\"small\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", LEFT - 6,
                y + 4, text);
    }
    n = scale_ticks(&c->x, 8, ticks);
    for (size_t i = 0; i < n; i++) {
        double x = px(a, ticks[i]);
        tick_text(&c->x, ticks, n, i, text);
        fprintf(to, "<path class=\"edge\" d=\"M%.1f %.1fv4\"/>", x, bottom);
        fprintf(to, "<text class=\"small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x,
                bottom + 17, text);
    }
    fprintf(to, "<path class=\"edge\" d=\"M%d %.1fv%dh%d\"/>\n", LEFT, a->top, PLOT_HEIGHT, PLOT_WIDTH);
}

static void put_labels(FILE *to, const struct area *a)
{
    double bottom = a->top + PLOT_HEIGHT, middle = a->top + PLOT_HEIGHT / 2.0;
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">", LEFT + PLOT_WIDTH / 2, bottom + 37);
    xml_text(to, a->chart->x_label);
    fprintf(to, "</text><text transform=\"translate(15 %.1f) rotate(-90)\" text-anchor=\"middle\">", middle);
    xml_text(to, a->chart->y_label);
    fputs("</text>\n", to);
}

static void put_line(FILE *to, const struct area *a, const struct chart_line *l)
{
    bool main = l->style == LINE_MAIN, on = false;
    if (main)
        fprintf(to, "<path class=\"line\" stroke-dasharray=\"%s\" d=\"", dash_of(l->look));
    else
        fputs("<path class=\"faint\" d=\"", to);
    for (size_t i = 0; i < l->n; i++) {
        double x = px(a, l->x[i]), y = py(a, l->y[i]);
        bool here = !isnan(x) && !isnan(y);
        if (here)
            fprintf(to, on ? "L%.1f %.1f" : "M%.1f %.1fh0", x, y); /* h0: a point between gaps is a dot */
        on = here;
    }
    fputs("\"/>", to);
}

static void put_level(FILE *to, const struct area *a, const struct chart_line *l)
{
    double y = py(a, l->y[l->n - 1]);
    if (isnan(y))
        return;
    fprintf(to, "<path class=\"line\" stroke-dasharray=\"5 4\" d=\"M%d %.1fh%d\"/>", LEFT, y, PLOT_WIDTH);
    marker(to, l->look, LEFT + PLOT_WIDTH / 2.0, y);
}

static bool has_band(const struct area *a, const struct chart_line *l, size_t i)
{
    return i < l->n && !isnan(px(a, l->x[i])) && !isnan(py(a, l->low[i])) && !isnan(py(a, l->high[i]));
}

/* One closed shape for each stretch without a gap: along the upper edge and back along the lower. */
static void put_band(FILE *to, const struct area *a, const struct chart_line *l)
{
    fputs("<path class=\"band\" d=\"", to);
    for (size_t first = 0; first < l->n; first++) {
        size_t end = first;
        for (; has_band(a, l, end); end++)
            fprintf(to, "%c%.1f %.1f", end == first ? 'M' : 'L', px(a, l->x[end]), py(a, l->high[end]));
        if (end == first)
            continue;
        for (size_t i = end; i-- > first;)
            fprintf(to, "L%.1f %.1f", px(a, l->x[i]), py(a, l->low[i]));
        fputs("Z", to);
        first = end - 1;
    }
    fputs("\"/>", to);
}

static void put_markers(FILE *to, const struct area *a, const struct chart_line *l)
{
    size_t stride = thin_stride(l->n, MOST_MARKERS);
    for (size_t i = (l->n - 1) % stride; i < l->n; i += stride) {
        double x = px(a, l->x[i]), y = py(a, l->y[i]);
        if (!isnan(x) && !isnan(y))
            marker(to, l->look, x, y);
    }
}

static void put_told(FILE *to, const struct area *a, const struct chart_line *l)
{
    size_t stride = thin_stride(l->n, MOST_TOLD);
    for (size_t i = (l->n - 1) % stride; i < l->n; i += stride) {
        double x = px(a, l->x[i]), y = py(a, l->y[i]);
        if (isnan(x) || isnan(y) || !l->told[i])
            continue;
        fprintf(to, "<circle class=\"told\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"><title>", x, y);
        xml_text(to, l->told[i]);
        fputs("</title></circle>", to);
    }
}

/* Bands first, so that no line is hidden; where they are many they must be thin not to add up to a wall. */
static void put_bands(FILE *to, const struct area *a)
{
    const struct chart *c = a->chart;
    size_t n = 0;
    for (size_t i = 0; i < c->n_lines; i++)
        n += c->lines[i].low != NULL;
    for (size_t i = 0; i < c->n_lines; i++) {
        const struct chart_line *l = &c->lines[i];
        if (!l->low || l->style != LINE_MAIN)
            continue;
        fprintf(to, "<g class=\"k%zu%s\">", l->look % COLOURS, n > FEW_BANDS ? " crowd" : "");
        put_band(to, a, l);
        fputs("</g>\n", to);
    }
}

static void put_lines(FILE *to, const struct area *a)
{
    const struct chart *c = a->chart;
    fprintf(to, "<g clip-path=\"url(#%s)\">", c->id);
    put_bands(to, a);
    for (size_t i = 0; i < c->n_lines; i++) {
        const struct chart_line *l = &c->lines[i];
        if (l->n == 0)
            continue;
        fprintf(to, "<g class=\"k%zu%s\">", l->look % COLOURS, l->style == LINE_FAINT ? " each" : "");
        if (l->style == LINE_LEVEL)
            put_level(to, a, l);
        else
            put_line(to, a, l);
        if (l->style == LINE_MAIN)
            put_markers(to, a, l);
        if (l->told)
            put_told(to, a, l);
        fputs("</g>\n", to);
    }
    fputs("</g>", to);
}

/* Marks of one run that would lie over each other are drawn once. */
static void put_marks(FILE *to, const struct area *a)
{
    const struct chart *c = a->chart;
    for (size_t i = 0; i < c->n_marks; i++) {
        const struct chart_mark *m = &c->marks[i], *before = i ? m - 1 : NULL;
        double x = px(a, m->x), y = a->top + 6;
        bool again =
            before && before->glyph == m->glyph && before->look == m->look && px(a, before->x) > x - 1;
        if (isnan(x) || again)
            continue;
        fprintf(to, "<g class=\"k%zu\">", m->look % COLOURS);
        if (c->n_marks <= MOST_RULES)
            fprintf(to, "<path class=\"rule\" d=\"M%.1f %.1fv%d\"/>", x, y + 6, PLOT_HEIGHT - 12);
        put_glyph(to, m->glyph, x, y);
        fprintf(to, "<circle class=\"told\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"><title>", x, y);
        xml_text(to, m->text);
        fputs("</title></circle></g>\n", to);
    }
}

static void put_empty(FILE *to, const struct area *a)
{
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">", LEFT + PLOT_WIDTH / 2,
            a->top + PLOT_HEIGHT / 2.0);
    xml_text(to, a->chart->empty);
    fputs("</text>", to);
}

static void put_plot(FILE *to, const struct area *a)
{
    fprintf(to, "<clipPath id=\"%s\"><rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/></clipPath>\n",
            a->chart->id, LEFT - 4, a->top - 2, PLOT_WIDTH + 8, PLOT_HEIGHT + 6);
    put_axes(to, a);
    put_labels(to, a);
    put_marks(to, a);
    put_lines(to, a);
}

void svg_chart(FILE *to, const struct chart *c)
{
    struct area a = {c, LEGEND_TOP + LEGEND_ROW * (double)put_legend(NULL, c) + 4};
    double height = a.top + PLOT_HEIGHT + BELOW;
    fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 %d %.0f\"", WIDTH,
            height);
    if (c->alone)
        fprintf(to, " width=\"%d\" height=\"%.0f\"", WIDTH, height);
    fputs(" role=\"img\" aria-label=\"", to);
    xml_text(to, c->title);
    fputs("\">\n", to);
    if (c->alone) {
        fputs("<style>", to);
        svg_style(to);
        fprintf(to, "</style><rect class=\"back\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, height);
    }
    fprintf(to, "<text class=\"title\" x=\"%d\" y=\"20\">", LEFT);
    xml_text(to, c->title);
    fputs("</text>\n", to);
    put_legend(to, c);
    if (c->empty)
        put_empty(to, &a);
    else
        put_plot(to, &a);
    fputs("</svg>\n", to);
}
