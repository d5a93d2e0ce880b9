/* report_cells.h - the columns of the table: one list for the terminal and for the page. */
#ifndef VECHE_RECORD_REPORT_CELLS_H
#define VECHE_RECORD_REPORT_CELLS_H

#include "record/report.h"

enum { CELL_TEXT = 64 };

struct report_column {
    const char *head, *help;
    bool is_text;                                                   /* set to the left, else to the right */
    const char *(*whole)(const struct report_run *r);               /* a text of any length, or ...       */
    void (*cell)(const struct report_run *r, char text[CELL_TEXT]); /* ... a short one; empty: nothing    */
};

const struct report_column *report_columns(size_t *n);

/* What stands in a run's cell; `text` is room for it. "+-" stands for the sign that people write. */
const char *report_cell(const struct report_column *c, const struct report_run *r, char text[CELL_TEXT]);

/* Whether the column tells anything: not empty in all runs and, for data and state, not the same in all. */
bool report_has_column(const struct report *r, const struct report_column *c);

/* Plain numbers: seconds, percent and the like, "-" where there is none. */
void cell_real(double x, int decimals, char text[CELL_TEXT]);

/* One sentence: what was trained, by whom, compared with what. Caller frees. */
fault report_sentence(const struct report *r, char **out);

#endif
