/* summary.c - how a run ended: one JSON object for programs, one table for people. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/page.h"
#include "record/inside.h"
#include "record/file.h"
#include "record/seal.h"

/* Over the doubles that stand `stride` bytes apart; with `counts`, bools as far apart, only those that count. */
static struct spread spread_over(const char *values, const char *counts, size_t stride, size_t n)
{
    struct spread s = {.min = INFINITY, .max = -INFINITY};
    double counted = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        counted += !counts || *(const bool *)(counts + i * stride);
    if (counted == 0)
        return (struct spread){NAN, NAN, NAN, NAN};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            double x = *(const double *)(values + i * stride);
            if (counts && !*(const bool *)(counts + i * stride))
                continue;
            if (pass == 1) {
                squares += (x - s.mean) * (x - s.mean);
                continue;
            }
            s.mean += x / counted;
            s.min = fmin(s.min, x);
            s.max = fmax(s.max, x);
        }
    s.std = sqrt(squares / counted);
    return s;
}

struct spread spread_of(const double *values, size_t n)
{
    return spread_over((const char *)values, NULL, sizeof *values, n);
}

struct spread spread_of_scores(const struct score *scores, size_t n, size_t offset)
{
    bool living = false;
    for (size_t i = 0; i < n; i++)
        living = living || scores[i].alive;
    const char *first = (const char *)scores;
    return spread_over(first + offset, living ? first + offsetof(struct score, alive) : NULL, sizeof *scores,
                       n);
}

json_t *json_spread(const struct spread *s)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", json_number(s->mean), "std", json_number(s->std), "min",
                     json_number(s->min), "max", json_number(s->max));
}

static json_t *summary_object(const struct summary *s)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, "
        "s:I, s:I, s:I, s:I, "
        "s:o, s:o, s:o, s:o, s:o, s:s, s:s}",
        "name", json_text(s->name), "strategy", json_text(s->strategy), "status", json_text(s->status),
        "stopped_because", s->stopped_because ? json_text(s->stopped_because) : json_null(), "run",
        json_text(s->run), "version", json_text(s->version), "engine", json_text(s->engine), "agents",
        (json_int_t)s->agents, "rounds", (json_int_t)s->rounds, "samples", (json_int_t)s->samples, "epochs",
        json_number(s->epochs), "accuracy", json_spread(&s->accuracy), "loss", json_spread(&s->loss),
        "best_accuracy", json_number(s->best_accuracy), "averaged_accuracy",
        json_number(s->averaged_accuracy), "real_s", json_number(s->real_s), "virtual_s",
        json_number(s->virtual_s), "clock", s->on_machines ? "real" : "virtual", "images_per_s",
        json_number(s->images_per_s), "bytes", (json_int_t)s->bytes, "messages", (json_int_t)s->messages,
        "notes", (json_int_t)s->notes, "dropped", (json_int_t)s->dropped, "waiting_share",
        json_number(s->waiting_share), "staleness_mean", json_number(s->staleness_mean), "staleness_max",
        json_number(s->staleness_max), "disagreement", json_disagreement(&s->disagreement), "waiting",
        json_waiting(&s->waiting, true), "params_sha256", s->params_sha256, "data_sha256", s->data_sha256);
}

/* `last_event` NULL: without. */
static fault dump(const struct summary *s, const char *last_event, size_t flags, char **out)
{
    json_t *object = summary_object(s);
    if (object && last_event && json_object_set_new(object, "last_event", json_string(last_event)) != 0) {
        json_decref(object);
        return OUT_OF_MEMORY;
    }
    char *text = json_dumps(object, flags | JSON_DIGITS);
    json_decref(object);
    if (!text)
        return OUT_OF_MEMORY;
    *out = text;
    return OK;
}

fault summary_json(const struct summary *s, char **out)
{
    return dump(s, NULL, 0, out);
}

fault run_write_summary(struct run_folder *r, const struct summary *s)
{
    char path[FILE_PATH], *text = NULL, *sealed = NULL;
    TRY(path_join(r->path, "summary.json", sizeof path, path));
    TRY(dump(s, r->last_event, JSON_INDENT(2), &text));
    fault f = seal_text(&seal_of_object, text, &sealed);
    free(text);
    TRY(f);
    f = file_replace(path, &(struct piece){sealed, strlen(sealed)}, 1);
    free(sealed);
    return f;
}

fault run_remove_summary(struct run_folder *r)
{
    char path[FILE_PATH];
    TRY(path_join(r->path, "summary.json", sizeof path, path));
    if (unlink(path) != 0 && errno != ENOENT)
        return FAIL(FAULT_FILE, "%s: cannot be removed: %s", path, strerror(errno));
    return OK;
}

/* ---- the table ---- */

enum { CELL = 64, NOTE = 3 * CELL };

/* Seconds as people say them. */
static const char *duration(double s, char cell[CELL])
{
    if (!(s < 1e12))
        snprintf(cell, CELL, "unknown");
    else if (s < 59.95)
        snprintf(cell, CELL, "%.1f s", s);
    else if (s < 3599.5)
        snprintf(cell, CELL, "%d min %02d s", (int)round(s) / 60, (int)round(s) % 60);
    else
        snprintf(cell, CELL, "%.0f h %02d min", floor(round(s / 60) / 60), (int)fmod(round(s / 60), 60));
    return cell;
}

static const char *volume(uint64_t bytes, char cell[CELL])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    double x = (double)bytes;
    size_t unit = 0;
    for (; x >= 999.95 && unit < 6; unit++)
        x /= 1000;
    snprintf(cell, CELL, unit ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return cell;
}

static const char *percent(double x, char cell[CELL])
{
    snprintf(cell, CELL, isfinite(x) ? "%.2f %%" : "unknown", x);
    return cell;
}

static const char *number(double x, char cell[CELL])
{
    snprintf(cell, CELL, isfinite(x) ? "%.4g" : "not finite", x);
    return cell;
}

/* Where there was no evaluation, neither loss nor accuracy are known. */
static const char *loss(const struct summary *s, double x, char cell[CELL])
{
    if (isfinite(x) || isfinite(s->accuracy.mean))
        return number(x, cell);
    snprintf(cell, CELL, "unknown");
    return cell;
}

static void line(FILE *to, const char *label, const char *value, const char *note)
{
    if (note && *note)
        fprintf(to, "  %-14s%-16s  %s\n", label, value, note);
    else
        fprintf(to, "  %-14s%s\n", label, value);
}

static void results(FILE *to, const struct summary *s)
{
    char cell[CELL], note[NOTE], low[CELL], high[CELL];
    if (s->agents > 1) {
        snprintf(note, NOTE, "mean; agents from %s to %s", percent(s->accuracy.min, low),
                 percent(s->accuracy.max, high));
        line(to, "accuracy", percent(s->accuracy.mean, cell), note);
        snprintf(note, NOTE, "mean; agents from %s to %s", loss(s, s->loss.min, low),
                 loss(s, s->loss.max, high));
        line(to, "loss", loss(s, s->loss.mean, cell), note);
        if (isfinite(s->averaged_accuracy))
            line(to, "averaged", percent(s->averaged_accuracy, cell), "accuracy of the mean of all models");
    } else {
        line(to, "accuracy", percent(s->accuracy.mean, cell), "of the test samples are recognised");
        line(to, "loss", loss(s, s->loss.mean, cell), "on the test samples; lower is better");
    }
    line(to, "best", percent(s->best_accuracy, cell), "accuracy at any evaluation of this run");
}

static void effort(FILE *to, const struct summary *s)
{
    char cell[CELL], note[NOTE];
    snprintf(cell, CELL, "%.6g epoch%s", s->epochs, s->epochs == 1 ? "" : "s");
    snprintf(note, NOTE, "%llu rounds, %llu samples", (unsigned long long)s->rounds,
             (unsigned long long)s->samples);
    line(to, "trained", cell, note);
    if (s->stopped_because)
        line(to, "stopped", s->stopped_because, "");
    snprintf(note, NOTE, "%.0f samples a second", s->images_per_s);
    line(to, "time", duration(s->real_s, cell), isfinite(s->images_per_s) ? note : "");
    if (!s->on_machines)
        line(to, "virtual time", duration(s->virtual_s, cell), "on the machines the experiment describes");
}

enum { AGENTS_ON_A_LINE = 5, AGENTS_LISTED = 20 };

/* The share of each agent where they are few, else of the least and the most patient. */
static void shares(FILE *to, const struct waiting *w)
{
    size_t least = 0, most = 0;
    for (size_t i = 1; i < w->n_agents; i++) {
        least = w->waiting_s[i] < w->waiting_s[least] ? i : least;
        most = w->waiting_s[i] > w->waiting_s[most] ? i : most;
    }
    if (w->n_agents > AGENTS_LISTED) {
        fprintf(to, "  %-14sfrom %.1f %% (agent %zu) to %.1f %% (agent %zu)\n", "",
                100 * w->waiting_s[least] / w->virtual_s, least, 100 * w->waiting_s[most] / w->virtual_s,
                most);
        return;
    }
    for (size_t i = 0; i < w->n_agents; i++) {
        if (i % AGENTS_ON_A_LINE == 0)
            fprintf(to, "%s  %-14s", i ? "\n" : "", i ? "" : "  each agent");
        fprintf(to, "%s%zu: %.1f %%", i % AGENTS_ON_A_LINE ? "  " : "", i,
                100 * w->waiting_s[i] / w->virtual_s);
    }
    fputc('\n', to);
}

static fault waits(FILE *to, const struct summary *s)
{
    char *sentence, cell[CELL];
    line(to, "waiting", percent(100 * s->waiting_share, cell),
         s->on_machines ? "of the agents' time" : "of the agents' virtual time");
    if (!s->waiting.n_members || !(s->waiting.virtual_s > 0) || s->waiting.most == NO_MEMBER)
        return OK;
    shares(to, &s->waiting);
    TRY(waiting_sentence(&s->waiting, &sentence));
    fprintf(to, "  %-14s%s\n", "  for whom", sentence);
    free(sentence);
    return OK;
}

static fault company(FILE *to, const struct summary *s)
{
    char cell[CELL], note[NOTE];
    snprintf(cell, CELL, "%lld", (long long)s->agents);
    snprintf(note, NOTE, "strategy %.40s", s->strategy);
    line(to, "agents", cell, note);
    if (s->agents <= 1)
        return OK;
    snprintf(note, NOTE, "in %llu messages", (unsigned long long)s->messages);
    line(to, "traffic", volume(s->bytes, cell), note);
    TRY(waits(to, s));
    if (s->staleness_max > 0) {
        snprintf(note, NOTE, "steps behind on average; most %.6g", s->staleness_max);
        line(to, "staleness", number(s->staleness_mean, cell), note);
    }
    if (s->dropped) {
        snprintf(cell, CELL, "%llu", (unsigned long long)s->dropped);
        line(to, "dropped", cell, "gradients that came too late to count");
    }
    if (s->notes) {
        snprintf(cell, CELL, "%llu", (unsigned long long)s->notes);
        line(to, "notes", cell, "crashes, returns and the like");
    }
    line(to, "disagreement", number(s->disagreement.l2, cell), "L2 distance of the agents from their mean");
    return OK;
}

static fault write_table(FILE *to, const struct summary *s)
{
    char cell[CELL];
    fprintf(to, "%s: %s\n\n", s->name, s->status);
    results(to, s);
    effort(to, s);
    TRY(company(to, s));
    line(to, "engine", s->engine, "");
    snprintf(cell, CELL, "%.12s", s->params_sha256);
    line(to, "parameters", cell, "the first digits of their SHA-256");
    snprintf(cell, CELL, "%.12s", s->data_sha256);
    line(to, "data", cell, "likewise, of all samples as they were read");
    line(to, "kept in", s->run, "");
    return OK;
}

fault summary_table(const struct summary *s, char **out)
{
    struct page page;
    TRY(page_open(&page));
    return page_close(&page, write_table(page.out, s), out);
}
