/* engine.h - where numbers are computed: a planned graph and lessons in, gradients and losses out.
 *
 * An engine holds `n_replicas` copies of one network; each has the rows of one table (rows.h). It does not know who the
 * agents are: a lesson names a replica. Lessons handed over together run side by side.
 *
 * The same lesson on the same row gives the same bits, whatever else runs beside it and on however many threads.
 */
#ifndef VECHE_ENGINE_ENGINE_H
#define VECHE_ENGINE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fault.h"
#include "data/data.h"
#include "engine/rows.h"

struct engine_setup {
    const struct graph *graph;          /* borrowed for the engine's life */
    const struct samples *train, *test; /* borrowed for the engine's life */
    size_t n_replicas;
    size_t n_spare;       /* more rows of everything after the replicas': room for copies under way */
    struct rows rows;     /* of every replica: rows_of, and what a strategy keeps */
    size_t batch;         /* picks in every lesson */
    size_t micro_batches; /* a batch is computed in so many, one after the other; at most `batch`; 0 is 1 */
    size_t flights; /* passes in place of lessons: so many micro-batches under way at a time; 0: lessons */
    bool splits;    /* passes: backward comes in two, PASS_INPUTS and PASS_WEIGHTS */
    enum precision precision;
    int threads;  /* 0: one for each core */
    enum isa isa; /* of our own loops, no better than this processor's; mostly ISA_BEST */
    const struct optim_settings *optim; /* borrowed; NULL: the engine only computes gradients */
    bool rows_on_host; /* the engine has `floats`, and should have them where other processes can map them */
    size_t device;     /* which of the machine's, for engines that have one; counted round and round */
};

/* One replica learns from one batch: its gradient row is overwritten, its statistics row moves. The batch is cut into micro-batches
 * (micro_of): each makes a gradient of its own, which are added in their order.
 *
 * While that goes on `ready` (NULL: nobody asks) is called whenever the floats [first, end of the row) of the gradients
 * have become final, as the pass back goes from the last layer to the first. It is called by the thread that runs the
 * lesson, which waits for it: it should be short. All that other threads computed of these floats happened before the
 * call. `first` falls from call to call; the last call is with 0, before learn returns. After a fault it may not come. */
struct lesson {
    size_t replica;
    const struct pick *picks; /* setup.batch of them, from the training samples                  */
    uint64_t seed; /* dropout: rng_hash(rng_hash(seed, op.key), element of the batch) >> 40 < rate * 2^24 drops */
    double loss;   /* out: mean over the batch                                        */
    size_t hits;   /* out: samples whose largest output is the label                  */
    void (*ready)(void *ctx, size_t first);
    void *ready_ctx; /* borrowed */
};

/* One replica's part of a network computes one micro-batch: forward, and later backward, while others may be under way. A
 * lesson of a whole network is its passes, forward and backward of the first micro-batch, of the second, ..., to the same bits.
 *
 *   PASS_FORWARD    reads ROW_INPUTS, makes ROW_OUTPUTS; moves statistics; the part with the loss gives loss and hits
 *   PASS_BACKWARD   reads ROW_OUTPUT_GRADS, makes ROW_INPUT_GRADS and the gradient
 *   PASS_INPUTS     the same without what only PASS_WEIGHTS makes: gradients of convolutions' and linear layers' weights
 *
 * Parameters must be the same in all passes of a micro-batch. */
enum pass_kind { PASS_FORWARD, PASS_BACKWARD, PASS_INPUTS, PASS_WEIGHTS };
struct pass {
    size_t replica;
    size_t flight; /* < setup.flights: the same from a micro-batch's first pass to its last */
    enum pass_kind kind;
    size_t micro;             /* which of the batch's */
    const struct pick *picks; /* setup.batch of them: of the whole batch */
    uint64_t seed;            /* of the lesson */
    bool adds;                /* backward: gradients are added to what is there; else they overwrite it */
    double loss; /* out: of this micro-batch's samples, divided by the batch; their sum is the lesson's */
    size_t hits; /* out */
};

/* One replica (or spare row, for parameters that nobody owns) is examined on samples [first, first + n) of the test set (or the training set), statistics as they
 * stand, nothing dropped, nothing changed. */
struct exam {
    size_t replica;
    bool on_train;
    size_t first, n;
    double loss; /* out: mean over the n samples */
    size_t hits; /* out */
};

/* As the end of a span of floats: the end of the row. */
#define TO_END ((size_t)-1)

/* One replica takes one optimiser step with its gradient row, or with the floats [first, end) of it. */
struct update {
    size_t replica;
    double lr;
    uint64_t t; /* this replica's steps so far, this one included: from 1 */
    size_t first, end;
};

/* The floats [first, end) of a row become a weighted sum, element by element and in the order of the addends. `also` (or
 * NO_ROW) receives the same. Float j + shift of an addend's row goes into float j of the sum: the row has to have it. No blend of
 * a call may read or write a row that another one writes; a blend may read the floats it writes, without a shift. */
#define NO_ROW ((size_t)-1)
struct addend {
    float weight;
    enum row row;
    size_t from; /* a replica, or a spare row, as `into` and `also` */
    ptrdiff_t shift;
};
struct blend {
    enum row row;
    size_t into, also;
    size_t first, end;
    const struct addend *addends;
    size_t n;
};

/* What a device does in one round of lessons and steps of all replicas, for those who measure it. */
enum { WORK_KERNELS = 64 };
struct engine_work {
    double bytes; /* the least that its memory has to move */
    double peak_bytes_per_s,
        peak_flops_per_s; /* ceilings, just measured: a copy; multiply-adds in this precision */
    struct work_kernel {
        const char *name;
        double ms; /* of all calls in the round */
        size_t calls;
    } kernels[WORK_KERNELS]; /* longest first */
    size_t n_kernels;
};

struct engine { /* the part all engines share; each embeds it first */
    const struct engine_ops *ops;
    struct engine_setup setup;
    const struct block *shared; /* all rows, in memory that other processes can map; NULL: nobody can */
    char aside[200];            /* why `auto` did not take a faster engine; mostly empty */
};

struct engine_ops {
    const char *name;    /* as written after `engine:` */
    bool gradients_late; /* no float of a gradient is told of before its lesson is over */

    /* May take seconds (kernels are chosen and compiled). FAULT_ENGINE where the graph, precision or machine is
     * beyond this engine. */
    fault (*open)(const struct engine_setup *setup, struct engine **out);
    void (*close)(struct engine *e);
    /* Whether this machine has what the engine needs; FAULT_ENGINE says what is missing. Optional: any machine does. */
    fault (*usable)(void);

    /* Each blocks until all are done. Replicas of one call are all different. Nothing is allocated. A fault leaves
     * losses and gradients undefined, parameters untouched. */
    fault (*learn)(struct engine *e, struct lesson *lessons, size_t n);
    fault (*pass)(struct engine *e, struct pass *passes, size_t n);
    fault (*examine)(struct engine *e, struct exam *exams, size_t n);
    fault (*update)(struct engine *e, const struct update *updates, size_t n);
    fault (*mix)(struct engine *e, const struct blend *blends, size_t n);

    /* Rows, of replicas or spare, to and from the host. `floats` has row_size floats. */
    fault (*read)(struct engine *e, enum row row, size_t replica, float *floats);
    fault (*write)(struct engine *e, enum row row, size_t replica, const float *floats);

    /* Where a row lies in this process's memory, aligned to 64 bytes; it stays there until it is exchanged. Optional, with
     * `exchange`: the rows lie on a device (mirror.h has them here all the same). */
    float *(*floats)(struct engine *e, enum row row, size_t replica);
    /* Two rows of a kind, replicas or spare, change places: no float moves. */
    void (*exchange)(struct engine *e, enum row row, size_t a, size_t b);

    /* Runs the last call's lessons again, kernel by kernel, and measures the device. Optional: an engine on the host has
     * no kernels to tell apart. Spoils gradients and statistics. */
    fault (*measure)(struct engine *e, struct engine_work *out);

    /* What numbers depend on beside our own loops: the library and its instruction set. Optional: the processor's alone. */
    void (*processor)(char *text, size_t n);

    /* One line for people: threads, instruction set, memory used for what. Caller's buffer. */
    void (*describe)(const struct engine *e, char *text, size_t n);
};

extern const struct engine_ops engine_ref;  /* naive loops: the judge                                  */
extern const struct engine_ops engine_null; /* right shapes, no work: to measure everything else       */
extern const struct engine_ops engine_dnnl; /* oneDNN; only where the build found it                   */
extern const struct engine_ops engine_cuda; /* NVIDIA GPUs; only where the build found CUDA            */

/* The rows after `engine.kind`; `auto` is the first that can be used: cuda, else dnnl, else ref. */
extern const struct kinds engine_kinds;

/* For engines: there is a replica and a batch, the rows are the network's, and the samples (or NULL) fit it and have no more
 * channels than the engine can normalise; a batch can be cut as asked, and a part has the rows of what crosses. */
fault engine_check(const struct engine_setup *s, size_t most_channels);
/* That an engine was opened for lessons; for such passes; that its graph has an end that can be examined. */
fault engine_check_lessons(const struct engine *e);
fault engine_check_exams(const struct engine *e);
fault engine_check_passes(const struct engine *e, const struct pass *passes, size_t n);

/* For engines, while a lesson runs. `told` begins as what is told of a row before anything is final (of an empty row 0
 * is told as well), and falls with what is told. */
static inline size_t lesson_untold(const struct graph *g)
{
    return g->size ? g->size : 1;
}
static inline void lesson_tell(const struct lesson *l, size_t first, size_t *told)
{
    if (!l->ready || first >= *told)
        return;
    *told = first;
    l->ready(l->ready_ctx, first);
}
/* For engines that make all gradients final at once. */
void lessons_tell(const struct lesson *lessons, size_t n);

/* Where the floats of an op's parameters end; 0: it has none. */
size_t op_floats_end(const struct graph *g, const struct op *op);

/* The samples of a micro-batch: [first, first + n) of the batch's. The larger ones come first; no two differ by more than one. */
struct micro {
    size_t first, n;
};
static inline size_t micro_batches(const struct engine_setup *setup)
{
    return setup->micro_batches ? setup->micro_batches : 1;
}
static inline struct micro micro_of(const struct engine_setup *setup, size_t micro)
{
    size_t n = setup->batch / micro_batches(setup), longer = setup->batch % micro_batches(setup);
    return (struct micro){micro * n + (micro < longer ? micro : longer), n + (micro < longer)};
}
/* The most samples in a micro-batch. */
static inline size_t micro_most(const struct engine_setup *setup)
{
    return micro_of(setup, 0).n;
}

/* Where a crossing's values or gradients lie in a row, from float to float. */
static inline size_t crossing_at(const struct engine_setup *setup, enum row row, size_t flight, size_t at)
{
    return setup->rows.of[row].size / setup->flights * flight + at * micro_most(setup);
}

/* Floats in a row; 0: there is no such row. */
static inline size_t row_size(const struct engine_setup *setup, enum row row)
{
    return setup->rows.of[row].size;
}

/* As people call it. */
static inline const char *row_name(const struct engine_setup *setup, enum row row)
{
    const char *name = setup->rows.of[row].name;
    return name ? name : "row that is not there";
}

/* The dot product of the floats [first, end) of a row and as many of another, from first + shift on (host_dot). Where rows lie on
 * a device they are read back into `room`, two rows' worth of floats; engines on the host need none. */
struct dot {
    size_t replica;
    enum row row, other;
    size_t first, end;
    ptrdiff_t shift;
};
fault engine_dot(struct engine *e, const struct dot *d, float *room, double *out);
/* So many floats of room. */
size_t engine_dot_room(const struct engine *e);

/* FAULT_ENGINE with the reason why this build or machine cannot use the engine a row names. */
fault engine_usable(const struct kind *kind);
/* The engine a row names, resolving `auto`. */
fault engine_choose(const struct kind *kind, const struct engine_ops **out);
/* Opens the engine an experiment's engine section names. `auto` passes over an engine whose device is not up to it
 * (full, say) and notes why in `aside`. */
fault engine_open(const struct kind *kind, const struct engine_setup *setup, struct engine **out);
/* The engine's own line, and what `aside` adds to it. */
void engine_describe(const struct engine *e, char *text, size_t n);
/* What it computes with: "AVX2", "oneDNN 2.6.3, AVX-512". Processors of which this differs may compute other last bits. */
void engine_processor(const struct engine *e, char *text, size_t n);
void engine_close(struct engine *e);

#endif
