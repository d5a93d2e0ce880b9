/* build.h - a graph while it grows: one call an op, each giving the tensor it writes.
 *
 * The builder remembers the first fault and from then on adds nothing, so a network reads as a plain list of
 * calls and is asked once, at the end, whether all went well.
 */
#ifndef VECHE_GRAPH_BUILD_H
#define VECHE_GRAPH_BUILD_H

#include "graph/graph.h"

struct conv_layer;
struct linear_layer;
struct batchnorm_layer;
struct pool_layer;

struct builder {
    struct graph *g;    /* borrowed */
    fault fault;        /* the first one; owned by the builder */
    struct place place; /* of what is being added, for faults  */
    size_t room_ops, room_tensors, room_params, room_stats;
};

/* Each takes the tensor x (and z) and gives a new one. `name` is kept, so it must live in the graph's arena
 * or be constant (see build_name). After a fault they give x back. */
int build_conv(struct builder *b, const char *name, int x, struct conv_layer s);
int build_batchnorm(struct builder *b, const char *name, int x, struct batchnorm_layer s);
int build_linear(struct builder *b, const char *name, int x,
                 struct linear_layer s); /* flattens x where it must */
int build_add(struct builder *b, const char *name, int x, int z);
int build_concat(struct builder *b, const char *name, int x, int z);
int build_pointwise(struct builder *b, enum op_kind kind, const char *name, int x); /* relu, tanh, sigmoid */
int build_pool(struct builder *b, enum op_kind kind, const char *name, int x, struct pool_layer s);
int build_globalpool(struct builder *b, const char *name, int x);
int build_dropout(struct builder *b, const char *name, int x, double rate);
int build_flatten(struct builder *b, const char *name, int x); /* x itself where it is flat */

/* y = body(x) + x, where the body has made tensor y of x: with an op_shortcut when the shapes differ. */
int build_residual(struct builder *b, const char *name, int x, int y);

/* The end of every graph: x must have one number for each class. */
void build_loss(struct builder *b, enum op_kind kind, const char *name, int x);
bool build_is_over(const struct builder *b); /* the loss is there */

/* A name in the graph's arena. */
const char *build_name(struct builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes the fault unless there is one already and puts the builder's place before it. */
void build_fail(struct builder *b, fault f);

/* "64 x 8 x 8", or "10" for a vector. */
struct shape_text {
    char text[72];
};
struct shape_text shape_text(struct shape s);

/* The multiplications and additions of one sample, forward. */
double op_flops(const struct graph *g, const struct op *op);

struct model_row { /* what struct kind.row of a named network points to */
    void (*build)(struct builder *b, int x, const struct choice *c);
    int64_t blocks; /* resnet: residual blocks in each of the three stages */
};

/* Numbers everything, counts uses and operations: the last thing done to a whole graph, and again after passes. */
void graph_finish(struct graph *g);
/* Two steps of it alone. */
void graph_count_uses(struct graph *g);
void graph_count_flops(struct graph *g);

#endif
