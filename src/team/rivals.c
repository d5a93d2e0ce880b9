/* rivals.c - see rivals.h. */
#include "team/rivals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"

const char *way_name(enum way way)
{
    static const char *const names[N_WAYS] = {"one machine", "data", "pipeline", "tensor"};
    return names[way];
}

struct listing {
    const struct cut_needs *needs;
    struct arena *arena;
    struct rivals *out;
    size_t room;
    double all_s, all_parameters, all_kept; /* of the whole network */
};

static double ring_s(const struct cut_needs *n, double bytes, size_t q, double turns)
{
    double each = n->bytes_per_s > 0 ? bytes / (double)q / n->bytes_per_s : 0;
    return turns * (double)(q - 1) * (n->latency_s + each);
}

static double sum_s(const struct cut_needs *n, double bytes, size_t q)
{
    return ring_s(n, bytes, q, 2);
}

static double gather_s(const struct cut_needs *n, double bytes, size_t q)
{
    return ring_s(n, bytes, q, 1);
}

/* ---- machines in teams ---- */

/* The machines that hold the same part in D teams, as one that is as slow and small as any of them. */
static struct cut_machine least_of(const struct cut_machine *machines, size_t n, size_t step)
{
    struct cut_machine least = machines[0];
    for (size_t i = 1; i < n; i++) {
        const struct cut_machine *m = &machines[i * step];
        least.speed = fmin(least.speed, m->speed);
        if (m->memory_bytes > 0 && (least.memory_bytes == 0 || m->memory_bytes < least.memory_bytes))
            least.memory_bytes = m->memory_bytes;
    }
    return least;
}

static int faster_first(const void *a, const void *b)
{
    const struct cut_machine *x = a, *y = b;
    if (x->speed != y->speed)
        return x->speed > y->speed ? -1 : 1;
    return (x->memory_bytes < y->memory_bytes) - (x->memory_bytes > y->memory_bytes);
}

/* [size] machines, one for each position in a team. */
static struct cut_machine *positions(const struct listing *l, size_t n_teams, size_t size)
{
    const struct cut_needs *n = l->needs;
    struct cut_machine *all = ARENA_NEW(l->arena, struct cut_machine, n->n_machines),
                       *out = ARENA_NEW(l->arena, struct cut_machine, size);
    if (!all || !out)
        return NULL;
    for (size_t i = 0; i < n->n_machines; i++)
        all[i] = n->machines[i];
    if (n->any_order && n_teams > 1)
        qsort(all, n->n_machines, sizeof *all, faster_first);
    for (size_t s = 0; s < size; s++)
        out[s] = n->any_order ? least_of(all + s * n_teams, n_teams, 1) : least_of(all + s, n_teams, size);
    return out;
}

/* ---- one way each ---- */

static fault add(struct listing *l, struct rival r)
{
    struct rivals *out = l->out;
    const char *inside = r.schedule ? r.schedule : "", *space = r.schedule ? " " : "";
    if (r.size == 1)
        r.name = r.n_teams == 1 ? "one machine" : "data parallel";
    else if (r.n_teams == 1)
        r.name = arena_printf(l->arena, "%s%s%s", way_name(r.way), space, inside);
    else
        r.name = arena_printf(l->arena, "%zu teams of %zu, %s%s%s", r.n_teams, r.size, way_name(r.way), space, inside);
    out->at = r.name ? array_with_room(out->at, &l->room, out->n + 1, sizeof *out->at) : NULL;
    if (!out->at)
        return OUT_OF_MEMORY;
    out->at[out->n++] = r;
    return OK;
}

/* Memory of a machine that computes all layers, one micro-batch at a time, with this share of the parameters. */
static double whole_memory(const struct listing *l, double share)
{
    return share * l->all_parameters * (2 + l->needs->slots) + l->all_kept;
}

static const char *memory_obstacle(const struct listing *l, const struct cut_machine *m, double bytes)
{
    if (m->memory_bytes == 0 || bytes <= m->memory_bytes)
        return NULL;
    const char *text = arena_printf(l->arena, "%.6g MB more than a machine has", (bytes - m->memory_bytes) / 1e6);
    return text ? text : "it does not fit in memory";
}

static fault add_one(struct listing *l)
{
    const struct cut_needs *n = l->needs;
    const struct cut_machine *best = NULL;
    struct rival r = {.way = WAY_ONE, .n_teams = 1, .size = 1, .memory_bytes = whole_memory(l, 1)};
    for (size_t i = 0; i < n->n_machines; i++) {
        const struct cut_machine *m = &n->machines[i];
        const char *obstacle = memory_obstacle(l, m, r.memory_bytes);
        if (!best || (r.obstacle && !obstacle) || (!r.obstacle == !obstacle && m->speed > best->speed)) {
            best = m;
            r.obstacle = obstacle;
        }
    }
    r.round_s = r.compute_s = (double)n->schedule->n_micros * l->all_s / best->speed;
    return add(l, r);
}

static fault add_data(struct listing *l)
{
    const struct cut_needs *n = l->needs;
    struct cut_machine least = least_of(n->machines, n->n_machines, 1);
    double p = (double)n->n_machines;
    struct rival r = {.way = WAY_DATA, .n_teams = n->n_machines, .size = 1, .memory_bytes = whole_memory(l, 1)};
    r.compute_s = (double)n->schedule->n_micros * l->all_s / (p * least.speed);
    r.messages_s = sum_s(n, l->all_parameters, n->n_machines);
    r.round_s = r.compute_s + r.messages_s;
    r.obstacle = memory_obstacle(l, &least, r.memory_bytes);
    return add(l, r);
}

static size_t micros_of_team(const struct listing *l, size_t n_teams)
{
    return (l->needs->schedule->n_micros + n_teams - 1) / n_teams;
}

/* The schedule that was asked for stays as it is where it is for these; others have one part a machine, or two. */
static fault write_schedule(const struct listing *l, const struct schedule_kind *kind, size_t n_teams, size_t size,
                            struct schedule *out)
{
    const struct schedule *asked = l->needs->schedule;
    size_t chunks = asked->n_parts / asked->n_members;
    bool is_asked = schedule_kind_named(asked->name) == kind;
    if (is_asked && n_teams == 1) {
        *out = *asked;
        return OK;
    }
    struct schedule_needs needs = {.n_members = size,
                                   .chunks = !kind->has_chunks ? 1 : is_asked ? chunks : 2,
                                   .n_micros = micros_of_team(l, n_teams)};
    return kind->write(&needs, l->arena, out);
}

static void take_figures(const struct cut_needs *n, const struct cut_plan *plan, size_t n_teams, size_t n_micros, struct rival *r)
{
    for (size_t g = 0; g < plan->n_stages; g++) {
        const struct cut_stage *s = &plan->stages[g];
        r->compute_s = fmax(r->compute_s, (double)n_micros * s->compute_s);
        r->memory_bytes = fmax(r->memory_bytes, s->memory_bytes);
        if (n_teams > 1)
            r->messages_s = fmax(r->messages_s, sum_s(n, s->parameter_bytes, n_teams));
    }
    r->round_s = plan->timeline.round_s + r->messages_s;
}

/* What a fault says, as the reason why a rival cannot be; anything else is passed on. */
static fault take_obstacle(const struct listing *l, fault f, struct rival *r)
{
    if (!f || fault_kind_of(f) != FAULT_USAGE)
        return f;
    r->obstacle = arena_text(l->arena, fault_text(f));
    fault_drop(f);
    return r->obstacle ? OK : OUT_OF_MEMORY;
}

static fault plan_pipeline(const struct listing *l, const struct schedule_kind *kind, struct rival *r)
{
    struct cut_needs team = *l->needs;
    struct schedule schedule;
    struct cut_plan plan;
    team.machines = positions(l, r->n_teams, r->size);
    team.n_machines = r->size;
    team.schedule = &schedule;
    team.begins = NULL;
    if (r->n_teams > 1)
        team.micro_shares = NULL;
    team.n_recomputed = smaller(team.n_recomputed, micros_of_team(l, r->n_teams));
    if (!team.machines)
        return OUT_OF_MEMORY;
    TRY(write_schedule(l, kind, r->n_teams, r->size, &schedule));
    TRY(cut_best(&team, l->arena, &plan));
    take_figures(l->needs, &plan, r->n_teams, schedule.n_micros, r);
    return OK;
}

static fault add_pipeline(struct listing *l, const struct schedule_kind *kind, size_t n_teams, size_t size)
{
    struct rival r = {.way = WAY_PIPELINE,
                      .n_teams = n_teams,
                      .size = size,
                      .schedule = kind->name,
                      .is_delayed = !kind->flushes};
    TRY(take_obstacle(l, plan_pipeline(l, kind, &r), &r));
    return add(l, r);
}

/* ---- a tensor split ---- */

struct split_layer { /* one whose outputs each depend on all of its inputs */
    double in_bytes; /* what it reads; 0: samples, whose gradient nobody wants */
    double out_bytes;
};

static double read_by(const struct profile *p, size_t layer)
{
    double bytes = 0;
    for (size_t k = 0; k < p->n_flows; k++)
        bytes += p->flows[k].to == layer ? p->flows[k].bytes : 0;
    return bytes;
}

static double made_by(const struct profile *p, size_t layer)
{
    for (size_t k = 0; k < p->n_flows; k++)
        if (p->flows[k].from == layer)
            return p->flows[k].bytes;
    return 0;
}

static size_t list_split_layers(const struct profile *p, struct split_layer *out)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_layers; i++)
        if (p->layers[i].mixes)
            out[n++] = (struct split_layer){read_by(p, i), made_by(p, i)};
    return n;
}

/* The shortest way through the layers, the last first: each alone, by outputs; or with the next, by outputs and by inputs. */
static fault split_messages(const struct cut_needs *n, size_t q, struct arena *arena, double *out)
{
    struct split_layer *at = ARENA_NEW(arena, struct split_layer, n->profile->n_layers + 1);
    double *rest = ARENA_NEW(arena, double, n->profile->n_layers + 2);
    if (!at || !rest)
        return OUT_OF_MEMORY;
    size_t n_layers = list_split_layers(n->profile, at);
    for (size_t i = n_layers; i-- > 0;) {
        double back = at[i].in_bytes > 0 ? sum_s(n, at[i].in_bytes, q) : 0;
        double gathered = i + 1 < n_layers ? at[i + 1].in_bytes : at[i].out_bytes;
        rest[i] = back + gather_s(n, gathered, q) + rest[i + 1];
        if (i + 1 < n_layers)
            rest[i] = fmin(rest[i], back + sum_s(n, at[i + 1].out_bytes, q) + rest[i + 2]);
    }
    *out = rest[0];
    return OK;
}

static fault add_tensor(struct listing *l, size_t n_teams, size_t size)
{
    const struct cut_needs *n = l->needs;
    struct cut_machine *machines = positions(l, n_teams, size);
    struct rival r = {.way = WAY_TENSOR, .n_teams = n_teams, .size = size};
    double speeds = 0, fastest = 0, messages, micros = (double)micros_of_team(l, n_teams);
    if (!machines)
        return OUT_OF_MEMORY;
    TRY(split_messages(n, size, l->arena, &messages));
    for (size_t s = 0; s < size; s++) {
        speeds += machines[s].speed;
        fastest = fmax(fastest, machines[s].speed);
    }
    for (size_t s = 0; s < size && !r.obstacle; s++)
        r.obstacle = memory_obstacle(l, &machines[s], whole_memory(l, machines[s].speed / speeds));
    r.memory_bytes = whole_memory(l, fastest / speeds);
    r.compute_s = micros * l->all_s / speeds;
    r.messages_s = micros * messages + (n_teams > 1 ? sum_s(n, l->all_parameters * fastest / speeds, n_teams) : 0);
    r.round_s = r.compute_s + r.messages_s;
    return add(l, r);
}

/* ---- all of them ---- */

static fault add_teams(struct listing *l, size_t n_teams, size_t size)
{
    for (size_t k = 0; schedule_rows[k]; k++)
        TRY(add_pipeline(l, schedule_rows[k], n_teams, size));
    return add_tensor(l, n_teams, size);
}

static fault add_all(struct listing *l)
{
    size_t p = l->needs->n_machines;
    TRY(add_one(l));
    if (p == 1)
        return OK;
    TRY(add_data(l));
    for (size_t n_teams = 1; n_teams < p; n_teams++)
        if (p % n_teams == 0)
            TRY(add_teams(l, n_teams, p / n_teams));
    return OK;
}

static int better_first(const void *a, const void *b)
{
    const struct rival *x = a, *y = b;
    if (!x->obstacle != !y->obstacle)
        return x->obstacle ? 1 : -1;
    if (x->obstacle)
        return strcmp(x->name, y->name);
    if (x->round_s != y->round_s)
        return x->round_s > y->round_s ? 1 : -1;
    return x->memory_bytes != y->memory_bytes ? (x->memory_bytes > y->memory_bytes ? 1 : -1) : strcmp(x->name, y->name);
}

static fault keep(struct arena *arena, struct rivals *r)
{
    struct rival *at = ARENA_NEW(arena, struct rival, r->n);
    if (!at)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < r->n; i++)
        at[i] = r->at[i];
    free(r->at);
    r->at = at;
    return OK;
}

fault rivals_list(const struct cut_needs *needs, struct arena *arena, struct rivals *out)
{
    struct rivals all = {0};
    struct listing l = {.needs = needs, .arena = arena, .out = &all};
    for (size_t i = 0; i < needs->profile->n_layers; i++) {
        const struct profile_layer *layer = &needs->profile->layers[i];
        l.all_s += profile_layer_s(layer);
        l.all_parameters += layer->parameter_bytes;
        l.all_kept += layer->kept_bytes;
    }
    fault f = add_all(&l);
    if (!f)
        f = keep(arena, &all);
    if (f) {
        free(all.at);
        return f;
    }
    qsort(all.at, all.n, sizeof *all.at, better_first);
    *out = all;
    return OK;
}

const struct rival *rivals_fastest(const struct rivals *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (!r->at[i].obstacle && !r->at[i].is_delayed)
            return &r->at[i];
    return NULL;
}

/* ---- why ---- */

/* What a round of it goes by with. */
static void say_rest(FILE *to, const struct rival *r)
{
    double waiting = r->round_s - r->compute_s - r->messages_s;
    fprintf(to, "%.6g ms: %.6g ms of computing", r->round_s * 1e3, r->compute_s * 1e3);
    if (r->messages_s > 0)
        fprintf(to, ", %.6g ms of %s", r->messages_s * 1e3,
                r->way == WAY_TENSOR ? "sums and gathers inside its layers" : "adding up gradients");
    if (waiting > 1e-9 * r->round_s)
        fprintf(to, ", %.6g ms in which the machine that computes longest waits", waiting * 1e3);
}

static const struct rival *best_of(const struct rivals *r, enum way way, bool in_teams)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct rival *it = &r->at[i];
        if (it->way == way && (it->n_teams > 1 && it->size > 1) == in_teams && !it->is_delayed && !it->obstacle)
            return it;
    }
    return NULL;
}

static void say_verdict(FILE *to, const struct rivals *r, size_t n_micros)
{
    const struct rival *fastest = rivals_fastest(r);
    if (!fastest) {
        fputs("Nothing fits in memory.\n", to);
        return;
    }
    fprintf(to, "Fastest: %s. A round of %zu micro-batch%s takes ", fastest->name, n_micros, n_micros == 1 ? "" : "es");
    say_rest(to, fastest);
    fputs(".\n", to);
    for (int in_teams = 0; in_teams < 2; in_teams++)
        for (enum way way = WAY_ONE; way < N_WAYS; way++) {
            const struct rival *other = best_of(r, way, in_teams);
            if (!other || other == fastest)
                continue;
            fprintf(to, "  %s: ", other->name);
            say_rest(to, other);
            fputs(".\n", to);
        }
}

fault rivals_verdict(const struct rivals *r, size_t n_micros, struct arena *arena, const char **out)
{
    struct page page;
    char *text;
    TRY(page_open(&page));
    say_verdict(page.out, r, n_micros);
    TRY(page_close(&page, OK, &text));
    *out = arena_text(arena, text);
    free(text);
    return *out ? OK : OUT_OF_MEMORY;
}
