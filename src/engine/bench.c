/* bench.c - see bench.h.
 *
 * For a comparison of engines the time is cut into repeats; a repeat is as many rounds as fit. The median of the repeats is reported,
 * since other programs on the machine disturb some of them. A run is disturbed by them, too, so what it will take is told by the mean.
 */
#include "engine/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/host.h"

enum { N_SAMPLES = 512, SEED = 1 };

struct bench {
    struct engine *engine; /* owned */
    struct engine_setup own;
    const struct engine_setup *setup; /* own */
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

static void bench_close(struct bench *b)
{
    if (b->engine)
        b->engine->ops->close(b->engine);
    free(b->picks);
    free(b->lessons);
    free(b->updates);
    block_close(&b->pixels);
    free(b);
}

static fault open_parts(struct bench *b, const struct engine_ops *ops)
{
    TRY(make_samples(b, b->own.graph));
    TRY(make_lessons(b));
    TRY(ops->open(&b->own, &b->engine));
    return write_start(b, b->own.graph);
}

static fault bench_open(const struct engine_ops *ops, const struct engine_setup *setup, struct bench **out)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b)
        return OUT_OF_MEMORY;
    b->own = *setup;
    b->own.train = b->own.test = &b->samples;
    b->setup = &b->own;
    fault f = open_parts(b, ops);
    if (f)
        bench_close(b);
    else
        *out = b;
    return f;
}

fault engine_bench(const struct engine_ops *ops, const struct engine_setup *setup, double seconds,
                   struct engine_bench *out)
{
    struct bench *b;
    TRY(bench_open(ops, setup, &b));
    fault f = measure(b, seconds, out);
    bench_close(b);
    return f;
}

/* ---- side by side ---- */

enum { MOST_LESSONS = 4096 }; /* whose length is kept */

struct runner {
    struct bench *bench; /* owned */
    struct runner *next;      /* whose gradient it adds to its own: in a ring, alone with itself */
    pthread_mutex_t gradient; /* held while a lesson makes it, and while another runner reads it */
    pthread_t thread;
    double lessons_s[MOST_LESSONS];
    size_t n_lessons;
    struct engine_pace pace;
    double seconds;
    fault verdict;
};

/* Where rows lie on a device: parameters times 1, and nothing of the spare row, so that they stay what they are. */
static fault mix_on_device(struct bench *b)
{
    const struct addend addends[] = {{1, ROW_PARAMS, 0, 0}, {0, ROW_PARAMS, 1, 0}};
    struct blend blend = {.row = ROW_PARAMS, .also = NO_ROW, .end = TO_END, .addends = addends, .n = 2};
    return b->engine->ops->mix(b->engine, &blend, 1);
}

/* As ranks mix: with a row that another core has just written, into a spare one. */
static void mix_with_next(struct runner *r)
{
    struct engine *mine = r->bench->engine, *theirs = r->next->bench->engine;
    const float *rows[] = {mine->ops->floats(mine, ROW_GRADS, 0), theirs->ops->floats(theirs, ROW_GRADS, 0)};
    const float halves[] = {0.5f, 0.5f};
    host_blend(mine->ops->floats(mine, ROW_GRADS, 1), rows, halves, 2, row_size(&mine->setup, ROW_GRADS));
}

static fault run_mix(struct runner *r, double *mix_s)
{
    fault f = OK;
    pthread_mutex_lock(&r->next->gradient);
    double start = clock_now_s();
    if (r->bench->engine->ops->floats)
        mix_with_next(r);
    else
        f = mix_on_device(r->bench);
    *mix_s += clock_now_s() - start;
    pthread_mutex_unlock(&r->next->gradient);
    return f;
}

/* Waiting for the runner that reads its gradient is no part of it. */
static fault run_lesson_and_step(struct runner *r, double *lesson_s, double *step_s)
{
    double stepped_s = 0;
    pthread_mutex_lock(&r->gradient);
    double began = clock_now_s();
    fault f = run_round(r->bench, &stepped_s);
    *lesson_s = clock_now_s() - began - stepped_s;
    *step_s += stepped_s;
    pthread_mutex_unlock(&r->gradient);
    return f;
}

static fault run_paced(struct runner *r, double seconds, struct engine_pace *out)
{
    double start = clock_now_s(), step_s = 0, mix_s = 0, lesson_s = 0;
    size_t n = 0;
    for (; n == 0 || clock_now_s() - start < seconds; n++) {
        double learnt_s;
        TRY(run_lesson_and_step(r, &learnt_s, &step_s));
        TRY(run_mix(r, &mix_s));
        lesson_s += learnt_s;
        if (r->n_lessons < MOST_LESSONS)
            r->lessons_s[r->n_lessons++] = learnt_s;
    }
    *out = (struct engine_pace){lesson_s / (double)n, step_s / (double)n, mix_s / (double)n, 0};
    return OK;
}

static fault warm_up_and_run(struct runner *r)
{
    struct engine_pace warm;
    TRY(run_paced(r, r->seconds / 5, &warm));
    r->n_lessons = 0;
    return run_paced(r, r->seconds * 0.8, &r->pace);
}

static void *run_in_thread(void *arg)
{
    struct runner *r = arg;
    r->verdict = warm_up_and_run(r);
    return NULL;
}

/* Takes the first fault and lets go of the others. */
static fault first_of(fault f, fault g)
{
    if (!f)
        return g;
    fault_drop(g);
    return f;
}

/* All begin at once, once their engines are open. */
static fault run_all(struct runner *runners, size_t n)
{
    size_t begun = 0;
    fault f = OK;
    while (!f && begun < n) {
        if (pthread_create(&runners[begun].thread, NULL, run_in_thread, &runners[begun]) != 0)
            f = FAIL(FAULT_MEMORY, "a thread to measure in cannot be made");
        else
            begun++;
    }
    for (size_t i = 0; i < begun; i++) {
        pthread_join(runners[i].thread, NULL);
        f = first_of(f, runners[i].verdict);
    }
    return f;
}

static double gini(const double *a, const double *b, size_t n)
{
    double apart = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        apart += fabs(a[i] - b[i]);
        sum += a[i] + b[i];
    }
    return sum > 0 ? apart / sum : 0;
}

static double scatter_of(const struct runner *runners, size_t n)
{
    double sum = 0;
    size_t half = runners[0].n_lessons / 2;
    if (n == 1)
        return gini(runners[0].lessons_s, runners[0].lessons_s + half, half);
    for (size_t i = 0; i + 1 < n; i++) {
        const struct runner *a = &runners[i], *b = a + 1;
        sum += gini(a->lessons_s, b->lessons_s, a->n_lessons < b->n_lessons ? a->n_lessons : b->n_lessons);
    }
    return sum / (double)(n - 1);
}

fault engine_pace(const struct engine_ops *ops, const struct engine_setup *setup, size_t side_by_side,
                  double seconds, struct engine_pace *out)
{
    struct runner *runners = calloc(side_by_side, sizeof *runners);
    struct engine_setup one = *setup;
    fault f = runners ? OK : OUT_OF_MEMORY;
    one.n_replicas = one.n_spare = 1;
    one.rows_on_host = true; /* as ranks have them, in memory that has no large pages */
    for (size_t i = 0; runners && i < side_by_side; i++) {
        runners[i].seconds = seconds;
        runners[i].next = &runners[(i + 1) % side_by_side];
        pthread_mutex_init(&runners[i].gradient, NULL);
    }
    for (size_t i = 0; !f && i < side_by_side; i++)
        f = bench_open(ops, &one, &runners[i].bench);
    if (!f)
        f = run_all(runners, side_by_side);
    struct engine_pace mean = {.scatter = f ? 0 : scatter_of(runners, side_by_side)};
    for (size_t i = 0; runners && i < side_by_side; i++) {
        mean.lesson_s += runners[i].pace.lesson_s / (double)side_by_side;
        mean.step_s += runners[i].pace.step_s / (double)side_by_side;
        mean.mix_s += runners[i].pace.mix_s / (double)side_by_side;
        if (runners[i].bench)
            bench_close(runners[i].bench);
        pthread_mutex_destroy(&runners[i].gradient);
    }
    free(runners);
    if (!f)
        *out = mean;
    return f;
}
