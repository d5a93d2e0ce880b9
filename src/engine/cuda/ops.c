/* ops.c - which kernels compute an op, and how many blocks of them.
 *
 * How a sum is split depends on the op's shape and the batch alone: the same lesson gives the same bits,
 * whatever runs beside it.
 */
#include "engine/cuda/blocks.h"

enum { MOST_SPLITS = 128 }; /* of a channel's sums */

static size_t channel_splits(size_t pixels)
{
    return smaller(pieces(pixels, PIXELS_A_SPLIT), MOST_SPLITS);
}

/* A long line of inputs meets a small batch: few tiles, each with much to read. */
static size_t linear_splits(size_t n_in)
{
    return pieces(n_in, 512);
}

/* A few fours each, so that what they share is looked up once. */
static void add_fours(struct launches *p, enum cuda_kernel kernel, const struct call *c, size_t n)
{
    launches_add(p, kernel, smaller(pieces(n, FOUR * FOUR * THREADS), MOST_BLOCKS), 1, THREADS, c);
}

#define LINEAR(p, name) ((p)->bf16 ? KERNEL_##name##_bf16_64 : KERNEL_##name##_fp32_64)

static void add_linear(struct launches *p, enum cuda_kernel kernel, const struct call *c, size_t rows,
                       size_t columns)
{
    launches_add(p, kernel, n_tiles(rows, columns, WIDEST), c->splits, THREADS, c);
}

/* Too few outputs to fill tiles. */
static bool is_narrow(const struct call *c)
{
    return c->out.c < 32 && size_of(c->in) <= 4096;
}

static void linear_forward(struct launches *p, const struct call *c)
{
    if (is_narrow(c)) {
        add_values(p, KERNEL_linear_few_forward, c, 32 * (size_t)c->batch * c->out.c);
        return;
    }
    struct call split = *c;
    split.splits = (uint32_t)linear_splits(size_of(c->in));
    add_linear(p, LINEAR(p, linear_forward), &split, c->batch, c->out.c);
    if (split.splits > 1)
        add_values(p, KERNEL_add_outputs, &split, (size_t)c->batch * c->out.c);
}

static void linear_backward(struct launches *p, const struct call *c)
{
    if (is_narrow(c)) {
        if (c->weights)
            launches_add(p, KERNEL_linear_few_back_weight, c->out.c * pieces(size_of(c->in) + 1, LANES), 1,
                         THREADS, c);
        if (c->dx[0].at)
            add_values(p, KERNEL_linear_few_back_input, c, c->batch * size_of(c->in));
        return;
    }
    if (c->weights && c->bias != CUDA_NONE)
        launches_add(p, KERNEL_bias_gradient, pieces(c->out.c, LANES), 1, 1024, c);
    if (c->weights)
        add_linear(p, LINEAR(p, linear_back_weight), c, c->out.c, size_of(c->in));
    if (c->dx[0].at)
        add_linear(p, LINEAR(p, linear_back_input), c, c->batch, size_of(c->in));
}

static struct call split_by_channel(const struct call *c)
{
    struct call split = *c;
    split.splits = (uint32_t)channel_splits((size_t)c->batch * c->in.h * c->in.w);
    return split;
}

static void norm_forward(struct launches *p, const struct call *c)
{
    struct call split = split_by_channel(c);
    if (c->learning)
        launches_add(p, KERNEL_norm_sums, pieces(c->in.c, LANES), split.splits, THREADS, &split);
    launches_add(p, KERNEL_norm_finish, pieces(c->in.c, LANES), 1, THREADS, &split);
    add_fours(p, KERNEL_norm_forward, c, c->batch * size_of(c->in));
}

static void norm_backward(struct launches *p, const struct call *c)
{
    struct call split = split_by_channel(c);
    launches_add(p, KERNEL_norm_back_sums, pieces(c->in.c, LANES), split.splits, THREADS, &split);
    launches_add(p, KERNEL_norm_back_finish, pieces(c->in.c, LANES), 1, THREADS, &split);
    if (c->dx[0].at)
        add_fours(p, KERNEL_norm_backward, c, c->batch * size_of(c->in));
}

static void globalpool_forward(struct launches *p, const struct call *c)
{
    add_values(p, KERNEL_globalpool_forward, c, (size_t)c->batch * c->in.c);
}

#define BY_OUTPUT(name)                                                                                      \
    static void name##_forward(struct launches *p, const struct call *c)                                         \
    {                                                                                                        \
        add_values(p, KERNEL_##name##_forward, c, c->batch *size_of(c->out));                                \
    }
#define BY_INPUT(name)                                                                                       \
    static void name##_backward(struct launches *p, const struct call *c)                                        \
    {                                                                                                        \
        add_values(p, KERNEL_##name##_backward, c, c->batch *size_of(c->in));                                \
    }
#define BOTH(name) BY_OUTPUT(name) BY_INPUT(name)
#define CROSSING(name)                                                                                       \
    BY_INPUT(name)                                                                                           \
    static void name##_forward(struct launches *p, const struct call *c)                                     \
    {                                                                                                        \
        add_values(p, KERNEL_##name##_forward, c, c->batch *size_of(c->in));                                 \
    }
#define BY_FOURS(name)                                                                                       \
    static void name##_forward(struct launches *p, const struct call *c)                                         \
    {                                                                                                        \
        add_fours(p, KERNEL_##name##_forward, c, c->batch *size_of(c->out));                                 \
    }                                                                                                        \
    static void name##_backward(struct launches *p, const struct call *c)                                        \
    {                                                                                                        \
        add_fours(p, KERNEL_##name##_backward, c, c->batch *size_of(c->in));                                 \
    }
#define LOSS(name)                                                                                           \
    static void name##_forward(struct launches *p, const struct call *c)                                         \
    {                                                                                                        \
        launches_add(p, KERNEL_##name##_forward, 1, 1, 128, c);                                                  \
    }                                                                                                        \
    BY_INPUT(name)

/* clang-format off */
BY_FOURS(add) BOTH(concat) BY_FOURS(relu) BY_FOURS(tanh) BY_FOURS(sigmoid)
BOTH(dropout) BOTH(reshape) BOTH(maxpool) BOTH(avgpool) BOTH(shortcut) BY_INPUT(globalpool)
CROSSING(send) CROSSING(receive)
LOSS(cross_entropy) LOSS(mse) LOSS(hinge) LOSS(logistic)
    /* clang-format on */

    typedef void add_fn(struct launches *p, const struct call *c);

static const struct {
    add_fn *forward, *backward;
} op_adds[N_OPS] = {
    [OP_CONV] = {conv_forward, conv_backward},
    [OP_BATCHNORM] = {norm_forward, norm_backward},
    [OP_LINEAR] = {linear_forward, linear_backward},
    [OP_ADD] = {add_forward, add_backward},
    [OP_CONCAT] = {concat_forward, concat_backward},
    [OP_RELU] = {relu_forward, relu_backward},
    [OP_TANH] = {tanh_forward, tanh_backward},
    [OP_SIGMOID] = {sigmoid_forward, sigmoid_backward},
    [OP_MAXPOOL] = {maxpool_forward, maxpool_backward},
    [OP_AVGPOOL] = {avgpool_forward, avgpool_backward},
    [OP_GLOBALPOOL] = {globalpool_forward, globalpool_backward},
    [OP_SHORTCUT] = {shortcut_forward, shortcut_backward},
    [OP_DROPOUT] = {dropout_forward, dropout_backward},
    [OP_RESHAPE] = {reshape_forward, reshape_backward},
    [OP_SEND] = {send_forward, send_backward},
    [OP_RECEIVE] = {receive_forward, receive_backward},
    [OP_CROSS_ENTROPY] = {cross_entropy_forward, cross_entropy_backward},
    [OP_MSE] = {mse_forward, mse_backward},
    [OP_HINGE] = {hinge_forward, hinge_backward},
    [OP_LOGISTIC] = {logistic_forward, logistic_backward},
};

void ops_add(struct launches *p, const struct step *s, const struct call *call)
{
    enum op_kind kind = p->graph->ops[s->op].kind;
    (s->back ? op_adds[kind].backward : op_adds[kind].forward)(p, call);
}

size_t ops_scratch(const struct graph *g, const struct op *op, size_t batch, bool bf16)
{
    if (op->kind == OP_BATCHNORM) {
        struct shape in = g->tensors[op->in[0]].shape;
        return channel_splits(batch * in.h * in.w) * 2 * in.c * sizeof(double);
    }
    if (op->kind == OP_LINEAR)
        return linear_splits(shape_size(g->tensors[op->in[0]].shape)) * batch * g->tensors[op->out].shape.c *
               sizeof(float);
    if (op->kind == OP_CONV)
        return conv_scratch(g, op, batch, bf16);
    return 0;
}

/* Forward reads its inputs and writes its output; backward reads what the op keeps and the gradient behind
 * it, and writes the gradients before it. Parameters count in fp32, their gradients likewise. */
size_t ops_traffic(const struct launches *p, const struct step *s)
{
    const struct op *op = &p->graph->ops[s->op];
    const struct op_row *row = &op_rows[op->kind];
    size_t bytes =
        op->weight >= 0 ? p->graph->params[op->weight].size * sizeof(float) * (s->back ? 2 : 1) : 0;
    for (int k = 0; k < 2 && op->in[k] >= 0; k++)
        bytes += ((size_t)(!s->back || row->keeps_in) + s->wanted[k] + s->adds[k]) *
                 launches_tensor_bytes(p, op->in[k]);
    if (op->out >= 0)
        bytes += ((size_t)(!s->back || row->keeps_out) + s->back) * launches_tensor_bytes(p, op->out);
    return bytes;
}
