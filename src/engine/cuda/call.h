/* call.h - what the host tells a kernel; read by C and by CUDA.
 *
 * Lessons that run together sit in *seats*: seat i holds one replica's batch. Tensors are stacked over the
 * seats, [seat][sample][h][w][c], in fp32 or bf16; parameters, gradients and statistics lie in the replicas'
 * rows. A kernel finds its seat in blockIdx.z and the rows of the seat's replica in `seats`, so the same
 * launches serve any replicas. A pass takes a seat, too; what its micro-batch keeps from pass to pass lies on a
 * shelf, one for each replica and flight.
 */
#ifndef VECHE_ENGINE_CUDA_CALL_H
#define VECHE_ENGINE_CUDA_CALL_H

#include <stdint.h>

enum { CUDA_CHANNELS = 16 }; /* of samples; as data.h has it */
enum { TILE = 4096 };        /* sums of a block in multiply.cuh and patch.cu */

/* In shared memory a factor's tile lies as [row][k], or as [k][row] where rows lead. A piece of k has 64 bytes
 * in either kind of numbers; rows are padded so that loads meet no bank twice. */
enum { PIECE_BYTES = 64, ROW_BYTES = PIECE_BYTES + 16, LEAD_PAD = 8 };

struct seat {
    float *params, *grads, *stats; /* the replica's rows */
    /* What crosses, of this flight, in the rows of a part; NULL where nothing does. */
    float *inputs, *outputs, *output_grads, *input_grads;
    uint64_t seed;    /* dropout */
    uint32_t counted; /* samples that count: all but in the last piece of an exam */
    uint32_t source;  /* of the samples: 0 those of training, 1 those of the test */
    uint32_t first;   /* exam: its samples are first, first + 1, ...; else where they begin in the batch */
    uint32_t adds;    /* gradients are added to those in the row, else they overwrite them */
    uint64_t shelf;   /* of a pass: where its shelf begins, in bytes */
};

struct outcome { /* of one seat */
    double loss; /* the sum over the counted samples */
    uint64_t hits;
};

struct seat_pick { /* struct pick, as the device reads it */
    uint32_t sample;
    int8_t flip, dy, dx, unused;
};

struct dims {
    uint32_t c, h, w;
};

/* One stacked tensor, or NULL. */
struct numbers {
    void *at;
    uint16_t half;     /* bf16, else fp32 */
    uint16_t adds;     /* a gradient that is added to what is there */
    uint32_t on_shelf; /* on the seats' shelves */
};

struct input { /* samples as bytes, [n][c][h][w] */
    const uint8_t *pixels;
    const uint16_t *labels;
    float mean[CUDA_CHANNELS], deviation[CUDA_CHANNELS];
};

/* No parameter of this kind. */
#define CUDA_NONE UINT64_MAX

/* Everything a step of one op may need; what does not concern it is zero. */
struct call {
    const struct seat *seats;
    uint32_t op;        /* its number in the whole graph */
    uint32_t batch, of; /* samples here, and in the batch of which they may be a few */
    uint32_t learning;
    uint32_t weights; /* backward: the gradients of its parameters are made */
    struct dims in, out; /* in: of x[0] */
    uint32_t kernel, stride, pad, groups, relu;
    double rate, eps, momentum;
    struct numbers x[2], y, dy, dx[2];
    uint64_t weight, bias, mean, var; /* where they begin in a row, or CUDA_NONE */
    uint64_t values_at, grads_at;     /* send, receive: where its values and gradients begin in the seat's */
    struct numbers moments;           /* batchnorm: [seat][2][c]: mean, 1 / sigma */
    float *slopes;                    /* batchnorm's backward: [seat][2][c]: d bias, d weight, both / m */
    void *partial;                    /* scratch for sums that are split: fixed places, added in order */
    uint32_t splits;
    struct numbers labels;    /* [seat][batch], of 16 bits */
    struct outcome *outcomes; /* [seat] */
};

/* The first step of every list of launches: bytes to numbers. */
struct gather_call {
    const struct seat *seats;
    const struct seat_pick *picks; /* [seat][of]; NULL: in order, from the seat's first */
    struct input inputs[2];        /* by the seat's source */
    struct dims in;
    uint32_t batch, of;    /* samples here, and in the batch of which they may be a few */
    uint32_t filled;       /* channels of x: those after the samples' own are zeros */
    struct numbers x;      /* nowhere: only the labels are wanted */
    struct numbers labels; /* [seat][batch], of 16 bits */
};

/* One replica's optimiser step over [first, end). What the numbers mean is the optimiser's business. */
enum { STEP_NUMBERS = 10 };
struct step_entry {
    uint64_t first, end;
    float *params, *slot[2];
    const float *grads;
    float number[STEP_NUMBERS];
};

/* One weighted sum of rows over [first, end). */
struct blend_entry {
    uint64_t first, end;
    float *into, *also; /* also may be NULL */
    uint32_t first_term, n_terms;
};

struct blend_term {
    const float *row;
    float weight;
    uint32_t unused;
};

/* A few sums that go along with the launch instead of being sent before it. */
enum { FEW_BLENDS = 16, FEW_TERMS = 128 };
struct few_blends {
    struct blend_entry entries[FEW_BLENDS];
    struct blend_term terms[FEW_TERMS];
};

#endif
