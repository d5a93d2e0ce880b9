/* program.h - a lesson (or an exam, or passes) as phases of jobs over chunks of samples.
 *
 *   graph -> units (ops with kernels and layouts) -> jobs -> phases -> buffers placed in one memory
 *
 * The batch is cut into chunks whose size follows from the graph and the batch alone. Within a phase every
 * chunk goes its own way through the phase's jobs; where samples meet (statistics of a batchnorm, a linear
 * layer that wants the whole batch) the phase ends. Jobs of another kind are cut into slices of weights or
 * outputs and run beside the chunks. Sums over chunks are made in the chunks' order when a phase ends, by
 * whoever runs the program.
 *
 * What a task computes depends on its chunk or slice only, so any number of workers gives the same bits.
 *
 * Passes are a program in stretches (plan.h), each a range of phases, run one by one. What lives in more than one stretch lies in
 * memory that belongs to the micro-batch; everything else in memory of whoever runs. The parameters are prepared anew for each.
 *
 * A part of a network is arranged, cut into chunks and given kernels as the whole would be, so that it has the whole's
 * bits. Where the whole folds an op into one that is now in another part, the same numbers are made in the same order.
 *
 * A buffer lives from the first phase that uses it to the last; two that never live in one phase may share
 * memory. One that is used in a single phase, chunk by chunk, exists once for each worker instead: it stays
 * in that core's cache.
 */
#ifndef VECHE_ENGINE_DNNL_PROGRAM_H
#define VECHE_ENGINE_DNNL_PROGRAM_H

#include "base/arena.h"
#include "base/pool.h"
#include "engine/dnnl/api.h"
#include "engine/dnnl/layout.h"
#include "engine/engine.h"
#include "graph/plan.h"

/* What one run of a program works on. */
struct frame {
    char *memory;        /* borrowed: program->n_bytes                                 */
    char *kept;          /* borrowed: program->n_kept, of this micro-batch             */
    char *const *locals; /* borrowed: for each worker program->local_bytes             */
    const float *params; /* the replica's rows, all borrowed                           */
    float *grads, *stats;
    float *gathered;    /* NULL, or where gradients are added when they are final */
    float *crossing[4]; /* of a part: inputs, outputs, gradients of outputs, of inputs */
    const struct samples *samples;
    const struct pick *picks; /* of these samples, which begin in their batch at ... */
    size_t first_sample;
    const struct held *held; /* the first `counted` of them; NULL: no sample is read */
    uint64_t seed;
    const struct lesson *lesson; /* who is told of gradients as they become final; NULL: an exam */
    size_t counted;              /* samples whose loss counts: the first so many */
    double loss;                 /* out: sum over the counted samples            */
    size_t hits;                 /* out                                          */
};

struct task {
    const struct program *program;
    struct frame *frame;
    int worker;
    size_t index;    /* of the chunk or slice    */
    size_t first, n; /* samples, where it is a chunk; the whole batch where it is a slice */
};

struct op_unit;
typedef void job_fn(const struct task *t, const struct op_unit *u);

enum job_kind {
    JOB_CHUNK, /* for each chunk of samples, in the order in which they were added */
    JOB_SLICE, /* beside the chunks, `n_slices` of them                            */
    JOB_AFTER  /* once, when the phase's tasks are done                            */
};

struct job {
    job_fn *run;
    const struct op_unit *unit;
    enum job_kind kind;
    int phase;
    size_t n_slices;
};

struct phase {                                      /* jobs of each kind lie together */
    size_t chunk_jobs, slice_jobs, after_jobs, end; /* first of each kind in program->jobs */
    size_t n_tasks;
    size_t final_from; /* floats of the gradient row from here on are final when the phase is done */
    size_t first_final, end_final; /* in program->finals: the ops whose gradients this phase makes final */
};

struct buffer {
    size_t sample_bytes; /* for each sample; or    */
    size_t n_bytes;      /* this much altogether   */
    int first, last;     /* phases; first > last: unused */
    bool is_local;       /* one for each worker */
    bool is_whole;       /* used by other than chunk jobs, so never local */
    bool is_prepared;    /* made from the parameters alone: every run makes it */
    bool is_kept;        /* lives in more than one stretch */
    size_t at;           /* offset */
};

#define NO_BUFFER (-1)
enum { FOREVER = 1 << 30 };

/* What our own convolutions do while they load and store, instead of the batchnorms next to them; see fold.c.
 */
struct folds {
    const struct op_unit *load; /* x is this batchnorm's output, made from its input at every reading */
    const struct op_unit *sums; /* the sums of y are for this batchnorm                               */
    bool is_applied, is_summed; /* in the batchnorm: a convolution does that part                     */
    /* in the batchnorm: the whole's convolution that would apply or sum it, but is in another part */
    const struct op *applied_behind, *summed_before;
};

/* One op of the graph as this engine sees it. */
struct op_unit {
    const struct op_maker *maker;
    const struct op *op;
    const struct program *program;
    struct layout in, out;   /* in: of the first input; both of an add lie alike     */
    int x[2], y;             /* buffers of values ...                                 */
    int dx[2], dy;           /* ... and gradients, or NO_BUFFER                       */
    bool wanted[2], adds[2]; /* as in struct step                                     */
    int g;                   /* add: where dy behind the relu lies                    */
    int prior[2];            /* where what is added to dx lies so far, where it adds  */
    int sum;                 /* where dx and prior are added for an op that does not itself, or NO_BUFFER */
    /* add: the batchnorm whose output goes nowhere else and is made here; batchnorm: that add */
    struct op_unit *fused;
    struct folds folds;
    int final_phase; /* the one that writes the gradients of its parameters, where it has any */
    void *own;       /* in the program's arena: what this kind of op needs besides */
};

struct program {
    struct arena arena; /* owned: everything but the kernels */
    const struct engine_setup *setup;
    struct onednn *onednn; /* borrowed */
    enum plan_kind kind;
    bool is_learning;
    size_t batch, chunk, n_chunks;
    enum format spatial;             /* how channels of tensors with pixels lie */
    enum number number;              /* of the same                             */
    struct plan plan;                /* the steps */
    struct layout *layouts;          /* per tensor */
    struct layout *layouts_of_whole; /* per tensor of the whole */
    struct op_unit *units;           /* per op     */
    int *values, *grads;             /* per tensor: buffers, or NO_BUFFER */
    int *now; /* per tensor, while building: where its gradient lies so far; an add lends its own to its
                 inputs */
    struct job *jobs;
    size_t n_jobs, most_jobs;
    struct phase *phases;
    int n_phases; /* while building: the current one */
    int last_phase;
    bool phase_has_jobs;
    int stretch[4];          /* where each begins: forward, backward, weights; the end */
    struct op_unit **finals; /* those with parameters, by final_phase */
    struct buffer *buffers;
    size_t n_buffers, most_buffers;
    int flat; /* a buffer for each worker: one sample or weight as floats in [c][h][w] order, see flat_reserve
               */
    int results; /* per chunk: struct result */
    size_t n_bytes, n_kept, local_bytes;
    bool is_full; /* memory ran out while building */
};

struct result {
    double loss;
    size_t hits;
};

/* Phase 0 holds what prepares the parameters (weights in other orders); an exam's pieces share it. */
enum { PHASE_PREPARE, PHASE_FIRST };

/* What the engine needs of programs; program_verbs_of has those for an instruction set. */
struct program_verbs {
    fault (*build)(const struct engine_setup *setup, struct onednn *onednn, enum plan_kind kind, size_t batch,
                   struct program *out);
    void (*release)(struct program *p);
    /* Runs phases [from, end), over the pool, or alone as `worker` when pool is NULL. */
    void (*run)(const struct program *p, struct frame *f, int from, int end, struct pool *pool, int worker);
};
const struct program_verbs *program_verbs_of(enum isa isa);

/* Inner steps of building: how every tensor lies, which ops do a part of their neighbours' work, where every
 * buffer lies. */
fault program_arrange(struct program *p);
void program_fold(struct program *p);
void program_place_buffers(struct program *p);

/* For the ops' files, while building. */
int buffer_add(struct program *p, size_t sample_bytes, size_t n_bytes);
void buffer_use(struct program *p, int buffer);       /* by a chunk job of this phase               */
void buffer_use_whole(struct program *p, int buffer); /* by slices or after-jobs of this phase      */
void buffer_use_next(struct program *p, int buffer);  /* by slices of the phase after this          */
void job_add(struct program *p, enum job_kind kind, int phase, size_t n_slices, job_fn *run,
             const struct op_unit *u);
#define job_chunk(p, run, u)          job_add(p, JOB_CHUNK, (p)->n_phases, 0, run, u)
#define job_slices(p, run, u, n)      job_add(p, JOB_SLICE, (p)->n_phases, n, run, u)
#define job_slices_next(p, run, u, n) job_add(p, JOB_SLICE, (p)->n_phases + 1, n, run, u)
#define job_after(p, run, u)          job_add(p, JOB_AFTER, (p)->n_phases, 0, run, u)
#define job_prepare(p, run, u)        job_add(p, JOB_SLICE, PHASE_PREPARE, 1, run, u)
void phase_end(struct program *p);
void flat_reserve(struct program *p, size_t n_bytes); /* p->flat is at least so large */

/* A buffer that lives through the whole run: partial sums, coefficients. */
int buffer_keep(struct program *p, size_t n_bytes);
/* The same, filled by the jobs of PHASE_PREPARE: weights. */
int buffer_prepare(struct program *p, size_t n_bytes);

/* Where a sample's numbers are for this task. */
static inline void *task_at(const struct task *t, int buffer, size_t sample)
{
    const struct buffer *b = &t->program->buffers[buffer];
    if (b->is_local)
        return t->frame->locals[t->worker] + b->at + (sample - t->first) * b->sample_bytes;
    return (b->is_kept ? t->frame->kept : t->frame->memory) + b->at + sample * b->sample_bytes;
}

static inline void *task_chunk(const struct task *t, int buffer)
{
    return task_at(t, buffer, t->first);
}

/* A buffer without samples. */
static inline void *task_kept(const struct task *t, int buffer)
{
    const struct buffer *b = &t->program->buffers[buffer];
    const struct frame *f = t->frame;
    return (b->is_local ? f->locals[t->worker] : b->is_kept ? f->kept : f->memory) + b->at;
}

/* Each kind of op: how its unit is set up and which jobs it adds. */
struct op_maker {
    fault (*prepare)(struct program *p, struct op_unit *u);
    void (*forward)(struct program *p, struct op_unit *u);
    void (*weights)(struct program *p,
                    struct op_unit *u); /* gradients of parameters; NULL: none, or backward's */
    void (*backward)(struct program *p, struct op_unit *u); /* gradients of inputs; NULL: nothing */
    bool takes_prior; /* backward adds to what lies in u->prior; for the others that is done behind them */
};
/* Winograd convolutions of our own, where conv_is_own says so. */
bool conv_is_own(const struct program *p, const struct op *op);
extern const struct op_maker conv_maker, conv_own_maker, batchnorm_maker, linear_maker, add_maker,
    pointwise_maker, maxpool_maker, avgpool_maker, globalpool_maker, shortcut_maker, concat_maker,
    dropout_maker, reshape_maker, send_maker, receive_maker, loss_maker;

#endif
