/* models.c - the networks that have a name.
 *
 * Layers are named as PyTorch programs commonly name them, so that checkpoints can be exchanged. Unless said
 * otherwise parameters start as PyTorch's default does: uniform within 1/sqrt(fan-in), weights and biases
 * alike.
 */
#include <stdlib.h>

#include "graph/layers.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static int linear(struct builder *b, const char *name, int x, size_t out, enum layer_init init)
{
    return build_linear(b, name, x,
                        (struct linear_layer){.out = (int64_t)out, .bias = true, .init = (int)init});
}

static int relu(struct builder *b, const char *name, int x)
{
    return build_pointwise(b, OP_RELU, name, x);
}

static int maxpool2(struct builder *b, const char *name, int x)
{
    return build_pool(b, OP_MAXPOOL, name, x, (struct pool_layer){.kernel = 2});
}

static int batchnorm(struct builder *b, const char *name, int x)
{
    return build_batchnorm(b, name, x, (struct batchnorm_layer){.eps = 1e-5, .momentum = 0.1});
}

/* One linear layer: the convex problem among the networks. */
static void logistic(struct builder *b, int x, const struct choice *c)
{
    (void)c;
    x = linear(b, "linear", x, b->g->classes, LAYER_INIT_DEFAULT);
    build_loss(b, OP_CROSS_ENTROPY, "loss", x);
}

/* "100-50": hidden layers of 100 and 50 with relu between. Parameters as nn.Sequential numbers them: 0, 2, 4
 * ... */
static void mlp(struct builder *b, int x, const struct choice *c)
{
    const char *at = c->tail ? c->tail : "";
    size_t i = 0;
    for (bool more = true; more; i += 2) {
        char *end;
        unsigned long n = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (n == 0 || n > 1 << 20 || (*end && *end != '-')) {
            build_fail(b,
                       FAIL(FAULT_EXPERIMENT,
                            "'mlp:%s': sizes of hidden layers from 1 to 1048576 are wanted, as in mlp:100-50",
                            c->tail ? c->tail : ""));
            return;
        }
        x = linear(b, build_name(b, "%zu", i), x, n, LAYER_INIT_DEFAULT);
        x = relu(b, build_name(b, "%zu", i + 1), x);
        more = *end == '-';
        at = end + more;
    }
    x = linear(b, build_name(b, "%zu", i), x, b->g->classes, LAYER_INIT_DEFAULT);
    build_loss(b, OP_CROSS_ENTROPY, "loss", x);
}

/* LeNet-5 (LeCun et al. 1998) with relu and max pooling in place of tanh and learnt averages. */
static void lenet(struct builder *b, int x, const struct choice *c)
{
    (void)c;
    x = build_conv(b, "conv1", x,
                   (struct conv_layer){.out = 6, .kernel = 5, .stride = 1, .pad = 2, .bias = true});
    x = maxpool2(b, "pool1", relu(b, "relu1", x));
    x = build_conv(b, "conv2", x, (struct conv_layer){.out = 16, .kernel = 5, .stride = 1, .bias = true});
    x = maxpool2(b, "pool2", relu(b, "relu2", x));
    x = relu(b, "relu3", linear(b, "fc1", x, 120, LAYER_INIT_DEFAULT));
    x = relu(b, "relu4", linear(b, "fc2", x, 84, LAYER_INIT_DEFAULT));
    x = linear(b, "fc3", x, b->g->classes, LAYER_INIT_DEFAULT);
    build_loss(b, OP_CROSS_ENTROPY, "loss", x);
}

/* The convolutional network for Fashion-MNIST of 1.48 million parameters. Its linear layers have nothing but
 * dropout between them. */
static void fashion_cnn(struct builder *b, int x, const struct choice *c)
{
    (void)c;
    x = build_conv(b, "layer1.0", x,
                   (struct conv_layer){.out = 32, .kernel = 3, .stride = 1, .pad = 1, .bias = true});
    x = maxpool2(b, "layer1.3", relu(b, "layer1.2", batchnorm(b, "layer1.1", x)));
    x = build_conv(b, "layer2.0", x, (struct conv_layer){.out = 64, .kernel = 3, .stride = 1, .bias = true});
    x = maxpool2(b, "layer2.3", relu(b, "layer2.2", batchnorm(b, "layer2.1", x)));
    x = build_dropout(b, "drop", linear(b, "fc1", x, 600, LAYER_INIT_DEFAULT), 0.25);
    x = linear(b, "fc2", x, 120, LAYER_INIT_DEFAULT);
    x = linear(b, "fc3", x, b->g->classes, LAYER_INIT_DEFAULT);
    build_loss(b, OP_CROSS_ENTROPY, "loss", x);
}

static int conv3x3(struct builder *b, const char *name, int x, int64_t out, int64_t stride)
{
    return build_conv(
        b, name, x,
        (struct conv_layer){
            .out = out, .kernel = 3, .stride = stride, .pad = 1, .init = LAYER_INIT_KAIMING_NORMAL});
}

/* relu(x + bn2(conv2(relu(bn1(conv1(x)))))) */
static int basic_block(struct builder *b, const char *name, int x, int64_t out, int64_t stride)
{
    int y = conv3x3(b, build_name(b, "%s.conv1", name), x, out, stride);
    y = batchnorm(b, build_name(b, "%s.bn1", name), y);
    y = relu(b, build_name(b, "%s.relu1", name), y);
    y = conv3x3(b, build_name(b, "%s.conv2", name), y, out, 1);
    y = batchnorm(b, build_name(b, "%s.bn2", name), y);
    y = build_residual(b, name, x, y);
    return relu(b, build_name(b, "%s.relu2", name), y);
}

/* ResNet for small pictures (He et al. 2016, section 4.2): 6n + 2 layers in three stages of n blocks with 16,
 * 32 and 64 channels, the second and third begin with stride 2; shortcuts without parameters (option A).
 * Convolutions and the linear layer's weights are Kaiming normal over the fan-in, its bias as PyTorch's
 * default. */
static void resnet(struct builder *b, int x, const struct choice *c)
{
    int64_t n = ((const struct model_row *)c->kind->row)->blocks;
    x = conv3x3(b, "conv1", x, 16, 1);
    x = relu(b, "relu1", batchnorm(b, "bn1", x));
    for (int stage = 1; stage <= 3; stage++)
        for (int64_t i = 0; i < n; i++)
            x = basic_block(b, build_name(b, "layer%d.%d", stage, (int)i), x, 8 << stage,
                            stage > 1 && i == 0 ? 2 : 1);
    x = build_globalpool(b, "pool", x);
    x = linear(b, "linear", x, b->g->classes, LAYER_INIT_KAIMING_NORMAL);
    build_loss(b, OP_CROSS_ENTROPY, "loss", x);
}

#define ROW(build, blocks)                                                                                   \
    .row = &(const struct model_row)                                                                         \
    {                                                                                                        \
        build, blocks                                                                                        \
    }

static const struct kind rows[] = {
    {.name = "logistic", .help = "one linear layer", ROW(logistic, 0)},
    {.name = "mlp",
     .help = "hidden linear layers of N numbers with relu between",
     ROW(mlp, 0),
     .pattern = "mlp:N-N-..."},
    {.name = "lenet", .help = "LeNet-5: two convolutions, three linear layers", ROW(lenet, 0)},
    {.name = "fashion-cnn",
     .help = "two convolutions with batchnorm, three linear layers",
     ROW(fashion_cnn, 0)},
    {.name = "resnet20", .help = "residual network for small pictures, 20 layers", ROW(resnet, 3)},
    {.name = "resnet32", .help = "residual network for small pictures, 32 layers", ROW(resnet, 5)},
    {.name = "resnet44", .help = "residual network for small pictures, 44 layers", ROW(resnet, 7)},
    {.name = "resnet56", .help = "residual network for small pictures, 56 layers", ROW(resnet, 9)},
    {.name = "resnet110", .help = "residual network for small pictures, 110 layers", ROW(resnet, 18)},
};

const struct kinds model_kinds = {rows, COUNT(rows)};
