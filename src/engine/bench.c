/* bench.c - see bench.h.
 *
 * The time is cut into repeats; a repeat is as many rounds as fit. The median of the repeats is reported,
 * since other programs on the machine disturb some of them.
 */
#include "engine/bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"

enum { N_SAMPLES = 512, SEED = 1 };

struct bench {
    struct engine *engine;
    const struct engine_setup *setup;
    struct block pixels;
    uint16_t labels[N_SAMPLES];
    struct samples samples;
    struct pick *picks;     /* [replicas][batch], owned */
    struct lesson *lessons; /* [replicas], owned */
    struct update *updates; /* [replicas], owned */
    uint64_t round;
};

static fault make_samples(struct bench *b, const struct graph *g)
{
    size_t n_bytes = N_SAMPLES * shape_size(g->input);
    TRY(block_open(n_bytes, &b->pixels));
    struct rng r = rng_stream(SEED, 0, RNG_SYNTHETIC, 0);
    uint8_t *bytes = b->pixels.bytes;
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)rng_next(&r);
    for (size_t i = 0; i < N_SAMPLES; i++)
        b->labels[i] = (uint16_t)rng_below(&r, g->classes);
    b->samples = (struct samples){.n = N_SAMPLES,
                                  .c = g->input.c,
                                  .h = g->input.h,
                                  .w = g->input.w,
                                  .classes = g->classes,
                                  .pixels = bytes,
                                  .labels = b->labels};
    for (size_t c = 0; c < MOST_CHANNELS; c++) {
        b->samples.mean[c] = 0.5f;
        b->samples.deviation[c] = 0.25f;
    }
    return OK;
}

static fault make_lessons(struct bench *b)
{
    size_t n = b->setup->n_replicas, batch = b->setup->batch;
    b->picks = calloc(n * batch, sizeof *b->picks);
    b->lessons = calloc(n, sizeof *b->lessons);
    b->updates = calloc(n, sizeof *b->updates);
    if (!b->picks || !b->lessons || !b->updates)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        b->lessons[i] = (struct lesson){.replica = i, .picks = b->picks + i * batch, .seed = i};
        b->updates[i] = (struct update){.replica = i, .lr = 1e-4, .end = TO_END};
    }
    return OK;
}

static fault write_start(struct bench *b, const struct graph *g)
{
    struct block rows;
    TRY(block_open((g->size + g->stats_size) * sizeof(float), &rows));
    float *params = rows.bytes, *stats = params + g->size;
    graph_init(g, SEED, params, stats);
    fault f = OK;
    for (size_t i = 0; !f && i < b->setup->n_replicas; i++) {
        f = b->engine->ops->write(b->engine, ROW_PARAMS, i, params);
        if (!f)
            f = b->engine->ops->write(b->engine, ROW_STATS, i, stats);
    }
    block_close(&rows);
    return f;
}

/* One round of all replicas; adds the seconds of its update. */
static fault run_round(struct bench *b, double *update_s)
{
    size_t n = b->setup->n_replicas;
    struct rng r = rng_stream(SEED, 0, RNG_ORDER, b->round);
    for (size_t i = 0; i < n * b->setup->batch; i++)
        b->picks[i] = (struct pick){.sample = (uint32_t)rng_below(&r, N_SAMPLES), .flip = (int8_t)(i % 2)};
    TRY(b->engine->ops->learn(b->engine, b->lessons, n));
    double start = clock_now_s();
    for (size_t i = 0; i < n; i++)
        b->updates[i].t = b->round + 1;
    if (b->setup->optim)
        TRY(b->engine->ops->update(b->engine, b->updates, n));
    *update_s += clock_now_s() - start;
    b->round++;
    return OK;
}

struct repeat {
    double round_s, update_s;
};

static fault run_repeat(struct bench *b, double seconds, struct repeat *out)
{
    double start = clock_now_s(), update_s = 0, passed = 0;
    size_t n = 0;
    while (n == 0 || passed < seconds) {
        TRY(run_round(b, &update_s));
        passed = clock_now_s() - start;
        n++;
    }
    *out = (struct repeat){passed / (double)n, update_s / (double)n};
    return OK;
}

static int by_round(const void *a, const void *b)
{
    double x = ((const struct repeat *)a)->round_s, y = ((const struct repeat *)b)->round_s;
    return (x > y) - (x < y);
}

static fault measure(struct bench *b, double seconds, struct engine_bench *out)
{
    const struct engine_setup *s = b->setup;
    struct repeat repeats[BENCH_REPEATS], warm;
    TRY(write_start(b, s->graph));
    TRY(run_repeat(b, seconds / 5, &warm));
    uint64_t before = b->round;
    for (int i = 0; i < BENCH_REPEATS; i++)
        TRY(run_repeat(b, seconds * 0.8 / BENCH_REPEATS, &repeats[i]));
    qsort(repeats, BENCH_REPEATS, sizeof *repeats, by_round);
    double samples = (double)(s->n_replicas * s->batch);
    const struct repeat *middle = &repeats[BENCH_REPEATS / 2];
    *out = (struct engine_bench){.samples_per_s = samples / middle->round_s,
                                 .slowest_per_s = samples / repeats[BENCH_REPEATS - 1].round_s,
                                 .fastest_per_s = samples / repeats[0].round_s,
                                 .round_ms = middle->round_s * 1e3,
                                 .update_ms = middle->update_s * 1e3,
                                 .flops_per_s = samples / middle->round_s * s->graph->flops_learn,
                                 .rounds = (size_t)(b->round - before)};
    b->engine->ops->describe(b->engine, out->engine, sizeof out->engine);
    out->on_device = b->engine->ops->measure != NULL;
    return out->on_device ? b->engine->ops->measure(b->engine, &out->work) : OK;
}

fault engine_bench(const struct engine_ops *ops, const struct engine_setup *setup, double seconds,
                   struct engine_bench *out)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b)
        return OUT_OF_MEMORY;
    struct engine_setup own = *setup;
    own.train = own.test = &b->samples;
    b->setup = &own;
    fault f = make_samples(b, own.graph);
    if (!f)
        f = make_lessons(b);
    if (!f)
        f = ops->open(&own, &b->engine);
    if (!f)
        f = measure(b, seconds, out);
    if (b->engine)
        ops->close(b->engine);
    free(b->picks);
    free(b->lessons);
    free(b->updates);
    block_close(&b->pixels);
    free(b);
    return f;
}
