/* program.c - see program.h: building a program from a graph, and running it. */
#include "engine/dnnl/program.h"

#include <string.h>

#include "engine/dnnl/kernels.h"
#include "engine/host.h"

static const struct op_maker *makers[N_OPS] = {
    [OP_CONV] = &conv_maker,
    [OP_BATCHNORM] = &batchnorm_maker,
    [OP_LINEAR] = &linear_maker,
    [OP_ADD] = &add_maker,
    [OP_CONCAT] = &concat_maker,
    [OP_RELU] = &pointwise_maker,
    [OP_TANH] = &pointwise_maker,
    [OP_SIGMOID] = &pointwise_maker,
    [OP_MAXPOOL] = &maxpool_maker,
    [OP_AVGPOOL] = &avgpool_maker,
    [OP_GLOBALPOOL] = &globalpool_maker,
    [OP_SHORTCUT] = &shortcut_maker,
    [OP_DROPOUT] = &dropout_maker,
    [OP_RESHAPE] = &reshape_maker,
    [OP_SEND] = &send_maker,
    [OP_RECEIVE] = &receive_maker,
    [OP_CROSS_ENTROPY] = &loss_maker,
    [OP_MSE] = &loss_maker,
    [OP_HINGE] = &loss_maker,
    [OP_LOGISTIC] = &loss_maker,
};

int buffer_add(struct program *p, size_t sample_bytes, size_t n_bytes)
{
    if (p->n_buffers == p->most_buffers) {
        size_t most = p->most_buffers ? 2 * p->most_buffers : 64;
        struct buffer *more = ARENA_NEW(&p->arena, struct buffer, most);
        if (!more) {
            p->is_full = true;
            return 0;
        }
        if (p->n_buffers)
            memcpy(more, p->buffers, p->n_buffers * sizeof *more);
        p->buffers = more;
        p->most_buffers = most;
    }
    p->buffers[p->n_buffers] =
        (struct buffer){.sample_bytes = sample_bytes, .n_bytes = n_bytes, .first = FOREVER, .last = -1};
    return (int)p->n_buffers++;
}

int buffer_keep(struct program *p, size_t n_bytes)
{
    int b = buffer_add(p, 0, n_bytes);
    if (!p->is_full) {
        p->buffers[b].first = PHASE_PREPARE;
        p->buffers[b].last = FOREVER;
        p->buffers[b].is_whole = true;
    }
    return b;
}

int buffer_prepare(struct program *p, size_t n_bytes)
{
    int b = buffer_keep(p, n_bytes);
    if (!p->is_full)
        p->buffers[b].is_prepared = true;
    return b;
}

static void use_at(struct program *p, int buffer, int phase, bool is_whole)
{
    if (buffer == NO_BUFFER || p->is_full)
        return;
    struct buffer *b = &p->buffers[buffer];
    b->is_whole = b->is_whole || is_whole;
    if (b->first > phase)
        b->first = phase;
    if (b->last < phase)
        b->last = phase;
}

void buffer_use(struct program *p, int buffer)
{
    use_at(p, buffer, p->n_phases, false);
}

void buffer_use_whole(struct program *p, int buffer)
{
    use_at(p, buffer, p->n_phases, true);
}

void buffer_use_next(struct program *p, int buffer)
{
    use_at(p, buffer, p->n_phases + 1, true);
}

void flat_reserve(struct program *p, size_t n_bytes)
{
    if (p->buffers[p->flat].n_bytes < n_bytes)
        p->buffers[p->flat].n_bytes = n_bytes;
}

void job_add(struct program *p, enum job_kind kind, int phase, size_t n_slices, job_fn *run,
             const struct op_unit *u)
{
    if (p->n_jobs == p->most_jobs) {
        size_t most = p->most_jobs ? 2 * p->most_jobs : 64;
        struct job *more = ARENA_NEW(&p->arena, struct job, most);
        if (!more) {
            p->is_full = true;
            return;
        }
        if (p->n_jobs)
            memcpy(more, p->jobs, p->n_jobs * sizeof *more);
        p->jobs = more;
        p->most_jobs = most;
    }
    p->jobs[p->n_jobs++] = (struct job){run, u, kind, phase, n_slices};
    if (phase == p->n_phases)
        p->phase_has_jobs = true;
    if (phase > p->last_phase)
        p->last_phase = phase;
}

void phase_end(struct program *p)
{
    p->n_phases += p->phase_has_jobs;
    p->phase_has_jobs = false;
}

/* Those that do not count are the last one again. */
static void take_sample(const struct frame *f, size_t i, float *out)
{
    const uint8_t *bytes =
        samples_bytes(f->samples, f->held, i < f->counted ? i : f->counted - 1, f->picks[i]);
    host_sample(f->samples, bytes, f->picks[i], out);
}

/* The pictures of a chunk, from bytes to the order in which the first layer reads them. */
static void gather(const struct task *t, const struct op_unit *u)
{
    (void)u;
    const struct program *p = t->program;
    const struct layout *l = &p->layouts[0];
    float *flat = task_kept(t, p->flat);
    for (size_t i = t->first; i < t->first + t->n; i++) {
        void *sample = task_at(t, p->values[0], i);
        if (layout_is_flat(l)) {
            take_sample(t->frame, i, sample);
        } else {
            take_sample(t->frame, i, flat);
            layout_pack(l, flat, sample);
        }
    }
}

static void collect_results(const struct task *t, const struct op_unit *u)
{
    (void)u;
    const struct result *r = task_kept(t, t->program->results);
    t->frame->loss = 0;
    t->frame->hits = 0;
    for (size_t i = 0; i < t->program->n_chunks; i++) {
        t->frame->loss += r[i].loss;
        t->frame->hits += r[i].hits;
    }
}

static bool tensor_learns(const struct program *p, int tensor)
{
    for (size_t i = p->plan.n_forward; i < p->plan.n_steps; i++) {
        const struct step *s = &p->plan.steps[i];
        const struct op *op = &p->setup->graph->ops[s->op];
        if ((s->wanted[0] && op->in[0] == tensor) || (s->wanted[1] && op->in[1] == tensor))
            return true;
    }
    return false;
}

static fault make_buffers(struct program *p)
{
    const struct graph *g = p->setup->graph;
    p->values = ARENA_NEW(&p->arena, int, g->n_tensors);
    p->grads = ARENA_NEW(&p->arena, int, g->n_tensors);
    p->now = ARENA_NEW(&p->arena, int, g->n_tensors);
    if (!p->values || !p->grads || !p->now)
        return OUT_OF_MEMORY;
    p->flat = buffer_add(p, 0, 0);
    if (p->is_full)
        return OUT_OF_MEMORY;
    p->buffers[p->flat].first = PHASE_PREPARE;
    p->buffers[p->flat].last = FOREVER;
    p->buffers[p->flat].is_local = true;
    p->results = buffer_keep(p, p->n_chunks * sizeof(struct result));
    for (size_t t = 0; t < g->n_tensors; t++) {
        size_t n_bytes = layout_sample_bytes(&p->layouts[t]);
        p->values[t] = buffer_add(p, n_bytes, 0);
        p->grads[t] = tensor_learns(p, (int)t) ? buffer_add(p, n_bytes, 0) : NO_BUFFER;
        p->now[t] = p->grads[t];
        flat_reserve(p, shape_size(g->tensors[t].shape) * sizeof(float));
    }
    return OK;
}

static void unit_init(struct program *p, size_t index)
{
    const struct graph *g = p->setup->graph;
    const struct op *op = &g->ops[index];
    struct op_unit *u = &p->units[index];
    *u = (struct op_unit){.op = op,
                          .program = p,
                          .x = {NO_BUFFER, NO_BUFFER},
                          .y = NO_BUFFER,
                          .dx = {NO_BUFFER, NO_BUFFER},
                          .prior = {NO_BUFFER, NO_BUFFER},
                          .sum = NO_BUFFER,
                       .dy = NO_BUFFER};
    u->in = p->layouts[op->in[0]];
    for (int k = 0; k < 2 && op->in[k] >= 0; k++)
        u->x[k] = p->values[op->in[k]];
    if (op->out >= 0) {
        u->out = p->layouts[op->out];
        u->y = p->values[op->out];
        u->dy = p->grads[op->out];
    }
    for (size_t i = p->plan.n_forward; i < p->plan.n_inputs; i++) {
        const struct step *s = &p->plan.steps[i];
        for (int k = 0; k < 2 && s->op == (int)index; k++) {
            u->wanted[k] = s->wanted[k];
            u->adds[k] = s->adds[k];
            u->dx[k] = s->wanted[k] ? p->grads[op->in[k]] : NO_BUFFER;
        }
    }
    u->maker = makers[op->kind];
    if (op->kind == OP_CONV && conv_is_own(p, &g->whole->ops[op->number]))
        u->maker = &conv_own_maker;
    if (u->adds[0] && !u->maker->takes_prior) {
        u->sum = u->dx[0];
        u->dx[0] = buffer_add(p, layout_sample_bytes(&u->in), 0);
    }
}

static fault make_units(struct program *p)
{
    const struct graph *g = p->setup->graph;
    p->units = ARENA_NEW(&p->arena, struct op_unit, g->n_ops);
    if (!p->units)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_ops; i++)
        unit_init(p, i);
    program_fold(p);
    for (size_t i = 0; i < g->n_ops; i++)
        if (p->units[i].maker->prepare) {
            fault f = p->units[i].maker->prepare(p, &p->units[i]);
            if (f)
                return fault_before(f, "layer '%s': ", g->ops[i].name);
        }
    return OK;
}

static void add_prior_chunk(const struct task *t, const struct op_unit *u)
{
    add_two(&u->in, t->n, task_chunk(t, u->prior[0]), task_chunk(t, u->dx[0]), task_chunk(t, u->sum));
}

static void add_prior(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->prior[0]);
    buffer_use(p, u->dx[0]);
    buffer_use(p, u->sum);
    job_chunk(p, add_prior_chunk, u);
}

/* Where the gradients lie that this op reads and makes. */
static void find_gradients(struct program *p, struct op_unit *u)
{
    if (u->op->out >= 0)
        u->dy = p->now[u->op->out];
    for (int k = 0; k < 2; k++) {
        u->prior[k] = u->adds[k] ? p->now[u->op->in[k]] : NO_BUFFER;
        if (u->wanted[k])
            p->now[u->op->in[k]] = u->sum == NO_BUFFER ? u->dx[k] : u->sum;
    }
}

static void make_backward(struct program *p, struct op_unit *u, const struct step *s)
{
    bool at_end = p->kind == PLAN_SPLIT_PASSES && (size_t)(s - p->plan.steps) >= p->plan.n_inputs;
    if (!at_end)
        find_gradients(p, u);
    if (s->weights && u->maker->weights)
        u->maker->weights(p, u);
    if (at_end)
        return;
    if (u->maker->backward)
        u->maker->backward(p, u);
    if (u->sum != NO_BUFFER)
        add_prior(p, u);
}

/* In passes a stretch ends behind all that its jobs left to the phase after theirs. */
static void stretch_end(struct program *p, int next)
{
    if (p->kind >= PLAN_PASSES) {
        p->n_phases = p->last_phase + 1;
        p->phase_has_jobs = false;
    }
    p->stretch[next] = p->n_phases;
}

static void make_jobs(struct program *p)
{
    const struct graph *g = p->setup->graph;
    p->n_phases = p->stretch[0] = PHASE_FIRST;
    if (graph_reads_samples(g)) {
        buffer_use(p, p->values[0]);
        job_chunk(p, gather, NULL);
    }
    for (size_t i = 0; i < p->plan.n_forward; i++)
        p->units[p->plan.steps[i].op].maker->forward(p, &p->units[p->plan.steps[i].op]);
    if (graph_has_loss(g))
        job_after(p, collect_results, NULL);
    stretch_end(p, 1);
    for (size_t i = p->plan.n_forward; i < p->plan.n_steps; i++) {
        if (i == p->plan.n_inputs)
            stretch_end(p, 2);
        make_backward(p, &p->units[p->plan.steps[i].op], &p->plan.steps[i]);
    }
    if (p->plan.n_inputs == p->plan.n_steps)
        stretch_end(p, 2);
    p->n_phases = p->stretch[3] = p->last_phase + 1;
    if (p->n_phases < p->stretch[2])
        p->n_phases = p->stretch[3] = p->stretch[2];
}

/* Where the floats end whose gradients are written in a later phase. */
static size_t final_from(const struct program *p, int phase)
{
    const struct graph *g = p->setup->graph;
    size_t from = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        size_t end = op_floats_end(g, &g->ops[i]);
        if (p->units[i].final_phase > phase && end > from)
            from = end;
    }
    return from;
}

/* The ops with parameters, in the order in which their gradients become final. */
static fault list_finals(struct program *p)
{
    size_t n = 0;
    p->finals = ARENA_NEW(&p->arena, struct op_unit *, p->setup->graph->n_ops);
    if (!p->finals)
        return OUT_OF_MEMORY;
    for (int i = 0; i < p->n_phases; i++) {
        p->phases[i].first_final = n;
        for (size_t k = 0; k < p->setup->graph->n_ops; k++)
            if (p->units[k].op->weight >= 0 && p->units[k].final_phase == i && i > 0)
                p->finals[n++] = &p->units[k];
        p->phases[i].end_final = n;
    }
    return OK;
}

/* Puts the jobs of a phase, and in it of a kind, side by side, otherwise in the order in which they were
 * added. */
static fault make_phases(struct program *p)
{
    struct job *sorted = ARENA_NEW(&p->arena, struct job, p->n_jobs);
    p->phases = ARENA_NEW(&p->arena, struct phase, p->n_phases);
    if (!sorted || !p->phases)
        return OUT_OF_MEMORY;
    size_t n = 0;
    for (int i = 0; i < p->n_phases; i++) {
        struct phase *phase = &p->phases[i];
        size_t *starts[] = {&phase->chunk_jobs, &phase->slice_jobs, &phase->after_jobs};
        for (int kind = JOB_CHUNK; kind <= JOB_AFTER; kind++) {
            *starts[kind] = n;
            for (size_t k = 0; k < p->n_jobs; k++)
                if (p->jobs[k].phase == i && (int)p->jobs[k].kind == kind) {
                    sorted[n++] = p->jobs[k];
                    phase->n_tasks += p->jobs[k].n_slices;
                }
        }
        phase->end = n;
        phase->final_from = final_from(p, i);
        if (phase->slice_jobs > phase->chunk_jobs)
            phase->n_tasks += p->n_chunks;
    }
    p->jobs = sorted;
    return list_finals(p);
}

static fault build(struct program *p)
{
    const struct graph *g = p->setup->graph;
    size_t *no_bytes = ARENA_NEW(&p->arena, size_t, g->n_tensors); /* only the steps are asked for */
    if (!no_bytes)
        return OUT_OF_MEMORY;
    TRY(plan_make(g, p->kind, no_bytes, no_bytes, &p->arena, &p->plan));
    TRY(program_arrange(p));
    TRY(make_buffers(p));
    TRY(make_units(p));
    make_jobs(p);
    if (!p->is_full)
        program_place_buffers(p);
    if (p->is_full)
        return OUT_OF_MEMORY;
    return make_phases(p);
}

static void program_release(struct program *p)
{
    arena_release(&p->arena);
}

static fault program_build(const struct engine_setup *setup, struct onednn *onednn, enum plan_kind kind,
                           size_t batch, struct program *out)
{
    *out = (struct program){.setup = setup,
                            .onednn = onednn,
                            .kind = kind,
                            .is_learning = kind != PLAN_EXAM,
                            .batch = batch,
                            .number = setup->precision == PRECISION_BF16 ? NUMBER_BF16 : NUMBER_F32};
    fault f = build(out);
    if (f)
        program_release(out);
    return f;
}

struct run {
    const struct program *program;
    const struct phase *phase;
    struct frame *frame;
};

static void run_job(const struct task *t, size_t index)
{
    const struct job *job = &t->program->jobs[index];
    job->run(t, job->unit);
}

static void run_task(void *ctx, size_t piece, int worker)
{
    const struct run *r = ctx;
    const struct program *p = r->program;
    struct task t = {.program = p, .frame = r->frame, .worker = worker};
    onednn_threads(1);
    if (r->phase->slice_jobs > r->phase->chunk_jobs) {
        if (piece < p->n_chunks) {
            t.index = piece;
            t.first = piece * p->chunk;
            t.n = p->batch - t.first < p->chunk ? p->batch - t.first : p->chunk;
            for (size_t i = r->phase->chunk_jobs; i < r->phase->slice_jobs; i++)
                run_job(&t, i);
            return;
        }
        piece -= p->n_chunks;
    }
    size_t job = r->phase->slice_jobs;
    for (; piece >= p->jobs[job].n_slices; job++)
        piece -= p->jobs[job].n_slices;
    t.index = piece;
    t.n = p->batch;
    run_job(&t, job);
}

static void gather_param(const struct program *p, const struct frame *f, int param)
{
    const struct param *q = &p->setup->graph->params[param >= 0 ? param : 0];
    const float *more = f->grads + q->offset;
    float *sum = f->gathered + q->offset;
    for (size_t i = 0; param >= 0 && i < q->size; i++)
        sum[i] += more[i];
}

static void gather_finals(const struct program *p, const struct frame *f, const struct phase *phase)
{
    for (size_t i = phase->first_final; i < phase->end_final; i++) {
        gather_param(p, f, p->finals[i]->op->weight);
        gather_param(p, f, p->finals[i]->op->bias);
    }
}

static void program_run(const struct program *p, struct frame *f, int from, int end, struct pool *pool,
                        int worker)
{
    size_t told = lesson_untold(p->setup->graph);
    for (int i = from; i < end; i++) {
        struct run r = {p, &p->phases[i], f};
        if (pool)
            pool_run(pool, r.phase->n_tasks, run_task, &r);
        else
            for (size_t piece = 0; piece < r.phase->n_tasks; piece++)
                run_task(&r, piece, worker);
        struct task t = {.program = p, .frame = f, .worker = worker, .n = p->batch};
        for (size_t k = r.phase->after_jobs; k < r.phase->end; k++)
            run_job(&t, k);
        if (f->gathered)
            gather_finals(p, f, r.phase);
        if (f->lesson)
            lesson_tell(f->lesson, r.phase->final_from, &told);
    }
}

extern const struct program_verbs FOR_ISA(program_verbs);
const struct program_verbs FOR_ISA(program_verbs) = {program_build, program_release, program_run};
