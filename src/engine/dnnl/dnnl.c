/* dnnl.c - the fast engine for CPUs: oneDNN's kernels and our own, with our own threads around them.
 *
 *   learn:    as many lessons at once as there are workers, each worker running whole lessons; what is left
 *             runs lesson by lesson, the chunks shared out among all workers (unless pace.h advises not to)
 *   examine:  the samples are cut into pieces of fixed size and shared out; a piece is run by one worker from
 *             the first op to the last
 *
 * Who runs what is left to chance and makes no difference to any number (program.h).
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/dnnl/pace.h"
#include "engine/dnnl/program.h"
#include "engine/host.h"

enum { EXAM_BATCH = 64, NO_REPLICA = -1 };
static_assert((int)EXAM_BATCH <= (int)SAMPLES_AT_ONCE, "a piece of an exam is held at once");

struct station {         /* what one worker works with */
    struct block memory; /* owned: a frame's memory, and after it the worker's local buffers */
    struct pick picks[EXAM_BATCH];
    ptrdiff_t prepared; /* exam: the replica whose weights the memory holds, or NO_REPLICA */
};

struct piece { /* EXAM_BATCH samples of an exam, from `first` on */
    struct exam *exam;
    size_t first;
    struct result result;
};

struct dnnl {
    struct host host; /* first */
    struct onednn *onednn;
    const struct program_verbs *programs; /* for the host's instruction set */
    struct program learn, exam;
    size_t n_workers;
    size_t n_places;          /* workers with memory for a whole lesson of their own */
    struct station *stations; /* [workers], owned */
    char **locals;            /* [workers], owned: where each worker's local buffers are */
    struct piece *pieces;     /* owned: of exams, as many as run side by side */
    size_t most_pieces;
    struct pace pace;     /* of lessons that are shared out */
    _Atomic(fault) first; /* that went wrong in a call */
};

static fault open_stations(struct dnnl *d)
{
    d->stations = calloc(d->n_workers, sizeof *d->stations);
    d->locals = calloc(d->n_workers, sizeof *d->locals);
    d->most_pieces = 16 * d->n_workers;
    d->pieces = calloc(d->most_pieces, sizeof *d->pieces);
    if (!d->stations || !d->locals || !d->pieces)
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
    TRY(d->programs->build(s, d->onednn, true, s->batch, &d->learn));
    TRY(d->programs->build(s, d->onednn, false, EXAM_BATCH, &d->exam));
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
    free(d->pieces);
    d->programs->release(&d->learn);
    d->programs->release(&d->exam);
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
    d->programs = program_verbs_of(d->host.isa);
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

static fault run_lesson(const struct dnnl *d, struct lesson *l, struct pool *pool, int worker)
{
    struct held held;
    struct frame f = frame_of(d, (size_t)worker, l->replica);
    f.samples = d->host.engine.setup.train;
    f.picks = l->picks;
    f.seed = l->seed;
    f.lesson = l;
    f.counted = d->learn.batch;
    f.held = &held;
    TRY(samples_hold(f.samples, f.picks, f.counted, &held));
    d->programs->run(&d->learn, &f, PHASE_PREPARE, pool, worker);
    samples_let_go(f.samples, &held);
    l->loss = f.loss / (double)d->learn.batch;
    l->hits = f.hits;
    return OK;
}

struct lessons {
    struct dnnl *d;
    struct lesson *at;
};

static void run_whole_lesson(void *ctx, size_t piece, int worker)
{
    const struct lessons *l = ctx;
    host_keep_first(&l->d->first, run_lesson(l->d, &l->at[piece], NULL, worker));
}

static void run_shared_lesson(struct dnnl *d, struct lesson *l)
{
    bool is_alone = d->n_workers > 1 && pace_alone(&d->pace);
    double start = clock_now_s();
    host_keep_first(&d->first, run_lesson(d, l, is_alone ? NULL : d->host.pool, 0));
    pace_note(&d->pace, is_alone, clock_now_s() - start);
    d->host.alone = d->pace.is_alone;
}

static fault dnnl_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct dnnl *d = (struct dnnl *)e;
    int threads = onednn_threads(1);
    d->first = OK;
    size_t n_whole = d->n_places == d->n_workers ? n - n % d->n_workers : 0;
    struct lessons whole = {d, lessons};
    pool_run(d->host.pool, n_whole, run_whole_lesson, &whole);
    d->host.alone &= n_whole == 0;
    for (size_t i = n_whole; i < n; i++)
        run_shared_lesson(d, &lessons[i]);
    onednn_threads(threads);
    return d->first;
}

/* The last piece of an exam is filled up with its last sample again; only the real ones count. */
static void run_piece(void *ctx, size_t index, int worker)
{
    struct dnnl *d = ctx;
    struct held held;
    struct piece *p = &d->pieces[index];
    struct station *s = &d->stations[worker];
    const struct exam *x = p->exam;
    for (size_t i = 0; i < EXAM_BATCH; i++)
        s->picks[i].sample = (uint32_t)(x->first + (p->first + i < x->n ? p->first + i : x->n - 1));
    struct frame f = frame_of(d, (size_t)worker, x->replica);
    f.samples = x->on_train ? d->host.engine.setup.train : d->host.engine.setup.test;
    f.picks = s->picks;
    f.counted = x->n - p->first < EXAM_BATCH ? x->n - p->first : EXAM_BATCH;
    f.held = &held;
    fault wrong = samples_hold(f.samples, f.picks, f.counted, &held);
    if (wrong) {
        host_keep_first(&d->first, wrong);
        return;
    }
    bool is_prepared = s->prepared == (ptrdiff_t)x->replica;
    s->prepared = (ptrdiff_t)x->replica;
    d->programs->run(&d->exam, &f, is_prepared ? PHASE_FIRST : PHASE_PREPARE, NULL, worker);
    samples_let_go(f.samples, &held);
    p->result = (struct result){f.loss, f.hits};
}

static void run_pieces(struct dnnl *d, size_t n)
{
    pool_run(d->host.pool, n, run_piece, d);
    for (size_t i = 0; i < n; i++) {
        d->pieces[i].exam->loss += d->pieces[i].result.loss / (double)d->pieces[i].exam->n;
        d->pieces[i].exam->hits += d->pieces[i].result.hits;
    }
}

static fault dnnl_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct dnnl *d = (struct dnnl *)e;
    int threads = onednn_threads(1);
    d->first = OK;
    for (size_t w = 0; w < d->n_workers; w++)
        d->stations[w].prepared = NO_REPLICA;
    size_t n_pieces = 0;
    for (size_t i = 0; i < n; i++)
        samples_expect(exams[i].on_train ? e->setup.train : e->setup.test, exams[i].first, exams[i].n,
                       EXAM_BATCH);
    for (size_t i = 0; i < n; i++) {
        exams[i].loss = 0;
        exams[i].hits = 0;
        for (size_t first = 0; first < exams[i].n; first += EXAM_BATCH) {
            d->pieces[n_pieces++] = (struct piece){.exam = &exams[i], .first = first};
            if (n_pieces == d->most_pieces) {
                run_pieces(d, n_pieces);
                n_pieces = 0;
            }
        }
    }
    run_pieces(d, n_pieces);
    onednn_threads(threads);
    return d->first;
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
             e->setup.precision == PRECISION_BF16 ? "bf16" : "fp32", (double)host_row_bytes(&d->host) * mega,
             (double)memory * mega, d->learn.chunk);
}

const struct engine_ops engine_dnnl = {
    .name = "dnnl",
    .open = dnnl_open,
    .close = dnnl_close,
    .learn = dnnl_learn,
    .examine = dnnl_examine,
    .update = host_update,
    .mix = host_mix,
    .read = host_read,
    .write = host_write,
    .floats = host_floats,
    .exchange = host_exchange,
    .processor = onednn_describe,
    .describe = dnnl_describe,
};
