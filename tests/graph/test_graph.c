/* Networks become ops with the right shapes, names and parameters; what does not fit is named with its place.
 */
#include "graph/graph.h"
#include "support/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct shape cifar = {3, 32, 32}, fashion = {1, 28, 28};

static void expect_size(const char *name, struct shape input, size_t classes, size_t size)
{
    struct graph *g = model_build(name, input, classes);
    assert_int_equal(g->size, size);
    graph_free(g);
}

static void named_models_have_as_many_parameters_as_their_papers_say(void **state)
{
    (void)state;
    expect_size("resnet20", cifar, 10, 269722);
    expect_size("resnet32", cifar, 10, 464154);
    expect_size("resnet44", cifar, 10, 658586);
    expect_size("resnet56", cifar, 10, 853018);
    expect_size("resnet110", cifar, 10, 1727962);
    expect_size("resnet20", cifar, 100, 269722 + 90 * 65);
    expect_size("fashion-cnn", fashion, 10, 1475338);
    expect_size("lenet", fashion, 10, 61706);
    expect_size("logistic", fashion, 10, 7850);
    expect_size("mlp:100-50", fashion, 10, 784 * 100 + 100 + 100 * 50 + 50 + 50 * 10 + 10);
    expect_size("mlp:7", (struct shape){2, 1, 1}, 3, 2 * 7 + 7 + 7 * 3 + 3);
}

static void flops_are_those_of_convolutions_and_linear_layers(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", cifar, 10);
    double first = 2.0 * 27 * 16 * 1024; /* the first convolution sends nothing back to the picture */
    assert_true(g->flops_forward == 2.0 * 40551040);
    assert_true(g->flops_learn == 3 * g->flops_forward - first);
    graph_free(g);
}

static int find_param(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_params; i++)
        if (strcmp(g->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

static const struct op *find_op(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (strcmp(g->ops[i].name, name) == 0)
            return &g->ops[i];
    fail_msg("there is no op %s", name);
    return NULL;
}

static void expect_dims(const struct graph *g, const char *name, size_t n_dims, const size_t *dims)
{
    int i = find_param(g, name);
    if (i < 0)
        fail_msg("there is no parameter %s", name);
    assert_int_equal(g->params[i].n_dims, n_dims);
    assert_memory_equal(g->params[i].dims, dims, n_dims * sizeof *dims);
}

static void parameters_are_named_and_shaped_as_in_pytorch(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", cifar, 10);
    expect_dims(g, "conv1.weight", 4, (size_t[]){16, 3, 3, 3});
    expect_dims(g, "bn1.bias", 1, (size_t[]){16});
    expect_dims(g, "layer2.0.conv1.weight", 4, (size_t[]){32, 16, 3, 3});
    expect_dims(g, "layer3.2.bn2.weight", 1, (size_t[]){64});
    expect_dims(g, "linear.weight", 2, (size_t[]){10, 64});
    expect_dims(g, "linear.bias", 1, (size_t[]){10});
    assert_int_equal(find_param(g, "conv1.bias"), -1);
    assert_int_equal(g->n_params, 19 + 2 * 19 + 2);
    assert_int_equal(g->n_stats, 2 * 19);
    assert_string_equal(g->stats[0].name, "bn1.running_mean");
    assert_string_equal(g->stats[1].name, "bn1.running_var");
    graph_free(g);
    g = model_build("fashion-cnn", fashion, 10);
    static const char *const order[] = {
        "layer1.0.weight", "layer1.0.bias",   "layer1.1.weight", "layer1.1.bias", "layer2.0.weight",
        "layer2.0.bias",   "layer2.1.weight", "layer2.1.bias",   "fc1.weight",    "fc1.bias",
        "fc2.weight",      "fc2.bias",        "fc3.weight",      "fc3.bias"};
    assert_int_equal(g->n_params, sizeof order / sizeof *order);
    for (size_t i = 0; i < g->n_params; i++)
        assert_string_equal(g->params[i].name, order[i]);
    graph_free(g);
    g = model_build("mlp:5-4", fashion, 10);
    assert_true(find_param(g, "0.weight") >= 0 && find_param(g, "2.bias") >= 0 &&
                find_param(g, "4.weight") >= 0);
    graph_free(g);
}

static void a_group_has_weights_for_its_own_channels_only(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 8, 3, 1, 1);
    net_conv(&net, 12, 3, 1, 1)->groups = 4;
    net_layer(&net, "globalpool");
    net_linear(&net, 2);
    struct graph *g = net_build(&net, (struct shape){1, 5, 4}, 2);
    expect_dims(g, "1.weight", 4, (size_t[]){12, 2, 3, 3});
    expect_dims(g, "1.bias", 1, (size_t[]){12});
    assert_int_equal(g->params[find_param(g, "1.weight")].fan_in, 18);
    assert_int_equal(g->params[find_param(g, "1.bias")].fan_in, 18);
    assert_int_equal(g->params[find_param(g, "1.weight")].fan_out, 108);
    assert_true(g->flops_forward == 2.0 * (9 * 8 * 20 + 18 * 12 * 20 + 12 * 2));
    graph_free(g);
    net_release(&net);
}

static void parameters_lie_end_to_end(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", cifar, 10);
    size_t at = 0;
    for (size_t i = 0; i < g->n_params; i++) {
        size_t size = 1;
        for (size_t k = 0; k < g->params[i].n_dims; k++)
            size *= g->params[i].dims[k];
        assert_int_equal(g->params[i].offset, at);
        assert_int_equal(g->params[i].size, size);
        at += size;
    }
    assert_int_equal(at, g->size);
    graph_free(g);
}

/* Ops read what was written before, tensors know their one writer and all their readers, names are unique. */
static void expect_well_formed(const struct graph *g)
{
    assert_int_equal(g->tensors[0].producer, -1);
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        assert_int_equal(op_rows[op->kind].is_loss, i == g->n_ops - 1);
        assert_int_equal(op->in[1] >= 0, op->kind == OP_ADD || op->kind == OP_CONCAT);
        for (int k = 0; k < 2 && op->in[k] >= 0; k++)
            assert_true(g->tensors[op->in[k]].producer < (int)i);
        if (op->out >= 0)
            assert_int_equal(g->tensors[op->out].producer, i);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(op->name, g->ops[j].name);
    }
    for (size_t t = 0; t < g->n_tensors; t++) {
        int uses = 0;
        for (size_t i = 0; i < g->n_ops; i++)
            uses += (g->ops[i].in[0] == (int)t) + (g->ops[i].in[1] == (int)t);
        assert_int_equal(g->tensors[t].n_uses, uses);
        assert_true(uses > 0);
    }
}

/* Any relu still there must have a reason to be. */
static void expect_folded(const struct graph *g)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        int producer = g->tensors[op->in[0]].producer;
        if (op->kind != OP_RELU || producer < 0)
            continue;
        const struct op *before = &g->ops[producer];
        bool could = before->kind == OP_BATCHNORM || before->kind == OP_ADD;
        assert_true(!could || before->relu || g->tensors[op->in[0]].n_uses > 1);
    }
}

static void every_graph_is_well_formed_and_folded(void **state)
{
    (void)state;
    for (size_t i = 0; i < model_kinds.n; i++) {
        const char *name = model_kinds.rows[i].pattern ? "mlp:9-8-7" : model_kinds.rows[i].name;
        struct graph *g = model_build(name, fashion, 10);
        expect_well_formed(g);
        expect_folded(g);
        assert_string_equal(g->name, name);
        graph_free(g);
    }
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct network net = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 5);
        struct shape input = {1 + rng_below(&r, 6), 1 + seed % 12, 1 + seed % 12};
        net_random(&net, &r, input, 4, seed % 30);
        struct graph *g = net_build(&net, input, 4);
        expect_well_formed(g);
        expect_folded(g);
        graph_free(g);
        net_release(&net);
    }
}

static void a_relu_is_folded_only_where_it_is_the_only_reader(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 3, 3, 1, 1);
    net_batchnorm(&net)->eps = 0.25;
    net_residual(&net);
    net_layer(&net, "relu"); /* 2.0: the sum reads the batchnorm, too */
    net_batchnorm(&net);     /* 2.1 */
    net_layer(&net, "relu"); /* 2.2: folded */
    net_end(&net);
    net_layer(&net, "relu"); /* 3: folded into 2.add */
    net_layer(&net, "relu"); /* 4: a second one stays */
    net_linear(&net, 2);
    struct graph *g = net_build(&net, (struct shape){1, 4, 4}, 2);
    assert_false(find_op(g, "1")->relu);
    assert_true(find_op(g, "1")->eps == 0.25);
    assert_int_equal(find_op(g, "2.0")->kind, OP_RELU);
    assert_true(find_op(g, "2.1")->relu);
    assert_true(find_op(g, "2.add")->relu);
    assert_int_equal(find_op(g, "4")->kind, OP_RELU);
    assert_int_equal(find_op(g, "4")->in[0], find_op(g, "2.add")->out);
    assert_int_equal(g->n_ops, 9); /* conv, batchnorm, relu, batchnorm, add, relu, flatten, linear, loss */
    graph_free(g);
    net_release(&net);
}

static void shapes_follow_from_the_layers(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 5, 3, 2, 1);
    net_pool(&net, "maxpool", 3, 2, 1);
    net_pool(&net, "avgpool", 2, 0, 0)->stride = 0; /* left out: as the kernel */
    net_residual(&net);
    net_conv(&net, 8, 3, 2, 1);
    net_end(&net);
    net_layer(&net, "globalpool");
    net_linear(&net, 4);
    net_layer(&net, "hinge");
    struct graph *g = net_build(&net, (struct shape){3, 31, 18}, 4);
    static const struct {
        const char *op;
        struct shape shape;
    } expected[] = {{"0", {5, 16, 9}},         {"1", {5, 8, 5}},     {"2", {5, 4, 2}}, {"3.0", {8, 2, 1}},
                    {"3.shortcut", {8, 2, 1}}, {"3.add", {8, 2, 1}}, {"4", {8, 1, 1}}, {"5", {4, 1, 1}}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_memory_equal(&g->tensors[find_op(g, expected[i].op)->out].shape, &expected[i].shape,
                            sizeof(struct shape));
    assert_int_equal(find_op(g, "3.shortcut")->stride, 2);
    assert_int_equal(find_op(g, "2")->stride, 2);
    assert_int_equal(g->ops[g->n_ops - 1].kind, OP_HINGE);
    graph_free(g);
    net_release(&net);
}

static void written_names_are_kept_and_residuals_prefix_their_layers(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 2, 1, 1, 0);
    net_layer(&net, "residual")->name = "block";
    struct layer *block = net.model.layers->next;
    struct network body = {0};
    net_layer(&body, "batchnorm")->name = "norm";
    block->body = body.model.layers;
    net_linear(&net, 2);
    struct graph *g = net_build(&net, (struct shape){2, 2, 2}, 2);
    assert_true(find_param(g, "0.weight") == 0);
    assert_true(find_param(g, "block.norm.weight") == 2);
    assert_true(find_param(g, "2.weight") == 4);
    graph_free(g);
    net_release(&body);
    net_release(&net);
}

static void settings_that_are_left_out_are_those_of_pytorch(void **state)
{
    (void)state;
    struct network net = {0};
    const struct conv_layer *conv = net_layer(&net, "conv")->settings;
    const struct linear_layer *linear = net_layer(&net, "linear")->settings;
    const struct batchnorm_layer *norm = net_layer(&net, "batchnorm")->settings;
    const struct pool_layer *pool = net_layer(&net, "maxpool")->settings;
    const struct dropout_layer *dropout = net_layer(&net, "dropout")->settings;
    assert_true(conv->stride == 1 && conv->pad == 0 && conv->groups == 1 && conv->bias &&
                conv->init == LAYER_INIT_DEFAULT);
    assert_true(linear->bias && linear->init == LAYER_INIT_DEFAULT);
    assert_true(norm->eps == 1e-5 && norm->momentum == 0.1);
    assert_true(pool->stride == 0 && pool->pad == 0); /* stride 0: as the kernel */
    assert_true(dropout->rate == 0.5);
    net_release(&net);
}

static void losses_default_to_cross_entropy(void **state)
{
    (void)state;
    struct network net = {0};
    net_linear(&net, 3);
    struct graph *g = net_build(&net, (struct shape){2, 1, 1}, 3);
    assert_int_equal(g->n_ops, 2);
    assert_int_equal(g->ops[1].kind, OP_CROSS_ENTROPY);
    graph_free(g);
    net_release(&net);
}

/* Builds a network that cannot be and checks what is said of it; releases the network. */
static void expect_fault(struct network *net, struct shape input, size_t classes, enum fault_kind kind,
                         const char *text)
{
    struct graph *g = NULL;
    fault f = net_try(net, input, classes, &g);
    assert_non_null(f);
    assert_null(g);
    if (!strstr(fault_text(f), text))
        fail_msg("'%s' does not say '%s'", fault_text(f), text);
    assert_int_equal(fault_kind_of(f), kind);
    fault_drop(f);
    net_release(net);
}

static void layers_that_do_not_fit_are_named_with_their_place_and_shapes(void **state)
{
    (void)state;
    struct network net = {0};
    struct shape small = {2, 4, 3};
    net_layer(&net, "relu");
    net_conv(&net, 4, 6, 1, 1);
    expect_fault(&net, small, 2, FAULT_SHAPE,
                 "net:2:1: 1 (conv): a window of 6 x 6 does not fit into 4 x 3 pixels with padding 1");
    net_pool(&net, "maxpool", 4, 0, 0);
    expect_fault(&net, small, 2, FAULT_SHAPE,
                 "net:1:1: 0 (maxpool): a window of 4 x 4 does not fit into 4 x 3");
    net_pool(&net, "avgpool", 3, 1, 2);
    expect_fault(&net, small, 2, FAULT_SHAPE,
                 "net:1:1: 0 (avgpool): padding 2 is more than half of the window, 3");
    net_residual(&net);
    net_conv(&net, 1, 1, 1, 0);
    net_end(&net);
    net_linear(&net, 2);
    expect_fault(&net, small, 2, FAULT_SHAPE,
                 "net:1:1: 0 (residual): no shortcut leads from 2 x 4 x 3 to 1 x 4 x 3");
    net_residual(&net);
    net_conv(&net, 2, 2, 1, 0);
    net_end(&net);
    net_linear(&net, 2);
    expect_fault(&net, small, 2, FAULT_SHAPE, "no shortcut leads from 2 x 4 x 3 to 2 x 3 x 2");
    net_linear(&net, 3);
    expect_fault(&net, small, 2, FAULT_SHAPE, "net:1:1: the network ends in 3, but the data have 2 classes");
    net_conv(&net, 2, 1, 1, 0);
    net_layer(&net, "mse");
    expect_fault(&net, small, 2, FAULT_SHAPE,
                 "net:2:1: the network ends in 2 x 4 x 3, but the data have 2 classes");
}

static void lists_that_are_no_network_are_refused(void **state)
{
    (void)state;
    struct network net = {0};
    struct shape two = {2, 1, 1};
    expect_fault(&net, two, 2, FAULT_EXPERIMENT, "the network has no layers");
    net_layer(&net, "mse");
    net_layer(&net, "relu");
    expect_fault(&net, two, 2, FAULT_EXPERIMENT, "net:2:1: relu stands after the loss");
    net_residual(&net);
    net_layer(&net, "hinge");
    net_end(&net);
    expect_fault(&net, two, 2, FAULT_EXPERIMENT, "net:2:1: a loss ends the whole network");
    net_residual(&net);
    net_end(&net);
    expect_fault(&net, two, 2, FAULT_EXPERIMENT, "net:1:1: 0: a residual needs layers");
    net_layer(&net, "tanh")->name = "same";
    net_layer(&net, "tanh")->name = "same";
    expect_fault(&net, two, 2, FAULT_EXPERIMENT, "net:2:1: the name 'same' is taken");
    net_layer(&net, "tanh")->name = "1";
    net_layer(&net, "tanh");
    expect_fault(&net, two, 2, FAULT_EXPERIMENT, "net:2:1: the name '1' is taken");
}

static void networks_beyond_any_memory_are_refused(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 1 << 20, 1024, 1, 1024);
    expect_fault(&net, (struct shape){3, 32, 32}, 2, FAULT_SHAPE, "too many parameters");
    net_conv(&net, 1 << 20, 1, 1, 1024);
    expect_fault(&net, (struct shape){1, 32, 32}, 2, FAULT_SHAPE,
                 "net:1:1: a layer's output of 1048576 x 2080 x 2080");
    for (int i = 0; i < 4; i++)
        net_linear(&net, 1 << 24);
    expect_fault(&net, (struct shape){1, 32, 32}, 2, FAULT_SHAPE,
                 "net:2:1: 1: the layer has too many parameters");
}

static void a_tail_that_is_no_list_of_sizes_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "mlp",         "mlp:",   "mlp:0",  "mlp:-3",  "mlp:5-",
        "mlp:5--6",    "mlp:5x", "mlp: 5", "mlp:5,6", "mlp:99999999999999999999999",
        "mlp:1048577", "mlp:+5", "mlp:-"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct graph *g = NULL;
        fault f = model_try(bad[i], fashion, 10, &g);
        if (!f)
            fail_msg("'%s' was taken for a network", bad[i]);
        assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
        assert_non_null(strstr(fault_text(f), "net:1:1: "));
        fault_drop(f);
    }
}

static void pictures_too_small_for_a_model_are_refused_with_its_place(void **state)
{
    (void)state;
    struct graph *g = NULL;
    fault f = model_try("lenet", (struct shape){1, 6, 6}, 10, &g);
    assert_non_null(f);
    assert_string_equal(
        fault_text(f),
        "net:1:1: conv2 (conv): a window of 5 x 5 does not fit into 3 x 3 pixels with padding 0");
    fault_drop(f);
    graph_free(model_build("resnet20", (struct shape){1, 1, 1}, 2)); /* residual networks take any size */
}

static void expect_spread(const struct graph *g, const float *params, const char *name, double deviation,
                          double most)
{
    const struct param *p = &g->params[find_param(g, name)];
    double sum = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < p->size; i++) {
        double x = params[p->offset + i];
        sum += x;
        squares += x * x;
        largest = fmax(largest, fabs(x));
    }
    double mean = sum / (double)p->size, spread = sqrt(squares / (double)p->size), n = sqrt((double)p->size);
    assert_true(fabs(mean) < 5 * deviation / n);
    assert_true(fabs(spread - deviation) < 5 * deviation / n);
    assert_true(largest <= most);
}

static void parameters_start_as_the_network_wants_them(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", cifar, 10);
    float *x = calloc(g->size + g->stats_size, sizeof *x);
    graph_init(g, 1, x, x + g->size);
    expect_spread(g, x, "layer3.1.conv1.weight", sqrt(2.0 / 576), 1); /* Kaiming normal over the fan-in */
    expect_spread(g, x, "linear.weight", sqrt(2.0 / 64), 1);
    expect_spread(g, x, "linear.bias", 1 / sqrt(3 * 64.0), 0.125); /* PyTorch's default: uniform */
    const struct param *scale = &g->params[find_param(g, "bn1.weight")], *shift = scale + 1;
    for (size_t i = 0; i < 16; i++) {
        assert_true(x[scale->offset + i] == 1);
        assert_true(x[shift->offset + i] == 0);
        assert_true(x[g->size + g->stats[0].offset + i] == 0);
        assert_true(x[g->size + g->stats[1].offset + i] == 1);
    }
    free(x);
    graph_free(g);
    g = model_build("fashion-cnn", fashion, 10);
    x = calloc(g->size + g->stats_size, sizeof *x);
    graph_init(g, 1, x, x + g->size);
    expect_spread(g, x, "fc1.weight", 1 / sqrt(3 * 2304.0), 1 / sqrt(2304.0));
    expect_spread(g, x, "layer2.0.bias", 1 / sqrt(3 * 288.0), 1 / sqrt(288.0));
    free(x);
    graph_free(g);
}

static void a_layer_starts_as_its_init_says(void **state)
{
    (void)state;
    struct network net = {0};
    net_linear(&net, 200)->init = LAYER_INIT_XAVIER_UNIFORM;
    net_linear(&net, 300)->init = LAYER_INIT_KAIMING_NORMAL;
    net_linear(&net, 3)->init = LAYER_INIT_ZERO;
    struct graph *g = net_build(&net, (struct shape){100, 1, 1}, 3);
    float *x = calloc(g->size, sizeof *x);
    graph_init(g, 9, x, NULL);
    expect_spread(g, x, "0.weight", sqrt(2.0 / 300), sqrt(6.0 / 300) * 1.000001);
    expect_spread(g, x, "1.weight", sqrt(2.0 / 200), 1);
    for (size_t i = g->params[find_param(g, "2.weight")].offset; i < g->size; i++)
        assert_true(x[i] == 0);
    free(x);
    graph_free(g);
    net_release(&net);
}

static void the_start_follows_from_the_seed_alone(void **state)
{
    (void)state;
    struct graph *g = model_build("lenet", fashion, 10);
    float *a = calloc(3 * g->size, sizeof *a), *b = a + g->size, *c = b + g->size;
    graph_init(g, 5, a, NULL);
    graph_init(g, 5, b, NULL);
    graph_init(g, 6, c, NULL);
    assert_memory_equal(a, b, g->size * sizeof *a);
    assert_memory_not_equal(a, c, g->size * sizeof *a);
    free(a);
    graph_free(g);
}

static void a_description_has_a_line_for_every_layer(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 2, 1);
    net_batchnorm(&net);
    net_layer(&net, "relu");
    net_pool(&net, "maxpool", 2, 1, 0);
    net_dropout(&net, 0.25);
    net_linear(&net, 10);
    struct graph *g = net_build(&net, (struct shape){1, 28, 28}, 10);
    char *text = described(g);
    assert_string_equal(text,
                        "layer      what                       output       parameters\n"
                        "input                                 1 x 28 x 28\n"
                        "0          conv 3x3, stride 2, pad 1  4 x 14 x 14          40\n"
                        "1          batchnorm + relu           4 x 14 x 14           8\n"
                        "3          maxpool 2x2, stride 1      4 x 13 x 13\n"
                        "4          dropout 0.25               4 x 13 x 13\n"
                        "5.flatten  reshape                    676\n"
                        "5          linear                     10                6,770\n"
                        "loss       cross-entropy\n"
                        "layers: 6,818 parameters, 27.6 kFLOP forward and 68.8 kFLOP learning, a sample\n");
    free(text);
    graph_free(g);
    net_release(&net);
}

static void every_op_and_layer_row_is_filled(void **state)
{
    (void)state;
    static const char *const names[] = {
#define OP_TEXT(id, name) [id] = name,
        OPS(OP_TEXT)
#undef OP_TEXT
    };
    for (int k = 0; k < N_OPS; k++)
        assert_string_equal(op_rows[k].name, names[k]);
    for (size_t i = 0; i < layer_kinds.n; i++) {
        const struct kind *kind = &layer_kinds.rows[i];
        assert_non_null(kind->help);
        assert_non_null(kind->row);
        assert_int_equal(kind->holds_layers, strcmp(kind->name, "residual") == 0);
        assert_int_equal(kind->joins_layers,
                         strcmp(kind->name, "add") == 0 || strcmp(kind->name, "concat") == 0);
        for (size_t k = 0; k < kind->n_fields; k++)
            assert_true(kind->fields[k].offset < kind->size && kind->fields[k].help);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_models_have_as_many_parameters_as_their_papers_say),
        cmocka_unit_test(flops_are_those_of_convolutions_and_linear_layers),
        cmocka_unit_test(parameters_are_named_and_shaped_as_in_pytorch),
        cmocka_unit_test(a_group_has_weights_for_its_own_channels_only),
        cmocka_unit_test(parameters_lie_end_to_end),
        cmocka_unit_test(every_graph_is_well_formed_and_folded),
        cmocka_unit_test(a_relu_is_folded_only_where_it_is_the_only_reader),
        cmocka_unit_test(shapes_follow_from_the_layers),
        cmocka_unit_test(written_names_are_kept_and_residuals_prefix_their_layers),
        cmocka_unit_test(settings_that_are_left_out_are_those_of_pytorch),
        cmocka_unit_test(losses_default_to_cross_entropy),
        cmocka_unit_test(layers_that_do_not_fit_are_named_with_their_place_and_shapes),
        cmocka_unit_test(lists_that_are_no_network_are_refused),
        cmocka_unit_test(networks_beyond_any_memory_are_refused),
        cmocka_unit_test(a_tail_that_is_no_list_of_sizes_is_refused),
        cmocka_unit_test(pictures_too_small_for_a_model_are_refused_with_its_place),
        cmocka_unit_test(parameters_start_as_the_network_wants_them),
        cmocka_unit_test(a_layer_starts_as_its_init_says),
        cmocka_unit_test(the_start_follows_from_the_seed_alone),
        cmocka_unit_test(a_description_has_a_line_for_every_layer),
        cmocka_unit_test(every_op_and_layer_row_is_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
