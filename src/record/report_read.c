/* report_read.c - the folder of a run, read back without touching it.
 *
 * Which key goes where is said once, in lists of members. A number that is null was not finite when it was
 * written and is NaN; one that is missing is NaN as well, or zero for a count. Events of other kinds than
 * those known here are passed over, and so is a last line without an end, which is being written just now.
 * Nothing is believed whose digest is not right (seal.h).
 */
#include "record/report.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "experiment/tree.h"
#include "record/file.h"
#include "record/inside.h"
#include "record/seal.h"

struct reader {
    struct arena *arena; /* borrowed */
    const char *path;    /* of the file being read */
    size_t line;         /* 0: the file is one object */
};

static fault fail_here(const struct reader *r, const char *what, const char *more)
{
    if (r->line)
        return FAIL(FAULT_DATA, "%s:%zu: %s%s", r->path, r->line, what, more);
    return FAIL(FAULT_DATA, "%s: %s%s", r->path, what, more);
}

static fault check_seal(const struct seal *form, const char *text, size_t n, const char *path)
{
    const char *wrong;
    TRY(seal_check(form, text, n, &wrong));
    return wrong ? FAIL(FAULT_FILE, "%s: %s", path, wrong) : OK;
}

/* ---- members ---- */

struct member {
    const char *key;
    size_t offset;
    bool whole; /* a uint64_t, else a double */
};

#define REAL(type, name)                                                                                     \
    {                                                                                                        \
#name, offsetof(struct type, name), false                                                            \
    }
#define WHOLE(type, name)                                                                                    \
    {                                                                                                        \
#name, offsetof(struct type, name), true                                                             \
    }
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct member score_members[] = {
    REAL(score, train_loss),
    REAL(score, train_accuracy),
    REAL(score, loss),
    REAL(score, accuracy),
    REAL(score, lr),
    REAL(score, epoch),
    WHOLE(score, rounds),
    REAL(score, waiting_s),
    WHOLE(score, bytes),
    WHOLE(score, messages),
    REAL(score, staleness_mean),
    REAL(score, staleness_max),
};

static const struct member disagreement_members[] = {
    REAL(disagreement, l1),
    REAL(disagreement, l2),
    REAL(disagreement, linf),
    REAL(disagreement, variation),
};

static const struct member evaluation_members[] = {
    WHOLE(evaluation, step),         WHOLE(evaluation, round),
    REAL(evaluation, epoch),         REAL(evaluation, real_s),
    REAL(evaluation, virtual_s),     WHOLE(evaluation, samples),
    REAL(evaluation, averaged_loss), REAL(evaluation, averaged_accuracy),
};

static const struct member total_members[] = {
    REAL(report_point, bytes),
    REAL(report_point, messages),
    REAL(report_point, waiting_s),
};

static const struct member note_members[] = {REAL(report_note, virtual_s), REAL(report_note, real_s)};

static const struct member spread_members[] = {
    REAL(spread, mean),
    REAL(spread, std),
    REAL(spread, min),
    REAL(spread, max),
};

static const struct member summary_members[] = {
    WHOLE(summary, rounds),       WHOLE(summary, samples),          REAL(summary, epochs),
    REAL(summary, best_accuracy), REAL(summary, averaged_accuracy), REAL(summary, real_s),
    REAL(summary, virtual_s),     REAL(summary, images_per_s),      WHOLE(summary, bytes),
    WHOLE(summary, messages),     REAL(summary, waiting_share),     REAL(summary, staleness_mean),
    REAL(summary, staleness_max),
};

static fault read_members(const struct reader *r, const json_t *object, const struct member *list, size_t n,
                          void *out)
{
    if (object && !json_is_object(object))
        return fail_here(r, "something that should be an object is not", "");
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, list[i].key);
        void *at = (char *)out + list[i].offset;
        if (value && !json_is_null(value) &&
            !(list[i].whole ? json_is_integer(value) && json_integer_value(value) >= 0
                            : json_is_number(value)))
            return fail_here(r, list[i].key, list[i].whole ? " is not a count" : " is not a number");
        if (list[i].whole)
            *(uint64_t *)at = (uint64_t)json_integer_value(value);
        else
            *(double *)at = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return OK;
}

#define READ_MEMBERS(r, object, list, out) read_members(r, object, list, COUNT(list), out)

/* A text of the arena; `missing` where it is not there. */
static const char *text_at(const struct reader *r, const json_t *object, const char *key, const char *missing)
{
    const char *text = json_string_value(json_object_get(object, key));
    return arena_text(r->arena, text ? text : missing);
}

/* ---- who was waited for ---- */

/* "agent 3 (12.1 s)": from the object an evaluation or a summary has under `waiting`. */
static const char *read_waited_for(const struct reader *r, const json_t *waiting, size_t n_agents)
{
    const char *name = json_string_value(json_object_get(waiting, "most_waited_for"));
    const char *slowest = json_string_value(json_object_get(waiting, "slowest"));
    const json_t *seconds = json_object_get(waiting, "waited_for_s");
    const char *digits = name ? strpbrk(name, "0123456789") : NULL;
    if (!digits)
        return NULL;
    size_t member = strtoull(digits, NULL, 10) + (text_starts(name, "agent ") ? 0 : n_agents);
    char *text =
        arena_printf(r->arena, "%s (%.1f s)", name, json_number_value(json_array_get(seconds, member)));
    if (text && slowest && !text_is(slowest, name))
        text = arena_printf(r->arena, "%s, slow: %s", text, slowest);
    return text;
}

/* How long each agent was waited for: an array of n, or NULL where the events do not tell. */
static fault read_waits(const struct reader *r, const json_t *waiting, size_t n, const double **out)
{
    const json_t *list = json_object_get(waiting, "waited_for_s");
    double *seconds = ARENA_NEW(r->arena, double, n);
    if (!seconds)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        seconds[i] = json_number_value(json_array_get(list, i));
    *out = json_array_size(list) >= n ? seconds : NULL;
    return OK;
}

/* ---- events ---- */

static fault read_scores(const struct reader *r, const json_t *agents, size_t n, struct score *out)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *agent = json_array_get(agents, i);
        TRY(READ_MEMBERS(r, agent, score_members, &out[i]));
        out[i].alive = !json_is_false(json_object_get(agent, "alive"));
    }
    return OK;
}

static fault read_evaluation(const struct reader *r, const json_t *event, struct report_run *run,
                             struct report_point *p)
{
    const json_t *agents = json_object_get(event, "agents");
    size_t n = json_array_size(agents);
    struct score *scores = ARENA_NEW(r->arena, struct score, n + 1);
    if (n == 0)
        return fail_here(r, "an evaluation without agents", "");
    if (run->n_points && n != run->n_agents)
        return fail_here(r, "an evaluation of another number of agents than the one before", "");
    if (!scores)
        return OUT_OF_MEMORY;
    TRY(READ_MEMBERS(r, event, evaluation_members, &p->e));
    TRY(READ_MEMBERS(r, event, total_members, p));
    TRY(READ_MEMBERS(r, json_object_get(event, "disagreement"), disagreement_members, &p->e.disagreement));
    TRY(read_scores(r, agents, n, scores));
    p->e.scores = scores;
    p->e.n_agents = run->n_agents = n;
    p->accuracy = spread_of_scores(scores, n, offsetof(struct score, accuracy));
    p->loss = spread_of_scores(scores, n, offsetof(struct score, loss));
    run->waited_for = read_waited_for(r, json_object_get(event, "waiting"), n);
    TRY(read_waits(r, json_object_get(event, "waiting"), n, &p->e.waiting.waited_for_s));
    run->n_points++;
    return OK;
}

static fault read_note(const struct reader *r, const json_t *event, bool is_fault, struct report_run *run)
{
    struct report_note *note = &run->notes[run->n_notes];
    const json_t *agent = json_object_get(event, "agent");
    TRY(READ_MEMBERS(r, event, note_members, note));
    if (agent && !json_is_null(agent) && !json_is_integer(agent))
        return fail_here(r, "agent is not a number", "");
    note->agent = json_is_integer(agent) ? json_integer_value(agent) : -1;
    note->kind = is_fault ? "fault" : text_at(r, event, "kind", "note");
    note->text = text_at(r, event, is_fault ? "sentence" : "text", "");
    if (!note->kind || !note->text)
        return OUT_OF_MEMORY;
    run->n_notes++;
    return OK;
}

static fault read_event(const struct reader *r, const char *line, size_t n, struct report_run *run)
{
    json_error_t error;
    json_t *event = json_loadb(line, n, JSON_REJECT_DUPLICATES, &error);
    const char *kind = json_string_value(json_object_get(event, "event"));
    const char *digest = json_string_value(json_object_get(event, "digest"));
    fault f = OK;
    snprintf(run->digests[run->n_digests++], SEAL_DIGITS + 1, "%s", digest ? digest : "");
    if (!event)
        f = fail_here(r, "is no event: ", text_shown(error.text).text);
    else if (!kind)
        f = fail_here(r, "is no event: it has no key 'event'", "");
    else if (text_is(kind, "evaluation"))
        f = read_evaluation(r, event, run, &run->points[run->n_points]);
    else if (text_is(kind, "note") || text_is(kind, "fault"))
        f = read_note(r, event, text_is(kind, "fault"), run);
    json_decref(event);
    return f;
}

static size_t count_lines(const char *text, size_t n)
{
    size_t lines = 0;
    for (const char *end; (end = memchr(text, '\n', n)); lines++) {
        n -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    return lines;
}

static fault read_lines(struct reader *r, const char *text, size_t n, struct report_run *run)
{
    size_t lines = count_lines(text, n);
    run->points = ARENA_NEW(r->arena, struct report_point, lines + 1);
    run->notes = ARENA_NEW(r->arena, struct report_note, lines + 1);
    run->digests = arena_take(r->arena, (lines + 1) * sizeof *run->digests);
    if (!run->points || !run->notes || !run->digests)
        return OUT_OF_MEMORY;
    for (r->line = 1; r->line <= lines; r->line++) {
        const char *end = memchr(text, '\n', n);
        size_t length = (size_t)(end - text);
        TRY(read_event(r, text, length, run));
        text = end + 1;
        n -= length + 1;
    }
    return OK;
}

static fault read_events(struct arena *arena, struct report_run *run)
{
    char path[FILE_PATH], *text;
    size_t n;
    TRY(path_join(run->path, "events.jsonl", sizeof path, path));
    if (access(path, F_OK) != 0)
        return FAIL(FAULT_DATA, "%s: is an empty run: it has no events.jsonl", run->path);
    TRY(file_read(path, &text, &n));
    struct reader r = {.arena = arena, .path = path};
    size_t whole;
    char last[SEAL_DIGITS + 1];
    fault f = events_check(text, n, path, &whole, last);
    if (!f)
        f = read_lines(&r, text, whole, run);
    free(text);
    TRY(f);
    if (run->n_points == 0)
        return FAIL(FAULT_DATA, "%s: is an empty run: nothing was evaluated yet", run->path);
    return OK;
}

/* ---- the experiment ---- */

/* The value of a setting that is a word or a map with its word under `kind`. */
static const char *word_of(const struct node *node, const char *kind)
{
    if (node && node->kind == NODE_MAP)
        node = node_find(node, kind);
    return node && node->kind == NODE_VALUE ? node->text : NULL;
}

static int64_t whole_of(const struct node *map, const char *key)
{
    const char *text = map && map->kind == NODE_MAP ? word_of(node_find(map, key), "") : NULL;
    return text ? strtoll(text, NULL, 10) : 0;
}

/* "consensus, every 5": the settings that a table of methods needs, where they are not the usual ones. */
static const char *describe_strategy(const struct node *strategy, struct arena *arena)
{
    static const char *const telling[] = {"every", "pairs", "order", "algorithm", "mode", "tau"};
    static const char *const usual[] = {"1", "0", "adapt-then-combine", "auto", "", ""};
    const char *text = word_of(strategy, "kind");
    if (!text || strategy->kind != NODE_MAP)
        return text ? arena_text(arena, text) : "unknown";
    for (size_t i = 0; i < COUNT(telling) && text; i++) {
        const char *value = word_of(node_find(strategy, telling[i]), "kind");
        if (value && !text_is(value, usual[i]))
            text = arena_printf(arena, "%s, %s %s", text, telling[i], value);
    }
    return text;
}

static void describe(const struct node *root, struct arena *arena, struct report_run *run)
{
    bool is_map = root->kind == NODE_MAP;
    const struct node *data = is_map ? node_find(root, "data") : NULL;
    const struct node *strategy = is_map ? node_find(root, "strategy") : NULL;
    const struct node *topology = is_map ? node_find(root, "topology") : NULL;
    const struct node *model = is_map ? node_find(root, "model") : NULL;
    run->set = data && data->kind == NODE_MAP ? word_of(node_find(data, "set"), "kind") : NULL;
    run->batch = whole_of(data, "batch");
    run->limit = whole_of(data, "limit");
    run->test_limit = whole_of(data, "test_limit");
    run->strategy = describe_strategy(strategy, arena);
    run->is_single = word_of(strategy, "kind") && text_is(word_of(strategy, "kind"), "single");
    run->topology = word_of(topology, "graph") ? word_of(topology, "graph") : word_of(topology, "kind");
    run->model = word_of(model, "kind"); /* NULL for a list of layers */
    const char *world = is_map ? word_of(node_find(root, "world"), "kind") : NULL;
    run->end.on_machines = world && !text_is(world, "local");
    run->end.name = is_map ? word_of(node_find(root, "name"), "") : NULL;
}

static fault read_experiment(struct arena *arena, struct report_run *run)
{
    char path[FILE_PATH], *text;
    size_t n;
    struct node *root;
    TRY(path_join(run->path, "experiment.yaml", sizeof path, path));
    if (access(path, R_OK) != 0)
        return FAIL(FAULT_FILE, "%s: is not a run: experiment.yaml cannot be read: %s", run->path,
                    strerror(errno));
    TRY(file_read(path, &text, &n));
    run->experiment = arena_text(arena, text);
    fault f = check_seal(&seal_of_yaml, text, n, path);
    if (!f)
        f = run->experiment ? tree_read(text, n, arena_text(arena, path), arena, &root) : OUT_OF_MEMORY;
    free(text);
    TRY(f);
    describe(root, arena, run);
    return run->strategy ? OK : OUT_OF_MEMORY;
}

/* Of a run whose agents are teams. */
static fault read_team(struct arena *arena, struct report_run *run)
{
    char path[FILE_PATH], *text;
    size_t n;
    TRY(path_join(run->path, "team.svg", sizeof path, path));
    if (access(path, R_OK) != 0)
        return OK;
    TRY(file_read(path, &text, &n));
    run->team = arena_text(arena, text);
    free(text);
    return run->team ? OK : OUT_OF_MEMORY;
}

/* ---- the end ---- */

/* What the last evaluation knows; summary.json, where there is one, is put over it. */
static void end_of_points(struct report_run *run)
{
    const struct report_point *last = &run->points[run->n_points - 1];
    struct summary *s = &run->end;
    double stale = 0;
    s->agents = (int64_t)run->n_agents;
    s->rounds = last->e.round;
    s->samples = last->e.samples;
    s->epochs = last->e.epoch;
    s->accuracy = last->accuracy;
    s->loss = last->loss;
    s->averaged_accuracy = last->e.averaged_accuracy;
    s->best_accuracy = NAN;
    for (size_t i = 0; i < run->n_points; i++)
        s->best_accuracy = fmax(s->best_accuracy, run->points[i].accuracy.max);
    s->real_s = last->e.real_s;
    s->virtual_s = last->e.virtual_s;
    s->bytes = last->bytes >= 0 && last->bytes < 1e19 ? (uint64_t)last->bytes : 0;
    s->messages = last->messages >= 0 && last->messages < 1e19 ? (uint64_t)last->messages : 0;
    s->waiting_share = last->waiting_s / (last->e.virtual_s * (double)run->n_agents);
    for (size_t i = 0; i < run->n_agents; i++) {
        run->n_alive += last->e.scores[i].alive;
        stale = fmax(stale, last->e.scores[i].staleness_max);
    }
    s->staleness_mean =
        spread_of_scores(last->e.scores, run->n_agents, offsetof(struct score, staleness_mean)).mean;
    s->staleness_max = stale;
    s->disagreement = last->e.disagreement;
    run->waiting_s = last->waiting_s;
}

/* The last line that there was when the summary was written. */
static fault find_last_event(const struct reader *r, const json_t *object, const struct report_run *run)
{
    const char *last = json_string_value(json_object_get(object, "last_event"));
    bool found = !last;
    for (size_t i = run->n_digests; !found && i > 0; i--)
        found = text_is(run->digests[i - 1], last);
    return found ? OK
                 : FAIL(FAULT_FILE,
                        "%s/events.jsonl: is damaged: lines are missing at its end, up to the last one that "
                        "%s knows",
                        run->path, r->path);
}

static fault take_summary(const struct reader *r, const json_t *object, struct report_run *run)
{
    struct summary *s = &run->end;
    double waiting_share = s->waiting_share;
    TRY(find_last_event(r, object, run));
    TRY(READ_MEMBERS(r, object, summary_members, s));
    TRY(READ_MEMBERS(r, json_object_get(object, "accuracy"), spread_members, &s->accuracy));
    TRY(READ_MEMBERS(r, json_object_get(object, "loss"), spread_members, &s->loss));
    TRY(READ_MEMBERS(r, json_object_get(object, "disagreement"), disagreement_members, &s->disagreement));
    if (isnan(s->waiting_share))
        s->waiting_share = waiting_share;
    run->waited_for = read_waited_for(r, json_object_get(object, "waiting"), run->n_agents);
    snprintf(s->params_sha256, sizeof s->params_sha256, "%s",
             json_is_string(json_object_get(object, "params_sha256"))
                 ? json_string_value(json_object_get(object, "params_sha256"))
                 : "");
    s->status = text_at(r, object, "status", "done");
    s->engine = text_at(r, object, "engine", "unknown");
    s->version = text_at(r, object, "version", "unknown");
    run->finished = true;
    return s->status && s->engine && s->version ? OK : OUT_OF_MEMORY;
}

static fault read_summary(struct arena *arena, struct report_run *run)
{
    char path[FILE_PATH], *text;
    size_t n;
    json_error_t error;
    end_of_points(run);
    run->end.status = "unfinished";
    TRY(path_join(run->path, "summary.json", sizeof path, path));
    if (access(path, F_OK) != 0)
        return OK;
    TRY(file_read(path, &text, &n));
    fault f = check_seal(&seal_of_object, text, n, path);
    json_t *object = f ? NULL : json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    free(text);
    TRY(f);
    struct reader r = {.arena = arena, .path = path};
    f = object ? take_summary(&r, object, run)
               : fail_here(&r, "is no summary: ", text_shown(error.text).text);
    json_decref(object);
    return f;
}

/* ---- all runs together ---- */

static fault read_run(struct arena *arena, const char *path, struct report_run *run)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    run->path = arena_printf(arena, "%.*s", (int)n, path);
    if (!run->path)
        return OUT_OF_MEMORY;
    TRY(read_experiment(arena, run));
    TRY(read_team(arena, run));
    TRY(read_events(arena, run));
    TRY(read_summary(arena, run));
    if (!run->end.name)
        run->end.name = run->path;
    return OK;
}

/* The folder's own name; the experiment's where the folder is called by none. */
static const char *short_name(const struct report_run *run)
{
    const char *slash = strrchr(run->path, '/'), *base = slash ? slash + 1 : run->path;
    return text_is(base, ".") || text_is(base, "..") || !*base ? run->end.name : base;
}

/* Two folders called alike go by their whole paths. */
static void label_runs(struct report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t alike = 0;
        for (size_t j = 0; j < r->n; j++)
            alike += text_is(short_name(&r->runs[i]), short_name(&r->runs[j]));
        r->runs[i].label = alike > 1 ? r->runs[i].path : short_name(&r->runs[i]);
    }
}

static bool same_data(const struct report_run *a, const struct report_run *b)
{
    return a->set && b->set && text_is(a->set, b->set) && a->limit == b->limit &&
           a->test_limit == b->test_limit;
}

/* The rival is the single run on the same data whose batch is that of all agents together, or else the first. */
static const struct report_run *rival_of(const struct report *r, const struct report_run *run)
{
    const struct report_run *rival = NULL;
    for (size_t i = 0; i < r->n && !run->is_single; i++) {
        const struct report_run *other = &r->runs[i];
        bool fits = other->batch == run->batch * (int64_t)run->n_agents;
        if (other->is_single && same_data(run, other) && (!rival || (fits && rival->batch != other->batch)))
            rival = other;
    }
    return rival;
}

fault report_read(const char *const *paths, size_t n, struct report *out)
{
    struct report r = {.n = n, .target = NAN};
    fault f = OK;
    if (n == 0)
        return FAIL(FAULT_USAGE, "a report needs at least one run");
    r.runs = ARENA_NEW(&r.arena, struct report_run, n);
    if (!r.runs)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        TRY_OR(release, f, read_run(&r.arena, paths[i], &r.runs[i]));
    label_runs(&r);
    for (size_t i = 0; i < n; i++)
        r.runs[i].rival = rival_of(&r, &r.runs[i]);
    report_set_target(&r, NAN);
    *out = r;
    return OK;
release:
    report_release(&r);
    return f;
}

void report_set_target(struct report *r, double target)
{
    r->target = target;
    for (size_t i = 0; i < r->n; i++) {
        struct report_run *run = &r->runs[i];
        run->target_s = NAN;
        for (size_t k = run->n_points; k-- > 0;)
            if (run->points[k].accuracy.mean >= target)
                run->target_s = run->points[k].e.virtual_s;
    }
}

void report_release(struct report *r)
{
    arena_release(&r->arena);
    *r = (struct report){0};
}
