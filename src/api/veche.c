/* veche.c - the public face: experiments and runs behind opaque handles. */
#include "veche.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "api/handle.h"
#include "api/registry.h"
#include "api/session.h"
#include "base/page.h"
#include "base/plain.h"
#include "base/pool.h"
#include "experiment/machines.h"
#include "graph/plan.h"

const char *veche_version(void)
{
    return VECHE_VERSION;
}

const char *veche_fault_text(veche_fault *f)
{
    return fault_text(f);
}

bool veche_fault_is_stop(veche_fault *f)
{
    return f && fault_kind_of(f) == FAULT_STOPPED;
}

bool veche_fault_is_told(veche_fault *f)
{
    return f && fault_kind_of(f) == FAULT_ELSEWHERE;
}

bool veche_fault_is_given_up(veche_fault *f)
{
    return f && fault_kind_of(f) == FAULT_GIVEN_UP;
}

void veche_fault_free(veche_fault *f)
{
    fault_drop(f);
}

static fault parse(const veche_experiment *e, struct experiment **out)
{
    const char *const *overrides = (const char *const *)e->overrides;
    struct registry registry = registry_of_everything();
    TRY(overrides_agree(overrides, e->n_overrides));
    return experiment_parse(e->text, strlen(e->text), e->source, overrides, e->n_overrides, &registry, out);
}

fault experiment_with(const veche_experiment *e, const char *const *more, size_t n_more,
                      struct experiment **out)
{
    size_t n = e->n_overrides + n_more;
    const char **all = calloc(n + 1, sizeof *all);
    if (!all)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        all[i] = i < e->n_overrides ? e->overrides[i] : more[i - e->n_overrides];
    struct registry registry = registry_of_everything();
    fault f = experiment_parse(e->text, strlen(e->text), e->source, all, n, &registry, out);
    free(all);
    return f;
}

static fault add_override(veche_experiment *e, const char *assignment)
{
    char **longer = realloc(e->overrides, (e->n_overrides + 1) * sizeof *longer);
    if (!longer)
        return OUT_OF_MEMORY;
    e->overrides = longer;
    longer[e->n_overrides] = strdup(assignment);
    if (!longer[e->n_overrides])
        return OUT_OF_MEMORY;
    e->n_overrides++;
    return OK;
}

static fault parse_with(const char *text, const char *source, const char *const *assignments, size_t n,
                        veche_experiment **out)
{
    veche_experiment *e = calloc(1, sizeof *e);
    if (!e)
        return OUT_OF_MEMORY;
    e->text = strdup(text);
    e->source = strdup(source);
    fault f = e->text && e->source ? OK : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < n; i++)
        f = add_override(e, assignments[i]);
    if (!f)
        f = parse(e, &e->parsed);
    if (f) {
        veche_experiment_free(e);
        return f;
    }
    *out = e;
    return OK;
}

veche_fault *veche_parse(const char *text, const char *source, veche_experiment **out)
{
    PLAIN_NUMBERS;
    return parse_with(text, source, NULL, 0, out);
}

enum { MOST_TEXT = 1 << 20 };

/* Reads at most MOST_TEXT bytes and a zero after them; says what is wrong with more or with other than text. */
static fault read_text(const char *path, FILE *file, char *text)
{
    size_t n = fread(text, 1, MOST_TEXT, file);
    if (ferror(file))
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (n == MOST_TEXT)
        return FAIL(FAULT_EXPERIMENT, "%s: is longer than 1 MiB, which no experiment needs", path);
    const char *zero = memchr(text, 0, n);
    if (zero)
        return FAIL(FAULT_EXPERIMENT, "%s: byte %zu is zero; an experiment is plain text", path,
                    (size_t)(zero - text));
    text[n] = 0;
    return OK;
}

veche_fault *veche_load_with(const char *path, const char *const *assignments, size_t n,
                             veche_experiment **out)
{
    PLAIN_NUMBERS;
    FILE *file = fopen(path, "rb");
    if (!file)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    char *text = malloc(MOST_TEXT + 1);
    fault f = text ? read_text(path, file, text) : OUT_OF_MEMORY;
    if (!f)
        f = parse_with(text, path, assignments, n, out);
    free(text);
    fclose(file);
    return f;
}

veche_fault *veche_load(const char *path, veche_experiment **out)
{
    return veche_load_with(path, NULL, 0, out);
}

veche_fault *veche_override(veche_experiment *e, const char *assignment)
{
    PLAIN_NUMBERS;
    struct experiment *parsed;
    TRY(add_override(e, assignment));
    fault f = parse(e, &parsed);
    if (f) {
        free(e->overrides[--e->n_overrides]);
        return f;
    }
    experiment_free(e->parsed);
    e->parsed = parsed;
    return OK;
}

veche_fault *veche_print(const veche_experiment *e, char **yaml)
{
    PLAIN_NUMBERS;
    return experiment_print(e->parsed, yaml);
}

/* What of a batch is in memory at a time. */
static fault describe_batch(const struct experiment *e, const struct graph *g, FILE *to)
{
    struct engine_setup s = {.batch = (size_t)e->data.batch, .micro_batches = team_micro_batches(e)};
    size_t n = micro_batches(&s), least = micro_of(&s, n - 1).n, bytes, uncut;
    TRY(plan_lesson_bytes(g, micro_most(&s), &bytes));
    TRY(plan_lesson_bytes(g, s.batch, &uncut));
    fprintf(to, "batch: %zu sample%s", s.batch, s.batch == 1 ? "" : "s");
    if (n > 1)
        fprintf(to, " in %zu micro-batches of %zu", n, micro_most(&s));
    if (least < micro_most(&s))
        fprintf(to, " or %zu", least);
    fprintf(to, "\nactivations: %.2f MiB a lesson in fp32", (double)bytes / 0x1p20);
    if (n > 1)
        fprintf(to, "; uncut, the batch would take %.2f MiB", (double)uncut / 0x1p20);
    fputc('\n', to);
    return OK;
}

/* Of a process, where the world has one for each member. */
static void describe_rows(const struct experiment *e, const struct topology *t, const struct graph *g,
                          FILE *to)
{
    struct rows rows = strategy_rows(&(struct row_needs){.experiment = e, .graph = g});
    struct ranks ranks = {.door = world_door(e)};
    struct engine_setup setup = {0};
    session_furnish(e, t, &ranks, &setup);
    rows_describe(&rows, setup.n_replicas, setup.n_spare, to);
    if (ranks.door->gather)
        fprintf(to, "each of %lld processes has these rows\n", (long long)e->members);
}

/* Of all agents' machines; the caller frees. NULL: memory is out. */
static double *speeds_of(const struct experiment *e)
{
    size_t n = (size_t)(e->agents * e->team_size);
    double *speeds = calloc(n, sizeof *speeds);
    if (speeds)
        machine_speeds(&e->machines, (uint64_t)e->train.seed, n, speeds);
    return speeds;
}

fault experiment_team(const struct experiment *e, const struct graph *g, struct team **out)
{
    double *speeds = speeds_of(e);
    fault f = speeds ? team_open(e, g, speeds, out) : OUT_OF_MEMORY;
    free(speeds);
    return f;
}

/* In words or as a drawing, with a lesson of the first agent, in which no machine falls behind; without one where they are still to be measured. */
static fault show_lesson(const struct experiment *e, const struct graph *g, struct team *team, bool drawn, FILE *to)
{
    size_t size = (size_t)e->team_size;
    double *machine_s = speeds_of(e), *done_s = calloc(size, sizeof *done_s);
    fault f = machine_s && done_s ? OK : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < size; i++)
        machine_s[i] = (double)e->data.batch / (e->machines.rate * machine_s[i]);
    struct team_lesson lesson = {.machine_s = machine_s, .wire = e->network.within, .done_s = done_s};
    bool is_known = e->machines.rate > 0;
    if (!f && is_known)
        f = drawn ? team_draw(team, &lesson, to) : team_time(team, &lesson);
    if (!f && !drawn)
        team_describe(team, g, is_known ? &lesson : NULL, to);
    free(machine_s);
    free(done_s);
    return f;
}

/* How the agents' machines share the network; nothing where each agent is one. */
static fault describe_team(const struct experiment *e, const struct graph *g, FILE *to)
{
    struct team *team = NULL;
    TRY(experiment_team(e, g, &team));
    fault f = team ? show_lesson(e, g, team, false, to) : OK;
    team_close(team);
    return f;
}

/* The layers, and what they, the method and a lesson take of memory. */
static fault describe(const struct experiment *e, const struct topology *t, const struct graph *g, char **out)
{
    struct page page;
    TRY(page_open(&page));
    fault f = graph_describe(g, page.out);
    fputc('\n', page.out);
    describe_rows(e, t, g, page.out);
    if (!f)
        f = describe_team(e, g, page.out);
    if (e->data.stream)
        fprintf(page.out, "samples: at most %g MB in memory, the others on disk\n", dataset_window_mb(&e->data));
    return page_close(&page, f ? f : describe_batch(e, g, page.out), out);
}

fault experiment_examine(const struct experiment *e, char **layers)
{
    struct sample_shape s;
    struct graph *graph;
    struct topology *topology = NULL;
    TRY(session_check(e));
    TRY(dataset_shape(&e->data, &s));
    TRY(dataset_check_window(&e->data, &s));
    TRY(graph_build(&e->model, (struct shape){s.c, s.h, s.w}, s.classes, &graph));
    fault f = session_topology(e, &topology);
    if (!f)
        f = session_check_against(e, topology, graph);
    if (!f && layers)
        f = describe(e, topology, graph, layers);
    topology_free(topology);
    graph_free(graph);
    return f;
}

veche_fault *veche_describe_model(const veche_experiment *e, char **text)
{
    PLAIN_NUMBERS;
    return experiment_examine(e->parsed, text);
}

const char *veche_experiment_world(const veche_experiment *e)
{
    return e->parsed->world.kind->name;
}

void veche_experiment_free(veche_experiment *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->n_overrides; i++)
        free(e->overrides[i]);
    free(e->overrides);
    free(e->text);
    free(e->source);
    if (e->parsed)
        experiment_free(e->parsed);
    free(e);
}

/* The resolved experiment under a few lines about the program and machine that ran it. */
static fault print_for_run(const struct veche_run *r, char **out)
{
    char *yaml = NULL, *whole = NULL;
    struct utsname system = {0};
    uname(&system);
    TRY(experiment_print(r->experiment, &yaml));
    int n = asprintf(&whole, "# veche %s\n# machine: %s %s, %d cores\n# engine: %s\n%s", VECHE_VERSION,
                     system.sysname, system.machine, pool_cores(), r->engine_line, yaml);
    free(yaml);
    if (n < 0)
        return OUT_OF_MEMORY;
    *out = whole;
    return OK;
}

/* ---- ranks ---- */

bool experiment_is_for_ranks(const struct experiment *e)
{
    return world_door(e)->gather != NULL;
}

fault experiment_agents_of_ranks(const struct experiment *e, size_t n_ranks, int64_t *agents)
{
    const struct kind *k = e->strategy.kind;
    int64_t ranks = (int64_t)n_ranks, learners = ranks;
    while (k->helpers && learners > 0 && learners + k->helpers(e->strategy.settings, learners) > ranks)
        learners--;
    *agents = learners;
    if (learners > 0 && (!k->helpers || learners + k->helpers(e->strategy.settings, learners) == ranks))
        return OK;
    return fail_at(e->strategy.place,
                   "strategy.kind: '%s' with these settings cannot be shared out among %zu rank%s", k->name,
                   n_ranks, n_ranks == 1 ? "" : "s");
}

fault experiment_check_launch(const struct experiment *e)
{
    return world_door(e)->check_launch ? world_door(e)->check_launch(e) : OK;
}

/* The experiment again, with as many agents as the ranks say; takes the first one, also on a fault. */
static fault fit_to_ranks(struct experiment **e, const struct ranks *ranks, const char *text,
                          const char *source, const char *const *overrides, size_t n)
{
    struct registry registry = registry_of_everything();
    int64_t agents = 0;
    char line[32];
    fault f = experiment_agents_of_ranks(*e, ranks->n, &agents);
    experiment_free(*e);
    *e = NULL;
    TRY(f);
    const char **all = calloc(n + 1, sizeof *all);
    if (!all)
        return OUT_OF_MEMORY;
    if (n)
        memcpy(all, overrides, n * sizeof *all);
    snprintf(line, sizeof line, "agents=%lld", (long long)agents);
    all[n] = line;
    f = experiment_parse(text, strlen(text), source, all, n + 1, &registry, e);
    free(all);
    return f;
}

static fault open_run(struct experiment *e, const char *text, const char *source,
                      const char *const *overrides, size_t n, const veche_options *options,
                      struct veche_run **out)
{
    struct ranks ranks;
    bool alone = options && options->alone;
    fault f = alone ? OK : experiment_check_launch(e);
    if (!f)
        f = world_door(e)->join(alone, &ranks);
    if (f) {
        experiment_free(e);
        return f;
    }
    double patience = e->network.patience_s;
    if (ranks.n)
        TRY(world_agree(&ranks, fit_to_ranks(&e, &ranks, text, source, overrides, n), patience));
    return session_open(e, &ranks, options, out);
}

static fault write_team(struct veche_run *r)
{
    struct page page;
    char *svg;
    if (!r->team)
        return OK;
    TRY(page_open(&page));
    TRY(page_close(&page, show_lesson(r->experiment, r->graph, r->team, true, page.out), &svg));
    fault f = run_write_team(&r->folder, svg);
    free(svg);
    return f;
}

static fault make_folder(struct veche_run *r)
{
    char *yaml;
    if (!r->world->ops->leads(r->world))
        return OK;
    TRY(print_for_run(r, &yaml));
    const char *parent = r->options.folder ? r->options.folder : "runs";
    fault f = run_create(parent, r->experiment->name, yaml, r->experiment->train.keep, &r->folder);
    free(yaml);
    return f ? f : write_team(r);
}

veche_fault *veche_start(const veche_experiment *e, const veche_options *options, veche_run **out)
{
    PLAIN_NUMBERS;
    struct experiment *copy;
    struct veche_run *r;
    TRY(parse(e, &copy));
    TRY(open_run(copy, e->text, e->source, (const char *const *)e->overrides, e->n_overrides, options, &r));
    fault f = make_folder(r);
    if (f) {
        session_close(r);
        return f;
    }
    *out = r;
    return OK;
}

/* ---- resuming ---- */

static const double patience_s = 60; /* while that of the experiment is not known yet */

veche_fault *veche_agree(veche_fault *mine)
{
    struct ranks ranks;
    size_t n;
    const struct world_door *door = world_launched(&n);
    if (n < 2)
        return mine;
    fault alone = door->join(false, &ranks);
    if (alone) { /* these processes have nothing to do with each other */
        fault_drop(alone);
        return mine;
    }
    return world_agree(&ranks, mine, patience_s);
}

fault session_write_experiment(struct veche_run *r)
{
    char *yaml;
    TRY(print_for_run(r, &yaml));
    fault f = run_write_experiment(&r->folder, yaml);
    free(yaml);
    return f;
}

/* Under a launcher the run's folder need be there for rank 0 only, who tells the others with which experiment it goes on. */
static fault open_resumption(const char *folder, const char *const *assignments, size_t n, bool alone,
                             struct resumption *from, char **text)
{
    struct ranks ranks = {0};
    size_t n_launched;
    const struct world_door *door = world_launched(&n_launched);
    if (n_launched > 1 && !alone)
        TRY(door->join(false, &ranks));
    fault f = ranks.self == 0 ? resumption_open(folder, assignments, n, ranks.n ? ranks.n : 1, from) : OK;
    TRY(world_agree(&ranks, f, patience_s));
    *text = from->text;
    from->text = NULL;
    return world_spread_text(&ranks, text, patience_s);
}

/* From here on the folder is the run's. */
static fault go_on(struct veche_run *r, struct resumption *from)
{
    bool leads = r->world->ops->leads(r->world);
    fault f = leads ? session_is_same(r, from) : OK;
    TRY(world_agree(&r->ranks, f, r->experiment->network.patience_s));
    if (!leads)
        return OK;
    r->folder = from->folder;
    r->folder.keep = r->experiment->train.keep;
    from->folder.lock = from->folder.events = -1;
    return session_restore(r, from);
}

veche_fault *veche_resume_with(const char *run_folder, const char *const *assignments, size_t n,
                               const veche_options *options, veche_run **out)
{
    PLAIN_NUMBERS;
    char path[RUN_PATH + 32], *text = NULL;
    struct registry registry = registry_of_everything();
    struct resumption from = NO_RESUMPTION;
    struct experiment *e;
    struct veche_run *r = NULL;
    snprintf(path, sizeof path, "%s/experiment.yaml", run_folder);
    fault f = open_resumption(run_folder, assignments, n, options && options->alone, &from, &text);
    if (!f)
        f = experiment_parse(text, strlen(text), path, NULL, 0, &registry, &e);
    if (!f)
        f = open_run(e, text, path, NULL, 0, options, &r);
    if (!f)
        f = go_on(r, &from);
    free(text);
    resumption_close(&from);
    if (f)
        session_close(r);
    else
        *out = r;
    return f;
}

veche_fault *veche_resume(const char *run_folder, const veche_options *options, veche_run **out)
{
    return veche_resume_with(run_folder, NULL, 0, options, out);
}

veche_fault *veche_go(veche_run *r)
{
    PLAIN_NUMBERS;
    return session_go(r);
}

void veche_stop(veche_run *r)
{
    atomic_store(&r->stop, true);
}

void veche_close(veche_run *r)
{
    session_close(r);
}

bool veche_run_leads(const veche_run *r)
{
    return r->world->ops->leads(r->world);
}

veche_fault *veche_run_places(const veche_run *r, char **text)
{
    if (r->world->ops->places)
        return r->world->ops->places(r->world, text);
    *text = strdup("");
    return *text ? OK : OUT_OF_MEMORY;
}

int veche_run_lost(const veche_run *r, char *who, size_t n)
{
    return r->world->ops->lost ? r->world->ops->lost(r->world, who, n) : 0;
}

size_t veche_processes(void)
{
    size_t n;
    world_launched(&n);
    return n;
}

const char *veche_launched_world(void)
{
    size_t n;
    const struct world_door *door = world_launched(&n);
    return door ? door->name : NULL;
}

const char *veche_run_folder(const veche_run *r)
{
    return r->folder.path;
}

const char *veche_run_engine(const veche_run *r)
{
    return r->engine_line;
}

veche_fault *veche_summary(const veche_run *r, char **json)
{
    PLAIN_NUMBERS;
    struct summary s;
    TRY(session_summary(r, &s));
    return summary_json(&s, json);
}

veche_fault *veche_table(const veche_run *r, char **text)
{
    PLAIN_NUMBERS;
    struct summary s;
    TRY(session_summary(r, &s));
    return summary_table(&s, text);
}

size_t veche_parameter_count(const veche_run *r)
{
    return r->graph->n_params;
}

size_t veche_parameter_size(const veche_run *r)
{
    return r->graph->size;
}

veche_parameter veche_parameter_at(const veche_run *r, size_t i)
{
    const struct param *p = &r->graph->params[i];
    veche_parameter out = {.name = p->name, .n_dims = p->n_dims, .offset = p->offset, .size = p->size};
    memcpy(out.dims, p->dims, sizeof out.dims);
    return out;
}

veche_fault *veche_read_parameters(veche_run *r, size_t agent, float *floats)
{
    if (agent >= r->n_agents)
        return FAIL(FAULT_USAGE, "there is no agent %zu; the run has %zu", agent, r->n_agents);
    return r->world->ops->read(r->world, ROW_PARAMS, agent, floats);
}
