/* ops.c - which kernels compute an op, and how many blocks of them.
 *
 * How a sum is split depends on the op's shape and the batch alone: the same lesson gives the same bits,
 * whatever runs beside it.
 */
#include "engine/cuda/pass.h"
#include "engine/cuda/patch.h"

enum { THREADS = 256, MOST_BLOCKS = 2048, LANES = 32, FOUR = 4 };
enum { MOST_TILES = 256, PIXELS_A_SPLIT = 512, PATCHES_A_SPLIT = 4 }; /* of a weight's gradient */
enum { MOST_SPLITS = 128 };                                           /* of a channel's sums */

static size_t pieces(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t channel_splits(size_t pixels)
{
    return lesser(pieces(pixels, PIXELS_A_SPLIT), MOST_SPLITS);
}

/* A long line of inputs meets a small batch: few tiles, each with much to read. */
static size_t linear_splits(size_t n_in)
{
    return pieces(n_in, 512);
}

static size_t size_of(struct dims d)
{
    return (size_t)d.c * d.h * d.w;
}

/* One thread a number, or a few. */
static void add_values(struct pass *p, enum cuda_kernel kernel, const struct call *c, size_t n)
{
    pass_add(p, kernel, lesser(pieces(n, THREADS), MOST_BLOCKS), 1, THREADS, c);
}

/* A few fours each, so that what they share is looked up once. */
static void add_fours(struct pass *p, enum cuda_kernel kernel, const struct call *c, size_t n)
{
    pass_add(p, kernel, lesser(pieces(n, FOUR * FOUR * THREADS), MOST_BLOCKS), 1, THREADS, c);
}

/* ---- products ---- */

enum { WIDTHS = 3 }; /* tiles of 16, 32 or 64 columns, for layers of so many channels */

typedef enum cuda_kernel product_kernels[2][WIDTHS]; /* in fp32, in bf16 */

#define CONV(name)                                                                                           \
    {                                                                                                        \
        {KERNEL_##name##_fp32_16, KERNEL_##name##_fp32_32, KERNEL_##name##_fp32_64},                         \
        {                                                                                                    \
            KERNEL_##name##_bf16_16, KERNEL_##name##_bf16_32, KERNEL_##name##_bf16_64                        \
        }                                                                                                    \
    }

static const product_kernels conv_forward_kernels = CONV(conv_forward);
static const product_kernels conv_input_kernels = CONV(conv_back_input);
static const product_kernels conv_weight_kernels = CONV(conv_back_weight);
static const product_kernels patch_forward_kernels = CONV(patch_forward);
static const product_kernels patch_input_kernels = CONV(patch_back_input);

/* The width for so many channels. */
static size_t width_of(size_t columns)
{
    return columns <= 16 ? 0 : columns <= 32 ? 1 : 2;
}

/* ... of a matrix that may be low, as the first layer's weights are: wide tiles have fewer rows. */
static size_t width_for(size_t rows, size_t columns)
{
    size_t least = rows <= 64 ? 2 : rows <= 128 ? 1 : 0, width = width_of(columns);
    return width < least ? least : width;
}

static size_t n_tiles(size_t rows, size_t columns, size_t width)
{
    size_t tile_columns = (size_t)16 << width;
    return pieces(rows, TILE / tile_columns) * pieces(columns, tile_columns);
}

static void add_conv(struct pass *p, const product_kernels kernels, const struct call *c, size_t rows,
                     size_t columns)
{
    size_t width = width_for(rows, columns);
    pass_add(p, kernels[p->bf16][width], n_tiles(rows, columns, width), c->splits, THREADS, c);
}

/* ---- products by patches ---- */

/* A convolution's sizes, as far as they decide how it is computed. */
struct conv {
    size_t batch, in, out, h, w, kernel, stride, pad; /* channels; pixels of the input */
};

static struct conv conv_of(const struct call *c)
{
    return (struct conv){c->batch, c->in.c, c->out.c, c->in.h, c->in.w, c->kernel, c->stride, c->pad};
}

static size_t n_patches(const struct conv *v, size_t width)
{
    return v->batch * pieces(v->h, PATCH_LINES) * pieces(v->w, width);
}

/* Can patches so wide do it, and are no more than half of their pixels outside? Inputs of a forward
 * convolution may be of any number in fp32, and so may those of the weights' gradient. */
static bool suits_patches(const struct conv *v, size_t width, bool any_inputs)
{
    return v->kernel == PATCH_SIDE && v->stride == 1 && v->pad == PATCH_RIM && v->h * v->w > 1 &&
           (any_inputs || v->in % FOUR == 0) && v->out % FOUR == 0 &&
           pieces(v->h, PATCH_LINES) * pieces(v->w, width) * PATCH_LINES * width <= 2 * v->h * v->w;
}

/* Columns are channels made. */
static size_t patch_width(size_t columns)
{
    return PATCH_WIDTH((size_t)16 << width_of(columns));
}

/* Bytes of the prepared weights, [piece][tap][output][a piece of inputs]. */
static size_t prepared_size(size_t n_in, size_t n_out, bool bf16)
{
    return pieces(n_in, PATCH_PIECE_BYTES / (bf16 ? 2 : 4)) * PATCH_TAPS * n_out * PATCH_PIECE_BYTES;
}

static void add_patches(struct pass *p, enum cuda_kernel prepare, const product_kernels kernels,
                        const struct call *c, size_t n_in, size_t n_out)
{
    struct conv v = conv_of(c);
    size_t width = width_of(n_out), columns = (size_t)16 << width;
    struct launch *l;
    add_values(p, prepare, c, prepared_size(n_in, n_out, p->bf16) / (p->bf16 ? 2 : 4));
    l = pass_launch(p, kernels[p->bf16][width], n_patches(&v, PATCH_WIDTH(columns)) * pieces(n_out, columns),
                    PATCH_THREADS, PATCH_SHARED(columns));
    l->args.call = *c;
}

/* Channels of a block of patch_weight.cu. */
static size_t patch_weight_channels(const struct conv *v)
{
    return v->in > 16 && v->out > 16 ? 32 : 16;
}

static bool weight_suits_patches(const struct conv *v, bool bf16)
{
    return suits_patches(v, PATCH_WEIGHT_WIDTH(patch_weight_channels(v)), !bf16);
}

static size_t patch_weight_tiles(const struct conv *v)
{
    size_t channels = patch_weight_channels(v);
    return pieces(v->in, channels) * pieces(v->out, channels);
}

static size_t patch_weight_splits(const struct conv *v)
{
    size_t patches = n_patches(v, PATCH_WEIGHT_WIDTH(patch_weight_channels(v)));
    return lesser(pieces(patches, PATCHES_A_SPLIT), pieces(MOST_TILES, patch_weight_tiles(v)));
}

static void add_patch_weight(struct pass *p, const struct call *c)
{
    static const enum cuda_kernel kernels[2][2] = {
        {KERNEL_patch_back_weight_fp32_16, KERNEL_patch_back_weight_fp32_32},
        {KERNEL_patch_back_weight_bf16_16, KERNEL_patch_back_weight_bf16_32}};
    struct conv v = conv_of(c);
    struct launch *l = pass_launch(p, kernels[p->bf16][patch_weight_channels(&v) > 16],
                                   patch_weight_tiles(&v), 32 * PATCH_WEIGHT_WARPS, PATCH_WEIGHT_SHARED);
    l->grid_y = c->splits;
    l->args.call = *c;
}

#define LINEAR(p, name) ((p)->bf16 ? KERNEL_##name##_bf16_64 : KERNEL_##name##_fp32_64)

static void add_linear(struct pass *p, enum cuda_kernel kernel, const struct call *c, size_t rows,
                       size_t columns)
{
    pass_add(p, kernel, n_tiles(rows, columns, WIDTHS - 1), c->splits, THREADS, c);
}

static size_t weight_size(const struct call *c)
{
    return (size_t)c->out.c * c->in.c * c->kernel * c->kernel;
}

/* The sum over all pixels is long and the matrix small: as many stretches as keep the device busy. */
static size_t weight_splits(const struct conv *v, size_t pixels, bool bf16)
{
    size_t rows = v->in * v->kernel * v->kernel, tiles = n_tiles(rows, v->out, width_for(rows, v->out));
    return weight_suits_patches(v, bf16) ? patch_weight_splits(v)
                                         : lesser(pieces(pixels, PIXELS_A_SPLIT), pieces(MOST_TILES, tiles));
}

static void conv_forward(struct pass *p, const struct call *c)
{
    struct conv v = conv_of(c);
    if (suits_patches(&v, patch_width(c->out.c), !p->bf16))
        add_patches(p, p->bf16 ? KERNEL_patch_weights_bf16 : KERNEL_patch_weights_fp32, patch_forward_kernels,
                    c, c->in.c, c->out.c);
    else
        add_conv(p, conv_forward_kernels, c, (size_t)c->batch * c->out.h * c->out.w, c->out.c);
}

/* Strides of two over an even picture, with windows that begin at odd places. */
static bool is_halving(const struct call *c)
{
    return c->kernel == 3 && c->stride == 2 && c->pad == 1 && c->in.h == 2 * c->out.h &&
           c->in.w == 2 * c->out.w;
}

static void conv_backward(struct pass *p, const struct call *c)
{
    struct call split = *c;
    struct conv v = conv_of(c);
    size_t pixels = (size_t)c->batch * c->out.h * c->out.w, rows = (size_t)c->in.c * c->kernel * c->kernel;
    split.splits = (uint32_t)weight_splits(&v, pixels, p->bf16);
    if (c->bias != CUDA_NONE)
        pass_add(p, KERNEL_bias_gradient, pieces(c->out.c, LANES), 1, 1024, c);
    if (weight_suits_patches(&v, p->bf16))
        add_patch_weight(p, &split);
    else
        add_conv(p, conv_weight_kernels, &split, rows, c->out.c);
    add_values(p, KERNEL_add_stretches, &split, weight_size(c));
    if (c->dx[0].at && suits_patches(&v, patch_width(c->in.c), false))
        add_patches(p, p->bf16 ? KERNEL_patch_weights_turned_bf16 : KERNEL_patch_weights_turned_fp32,
                    patch_input_kernels, c, c->out.c, c->in.c);
    else if (c->dx[0].at && is_halving(c))
        pass_add(p, p->bf16 ? KERNEL_conv_back_quarters_bf16_64 : KERNEL_conv_back_quarters_fp32_64,
                 n_tiles(pixels, FOUR * (size_t)c->in.c, WIDTHS - 1), 1, THREADS, c);
    else if (c->dx[0].at)
        add_conv(p, conv_input_kernels, c, (size_t)c->batch * c->in.h * c->in.w, c->in.c);
}

/* Too few outputs to fill tiles. */
static bool is_narrow(const struct call *c)
{
    return c->out.c < 32 && size_of(c->in) <= 4096;
}

static void linear_forward(struct pass *p, const struct call *c)
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

static void linear_backward(struct pass *p, const struct call *c)
{
    if (is_narrow(c)) {
        pass_add(p, KERNEL_linear_few_back_weight, c->out.c * pieces(size_of(c->in) + 1, LANES), 1, THREADS,
                 c);
        if (c->dx[0].at)
            add_values(p, KERNEL_linear_few_back_input, c, c->batch * size_of(c->in));
        return;
    }
    if (c->bias != CUDA_NONE)
        pass_add(p, KERNEL_bias_gradient, pieces(c->out.c, LANES), 1, 1024, c);
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

static void norm_forward(struct pass *p, const struct call *c)
{
    struct call split = split_by_channel(c);
    if (c->learning)
        pass_add(p, KERNEL_norm_sums, pieces(c->in.c, LANES), split.splits, THREADS, &split);
    pass_add(p, KERNEL_norm_finish, pieces(c->in.c, LANES), 1, THREADS, &split);
    add_fours(p, KERNEL_norm_forward, c, c->batch * size_of(c->in));
}

static void norm_backward(struct pass *p, const struct call *c)
{
    struct call split = split_by_channel(c);
    pass_add(p, KERNEL_norm_back_sums, pieces(c->in.c, LANES), split.splits, THREADS, &split);
    pass_add(p, KERNEL_norm_back_finish, pieces(c->in.c, LANES), 1, THREADS, &split);
    if (c->dx[0].at)
        add_fours(p, KERNEL_norm_backward, c, c->batch * size_of(c->in));
}

static void globalpool_forward(struct pass *p, const struct call *c)
{
    add_values(p, KERNEL_globalpool_forward, c, (size_t)c->batch * c->in.c);
}

#define BY_OUTPUT(name)                                                                                      \
    static void name##_forward(struct pass *p, const struct call *c)                                         \
    {                                                                                                        \
        add_values(p, KERNEL_##name##_forward, c, c->batch *size_of(c->out));                                \
    }
#define BY_INPUT(name)                                                                                       \
    static void name##_backward(struct pass *p, const struct call *c)                                        \
    {                                                                                                        \
        add_values(p, KERNEL_##name##_backward, c, c->batch *size_of(c->in));                                \
    }
#define BOTH(name) BY_OUTPUT(name) BY_INPUT(name)
#define BY_FOURS(name)                                                                                       \
    static void name##_forward(struct pass *p, const struct call *c)                                         \
    {                                                                                                        \
        add_fours(p, KERNEL_##name##_forward, c, c->batch *size_of(c->out));                                 \
    }                                                                                                        \
    static void name##_backward(struct pass *p, const struct call *c)                                        \
    {                                                                                                        \
        add_fours(p, KERNEL_##name##_backward, c, c->batch *size_of(c->in));                                 \
    }
#define LOSS(name)                                                                                           \
    static void name##_forward(struct pass *p, const struct call *c)                                         \
    {                                                                                                        \
        pass_add(p, KERNEL_##name##_forward, 1, 1, 128, c);                                                  \
    }                                                                                                        \
    BY_INPUT(name)

/* clang-format off */
BY_FOURS(add) BY_FOURS(relu) BY_FOURS(tanh) BY_FOURS(sigmoid)
BOTH(dropout) BOTH(reshape) BOTH(maxpool) BOTH(avgpool) BOTH(shortcut) BY_INPUT(globalpool)
LOSS(cross_entropy) LOSS(mse) LOSS(hinge) LOSS(logistic)
    /* clang-format on */

    typedef void add_fn(struct pass *p, const struct call *c);

static const struct {
    add_fn *forward, *backward;
} op_adds[N_OPS] = {
    [OP_CONV] = {conv_forward, conv_backward},
    [OP_BATCHNORM] = {norm_forward, norm_backward},
    [OP_LINEAR] = {linear_forward, linear_backward},
    [OP_ADD] = {add_forward, add_backward},
    [OP_RELU] = {relu_forward, relu_backward},
    [OP_TANH] = {tanh_forward, tanh_backward},
    [OP_SIGMOID] = {sigmoid_forward, sigmoid_backward},
    [OP_MAXPOOL] = {maxpool_forward, maxpool_backward},
    [OP_AVGPOOL] = {avgpool_forward, avgpool_backward},
    [OP_GLOBALPOOL] = {globalpool_forward, globalpool_backward},
    [OP_SHORTCUT] = {shortcut_forward, shortcut_backward},
    [OP_DROPOUT] = {dropout_forward, dropout_backward},
    [OP_RESHAPE] = {reshape_forward, reshape_backward},
    [OP_CROSS_ENTROPY] = {cross_entropy_forward, cross_entropy_backward},
    [OP_MSE] = {mse_forward, mse_backward},
    [OP_HINGE] = {hinge_forward, hinge_backward},
    [OP_LOGISTIC] = {logistic_forward, logistic_backward},
};

void ops_add(struct pass *p, const struct step *s, const struct call *call)
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
    if (op->kind == OP_CONV) {
        struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
        struct conv v = {batch, in.c, out.c, in.h, in.w, op->kernel, op->stride, op->pad};
        size_t sums = weight_splits(&v, batch * out.h * out.w, bf16) * g->params[op->weight].size *
                      sizeof(float),
               weights = prepared_size(in.c, out.c, bf16), turned = prepared_size(out.c, in.c, bf16);
        return greater(sums, greater(weights, turned));
    }
    return 0;
}

/* Forward reads its inputs and writes its output; backward reads what the op keeps and the gradient behind
 * it, and writes the gradients before it. Parameters count in fp32, their gradients likewise. */
size_t ops_traffic(const struct pass *p, const struct step *s)
{
    const struct op *op = &p->graph->ops[s->op];
    const struct op_row *row = &op_rows[op->kind];
    size_t bytes =
        op->weight >= 0 ? p->graph->params[op->weight].size * sizeof(float) * (s->back ? 2 : 1) : 0;
    for (int k = 0; k < 2 && op->in[k] >= 0; k++)
        bytes += ((size_t)(!s->back || row->keeps_in) + s->wanted[k] + s->adds[k]) *
                 pass_tensor_bytes(p, op->in[k]);
    if (op->out >= 0)
        bytes += ((size_t)(!s->back || row->keeps_out) + s->back) * pass_tensor_bytes(p, op->out);
    return bytes;
}
