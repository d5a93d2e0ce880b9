/* comparison.h - methods side by side: one table, the best of each column marked, or one object. */
#ifndef VECHE_RECORD_COMPARISON_H
#define VECHE_RECORD_COMPARISON_H

#include <jansson.h>

#include "record/report.h"

struct compared { /* one method */
    const char *method;
    const char *failure;          /* why it failed; NULL: it did not           */
    const struct report_run *run; /* NULL: nothing of it was evaluated yet      */
    bool done;
};

/* Made for 80 columns: a method whose name does not fit has a line for it. `real`: seconds are those of real machines, and
 * not of the ones an experiment describes. Caller frees. */
fault comparison_table(const struct compared *methods, size_t n, double target, bool real, char **out);
/* The figures of the table; NULL when memory is out. */
json_t *comparison_figures(const struct compared *method);

#endif
