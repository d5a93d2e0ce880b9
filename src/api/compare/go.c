/* go.c - a comparison's runs, one after the other.
 *
 *   a method:  not begun -> begun -> done      (what its run's folder says)
 *                             +----> failed    (what compare.json says)
 *
 * The order of steps makes it safe to be killed at any moment: whatever is done is found in the runs'
 * folders.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/compare/compare.h"
#include "base/plain.h"
#include "record/file.h"
#include "record/run.h"

static const struct method *method_at_hand(const veche_comparison *c)
{
    return &c->schedule.methods[c->at];
}

/* What a run tells, with the method's name on it. */
static void watch_run(void *ctx, const veche_event *event)
{
    veche_comparison *c = ctx;
    veche_event e = *event;
    e.method = method_at_hand(c)->label;
    e.number = c->at + 1;
    e.methods = c->schedule.n;
    if (c->options.watch)
        c->options.watch(c->options.ctx, &e);
    compare_keep_others_waiting(c);
}

static void tell(veche_comparison *c, veche_event_kind kind, const char *text)
{
    watch_run(c, &(veche_event){.kind = kind, .text = text});
}

static fault keep_records(veche_comparison *c)
{
    char path[FILE_PATH], *text;
    TRY(path_join(c->path, COMPARE_FILE, sizeof path, path));
    TRY(schedule_text(&c->schedule, c->path, true, &text));
    fault f = file_replace(path, &(struct piece){text, strlen(text)}, 1);
    free(text);
    return f ? f : schedule_page(&c->schedule, c->path);
}

static fault start_method(veche_comparison *c, const veche_options *options, const char *path)
{
    char source[RUN_PATH + 64];
    veche_experiment *e;
    veche_run *r;
    snprintf(source, sizeof source, "%s/" COMPARE_FILE, c->path);
    TRY(veche_parse(method_at_hand(c)->yaml, source, &e));
    fault f = veche_start(e, options, &r);
    veche_experiment_free(e);
    TRY(f);
    comparison_hold(c, r);
    if (strcmp(veche_run_folder(r), path) != 0)
        return FAIL(FAULT_FILE, "%s: is in the way: it is not a run of this comparison", path);
    return OK;
}

/* Whether a run has got as far as a checkpoint. */
static fault can_go_on(const char *path, bool *out)
{
    struct run_folder folder;
    struct tensors tensors;
    TRY(run_open(path, 1, &folder));
    fault f = run_newest(&folder, NULL, NULL, &tensors, NULL);
    run_close(&folder);
    *out = !f;
    if (!f)
        tensors_release(&tensors);
    if (!f || fault_kind_of(f) != FAULT_CHECKPOINT)
        return f;
    fault_drop(f);
    return OK;
}

/* Goes on with a run that was begun; one that did not get as far as a checkpoint begins anew. */
static fault open_method(veche_comparison *c)
{
    char path[RUN_PATH], file[FILE_PATH];
    veche_options options = {.folder = c->path, .watch = watch_run, .ctx = c};
    bool begun = false;
    TRY(path_join(c->path, method_at_hand(c)->name, sizeof path, path));
    TRY(path_join(path, "experiment.yaml", sizeof file, file));
    if (access(file, F_OK) == 0) {
        TRY(can_go_on(path, &begun));
        if (!begun)
            TRY(folder_discard(path));
    }
    if (c->ranks.n > 1)
        TRY(method_is_for_one(method_at_hand(c), &options.alone));
    c->alone = options.alone;
    if (c->alone)
        TRY(compare_order_others(c, ORDER_WAIT, ""));
    else
        TRY(compare_order_others(c, begun ? ORDER_RESUME : ORDER_START,
                                 begun ? path : method_at_hand(c)->yaml));
    if (!begun)
        return start_method(c, &options, path);
    veche_run *r;
    TRY(veche_resume(path, &options, &r));
    comparison_hold(c, r);
    return OK;
}

/* With the first method, and when a method gets another engine than the one before: one may be too large for a GPU. */
static void tell_engine(veche_comparison *c)
{
    const char *line = veche_run_engine(c->run);
    char name[sizeof c->engine], text[512];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, ":"), line);
    if (strcmp(name, c->engine) == 0)
        return;
    strcpy(c->engine, name);
    snprintf(text, sizeof text, "the engine is %s", line);
    tell(c, VECHE_NOTICE, text);
}

/* Which rank is where, a notice for each machine, with the first method that all ranks share. */
static void tell_places(veche_comparison *c)
{
    char *places = NULL, *rest;
    if (!c->places_are_told && !c->alone)
        fault_drop(veche_run_places(c->run, &places));
    for (char *line = places ? strtok_r(places, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        tell(c, VECHE_NOTICE, line);
        c->places_are_told = true;
    }
    free(places);
}

static fault run_method(veche_comparison *c, bool *opened)
{
    tell(c, VECHE_METHOD, method_at_hand(c)->label);
    fault f = open_method(c);
    *opened = !f;
    if (!f) {
        tell_engine(c);
        tell_places(c);
        f = veche_go(c->run);
    }
    comparison_let_go(c);
    c->alone = false;
    return f;
}

/* Whether a rank is gone, or silent for too long. */
static bool is_loss(fault f)
{
    enum fault_kind k = f ? fault_kind_of(f) : FAULT_STOPPED;
    return k == FAULT_PEER || k == FAULT_TIMEOUT || k == FAULT_CRASH;
}

/* Whether a fault is of the method, and not of the machine it runs on: a full disk or another process in the
 * folder would be in the way of all, and can be got rid of. */
static bool is_of_method(const veche_comparison *c, fault f, bool opened)
{
    enum fault_kind k = fault_kind_of(f);
    return !(c->ranks.n && is_loss(f)) && k != FAULT_FILE && k != FAULT_MEMORY &&
           (opened || k != FAULT_USAGE);
}

static fault stopped(const veche_comparison *c)
{
    return FAIL(FAULT_STOPPED, "stopped on request in method %zu of %zu, %s; go on with: veche resume %s",
                c->at + 1, c->schedule.n, method_at_hand(c)->label, c->path);
}

/* Takes the fault with which a run ended. */
static fault after_run(veche_comparison *c, bool opened, fault f)
{
    if (f && fault_kind_of(f) == FAULT_STOPPED) {
        fault_drop(f);
        TRY(keep_records(c));
        return stopped(c);
    }
    if (f && !is_of_method(c, f, opened))
        return f;
    if (f) {
        struct method *m = &c->schedule.methods[c->at];
        char text[512];
        snprintf(text, sizeof text, "%s failed: %s", m->label, fault_text(f));
        m->failure = arena_text(&c->schedule.arena, fault_text(f));
        fault_drop(f);
        if (!m->failure)
            return OUT_OF_MEMORY;
        tell(c, VECHE_NOTICE, text);
    }
    return keep_records(c);
}

static fault all_failed(const veche_comparison *c)
{
    const struct run_schedule *p = &c->schedule;
    for (size_t i = 0; i < p->n; i++)
        if (!p->methods[i].failure)
            return OK;
    return FAIL(FAULT_EXPERIMENT, "all %zu methods failed; the first, %s: %s", p->n, p->methods[0].label,
                p->methods[0].failure);
}

static fault lead(veche_comparison *c)
{
    for (c->at = 0; c->at < c->schedule.n; c->at++) {
        if (method_at_hand(c)->failure || method_is_done(method_at_hand(c), c->path))
            continue;
        if (atomic_load_explicit(&c->stop, memory_order_relaxed))
            return stopped(c);
        bool opened = false;
        fault f = run_method(c, &opened);
        TRY(after_run(c, opened, f));
    }
    c->at = c->schedule.n - 1;
    TRY(keep_records(c));
    return all_failed(c);
}

veche_fault *veche_compare_go(veche_comparison *c)
{
    PLAIN_NUMBERS;
    if (!comparison_leads(c))
        return compare_follow_orders(c);
    fault f = lead(c), g = is_loss(f) ? OK : compare_order_others(c, ORDER_END, "");
    if (!f)
        return g;
    fault_drop(g);
    return f;
}
