/* arrange.c - how every tensor lies in memory, and how large a chunk is.
 *
 * oneDNN is asked once which order of channels its convolutions like. Tensors that meet in an op which works
 * element by element lie alike, so such ops never convert anything:
 *
 *   the input, read by one convolution only   as that convolution likes it, but not one of groups
 *   the input, read by one linear layer only  plain
 *   pixels, or a convolution among them       oneDNN's order, in the program's kind of number
 *   vectors                                   flat, always fp32
 */
#include "engine/dnnl/conv.h"
#include "engine/dnnl/program.h"

static bool ties_in_and_out(enum op_kind kind)
{
    switch (kind) {
    case OP_BATCHNORM:
    case OP_ADD:
    case OP_CONCAT:
    case OP_RELU:
    case OP_TANH:
    case OP_SIGMOID:
    case OP_DROPOUT:
    case OP_MAXPOOL:
    case OP_AVGPOOL:
    case OP_SHORTCUT:
        return true;
    default:
        return false;
    }
}

/* Tensors that must lie alike have the same root. */
static int root_of(const int *above, int t)
{
    while (above[t] != t)
        t = above[t];
    return t;
}

static void tie(int *above, int a, int b)
{
    a = root_of(above, a);
    b = root_of(above, b);
    above[a > b ? a : b] = a > b ? b : a;
}

/* The only op that reads the input, or NULL. */
static const struct op *only_reader(const struct graph *g)
{
    if (g->tensors[0].n_uses != 1)
        return NULL;
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].in[0] == 0)
            return &g->ops[i];
    return NULL;
}

/* Whether oneDNN has only naive loops for the weights' gradient with x and dy in these orders. */
static fault gradient_is_naive(struct program *p, struct conv_shape s, enum format in, enum format out,
                               bool *is)
{
    s.in = in;
    s.out = out;
    return conv_is_naive(p->onednn, &s, CONV_WEIGHTS, NULL, is);
}

/* The order oneDNN likes for a convolution of middle size. Before AVX2 it likes blocks on the way forward and
 * has naive loops for the way back; plain pictures it multiplies as matrices there, both ways. */
static fault ask_spatial_format(struct program *p)
{
    struct conv_shape s = {.n = 8,
                           .c_in = 64,
                           .h_in = 16,
                           .w_in = 16,
                           .c_out = 64,
                           .h_out = 16,
                           .w_out = 16,
                           .kernel = 3,
                           .stride = 1,
                           .pad = 1,
                           .groups = 1,
                           .number = p->number,
                           .in = FORMAT_ANY,
                           .out = FORMAT_ANY};
    struct kernel *k;
    fault f = kernel_conv(p->onednn, &s, CONV_FORWARD, false, NULL, &k);
    if (f && p->number == NUMBER_BF16)
        f = fault_before(f, "this processor does not compute in bf16: ");
    TRY(f);
    p->spatial = kernel_format(k);
    bool liked_is_naive, plain_is_naive;
    TRY(gradient_is_naive(p, s, p->spatial, p->spatial, &liked_is_naive));
    TRY(gradient_is_naive(p, s, FORMAT_PLAIN, FORMAT_PLAIN, &plain_is_naive));
    if (liked_is_naive && !plain_is_naive)
        p->spatial = FORMAT_PLAIN;
    return OK;
}

/* As the way forward likes it, unless the weights' gradient has naive loops both for that and for oneDNN's
 * own choice, which are what it can take (see conv.c): few channels, but more than colours. Then it lies as
 * all others do, padded. */
static fault ask_input_format(struct program *p, const struct op *op, enum format *out)
{
    struct conv_shape s = conv_shape_of(p, op, 4);
    s.in = FORMAT_ANY;
    s.out = p->spatial;
    struct kernel *k;
    TRY(kernel_conv(p->onednn, &s, CONV_FORWARD, false, NULL, &k));
    *out = kernel_format(k);
    if (!p->is_learning)
        return OK;
    bool this_is_naive, any_is_naive;
    s.c_out = layout_stored(&p->layouts_of_whole[op->out]);
    TRY(gradient_is_naive(p, s, *out, p->spatial, &this_is_naive));
    TRY(gradient_is_naive(p, s, FORMAT_ANY, p->spatial, &any_is_naive));
    if (this_is_naive && any_is_naive)
        *out = p->spatial;
    return OK;
}

static void choose_chunk(struct program *p)
{
    enum { CACHE = 1 << 20, MOST = 32, FEWEST_CHUNKS = 4 };
    size_t largest = 1;
    for (size_t t = 1; t < p->setup->graph->whole->n_tensors; t++)
        if (layout_sample_bytes(&p->layouts_of_whole[t]) > largest)
            largest = layout_sample_bytes(&p->layouts_of_whole[t]);
    size_t most = CACHE / largest;
    if (most > (p->batch + FEWEST_CHUNKS - 1) / FEWEST_CHUNKS)
        most = (p->batch + FEWEST_CHUNKS - 1) / FEWEST_CHUNKS;
    most = most < 1 ? 1 : most > MOST ? MOST : most;
    p->n_chunks = (p->batch + most - 1) / most;
    p->chunk = (p->batch + p->n_chunks - 1) / p->n_chunks;
    for (size_t c = most; c > most / 2; c--)
        if (p->batch % c == 0) { /* equal chunks need no second set of kernels */
            p->chunk = c;
            break;
        }
    p->n_chunks = (p->batch + p->chunk - 1) / p->chunk;
}

static fault arrange_whole(struct program *p)
{
    const struct graph *g = p->setup->graph->whole;
    int *above = ARENA_NEW(&p->arena, int, g->n_tensors);
    bool *is_spatial = ARENA_NEW(&p->arena, bool, g->n_tensors);
    struct layout *layouts = p->layouts_of_whole = ARENA_NEW(&p->arena, struct layout, g->n_tensors);
    if (!above || !is_spatial || !layouts)
        return OUT_OF_MEMORY;
    for (size_t t = 0; t < g->n_tensors; t++)
        above[t] = (int)t;
    for (size_t i = 0; i < g->n_ops; i++)
        if (ties_in_and_out(g->ops[i].kind)) {
            tie(above, g->ops[i].in[0], g->ops[i].out);
            if (g->ops[i].in[1] >= 0)
                tie(above, g->ops[i].in[1], g->ops[i].out);
        }
    for (size_t t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].shape.h * g->tensors[t].shape.w > 1)
            is_spatial[root_of(above, (int)t)] = true;
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == OP_CONV)
            is_spatial[root_of(above, g->ops[i].in[0])] = is_spatial[root_of(above, g->ops[i].out)] = true;
    TRY(ask_spatial_format(p));
    for (size_t t = 0; t < g->n_tensors; t++)
        layouts[t] = is_spatial[root_of(above, (int)t)]
                         ? layout_of(g->tensors[t].shape, p->spatial, p->number)
                         : layout_of(g->tensors[t].shape, FORMAT_LAST, NUMBER_F32);
    const struct op *first = only_reader(g);
    if (first && first->kind == OP_CONV && first->groups == 1) {
        enum format format;
        TRY(ask_input_format(p, first, &format));
        layouts[0] = layout_of(g->input, format, p->number);
    } else if (first && first->kind == OP_LINEAR) {
        layouts[0] = layout_of(g->input, FORMAT_PLAIN, NUMBER_F32);
    }
    return OK;
}

fault program_arrange(struct program *p)
{
    const struct graph *g = p->setup->graph;
    p->layouts = ARENA_NEW(&p->arena, struct layout, g->n_tensors);
    if (!p->layouts)
        return OUT_OF_MEMORY;
    TRY(arrange_whole(p));
    for (size_t t = 0; t < g->n_tensors; t++)
        p->layouts[t] = p->layouts_of_whole[g->tensors[t].whole];
    choose_chunk(p);
    return OK;
}
