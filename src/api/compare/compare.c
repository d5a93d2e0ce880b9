/* compare.c - a comparison is opened, stopped, printed and closed.
 *
 *   DIR/compare.json   the schedule of runs: every method with its experiment; and the figures as far as they are known
 *   DIR/METHOD/        the run of each
 *   DIR/report.html    the page, anew after each method
 *   DIR/lock           held while a process works in the folder
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/compare/compare.h"
#include "api/handle.h"
#include "api/session.h"
#include "base/plain.h"

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
    snprintf(named, sizeof named, "%.200s-compare", c->schedule.name);
    if (out)
        TRY(split_path(out, parent, &name));
    TRY(schedule_text(&c->schedule, NULL, true, &text));
    fault f = folder_create(parent, name, out != NULL, COMPARE_FILE, text, c->path, &c->lock);
    free(text);
    if (!f && out)
        snprintf(c->path, sizeof c->path, "%s", out);
    if (!f || !out || !comparison_is_folder(out))
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
    c->patience_s = 60; /* while that of the experiment is not known */
    pthread_mutex_init(&c->run_is_there, NULL);
    if (options)
        c->options = *options;
    *out = c;
    return OK;
}

/* What the leader could not do no rank has to begin with. Takes the comparison and the fault. */
static fault hand_out(veche_comparison *c, fault f, veche_comparison **comparison)
{
    f = world_agree(&c->ranks, f, c->patience_s);
    if (f)
        veche_compare_close(c);
    else
        *comparison = c;
    return f;
}

static fault schedule_and_keep(veche_comparison *c, const veche_experiment *e, const char *const *over,
                           size_t n_over, double target, const char *out)
{
    TRY(compare_schedule(e, over, n_over, &c->options, c->ranks.n, &c->schedule));
    if (target > 0)
        c->schedule.target = target;
    return make_folder(c, out);
}

veche_fault *veche_compare(const veche_experiment *e, const char *const *over, size_t n_over, double target,
                           const char *out, const veche_options *options, veche_comparison **comparison)
{
    PLAIN_NUMBERS;
    veche_comparison *c;
    if (!(target >= 0 && target <= 100))
        return FAIL(FAULT_USAGE, "the target is an accuracy in percent, from 0 to 100");
    TRY(new_comparison(options, &c));
    fault f = experiment_check_launch(e->parsed);
    if (!f)
        f = world_door(e->parsed)->join(false, &c->ranks);
    c->patience_s = e->parsed->network.patience_s;
    if (!f && comparison_leads(c))
        f = schedule_and_keep(c, e, over, n_over, target, out);
    return hand_out(c, f, comparison);
}

static fault open_folder(veche_comparison *c, const char *folder)
{
    if (snprintf(c->path, sizeof c->path, "%s", folder) >= (int)sizeof c->path)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", folder);
    for (size_t n = strlen(c->path); n > 1 && c->path[n - 1] == '/'; n--)
        c->path[n - 1] = 0;
    if (!comparison_is_folder(c->path))
        return FAIL(FAULT_FILE, "%s: is not a comparison: it has no " COMPARE_FILE, c->path);
    TRY(folder_lock(c->path, &c->lock));
    TRY(schedule_read(c->path, &c->schedule));
    return folder_sweep(c->path);
}

static fault check_ranks(const veche_comparison *c, const char *folder, size_t n_ranks)
{
    size_t n = c->schedule.n_ranks;
    if (n == n_ranks || (n == 0 && n_ranks == 1))
        return OK;
    if (n == 0)
        return FAIL(FAULT_USAGE, "%s: %zu processes were started, but the comparison's world is one process",
                    folder, n_ranks);
    return FAIL(FAULT_USAGE, "%s: was begun on %zu rank%s, and goes on with as many, not with %zu", folder, n,
                n == 1 ? "" : "s", n_ranks);
}

static fault open_to_go_on(veche_comparison *c, const char *folder)
{
    size_t launched;
    const struct world_door *door = world_launched(&launched);
    if (launched > 1)
        TRY(door->join(false, &c->ranks));
    if (comparison_leads(c)) {
        TRY(open_folder(c, folder));
        TRY(check_ranks(c, folder, launched));
    }
    if (launched > 1 || !c->schedule.n_ranks)
        return OK;
    TRY(method_door(&c->schedule.methods[0], &door));
    return door->join(false, &c->ranks);
}

veche_fault *veche_compare_resume(const char *folder, const veche_options *options,
                                  veche_comparison **comparison)
{
    PLAIN_NUMBERS;
    veche_comparison *c;
    TRY(new_comparison(options, &c));
    return hand_out(c, open_to_go_on(c, folder), comparison);
}

/* Under a launcher the folder need be there for rank 0 only. */
bool veche_is_comparison(const char *folder)
{
    struct ranks ranks;
    uint64_t is = 0;
    size_t n;
    const struct world_door *door = world_launched(&n);
    if (n < 2)
        return comparison_is_folder(folder);
    fault f = door->join(false, &ranks);
    if (!f)
        f = world_largest(&ranks, ranks.self == 0 && comparison_is_folder(folder), 60, &is);
    fault_drop(f);
    return is;
}

void veche_compare_close(veche_comparison *c)
{
    if (!c)
        return;
    comparison_let_go(c);
    if (c->lock >= 0)
        close(c->lock);
    schedule_release(&c->schedule);
    pthread_mutex_destroy(&c->run_is_there);
    free(c);
}

/* ---- its run ---- */

static veche_run *exchange_run(veche_comparison *c, veche_run *r)
{
    pthread_mutex_lock(&c->run_is_there);
    veche_run *before = c->run;
    c->run = r;
    pthread_mutex_unlock(&c->run_is_there);
    return before;
}

void comparison_hold(veche_comparison *c, veche_run *r)
{
    r->stops_with = &c->stop;
    exchange_run(c, r);
}

void comparison_let_go(veche_comparison *c)
{
    veche_close(exchange_run(c, NULL));
}

int veche_compare_lost(veche_comparison *c, char *who, size_t n)
{
    pthread_mutex_lock(&c->run_is_there);
    int lost = c->run ? veche_run_lost(c->run, who, n) : 0;
    pthread_mutex_unlock(&c->run_is_there);
    return lost;
}

bool veche_compare_leads(const veche_comparison *c)
{
    return comparison_leads(c);
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
    PLAIN_NUMBERS;
    return json ? schedule_text(&c->schedule, c->path, false, text) : schedule_table(&c->schedule, c->path, text);
}
