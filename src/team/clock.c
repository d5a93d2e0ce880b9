/* clock.c - how long a lesson takes a team: the time line of its schedule, with what each pass takes each machine. */
#include <string.h>

#include "team/inside.h"

static size_t machine_of(const struct team *t, size_t part)
{
    return schedule_member(&t->schedule, part);
}

/* What a whole batch would take: its micro-batches have their shares of it. */
static void price(struct team *t, const struct team_lesson *lesson)
{
    for (size_t p = 0; p < t->n_parts; p++) {
        const struct op_work *w = &t->work[p];
        double machine_s = lesson->machine_s[machine_of(t, p)];
        t->costs[p] = (struct part_cost){w->forward * machine_s, w->inputs * machine_s, w->weights * machine_s};
    }
}

static size_t n_recomputed(const struct team *t)
{
    size_t n = t->schedule.n_micros;
    const size_t of[] = {[RECOMPUTE_NEVER] = 0, [RECOMPUTE_ALWAYS] = n, [RECOMPUTE_EXCEPT_LAST] = n - 1};
    return of[t->settings->recompute];
}

static bool is_as_before(const struct team *t, const struct team_lesson *lesson)
{
    const struct wire *was = &t->timed_for, *is = &lesson->wire;
    return t->timeline.of && was->latency_s == is->latency_s && was->bytes_per_s == is->bytes_per_s &&
           memcmp(t->timed_s, lesson->machine_s, t->size * sizeof *t->timed_s) == 0;
}

/* Made anew only where a machine takes another time than in the lesson before. */
static fault make_timeline(struct team *t, const struct team_lesson *lesson)
{
    const struct timeline_needs needs = {.schedule = &t->schedule,
                                         .parts = t->costs,
                                         .transfers = t->edges,
                                         .n_transfers = t->n_transfers,
                                         .micro_shares = t->micro_shares,
                                         .n_recomputed = n_recomputed(t),
                                         .latency_s = lesson->wire.latency_s,
                                         .bytes_per_s = lesson->wire.bytes_per_s,
                                         .n_rounds = 1};
    if (is_as_before(t, lesson))
        return OK;
    price(t, lesson);
    arena_release(&t->clock);
    t->timeline = (struct timeline){0};
    TRY(timeline_make(&needs, &t->clock, &t->timeline));
    memcpy(t->timed_s, lesson->machine_s, t->size * sizeof *t->timed_s);
    t->timed_for = lesson->wire;
    return OK;
}

/* A machine's gradients are final after the last pass that makes some. */
static double done_s(const struct team *t, size_t machine)
{
    const struct actions *list = &t->timeline.actions[machine];
    double at_s = 0;
    for (size_t k = 0; k < list->n; k++)
        at_s = list->at[k].kind == ACTION_FORWARD ? at_s : t->timeline.of[machine][k].end_s;
    return at_s;
}

/* Values go one way, and gradients of what is learnt come back, for every micro-batch. */
static void count_messages(const struct team *t, struct team_lesson *lesson)
{
    lesson->bytes = lesson->messages = 0;
    for (size_t i = 0; i < t->n_transfers; i++) {
        const struct transfer *x = &t->transfers[i];
        size_t ways = machine_of(t, x->from) == machine_of(t, x->to) ? 0 : 1 + x->learns;
        lesson->bytes += ways * t->batch * x->bytes;
        lesson->messages += ways * t->schedule.n_micros;
    }
}

fault team_time(struct team *t, struct team_lesson *lesson)
{
    TRY(make_timeline(t, lesson));
    lesson->ends_s = t->timeline.end_s;
    lesson->bubble = t->timeline.bubble;
    for (size_t i = 0; i < t->size; i++)
        lesson->done_s[i] = done_s(t, i);
    count_messages(t, lesson);
    return OK;
}

fault team_draw(struct team *t, struct team_lesson *lesson, FILE *to)
{
    TRY(team_time(t, lesson));
    return timeline_draw(&t->schedule, &t->timeline, t->schedule.name, to);
}

fault team_open_clock(struct team *t)
{
    size_t n = t->schedule.n_micros;
    t->costs = ARENA_NEW(&t->arena, struct part_cost, t->n_parts);
    t->edges = ARENA_NEW(&t->arena, struct transfer_cost, t->n_transfers + 1);
    t->micro_shares = ARENA_NEW(&t->arena, double, n);
    t->timed_s = ARENA_NEW(&t->arena, double, t->size);
    if (!t->costs || !t->edges || !t->micro_shares || !t->timed_s)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        t->micro_shares[i] = (double)(t->batch / n + (i < t->batch % n)) / (double)t->batch;
    for (size_t i = 0; i < t->n_transfers; i++)
        t->edges[i] = (struct transfer_cost){t->transfers[i].from, t->transfers[i].to, (double)(t->transfers[i].bytes * t->batch)};
    return OK;
}
