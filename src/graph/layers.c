/* layers.c - the layers one may write in a list, each a row: its settings and how it becomes ops.
 *
 *   model:
 *     - conv: {out: 16, kernel: 3, pad: 1, name: stem}
 *     - batchnorm
 *     - residual: [conv: {...}, batchnorm, relu, ...]
 *     - conv: {out: 8, kernel: 1, from: stem}
 *     - concat: [stem, block]
 *     - globalpool
 *     - linear: {out: 10}
 *
 * A list that does not end in a loss gets cross-entropy.
 */
#include "graph/layers.h"

#include "base/text.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const char *const init_words[] = {"default", "kaiming-normal", "xavier-uniform", "zero", NULL};

static const struct field conv_fields[] = {
    INT_FIELD(struct conv_layer, out, NULL, 1, 1 << 20, "channels it makes"),
    INT_FIELD(struct conv_layer, kernel, NULL, 1, 1024, "side of the square window in pixels"),
    INT_FIELD(struct conv_layer, stride, "1", 1, 1024, "pixels from one window to the next"),
    INT_FIELD(struct conv_layer, pad, "0", 0, 1024, "zeros put around the picture"),
    INT_FIELD(struct conv_layer, groups, "1", 1, 1 << 20, "parts of the channels, each made of the same part of those read"),
    FLAG_FIELD(struct conv_layer, bias, "true", "adds a learnt number to each output"),
    CHOICE_FIELD(struct conv_layer, init, "default", init_words,
                 "how the weights start; default: uniform within 1/sqrt(fan-in)"),
};

static const struct field batchnorm_fields[] = {
    REAL_FIELD(struct batchnorm_layer, eps, "1e-5", 0, 1, "added to the variance", .above_min = true),
    REAL_FIELD(struct batchnorm_layer, momentum, "0.1", 0, 1, "share of a new batch in the running statistics"),
};

static const struct field linear_fields[] = {
    INT_FIELD(struct linear_layer, out, NULL, 1, 1 << 24, "numbers it makes"),
    FLAG_FIELD(struct linear_layer, bias, "true", "adds a learnt number to each output"),
    CHOICE_FIELD(struct linear_layer, init, "default", init_words,
                 "how the weights start; default: uniform within 1/sqrt(fan-in)"),
};

static const struct field pool_fields[] = {
    INT_FIELD(struct pool_layer, kernel, NULL, 1, 1024, "side of the square window in pixels"),
    INT_FIELD(struct pool_layer, stride, NULL, 1, 1024,
              "pixels from one window to the next; when left out, the side of the window", .optional = true),
    INT_FIELD(struct pool_layer, pad, "0", 0, 512, "pixels put around the picture, at most half a window"),
};

static const struct field dropout_fields[] = {
    REAL_FIELD(struct dropout_layer, rate, "0.5", 0, 0.99, "chance of a number to be zeroed while learning"),
};

static enum op_kind op_of(const struct output *o)
{
    return ((const struct layer_row *)o->layer->kind->row)->op;
}

/* The tensor that a layer reads, or the first of them. */
static int input_of(const struct output *o)
{
    return o->in[0]->tensor;
}

static int add_conv(struct builder *b, const struct output *o)
{
    return build_conv(b, o->name, input_of(o), *(const struct conv_layer *)o->layer->settings);
}

static int add_batchnorm(struct builder *b, const struct output *o)
{
    return build_batchnorm(b, o->name, input_of(o), *(const struct batchnorm_layer *)o->layer->settings);
}

static int add_linear(struct builder *b, const struct output *o)
{
    return build_linear(b, o->name, input_of(o), *(const struct linear_layer *)o->layer->settings);
}

static int add_pointwise(struct builder *b, const struct output *o)
{
    return build_pointwise(b, op_of(o), o->name, input_of(o));
}

static int add_pool(struct builder *b, const struct output *o)
{
    return build_pool(b, op_of(o), o->name, input_of(o), *(const struct pool_layer *)o->layer->settings);
}

static int add_globalpool(struct builder *b, const struct output *o)
{
    return build_globalpool(b, o->name, input_of(o));
}

static int add_dropout(struct builder *b, const struct output *o)
{
    return build_dropout(b, o->name, input_of(o), ((const struct dropout_layer *)o->layer->settings)->rate);
}

static int add_flatten(struct builder *b, const struct output *o)
{
    return build_flatten(b, o->name, input_of(o));
}

/* Two by two from the left: ((a + b) + c) + d. All but the last are called NAME.1, NAME.2, ... */
static int add_join(struct builder *b, const struct output *o)
{
    int x = input_of(o);
    for (size_t i = 1; i < o->n_in; i++) {
        const char *name = i + 1 == o->n_in ? o->name : build_name(b, "%s.%zu", o->name, i);
        int z = o->in[i]->tensor;
        x = op_of(o) == OP_ADD ? build_add(b, name, x, z) : build_concat(b, name, x, z);
    }
    return x;
}

/* Adds a list of layers, the first of which reads `before` unless it says otherwise, and gives the last. */
static struct output *add_list(struct builder *b, struct names *names, struct output *before,
                               const struct layer *first)
{
    for (const struct layer *l = first; l && !b->fault; l = l->next) {
        b->place = l->place;
        if (build_is_over(b))
            build_fail(b,
                       FAIL(FAULT_EXPERIMENT, "%s stands after the loss, which must be last", l->kind->name));
        struct output *o = names_read(b, names, before);
        if (!o)
            break;
        o->tensor = ((const struct layer_row *)l->kind->row)->add(b, o);
        before = o;
    }
    return before;
}

static int add_residual(struct builder *b, const struct output *o)
{
    const struct layer *l = o->layer;
    if (!l->body)
        build_fail(b, FAIL(FAULT_EXPERIMENT, "%s: a residual needs layers to go around", o->name));
    struct output *last = add_list(b, o->scope->names, o->in[0], l->body);
    last->is_read = true;
    if (!b->fault && build_is_over(b))
        build_fail(
            b, FAIL(FAULT_EXPERIMENT, "a loss ends the whole network and cannot stand inside a residual"));
    else
        b->place = l->place;
    return build_residual(b, o->name, input_of(o), last->tensor);
}

static int add_loss(struct builder *b, const struct output *o)
{
    build_loss(b, op_of(o), o->name, input_of(o));
    return input_of(o);
}

int layers_add(struct builder *b, int x, const struct layer *first)
{
    struct names names;
    names_collect(b, x, first, &names);
    if (b->fault)
        return x;
    struct output *last = add_list(b, &names, &names.at[0], first);
    last->is_read = true; /* by the loss, or as the loss */
    names_check(b, &names);
    return last->tensor;
}

#define ROW(add, op)                                                                                         \
    .row = &(const struct layer_row)                                                                         \
    {                                                                                                        \
        add, op                                                                                              \
    }
#define PLAIN(text, add, op, words)                                                                          \
    {                                                                                                        \
        .name = text, .help = words, ROW(add, op)                                                            \
    }
#define FULL(text, add, op, rows, type, words)                                                               \
    {                                                                                                        \
        .name = text, .help = words, .fields = rows, .n_fields = COUNT(rows), .size = sizeof(struct type),   \
        ROW(add, op)                                                                                         \
    }

static const struct kind rows[] = {
    FULL("conv", add_conv, OP_CONV, conv_fields, conv_layer, "convolution over square windows"),
    FULL("batchnorm", add_batchnorm, OP_BATCHNORM, batchnorm_fields, batchnorm_layer,
         "each channel to mean 0, variance 1, then scaled and shifted"),
    FULL("linear", add_linear, OP_LINEAR, linear_fields, linear_layer,
         "y = W x + b over the flattened sample"),
    PLAIN("relu", add_pointwise, OP_RELU, "max(0, x)"),
    PLAIN("tanh", add_pointwise, OP_TANH, "hyperbolic tangent"),
    PLAIN("sigmoid", add_pointwise, OP_SIGMOID, "1 / (1 + exp(-x))"),
    FULL("maxpool", add_pool, OP_MAXPOOL, pool_fields, pool_layer, "the largest of each window"),
    FULL("avgpool", add_pool, OP_AVGPOOL, pool_fields, pool_layer,
         "the mean of each window, padding counted as zeros"),
    PLAIN("globalpool", add_globalpool, OP_GLOBALPOOL, "the mean of each channel"),
    FULL("dropout", add_dropout, OP_DROPOUT, dropout_fields, dropout_layer,
         "zeroes numbers at random while learning"),
    PLAIN("flatten", add_flatten, OP_RESHAPE, "channels, rows and columns as one vector"),
    {.name = "residual",
     .help = "the sum of its layers' result and its input",
     ROW(add_residual, OP_ADD),
     .holds_layers = true},
    {.name = "add",
     .help = "the sum of layers by their names, add: [a, b]; add: a is the layer before and a",
     ROW(add_join, OP_ADD),
     .joins_layers = true},
    {.name = "concat",
     .help =
         "the channels of layers one after the other, concat: [a, b]; concat: a is the layer before and a",
     ROW(add_join, OP_CONCAT),
     .joins_layers = true},
    PLAIN("cross-entropy", add_loss, OP_CROSS_ENTROPY, "loss: -log softmax(x)[label]; the default"),
    PLAIN("mse", add_loss, OP_MSE, "loss: squared distance from the label's unit vector"),
    PLAIN("hinge", add_loss, OP_HINGE, "loss: each class that comes within 1 of the label's"),
    PLAIN("logistic", add_loss, OP_LOGISTIC, "loss: each class for itself, label or not"),
};

const struct kinds layer_kinds = {.rows = rows, .n = COUNT(rows)};
