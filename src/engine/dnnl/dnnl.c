/* dnnl.c - the fast engine for CPUs: oneDNN's convolutions and products, our own loops and threads around
 * them.
 *
 *   learn:    as many lessons at once as there are workers, each worker running whole lessons; what is left
 * over runs one lesson after another, its chunks shared out among all workers examine:  the samples are cut
 * into pieces of fixed size and shared out; a piece is run by one worker from the first op to the last
 *
 * Who runs what is left to chance and makes no difference to any number (program.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/dnnl/profile.h"
#include "engine/dnnl/program.h"
#include "engine/host.h"

enum { EXAM_BATCH = 64, NO_REPLICA = -1 };

struct station {         /* what one worker works with */
    struct block memory; /* owned: a frame's memory, and after it the worker's local buffers */
    struct pick picks[EXAM_BATCH];
    ptrdiff_t prepared; /* exam: the replica whose weights the memory holds, or NO_REPLICA */
};

struct dnnl {
    struct host host; /* first */
    struct onednn *onednn;
    struct program learn, exam;
    size_t n_workers;
    size_t n_places;          /* workers with memory for a whole lesson of their own */
    struct station *stations; /* [workers], owned */
    char **locals;            /* [workers], owned: where each worker's local buffers are */
    struct result *results;   /* owned: of a round of an exam's pieces */
    size_t n_results;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static fault open_stations(struct dnnl *d)
{
    d->stations = calloc(d->n_workers, sizeof *d->stations);
    d->locals = calloc(d->n_workers, sizeof *d->locals);
    d->n_results = 16 * d->n_workers;
    d->results = calloc(d->n_results, sizeof *d->results);
    if (!d->stations || !d->locals || !d->results)
        return OUT_OF_MEMORY;
    d->n_places = d->host.engine.setup.n_replicas < d->n_workers ? 1 : d->n_workers;
    size_t local = larger(d->learn.local_bytes, d->exam.local_bytes);
    for (size_t w = 0; w < d->n_workers; w++) {
        size_t n_bytes = w < d->n_places ? larger(d->learn.n_bytes, d->exam.n_bytes) : d->exam.n_bytes;
        n_bytes = round_up(n_bytes, 4096);
        TRY(block_open(n_bytes + local, &d->stations[w].memory));
        d->locals[w] = (char *)d->stations[w].memory.bytes + n_bytes;
    }
    return OK;
}

static fault open_programs(struct dnnl *d)
{
    const struct engine_setup *s = &d->host.engine.setup;
    TRY(onednn_open((int)d->n_workers, &d->onednn));
    TRY(program_build(s, d->onednn, true, s->batch, &d->learn));
    TRY(program_build(s, d->onednn, false, EXAM_BATCH, &d->exam));
    TRY(onednn_ready(d->onednn));
    return open_stations(d);
}

static void dnnl_close(struct engine *e)
{
    struct dnnl *d = (struct dnnl *)e;
    for (size_t w = 0; d->stations && w < d->n_workers; w++)
        block_close(&d->stations[w].memory);
    free(d->stations);
    free(d->locals);
    free(d->results);
    program_release(&d->learn);
    program_release(&d->exam);
    onednn_close(d->onednn);
    host_release(&d->host);
    free(d);
}

static fault dnnl_open(const struct engine_setup *setup, struct engine **out)
{
    struct dnnl *d = calloc(1, sizeof *d);
    if (!d)
        return OUT_OF_MEMORY;
    fault f = host_init(&d->host, &engine_dnnl, setup);
    if (f) {
        free(d);
        return f;
    }
    d->n_workers = (size_t)pool_size(d->host.pool);
    int threads = onednn_threads(1);
    f = open_programs(d);
    onednn_threads(threads);
    if (f) {
        dnnl_close(&d->host.engine);
        return f;
    }
    *out = &d->host.engine;
    return OK;
}

static struct frame frame_of(const struct dnnl *d, size_t worker, size_t replica)
{
    return (struct frame){.memory = d->stations[worker].memory.bytes,
                          .locals = d->locals,
                          .params = host_row(&d->host, ROW_PARAMS, replica),
                          .grads = host_row(&d->host, ROW_GRADS, replica),
                          .stats = host_row(&d->host, ROW_STATS, replica)};
}

static void run_lesson(const struct dnnl *d, struct lesson *l, struct pool *pool, int worker)
{
    struct frame f = frame_of(d, (size_t)worker, l->replica);
    f.samples = d->host.engine.setup.train;
    f.picks = l->picks;
    f.seed = l->seed;
    f.counted = d->learn.batch;
    program_run(&d->learn, &f, PHASE_PREPARE, pool, worker);
    l->loss = f.loss / (double)d->learn.batch;
    l->hits = f.hits;
}

struct lessons {
    const struct dnnl *d;
    struct lesson *at;
};

static void run_whole_lesson(void *ctx, size_t piece, int worker)
{
    const struct lessons *l = ctx;
    run_lesson(l->d, &l->at[piece], NULL, worker);
}

static fault dnnl_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct dnnl *d = (struct dnnl *)e;
    int threads = onednn_threads(1);
    size_t n_whole = d->n_places == d->n_workers ? n - n % d->n_workers : 0;
    struct lessons whole = {d, lessons};
    pool_run(d->host.pool, n_whole, run_whole_lesson, &whole);
    for (size_t i = n_whole; i < n; i++)
        run_lesson(d, &lessons[i], d->host.pool, 0);
    onednn_threads(threads);
    return OK;
}

struct exam_round { /* pieces [first, first + n) of one exam */
    const struct dnnl *d;
    const struct exam *exam;
    size_t first;
};

/* The last piece is filled up with its last sample again; only the real ones count. */
static void run_piece(void *ctx, size_t piece, int worker)
{
    const struct exam_round *r = ctx;
    const struct dnnl *d = r->d;
    struct station *s = &d->stations[worker];
    size_t first = (r->first + piece) * EXAM_BATCH, end = r->exam->n;
    for (size_t i = 0; i < EXAM_BATCH; i++)
        s->picks[i] =
            (struct pick){.sample = (uint32_t)(r->exam->first + (first + i < end ? first + i : end - 1))};
    struct frame f = frame_of(d, (size_t)worker, r->exam->replica);
    f.samples = r->exam->on_train ? d->host.engine.setup.train : d->host.engine.setup.test;
    f.picks = s->picks;
    f.counted = end - first < EXAM_BATCH ? end - first : EXAM_BATCH;
    bool is_prepared = s->prepared == (ptrdiff_t)r->exam->replica;
    s->prepared = (ptrdiff_t)r->exam->replica;
    program_run(&d->exam, &f, is_prepared ? PHASE_FIRST : PHASE_PREPARE, NULL, worker);
    d->results[piece] = (struct result){f.loss, f.hits};
}

static void run_exam(const struct dnnl *d, struct exam *exam)
{
    exam->loss = 0;
    exam->hits = 0;
    for (size_t w = 0; w < d->n_workers; w++)
        d->stations[w].prepared = NO_REPLICA;
    struct exam_round r = {d, exam, 0};
    size_t n_pieces = (exam->n + EXAM_BATCH - 1) / EXAM_BATCH;
    for (; r.first < n_pieces; r.first += d->n_results) {
        size_t n = n_pieces - r.first < d->n_results ? n_pieces - r.first : d->n_results;
        pool_run(d->host.pool, n, run_piece, &r);
        for (size_t i = 0; i < n; i++) {
            exam->loss += d->results[i].loss;
            exam->hits += d->results[i].hits;
        }
    }
    exam->loss /= (double)exam->n;
}

static fault dnnl_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct dnnl *d = (struct dnnl *)e;
    int threads = onednn_threads(1);
    for (size_t i = 0; i < n; i++)
        run_exam(d, &exams[i]);
    onednn_threads(threads);
    return OK;
}

static void dnnl_describe(const struct engine *e, char *text, size_t n)
{
    const struct dnnl *d = (const struct dnnl *)e;
    char library[128];
    onednn_describe(library, sizeof library);
    double mega = 1.0 / (1 << 20);
    size_t memory = d->n_workers * onednn_scratch_bytes(d->onednn);
    for (size_t w = 0; w < d->n_workers; w++)
        memory += d->stations[w].memory.n_bytes;
    snprintf(text, n,
             "dnnl: %zu thread%s, %s, %s; %.0f MiB of rows, %.0f MiB to work in; chunks of %zu samples",
             d->n_workers, d->n_workers == 1 ? "" : "s", library,
             e->setup.precision == PRECISION_BF16 ? "bf16" : "fp32", (double)d->host.memory.n_bytes * mega,
             (double)memory * mega, d->learn.chunk);
}

fault dnnl_profile(struct engine *e)
{
    struct dnnl *d = (struct dnnl *)e;
    d->learn.seconds = ARENA_NEW(&d->learn.arena, double, d->n_workers * d->learn.n_jobs);
    return d->learn.seconds ? OK : OUT_OF_MEMORY;
}

size_t dnnl_profile_lines(const struct engine *e, struct profile_line *lines, size_t most)
{
    const struct dnnl *d = (const struct dnnl *)e;
    const struct program *p = &d->learn;
    size_t n = 0;
    for (size_t i = 0; p->seconds && i < p->n_jobs && n < most; i++) {
        const struct job *job = &p->jobs[i];
        double seconds = 0;
        for (size_t w = 0; w < d->n_workers; w++)
            seconds += p->seconds[w * p->n_jobs + i];
        lines[n++] = (struct profile_line){job->unit ? job->unit->op->name : "", job->name, job->phase, seconds};
    }
    return n;
}

const struct engine_ops engine_dnnl = {
    .name = "dnnl",
    .open = dnnl_open,
    .close = dnnl_close,
    .learn = dnnl_learn,
    .examine = dnnl_examine,
    .update = host_update,
    .read = host_read,
    .write = host_write,
    .describe = dnnl_describe,
};
