/* comparison.c - methods side by side.
 *
 * A figure that a method does not have is a dash. The best of a column is marked where the figures differ; a
 * method that failed or is not done takes no part in that. One agent without a server sends nothing and never
 * waits, so it has no such figures.
 */
#include "record/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "base/text.h"
#include "record/inside.h"
#include "record/plot.h"
#include "record/report_cells.h"

enum { WIDTH = 80, NAME_LEAST = 6, AS_FITS = -1 };

static double accuracy(const struct report_run *r)
{
    return r->end.accuracy.mean;
}

static double averaged(const struct report_run *r)
{
    return r->end.averaged_accuracy;
}

static double target_s(const struct report_run *r)
{
    return r->target_s;
}

static double virtual_s(const struct report_run *r)
{
    return r->end.virtual_s;
}

static bool has_company(const struct report_run *r)
{
    return r->n_agents > 1 || r->end.bytes > 0;
}

static double bytes(const struct report_run *r)
{
    return has_company(r) ? (double)r->end.bytes : NAN;
}

static double waiting(const struct report_run *r)
{
    return has_company(r) ? 100 * r->end.waiting_share : NAN;
}

static double staleness(const struct report_run *r)
{
    return has_company(r) ? r->end.staleness_mean : NAN;
}

static const struct column {
    const char *head;
    double (*of)(const struct report_run *r);
    int decimals;
    bool more_is_better;
} columns[] = {
    {"accuracy", accuracy, 2, true},     {"averaged", averaged, 2, true},
    {"s to ", target_s, AS_FITS, false}, {"virtual s", virtual_s, AS_FITS, false},
    {"sent", bytes, AS_FITS, false},     {"wait %", waiting, 1, false},
    {"stale", staleness, 2, false},
};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

struct sheet {
    const struct compared *methods;
    size_t n;
    double target;
    bool real; /* time */
    struct magnitude magnitude[N_COLUMNS];
    int decimals[N_COLUMNS];
    double best[N_COLUMNS]; /* NaN: none is better than the others */
    size_t wide[N_COLUMNS], name_wide;
};

static bool counts(const struct compared *m)
{
    return m->run && m->done;
}

static double figure(const struct sheet *s, size_t k, const struct compared *m)
{
    return m->run ? columns[k].of(m->run) / s->magnitude[k].size : NAN;
}

static void show(const struct sheet *s, size_t k, const struct compared *m, char text[CELL_TEXT])
{
    cell_real(figure(s, k, m), s->decimals[k], text);
}

/* As it is shown, which decides whether it is better than another. */
static double shown(const struct sheet *s, size_t k, const struct compared *m)
{
    char text[CELL_TEXT];
    show(s, k, m, text);
    return text_is(text, "-") ? NAN : strtod(text, NULL);
}

static double most_of(const struct sheet *s, size_t k)
{
    double most = 0;
    for (size_t i = 0; i < s->n; i++)
        most = fmax(most, figure(s, k, &s->methods[i]));
    return most;
}

static double best_of(const struct sheet *s, size_t k)
{
    double best = NAN, worst = NAN;
    bool more = columns[k].more_is_better;
    for (size_t i = 0; i < s->n; i++) {
        double x = counts(&s->methods[i]) ? shown(s, k, &s->methods[i]) : NAN;
        best = more ? fmax(best, x) : fmin(best, x);
        worst = more ? fmin(worst, x) : fmax(worst, x);
    }
    return best != worst ? best : NAN;
}

static bool has_column(const struct sheet *s, size_t k)
{
    return columns[k].of == target_s    ? isfinite(s->target)
           : columns[k].of == staleness ? most_of(s, k) > 0
                                        : true;
}

static void head_of(const struct sheet *s, size_t k, char text[CELL_TEXT])
{
    if (columns[k].of == target_s)
        snprintf(text, CELL_TEXT, "%s%.4g%%", columns[k].head, s->target);
    else if (columns[k].of == virtual_s && s->real)
        snprintf(text, CELL_TEXT, "seconds");
    else
        snprintf(text, CELL_TEXT, "%s%s%s", columns[k].head, *s->magnitude[k].name ? " " : "", s->magnitude[k].name);
}

static void choose_magnitudes(struct sheet *s)
{
    for (size_t k = 0; k < N_COLUMNS; k++) {
        s->magnitude[k] = (struct magnitude){"", 1};
        if (columns[k].of == bytes)
            s->magnitude[k] = magnitude_of_bytes(most_of(s, k));
        double most = most_of(s, k);
        s->decimals[k] = columns[k].decimals != AS_FITS ? columns[k].decimals
                         : most < 10                    ? 3
                         : most < 100                   ? 2
                                                        : 1;
    }
}

static void measure(struct sheet *s)
{
    char text[CELL_TEXT];
    size_t figures = 0;
    choose_magnitudes(s);
    for (size_t k = 0; k < N_COLUMNS; k++) {
        if (!has_column(s, k))
            continue;
        head_of(s, k, text);
        s->wide[k] = strlen(text);
        for (size_t i = 0; i < s->n; i++) {
            show(s, k, &s->methods[i], text);
            s->wide[k] = larger(strlen(text), s->wide[k]);
        }
        s->best[k] = best_of(s, k);
        figures += s->wide[k] + 2;
    }
    size_t room = figures + NAME_LEAST < WIDTH ? WIDTH - 1 - figures : NAME_LEAST;
    s->name_wide = NAME_LEAST;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->methods[i].method);
        if (n <= room && n > s->name_wide)
            s->name_wide = n;
    }
}

static void put_name(FILE *to, const struct sheet *s, const char *name)
{
    if (strlen(name) > s->name_wide)
        fprintf(to, "%s\n%*s", name, (int)s->name_wide, "");
    else
        fprintf(to, "%-*s", (int)s->name_wide, name);
}

/* The mark takes one of the two blanks before the next column. */
static void put_figures(FILE *to, const struct sheet *s, const struct compared *m)
{
    bool marked = false;
    for (size_t k = 0; k < N_COLUMNS; k++) {
        char text[CELL_TEXT];
        if (!has_column(s, k))
            continue;
        show(s, k, m, text);
        fprintf(to, "%s%*s", k == 0 ? "  " : marked ? " " : "  ", (int)s->wide[k], text);
        marked = counts(m) && shown(s, k, m) == s->best[k];
        fputs(marked ? "*" : "", to);
    }
    fputc('\n', to);
}

/* A few words: the whole sentence stands in the records. */
static void put_failure(FILE *to, const struct sheet *s, const char *why)
{
    int room = WIDTH - (int)s->name_wide - 10;
    if ((int)strlen(why) > room)
        fprintf(to, "  failed: %.*s...\n", room - 3, why);
    else
        fprintf(to, "  failed: %s\n", why);
}

static void put_rows(FILE *to, const struct sheet *s)
{
    bool any_best = false;
    put_name(to, s, "method");
    for (size_t k = 0; k < N_COLUMNS; k++) {
        char text[CELL_TEXT];
        head_of(s, k, text);
        if (has_column(s, k))
            fprintf(to, "  %*s", (int)s->wide[k], text);
        any_best = any_best || isfinite(s->best[k]);
    }
    fputc('\n', to);
    for (size_t i = 0; i < s->n; i++) {
        const struct compared *m = &s->methods[i];
        put_name(to, s, m->method);
        if (m->failure)
            put_failure(to, s, m->failure);
        else if (!m->done)
            fputs(m->run ? "  begun, not done\n" : "  not begun\n", to);
        else
            put_figures(to, s, m);
    }
    fputs("\naccuracy and averaged (that of the mean of all models) are in percent\n", to);
    if (any_best)
        fputs("* the best of its column\n", to);
}

fault comparison_table(const struct compared *methods, size_t n, double target, bool real, char **out)
{
    struct sheet s = {.methods = methods, .n = n, .target = target, .real = real};
    struct page page;
    TRY(page_open(&page));
    for (size_t k = 0; k < N_COLUMNS; k++)
        s.best[k] = NAN;
    measure(&s);
    put_rows(page.out, &s);
    return page_close(&page, OK, out);
}

json_t *comparison_figures(const struct compared *m)
{
    const struct report_run *r = m->run;
    json_t *object = json_pack("{s:o, s:s, s:o}", "method", json_text(m->method), "state",
                               m->failure ? "failed"
                               : m->done  ? "done"
                               : r        ? "begun"
                                          : "not begun",
                               "failure", m->failure ? json_text(m->failure) : json_null());
    if (!object || !r)
        return object;
    const struct summary *s = &r->end;
    json_t *figures = json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "accuracy", json_spread(&s->accuracy),
        "averaged_accuracy", json_number(s->averaged_accuracy), "target_s", json_number(r->target_s),
        "virtual_s", json_number(s->virtual_s), "bytes", (json_int_t)s->bytes, "messages",
        (json_int_t)s->messages, "waiting_share", json_number(s->waiting_share), "waited_for",
        r->waited_for ? json_text(r->waited_for) : json_null(), "staleness_mean",
        json_number(s->staleness_mean), "staleness_max", json_number(s->staleness_max), "params_sha256",
        json_text(s->params_sha256));
    if (!figures || json_object_update(object, figures) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(figures);
    return object;
}
