/* engine.c - the reference engine: a lesson or an exam is done whole by one worker in its own memory.
 *
 * So nothing about it depends on how many workers there are or which of them takes it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/host.h"
#include "engine/ref/ref.h"

struct ref {
    struct host host;
    struct arena arena;        /* owned: the plans */
    struct plan learn, passes; /* one of them, as the setup asks */
    struct plan exam;
    /* Owned. Per worker: what a plan does not keep, room for a gradient, labels; then per replica and flight what is kept. */
    struct block memory;
    size_t n_work, n_grads, n_worker; /* bytes, the last of a worker altogether */
    struct pick *picks;               /* owned: per worker as many of an exam's as a micro-batch has */
};

static fault make_plans(struct ref *r, size_t *sizes)
{
    const struct engine_setup *s = &r->host.engine.setup;
    enum plan_kind passes = s->splits ? PLAN_SPLIT_PASSES : PLAN_PASSES;
    ref_sizes(s->graph, micro_most(s), sizes);
    TRY(plan_make(s->graph, PLAN_EXAM, sizes, NULL, &r->arena, &r->exam));
    if (s->flights)
        return plan_make(s->graph, passes, sizes, sizes, &r->arena, &r->passes);
    return plan_make(s->graph, PLAN_LESSON, sizes, sizes, &r->arena, &r->learn);
}

static fault take_memory(struct ref *r)
{
    const struct engine_setup *s = &r->host.engine.setup;
    bool gathers = micro_batches(s) > 1 || s->flights;
    r->n_work = larger(larger(r->learn.n_bytes, r->exam.n_bytes), r->passes.n_bytes - r->passes.n_kept);
    r->n_grads = gathers ? round_up(s->graph->size * sizeof(float), 64) : 0;
    r->n_worker = round_up(r->n_work + r->n_grads + micro_most(s) * sizeof(uint16_t), 64);
    r->picks = calloc(micro_most(s) * (size_t)pool_size(r->host.pool), sizeof *r->picks);
    if (!r->picks)
        return OUT_OF_MEMORY;
    return block_open(r->n_worker * (size_t)pool_size(r->host.pool) +
                          r->passes.n_kept * s->flights * s->n_replicas,
                      &r->memory);
}

static fault plan_all(struct ref *r)
{
    size_t *sizes = ARENA_NEW(&r->arena, size_t, r->host.engine.setup.graph->n_tensors);
    if (!sizes)
        return OUT_OF_MEMORY;
    TRY(make_plans(r, sizes));
    return take_memory(r);
}

static void ref_close(struct engine *e)
{
    struct ref *r = (struct ref *)e;
    free(r->picks);
    block_close(&r->memory);
    arena_release(&r->arena);
    host_release(&r->host);
    free(r);
}

static fault ref_open(const struct engine_setup *setup, struct engine **out)
{
    if (setup->precision != PRECISION_FP32)
        return FAIL(FAULT_ENGINE, "the engine ref computes in fp32 only");
    struct ref *r = calloc(1, sizeof *r);
    if (!r)
        return OUT_OF_MEMORY;
    fault f = host_init(&r->host, &engine_ref, setup);
    if (f) {
        free(r);
        return f;
    }
    f = plan_all(r);
    if (f) {
        ref_close(&r->host.engine);
        return f;
    }
    *out = &r->host.engine;
    return OK;
}

/* A walk in this worker's memory. */
static struct ref_walk start_walk(const struct ref *r, const struct plan *plan, size_t replica, int worker)
{
    assert(replica < r->host.engine.setup.n_replicas + r->host.engine.setup.n_spare);
    unsigned char *memory = (unsigned char *)r->memory.bytes + r->n_worker * (size_t)worker;
    return (struct ref_walk){
        .graph = r->host.engine.setup.graph,
        .plan = plan,
        .params = host_row(&r->host, ROW_PARAMS, replica),
        .stats = host_row(&r->host, ROW_STATS, replica),
        .memory = memory,
        .labels = (uint16_t *)(memory + r->n_work + r->n_grads),
    };
}

/* Gradients go into the replica's row: at once, or by way of the worker's memory where there are some already. */
static void walk_learns(struct ref_walk *w, const struct ref *r, size_t replica, bool adds)
{
    float *row = host_row(&r->host, ROW_GRADS, replica);
    w->grads = adds ? (float *)((unsigned char *)w->memory + r->n_work) : row;
    w->gathered = adds ? row : NULL;
}

static void put_samples(const struct ref_walk *w, const struct samples *s, const struct pick *picks,
                        const struct held *held)
{
    size_t at = w->plan->value_at[0];
    unsigned char *memory = at < w->plan->n_kept ? w->kept : (unsigned char *)w->memory - w->plan->n_kept;
    for (size_t i = 0; i < w->at.n; i++)
        host_sample(s, samples_bytes(s, held, i, picks[i]), picks[i],
                    (real *)(memory + at) + i * shape_size(w->graph->input));
}

/* The same with samples that are held only meanwhile. */
static fault take_samples(const struct ref_walk *w, const struct samples *s, const struct pick *picks)
{
    struct held held;
    TRY(samples_hold(s, picks, w->at.n, &held));
    put_samples(w, s, picks, &held);
    samples_let_go(s, &held);
    return OK;
}

static void put_labels(const struct ref_walk *w, const struct samples *s, const struct pick *picks)
{
    for (size_t i = 0; i < w->at.n; i++)
        w->labels[i] = s->labels[picks[i].sample];
}

struct requests {
    struct ref *ref;
    struct lesson *lessons;
    struct exam *exams;
    struct pass *passes;
    _Atomic(fault) first; /* that went wrong */
};

static void learn_micro(const struct ref *r, struct lesson *l, size_t micro, const struct held *whole,
                        int worker)
{
    const struct engine_setup *s = &r->host.engine.setup;
    struct ref_walk w = start_walk(r, &r->learn, l->replica, worker);
    walk_learns(&w, r, l->replica, micro > 0);
    w.at = micro_of(s, micro);
    w.of = s->batch;
    w.seed = l->seed;
    w.lesson = micro + 1 == micro_batches(s) ? l : NULL;
    struct held held = samples_held_from(s->train, whole, w.at.first);
    put_samples(&w, s->train, l->picks + w.at.first, &held);
    put_labels(&w, s->train, l->picks + w.at.first);
    ref_take(&w, 0, r->learn.n_steps);
    l->loss += w.loss;
    l->hits += w.hits;
}

/* The samples of the whole batch are held while its micro-batches are computed. */
static void learn_one(void *ctx, size_t piece, int worker)
{
    struct requests *asked = ctx;
    struct ref *r = asked->ref;
    struct lesson *l = &asked->lessons[piece];
    const struct engine_setup *s = &r->host.engine.setup;
    struct held held;
    fault f = samples_hold(s->train, l->picks, s->batch, &held);
    if (f) {
        host_keep_first(&asked->first, f);
        return;
    }
    l->loss = 0;
    l->hits = 0;
    for (size_t k = 0; k < micro_batches(s); k++)
        learn_micro(r, l, k, &held, worker);
    samples_let_go(s->train, &held);
}

/* The steps of a pass. */
static void pass_steps(const struct plan *p, enum pass_kind kind, size_t *first, size_t *end)
{
    *first = kind == PASS_FORWARD ? 0 : kind == PASS_WEIGHTS ? p->n_inputs : p->n_forward;
    *end = kind == PASS_FORWARD ? p->n_forward : kind == PASS_WEIGHTS ? p->n_steps : p->n_inputs;
}

static struct ref_walk start_pass(const struct ref *r, const struct pass *pass, int worker)
{
    const struct engine_setup *s = &r->host.engine.setup;
    struct ref_walk w = start_walk(r, &r->passes, pass->replica, worker);
    walk_learns(&w, r, pass->replica, pass->adds);
    w.at = micro_of(s, pass->micro);
    w.of = s->batch;
    w.seed = pass->seed;
    w.kept = (unsigned char *)r->memory.bytes + r->n_worker * (size_t)pool_size(r->host.pool) +
             r->passes.n_kept * (pass->replica * s->flights + pass->flight);
    w.most = micro_most(s);
    for (int i = 0; i < 4; i++)
        w.crossing[i] = row_size(s, ROW_INPUTS + i) ? host_row(&r->host, ROW_INPUTS + i, pass->replica) +
                                                          crossing_at(s, ROW_INPUTS + i, pass->flight, 0)
                                                    : NULL;
    return w;
}

/* What backward needs of the samples was kept by forward. */
static void pass_one(void *ctx, size_t piece, int worker)
{
    struct requests *asked = ctx;
    struct ref *r = asked->ref;
    struct pass *pass = &asked->passes[piece];
    const struct samples *s = r->host.engine.setup.train;
    struct ref_walk w = start_pass(r, pass, worker);
    const struct pick *picks = pass->picks + w.at.first;
    bool reads = pass->kind == PASS_FORWARD && graph_reads_samples(w.graph);
    fault f = reads ? take_samples(&w, s, picks) : OK;
    if (f) {
        host_keep_first(&asked->first, f);
        return;
    }
    put_labels(&w, s, picks);
    size_t first, end;
    pass_steps(&r->passes, pass->kind, &first, &end);
    ref_take(&w, first, end);
    pass->loss = w.loss;
    pass->hits = w.hits;
}

static fault ref_pass(struct engine *e, struct pass *passes, size_t n)
{
    struct ref *r = (struct ref *)e;
    TRY(engine_check_passes(e, passes, n));
    struct requests asked = {.ref = r, .passes = passes};
    pool_run(r->host.pool, n, pass_one, &asked);
    return asked.first;
}

static fault ref_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct ref *r = (struct ref *)e;
    TRY(engine_check_lessons(e));
    struct requests asked = {.ref = r, .lessons = lessons};
    pool_run(r->host.pool, n, learn_one, &asked);
    return asked.first;
}

static void examine_one(void *ctx, size_t piece, int worker)
{
    struct requests *asked = ctx;
    struct ref *r = asked->ref;
    struct exam *x = &asked->exams[piece];
    const struct engine_setup *setup = &r->host.engine.setup;
    const struct samples *s = x->on_train ? setup->train : setup->test;
    struct ref_walk w = start_walk(r, &r->exam, x->replica, worker);
    assert(x->first + x->n <= s->n);
    double sum = 0;
    x->hits = 0;
    for (size_t done = 0; done < x->n; done += w.at.n) {
        struct pick *picks = r->picks + micro_most(setup) * (size_t)worker;
        w.at.n = w.of = smaller(micro_most(setup), x->n - done);
        for (size_t i = 0; i < w.at.n; i++)
            picks[i] = (struct pick){.sample = (uint32_t)(x->first + done + i)};
        fault f = take_samples(&w, s, picks);
        if (f) {
            host_keep_first(&asked->first, f);
            return;
        }
        put_labels(&w, s, picks);
        ref_take(&w, 0, r->exam.n_steps);
        sum += w.loss * (double)w.at.n;
        x->hits += w.hits;
    }
    x->loss = x->n ? sum / (double)x->n : 0;
}

static fault ref_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct ref *r = (struct ref *)e;
    TRY(engine_check_exams(e));
    struct requests asked = {.ref = r, .exams = exams};
    for (size_t i = 0; i < n; i++)
        samples_expect(exams[i].on_train ? e->setup.train : e->setup.test, exams[i].first, exams[i].n,
                       micro_most(&e->setup));
    pool_run(r->host.pool, n, examine_one, &asked);
    return asked.first;
}

static void ref_describe(const struct engine *e, char *text, size_t n)
{
    const struct ref *r = (const struct ref *)e;
    snprintf(text, n, "ref: naive loops in fp32, %d threads, %.1f MiB for rows, %.1f MiB for activations",
             pool_size(r->host.pool), (double)host_row_bytes(&r->host) / 0x1p20,
             (double)r->memory.n_bytes / 0x1p20);
}

const struct engine_ops engine_ref = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .learn = ref_learn,
    .pass = ref_pass,
    .examine = ref_examine,
    .update = host_update,
    .mix = host_mix,
    .read = host_read,
    .write = host_write,
    .floats = host_floats,
    .exchange = host_exchange,
    .describe = ref_describe,
};
