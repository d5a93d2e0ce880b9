/* advice.c - what would make a plan better: one line for each thing that holds it up. */
#include <math.h>
#include <stdlib.h>

#include "base/page.h"
#include "team/plan.h"

static const double WORTH_IT = 0.99;   /* of the bottleneck: less is worth a word */
static const double ALIKE = 1 + 1e-12; /* differences below are none */
static const double IDLE_SHARE = 0.1;  /* of the machines' time: more is worth one */
enum { MOST_TRIED = 16, TIMES_MORE = 4, MOST_MICROS = 4096 };

struct counsel {
    const struct cut_needs *needs;
    const struct cut_plan *plan;
    struct arena *arena;
    FILE *to;
    bool said;
};

/* The bottleneck without one of the machines. */
static fault try_without(struct counsel *c, size_t left_out, double *out)
{
    size_t n = c->needs->n_machines - 1, k = 0;
    struct cut_needs fewer = *c->needs;
    struct schedule schedule;
    struct schedule_needs asked = {.n_members = n, .chunks = 1, .n_micros = c->plan->schedule->n_micros};
    struct cut_machine *machines = ARENA_NEW(c->arena, struct cut_machine, n);
    if (!machines)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i <= n; i++)
        if (i != left_out)
            machines[k++] = c->needs->machines[i];
    TRY(schedule_kind_named(c->plan->schedule->name)->write(&asked, c->arena, &schedule));
    fewer.machines = machines;
    fewer.n_machines = n;
    fewer.schedule = &schedule;
    return cut_bottleneck(&fewer, out);
}

static bool can_try(const struct counsel *c)
{
    return c->plan->n_parts == c->plan->n_stages && c->plan->n_stages <= MOST_TRIED && !c->needs->begins &&
           schedule_kind_named(c->plan->schedule->name);
}

static fault advise_fewer(struct counsel *c)
{
    size_t best = 0;
    double least = INFINITY;
    for (size_t i = 0; can_try(c) && c->needs->n_machines > 1 && i < c->needs->n_machines; i++) {
        double seconds;
        TRY(try_without(c, i, &seconds));
        if (seconds < least) {
            least = seconds;
            best = i;
        }
    }
    if (least > c->plan->bottleneck_s * ALIKE)
        return OK;
    if (least > WORTH_IT * c->plan->bottleneck_s)
        fprintf(c->to, "Machine %zu (speed %.6g) is of no use: without it the bottleneck is as short.\n", best,
                c->needs->machines[best].speed);
    else
        fprintf(c->to, "Machine %zu (speed %.6g) is worse than none: without it the bottleneck is %.6g ms.\n", best,
                c->needs->machines[best].speed, least * 1e3);
    c->said = true;
    return OK;
}

static fault advise_order(struct counsel *c)
{
    struct cut_needs any = *c->needs;
    double seconds = INFINITY;
    any.any_order = true;
    if (!can_try(c) || c->needs->any_order)
        return OK;
    TRY(cut_bottleneck(&any, &seconds));
    if (seconds > WORTH_IT * c->plan->bottleneck_s)
        return OK;
    fprintf(c->to, "In another order these machines have a bottleneck of %.6g ms: take --any-order.\n", seconds * 1e3);
    c->said = true;
    return OK;
}

/* Cuts lie where little crosses, not where work is even. */
static fault advise_network(struct counsel *c)
{
    struct cut_needs free_links = *c->needs;
    double seconds = INFINITY;
    free_links.bytes_per_s = 0;
    if (c->needs->bytes_per_s > 0 && can_try(c))
        TRY(cut_bottleneck(&free_links, &seconds));
    if (seconds > WORTH_IT * c->plan->bottleneck_s)
        return OK;
    fprintf(c->to, "The network decides where the cuts are: with free links the bottleneck is %.6g ms.\n", seconds * 1e3);
    c->said = true;
    return OK;
}

static void advise_bottleneck(struct counsel *c)
{
    const struct cut_stage *s = &c->plan->stages[c->plan->slowest];
    const struct cut_part *part = &c->plan->parts[c->plan->slowest];
    bool alone = c->plan->n_parts == c->plan->n_stages && part->end == part->first + 1;
    if (s->card_s > s->compute_s)
        fprintf(c->to,
                "The network holds machine %zu up: its card is busy for %.6g ms and its processor for %.6g ms of a "
                "micro-batch. A bandwidth of %.6g MB/s would even that out.\n",
                s->machine, s->card_s * 1e3, s->compute_s * 1e3, c->needs->bytes_per_s / 1e6 * s->card_s / s->compute_s);
    else if (alone && c->plan->bottleneck_s * WORTH_IT > c->plan->lower_bound_s)
        fprintf(c->to, "Layer '%s' is all that machine %zu computes, and still the bottleneck: give it to a faster machine.\n",
                c->plan->profile->layers[part->first].name, s->machine);
    else if (alone)
        fprintf(c->to, "Layer '%s' alone is the bottleneck, and no cut goes through a layer.\n",
                c->plan->profile->layers[part->first].name);
    else
        return;
    c->said = true;
}

/* The same machines with another schedule of the same kind. */
static fault try_schedule(struct counsel *c, const struct schedule_needs *asked, struct cut_plan *out)
{
    struct cut_needs other = *c->needs;
    struct schedule *schedule = ARENA_NEW(c->arena, struct schedule, 1);
    if (!schedule)
        return OUT_OF_MEMORY;
    TRY(schedule_kind_named(c->plan->schedule->name)->write(asked, c->arena, schedule));
    other.schedule = schedule;
    if (schedule->n_micros != c->plan->schedule->n_micros)
        other.micro_shares = NULL;
    return cut_best(&other, c->arena, out);
}

/* One that does not fit is no advice. */
static fault try_or_pass(struct counsel *c, const struct schedule_needs *asked, struct cut_plan *out, bool *fits)
{
    fault f = try_schedule(c, asked, out);
    *fits = !f;
    if (!f || fault_kind_of(f) != FAULT_USAGE)
        return f;
    fault_drop(f);
    return OK;
}

static struct schedule_needs needs_of(const struct counsel *c)
{
    const struct schedule *s = c->plan->schedule;
    return (struct schedule_needs){.n_members = s->n_members, .chunks = s->n_parts / s->n_members, .n_micros = s->n_micros};
}

/* Where messages take long or stages are uneven, more micro-batches under way keep the machines busy meanwhile. */
static fault advise_warmup(struct counsel *c)
{
    struct schedule_needs asked = needs_of(c);
    struct cut_plan other;
    bool fits;
    asked.warmup = 2 * asked.n_members - 1;
    if (!can_try(c) || !schedule_kind_named(c->plan->schedule->name)->has_warmup)
        return OK;
    TRY(try_or_pass(c, &asked, &other, &fits));
    if (!fits || other.timeline.round_s > WORTH_IT * c->plan->timeline.round_s)
        return OK;
    fprintf(c->to, "A deeper warm-up keeps these machines busier: with --warmup %zu a round takes %.6g ms, and machine %zu needs %.6g MB.\n",
            asked.warmup, other.timeline.round_s * 1e3, other.stages[0].machine, other.stages[0].memory_bytes / 1e6);
    c->said = true;
    return OK;
}

static fault advise_micros(struct counsel *c)
{
    struct schedule_needs asked = needs_of(c);
    struct cut_plan other;
    bool fits;
    asked.n_micros *= TIMES_MORE;
    if (!can_try(c) || !c->plan->schedule->flushes || asked.n_members == 1 || asked.n_micros > MOST_MICROS)
        return OK;
    TRY(try_or_pass(c, &asked, &other, &fits));
    if (!fits || c->plan->timeline.bubble - other.timeline.bubble < IDLE_SHARE)
        return OK;
    fprintf(c->to,
            "Machines are idle for %.3g %% of the round: with %zu such micro-batches in place of %zu it is %.3g %%.\n",
            100 * c->plan->timeline.bubble, asked.n_micros, c->plan->schedule->n_micros, 100 * other.timeline.bubble);
    c->said = true;
    return OK;
}

static fault advise(struct counsel *c)
{
    TRY(advise_fewer(c));
    TRY(advise_order(c));
    TRY(advise_network(c));
    advise_bottleneck(c);
    TRY(advise_warmup(c));
    TRY(advise_micros(c));
    if (!c->said)
        fprintf(c->to, "Nothing stands out: the bottleneck is %.3g times the least there can be.\n",
                c->plan->bottleneck_s / c->plan->lower_bound_s);
    return OK;
}

fault cut_advice(const struct cut_needs *needs, const struct cut_plan *plan, struct arena *arena, const char **out)
{
    struct page page;
    char *text;
    TRY(page_open(&page));
    struct counsel c = {.needs = needs, .plan = plan, .arena = arena, .to = page.out};
    TRY(page_close(&page, advise(&c), &text));
    *out = arena_text(arena, text);
    free(text);
    return *out ? OK : OUT_OF_MEMORY;
}
