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
    struct arena arena; /* owned: the plans */
    struct plan learn, exam;
    struct block memory;     /* owned: per worker the plan's memory, then the labels of a batch */
    size_t n_plan, n_worker; /* bytes */
    struct pick *picks;      /* owned: per worker a batch of an exam's */
};

static fault make_plans(struct ref *r)
{
    const struct engine_setup *s = &r->host.engine.setup;
    size_t *sizes = ARENA_NEW(&r->arena, size_t, s->graph->n_tensors);
    if (!sizes)
        return OUT_OF_MEMORY;
    ref_sizes(s->graph, s->batch, sizes);
    TRY(plan_make(s->graph, true, sizes, sizes, &r->arena, &r->learn));
    TRY(plan_make(s->graph, false, sizes, NULL, &r->arena, &r->exam));
    r->n_plan = r->learn.n_bytes > r->exam.n_bytes ? r->learn.n_bytes : r->exam.n_bytes;
    r->n_worker = round_up(r->n_plan + s->batch * sizeof(uint16_t), 64);
    r->picks = calloc(s->batch * (size_t)pool_size(r->host.pool), sizeof *r->picks);
    if (!r->picks)
        return OUT_OF_MEMORY;
    return block_open(r->n_worker * (size_t)pool_size(r->host.pool), &r->memory);
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
    f = make_plans(r);
    if (f) {
        ref_close(&r->host.engine);
        return f;
    }
    *out = &r->host.engine;
    return OK;
}

/* A pass in this worker's memory, with these picks as its input. */
static struct ref_pass start_pass(struct ref *r, const struct plan *plan, const struct samples *samples,
                                  size_t replica, int worker)
{
    (void)samples;
    assert(replica < r->host.engine.setup.n_replicas + r->host.engine.setup.n_spare && samples);
    unsigned char *memory = (unsigned char *)r->memory.bytes + r->n_worker * (size_t)worker;
    return (struct ref_pass){
        .graph = r->host.engine.setup.graph,
        .plan = plan,
        .params = host_row(&r->host, ROW_PARAMS, replica),
        .stats = host_row(&r->host, ROW_STATS, replica),
        .memory = memory,
        .labels = (uint16_t *)(memory + r->n_plan),
    };
}

/* The batch as numbers; the samples are let go. */
static fault put_samples(const struct ref_pass *p, const struct samples *s, const struct pick *picks)
{
    real *input = (real *)((unsigned char *)p->memory + p->plan->value_at[0]);
    struct held held;
    TRY(samples_hold(s, picks, p->batch, &held));
    for (size_t i = 0; i < p->batch; i++) {
        host_sample(s, samples_bytes(s, &held, i, picks[i]), picks[i],
                    input + i * shape_size(p->graph->input));
        p->labels[i] = s->labels[picks[i].sample];
    }
    samples_let_go(s, &held);
    return OK;
}

struct job {
    struct ref *ref;
    struct lesson *lessons;
    struct exam *exams;
    _Atomic(fault) first; /* that went wrong */
};

static void learn_one(void *ctx, size_t piece, int worker)
{
    struct job *job = ctx;
    struct ref *r = job->ref;
    struct lesson *l = &job->lessons[piece];
    const struct samples *s = r->host.engine.setup.train;
    struct ref_pass p = start_pass(r, &r->learn, s, l->replica, worker);
    p.batch = r->host.engine.setup.batch;
    p.grads = host_row(&r->host, ROW_GRADS, l->replica);
    p.seed = l->seed;
    p.lesson = l;
    fault f = put_samples(&p, s, l->picks);
    if (f) {
        host_keep_first(&job->first, f);
        return;
    }
    ref_run(&p);
    l->loss = p.loss;
    l->hits = p.hits;
}

static fault ref_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct ref *r = (struct ref *)e;
    struct job job = {.ref = r, .lessons = lessons};
    pool_run(r->host.pool, n, learn_one, &job);
    return job.first;
}

static void examine_one(void *ctx, size_t piece, int worker)
{
    struct job *job = ctx;
    struct ref *r = job->ref;
    struct exam *x = &job->exams[piece];
    const struct engine_setup *setup = &r->host.engine.setup;
    const struct samples *s = x->on_train ? setup->train : setup->test;
    struct ref_pass p = start_pass(r, &r->exam, s, x->replica, worker);
    assert(x->first + x->n <= s->n);
    double sum = 0;
    x->hits = 0;
    for (size_t done = 0; done < x->n; done += p.batch) {
        struct pick *picks = r->picks + setup->batch * (size_t)worker;
        p.batch = smaller(x->n - done, setup->batch);
        for (size_t i = 0; i < p.batch; i++)
            picks[i] = (struct pick){.sample = (uint32_t)(x->first + done + i)};
        fault f = put_samples(&p, s, picks);
        if (f) {
            host_keep_first(&job->first, f);
            return;
        }
        ref_run(&p);
        sum += p.loss * (double)p.batch;
        x->hits += p.hits;
    }
    x->loss = x->n ? sum / (double)x->n : 0;
}

static fault ref_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct ref *r = (struct ref *)e;
    struct job job = {.ref = r, .exams = exams};
    for (size_t i = 0; i < n; i++)
        samples_expect(exams[i].on_train ? e->setup.train : e->setup.test, exams[i].first, exams[i].n,
                       e->setup.batch);
    pool_run(r->host.pool, n, examine_one, &job);
    return job.first;
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
    .examine = ref_examine,
    .update = host_update,
    .mix = host_mix,
    .read = host_read,
    .write = host_write,
    .floats = host_floats,
    .exchange = host_exchange,
    .describe = ref_describe,
};
