/* build.c - ops, tensors and parameters are added one after another; shapes are settled as they come.
 *
 *   shape of x + settings -> shape of y, parameters -> a new op and a new tensor
 *
 * Invariant: an op reads only tensors that exist, so the list of ops is always in an order in which it can be
 * run.
 */
#include "graph/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "graph/layers.h"
#include "graph/passes/passes.h"

/* More than these would overflow sums of sizes long before any memory held them. */
static const double most_values = 0x1p31, most_parameters = 0x1p36;

struct shape_text shape_text(struct shape s)
{
    struct shape_text t;
    if (s.h == 1 && s.w == 1)
        snprintf(t.text, sizeof t.text, "%zu", s.c);
    else
        snprintf(t.text, sizeof t.text, "%zu x %zu x %zu", s.c, s.h, s.w);
    return t;
}

void build_fail(struct builder *b, fault f)
{
    struct place at = b->place;
    if (b->fault)
        fault_drop(f);
    else if (at.source && at.line)
        b->fault = fault_before(f, "%s:%zu:%zu: ", at.source, at.line, at.column);
    else if (at.source)
        b->fault = fault_before(f, "%s: ", at.source);
    else
        b->fault = f;
}

const char *build_name(struct builder *b, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = arena_text(&b->g->arena, text);
    if (!name)
        build_fail(b, OUT_OF_MEMORY);
    return name ? name : "";
}

/* The list with room for one more: the same, or a copy twice as long. */
static void *with_room(struct builder *b, void *items, size_t n, size_t *room, size_t item_bytes)
{
    if (b->fault || n < *room)
        return items;
    size_t more = *room ? *room * 2 : 16;
    void *longer = arena_take(&b->g->arena, more * item_bytes);
    if (!longer) {
        build_fail(b, OUT_OF_MEMORY);
        return items;
    }
    if (n)
        memcpy(longer, items, n * item_bytes);
    *room = more;
    return longer;
}

static struct shape shape_of(const struct builder *b, int x)
{
    return b->g->tensors[x].shape;
}

static int new_tensor(struct builder *b, struct shape s, int producer)
{
    if ((double)s.c * (double)s.h * (double)s.w > most_values)
        build_fail(b, FAIL(FAULT_SHAPE, "a layer's output of %s is too large", shape_text(s).text));
    struct graph *g = b->g;
    g->tensors = with_room(b, g->tensors, g->n_tensors, &b->room_tensors, sizeof *g->tensors);
    if (b->fault)
        return -1;
    g->tensors[g->n_tensors] = (struct tensor){.shape = s, .producer = producer};
    return (int)g->n_tensors++;
}

static bool name_is_taken(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (text_is(g->ops[i].name, name))
            return true;
    return false;
}

/* Adds an op that reads x; NULL after a fault. The caller sets what is particular to it, then calls op_out. */
static struct op *new_op(struct builder *b, enum op_kind kind, const char *name, int x)
{
    if (b->fault)
        return NULL;
    if (name_is_taken(b->g, name))
        build_fail(b, FAIL(FAULT_EXPERIMENT, "the name '%s' is taken by another layer", name));
    struct graph *g = b->g;
    g->ops = with_room(b, g->ops, g->n_ops, &b->room_ops, sizeof *g->ops);
    if (b->fault)
        return NULL;
    struct op *op = &g->ops[g->n_ops++];
    *op = (struct op){.kind = kind, .name = name, .in = {x, -1}, .out = -1};
    op->weight = op->bias = op->mean = op->var = op->crossing = -1;
    return op;
}

static int op_out(struct builder *b, struct op *op, struct shape s)
{
    op->out = new_tensor(b, s, (int)(op - b->g->ops));
    return b->fault ? op->in[0] : op->out;
}

static int new_param(struct builder *b, const struct op *op, const char *tail, const size_t *dims,
                     size_t n_dims, enum init_kind init)
{
    double size = 1;
    for (size_t i = 0; i < n_dims; i++)
        size *= (double)dims[i];
    if (size + (double)b->g->size > most_parameters)
        build_fail(b, FAIL(FAULT_SHAPE, "%s: the layer has too many parameters (%.0f)", op->name, size));
    struct graph *g = b->g;
    const char *name = build_name(b, "%s.%s", op->name, tail);
    g->params = with_room(b, g->params, g->n_params, &b->room_params, sizeof *g->params);
    if (b->fault)
        return -1;
    struct param *p = &g->params[g->n_params];
    *p =
        (struct param){.name = name, .n_dims = n_dims, .offset = g->size, .size = (size_t)size, .init = init};
    memcpy(p->dims, dims, n_dims * sizeof *dims);
    g->size += p->size;
    return (int)g->n_params++;
}

static int new_stat(struct builder *b, const struct op *op, const char *tail, size_t n, enum init_kind init)
{
    struct graph *g = b->g;
    const char *name = build_name(b, "%s.%s", op->name, tail);
    g->stats = with_room(b, g->stats, g->n_stats, &b->room_stats, sizeof *g->stats);
    if (b->fault)
        return -1;
    g->stats[g->n_stats] = (struct param){
        .name = name, .dims = {n}, .n_dims = 1, .offset = g->stats_size, .size = n, .init = init};
    g->stats_size += n;
    return (int)g->n_stats++;
}

/* Weight and bias of a conv or linear layer: both know the fans of the weight. */
static void add_weights(struct builder *b, struct op *op, const size_t *dims, size_t n_dims, bool bias,
                        int init)
{
    static const enum init_kind kinds[] = {
        [LAYER_INIT_DEFAULT] = INIT_UNIFORM_FAN_IN,
        [LAYER_INIT_KAIMING_NORMAL] = INIT_KAIMING_NORMAL,
        [LAYER_INIT_XAVIER_UNIFORM] = INIT_XAVIER_UNIFORM,
        [LAYER_INIT_ZERO] = INIT_ZERO,
    };
    size_t window = n_dims == 4 ? dims[2] * dims[3] : 1;
    op->weight = new_param(b, op, "weight", dims, n_dims, kinds[init]);
    if (bias)
        op->bias =
            new_param(b, op, "bias", dims, 1, init == LAYER_INIT_ZERO ? INIT_ZERO : INIT_UNIFORM_FAN_IN);
    for (int i = op->weight; !b->fault && i < (int)b->g->n_params; i++) {
        b->g->params[i].fan_in = dims[1] * window;
        b->g->params[i].fan_out = dims[0] * window;
    }
}

/* How many windows fit along one side; 0 when none does. */
static size_t windows(size_t side, const struct op *op)
{
    size_t padded = side + 2 * op->pad;
    return padded < op->kernel ? 0 : (padded - op->kernel) / op->stride + 1;
}

static int window_out(struct builder *b, struct op *op, size_t channels)
{
    struct shape in = shape_of(b, op->in[0]);
    struct shape out = {channels, windows(in.h, op), windows(in.w, op)};
    if (!out.h || !out.w)
        build_fail(b,
                   FAIL(FAULT_SHAPE,
                        "%s (%s): a window of %zu x %zu does not fit into %zu x %zu pixels with padding %zu",
                        op->name, op_rows[op->kind].name, op->kernel, op->kernel, in.h, in.w, op->pad));
    return op_out(b, op, out);
}

int build_conv(struct builder *b, const char *name, int x, struct conv_layer s)
{
    struct op *op = new_op(b, OP_CONV, name, x);
    if (!op)
        return x;
    op->kernel = (size_t)s.kernel;
    op->stride = (size_t)s.stride;
    op->pad = (size_t)s.pad;
    op->groups = s.groups ? (size_t)s.groups : 1;
    size_t in = shape_of(b, x).c, out = (size_t)s.out;
    if (in % op->groups || out % op->groups)
        build_fail(b, FAIL(FAULT_SHAPE,
                           "%s (conv): %zu groups do not divide the %zu channels read and the %zu made", name,
                           op->groups, in, out));
    add_weights(b, op, (size_t[]){out, in / op->groups, op->kernel, op->kernel}, 4, s.bias, s.init);
    return window_out(b, op, (size_t)s.out);
}

int build_batchnorm(struct builder *b, const char *name, int x, struct batchnorm_layer s)
{
    struct op *op = new_op(b, OP_BATCHNORM, name, x);
    if (!op)
        return x;
    struct shape in = shape_of(b, x);
    op->eps = s.eps;
    op->momentum = s.momentum;
    op->weight = new_param(b, op, "weight", &in.c, 1, INIT_ONE);
    op->bias = new_param(b, op, "bias", &in.c, 1, INIT_ZERO);
    op->mean = new_stat(b, op, "running_mean", in.c, INIT_ZERO);
    op->var = new_stat(b, op, "running_var", in.c, INIT_ONE);
    return op_out(b, op, in);
}

int build_flatten(struct builder *b, const char *name, int x)
{
    if (b->fault || shape_of(b, x).h * shape_of(b, x).w == 1)
        return x;
    struct op *op = new_op(b, OP_RESHAPE, name, x);
    return op ? op_out(b, op, (struct shape){shape_size(shape_of(b, x)), 1, 1}) : x;
}

int build_linear(struct builder *b, const char *name, int x, struct linear_layer s)
{
    x = build_flatten(b, build_name(b, "%s.flatten", name), x);
    struct op *op = new_op(b, OP_LINEAR, name, x);
    if (!op)
        return x;
    size_t out = (size_t)s.out;
    add_weights(b, op, (size_t[]){out, shape_of(b, x).c}, 2, s.bias, s.init);
    return op_out(b, op, (struct shape){out, 1, 1});
}

static bool same_shape(struct shape a, struct shape c)
{
    return a.c == c.c && a.h == c.h && a.w == c.w;
}

int build_add(struct builder *b, const char *name, int x, int z)
{
    struct op *op = new_op(b, OP_ADD, name, x);
    if (!op)
        return x;
    op->in[1] = z;
    if (!same_shape(shape_of(b, x), shape_of(b, z)))
        build_fail(b, FAIL(FAULT_SHAPE, "%s: %s and %s cannot be added", name,
                           shape_text(shape_of(b, x)).text, shape_text(shape_of(b, z)).text));
    return op_out(b, op, shape_of(b, x));
}

int build_concat(struct builder *b, const char *name, int x, int z)
{
    struct op *op = new_op(b, OP_CONCAT, name, x);
    if (!op)
        return x;
    op->in[1] = z;
    struct shape first = shape_of(b, x), second = shape_of(b, z);
    if (first.h != second.h || first.w != second.w)
        build_fail(b, FAIL(FAULT_SHAPE,
                           "%s: %s and %s have not the same pixels, so their channels cannot be joined", name,
                           shape_text(first).text, shape_text(second).text));
    return op_out(b, op, (struct shape){first.c + second.c, first.h, first.w});
}

int build_pointwise(struct builder *b, enum op_kind kind, const char *name, int x)
{
    struct op *op = new_op(b, kind, name, x);
    return op ? op_out(b, op, shape_of(b, x)) : x;
}

int build_pool(struct builder *b, enum op_kind kind, const char *name, int x, struct pool_layer s)
{
    struct op *op = new_op(b, kind, name, x);
    if (!op)
        return x;
    op->kernel = (size_t)s.kernel;
    op->stride = (size_t)(s.stride ? s.stride : s.kernel);
    op->pad = (size_t)s.pad;
    if (op->pad * 2 > op->kernel)
        build_fail(b, FAIL(FAULT_SHAPE, "%s (%s): padding %zu is more than half of the window, %zu", name,
                           op_rows[kind].name, op->pad, op->kernel));
    return window_out(b, op, shape_of(b, x).c);
}

int build_globalpool(struct builder *b, const char *name, int x)
{
    struct op *op = new_op(b, OP_GLOBALPOOL, name, x);
    return op ? op_out(b, op, (struct shape){shape_of(b, x).c, 1, 1}) : x;
}

int build_dropout(struct builder *b, const char *name, int x, double rate)
{
    struct op *op = new_op(b, OP_DROPOUT, name, x);
    if (!op)
        return x;
    op->rate = rate;
    return op_out(b, op, shape_of(b, x));
}

/* The smallest step with which x's pixels become as many as y's; 0 when there is none. */
static size_t shortcut_stride(struct shape x, struct shape y)
{
    for (size_t s = 1; s <= x.h || s <= x.w; s++)
        if ((x.h + s - 1) / s == y.h && (x.w + s - 1) / s == y.w)
            return s;
    return 0;
}

int build_residual(struct builder *b, const char *name, int x, int y)
{
    if (b->fault)
        return x;
    struct shape from = shape_of(b, x), to = shape_of(b, y);
    int z = x;
    if (!same_shape(from, to)) {
        size_t stride = shortcut_stride(from, to);
        if (!stride || to.c < from.c)
            build_fail(b, FAIL(FAULT_SHAPE,
                               "%s (residual): no shortcut leads from %s to %s, which its layers make of it",
                               name, shape_text(from).text, shape_text(to).text));
        struct op *op = new_op(b, OP_SHORTCUT, build_name(b, "%s.shortcut", name), x);
        if (!op)
            return x;
        op->stride = stride;
        z = op_out(b, op, to);
    }
    return build_add(b, build_name(b, "%s.add", name), y, z);
}

void build_loss(struct builder *b, enum op_kind kind, const char *name, int x)
{
    if (b->fault)
        return;
    struct shape s = shape_of(b, x);
    if (!same_shape(s, (struct shape){b->g->classes, 1, 1}))
        build_fail(b, FAIL(FAULT_SHAPE,
                           "the network ends in %s, but the data have %zu classes: it must end in %zu",
                           shape_text(s).text, b->g->classes, b->g->classes));
    new_op(b, kind, name, x);
}

bool build_is_over(const struct builder *b)
{
    return b->g->n_ops && op_rows[b->g->ops[b->g->n_ops - 1].kind].is_loss;
}

static void add_network(struct builder *b, const struct model_settings *model)
{
    int x = new_tensor(b, b->g->input, -1);
    if (model->named.kind) {
        const struct model_row *row = model->named.kind->row;
        row->build(b, x, &model->named);
        return;
    }
    if (!model->layers)
        build_fail(b, FAIL(FAULT_EXPERIMENT, "the network has no layers"));
    x = layers_add(b, x, model->layers);
    if (!b->fault && !build_is_over(b))
        build_loss(b, OP_CROSS_ENTROPY, "loss", x);
}

static const char *network_name(struct builder *b, const struct choice *named)
{
    if (!named->kind)
        return "layers";
    return named->tail ? build_name(b, "%s:%s", named->kind->name, named->tail) : named->kind->name;
}

/* A relu that will be fused is not counted: an op has the key that is its place in a network in which passes find nothing else. */
static void give_keys(struct graph *g)
{
    size_t key = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        g->ops[i].key = key;
        key += !pass_fuses_into(g, &g->ops[i]);
    }
    for (size_t i = 0; i < g->n_params; i++)
        g->params[i].key = i;
}

fault graph_build_as_written(const struct model_settings *model, struct shape input, size_t classes,
                             struct graph **out)
{
    struct arena arena = {0};
    struct graph *g = ARENA_NEW(&arena, struct graph, 1);
    if (!g)
        return OUT_OF_MEMORY;
    g->arena = arena;
    g->whole = g;
    g->input = input;
    g->classes = classes;
    struct builder b = {.g = g, .place = model->place};
    g->name = network_name(&b, &model->named);
    add_network(&b, model);
    if (b.fault) {
        graph_free(g);
        return b.fault;
    }
    graph_finish(g);
    give_keys(g);
    *out = g;
    return OK;
}

fault graph_build(const struct model_settings *model, struct shape input, size_t classes, struct graph **out)
{
    struct graph *g;
    TRY(graph_build_as_written(model, input, classes, &g));
    fault f = passes_run(g, ALL_PASSES);
    if (f)
        graph_free(g);
    else
        *out = g;
    return f;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    struct arena arena = g->arena; /* the graph itself lies in it */
    arena_release(&arena);
}
