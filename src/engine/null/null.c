/* null.c - an engine that does no work, so that what remains of a run's time is everybody else's.
 *
 * Rows, reading, writing and the optimiser's slots are real; lessons, passes, exams, updates and blends change no
 * number and report a loss of 0 and no hits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/host.h"

static fault null_open(const struct engine_setup *setup, struct engine **out)
{
    struct host *h = malloc(sizeof *h);
    if (!h)
        return OUT_OF_MEMORY;
    fault f = host_init(h, &engine_null, setup);
    if (f) {
        free(h);
        return f;
    }
    *out = &h->engine;
    return OK;
}

static void null_close(struct engine *e)
{
    host_release((struct host *)e);
    free(e);
}

static fault null_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    TRY(engine_check_lessons(e));
    for (size_t i = 0; i < n; i++) {
        lessons[i].loss = 0;
        lessons[i].hits = 0;
    }
    lessons_tell(lessons, n);
    return OK;
}

static fault null_pass(struct engine *e, struct pass *passes, size_t n)
{
    TRY(engine_check_passes(e, passes, n));
    for (size_t i = 0; i < n; i++) {
        passes[i].loss = 0;
        passes[i].hits = 0;
    }
    return OK;
}

static fault null_examine(struct engine *e, struct exam *exams, size_t n)
{
    TRY(engine_check_exams(e));
    for (size_t i = 0; i < n; i++) {
        exams[i].loss = 0;
        exams[i].hits = 0;
    }
    return OK;
}

static fault null_update(struct engine *e, const struct update *updates, size_t n)
{
    (void)e, (void)updates, (void)n;
    return OK;
}

static fault null_mix(struct engine *e, const struct blend *blends, size_t n)
{
    (void)e, (void)blends, (void)n;
    return OK;
}

static void null_describe(const struct engine *e, char *text, size_t n)
{
    snprintf(text, n, "null: %zu replicas of %zu parameters, nothing is computed", e->setup.n_replicas,
             e->setup.graph->size);
}

const struct engine_ops engine_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .learn = null_learn,
    .pass = null_pass,
    .examine = null_examine,
    .update = null_update,
    .mix = null_mix,
    .read = host_read,
    .write = host_write,
    .floats = host_floats,
    .exchange = host_exchange,
    .describe = null_describe,
};
