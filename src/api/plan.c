/* plan.c - `veche plan`: what is known of network, machines and links, from an experiment and from settings, to a plan.
 *
 *   experiment -> team_facts     settings over them -> needs -> the best cut, its rivals -> text, object, drawing, schedule
 *   profile or experiment -> layers
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/bench/bench.h"
#include "api/handle.h"
#include "base/page.h"
#include "base/plain.h"
#include "base/text.h"
#include "data/data.h"
#include "engine/engine.h"
#include "experiment/machines.h"
#include "graph/graph.h"
#include "team/show.h"
#include "team/team.h"

enum { USUAL_MICROS = 8, USUAL_CHUNKS = 2, MOST_MACHINES = 1024 };
enum times { TIMES_MEASURED, TIMES_RATE };

struct plan_settings {
    const char *profile, *schedule, *cut;
    struct reals machines, memory_mb;
    double bandwidth_mbs, latency_ms;      /* -1: as the experiment says */
    int64_t microbatches, chunks, warmup; /* 0: as usual */
    bool any_order;
    int times; /* enum times */
};

static const char *const time_names[] = {"measured", "rate", NULL};

static const struct field plan_fields[] = {
    TEXT_FIELD(struct plan_settings, profile, NULL, "a CSV file of layers", .optional = true),
    REALS_FIELD(struct plan_settings, machines, NULL, 0, 1e9, "speeds", .above_min = true, .optional = true),
    REALS_FIELD(struct plan_settings, memory_mb, NULL, 0, 1e12, "of a machine", .above_min = true, .optional = true),
    REAL_FIELD(struct plan_settings, bandwidth_mbs, NULL, 0, 1e12, "of a card each way; 0: no limit", .optional = true),
    REAL_FIELD(struct plan_settings, latency_ms, NULL, 0, 1e9, "of a message", .optional = true),
    TEXT_FIELD(struct plan_settings, schedule, NULL, "of the pipeline", .optional = true),
    INT_FIELD(struct plan_settings, microbatches, NULL, 1, 100000, "of a round", .optional = true),
    INT_FIELD(struct plan_settings, chunks, NULL, 1, 1000, "parts of a machine", .optional = true),
    INT_FIELD(struct plan_settings, warmup, NULL, 1, 100000, "micro-batches in flight on the first machine", .optional = true),
    FLAG_FIELD(struct plan_settings, any_order, "false", "of the machines"),
    TEXT_FIELD(struct plan_settings, cut, NULL, "the first layers of the parts", .optional = true),
    CHOICE_FIELD(struct plan_settings, times, "measured", time_names, "of layers"),
};

/* What an experiment says of a team; without one nothing is known, and links are free. Where it has no section `team` its agents' machines
 * are taken for one team. */
struct team_facts {
    double *speeds; /* in the arena */
    size_t n_machines;
    double latency_s, bytes_per_s;
    const char *schedule;     /* NULL: it does not say; the same for 0 below */
    size_t n_micros, chunks, warmup;
    enum recompute recompute;
    double slots;
};

struct planning {
    const struct experiment *e; /* NULL: none */
    struct plan_settings settings;
    struct team_facts facts;
    struct profile profile;
    struct schedule schedule;
    struct cut_needs needs;
    struct arena arena; /* owned */
};

/* ---- what the experiment says ---- */

/* The slowest link between any two. */
static void take_network(const struct experiment *e, struct team_facts *out)
{
    size_t n = smaller(out->n_machines, MOST_MACHINES);
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++) {
            struct wire w = network_wire(&e->network, a, b);
            out->latency_s = fmax(out->latency_s, w.latency_s);
            if (w.bytes_per_s > 0 && (out->bytes_per_s == 0 || w.bytes_per_s < out->bytes_per_s))
                out->bytes_per_s = w.bytes_per_s;
        }
}

/* All teams are cut alike: each place in a team is as slow as the slowest machine that has it. */
static void take_team(const struct experiment *e, const double *all, struct team_facts *out)
{
    const struct pipeline *p = team_pipeline(e);
    struct wire within = network_wire(&e->network, 0, 0);
    out->n_machines = (size_t)e->team_size;
    out->latency_s = within.latency_s;
    out->bytes_per_s = within.bytes_per_s;
    out->n_micros = (size_t)p->microbatches;
    out->chunks = (size_t)p->chunks;
    out->warmup = (size_t)p->warmup;
    out->schedule = p->schedule;
    out->recompute = (enum recompute)p->recompute;
    for (size_t i = 0; i < out->n_machines; i++) {
        out->speeds[i] = all[i];
        for (size_t agent = 1; agent < (size_t)e->agents; agent++)
            out->speeds[i] = fmin(out->speeds[i], all[agent * out->n_machines + i]);
    }
}

static fault facts_of_experiment(const struct experiment *e, struct arena *arena, struct team_facts *out)
{
    size_t n = (size_t)(e->agents * e->team_size);
    double *all = ARENA_NEW(arena, double, n);
    *out = (struct team_facts){.n_machines = (size_t)e->agents,
                               .speeds = ARENA_NEW(arena, double, n),
                               .slots = (double)optim_row(&e->optim)->n_slots};
    if (!all || !out->speeds)
        return OUT_OF_MEMORY;
    machine_speeds(&e->machines, (uint64_t)e->train.seed, n, all);
    if (team_pipeline(e)) {
        take_team(e, all, out);
        return OK;
    }
    out->n_micros = e->train.accumulate > 1 ? (size_t)e->train.accumulate : smaller(USUAL_MICROS, (size_t)e->data.batch);
    memcpy(out->speeds, all, n * sizeof *all);
    take_network(e, out);
    return OK;
}

/* ---- layers ---- */

static fault layers_by_rate(const struct planning *p, const struct graph *g, size_t n_samples, struct profile *out)
{
    double rate = p->e->machines.rate;
    if (!(rate > 0))
        return FAIL(FAULT_USAGE, "times=rate needs machines.rate, and %s has none", p->e->source);
    profile_share_out(g, (double)n_samples / rate, out);
    return OK;
}

/* The first micro-batches of a batch are larger by a sample, and those are what the profile is of. */
static fault share_micros(struct planning *p, size_t n_samples)
{
    size_t batch = (size_t)p->e->data.batch, m = p->schedule.n_micros;
    double *shares = ARENA_NEW(&p->arena, double, m);
    if (!shares)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < m; i++)
        shares[i] = (double)(batch / m + (i < batch % m)) / (double)n_samples;
    p->needs.micro_shares = shares;
    return OK;
}

static fault layers_measured(const struct planning *p, const struct graph *g, struct profile *out)
{
    const struct engine_ops *ops;
    struct engine_setup setup = {.graph = g,
                                 .batch = (size_t)p->e->data.batch,
                                 .micro_batches = p->schedule.n_micros,
                                 .precision = (enum precision)p->e->engine.precision,
                                 .threads = (int)p->e->engine.threads};
    TRY(engine_choose(p->e->engine.kind.kind, &ops));
    return profile_measure(ops, &setup, out);
}

static fault layers_of_graph(struct planning *p, const struct graph *g)
{
    size_t batch = (size_t)p->e->data.batch, m = p->schedule.n_micros, n_samples = (batch + m - 1) / m;
    if (m > batch)
        return FAIL(FAULT_USAGE, "a batch of %zu samples cannot be cut into %zu micro-batches", batch, m);
    TRY(share_micros(p, n_samples));
    TRY(profile_of_graph(g, n_samples, &p->arena, &p->profile));
    if (p->settings.times == TIMES_RATE)
        TRY(layers_by_rate(p, g, n_samples, &p->profile));
    else
        TRY(layers_measured(p, g, &p->profile));
    p->profile.source = arena_printf(
        &p->arena, "%s, micro-batches of %zu, %s", g->name, n_samples,
        p->settings.times == TIMES_RATE ? "times from machines.rate" : "times measured on this machine");
    for (size_t i = 0; i < p->profile.n_layers; i++) /* the graph goes, its names stay */
        if (!(p->profile.layers[i].name = arena_text(&p->arena, p->profile.layers[i].name)))
            return OUT_OF_MEMORY;
    return p->profile.source ? OK : OUT_OF_MEMORY;
}

static fault read_layers(struct planning *p)
{
    struct sample_shape s;
    struct graph *g;
    if (p->settings.profile)
        return profile_read(p->settings.profile, &p->arena, &p->profile);
    TRY(dataset_shape(&p->e->data, &s));
    TRY(graph_build(&p->e->model, (struct shape){s.c, s.h, s.w}, s.classes, &g));
    fault f = layers_of_graph(p, g);
    graph_free(g);
    return f;
}

/* ---- settings over the facts ---- */

static fault take_machines(struct planning *p)
{
    const struct reals *speeds = &p->settings.machines, *memory = &p->settings.memory_mb;
    size_t n = speeds->n ? speeds->n : p->facts.n_machines;
    if (n == 0)
        return FAIL(FAULT_USAGE, "which machines? Say their speeds, --machines 1,1,0.5, or give an experiment");
    if (n > MOST_MACHINES)
        return FAIL(FAULT_USAGE, "%zu machines are too many for a plan: %d are the most", n, MOST_MACHINES);
    if (memory->n > 1 && memory->n != n)
        return FAIL(FAULT_USAGE, "memory_mb: %zu numbers for %zu machines; there is one for all, or one for each", memory->n, n);
    struct cut_machine *machines = ARENA_NEW(&p->arena, struct cut_machine, n);
    if (!machines)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        machines[i] = (struct cut_machine){
            .speed = speeds->n ? speeds->at[i] : p->facts.speeds[i],
            .memory_bytes = memory->n == 0 ? 0 : 1e6 * memory->at[memory->n == 1 ? 0 : i],
        };
    p->needs.machines = machines;
    p->needs.n_machines = n;
    return OK;
}

static size_t first_said(int64_t setting, size_t fact, size_t usual)
{
    return setting ? (size_t)setting : fact ? fact : usual;
}

static fault take_schedule(struct planning *p)
{
    const struct plan_settings *s = &p->settings;
    const struct team_facts *facts = &p->facts;
    const struct schedule_kind *kind;
    const char *name = s->schedule ? s->schedule : facts->schedule ? facts->schedule : "1f1b";
    bool is_theirs = facts->schedule && text_is(name, facts->schedule); /* chunks and warm-up belong to it */
    if (text_starts(name, "file:"))
        return FAIL(FAULT_USAGE, "a schedule of a file is for one cut: say a kind of schedule to plan for, --schedule 1f1b");
    TRY(schedule_find(name, &kind));
    struct schedule_needs needs = {.n_members = p->needs.n_machines,
                                   .chunks = first_said(s->chunks, is_theirs ? facts->chunks : 0, kind->has_chunks ? USUAL_CHUNKS : 1),
                                   .n_micros = first_said(s->microbatches, facts->n_micros, USUAL_MICROS),
                                   .warmup = first_said(s->warmup, is_theirs ? facts->warmup : 0, 0)};
    TRY(kind->write(&needs, &p->arena, &p->schedule));
    p->needs.n_recomputed = facts->recompute == RECOMPUTE_NEVER    ? 0
                            : facts->recompute == RECOMPUTE_ALWAYS ? needs.n_micros
                                                                   : needs.n_micros - 1;
    return OK;
}

/* "NAME,NAME": where each part but the first begins. */
static fault take_cut(struct planning *p)
{
    size_t n = 0, parts = p->schedule.n_parts;
    char *rest = p->settings.cut ? arena_text(&p->arena, p->settings.cut) : NULL, *name;
    size_t *begins = ARENA_NEW(&p->arena, size_t, parts);
    if (!begins || (p->settings.cut && !rest))
        return OUT_OF_MEMORY;
    if (!p->settings.cut)
        return OK;
    if (p->settings.any_order)
        return FAIL(FAULT_USAGE, "a cut that is given takes the machines in the order given, not in any order");
    while ((name = strsep(&rest, ","))) {
        if (n + 1 >= parts)
            return FAIL(FAULT_USAGE, "a cut into %zu parts names %zu layers, and this one more", parts, parts - 1);
        TRY(profile_find(&p->profile, name, &begins[n++]));
    }
    if (n + 1 < parts)
        return FAIL(FAULT_USAGE, "a cut into %zu parts names %zu layers, and this one %zu", parts, parts - 1, n);
    p->needs.begins = begins;
    return OK;
}

static fault prepare(struct planning *p)
{
    const struct plan_settings *s = &p->settings;
    if (p->e)
        TRY(facts_of_experiment(p->e, &p->arena, &p->facts));
    else if (!s->profile)
        return FAIL(FAULT_USAGE, "which network? Give an experiment, or the times of its layers: --profile LAYERS.csv");
    TRY(take_machines(p));
    TRY(take_schedule(p));
    TRY(read_layers(p));
    TRY(take_cut(p));
    p->needs.profile = &p->profile;
    p->needs.schedule = &p->schedule;
    p->needs.any_order = s->any_order;
    p->needs.slots = p->facts.slots;
    p->needs.latency_s = s->latency_ms < 0 ? p->facts.latency_s : s->latency_ms / 1e3;
    p->needs.bytes_per_s = s->bandwidth_mbs < 0 ? p->facts.bytes_per_s : s->bandwidth_mbs * 1e6;
    return OK;
}

/* ---- the answer ---- */

static fault print_schedule(const struct schedule *s, char **text)
{
    struct page page;
    TRY(page_open(&page));
    return page_close(&page, schedule_print_csv(s, s->flushes ? 1 : 2, page.out), text);
}

struct asked {
    char **text, **json, **svg, **csv;
};

/* All that is asked for, or nothing. */
static fault show(const struct plan_shown *shown, const struct asked *asked)
{
    char *text = NULL, *json = NULL, *svg = NULL, *csv = NULL;
    fault f = asked->text ? show_text(shown, &text) : OK;
    if (!f && asked->json)
        f = show_json(shown, &json);
    if (!f && asked->svg)
        f = show_svg(shown, &svg);
    if (!f && asked->csv)
        f = print_schedule(shown->plan->schedule, &csv);
    char *const made[] = {text, json, svg, csv}, **const to[] = {asked->text, asked->json, asked->svg, asked->csv};
    for (size_t i = 0; i < 4; i++)
        if (f)
            free(made[i]);
        else if (to[i])
            *to[i] = made[i];
    return f;
}

static fault answer(struct planning *p, const struct asked *asked)
{
    struct cut_plan plan;
    struct rivals rivals;
    struct plan_shown shown = {.needs = &p->needs, .plan = &plan, .rivals = &rivals};
    TRY(prepare(p));
    TRY(cut_best(&p->needs, &p->arena, &plan));
    TRY(rivals_list(&p->needs, &p->arena, &rivals));
    TRY(cut_advice(&p->needs, &plan, &p->arena, &shown.advice));
    TRY(rivals_verdict(&rivals, p->schedule.n_micros, &p->arena, &shown.verdict));
    return show(&shown, asked);
}

veche_fault *veche_plan(const veche_experiment *e, const char *const *settings, size_t n, char **text, char **json,
                        char **svg, char **schedule_csv)
{
    PLAIN_NUMBERS;
    struct planning p = {.e = e ? e->parsed : NULL, .settings = {.bandwidth_mbs = -1, .latency_ms = -1}};
    fault f = bench_settings(plan_fields, sizeof plan_fields / sizeof *plan_fields, settings, n, &p.arena, &p.settings);
    if (!f)
        f = answer(&p, &(struct asked){text, json, svg, schedule_csv});
    arena_release(&p.arena);
    return f;
}
