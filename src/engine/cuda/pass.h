/* pass.h - a planned graph as a list of launches.
 *
 *   plan (how much memory for so many seats) -> place (memory is there: fill in every address)
 *        -> run for n seats
 *
 * Nothing in a launch depends on which replicas learn: the seats' table says that. So a list that is run
 * again for as many seats is captured once and replayed as one CUDA graph.
 */
#ifndef VECHE_ENGINE_CUDA_PASS_H
#define VECHE_ENGINE_CUDA_PASS_H

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

struct pass {
    const struct graph *graph; /* borrowed */
    struct device *device;     /* borrowed */
    bool learning, bf16;
    size_t n_seats, batch;
    struct arena arena; /* owned: everything below */
    struct plan plan;
    size_t labels_at, outcomes_at, slopes_at, partial_at; /* in the memory, after the plan's */
    size_t *moments_at;                                   /* [op] */
    struct fused *fused;                                  /* NULL: every op by itself */
    size_t n_bytes;                                       /* of the memory */
    size_t n_table_bytes;
    CUdeviceptr tables; /* owned: what lasts from run to run; the memory may be others' in between */
    struct launch *launches;
    size_t n_launches;
    double traffic; /* bytes that the launches must move for one seat, each tensor once */
    struct replay replays[REPLAYS];
};

/* Which addresses a pass is to work with. */
struct pass_places {
    CUdeviceptr memory, seats, picks; /* picks 0: an exam */
    struct input inputs[2];
};

fault pass_plan(struct pass *p, struct device *device, const struct engine_setup *setup, bool learning,
                size_t n_seats, size_t batch);
fault pass_place(struct pass *p, const struct pass_places *places);
void pass_release(struct pass *p);

/* Runs all launches for the first n seats. Does not wait. */
fault pass_run(struct pass *p, size_t n);
/* One launch of the list by itself. */
fault pass_run_one(struct pass *p, size_t i, size_t n);

/* For fused.c. */
size_t pass_take(struct pass *p, size_t n_bytes);       /* the next stretch of memory */
size_t pass_take_table(struct pass *p, size_t n_bytes); /* of the tables, zeroed */
struct launch *pass_launch(struct pass *p, enum cuda_kernel kernel, size_t grid_x, unsigned threads,
                           size_t shared_bytes);

/* A tensor of one seat in bytes. */
size_t pass_tensor_bytes(const struct pass *p, int tensor);

/* For ops.c: adds one launch. */
void pass_add(struct pass *p, enum cuda_kernel kernel, size_t grid_x, size_t grid_y, unsigned threads,
              const struct call *call);

/* ops.c: adds the launches of one step. */
void ops_add(struct pass *p, const struct step *s, const struct call *call);
/* ops.c: bytes that the step must move for one seat. */
size_t ops_traffic(const struct pass *p, const struct step *s);
/* ops.c: bytes of scratch one seat needs for the sums of this op. */
size_t ops_scratch(const struct graph *g, const struct op *op, size_t batch, bool bf16);
/* ops.c: the most launches a step adds. */
enum { OPS_MOST_LAUNCHES = 6 };

static inline bool pass_is_half(const struct pass *p, int tensor)
{
    struct shape s = p->graph->tensors[tensor].shape;
    return p->bf16 && s.h * s.w > 1;
}

#endif
