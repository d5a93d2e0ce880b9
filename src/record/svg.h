/* svg.h - one chart as SVG: lines with bands, marks for what happened, a legend, axes.
 *
 * A chart knows nothing of runs. Its looks (colour, dash, marker) are numbered; ten colours, told apart by
 * dash and marker as well, for eyes and printers that do not see the colours.
 */
#ifndef VECHE_RECORD_SVG_H
#define VECHE_RECORD_SVG_H

#include <stdio.h>

#include "record/plot.h"

enum line_style {
    LINE_MAIN,  /* thick, with markers        */
    LINE_FAINT, /* thin: one of many          */
    LINE_LEVEL  /* the last value, all across */
};

struct chart_line {
    const char *name; /* in the legend; NULL: not there */
    size_t look;
    enum line_style style;
    const double *x, *y, *low, *high; /* borrowed, n of each; NaN leaves a gap; low == NULL: no band */
    const char *const *told;          /* borrowed: what a pointer over a point reads; NULL: nothing  */
    size_t n;
};

enum glyph { GLYPH_CROSS, GLYPH_RING, GLYPH_FLAG, N_GLYPHS };

struct chart_mark { /* at the upper edge */
    double x;
    size_t look;
    enum glyph glyph;
    const char *text;
};

struct chart {
    const char *id; /* unlike that of any other chart on the page */
    const char *title, *x_label, *y_label;
    struct scale x, y;
    const struct chart_line *lines; /* borrowed */
    size_t n_lines;
    const struct chart_mark *marks; /* borrowed */
    size_t n_marks;
    const char *glyph_names[N_GLYPHS]; /* in the legend */
    const char *empty;                 /* said in place of lines; NULL: there are some */
    bool alone;                        /* a file of its own, with its style in it      */
};

void svg_chart(FILE *to, const struct chart *c);

/* The rules of style that charts need, for a page of several. */
void svg_style(FILE *to);

/* A short stroke with its marker, as in the legend, for use in a table. */
void svg_swatch(FILE *to, size_t look);

#endif
