/* columns.c - see columns.h. */
#include "graph/columns.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void columns_cell(struct columns *t, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char **cells = array_with_room(t->cells, &t->room, t->n_cells + 1, sizeof *t->cells);
    const char *cell = arena_text(&t->arena, text);
    if (cells)
        t->cells = cells;
    if (cells && cell)
        t->cells[t->n_cells++] = cell;
    else
        t->is_out_of_memory = true;
}

void columns_count(struct columns *t, double n)
{
    columns_cell(t, "%s", n ? text_count((size_t)n).text : "");
}

static void measure(const struct columns *t, size_t *width)
{
    for (size_t i = 0; i < t->n_cells; i++)
        width[i % t->n_columns] = larger(width[i % t->n_columns], i < t->n_columns ? 0 : strlen(t->cells[i]));
    for (size_t c = 0; c < t->n_columns; c++)
        if (width[c])
            width[c] = larger(width[c], strlen(t->cells[c]));
}

static void print_row(const struct columns *t, const char **cells, const size_t *width, FILE *to)
{
    size_t spaces = t->indent; /* that are not printed yet, nor ever at the end of a line */
    for (size_t c = 0; c < t->n_columns; c++) {
        if (!width[c])
            continue;
        size_t n = strlen(cells[c]), rest = width[c] - n;
        spaces += t->right[c] ? rest : 0;
        if (n) {
            fprintf(to, "%*s%s", (int)spaces, "", cells[c]);
            spaces = 0;
        }
        spaces += (t->right[c] ? 0 : rest) + 2;
    }
    fputc('\n', to);
}

fault columns_print(struct columns *t, FILE *to)
{
    size_t width[MOST_COLUMNS] = {0};
    bool is_whole = !t->is_out_of_memory;
    if (is_whole && t->n_cells > t->n_columns) {
        measure(t, width);
        for (size_t i = 0; i < t->n_cells; i += t->n_columns)
            print_row(t, t->cells + i, width, to);
    }
    arena_release(&t->arena);
    free(t->cells);
    return is_whole ? OK : OUT_OF_MEMORY;
}
