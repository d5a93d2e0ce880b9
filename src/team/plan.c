/* plan.c - see plan.h: the programme over layers and sets of machines, and what its plan costs.
 *
 *   types of machines -> states (so many of each used) -> A[state][j] -> order and begins -> stages -> time line
 *
 * In the order given there is one type: its count says whose turn it is.
 */
#include "team/plan.h"

#include <math.h>
#include <stdlib.h>

static const double ALIKE = 1 + 1e-12; /* differences below are none */
static const double MOST_STEPS = 1e9;  /* of the programme: seconds */
static const double MOST_CELLS = 2e7;  /* of A: half a gigabyte */

/* ---- what a part costs ---- */

struct sums { /* over the layers before each: [n_layers + 1] */
    double *seconds, *parameters, *kept;
};

struct cutting {
    const struct cut_needs *needs;
    const struct profile *profile;
    size_t n_layers, n_parts, chunks;
    struct sums sums;
    double *copies, *flights; /* [n_parts]: of a part's parameters, and micro-batches of it under way */
    struct arena arena;       /* owned */

    /* types and states */
    size_t n_types;
    size_t *type_of; /* per machine */
    size_t *count;   /* machines of each type; in the order given: parts */
    size_t *stride;  /* of a type's count in a state's number */
    size_t *one_of;  /* some machine of each type */
    size_t n_states;
    double *best;    /* A: [n_states][n_layers + 1] */
    size_t *begin;   /* of the last part of the best: likewise */
    size_t *last;    /* its machine's type: likewise */
    bool in_order, by_shortage;
};

static fault add_up(struct cutting *c)
{
    size_t n = c->n_layers + 1;
    c->sums.seconds = ARENA_NEW(&c->arena, double, n);
    c->sums.parameters = ARENA_NEW(&c->arena, double, n);
    c->sums.kept = ARENA_NEW(&c->arena, double, n);
    if (!c->sums.seconds || !c->sums.parameters || !c->sums.kept)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < c->n_layers; i++) {
        const struct profile_layer *l = &c->profile->layers[i];
        c->sums.seconds[i + 1] = c->sums.seconds[i] + profile_layer_s(l);
        c->sums.parameters[i + 1] = c->sums.parameters[i] + l->parameter_bytes;
        c->sums.kept[i + 1] = c->sums.kept[i] + l->kept_bytes;
    }
    return OK;
}

static fault ask_schedule(struct cutting *c)
{
    const struct schedule *s = c->needs->schedule;
    c->copies = ARENA_NEW(&c->arena, double, c->n_parts);
    c->flights = ARENA_NEW(&c->arena, double, c->n_parts);
    if (!c->copies || !c->flights)
        return OUT_OF_MEMORY;
    for (size_t k = 0; k < c->n_parts; k++) {
        c->copies[k] = (double)schedule_versions(s, schedule_member(s, k)) + 1 + c->needs->slots;
        c->flights[k] = (double)schedule_flights(s, k);
    }
    return OK;
}

static double part_memory(const struct cutting *c, size_t part, size_t i, size_t j)
{
    return (c->sums.parameters[j] - c->sums.parameters[i]) * c->copies[part] +
           (c->profile->edge[i] + c->sums.kept[j] - c->sums.kept[i]) * c->flights[part];
}

static double card_s(const struct cutting *c, size_t i, size_t j)
{
    double bytes = c->profile->edge[i] + c->profile->edge[j];
    return c->needs->bytes_per_s > 0 ? bytes / c->needs->bytes_per_s : 0;
}

static double compute_s(const struct cutting *c, size_t i, size_t j, double speed)
{
    return (c->sums.seconds[j] - c->sums.seconds[i]) / speed;
}

/* By how many bytes a part is too large for a machine. */
static double shortage(const struct cutting *c, size_t part, size_t i, size_t j, const struct cut_machine *m)
{
    double room = m->memory_bytes / (double)c->chunks;
    return m->memory_bytes > 0 ? fmax(part_memory(c, part, i, j) - room, 0) : 0;
}

/* The period of layers i .. j-1 as this part on this machine; INFINITY where they do not fit. */
static double price(const struct cutting *c, size_t part, size_t i, size_t j, const struct cut_machine *m)
{
    if (c->by_shortage)
        return shortage(c, part, i, j, m);
    if (shortage(c, part, i, j, m) > 0)
        return INFINITY;
    return fmax(compute_s(c, i, j, m->speed), card_s(c, i, j));
}

/* ---- types and states ---- */

static bool machines_alike(const struct cut_machine *a, const struct cut_machine *b)
{
    return a->speed == b->speed && a->memory_bytes == b->memory_bytes;
}

static void find_types(struct cutting *c)
{
    const struct cut_needs *n = c->needs;
    for (size_t k = 0; k < n->n_machines; k++) {
        size_t t = 0;
        while (t < c->n_types && !(c->in_order || machines_alike(&n->machines[k], &n->machines[c->one_of[t]])))
            t++;
        if (t == c->n_types) {
            c->one_of[t] = k;
            c->n_types++;
        }
        c->type_of[k] = t;
        c->count[t] += c->in_order ? c->chunks : 1;
    }
}

static fault make_states(struct cutting *c)
{
    size_t n = c->needs->n_machines;
    c->type_of = ARENA_NEW(&c->arena, size_t, n);
    c->count = ARENA_NEW(&c->arena, size_t, n);
    c->stride = ARENA_NEW(&c->arena, size_t, n);
    c->one_of = ARENA_NEW(&c->arena, size_t, n);
    if (!c->type_of || !c->count || !c->stride || !c->one_of)
        return OUT_OF_MEMORY;
    find_types(c);
    double states = 1, layers = (double)c->n_layers;
    for (size_t t = 0; t < c->n_types; t++) {
        c->stride[t] = (size_t)states;
        states *= (double)(c->count[t] + 1);
        if (states * (double)c->n_types * layers * layers / 2 > MOST_STEPS || states * (layers + 1) > MOST_CELLS)
            return FAIL(FAULT_USAGE, "%zu machines%s and %zu layers are too many to look at every cut", n,
                        c->in_order ? "" : " of so many kinds in any order", c->n_layers);
    }
    c->n_states = (size_t)states;
    size_t cells = c->n_states * (c->n_layers + 1);
    c->best = ARENA_NEW(&c->arena, double, cells);
    c->begin = ARENA_NEW(&c->arena, size_t, cells);
    c->last = ARENA_NEW(&c->arena, size_t, cells);
    return c->best && c->begin && c->last ? OK : OUT_OF_MEMORY;
}

static size_t used_of(const struct cutting *c, size_t state, size_t type)
{
    return state / c->stride[type] % (c->count[type] + 1);
}

static size_t parts_of(const struct cutting *c, size_t state)
{
    size_t n = 0;
    for (size_t t = 0; t < c->n_types; t++)
        n += used_of(c, state, t);
    return n;
}

/* Whose turn it is when part `part` goes to this type. */
static const struct cut_machine *machine_of(const struct cutting *c, size_t part, size_t type)
{
    return &c->needs->machines[c->in_order ? part % c->needs->n_machines : c->one_of[type]];
}

/* ---- the programme ---- */

static size_t cell(const struct cutting *c, size_t state, size_t j)
{
    return state * (c->n_layers + 1) + j;
}

/* The best cut of layers 0 .. j-1 over the machines of a state whose last one is of this type. */
static void try_last(struct cutting *c, size_t state, size_t type, size_t part, size_t j)
{
    size_t at = cell(c, state, j), before = state - c->stride[type];
    const struct cut_machine *m = machine_of(c, part, type);
    for (size_t i = j; i-- > part;) {
        if (!c->by_shortage && compute_s(c, i, j, m->speed) > c->best[at] * ALIKE)
            return;
        double cost = fmax(c->best[cell(c, before, i)], price(c, part, i, j, m));
        bool is_same_type = c->last[at] == type;
        if (cost == INFINITY || cost > c->best[at] * ALIKE || (cost * ALIKE >= c->best[at] && !is_same_type))
            continue;
        c->best[at] = fmin(c->best[at], cost);
        c->begin[at] = i;
        c->last[at] = type;
    }
}

static void run_programme(struct cutting *c)
{
    for (size_t state = 0; state < c->n_states; state++) {
        size_t parts = parts_of(c, state);
        for (size_t j = 0; j <= c->n_layers; j++) {
            c->best[cell(c, state, j)] = state == 0 && j == 0 ? 0 : INFINITY;
            c->last[cell(c, state, j)] = c->n_types;
        }
        for (size_t j = parts; parts && j <= c->n_layers; j++)
            for (size_t t = 0; t < c->n_types; t++)
                if (used_of(c, state, t))
                    try_last(c, state, t, parts - 1, j);
    }
}

/* Parts, and the type of each part's machine, from the last to the first. */
static void walk_back(const struct cutting *c, struct cut_part *parts, size_t *types)
{
    size_t state = c->n_states - 1, j = c->n_layers;
    for (size_t part = c->n_parts; part-- > 0;) {
        size_t at = cell(c, state, j), i = c->begin[at];
        parts[part] = (struct cut_part){i, j};
        types[part] = c->last[at];
        state -= c->stride[c->last[at]];
        j = i;
    }
}

/* Machines of a type are taken in the order given. */
static void name_machines(const struct cutting *c, const size_t *types, size_t *order)
{
    for (size_t g = 0; g < c->needs->n_machines; g++) {
        size_t nth = 0, k = 0;
        for (size_t before = 0; before < g; before++)
            nth += types[before] == types[g];
        for (;; k++)
            if (c->type_of[k] == types[g] && nth-- == 0)
                break;
        order[g] = k;
    }
}

static fault cutting_open(const struct cut_needs *needs, bool in_order, bool by_shortage, struct cutting *c)
{
    const struct schedule *s = needs->schedule;
    *c = (struct cutting){.needs = needs,
                          .profile = needs->profile,
                          .n_layers = needs->profile->n_layers,
                          .n_parts = in_order ? s->n_parts : needs->n_machines,
                          .chunks = in_order ? s->n_parts / s->n_members : 1,
                          .in_order = in_order,
                          .by_shortage = by_shortage};
    TRY(add_up(c));
    TRY(ask_schedule(c));
    return make_states(c);
}

struct found {
    double cost;            /* the bottleneck, or what is missing; INFINITY: no cut fits, and the others are not written */
    struct cut_part *parts; /* [n_parts]    */
    size_t *order;          /* [n_machines] */
};

static fault find(struct cutting *c, struct found *out)
{
    size_t *types = ARENA_NEW(&c->arena, size_t, c->n_parts);
    if (!types)
        return OUT_OF_MEMORY;
    run_programme(c);
    out->cost = c->best[cell(c, c->n_states - 1, c->n_layers)];
    if (out->cost == INFINITY)
        return OK;
    walk_back(c, out->parts, types);
    for (size_t g = 0; g < c->needs->n_machines; g++)
        out->order[g] = g;
    if (!c->in_order)
        name_machines(c, types, out->order);
    return OK;
}

static fault cut_once(const struct cut_needs *needs, bool in_order, bool by_shortage, struct arena *arena,
                      struct found *out)
{
    struct cutting c;
    *out = (struct found){.cost = INFINITY,
                          .parts = ARENA_NEW(arena, struct cut_part, needs->schedule->n_parts),
                          .order = ARENA_NEW(arena, size_t, needs->n_machines)};
    if (!out->parts || !out->order)
        return OUT_OF_MEMORY;
    fault f = cutting_open(needs, in_order, by_shortage, &c);
    if (!f)
        f = find(&c, out);
    arena_release(&c.arena);
    return f;
}

/* ---- the order ---- */

/* Parts of the machines in another order than the one given. */
static fault cut_reordered(const struct cut_needs *n, const size_t *order, struct arena *arena, struct found *out)
{
    struct cut_machine *machines = ARENA_NEW(arena, struct cut_machine, n->n_machines);
    if (!machines)
        return OUT_OF_MEMORY;
    for (size_t g = 0; g < n->n_machines; g++)
        machines[g] = n->machines[order[g]];
    struct cut_needs other = *n;
    other.machines = machines;
    TRY(cut_once(&other, true, false, arena, out));
    for (size_t g = 0; g < n->n_machines; g++)
        out->order[g] = order[g];
    return OK;
}

static fault find_order(const struct cut_needs *n, struct arena *arena, struct found *best)
{
    struct found any;
    TRY(cut_once(n, true, false, arena, best));
    if (!n->any_order)
        return OK;
    TRY(cut_once(n, false, false, arena, &any));
    if (n->schedule->n_parts > n->n_machines && any.cost < INFINITY)
        TRY(cut_reordered(n, any.order, arena, &any));
    if (any.cost * ALIKE < best->cost)
        *best = any;
    return OK;
}

/* ---- memory ---- */

/* The part of a cut that most is missing for. */
static fault say_missing(struct cutting *c, const struct found *found)
{
    const struct cut_needs *n = c->needs;
    size_t at = 0;
    double most = 0;
    for (size_t k = 0; k < n->schedule->n_parts; k++) {
        const struct cut_part *p = &found->parts[k];
        double here = shortage(c, k, p->first, p->end, &n->machines[found->order[k % n->n_machines]]);
        at = here > most ? k : at;
        most = fmax(most, here);
    }
    const struct cut_part *p = &found->parts[at];
    size_t machine = found->order[at % n->n_machines];
    double room = n->machines[machine].memory_bytes / (double)c->chunks;
    return FAIL(FAULT_USAGE, "%s: machine %zu would need %.6g MB for %s'%s' to '%s', and has %.6g MB: %.6g MB are missing",
                n->begins ? "this cut does not fit in memory" : "no cut fits in memory; where least is missing", machine,
                (room + most) / 1e6, c->chunks > 1 ? "its part " : "", c->profile->layers[p->first].name,
                c->profile->layers[p->end - 1].name, room / 1e6, most / 1e6);
}

static fault too_large(const struct cut_needs *n, const struct found *found)
{
    struct cutting c;
    fault f = cutting_open(n, true, true, &c);
    if (!f)
        f = say_missing(&c, found);
    arena_release(&c.arena);
    return f;
}

/* ---- the plan ---- */

static fault check_size(const struct cut_needs *n)
{
    size_t parts = n->schedule->n_parts, layers = n->profile->n_layers, each = parts / n->n_machines;
    if (parts <= layers)
        return OK;
    return FAIL(FAULT_USAGE, "%zu machine%s with %zu part%s each need%s at least %zu layers, and there %s %zu", n->n_machines,
                n->n_machines == 1 ? "" : "s", each, each == 1 ? "" : "s", n->n_machines == 1 ? "s" : "", parts,
                layers == 1 ? "is" : "are", layers);
}

static fault find_best(const struct cut_needs *n, struct arena *arena, struct found *out)
{
    TRY(find_order(n, arena, out));
    if (out->cost < INFINITY)
        return OK;
    TRY(cut_once(n, !n->any_order || n->schedule->n_parts > n->n_machines, true, arena, out));
    return too_large(n, out);
}

/* The cut that was asked for. */
static fault take_given(const struct cut_needs *n, struct arena *arena, struct found *out)
{
    size_t parts = n->schedule->n_parts;
    *out = (struct found){.parts = ARENA_NEW(arena, struct cut_part, parts), .order = ARENA_NEW(arena, size_t, n->n_machines)};
    if (!out->parts || !out->order)
        return OUT_OF_MEMORY;
    for (size_t k = 0; k < parts; k++) {
        out->parts[k] = (struct cut_part){k ? n->begins[k - 1] : 0, k + 1 < parts ? n->begins[k] : n->profile->n_layers};
        if (out->parts[k].first >= out->parts[k].end)
            return FAIL(FAULT_USAGE, "a cut names the first layers of the parts in the order of the network, and '%s' is not "
                                     "behind what is before it",
                        n->profile->layers[k ? out->parts[k].first : out->parts[k].end].name);
    }
    for (size_t g = 0; g < n->n_machines; g++)
        out->order[g] = g;
    return OK;
}

static void describe_part(const struct cutting *c, size_t k, const struct cut_part *p, struct cut_stage *s)
{
    s->compute_s += compute_s(c, p->first, p->end, s->speed);
    s->card_s += card_s(c, p->first, p->end);
    s->parameter_bytes += c->sums.parameters[p->end] - c->sums.parameters[p->first];
    s->memory_bytes += part_memory(c, k, p->first, p->end);
}

static double lower_bound(const struct cutting *c)
{
    double speeds = 0, fastest = 0, longest = 0;
    for (size_t k = 0; k < c->needs->n_machines; k++) {
        speeds += c->needs->machines[k].speed;
        fastest = fmax(fastest, c->needs->machines[k].speed);
    }
    for (size_t i = 0; i < c->n_layers; i++)
        longest = fmax(longest, profile_layer_s(&c->profile->layers[i]));
    return fmax(c->sums.seconds[c->n_layers] / speeds, longest / fastest);
}

static void describe_stages(const struct cutting *c, const struct found *found, struct cut_plan *p)
{
    const struct cut_needs *n = c->needs;
    for (size_t g = 0; g < p->n_stages; g++)
        p->stages[g] = (struct cut_stage){.machine = found->order[g],
                                          .speed = n->machines[found->order[g]].speed,
                                          .in_flight = schedule_in_flight(n->schedule, g),
                                          .versions = schedule_versions(n->schedule, g)};
    for (size_t k = 0; k < p->n_parts; k++)
        describe_part(c, k, &p->parts[k], &p->stages[k % p->n_stages]);
    for (size_t g = 0; g < p->n_stages; g++)
        if (cut_period_s(&p->stages[g]) > cut_period_s(&p->stages[p->slowest]))
            p->slowest = g;
    p->bottleneck_s = cut_period_s(&p->stages[p->slowest]);
    p->lower_bound_s = lower_bound(c);
}

static size_t part_of_layer(const struct cut_plan *p, size_t layer)
{
    size_t k = 0;
    while (layer >= p->parts[k].end)
        k++;
    return k;
}

/* What crosses: a tensor once for each part that reads it, straight there. */
static size_t list_transfers(const struct cut_plan *p, struct transfer_cost *out)
{
    size_t n = 0;
    const struct profile_flow *f = p->profile->flows;
    for (size_t k = 0; k < p->profile->n_flows; k++) {
        size_t from = part_of_layer(p, f[k].from), to = part_of_layer(p, f[k].to);
        bool again = k && f[k - 1].from == f[k].from && part_of_layer(p, f[k - 1].to) == to;
        if (from != to && !again)
            out[n++] = (struct transfer_cost){from, to, f[k].bytes};
    }
    return n;
}

static struct part_cost price_part(const struct cut_plan *p, size_t k)
{
    struct part_cost cost = {0};
    double speed = p->stages[k % p->n_stages].speed;
    for (size_t i = p->parts[k].first; i < p->parts[k].end; i++) {
        cost.forward_s += p->profile->layers[i].forward_s / speed;
        cost.inputs_s += p->profile->layers[i].inputs_s / speed;
        cost.weights_s += p->profile->layers[i].weights_s / speed;
    }
    return cost;
}

enum { ROUNDS_OF_ENDLESS = 10 }; /* of a schedule that does not flush, so that its start counts for little */

static fault draw_timeline(const struct cut_needs *n, struct arena *arena, struct cut_plan *p)
{
    struct part_cost *parts = ARENA_NEW(arena, struct part_cost, p->n_parts);
    struct transfer_cost *transfers = ARENA_NEW(arena, struct transfer_cost, p->profile->n_flows + 1);
    if (!parts || !transfers)
        return OUT_OF_MEMORY;
    for (size_t k = 0; k < p->n_parts; k++)
        parts[k] = price_part(p, k);
    struct timeline_needs needs = {.schedule = n->schedule,
                                   .parts = parts,
                                   .transfers = transfers,
                                   .n_transfers = list_transfers(p, transfers),
                                   .micro_shares = n->micro_shares,
                                   .n_recomputed = n->n_recomputed,
                                   .latency_s = n->latency_s,
                                   .bytes_per_s = n->bytes_per_s,
                                   .n_rounds = n->schedule->flushes ? 1 : ROUNDS_OF_ENDLESS};
    return timeline_make(&needs, arena, &p->timeline);
}

static fault describe(const struct cut_needs *n, const struct found *found, struct arena *arena, struct cut_plan *p)
{
    struct cutting c;
    *p = (struct cut_plan){.profile = n->profile,
                           .schedule = n->schedule,
                           .parts = found->parts,
                           .n_parts = n->schedule->n_parts,
                           .stages = ARENA_NEW(arena, struct cut_stage, n->n_machines),
                           .n_stages = n->n_machines};
    if (!p->stages)
        return OUT_OF_MEMORY;
    fault f = cutting_open(n, true, false, &c);
    if (!f)
        describe_stages(&c, found, p);
    arena_release(&c.arena);
    return f ? f : draw_timeline(n, arena, p);
}

static bool fits(const struct cut_needs *n, const struct cut_plan *p)
{
    for (size_t g = 0; g < p->n_stages; g++) {
        double room = n->machines[p->stages[g].machine].memory_bytes;
        if (room > 0 && p->stages[g].memory_bytes > room * ALIKE)
            return false;
    }
    return true;
}

fault cut_best(const struct cut_needs *needs, struct arena *arena, struct cut_plan *out)
{
    struct found found;
    struct cut_plan plan;
    TRY(check_size(needs));
    TRY((needs->begins ? take_given : find_best)(needs, arena, &found));
    TRY(describe(needs, &found, arena, &plan));
    if (!fits(needs, &plan))
        return too_large(needs, &found);
    *out = plan;
    return OK;
}

fault cut_bottleneck(const struct cut_needs *needs, double *out)
{
    struct arena arena = {0};
    struct found found = {.cost = INFINITY};
    fault f = check_size(needs);
    if (!f)
        f = find_order(needs, &arena, &found);
    if (!f)
        *out = found.cost;
    arena_release(&arena);
    return f;
}
