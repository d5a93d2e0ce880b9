/* dnnl.c - the fast engine for CPUs: oneDNN's kernels and our own, with our own threads around them.
 *
 *   learn:    as many lessons at once as there are workers, each worker running whole lessons; what is left
 *             runs lesson by lesson, the chunks shared out among all workers (unless pace.h advises not to)
 *   pass:     the same with passes; what a micro-batch keeps from one to the next has memory of its own
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
    struct block memory; /* owned: a frame's memory, the worker's local buffers, room for a gradient */
    float *grads;
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
    struct program learn
        [2]; /* lessons or passes: of micro-batches of `most` samples, and of one less where there are such */
    struct program exam; /* not of a part */
    struct block kept;   /* owned: of each replica and flight, n_kept bytes */
    size_t n_kept;
    size_t n_workers;
    size_t n_places;          /* workers with memory for a whole lesson of their own */
    struct station *stations; /* [workers], owned */
    char **locals;            /* [workers], owned: where each worker's local buffers are */
    struct piece *pieces;     /* owned: of exams, as many as run side by side */
    size_t most_pieces;
    struct pace pace;     /* of lessons that are shared out */
    _Atomic(fault) first; /* that went wrong in a call */
};

static bool gathers(const struct engine_setup *s)
{
    return micro_batches(s) > 1 || s->flights;
}

static fault open_station(struct dnnl *d, size_t w)
{
    const struct engine_setup *s = &d->host.engine.setup;
    struct station *t = &d->stations[w];
    bool learns = w < d->n_places;
    size_t learn = larger(d->learn[0].n_bytes, d->learn[1].n_bytes);
    size_t local = larger(larger(d->learn[0].local_bytes, d->learn[1].local_bytes), d->exam.local_bytes);
    size_t n_bytes = round_up(learns ? larger(learn, d->exam.n_bytes) : d->exam.n_bytes, 4096);
    local = round_up(local, 64);
    TRY(block_open(n_bytes + local + (learns && gathers(s) ? s->graph->size * sizeof(float) : 0),
                   &t->memory));
    d->locals[w] = (char *)t->memory.bytes + n_bytes;
    t->grads = (float *)(d->locals[w] + local);
    return OK;
}

static fault open_stations(struct dnnl *d)
{
    const struct engine_setup *s = &d->host.engine.setup;
    d->stations = calloc(d->n_workers, sizeof *d->stations);
    d->locals = calloc(d->n_workers, sizeof *d->locals);
    d->most_pieces = 16 * d->n_workers;
    d->pieces = calloc(d->most_pieces, sizeof *d->pieces);
    if (!d->stations || !d->locals || !d->pieces)
        return OUT_OF_MEMORY;
    d->n_places = s->n_replicas < d->n_workers ? 1 : d->n_workers;
    for (size_t w = 0; w < d->n_workers; w++)
        TRY(open_station(d, w));
    d->n_kept = round_up(larger(d->learn[0].n_kept, d->learn[1].n_kept), 64);
    return d->n_kept ? block_open(d->n_kept * s->n_replicas * s->flights, &d->kept) : OK;
}

static fault open_programs(struct dnnl *d)
{
    const struct engine_setup *s = &d->host.engine.setup;
    enum plan_kind kind = !s->flights ? PLAN_LESSON : s->splits ? PLAN_SPLIT_PASSES : PLAN_PASSES;
    TRY(onednn_open((int)d->n_workers, &d->onednn));
    TRY(d->programs->build(s, d->onednn, kind, micro_most(s), &d->learn[0]));
    if (s->batch % micro_batches(s))
        TRY(d->programs->build(s, d->onednn, kind, micro_most(s) - 1, &d->learn[1]));
    if (graph_is_whole(s->graph))
        TRY(d->programs->build(s, d->onednn, PLAN_EXAM, EXAM_BATCH, &d->exam));
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
    block_close(&d->kept);
    d->programs->release(&d->learn[0]);
    d->programs->release(&d->learn[1]);
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

/* The frame of a micro-batch, and the program for its size. A gradient that is to be added is made beside the row. */
static struct frame frame_of_micro(const struct dnnl *d, int worker, size_t replica, size_t micro, bool adds,
                                   const struct program **program)
{
    const struct engine_setup *s = &d->host.engine.setup;
    struct micro at = micro_of(s, micro);
    struct frame f = frame_of(d, (size_t)worker, replica);
    *program = &d->learn[at.n < micro_most(s)];
    f.samples = s->train;
    f.first_sample = at.first;
    f.counted = at.n;
    if (adds) {
        f.gathered = f.grads;
        f.grads = d->stations[worker].grads;
    }
    return f;
}

static void run_micro(const struct dnnl *d, struct lesson *l, size_t micro, const struct held *whole,
                      struct pool *pool, int worker)
{
    const struct engine_setup *s = &d->host.engine.setup;
    const struct program *p;
    struct frame f = frame_of_micro(d, worker, l->replica, micro, micro > 0, &p);
    struct held held = samples_held_from(s->train, whole, f.first_sample);
    f.picks = l->picks + f.first_sample;
    f.held = &held;
    f.seed = l->seed;
    f.lesson = micro + 1 == micro_batches(s) ? l : NULL;
    d->programs->run(p, &f, PHASE_PREPARE, p->n_phases, pool, worker);
    l->loss += f.loss / (double)s->batch;
    l->hits += f.hits;
}

/* The samples of the whole batch are held while its micro-batches are computed. */
static fault run_lesson(const struct dnnl *d, struct lesson *l, struct pool *pool, int worker)
{
    const struct engine_setup *s = &d->host.engine.setup;
    struct held held;
    TRY(samples_hold(s->train, l->picks, s->batch, &held));
    l->loss = 0;
    l->hits = 0;
    for (size_t k = 0; k < micro_batches(s); k++)
        run_micro(d, l, k, &held, pool, worker);
    samples_let_go(s->train, &held);
    return OK;
}

static void find_crossings(const struct dnnl *d, const struct pass *pass, struct frame *f)
{
    const struct engine_setup *s = &d->host.engine.setup;
    for (int i = 0; i < 4; i++)
        if (row_size(s, ROW_INPUTS + i))
            f->crossing[i] = host_row(&d->host, ROW_INPUTS + i, pass->replica) +
                             crossing_at(s, ROW_INPUTS + i, pass->flight, 0);
}

/* What backward needs of the samples was kept by forward. */
static fault run_pass(const struct dnnl *d, struct pass *pass, struct pool *pool, int worker)
{
    const struct engine_setup *s = &d->host.engine.setup;
    const struct program *p;
    struct held held;
    struct frame f = frame_of_micro(d, worker, pass->replica, pass->micro, pass->adds, &p);
    int stretch = pass->kind == PASS_FORWARD ? 0 : pass->kind == PASS_WEIGHTS ? 2 : 1;
    f.picks = pass->picks + f.first_sample;
    f.held = pass->kind == PASS_FORWARD && graph_reads_samples(s->graph) ? &held : NULL;
    f.seed = pass->seed;
    f.kept = (char *)d->kept.bytes + d->n_kept * (pass->replica * s->flights + pass->flight);
    find_crossings(d, pass, &f);
    if (f.held)
        TRY(samples_hold(f.samples, f.picks, f.counted, &held));
    d->programs->run(p, &f, PHASE_PREPARE, PHASE_FIRST, pool, worker);
    d->programs->run(p, &f, p->stretch[stretch], p->stretch[stretch + 1], pool, worker);
    if (f.held)
        samples_let_go(f.samples, &held);
    pass->loss = f.loss / (double)s->batch;
    pass->hits = f.hits;
    return OK;
}

struct work { /* lessons or passes */
    struct dnnl *d;
    struct lesson *lessons;
    struct pass *passes;
};

static void run_one(const struct work *w, size_t i, struct pool *pool, int worker)
{
    fault f = w->lessons ? run_lesson(w->d, &w->lessons[i], pool, worker)
                         : run_pass(w->d, &w->passes[i], pool, worker);
    host_keep_first(&w->d->first, f);
}

static void run_whole(void *ctx, size_t piece, int worker)
{
    run_one(ctx, piece, NULL, worker);
}

static void run_shared(struct dnnl *d, const struct work *w, size_t i)
{
    bool is_alone = d->n_workers > 1 && pace_alone(&d->pace);
    double start = clock_now_s();
    run_one(w, i, is_alone ? NULL : d->host.pool, 0);
    pace_note(&d->pace, is_alone, clock_now_s() - start);
    d->host.alone = d->pace.is_alone;
}

static fault run_all(struct dnnl *d, const struct work *w, size_t n)
{
    int threads = onednn_threads(1);
    d->first = OK;
    size_t n_whole = d->n_places == d->n_workers ? n - n % d->n_workers : 0;
    pool_run(d->host.pool, n_whole, run_whole, (void *)w);
    d->host.alone &= n_whole == 0;
    for (size_t i = n_whole; i < n; i++)
        run_shared(d, w, i);
    onednn_threads(threads);
    return d->first;
}

static fault dnnl_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct dnnl *d = (struct dnnl *)e;
    TRY(engine_check_lessons(e));
    return run_all(d, &(struct work){.d = d, .lessons = lessons}, n);
}

static fault dnnl_pass(struct engine *e, struct pass *passes, size_t n)
{
    struct dnnl *d = (struct dnnl *)e;
    TRY(engine_check_passes(e, passes, n));
    return run_all(d, &(struct work){.d = d, .passes = passes}, n);
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
    d->programs->run(&d->exam, &f, is_prepared ? PHASE_FIRST : PHASE_PREPARE, d->exam.n_phases, NULL, worker);
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
    TRY(engine_check_exams(e));
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
    size_t memory = d->n_workers * onednn_scratch_bytes(d->onednn) + d->kept.n_bytes;
    for (size_t w = 0; w < d->n_workers; w++)
        memory += d->stations[w].memory.n_bytes;
    snprintf(text, n,
             "dnnl: %zu thread%s, %s, %s; %.0f MiB of rows, %.0f MiB to work in; chunks of %zu samples",
             d->n_workers, d->n_workers == 1 ? "" : "s", library,
             e->setup.precision == PRECISION_BF16 ? "bf16" : "fp32", (double)host_row_bytes(&d->host) * mega,
             (double)memory * mega, d->learn[0].chunk);
}

const struct engine_ops engine_dnnl = {
    .name = "dnnl",
    .open = dnnl_open,
    .close = dnnl_close,
    .learn = dnnl_learn,
    .pass = dnnl_pass,
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
