/* world.c - the local world as those who run an experiment see it. */
#include "world/local/inside.h"

static struct local *local_of(struct world *w)
{
    return (struct local *)w;
}

static const struct local *local_in(const struct world *w)
{
    return (const struct local *)w;
}

static struct engine *engine_of(struct world *w)
{
    return local_of(w)->engine;
}

static void close_world(struct world *w)
{
    local_close(local_of(w));
}

static fault play(struct world *w)
{
    return local_play(local_of(w));
}

static fault restore(struct world *w, uint64_t steps)
{
    return local_replay(local_of(w), steps);
}

static bool leads(const struct world *w)
{
    (void)w;
    return true;
}

static double now_s(const struct world *w)
{
    return local_now_s(local_in(w));
}

static uint64_t steps(const struct world *w)
{
    return local_steps(local_in(w));
}

static struct totals totals(const struct world *w)
{
    return local_in(w)->totals;
}

static bool is_replaying(const struct world *w)
{
    return local_is_replaying(local_in(w));
}

static bool is_alive(const struct world *w, size_t member)
{
    return local_is_alive(local_in(w), member);
}

static struct link_counts counts(const struct world *w, size_t member)
{
    return local_counts(local_in(w), member);
}

static const struct waits *waits(const struct world *w)
{
    return local_waits(local_in(w));
}

static struct engine_times times(const struct world *w)
{
    struct tape_times t = local_times(local_in(w));
    return (struct engine_times){t.learn_s, t.update_s, t.mix_s};
}

static fault settle(struct world *w)
{
    return local_settle(local_of(w));
}

static fault examine(struct world *w, struct exam *exams, size_t n)
{
    return engine_of(w)->ops->examine(engine_of(w), exams, n);
}

static fault read_row(struct world *w, enum row row, size_t at, float *floats)
{
    return engine_of(w)->ops->read(engine_of(w), row, at, floats);
}

static fault write_row(struct world *w, enum row row, size_t at, const float *floats)
{
    return engine_of(w)->ops->write(engine_of(w), row, at, floats);
}

static fault blend(struct world *w, enum row row, const struct addend *addends, size_t n)
{
    struct blend b = {row, world_model_row(local_of(w)->stage), NO_ROW, 0, TO_END, addends, n};
    return engine_of(w)->ops->mix(engine_of(w), &b, 1);
}

static size_t n_rows(const struct world *w)
{
    const struct engine_setup *s = &local_in(w)->engine->setup;
    return s->n_replicas + s->n_spare;
}

static void rows_needed(const struct world *w, enum row row, bool *needed)
{
    local_rows_needed(local_in(w), row, needed);
}

static const double *numbers(const struct world *w, size_t member, size_t *n)
{
    return local_numbers(local_in(w), member, n);
}

static fault set_numbers(struct world *w, size_t member, const double *at, size_t n)
{
    return local_set_numbers(local_of(w), member, at, n);
}

const struct world_ops local_world = {
    .close = close_world,
    .play = play,
    .restore = restore,
    .leads = leads,
    .now_s = now_s,
    .steps = steps,
    .totals = totals,
    .is_replaying = is_replaying,
    .is_alive = is_alive,
    .counts = counts,
    .waits = waits,
    .times = times,
    .settle = settle,
    .examine = examine,
    .read = read_row,
    .write = write_row,
    .blend = blend,
    .n_rows = n_rows,
    .rows_needed = rows_needed,
    .numbers = numbers,
    .set_numbers = set_numbers,
};

static fault join(bool alone, struct ranks *out)
{
    (void)alone; /* it always is */
    *out = (struct ranks){.door = &local_door};
    return OK;
}

static void furnish(const struct ranks *ranks, const struct experiment *e, size_t n_links,
                    struct engine_setup *setup)
{
    (void)ranks;
    setup->n_replicas = (size_t)e->members;
    setup->n_spare = local_spare_rows((size_t)e->members, n_links);
    setup->threads = (int)e->engine.threads;
}

static fault open_world(const struct ranks *ranks, const struct stage *stage, struct agent *agents,
                        struct engine *engine, const double *speeds, struct watcher watcher,
                        struct world **out)
{
    (void)ranks;
    return local_open(stage, agents, engine, speeds, watcher, out);
}

const struct world_door local_door = {.name = "local", .join = join, .furnish = furnish, .open = open_world};
