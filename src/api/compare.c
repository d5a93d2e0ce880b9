/* compare.c - a comparison from beginning to end.
 *
 *   DIR/compare.json   the plan: every method with its experiment; and the figures as far as they are known
 *   DIR/METHOD/        the run of each
 *   DIR/report.html    the page, anew after each method
 *   DIR/lock           held while a process works in the folder
 *
 *   a method:  not begun -> begun -> done      (what its run's folder says)
 *                             +----> failed    (what compare.json says)
 *
 * The order of steps makes it safe to be killed at any moment: whatever is done is found in the runs'
 * folders.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/compare.h"
#include "record/file.h"
#include "record/folder.h"
#include "record/run.h"

struct veche_comparison {
    struct plan plan; /* owned */
    char path[RUN_PATH];
    int lock; /* owned */
    veche_options options;
    atomic_bool stop;
    veche_run *run; /* owned: of the method at hand; NULL: none is open */
    size_t at;      /* the method at hand */
};

/* ---- opening ---- */

static fault split_path(const char *path, char parent[RUN_PATH], const char **name)
{
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= RUN_PATH)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", path);
    if (slash && !slash[1])
        return FAIL(FAULT_USAGE, "%s: a folder is named without a slash at its end", path);
    *name = slash ? slash + 1 : path;
    strcpy(parent, slash == path ? "/" : ".");
    if (slash && slash != path)
        snprintf(parent, RUN_PATH, "%.*s", (int)(slash - path), path);
    return OK;
}

static fault make_folder(veche_comparison *c, const char *out)
{
    char parent[RUN_PATH], named[RUN_PATH], *text = NULL;
    const char *name = named;
    snprintf(parent, sizeof parent, "%s", c->options.folder ? c->options.folder : "runs");
    snprintf(named, sizeof named, "%.200s-compare", c->plan.name);
    if (out)
        TRY(split_path(out, parent, &name));
    TRY(plan_text(&c->plan, NULL, true, &text));
    fault f = folder_create(parent, name, out != NULL, COMPARE_FILE, text, c->path, &c->lock);
    free(text);
    if (!f && out)
        snprintf(c->path, sizeof c->path, "%s", out);
    if (!f || !out || !is_comparison(out))
        return f;
    fault_drop(f);
    return FAIL(FAULT_USAGE, "%s: is there already; go on with it by: veche resume %s", out, out);
}

static fault new_comparison(const veche_options *options, veche_comparison **out)
{
    veche_comparison *c = calloc(1, sizeof *c);
    if (!c)
        return OUT_OF_MEMORY;
    c->lock = -1;
    if (options)
        c->options = *options;
    *out = c;
    return OK;
}

veche_fault *veche_compare(const veche_experiment *e, const char *const *over, size_t n_over, double target,
                           const char *out, const veche_options *options, veche_comparison **comparison)
{
    veche_comparison *c;
    if (!(target >= 0 && target <= 100))
        return FAIL(FAULT_USAGE, "the target is an accuracy in percent, from 0 to 100");
    TRY(new_comparison(options, &c));
    fault f = compare_plan(e, over, n_over, options, &c->plan);
    if (target > 0)
        c->plan.target = target;
    if (!f)
        f = make_folder(c, out);
    if (f)
        veche_compare_close(c);
    else
        *comparison = c;
    return f;
}

static fault open_folder(veche_comparison *c, const char *folder)
{
    if (snprintf(c->path, sizeof c->path, "%s", folder) >= (int)sizeof c->path)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", folder);
    for (size_t n = strlen(c->path); n > 1 && c->path[n - 1] == '/'; n--)
        c->path[n - 1] = 0;
    if (!is_comparison(c->path))
        return FAIL(FAULT_FILE, "%s: is not a comparison: it has no " COMPARE_FILE, c->path);
    TRY(folder_lock(c->path, &c->lock));
    TRY(plan_read(c->path, &c->plan));
    return folder_sweep(c->path);
}

veche_fault *veche_compare_resume(const char *folder, const veche_options *options,
                                  veche_comparison **comparison)
{
    veche_comparison *c;
    TRY(new_comparison(options, &c));
    fault f = open_folder(c, folder);
    if (f)
        veche_compare_close(c);
    else
        *comparison = c;
    return f;
}

bool veche_is_comparison(const char *folder)
{
    return is_comparison(folder);
}

void veche_compare_close(veche_comparison *c)
{
    if (!c)
        return;
    if (c->run)
        veche_close(c->run);
    if (c->lock >= 0)
        close(c->lock);
    plan_release(&c->plan);
    free(c);
}

/* ---- going on ---- */

static const struct method *method_at_hand(const veche_comparison *c)
{
    return &c->plan.methods[c->at];
}

/* What a run tells, with the method's name on it. A stop is passed on from here, where the run is surely
 * open. */
static void watch_run(void *ctx, const veche_event *event)
{
    veche_comparison *c = ctx;
    veche_event e = *event;
    e.method = method_at_hand(c)->label;
    e.number = c->at + 1;
    e.methods = c->plan.n;
    if (c->options.watch)
        c->options.watch(c->options.ctx, &e);
    if (c->run && atomic_load_explicit(&c->stop, memory_order_relaxed))
        veche_stop(c->run);
}

static void tell(veche_comparison *c, veche_event_kind kind, const char *text)
{
    watch_run(c, &(veche_event){.kind = kind, .text = text});
}

static fault keep_records(veche_comparison *c)
{
    char path[FILE_PATH], *text;
    TRY(path_join(c->path, COMPARE_FILE, sizeof path, path));
    TRY(plan_text(&c->plan, c->path, true, &text));
    fault f = file_replace(path, &(struct piece){text, strlen(text)}, 1);
    free(text);
    return f ? f : plan_page(&c->plan, c->path);
}

static fault start_method(veche_comparison *c, const veche_options *options, const char *path)
{
    char source[RUN_PATH + 64];
    veche_experiment *e;
    snprintf(source, sizeof source, "%s/" COMPARE_FILE, c->path);
    TRY(veche_parse(method_at_hand(c)->yaml, source, &e));
    fault f = veche_start(e, options, &c->run);
    veche_experiment_free(e);
    TRY(f);
    if (strcmp(veche_run_folder(c->run), path) != 0)
        return FAIL(FAULT_FILE, "%s: is in the way: it is not a run of this comparison", path);
    return OK;
}

/* Goes on with a run that was begun; one that did not get as far as a checkpoint begins anew. */
static fault open_method(veche_comparison *c)
{
    char path[RUN_PATH], file[FILE_PATH];
    veche_options options = {.folder = c->path, .watch = watch_run, .ctx = c};
    TRY(path_join(c->path, method_at_hand(c)->name, sizeof path, path));
    TRY(path_join(path, "experiment.yaml", sizeof file, file));
    if (access(file, F_OK) != 0)
        return start_method(c, &options, path);
    fault f = veche_resume(path, &options, &c->run);
    if (!f || fault_kind_of(f) != FAULT_CHECKPOINT)
        return f;
    fault_drop(f);
    TRY(folder_discard(path));
    return start_method(c, &options, path);
}

static fault run_method(veche_comparison *c, bool *opened)
{
    tell(c, VECHE_METHOD, method_at_hand(c)->label);
    fault f = open_method(c);
    *opened = !f;
    if (!f)
        f = veche_go(c->run);
    if (c->run)
        veche_close(c->run);
    c->run = NULL;
    return f;
}

/* Whether a fault is of the method, and not of the machine it runs on: a full disk or somebody else in the
 * folder would be in the way of all, and can be got rid of. */
static bool is_of_method(fault f, bool opened)
{
    enum fault_kind k = fault_kind_of(f);
    return k != FAULT_FILE && k != FAULT_MEMORY && (opened || k != FAULT_USAGE);
}

static fault stopped(const veche_comparison *c)
{
    return FAIL(FAULT_STOPPED, "stopped on request in method %zu of %zu, %s; go on with: veche resume %s",
                c->at + 1, c->plan.n, method_at_hand(c)->label, c->path);
}

/* Takes the fault with which a run ended. */
static fault after_run(veche_comparison *c, bool opened, fault f)
{
    if (f && fault_kind_of(f) == FAULT_STOPPED) {
        fault_drop(f);
        TRY(keep_records(c));
        return stopped(c);
    }
    if (f && !is_of_method(f, opened))
        return f;
    if (f) {
        struct method *m = &c->plan.methods[c->at];
        char text[512];
        snprintf(text, sizeof text, "%s failed: %s", m->label, fault_text(f));
        m->failure = arena_text(&c->plan.arena, fault_text(f));
        fault_drop(f);
        if (!m->failure)
            return OUT_OF_MEMORY;
        tell(c, VECHE_NOTICE, text);
    }
    return keep_records(c);
}

static fault all_failed(const veche_comparison *c)
{
    const struct plan *p = &c->plan;
    for (size_t i = 0; i < p->n; i++)
        if (!p->methods[i].failure)
            return OK;
    return FAIL(FAULT_EXPERIMENT, "all %zu methods failed; the first, %s: %s", p->n, p->methods[0].label,
                p->methods[0].failure);
}

veche_fault *veche_compare_go(veche_comparison *c)
{
    for (c->at = 0; c->at < c->plan.n; c->at++) {
        if (method_at_hand(c)->failure || method_is_done(method_at_hand(c), c->path))
            continue;
        if (atomic_load_explicit(&c->stop, memory_order_relaxed))
            return stopped(c);
        bool opened = false;
        fault f = run_method(c, &opened);
        TRY(after_run(c, opened, f));
    }
    c->at = c->plan.n - 1;
    TRY(keep_records(c));
    return all_failed(c);
}

void veche_compare_stop(veche_comparison *c)
{
    atomic_store(&c->stop, true);
}

const char *veche_compare_folder(const veche_comparison *c)
{
    return c->path;
}

veche_fault *veche_compare_print(const veche_comparison *c, bool json, char **text)
{
    return json ? plan_text(&c->plan, c->path, false, text) : plan_table(&c->plan, c->path, text);
}
