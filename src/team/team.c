/* team.c - see team.h: from the settings to parts, and to what each machine has. */
#include "team/team.h"

#include <stdlib.h>

#include "base/text.h"
#include "team/inside.h"
#include "team/parts.h"
#include "team/plan.h"

/* ---- what can be wrong ---- */

static bool is_cut_word(const struct texts *cut)
{
    return cut->n == 1 && (text_is(cut->at[0], "auto") || text_is(cut->at[0], "even"));
}

static fault check_cut(const struct experiment *e, const struct pipeline *p)
{
    long long parts = (long long)(p->size * p->chunks);
    if (is_cut_word(&p->cut) || (long long)p->cut.n == parts - 1)
        return OK;
    return fail_at(e->team.place,
                   "team.cut: %lld parts begin at the first layer and at %lld others, and %zu %s named; or write auto, or even", parts,
                   parts - 1, p->cut.n, p->cut.n == 1 ? "is" : "are");
}

fault team_check(const struct experiment *e)
{
    const struct pipeline *p = team_pipeline(e);
    struct arena arena = {0};
    struct schedule s;
    if (!p)
        return OK;
    if (p->microbatches > e->data.batch)
        return fail_at(e->team.place, "team.microbatches: a batch of %lld sample%s cannot be cut into %lld (data.batch)",
                       (long long)e->data.batch, e->data.batch == 1 ? "" : "s", (long long)p->microbatches);
    if (e->train.accumulate > 1)
        return fail_at(e->team.place,
                       "team.microbatches: this cuts the batch, and train.accumulate would do so again; leave that out");
    TRY(check_cut(e, p));
    fault f = team_schedule(e, &arena, &s);
    arena_release(&arena);
    return f;
}

/* ---- what each machine has ---- */

/* Which of a whole graph's ops owns each of its parameters, or statistics. */
static void find_owners(const struct graph *g, bool stats, size_t *owner)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        int mine[2] = {stats ? op->mean : op->weight, stats ? op->var : op->bias};
        for (size_t k = 0; k < 2; k++)
            if (mine[k] >= 0)
                owner[mine[k]] = i;
    }
}

size_t team_parts(const struct team *t)
{
    return t->n_parts;
}

size_t team_part_of(const struct team *t, size_t op)
{
    size_t part = t->n_parts;
    while (t->first[--part] > op)
        ;
    return part;
}

/* The stretches of a flat row that belong to the machines, each as few as can be. */
static fault share_out(struct team *t, const struct graph *g, bool stats, struct holding *of)
{
    const struct param *params = stats ? g->stats : g->params;
    size_t n = stats ? g->n_stats : g->n_params;
    size_t *owner = ARENA_NEW(&t->arena, size_t, n + 1);
    if (!owner)
        return OUT_OF_MEMORY;
    find_owners(g, stats, owner);
    for (size_t i = 0; i < t->size; i++)
        if (!(of[i].at = ARENA_NEW(&t->arena, struct own_floats, n + 1)))
            return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        struct holding *h = &of[team_part_of(t, owner[i]) % t->size];
        size_t first = params[i].offset, end = first + params[i].size;
        if (h->n && h->at[h->n - 1].end == first)
            h->at[h->n - 1].end = end;
        else
            h->at[h->n++] = (struct own_floats){first, end};
    }
    return OK;
}

static size_t floats_within(const struct holding *h, size_t first, size_t end)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n; i++) {
        size_t from = larger(first, h->at[i].first), to = smaller(end, h->at[i].end);
        n += to > from ? to - from : 0;
    }
    return n;
}

size_t team_floats(const struct team *t, size_t i, const struct row_entry *row, size_t first, size_t end)
{
    size_t last = smaller(end, row->size);
    if (t && row->like != LIKE_NOTHING)
        return floats_within(row->like == LIKE_STATS ? &t->stats[i] : &t->params[i], first, last);
    return i == 0 && last > first ? last - first : 0;
}

size_t team_size(const struct team *t)
{
    return t ? t->size : 1;
}

/* ---- the work ---- */

/* The op after the last of a part. */
static size_t end_of(const struct team *t, size_t part, const struct graph *g)
{
    return part + 1 < t->n_parts ? t->first[part + 1] : g->n_ops;
}

/* What the parts have of a lesson's work; one without any, as a mean over pixels, takes no time. */
static void share_work(struct team *t, const struct graph *g)
{
    for (size_t p = 0; p < t->n_parts; p++)
        for (size_t i = t->first[p]; i < end_of(t, p, g) && g->flops_learn > 0; i++) {
            struct op_work w = graph_op_work(g, &g->ops[i]);
            t->work[p].forward += w.forward / g->flops_learn;
            t->work[p].inputs += w.inputs / g->flops_learn;
            t->work[p].weights += w.weights / g->flops_learn;
        }
}

static bool part_reads(const struct team *t, const struct graph *g, size_t part, int tensor)
{
    for (size_t i = t->first[part]; i < end_of(t, part, g); i++)
        if (g->ops[i].in[0] == tensor || g->ops[i].in[1] == tensor)
            return true;
    return false;
}

/* What goes from part to part: each tensor once to each part that reads it. */
static fault find_transfers(struct team *t, const struct graph *g)
{
    t->transfers = ARENA_NEW(&t->arena, struct transfer, g->n_tensors * t->n_parts + 1);
    if (!t->transfers)
        return OUT_OF_MEMORY;
    for (size_t x = 1; x < g->n_tensors; x++) {
        size_t from = team_part_of(t, (size_t)g->tensors[x].producer);
        for (size_t to = from + 1; to < t->n_parts; to++)
            if (part_reads(t, g, to, (int)x))
                t->transfers[t->n_transfers++] = (struct transfer){.from = from,
                                                                   .to = to,
                                                                   .name = g->ops[g->tensors[x].producer].name,
                                                                   .bytes = shape_size(g->tensors[x].shape) * sizeof(float),
                                                                   .learns = g->tensors[x].learns};
    }
    return OK;
}

/* ---- opening ---- */

/* All teams are cut alike: a place in them is as fast as the slowest machine that has it. */
static fault find_machines(struct team *t, const struct experiment *e, const double *speeds, bool alike, struct cut_machine **out)
{
    struct cut_machine *of = *out = ARENA_NEW(&t->arena, struct cut_machine, t->size);
    if (!of)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < t->size; i++)
        for (size_t a = 0; a < (size_t)e->agents; a++) {
            double speed = alike ? 1 : speeds[a * t->size + i];
            of[i].speed = a && of[i].speed < speed ? of[i].speed : speed;
        }
    return OK;
}

static fault find_best_cut(struct team *t, const struct experiment *e, const struct graph *g, const double *speeds)
{
    bool is_even = text_is(t->settings->cut.at[0], "even");
    size_t n_samples = (t->batch + t->schedule.n_micros - 1) / t->schedule.n_micros;
    double rate = e->machines.rate > 0 ? e->machines.rate : 1; /* of machines that are still to be measured */
    struct profile profile;
    struct cut_machine *machines;
    struct cut_plan plan;
    TRY(find_machines(t, e, speeds, is_even, &machines));
    TRY(profile_of_graph(g, n_samples, &t->arena, &profile));
    profile_share_out(g, (double)n_samples / rate, &profile);
    struct cut_needs needs = {.profile = &profile,
                              .machines = machines,
                              .n_machines = t->size,
                              .bytes_per_s = is_even ? 0 : e->network.within.bytes_per_s,
                              .latency_s = is_even ? 0 : e->network.within.latency_s,
                              .schedule = &t->schedule};
    TRY(cut_best(&needs, &t->arena, &plan));
    for (size_t p = 0; p < t->n_parts; p++)
        t->first[p] = plan.parts[p].first;
    return OK;
}

static fault find_parts(struct team *t, const struct experiment *e, const struct graph *g, const double *speeds)
{
    const struct pipeline *p = t->settings;
    if (t->n_parts > g->n_ops)
        return fail_at(e->team.place, "team.size: a network of %zu layers cannot be cut into %zu parts", g->n_ops, t->n_parts);
    return is_cut_word(&p->cut) ? find_best_cut(t, e, g, speeds) : parts_by_name(g, &p->cut, e->team.place, t->n_parts, t->first);
}

static fault open_parts(struct team *t, const struct experiment *e, const struct graph *g, const double *speeds)
{
    t->first = ARENA_NEW(&t->arena, size_t, t->n_parts);
    t->work = ARENA_NEW(&t->arena, struct op_work, t->n_parts);
    t->params = ARENA_NEW(&t->arena, struct holding, t->size);
    t->stats = ARENA_NEW(&t->arena, struct holding, t->size);
    if (!t->first || !t->work || !t->params || !t->stats)
        return OUT_OF_MEMORY;
    TRY(find_parts(t, e, g, speeds));
    TRY(share_out(t, g, false, t->params));
    TRY(share_out(t, g, true, t->stats));
    share_work(t, g);
    return find_transfers(t, g);
}

fault team_open(const struct experiment *e, const struct graph *g, const double *speeds, struct team **out)
{
    const struct pipeline *p = team_pipeline(e);
    *out = NULL;
    if (!p)
        return OK;
    struct team *t = calloc(1, sizeof *t);
    if (!t)
        return OUT_OF_MEMORY;
    t->settings = p;
    t->batch = (size_t)e->data.batch;
    t->size = (size_t)p->size;
    t->n_parts = (size_t)(p->size * p->chunks);
    fault f = team_schedule(e, &t->arena, &t->schedule);
    if (!f)
        f = open_parts(t, e, g, speeds);
    if (!f)
        f = team_open_clock(t);
    if (f) {
        team_close(t);
        return f;
    }
    *out = t;
    return OK;
}

void team_describe(const struct team *t, const struct graph *g, const struct team_lesson *lesson, FILE *to)
{
    size_t m = t->schedule.n_micros;
    fprintf(to, "team: a pipeline of %zu machine%s, schedule %s, %zu micro-batch%s\n", t->size, t->size == 1 ? "" : "s",
            t->schedule.name, m, m == 1 ? "" : "es");
    for (size_t p = 0; p < t->n_parts; p++) {
        const struct op_work *w = &t->work[p];
        fprintf(to, "  part %zu on machine %zu: %s to %s, %.1f %% of the work, at most %zu micro-batch%s under way\n", p, p % t->size,
                g->ops[t->first[p]].name, g->ops[end_of(t, p, g) - 1].name, 100 * (w->forward + w->inputs + w->weights),
                schedule_flights(&t->schedule, p), schedule_flights(&t->schedule, p) == 1 ? "" : "es");
    }
    for (size_t i = 0; i < t->n_transfers; i++)
        fprintf(to, "  %s goes from part %zu to part %zu: %.2f KiB a sample%s\n", t->transfers[i].name, t->transfers[i].from,
                t->transfers[i].to, (double)t->transfers[i].bytes / 1024, t->transfers[i].learns ? ", and its gradient back" : "");
    if (lesson)
        fprintf(to, "  a lesson takes agent 0 %.4g virtual seconds; its machines compute for %.1f %% of them and wait for the others\n",
                lesson->ends_s, 100 * (1 - lesson->bubble));
}

void team_close(struct team *t)
{
    if (!t)
        return;
    arena_release(&t->clock);
    arena_release(&t->arena);
    free(t);
}
