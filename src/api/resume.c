/* resume.c - what a run goes on from, and with which experiment.
 *
 *   folder locked -> experiment.yaml not edited -> overrides -> the newest checkpoint that fits
 *
 * A checkpoint holds the experiment it was made by. A run may go on with another one only where the new one,
 * from the beginning, would have come to the same checkpoint: so `experiment.yaml` always tells how to get
 * the same bits again. What else a user wants to change makes a new run.
 */
#include "api/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handle.h"
#include "api/registry.h"
#include "api/session.h"
#include "base/text.h"
#include "optim/optim.h"
#include "record/file.h"
#include "record/seal.h"

/* ---- what may change ---- */

static const char so_far[] = "what was learnt so far depends on it";

/* Why a setting may not change now; NULL: it may. */
typedef const char *refusal(const struct resumption *r, const struct experiment *e);

static const char *never(const struct resumption *r, const struct experiment *e)
{
    (void)r, (void)e;
    return NULL;
}

static const char *unless_spread(const struct resumption *r, const struct experiment *e)
{
    (void)r;
    return optim_follows_epochs(&e->optim)
               ? "the schedule of the learning rate is spread over train.epochs, so the rounds so far would have been others"
               : NULL;
}

static const char *unless_real(const struct resumption *r, const struct experiment *e)
{
    (void)r;
    return experiment_is_for_ranks(e) ? NULL
                                      : "in the world 'local' what happens in virtual time depends on it";
}

static const char *always(const struct resumption *r, const struct experiment *e)
{
    (void)r, (void)e;
    return "the run's folder is called after it";
}

static const char *unless_on_ranks(const struct resumption *r, const struct experiment *e)
{
    (void)r;
    return experiment_is_for_ranks(e) ? NULL : so_far; /* the number of ranks is what counts */
}

/* From the mean of the earlier agents (regroup.c). */
static const char *unless_regrouped(const struct resumption *r, const struct experiment *e)
{
    if (!experiment_is_for_ranks(e))
        return so_far;
    return r->regroups ? NULL : "it may change only with the number of ranks";
}

static double number_in(const struct tensors *t, const char *key)
{
    const char *text = tensors_metadata(t, key);
    return text ? strtod(text, NULL) : NAN;
}

static const char *unless_decided(const struct resumption *r, const struct experiment *e)
{
    (void)r;
    return stop_is_written(&e->train.stop) ? "train.stop is decided at evaluations, and those so far would have been others" : NULL;
}

static bool would_have_stopped(const struct tensors *t, const struct experiment *e)
{
    struct standing p = {.best_accuracy = number_in(t, "stop.best_accuracy"),
                         .lowest_loss = number_in(t, "stop.lowest_loss"),
                         .longest_in_vain = (uint64_t)number_in(t, "stop.longest_in_vain")};
    return stop_is_met(&e->train.stop, &p);
}

static const char *unless_past(const struct resumption *r, const struct experiment *e)
{
    if (!stop_is_written(&e->train.stop))
        return NULL;
    if (number_in(&r->checkpoint, "stop.is_mixed") != 0)
        return "train.evaluate_every has changed on the way, so it is not known when it would have stopped";
    return would_have_stopped(&r->checkpoint, e) ? "it would have stopped before" : NULL;
}

/* A key that ends in a dot stands for all below it. */
static const struct rule {
    const char *key;
    refusal *refuses;
} rules[] = {
    {"train.epochs", unless_spread},
    {"train.evaluate_every", unless_decided},
    {"train.stop.", unless_past},
    {"train.checkpoint_every", never},
    {"train.keep", never},
    {"engine.threads", never},
    {"engine.kind", never},           /* as long as it is the same engine: session_is_same */
    {"data.set.train_images", never}, /* files may lie elsewhere: their samples must be the same, likewise */
    {"data.set.train_labels", never},
    {"data.set.test_images", never},
    {"data.set.test_labels", never},
    {"data.set.train", never},
    {"data.set.test", never},
    {"data.split.files", never},
    {"data.split.labels", never},
    {"data.stream", never}, /* the same samples, from where they lie */
    {"data.window_mb", never},
    {"network.patience_s", unless_real},
    {"agents", unless_on_ranks},
    {"topology.", unless_regrouped}, /* what says something of every agent */
    {"machines.", unless_regrouped},
    {"network.", unless_regrouped},
    {"data.split.", unless_regrouped},
    {"name", always},
};

static bool is_about(const struct rule *rule, const char *key)
{
    size_t n = strlen(rule->key);
    bool whole = rule->key[n - 1] == '.';
    return whole ? strncmp(key, rule->key, n - 1) == 0 && (key[n - 1] == '.' || !key[n - 1])
                 : text_is(key, rule->key);
}

/* Why a setting may not change; NULL: it may, by any rule. */
static const char *refuses(const struct resumption *r, const struct experiment *e, const char *key)
{
    const char *why = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *reason = is_about(&rules[i], key) ? rules[i].refuses(r, e) : "";
        if (!reason)
            return NULL;
        why = why || !*reason ? why : reason;
    }
    return why ? why : so_far;
}

static struct shown shown(const char *value)
{
    return text_shown(*value ? value : "nothing");
}

/* ---- the experiment ---- */

static fault parse(const char *text, const char *path, const char *const *assignments, size_t n,
                   struct experiment **out)
{
    struct registry registry = registry_of_everything();
    TRY(overrides_agree(assignments, n));
    return experiment_parse(text, strlen(text), path, assignments, n, &registry, out);
}

static fault judge_edit(const struct resumption *r, const struct experiment *e, const struct change *c)
{
    const char *run = r->folder.path;
    if (refuses(r, e, c->key))
        return FAIL(FAULT_USAGE,
                    "%s/experiment.yaml: was edited: %s is '%s', and the run was trained with '%s' so far; a changed "
                    "experiment is a new run: veche run %s/experiment.yaml",
                    run, c->key, shown(c->is).text, shown(c->was).text, run);
    return FAIL(FAULT_USAGE,
                "%s/experiment.yaml: was edited: %s is '%s', and the run was trained with '%s' so far; put that back, and "
                "go on by: veche resume %s %s=%s",
                run, c->key, shown(c->is).text, shown(c->was).text, run, c->key, shown(c->is).text);
}

static fault judge_change(const struct resumption *r, const struct experiment *e, const struct change *c)
{
    const char *why = refuses(r, e, c->key), *run = r->folder.path;
    if (!why)
        return OK;
    return FAIL(FAULT_USAGE,
                "%s: %s cannot become '%s': the run was begun with '%s', and %s; for a new run: veche run "
                "%s/experiment.yaml %s=...",
                run, c->key, shown(c->is).text, shown(c->was).text, why, run, c->key);
}

/* Judges every setting in which `e`, printed as `text`, differs from the checkpoint's experiment. */
static fault judge_all(const struct resumption *r, const struct experiment *e, const char *text,
                       fault (*judge)(const struct resumption *, const struct experiment *,
                                      const struct change *))
{
    struct arena arena = {0};
    struct change *changes = NULL;
    size_t n = 0;
    fault f = experiment_changes(resumption_was(r), text, &arena, &changes, &n);
    for (size_t i = 0; !f && i < n; i++)
        f = judge(r, e, &changes[i]);
    free(changes);
    arena_release(&arena);
    return f;
}

static fault read_written(struct resumption *r, char path[FILE_PATH], char **text, bool *edited)
{
    const char *wrong;
    size_t n;
    TRY(path_join(r->folder.path, "experiment.yaml", FILE_PATH, path));
    TRY(file_read(path, text, &n));
    fault f = seal_check(&seal_of_yaml, *text, n, &wrong);
    *edited = !f && wrong;
    if (f)
        free(*text);
    return f;
}

/* ---- the checkpoint ---- */

const char *resumption_was(const struct resumption *r)
{
    return tensors_metadata(&r->checkpoint, "experiment");
}

static fault check_format(const struct resumption *r)
{
    const char *format = tensors_metadata(&r->checkpoint, "format");
    if (!format || !text_is(format, CHECKPOINT_FORMAT) || !resumption_was(r) ||
        !tensors_metadata(&r->checkpoint, "round"))
        return FAIL(FAULT_CHECKPOINT,
                    "%s: the newest checkpoint is '%s' and not '%s': the version of veche that began the run "
                    "goes on with it",
                    r->folder.path, format ? format : "of no stated format", CHECKPOINT_FORMAT);
    return OK;
}

static double rounds_in(const struct tensors *t, double epochs)
{
    double per_epoch = number_in(t, "rounds_per_epoch");
    return per_epoch > 0 ? (double)session_rounds_of_epochs(epochs, per_epoch) : NAN;
}

/* Whether a run of so many epochs would have come to the same checkpoint: none of the agents knew yet which
 * round is the last. */
static bool fits(const void *epochs, const struct tensors *t)
{
    double rounds = number_in(t, "rounds"), least = number_in(t, "least_rounds");
    double now = rounds_in(t, *(const double *)epochs);
    return now == rounds || (least <= rounds && least <= now);
}

static fault fits_nowhere(const struct resumption *r, double epochs)
{
    if (number_in(&r->checkpoint, "round") >= rounds_in(&r->checkpoint, epochs))
        return FAIL(FAULT_USAGE, "%s: train.epochs=%g: the run has come further than that", r->folder.path,
                    epochs);
    return FAIL(FAULT_USAGE,
                "%s: train.epochs=%g: in all its checkpoints some agent had come to its last round, which is not like the "
                "others; to be able to go on for longer, keep an earlier one (train.keep, train.checkpoint_every)",
                r->folder.path, epochs);
}

/* Goes back to the newest checkpoint that fits. */
static fault find_fitting(struct resumption *r, double epochs)
{
    struct tensors earlier;
    if (r->regroups || fits(&epochs, &r->checkpoint))
        return OK;
    fault f = run_newest(&r->folder, fits, &epochs, &earlier, NULL);
    if (f && fault_kind_of(f) == FAULT_CHECKPOINT) {
        fault_drop(f);
        return fits_nowhere(r, epochs);
    }
    TRY(f);
    tensors_release(&r->checkpoint);
    r->checkpoint = earlier;
    r->goes_back = true;
    return OK;
}

/* ---- together ---- */

static fault count_agents(struct resumption *r, const struct experiment *e, size_t n_ranks)
{
    const char *saved_by = tensors_metadata(&r->checkpoint, "agents");
    int64_t agents;
    if (!experiment_is_for_ranks(e))
        return n_ranks < 2
                   ? OK
                   : FAIL(FAULT_USAGE,
                          "%s: %zu processes were started, but the run's world is '%s', which is one process",
                          r->folder.path, n_ranks, e->world.kind->name);
    TRY(experiment_agents_of_ranks(e, n_ranks, &agents));
    r->regroups = saved_by && strtoll(saved_by, NULL, 10) != agents;
    return OK;
}

static bool is_text(const char *text)
{
    return text && *text;
}

static fault settle(struct resumption *r, const struct experiment *e, size_t n_ranks)
{
    TRY(experiment_print(e, &r->text));
    TRY(count_agents(r, e, n_ranks));
    TRY(judge_all(r, e, r->text, judge_change));
    TRY(find_fitting(r, e->train.epochs));
    bool had_stopped = is_text(tensors_metadata(&r->checkpoint, "stopped_because")) && would_have_stopped(&r->checkpoint, e);
    r->is_over = had_stopped || number_in(&r->checkpoint, "round") >= rounds_in(&r->checkpoint, e->train.epochs);
    return OK;
}

/* An edit that changes no setting, of a comment say, does no harm. */
static fault refuse_edit(const struct resumption *r, const struct experiment *written)
{
    char *text;
    TRY(experiment_print(written, &text));
    fault f = judge_all(r, written, text, judge_edit);
    free(text);
    return f;
}

static fault prepare(struct resumption *r, const char *const *assignments, size_t n, size_t n_ranks)
{
    char path[FILE_PATH], *text = NULL;
    struct experiment *written = NULL, *e = NULL;
    TRY(run_newest(&r->folder, NULL, NULL, &r->checkpoint, r->passed_over));
    TRY(check_format(r));
    TRY(read_written(r, path, &text, &r->reprints));
    fault f = parse(text, path, NULL, 0, &written);
    if (f && r->reprints)
        f = fault_before(f, "the run's experiment was edited: ");
    if (!f && r->reprints)
        f = refuse_edit(r, written);
    if (!f)
        f = parse(text, path, assignments, n, &e);
    if (!f)
        f = settle(r, e, n_ranks);
    experiment_free(written);
    experiment_free(e);
    free(text);
    return f;
}

fault resumption_open(const char *path, const char *const *assignments, size_t n, size_t n_ranks,
                      struct resumption *out)
{
    struct resumption r = {0};
    TRY(run_open(path, 1, &r.folder));
    fault f = prepare(&r, assignments, n, n_ranks);
    if (f)
        resumption_close(&r);
    else
        *out = r;
    return f;
}

void resumption_close(struct resumption *r)
{
    run_close(&r->folder);
    tensors_release(&r->checkpoint);
    free(r->text);
    r->text = NULL;
}
