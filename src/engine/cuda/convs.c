/* convs.c - which kernels compute a convolution, and how many blocks of them.
 *
 *   patches    3x3, stride 1, a rim of one (patch.cu, patch_weight.cu), where patches are not mostly empty
 *   quarters   the input's gradient of 3x3 with stride 2 that halves pictures (weights.cu)
 *   products   all others, as products of described matrices (weights.cu)
 *   directly   convolutions of groups (groups.cu)
 *
 * How a sum is split depends on the shape and the batch alone (ops.c).
 */
#include "engine/cuda/blocks.h"
#include "engine/cuda/patch.h"

enum { MOST_TILES = 256, PATCHES_A_SPLIT = 4 }; /* of a weight's gradient */

/* What decides how a convolution is computed. */
struct conv {
    size_t batch, in, out; /* channels */
    size_t h, w;           /* of the input */
    size_t out_pixels;     /* of the batch */
    size_t kernel, stride, pad, groups;
    bool bf16;
};

static struct conv conv_of(const struct launches *p, const struct call *c)
{
    return (struct conv){.batch = c->batch,
                         .in = c->in.c,
                         .out = c->out.c,
                         .h = c->in.h,
                         .w = c->in.w,
                         .out_pixels = (size_t)c->batch * c->out.h * c->out.w,
                         .kernel = c->kernel,
                         .stride = c->stride,
                         .pad = c->pad,
                         .groups = c->groups,
                         .bf16 = p->bf16};
}

static size_t weight_size(const struct conv *v)
{
    return v->out * (v->in / v->groups) * v->kernel * v->kernel;
}

/* ---- as products ---- */

typedef enum cuda_kernel product_kernels[2][WIDTHS]; /* in fp32, in bf16 */

#define KERNELS(name)                                                                                        \
    {                                                                                                        \
        {KERNEL_##name##_fp32_16, KERNEL_##name##_fp32_32, KERNEL_##name##_fp32_64},                         \
        {                                                                                                    \
            KERNEL_##name##_bf16_16, KERNEL_##name##_bf16_32, KERNEL_##name##_bf16_64                        \
        }                                                                                                    \
    }

static const product_kernels forward_kernels = KERNELS(conv_forward);
static const product_kernels input_kernels = KERNELS(conv_back_input);
static const product_kernels weight_kernels = KERNELS(conv_back_weight);
static const product_kernels patch_forward_kernels = KERNELS(patch_forward);
static const product_kernels patch_input_kernels = KERNELS(patch_back_input);

/* The width for so many channels. */
static size_t width_of(size_t columns)
{
    return columns <= 16 ? 0 : columns <= 32 ? 1 : 2;
}

/* ... of a matrix that may be low, as a first layer's weights are: wide tiles have fewer rows. */
static size_t width_for(size_t rows, size_t columns)
{
    size_t least = rows <= 64 ? 2 : rows <= 128 ? 1 : 0, width = width_of(columns);
    return width < least ? least : width;
}

static void add_product(struct launches *p, const product_kernels kernels, const struct call *c, size_t rows,
                        size_t columns)
{
    size_t width = width_for(rows, columns);
    launches_add(p, kernels[p->bf16][width], n_tiles(rows, columns, width), c->splits, THREADS, c);
}

/* ---- by patches ---- */

static size_t n_patches(const struct conv *v, size_t width)
{
    return v->batch * pieces(v->h, PATCH_LINES) * pieces(v->w, width);
}

/* Can patches so wide do it, and is no more than half of them outside? Where inputs are only read they may be
 * of any number in fp32. */
static bool suits_patches(const struct conv *v, size_t width, bool reads_inputs)
{
    bool any_inputs = reads_inputs && !v->bf16;
    return v->kernel == PATCH_SIDE && v->stride == 1 && v->pad == PATCH_RIM && v->h * v->w > 1 &&
           (any_inputs || v->in % FOUR == 0) && v->out % FOUR == 0 &&
           n_patches(v, width) * PATCH_LINES * width <= 2 * v->batch * v->h * v->w;
}

/* ... for so many channels made. */
static size_t patch_width(size_t channels)
{
    return PATCH_WIDTH(columns_of(width_of(channels)));
}

/* The numbers of prepared weights: [piece][tap][output][a piece of inputs]. */
static size_t n_prepared(size_t n_in, size_t n_out, bool bf16)
{
    size_t deep = PIECE_BYTES / (bf16 ? 2 : 4);
    return pieces(n_in, deep) * deep * PATCH_TAPS * n_out;
}

static void add_patches(struct launches *p, enum cuda_kernel prepare, const product_kernels kernels,
                        const struct call *c, size_t n_in, size_t n_out)
{
    struct conv v = conv_of(p, c);
    size_t width = width_of(n_out), columns = columns_of(width),
           blocks = n_patches(&v, PATCH_WIDTH(columns)) * pieces(n_out, columns);
    add_values(p, prepare, c, n_prepared(n_in, n_out, p->bf16));
    launches_launch(p, kernels[p->bf16][width], blocks, PATCH_THREADS, PATCH_SHARED(columns))->args.call = *c;
}

/* Channels of a block of patch_weight.cu. */
static size_t block_channels(const struct conv *v)
{
    return v->in > 16 && v->out > 16 ? 32 : 16;
}

static bool weight_suits_patches(const struct conv *v)
{
    return suits_patches(v, PATCH_WEIGHT_WIDTH(block_channels(v)), true);
}

static size_t n_channel_tiles(const struct conv *v)
{
    return pieces(v->in, block_channels(v)) * pieces(v->out, block_channels(v));
}

static void add_patch_weight(struct launches *p, const struct call *c)
{
    static const enum cuda_kernel kernels[2][2] = {
        {KERNEL_patch_back_weight_fp32_16, KERNEL_patch_back_weight_fp32_32},
        {KERNEL_patch_back_weight_bf16_16, KERNEL_patch_back_weight_bf16_32}};
    struct conv v = conv_of(p, c);
    struct launch *l = launches_launch(p, kernels[p->bf16][block_channels(&v) > 16], n_channel_tiles(&v),
                                   32 * PATCH_WEIGHT_WARPS, PATCH_WEIGHT_SHARED);
    l->grid_y = c->splits;
    l->args.call = *c;
}

/* ---- of groups ---- */

static size_t n_weight_blocks(const struct conv *v)
{
    return pieces(v->out, LANES) * (v->in / v->groups) * v->kernel * v->kernel;
}

static size_t group_splits(const struct conv *v)
{
    return smaller(pieces(v->out_pixels, PIXELS_A_SPLIT), pieces(8 * MOST_TILES, n_weight_blocks(v)));
}

static void groups_backward(struct launches *p, const struct call *c)
{
    struct conv v = conv_of(p, c);
    struct call split = *c;
    split.splits = (uint32_t)group_splits(&v);
    if (c->weights) {
        launches_add(p, KERNEL_groups_back_weight, n_weight_blocks(&v), split.splits, THREADS, &split);
        add_values(p, KERNEL_add_stretches, &split, weight_size(&v));
    }
    if (c->dx[0].at)
        add_values(p, KERNEL_groups_back_input, c, c->batch * size_of(c->in));
}

/* ---- the op ---- */

/* The sum over all pixels is long and the matrix small: as many stretches as keep the device busy. */
static size_t weight_splits(const struct conv *v)
{
    size_t rows = v->in * v->kernel * v->kernel, width = width_for(rows, v->out);
    if (!weight_suits_patches(v))
        return smaller(pieces(v->out_pixels, PIXELS_A_SPLIT),
                       pieces(MOST_TILES, n_tiles(rows, v->out, width)));
    size_t patches = n_patches(v, PATCH_WEIGHT_WIDTH(block_channels(v)));
    return smaller(pieces(patches, PATCHES_A_SPLIT), pieces(MOST_TILES, n_channel_tiles(v)));
}

/* Strides of two over an even picture, with windows that begin at odd places. */
static bool is_halving(const struct call *c)
{
    return c->kernel == 3 && c->stride == 2 && c->pad == 1 && c->in.h == 2 * c->out.h &&
           c->in.w == 2 * c->out.w;
}

void conv_forward(struct launches *p, const struct call *c)
{
    struct conv v = conv_of(p, c);
    if (c->groups > 1)
        add_values(p, KERNEL_groups_forward, c, c->batch * size_of(c->out));
    else if (suits_patches(&v, patch_width(v.out), true))
        add_patches(p, p->bf16 ? KERNEL_patch_weights_bf16 : KERNEL_patch_weights_fp32, patch_forward_kernels,
                    c, v.in, v.out);
    else
        add_product(p, forward_kernels, c, v.out_pixels, v.out);
}

static void add_weight_gradient(struct launches *p, const struct call *c)
{
    struct conv v = conv_of(p, c);
    struct call split = *c;
    split.splits = (uint32_t)weight_splits(&v);
    if (weight_suits_patches(&v))
        add_patch_weight(p, &split);
    else
        add_product(p, weight_kernels, &split, v.in * v.kernel * v.kernel, v.out);
    add_values(p, KERNEL_add_stretches, &split, weight_size(&v));
}

static void add_input_gradient(struct launches *p, const struct call *c)
{
    struct conv v = conv_of(p, c);
    if (suits_patches(&v, patch_width(v.in), false))
        add_patches(p, p->bf16 ? KERNEL_patch_weights_turned_bf16 : KERNEL_patch_weights_turned_fp32,
                    patch_input_kernels, c, v.out, v.in);
    else if (is_halving(c))
        launches_add(p, p->bf16 ? KERNEL_conv_back_quarters_bf16_64 : KERNEL_conv_back_quarters_fp32_64,
                 n_tiles(v.out_pixels, 4 * v.in, WIDEST), 1, THREADS, c);
    else
        add_product(p, input_kernels, c, v.batch * v.h * v.w, v.in);
}

void conv_backward(struct launches *p, const struct call *c)
{
    if (c->weights && c->bias != CUDA_NONE)
        launches_add(p, KERNEL_bias_gradient, pieces(c->out.c, LANES), 1, 1024, c);
    if (c->groups > 1) {
        groups_backward(p, c);
        return;
    }
    if (c->weights)
        add_weight_gradient(p, c);
    if (c->dx[0].at)
        add_input_gradient(p, c);
}

size_t conv_scratch(const struct graph *g, const struct op *op, size_t batch, bool bf16)
{
    struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
    struct conv v = {batch,      in.c,       out.c,   in.h,       in.w, batch * out.h * out.w,
                     op->kernel, op->stride, op->pad, op->groups, bf16};
    if (v.groups > 1)
        return group_splits(&v) * weight_size(&v) * sizeof(float);
    size_t numbers[] = {weight_splits(&v) * weight_size(&v), n_prepared(v.in, v.out, bf16),
                        n_prepared(v.out, v.in, bf16)},
           most = 0;
    for (int i = 0; i < 3; i++)
        most = numbers[i] > most ? numbers[i] : most;
    return most * sizeof(float);
}
