/* report.c - reports behind an opaque handle: runs read once, shown in any format. */
#include <stdlib.h>
#include <string.h>

#include "api/compare/compare.h"
#include "base/plain.h"
#include "base/text.h"
#include "record/file.h"
#include "record/report.h"
#include "veche.h"

struct veche_report {
    struct report report; /* owned */
};

/* The runs of a comparison in place of its folder. */
static fault expand(const char *const *runs, size_t n, struct arena *arena, const char ***paths,
                    size_t *n_paths)
{
    const char **list = NULL;
    size_t have = 0;
    for (size_t i = 0; i < n; i++) {
        const char **inner = (const char **)&runs[i];
        size_t n_inner = 1;
        struct run_schedule schedule = {0};
        if (comparison_is_folder(runs[i])) {
            TRY(schedule_read(runs[i], &schedule));
            fault f = schedule_runs(&schedule, runs[i], arena, &inner, &n_inner);
            schedule_release(&schedule);
            TRY(f);
        }
        const char **longer = ARENA_NEW(arena, const char *, have + n_inner + 1);
        if (!longer)
            return OUT_OF_MEMORY;
        if (have)
            memcpy(longer, list, have * sizeof *list);
        memcpy(longer + have, inner, n_inner * sizeof *inner);
        list = longer;
        have += n_inner;
    }
    *paths = list;
    *n_paths = have;
    return OK;
}

veche_fault *veche_report_read(const char *const *runs, size_t n, veche_report **out)
{
    PLAIN_NUMBERS;
    veche_report *r = calloc(1, sizeof *r);
    if (!r)
        return OUT_OF_MEMORY;
    struct arena arena = {0};
    const char **paths;
    size_t n_paths;
    fault f = expand(runs, n, &arena, &paths, &n_paths);
    if (!f)
        f = report_read(paths, n_paths, &r->report);
    arena_release(&arena);
    if (f)
        free(r);
    else
        *out = r;
    return f;
}

static fault find_axis(const char *name, enum axis *out)
{
    for (enum axis a = 0; a < N_AXES; a++)
        if (!name || text_is(name, axis_names[a])) {
            *out = a;
            return OK;
        }
    return FAIL(FAULT_USAGE, "'%s' is no axis of a figure; there are epochs, seconds and bytes",
                text_shown(name).text);
}

veche_fault *veche_report_print(const veche_report *r, const char *format, const char *by, char **text)
{
    PLAIN_NUMBERS;
    enum axis axis = AXIS_EPOCHS;
    TRY(find_axis(by, &axis));
    if (text_is(format, "text"))
        return report_table(&r->report, text);
    if (text_is(format, "json"))
        return report_json(&r->report, text);
    if (text_is(format, "html"))
        return report_html(&r->report, axis, text);
    for (enum figure f = 0; text_starts(format, "svg:") && f < N_FIGURES; f++)
        if (text_is(format + 4, figure_names[f]))
            return report_svg(&r->report, f, axis, text);
    return FAIL(FAULT_USAGE, "'%s' is no format of a report", text_shown(format).text);
}

veche_fault *veche_report_write(const veche_report *r, const char *format, const char *by, const char *path)
{
    PLAIN_NUMBERS;
    char *text;
    TRY(veche_report_print(r, format, by, &text));
    struct piece piece = {text, strlen(text)};
    fault f = file_replace(path, &piece, 1);
    free(text);
    return f;
}

void veche_report_free(veche_report *r)
{
    if (r)
        report_release(&r->report);
    free(r);
}
