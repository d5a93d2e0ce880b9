/* advice.c - what would make a plan better: one line for each thing that holds it up. */
#include <math.h>
#include <stdlib.h>

#include "base/page.h"
#include "team/plan.h"

static const double WORTH_IT = 0.99;      /* of the bottleneck: less is worth a word */
static const double IDLE_SHARE = 0.15;    /* of the machines' time: more is worth one */
enum { MOST_TRIED = 16, WANTED_SHARE = 10 /* percent idle */ };

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
    if (least > WORTH_IT * c->plan->bottleneck_s)
        return OK;
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

/* With stages of equal length (p - 1) / (m + p - 1) of the time is idle. */
static void advise_micros(struct counsel *c)
{
    size_t p = c->plan->n_stages, m = c->plan->schedule->n_micros;
    size_t wanted = (p - 1) * (100 - WANTED_SHARE) / WANTED_SHARE;
    double busy = 0, longest = c->plan->bottleneck_s;
    for (size_t g = 0; g < p; g++)
        busy += c->plan->stages[g].compute_s;
    double uneven = 1 - busy / (longest * (double)p); /* idle however many there are */
    if (!c->plan->schedule->flushes || m >= wanted || c->plan->timeline.bubble - uneven < IDLE_SHARE)
        return;
    fprintf(c->to, "Machines fill and drain for %.3g %% of the round: with about %zu micro-batches in place of %zu it is %d %%.\n",
            100 * (c->plan->timeline.bubble - uneven), wanted, m, WANTED_SHARE);
    c->said = true;
}

static fault advise(struct counsel *c)
{
    TRY(advise_fewer(c));
    TRY(advise_order(c));
    advise_bottleneck(c);
    advise_micros(c);
    if (!c->said)
        fputs("Nothing stands out: work is spread evenly, and the machines are busy.\n", c->to);
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
