/* report_table.c - the runs side by side: columns for a terminal, one object for programs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "record/inside.h"
#include "record/report_cells.h"

/* Columns on a terminal: the bytes that begin a UTF-8 character. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

/* Control characters would move the cursor; a folder may be named with them. */
static void put_cell(FILE *to, const char *text, size_t wide, bool left)
{
    size_t n = width_of(text), gap = wide > n ? wide - n : 0;
    fprintf(to, "%*s", left ? 0 : (int)gap, "");
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, to);
    fprintf(to, "%*s", left ? (int)gap : 0, "");
}

static size_t column_width(const struct report *r, const struct report_column *c)
{
    char text[CELL_TEXT];
    size_t wide = width_of(c->head);
    for (size_t i = 0; i < r->n; i++) {
        size_t n = width_of(report_cell(c, &r->runs[i], text));
        wide = larger(n, wide);
    }
    return wide;
}

/* One line of the table; run == NULL: the heads. */
static void put_row(FILE *to, const struct report *r, const struct report_run *run)
{
    size_t n;
    const struct report_column *c = report_columns(&n);
    for (size_t i = 0; i < n; i++) {
        char text[CELL_TEXT];
        const char *cell = run ? report_cell(&c[i], run, text) : c[i].head;
        if (!report_has_column(r, &c[i]))
            continue;
        fputs(i ? "  " : "", to);
        put_cell(to, run && !*cell ? "-" : cell, column_width(r, &c[i]), c[i].is_text);
    }
    fputc('\n', to);
}

static void put_notes(FILE *to, const struct report *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->runs[i].n_notes)
            fprintf(to, "%s: %zu note%s in its events\n", r->runs[i].label, r->runs[i].n_notes,
                    r->runs[i].n_notes == 1 ? "" : "s");
}

fault report_table(const struct report *r, char **out)
{
    char *sentence;
    struct page page;
    TRY(report_sentence(r, &sentence));
    fault f = page_open(&page);
    if (f) {
        free(sentence);
        return f;
    }
    put_cell(page.out, sentence, 0, true);
    fputs("\n\n", page.out);
    free(sentence);
    put_row(page.out, r, NULL);
    for (size_t i = 0; i < r->n; i++)
        put_row(page.out, r, &r->runs[i]);
    put_notes(page.out, r);
    return page_close(&page, OK, out);
}

/* ---- the object ---- */

static json_t *text_or_null(const char *text)
{
    return text ? json_text(text) : json_null();
}

static json_t *rival_object(const struct report_run *rival)
{
    return rival ? json_pack("{s:o, s:o}", "run", json_text(rival->path), "accuracy",
                             json_number(rival->end.accuracy.mean))
                 : json_null();
}

static json_t *identity(const struct report_run *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:b}", "run", json_text(r->path),
                     "name", json_text(r->end.name), "status", json_text(r->end.status), "strategy",
                     json_text(r->strategy), "topology", text_or_null(r->topology), "data",
                     text_or_null(r->set), "model", text_or_null(r->model), "batch", (json_int_t)r->batch,
                     "agents", (json_int_t)r->n_agents, "alive", (json_int_t)r->n_alive, "finished",
                     r->finished);
}

static json_t *outcome(const struct report_run *r)
{
    const struct summary *s = &r->end;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:I}",
        "accuracy", json_spread(&s->accuracy), "loss", json_spread(&s->loss), "averaged_accuracy",
        json_number(s->averaged_accuracy), "best_accuracy", json_number(s->best_accuracy), "rival",
        rival_object(r->rival), "epochs", json_number(s->epochs), "rounds", (json_int_t)s->rounds, "samples",
        (json_int_t)s->samples, "virtual_s", json_number(s->virtual_s), "real_s", json_number(s->real_s),
        "clock", s->on_machines ? "real" : "virtual", "bytes", (json_int_t)s->bytes, "messages",
        (json_int_t)s->messages, "waiting_share", json_number(s->waiting_share), "staleness_mean",
        json_number(s->staleness_mean), "staleness_max", json_number(s->staleness_max), "disagreement",
        json_disagreement(&s->disagreement), "notes", (json_int_t)r->n_notes);
}

fault report_json(const struct report *r, char **out)
{
    json_t *runs = json_array(), *whole;
    for (size_t i = 0; i < r->n; i++) {
        json_t *run = identity(&r->runs[i]), *rest = outcome(&r->runs[i]);
        int failed = !run || !rest || json_object_update(run, rest) || json_array_append(runs, run);
        json_decref(rest);
        json_decref(run);
        if (failed) {
            json_decref(runs);
            return OUT_OF_MEMORY;
        }
    }
    whole = json_pack("{s:o}", "runs", runs);
    char *text = json_dumps(whole, JSON_DIGITS);
    json_decref(whole);
    if (!text)
        return OUT_OF_MEMORY;
    *out = text;
    return OK;
}
