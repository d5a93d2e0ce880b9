/* columns.h - cells of any length in columns as wide as they must be.
 *
 *   struct columns t = {.n_columns = 3, .right = right};
 *   columns_cell(&t, "layer"); ...          row by row, the headings first
 *   fault f = columns_print(&t, to);
 *
 * A column in which nothing but its heading stands is left out, as are spaces at the ends of lines. A table of headings alone is
 * nothing at all.
 */
#ifndef VECHE_GRAPH_COLUMNS_H
#define VECHE_GRAPH_COLUMNS_H

#include <stdio.h>

#include "base/arena.h"

enum { MOST_COLUMNS = 12 };

struct columns {
    size_t n_columns;
    const bool *right;  /* borrowed: per column, whether its cells stand at its right edge */
    size_t indent;      /* spaces before every line */
    struct arena arena; /* owned: the cells */
    const char **cells; /* owned */
    size_t n_cells, room;
    bool is_out_of_memory;
};

void columns_cell(struct columns *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A count with commas; nothing for 0. */
void columns_count(struct columns *t, double n);
/* Prints the table and lets it go. */
fault columns_print(struct columns *t, FILE *to);

#endif
