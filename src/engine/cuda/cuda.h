/* cuda.h - the engine `cuda` as its own files see it: rows, samples, and lists of launches that take turns. */
#ifndef VECHE_ENGINE_CUDA_CUDA_H
#define VECHE_ENGINE_CUDA_CUDA_H

#include <assert.h>

#include "engine/cuda/launches.h"
#include "engine/cuda/tray.h"

enum { EXAM_BATCH = 64, EXAM_SEATS = 64 };
static_assert((int)EXAM_BATCH == (int)SAMPLES_AT_ONCE, "a piece of an exam is held at once");

/* The lists of launches. Micro-batches have two sizes at most, a larger and a smaller; each has its own lists. */
enum { SIZES = 2, STRETCHES = 3 };
enum {
    LIST_EXAM,
    LIST_LESSON,                     /* [size] */
    LIST_PASS = LIST_LESSON + SIZES, /* [size][stretch]: forward; backward, or inputs; weights */
    N_LISTS = LIST_PASS + SIZES * STRETCHES
};

struct cuda {
    struct engine engine; /* first */
    struct device device;
    struct store store;
    struct input inputs[2];       /* training and test samples on the device */
    CUdeviceptr sample_memory[2]; /* owned */
    size_t sample_bytes;
    struct tray tray; /* not open where samples lie in memory */
    struct {
        const struct samples *of;
        size_t first, n;
    } piece;                          /* of the exam that was seated last */
    struct launches lists[N_LISTS];   /* some are not there */
    size_t n_bytes;                   /* of the memory */
    CUdeviceptr memory, seats, picks; /* owned: of whichever list runs */
    size_t shelf_bytes;
    CUdeviceptr shelves;           /* owned: [replica][flight], what a micro-batch keeps from pass to pass */
    struct seat *seats_host;       /* owned, pinned: [most seats] */
    struct seat_pick *picks_host;  /* owned, pinned: [most seats][batch] */
    struct outcome *outcomes_host; /* owned, pinned: [most seats] */
};

static inline size_t cuda_shelves(const struct engine_setup *s)
{
    return s->n_replicas * s->flights;
}

/* 0: it is one of the larger micro-batches, 1: of the smaller. */
static inline int cuda_micro_size(const struct engine_setup *s, size_t micro)
{
    return micro_of(s, micro).n < micro_most(s);
}

static inline int cuda_pass_list(const struct engine_setup *s, enum pass_kind kind, size_t micro)
{
    int stretch = kind == PASS_FORWARD ? 0 : kind == PASS_WEIGHTS ? 2 : 1;
    return LIST_PASS + STRETCHES * cuda_micro_size(s, micro) + stretch;
}

/* seats.c: who takes which seat, and what came of it. With the device's context current. */
fault cuda_learn_all(struct cuda *c, struct lesson *lessons, size_t n);
fault cuda_pass_all(struct cuda *c, struct pass *passes, size_t n);
fault cuda_examine_all(struct cuda *c, struct exam *exams, size_t n);

#endif
