/* api.h - the few things we ask of oneDNN 2.x or 3.x, in our own words.
 *
 * A kernel is one compiled primitive together with the memory objects that every worker needs to run it, so
 * that running is setting a few pointers. Everything is compiled for one thread and run on one thread: the
 * parallelism is ours.
 *
 * Kernels belong to the `struct onednn` and die with it.
 */
#ifndef VECHE_ENGINE_DNNL_API_H
#define VECHE_ENGINE_DNNL_API_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

enum number { NUMBER_F32, NUMBER_BF16 };

static inline size_t number_size(enum number n)
{
    return n == NUMBER_F32 ? 4 : 2;
}

/* How the channels of one sample lie: [c][h][w], [h][w][c], [c/8][h][w][8], [c/16][h][w][16]. */
enum format { FORMAT_PLAIN, FORMAT_LAST, FORMAT_BLOCK8, FORMAT_BLOCK16, FORMAT_ANY };

struct onednn;
struct kernel;

fault onednn_open(int n_workers, struct onednn **out);
void onednn_close(struct onednn *d);
/* Gives every worker its scratch memory; after the last kernel is made and before the first is run. */
fault onednn_ready(struct onednn *d);
size_t onednn_scratch_bytes(const struct onednn *d); /* of one worker */
void onednn_describe(char *text, size_t n);          /* version and instruction set */

/* The setting of OpenMP on the calling thread: 1 while it calls oneDNN. Returns what it was before. */
int onednn_threads(int n);

struct conv_shape {
    size_t n; /* samples */
    size_t c_in, h_in, w_in, c_out, h_out, w_out;
    size_t kernel, stride, pad, groups;
    bool bias;
    enum number number;
    enum format in, out; /* in: FORMAT_ANY to let oneDNN choose, see kernel_format */
};

/* What a convolution computes and the order of its arguments in kernel_run. Weights and their gradient
 * (always fp32) lie as oneDNN likes, see kernel_pack. */
enum conv_work {
    CONV_FORWARD, /* x, weights, y, bias  */
    CONV_DATA,    /* dx, weights, dy      */
    CONV_WEIGHTS, /* x, dweights, dy, dbias */
};
enum { ARG_WEIGHTS = 1, MOST_ARGS = 5 };

/* FAULT_ENGINE where oneDNN has no such kernel; with `winograd` that is common. `like`: a kernel of the same
 * kind whose order of weights is to be kept, or NULL. */
fault kernel_conv(struct onednn *d, const struct conv_shape *s, enum conv_work work, bool winograd,
                  const struct kernel *like, struct kernel **out);

/* c [m x n] fp32 = a [m x k] times b [k x n], each with its row and column step in numbers. */
struct product_shape {
    size_t m, n, k;
    enum number number; /* of a and b */
    size_t a_row, a_column, b_row, b_column, c_row;
};
fault kernel_product(struct onednn *d, const struct product_shape *s,
                     struct kernel **out); /* args: a, b, c */

/* Between fp32 weights [out][in / groups][kernel][kernel] and the order an argument of another kernel has.
 */
fault kernel_pack(struct onednn *d, const struct kernel *of, struct kernel **out);   /* args: plain, packed */
fault kernel_unpack(struct onednn *d, const struct kernel *of, struct kernel **out); /* args: packed, plain */
size_t kernel_weight_bytes(const struct kernel *k);
bool kernel_same_weights(const struct kernel *a, const struct kernel *b);

/* The format oneDNN chose for the input of a convolution made with FORMAT_ANY, and a kernel that brings the
 * input there from another format. */
enum format kernel_format(const struct kernel *k);
size_t kernel_input_bytes(const struct kernel *k);
fault kernel_pack_input(struct onednn *d, const struct kernel *of, enum format from,
                        struct kernel **out); /* args: input, packed */

/* Whether oneDNN has only its naive loops for this, slower by a factor of hundreds; nothing is compiled. */
fault conv_is_naive(struct onednn *d, const struct conv_shape *s, enum conv_work work,
                    const struct kernel *like, bool *out);

void kernel_run(const struct kernel *k, int worker, void *const *args);

#endif
