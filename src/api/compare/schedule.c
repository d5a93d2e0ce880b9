/* schedule.c - which experiments a comparison is made of.
 *
 *   no lists:  every strategy there is that fits, with its default settings; the file's own as it is written
 *   lists:     every combination of their values
 *
 * All are checked before the first is run. Two things are added where they are needed:
 *
 *   a topology   for a strategy that asks for neighbours where none are written: exponential:N, whose agents
 *                have few neighbours and yet are near each other
 *   the rival    a strategy for one agent, where strategies are compared, stands for one machine of speed 1
 *                with all the data and the batches of all agents together, in micro-batches as small as theirs where
 *                they accumulate or have a team's; nothing happens to it
 *
 * On ranks a method has as many agents as ranks, less those that serve; the rival is one rank alone.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compare/compare.h"
#include "api/handle.h"
#include "api/measure.h"
#include "api/session.h"
#include "base/text.h"

enum { MOST_METHODS = 1000, MOST_OVERS = 64, MOST_CHANGES = MOST_OVERS + 16, NAME_LENGTH = 80 };

struct scheduler {
    const veche_experiment *base;
    const veche_options *options;
    struct run_schedule *schedule;
    size_t n_ranks;                    /* 0: all members live in this process */
    const char *changes[MOST_CHANGES]; /* of the method at hand: overrides */
    size_t n_changes;
    bool chooses_kind; /* the strategy is ours to choose, and not the file's */
    bool told_topology;
    const struct kind *data_seen; /* a data set that is known to be here */
    struct measured measured;     /* of the last method that asked for it */
};

static void tell(const struct scheduler *p, const char *text)
{
    veche_event event = {.kind = VECHE_NOTICE, .text = text};
    if (text && p->options && p->options->watch)
        p->options->watch(p->options->ctx, &event);
}

static fault change(struct scheduler *p, const char *assignment)
{
    if (!assignment)
        return OUT_OF_MEMORY;
    p->changes[p->n_changes++] = assignment;
    return OK;
}

/* ---- names ---- */

static bool is_taken(const struct run_schedule *schedule, const char *name)
{
    for (size_t i = 0; i < schedule->n; i++)
        if (text_is(schedule->methods[i].name, name))
            return true;
    return false;
}

/* A label as the name of a folder: letters, digits, '.', '_' and single '-', unlike those before it. */
static const char *folder_name(struct run_schedule *schedule, const char *label)
{
    char name[NAME_LENGTH + 1];
    size_t n = 0;
    for (const char *c = label; *c && n < NAME_LENGTH; c++) {
        bool plain = isalnum((unsigned char)*c) || (n && (*c == '.' || *c == '_'));
        if (plain || (n && name[n - 1] != '-'))
            name[n++] = plain ? *c : '-';
    }
    while (n && name[n - 1] == '-')
        n--;
    name[n] = 0;
    const char *unlike = n ? arena_text(&schedule->arena, name) : "method";
    for (int i = 2; unlike && is_taken(schedule, unlike); i++)
        unlike = arena_printf(&schedule->arena, "%s-%d", n ? name : "method", i);
    return unlike;
}

/* ---- one method ---- */

static fault become_rival(struct scheduler *p, const struct experiment *e, int64_t agents)
{
    struct arena *arena = &p->schedule->arena;
    TRY(change(p, "agents=1"));
    TRY(change(p, "machines.speed=1"));
    TRY(change(p, "machines.stragglers=none"));
    TRY(change(p, "data.split=shuffle"));
    if (e->topology.written)
        TRY(change(p, "topology=complete:1"));
    if (e->network.written)
        TRY(change(p, "network={}"));
    if (e->events.n || e->events.has_random)
        TRY(change(p, "events=[]"));
    TRY(change(p, arena_printf(arena, "data.batch=%lld", (long long)(e->data.batch * agents))));
    if (e->team.settings)
        TRY(change(p, "team=none"));
    if (team_micro_batches(e) > 1)
        TRY(change(p, arena_printf(arena, "train.accumulate=%lld", (long long)team_micro_batches(e) * (long long)agents)));
    if (!e->optim.scale_lr)
        return OK;
    double lr = *(const double *)e->optim.kind.settings;
    return change(p, arena_printf(arena, "optim.lr=%.17g", lr * (double)agents));
}

static fault add_topology(struct scheduler *p, int64_t agents)
{
    char text[256];
    if (!p->told_topology) {
        snprintf(text, sizeof text, "no topology is written; the methods that need one get exponential:%lld",
                 (long long)agents);
        tell(p, text);
    }
    p->told_topology = true;
    return change(p, arena_printf(&p->schedule->arena, "topology=exponential:%lld", (long long)agents));
}

/* Whether the samples are here: they are opened, once for each set. On ranks the leader needs its own. */
static fault check_data(struct scheduler *p, const struct experiment *e)
{
    struct dataset *d;
    if (e->data.set.kind == p->data_seen)
        return OK;
    TRY(dataset_open_for(&e->data, (uint64_t)e->train.seed, p->n_ranks > 1 ? 0 : -1, &d));
    dataset_close(d);
    p->data_seen = e->data.set.kind;
    return OK;
}

/* A graph of another size is of no use; a strategy that needs none does not miss it. */
static fault fit_to_ranks(struct scheduler *p, const struct experiment *e, int64_t *agents)
{
    struct arena *arena = &p->schedule->arena;
    TRY(experiment_agents_of_ranks(e, p->n_ranks, agents));
    TRY(change(p, arena_printf(arena, "agents=%lld", (long long)*agents)));
    if (e->topology.graph && !strategy_row(e)->needs_topology)
        return change(p, arena_printf(arena, "topology=complete:%lld", (long long)*agents));
    return OK;
}

static fault fit(struct scheduler *p)
{
    struct experiment *e;
    fault f = OK;
    TRY(experiment_with(p->base, p->changes, p->n_changes, &e));
    const struct strategy_row *row = strategy_row(e);
    int64_t agents = p->n_ranks ? (int64_t)p->n_ranks : e->agents;
    if (row->most_agents == 1 && agents > 1 && p->chooses_kind)
        f = become_rival(p, e, agents);
    else if (p->n_ranks)
        f = fit_to_ranks(p, e, &agents);
    if (!f && row->needs_topology && agents > 1 && !e->topology.graph)
        f = add_topology(p, agents);
    experiment_free(e);
    return f;
}

/* Methods that ask the same of the machine share one measurement. */
static fault measure_once(struct scheduler *p, struct experiment *e)
{
    char text[256], before[sizeof p->measured.of];
    strcpy(before, p->measured.of);
    TRY(measure_machines(e, &p->measured, text, sizeof text));
    if (*text && strcmp(before, p->measured.of) != 0)
        tell(p, text);
    return OK;
}

static fault examine(struct scheduler *p, const char **yaml)
{
    struct experiment *e;
    char *text = NULL;
    TRY(experiment_with(p->base, p->changes, p->n_changes, &e));
    fault f = experiment_examine(e, NULL);
    if (!f)
        f = check_data(p, e);
    if (!f)
        f = measure_once(p, e);
    if (!f)
        f = experiment_print(e, &text);
    experiment_free(e);
    TRY(f);
    *yaml = arena_text(&p->schedule->arena, text);
    free(text);
    return *yaml ? OK : OUT_OF_MEMORY;
}

/* Adds the experiment that the changes make to the schedule. */
static fault add_method(struct scheduler *p, const char *label)
{
    struct run_schedule *schedule = p->schedule;
    struct method m = {.label = label, .name = folder_name(schedule, label)};
    if (!m.name)
        return OUT_OF_MEMORY;
    TRY(fit(p));
    TRY(change(p, arena_printf(&schedule->arena, "name=%s", m.name)));
    TRY(examine(p, &m.yaml));
    schedule->methods[schedule->n++] = m;
    return OK;
}

/* ---- the built-in set ---- */

static fault schedule_all(struct scheduler *p)
{
    struct run_schedule *schedule = p->schedule;
    p->chooses_kind = true;
    schedule->methods = ARENA_NEW(&schedule->arena, struct method, strategy_kinds.n);
    if (!schedule->methods)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < strategy_kinds.n; i++) {
        const struct kind *k = kinds_at(&strategy_kinds, i);
        p->n_changes = 0;
        if (k->missing)
            continue;
        if (k != p->base->parsed->strategy.kind)
            TRY(change(p, arena_printf(&schedule->arena, "strategy={kind: %s}", k->name)));
        fault f = add_method(p, k->name);
        if (!f)
            continue;
        enum fault_kind why = fault_kind_of(f);
        if (why != FAULT_EXPERIMENT && why != FAULT_USAGE && why != FAULT_SHAPE)
            return f; /* nothing about the method */
        tell(p, arena_printf(&schedule->arena, "%s is left out: %s", k->name, fault_text(f)));
        fault_drop(f);
    }
    if (schedule->n == 0)
        return FAIL(FAULT_EXPERIMENT, "%s: no strategy fits this experiment", p->base->source);
    return OK;
}

/* ---- lists ---- */

static bool is_about_kind(const struct over *o)
{
    return text_is(o->key, "strategy") || text_is(o->key, "strategy.kind");
}

/* A kind other than the file's begins with its own default settings. */
static const char *assignment(struct scheduler *p, const struct over *o, const char *value)
{
    struct arena *arena = &p->schedule->arena;
    if (!text_is(o->key, "strategy.kind") || text_is(value, p->base->parsed->strategy.kind->name))
        return arena_printf(arena, "%s=%s", o->key, value);
    return arena_printf(arena, "strategy={kind: %s}", value);
}

/* The method that takes value number index[i] of list i. Lists of one value are in no label unless all are. */
static fault add_combination(struct scheduler *p, const struct over *overs, size_t n, const size_t *index,
                             size_t combinations)
{
    struct arena *arena = &p->schedule->arena;
    const char *label = "";
    p->n_changes = 0;
    for (size_t i = 0; i < n; i++) {
        const char *value = overs[i].values[index[i]], *words = over_words(overs[i].key, value, arena);
        TRY(change(p, assignment(p, &overs[i], value)));
        if (words && (overs[i].n > 1 || combinations == 1))
            label = arena_printf(arena, "%s%s%s", label, *label ? ", " : "", words);
        if (!words || !label)
            return OUT_OF_MEMORY;
    }
    return add_method(p, label);
}

/* Lists about the strategy itself come first: what belongs to it is put over it. */
static fault read_overs(struct scheduler *p, const char *const *texts, size_t n, struct over *overs)
{
    struct over read;
    size_t at = 0;
    for (int about_kind = 1; about_kind >= 0; about_kind--)
        for (size_t i = 0; i < n; i++) {
            TRY(over_read(texts[i], &p->schedule->arena, &read));
            if (is_about_kind(&read) == (about_kind == 1))
                overs[at++] = read;
        }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (text_is(overs[i].key, overs[j].key))
                return FAIL(FAULT_USAGE, "--over %s: is given twice; write all values in one list",
                            text_shown(overs[i].key).text);
    for (size_t i = 0; i < n; i++) {
        const char *whole = is_about_kind(&overs[i]) ? "strategy" : overs[i].key;
        const char *undone =
            override_undone((const char *const *)p->base->overrides, p->base->n_overrides, whole);
        if (undone)
            return FAIL(
                FAULT_USAGE,
                "--over %s: its values would undo '%s'; write them with it, or it as a list of its own",
                text_shown(overs[i].key).text, text_shown(undone).text);
    }
    return OK;
}

static fault schedule_lists(struct scheduler *p, const char *const *texts, size_t n)
{
    struct over overs[MOST_OVERS];
    size_t index[MOST_OVERS] = {0}, combinations = 1;
    if (n > MOST_OVERS)
        return FAIL(FAULT_USAGE, "there are %zu lists to compare over, and %d at most", n, MOST_OVERS);
    TRY(read_overs(p, texts, n, overs));
    for (size_t i = 0; i < n; i++) {
        combinations *= overs[i].n;
        p->chooses_kind = p->chooses_kind || is_about_kind(&overs[i]);
        if (combinations > MOST_METHODS)
            return FAIL(FAULT_USAGE, "the lists have more than %d combinations", MOST_METHODS);
    }
    p->schedule->methods = ARENA_NEW(&p->schedule->arena, struct method, combinations);
    if (!p->schedule->methods)
        return OUT_OF_MEMORY;
    for (size_t done = 0; done < combinations; done++) {
        TRY(add_combination(p, overs, n, index, combinations));
        for (size_t i = n; i-- > 0 && ++index[i] == overs[i].n;)
            index[i] = 0;
    }
    return OK;
}

fault compare_schedule(const veche_experiment *e, const char *const *over, size_t n_over,
                   const veche_options *options, size_t n_ranks, struct run_schedule *out)
{
    *out = (struct run_schedule){.target = NAN, .n_ranks = n_ranks};
    struct scheduler p = {.base = e, .options = options, .schedule = out, .n_ranks = n_ranks};
    out->name = arena_text(&out->arena, e->parsed->name);
    if (!out->name)
        return OUT_OF_MEMORY;
    return n_over ? schedule_lists(&p, over, n_over) : schedule_all(&p);
}

fault method_is_for_one(const struct method *m, bool *out)
{
    veche_experiment *e;
    TRY(veche_parse(m->yaml, COMPARE_FILE, &e));
    *out = strategy_row(e->parsed)->most_agents == 1;
    veche_experiment_free(e);
    return OK;
}

fault method_door(const struct method *m, const struct world_door **out)
{
    veche_experiment *e;
    TRY(veche_parse(m->yaml, COMPARE_FILE, &e));
    *out = world_door(e->parsed);
    veche_experiment_free(e);
    return OK;
}

void schedule_release(struct run_schedule *p)
{
    arena_release(&p->arena);
    *p = (struct run_schedule){0};
}
