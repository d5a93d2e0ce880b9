/* table.h - cells of any length in columns as wide as they must be.
 *
 *   struct table t = {.n_columns = 3, .right = right};
 *   table_cell(&t, "layer"); ...          row by row, the headings first
 *   fault f = table_print(&t, to);
 *
 * A column in which nothing but its heading stands is left out, as are spaces at the ends of lines. A table of headings alone is
 * nothing at all.
 */
#ifndef VECHE_GRAPH_TABLE_H
#define VECHE_GRAPH_TABLE_H

#include <stdio.h>

#include "base/arena.h"

enum { TABLE_MOST_COLUMNS = 12 };

struct table {
    size_t n_columns;
    const bool *right;  /* borrowed: per column, whether its cells stand at its right edge */
    size_t indent;      /* spaces before every line */
    struct arena arena; /* owned: the cells */
    const char **cells; /* owned */
    size_t n_cells, room;
    bool is_out_of_memory;
};

void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A count with commas; nothing for 0. */
void table_count(struct table *t, double n);
/* Prints the table and lets it go. */
fault table_print(struct table *t, FILE *to);

#endif
