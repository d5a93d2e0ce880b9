/* launches.h - a planned graph, or one pass of it, as a list of launches.
 *
 *   plan (how much memory for so many seats) -> place (memory is there: fill in every address)
 *        -> run for n seats
 *
 * Lists take turns in one piece of memory. What a micro-batch keeps from pass to pass has memory of its own: the shelf
 * of its replica and flight.
 *
 * Nothing in a launch depends on which replicas learn: the seats' table says that. So a list that is run
 * again for as many seats is captured once and replayed as one CUDA graph.
 */
#ifndef VECHE_ENGINE_CUDA_LAUNCHES_H
#define VECHE_ENGINE_CUDA_LAUNCHES_H

#include "base/arena.h"
#include "engine/cuda/call.h"
#include "engine/cuda/conv3.h"
#include "engine/cuda/store.h"
#include "graph/plan.h"

enum { REPLAYS = 16 };

struct launch {
    enum cuda_kernel kernel;
    unsigned grid_x, grid_y; /* grid_z is the number of seats */
    unsigned threads, shared_bytes;
    unsigned groups; /* not 0: blocks take these in turn, and grid_x follows from the number of seats */
    unsigned slots;  /* blocks that the device runs at a time; for groups */
    union {
        struct call call;
        struct gather_call gather;
        struct conv3_call conv3;
        struct prepare_call prepare;
        struct stretch_call stretch;
        struct fused_add_call add;
        struct fused_pool_call pool;
        struct exam_norm_call exam_norm;
    } args;
};

struct replay { /* a captured run of so many seats */
    size_t n_seats;
    unsigned seen;
    CUgraphExec graph; /* owned; NULL until it pays */
};

struct launches_wish { /* what a list is to be */
    enum plan_kind kind;
    enum pass_kind pass; /* of passes: which */
    size_t n_seats, batch;
};

struct launches {
    const struct graph *graph;        /* borrowed */
    const struct engine_setup *setup; /* borrowed */
    struct device *device;            /* borrowed */
    enum plan_kind kind;
    enum pass_kind pass;
    bool learning, bf16;
    size_t n_seats, batch;
    struct arena arena; /* owned: everything below */
    struct plan plan;   /* from n_kept on: a tensor of all seats, behind each other */
    size_t outcomes_at, slopes_at, partial_at; /* in the memory, after the plan's */
    size_t labels_at, *moments_at;             /* [op]; there, too, or on a shelf */
    struct fused *fused;                       /* NULL: every op by itself */
    size_t n_kept;                             /* bytes on a shelf */
    size_t n_bytes;                            /* of the memory */
    size_t n_table_bytes;
    CUdeviceptr tables; /* owned: what lasts from run to run; the memory may be others' in between */
    struct launch *launches;
    size_t n_launches;
    double traffic; /* bytes that the launches must move for one seat, each tensor once */
    struct replay replays[REPLAYS];
};

/* Which addresses a list is to work with. */
struct launch_places {
    CUdeviceptr memory, seats, picks; /* picks 0: an exam */
    struct input inputs[2];
    CUdeviceptr shelves; /* passes */
};

fault launches_plan(struct launches *p, struct device *device, const struct engine_setup *setup,
                    struct launches_wish wish);
fault launches_place(struct launches *p, const struct launch_places *places);
void launches_release(struct launches *p);

/* Runs all launches for the first n seats. Does not wait. */
fault launches_run(struct launches *p, size_t n);
/* One launch of the list by itself. */
fault launches_run_one(struct launches *p, size_t i, size_t n);

/* For fused.c. */
size_t launches_take(struct launches *p, size_t n_bytes);       /* the next stretch of memory */
size_t launches_take_table(struct launches *p, size_t n_bytes); /* of the tables, zeroed */
struct launch *launches_launch(struct launches *p, enum cuda_kernel kernel, size_t grid_x, unsigned threads,
                           size_t shared_bytes);

/* A tensor of one seat in bytes. */
size_t launches_tensor_bytes(const struct launches *p, int tensor);

/* For ops.c: adds one launch. */
void launches_add(struct launches *p, enum cuda_kernel kernel, size_t grid_x, size_t grid_y, unsigned threads,
              const struct call *call);

/* ops.c: adds the launches of one step. */
void ops_add(struct launches *p, const struct step *s, const struct call *call);
/* ops.c: bytes that the step must move for one seat. */
size_t ops_traffic(const struct launches *p, const struct step *s);
/* ops.c: bytes of scratch one seat needs for the sums of this op. */
size_t ops_scratch(const struct graph *g, const struct op *op, size_t batch, bool bf16);
/* ops.c: the most launches a step adds. */
enum { OPS_MOST_LAUNCHES = 6 };

static inline bool launches_are_a_pass(const struct launches *p)
{
    return p->kind == PLAN_PASSES || p->kind == PLAN_SPLIT_PASSES;
}

/* Whether the list begins with samples, or their labels alone. */
static inline bool launches_gather(const struct launches *p)
{
    bool begins = !launches_are_a_pass(p) || p->pass == PASS_FORWARD;
    return begins && (graph_reads_samples(p->graph) || graph_has_loss(p->graph));
}

static inline bool launches_is_half(const struct launches *p, int tensor)
{
    struct shape s = p->graph->tensors[tensor].shape;
    return p->bf16 && s.h * s.w > 1;
}

#endif
