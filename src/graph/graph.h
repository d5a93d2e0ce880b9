/* graph.h - a network as a fixed list of operations on named tensors.
 *
 *   layers (from the experiment or a named model) -> ops in order, shapes, parameters -> plan (plan.h)
 *
 * The graph knows shapes per sample only: the batch is the engine's business, as are devices and layouts. Tensors are
 * written once; tensor 0 is the input. Parameters of all ops form one flat span of floats in the order of `params`
 * (PyTorch's order and layout: weight before bias, [out][in / groups][kh][kw]); the running statistics of batchnorm form
 * another. Once it is built, passes (passes/passes.h) take out what need not be computed: a relu directly after a batchnorm or
 * an add, their only reader, becomes part of that op (`relu`).
 *
 * A graph may be a part of another (cut.h): then it has that one's ops, tensors and parameters in its own numbering, and
 * what crosses between parts goes through ops of two kinds, OP_SEND and OP_RECEIVE.
 */
#ifndef VECHE_GRAPH_GRAPH_H
#define VECHE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/fault.h"
#include "experiment/experiment.h"

struct shape {
    size_t c, h, w; /* a vector is {n, 1, 1} */
};

static inline size_t shape_size(struct shape s)
{
    return s.c * s.h * s.w;
}

/* The ops; a row for each says what its backward needs (see op_row). */
#define OPS(X)                                                                                               \
    X(OP_CONV, "conv")           /* kernel x kernel, stride, zero padding, groups; bias optional      */     \
    X(OP_BATCHNORM, "batchnorm") /* per channel over batch and pixels; affine; relu may be folded in */      \
    X(OP_LINEAR, "linear")       /* y = W x + b over the flattened sample; bias optional              */     \
    X(OP_ADD, "add")             /* y = a + b; relu may be folded in                                  */     \
    X(OP_CONCAT, "concat")       /* the channels of a, then those of b                                */     \
    X(OP_RELU, "relu")                                                                                       \
    X(OP_TANH, "tanh")                                                                                       \
    X(OP_SIGMOID, "sigmoid")                                                                                 \
    X(OP_MAXPOOL, "maxpool") /* padding counts as minus infinity; the first largest takes the gradient */    \
    X(OP_AVGPOOL, "avgpool") /* divides by kernel^2, padding counts as zeros (PyTorch's default)  */         \
    X(OP_GLOBALPOOL, "globalpool") /* mean over all pixels: c x h x w -> c                          */       \
    X(OP_SHORTCUT,                                                                                           \
      "shortcut") /* every stride-th pixel, new channels zero, half before half after (ResNet, option A) */  \
    X(OP_DROPOUT,                                                                                            \
      "dropout") /* learning: zero with chance `rate`, else times 1 / (1 - rate); exam: identity */          \
    X(OP_RESHAPE, "reshape") /* the same numbers in [c][h][w] order under another shape           */         \
    X(OP_SEND, "send")       /* parts: x goes to another part; its gradient comes from there      */         \
    X(OP_RECEIVE, "receive") /* parts: y comes from another part; its gradient goes back          */         \
    X(OP_CROSS_ENTROPY, "cross-entropy") /* mean over the batch of -log softmax(x)[label]           */       \
    X(OP_MSE, "mse")     /* mean over batch and classes of (x - onehot)^2                     */             \
    X(OP_HINGE, "hinge") /* mean over the batch of sum_{c != label} max(0, 1 - x_label + x_c) / classes */   \
    X(OP_LOGISTIC,                                                                                           \
      "logistic") /* mean over batch and classes of the logistic loss of x_c against c == label */

enum op_kind {
#define OP_ENUM(id, name) id,
    OPS(OP_ENUM)
#undef OP_ENUM
        N_OPS
};

struct op_row {
    const char *name;
    bool keeps_in;  /* backward reads the forward input             */
    bool keeps_out; /* backward reads the forward output            */
    bool is_loss;   /* the last op of every whole graph, and no other */
    bool is_fixed;  /* one function of its inputs wherever it stands: nothing learnt or random, no statistics */
};
extern const struct op_row op_rows[N_OPS];

struct op {
    enum op_kind kind;
    const char *name;      /* "layer1.0.conv1": unique in the graph                      */
    size_t number;         /* its place in the whole graph                               */
    size_t key;            /* what is random in it goes by this, which no pass changes   */
    int in[2];             /* tensors; in[1] is -1 unless kind is OP_ADD or OP_CONCAT; a receive reads nothing, in[0] is 0 */
    int out;               /* tensor; -1 for a loss and OP_SEND                          */
    bool relu;             /* OP_BATCHNORM, OP_ADD: max(0, .) of the result              */
    size_t kernel, stride, pad; /* conv and pools; shortcut: stride                      */
    size_t groups;         /* conv: part g of the outputs is made of part g of the inputs */
    double rate;           /* dropout                                                    */
    double eps, momentum;  /* batchnorm: running = (1 - momentum) running + momentum new (variance unbiased) */
    int weight, bias;      /* indices into params, -1 where there is none                */
    int mean, var;         /* indices into stats (batchnorm), else -1                    */
    int crossing;          /* OP_SEND, OP_RECEIVE: index into sends or receives, else -1 */
};

struct tensor {
    struct shape shape;
    int producer; /* the op that writes it; -1: the input                 */
    int whole;    /* which of the whole graph's it is                     */
    int n_uses;   /* how many op inputs read it                           */
    bool learns;  /* parameters lie before it, so its gradient is wanted  */
};

enum init_kind {
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING_NORMAL,
    INIT_UNIFORM_FAN_IN /* +-1/sqrt(fan_in): PyTorch's default */,
    INIT_XAVIER_UNIFORM
};

struct param {
    const char *name; /* "layer1.0.conv1.weight" */
    size_t number;    /* its place in the whole graph                       */
    size_t key;       /* its start goes by this, which no pass changes      */
    size_t dims[4];
    size_t n_dims;
    size_t offset, size; /* in floats, in the flat span */
    enum init_kind init;
    size_t fan_in, fan_out;
};

/* One tensor on its way between two parts, at one end of it. Its values lie among the part's inputs or outputs, its
 * gradient among theirs: one sample after the other, behind `at` floats for each sample. */
struct crossing {
    int op;         /* here: the OP_SEND or OP_RECEIVE               */
    size_t part;    /* at the other end ...                          */
    size_t other;   /* ... and its index among that one's crossings  */
    size_t size;    /* floats of a sample                            */
    size_t at;      /* several sends of a tensor share its values    */
    size_t at_grad; /* NOT_LEARNT: no gradient comes back            */
};
#define NOT_LEARNT ((size_t)-1)

/* An op that a pass has taken out. */
struct gone {
    int pass;            /* enum graph_pass (passes/passes.h)                                     */
    const char *name;    /* the op's                                                             */
    const char *instead; /* of the op whose output is read in place of its own; NULL: nobody read it */
};

struct graph {
    struct arena arena;        /* owned: everything below */
    const struct graph *whole; /* of which it is a part, borrowed; itself where it is whole */
    const char *name;
    struct shape input;
    size_t classes;
    struct op *ops;
    size_t n_ops;
    struct tensor *tensors;
    size_t n_tensors;
    struct param *params;
    size_t n_params;
    size_t size; /* floats in the flat parameter span */
    struct param *stats;
    size_t n_stats;
    size_t stats_size;                 /* floats in the flat span of statistics */
    struct crossing *sends, *receives; /* of a part */
    size_t n_sends, n_receives;
    size_t input_size, output_size;           /* floats of a sample that are received, and sent */
    size_t input_grad_size, output_grad_size; /* of their gradients, sent back, and received    */
    double flops_forward; /* multiply-adds count twice; one sample; convolutions and linear layers */
    double flops_learn;   /* forward, gradient of inputs (not of the graph's input) and of parameters */
    struct gone *gone;    /* of a whole graph: what passes took out, in turn */
    size_t n_gone;
};

/* Builds the network an experiment asks for, for samples of this shape and number of classes, and simplifies it by all
 * passes. A layer that does not fit the one before is a fault with its place and both shapes. */
fault graph_build(const struct model_settings *model, struct shape input, size_t classes, struct graph **out);
/* The same as its layers are written, before any pass. */
fault graph_build_as_written(const struct model_settings *model, struct shape input, size_t classes,
                             struct graph **out);
void graph_free(struct graph *g);

static inline bool graph_is_whole(const struct graph *g)
{
    return g->whole == g;
}

/* Whether any op reads the samples, and whether the loss is there. */
static inline bool graph_reads_samples(const struct graph *g)
{
    return g->tensors[0].n_uses > 0;
}
static inline bool graph_has_loss(const struct graph *g)
{
    return g->n_ops && op_rows[g->ops[g->n_ops - 1].kind].is_loss;
}

/* Fills the parameters (g->size floats) and statistics (mean 0, variance 1) as the network wants them at the start. */
void graph_init(const struct graph *g, uint64_t seed, float *params, float *stats);

/* One line a layer: name, kind, settings, output shape, parameters, and what passes left out; for `veche check`. */
fault graph_describe(const struct graph *g, FILE *to);

/* The floating-point operations of an op for one sample: forward, and backward for the gradient of its inputs (0 where no
 * parameters lie before them) and of its parameters. */
struct op_work {
    double forward, inputs, weights;
};
struct op_work graph_op_work(const struct graph *g, const struct op *op);

/* The share of a lesson's work that is done when the gradients of the floats [first, ...) are ready: the forward pass,
 * and the backward pass down to the op that owns `first`. */
double graph_work_until(const struct graph *g, size_t first);

extern const struct kinds model_kinds; /* logistic, mlp:..., lenet, fashion-cnn, resnet20 ... resnet110 */
extern const struct kinds layer_kinds; /* conv, batchnorm, linear, ..., residual, add, concat          */

#endif
