/* Every gradient of the reference engine against central differences, in double precision. */
#include "support/judge.h"
#include "support/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const double tolerance = 1e-6;

static void expect_small(double error, const char *what)
{
    if (!(error < tolerance))
        fail_msg("%s: gradient and differences are %g apart", what, error);
}

static size_t windows(size_t side, const struct op *op)
{
    return (side + 2 * op->pad - op->kernel) / op->stride + 1;
}

/* Tries the op with batches of 1 to 3, overwriting and adding. */
static void try_op(const struct op *op, struct shape in, struct shape out)
{
    for (size_t batch = 1; batch <= 3; batch++)
        for (int adds = 0; adds < 2; adds++) {
            char what[160];
            snprintf(
                what, sizeof what,
                "%s, %zux%zux%zu, kernel %zu, stride %zu, pad %zu, groups %zu, batch %zu, relu %d, adds %d",
                op_rows[op->kind].name, in.c, in.h, in.w, op->kernel, op->stride, op->pad, op->groups, batch,
                op->relu, adds);
            expect_small(judge_op(op, in, out, batch, adds, 7 * batch + in.h), what);
        }
}

static const struct shape pictures[] = {{1, 1, 1}, {2, 3, 3}, {3, 5, 4}, {1, 7, 2}, {4, 4, 4}};
enum { N_PICTURES = sizeof pictures / sizeof *pictures };

static void a_convolution_of_any_kernel_stride_and_padding(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PICTURES; i++)
        for (size_t kernel = 1; kernel <= 4; kernel++)
            for (size_t stride = 1; stride <= 3; stride++)
                for (size_t pad = 0; pad <= 2; pad++) {
                    struct shape in = pictures[i];
                    struct op op = {
                        .kind = OP_CONV, .kernel = kernel, .stride = stride, .pad = pad, .groups = 1};
                    op.bias = (int)(kernel + stride + pad) % 2 - 1;
                    if (in.h + 2 * pad < kernel || in.w + 2 * pad < kernel)
                        continue;
                    try_op(&op, in,
                           (struct shape){1 + (kernel + i) % 3, windows(in.h, &op), windows(in.w, &op)});
                }
}

static void a_convolution_of_groups(void **state)
{
    (void)state;
    static const size_t groups[][3] = {
        /* in, out, groups */ {2, 2, 2}, {4, 2, 2}, {3, 6, 3}, {4, 4, 4}, {6, 4, 2}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (size_t stride = 1; stride <= 2; stride++)
            for (size_t pad = 0; pad <= 1; pad++) {
                struct shape in = {groups[i][0], 4, 3};
                struct op op = {.kind = OP_CONV, .kernel = 2 + pad, .stride = stride, .pad = pad};
                op.groups = groups[i][2];
                op.bias = (int)(i + pad) % 2 - 1;
                try_op(&op, in, (struct shape){groups[i][1], windows(in.h, &op), windows(in.w, &op)});
            }
}

static void channels_joined_to_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PICTURES; i++)
        for (size_t more = 1; more <= 5; more += 2) {
            struct shape in = pictures[i];
            try_op(&(struct op){.kind = OP_CONCAT}, in, (struct shape){in.c + more, in.h, in.w});
        }
}

static void a_linear_layer_with_and_without_bias(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 6; n++)
        for (int bias = -1; bias < 1; bias++)
            try_op(&(struct op){.kind = OP_LINEAR, .bias = bias}, (struct shape){n, 1, 1},
                   (struct shape){7 - n, 1, 1});
}

static void batchnorm_through_its_statistics_with_relu_or_without(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PICTURES; i++)
        for (int relu = 0; relu < 2; relu++)
            for (double eps = 1e-5; eps < 1; eps *= 100)
                try_op(&(struct op){.kind = OP_BATCHNORM, .relu = relu, .eps = eps, .momentum = 0.1},
                       pictures[i], pictures[i]);
}

static void ops_that_keep_the_shape(void **state)
{
    (void)state;
    static const enum op_kind kinds[] = {OP_ADD, OP_RELU, OP_TANH, OP_SIGMOID, OP_DROPOUT};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < N_PICTURES; i++)
            for (int relu = 0; relu < (kinds[k] == OP_ADD ? 2 : 1); relu++)
                try_op(&(struct op){.kind = kinds[k], .relu = relu, .rate = 0.4}, pictures[i], pictures[i]);
}

static void pools_of_any_window_overlapping_and_padded(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PICTURES; i++)
        for (size_t kernel = 1; kernel <= 3; kernel++)
            for (size_t stride = 1; stride <= 3; stride++)
                for (size_t pad = 0; pad <= kernel / 2; pad++) {
                    struct shape in = pictures[i];
                    struct op op = {.kind = OP_MAXPOOL, .kernel = kernel, .stride = stride, .pad = pad};
                    if (in.h + 2 * pad < kernel || in.w + 2 * pad < kernel)
                        continue;
                    struct shape out = {in.c, windows(in.h, &op), windows(in.w, &op)};
                    try_op(&op, in, out);
                    op.kind = OP_AVGPOOL;
                    try_op(&op, in, out);
                }
}

static void the_mean_of_all_pixels_and_a_new_shape(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PICTURES; i++) {
        struct shape in = pictures[i];
        try_op(&(struct op){.kind = OP_GLOBALPOOL}, in, (struct shape){in.c, 1, 1});
        try_op(&(struct op){.kind = OP_RESHAPE}, in, (struct shape){shape_size(in), 1, 1});
    }
}

static void the_shortcut_with_and_without_new_channels(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PICTURES; i++)
        for (size_t more = 0; more <= 5; more++)
            for (size_t s = 1; s <= 3; s++) {
                struct shape in = pictures[i];
                try_op(&(struct op){.kind = OP_SHORTCUT, .stride = s}, in,
                       (struct shape){in.c + more, (in.h + s - 1) / s, (in.w + s - 1) / s});
            }
}

static void every_loss(void **state)
{
    (void)state;
    for (int kind = OP_CROSS_ENTROPY; kind <= OP_LOGISTIC; kind++)
        for (size_t classes = 1; classes <= 7; classes++)
            try_op(&(struct op){.kind = (enum op_kind)kind}, (struct shape){classes, 1, 1},
                   (struct shape){0});
}

static void check_parameters(struct graph *g, size_t batch, uint64_t seed)
{
    struct judge *j = judge_new(g, batch, seed);
    expect_small(judge_every_parameter(j), g->name);
    judge_free(j);
}

static void every_parameter_of_random_networks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct network net = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 3);
        struct shape input = {1 + rng_below(&r, 3), 4 + seed % 3, 4 + seed % 3};
        net_random(&net, &r, input, 3, 2 + seed % 6);
        struct graph *g = net_build(&net, input, 3);
        check_parameters(g, 1 + seed % 3, seed);
        graph_free(g);
        net_release(&net);
    }
}

static void a_tensor_read_many_times_gathers_all_its_gradients(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 3, 3, 1, 1);
    net_residual(&net);
    net_residual(&net);
    net_residual(&net);
    net_layer(&net, "tanh");
    net_end(&net);
    net_layer(&net, "sigmoid");
    net_end(&net);
    net_layer(&net, "relu");
    net_end(&net);
    net_linear(&net, 3);
    struct graph *g = net_build(&net, (struct shape){2, 4, 4}, 3);
    for (uint64_t seed = 0; seed < 3; seed++)
        check_parameters(g, 2, seed);
    graph_free(g);
    net_release(&net);
}

/* A flatten of a vector is that vector. */
static void a_vector_joined_to_itself_gathers_all_its_gradients(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        static const char *const both[] = {"stem", "same"}, *const ends[] = {"joined", "late"};
        struct network net = {0};
        net_linear(&net, 5);
        net_layer(&net, "tanh");
        net_name(&net, "stem");
        net_layer(&net, "flatten");
        net_name(&net, "same");
        net_join(&net, k ? "concat" : "add", both, 2);
        net_layer(&net, "relu");
        net_name(&net, "joined");
        net_linear(&net, 4);
        net_from(&net, "stem");
        net_name(&net, "late");
        net_join(&net, "concat", ends, 2);
        net_linear(&net, 3);
        struct graph *g = net_build(&net, (struct shape){2, 3, 3}, 3);
        for (uint64_t seed = 0; seed < 3; seed++)
            check_parameters(g, 2, seed);
        graph_free(g);
        net_release(&net);
    }
}

static void a_block_that_begins_with_batchnorm_and_relu_leaves_its_input_alone(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 3, 3, 1, 1);
    net_batchnorm(&net);
    net_residual(&net); /* the relu below has company: the sum reads the batchnorm, too */
    net_layer(&net, "relu");
    net_conv(&net, 4, 3, 2, 1);
    net_end(&net);
    net_linear(&net, 2);
    struct graph *g = net_build(&net, (struct shape){1, 5, 5}, 2);
    check_parameters(g, 3, 1);
    graph_free(g);
    net_release(&net);
}

static void check_model(const char *name, struct shape input, size_t classes, size_t batch, size_t directions)
{
    struct graph *g = model_build(name, input, classes);
    struct judge *j = judge_new(g, batch, 11);
    expect_small(judge_directions(j, directions), name);
    judge_free(j);
    graph_free(g);
}

static void the_named_models_along_random_directions(void **state)
{
    (void)state;
    check_model("logistic", (struct shape){1, 6, 6}, 4, 3, 8);
    check_model("mlp:20-10", (struct shape){3, 4, 4}, 5, 3, 8);
    check_model("lenet", (struct shape){1, 16, 16}, 10, 2, 6);
    check_model("fashion-cnn", (struct shape){1, 10, 10}, 10, 2, 3);
    check_model("resnet20", (struct shape){3, 8, 8}, 10, 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_of_any_kernel_stride_and_padding),
        cmocka_unit_test(a_convolution_of_groups),
        cmocka_unit_test(channels_joined_to_others),
        cmocka_unit_test(a_linear_layer_with_and_without_bias),
        cmocka_unit_test(batchnorm_through_its_statistics_with_relu_or_without),
        cmocka_unit_test(ops_that_keep_the_shape),
        cmocka_unit_test(pools_of_any_window_overlapping_and_padded),
        cmocka_unit_test(the_mean_of_all_pixels_and_a_new_shape),
        cmocka_unit_test(the_shortcut_with_and_without_new_channels),
        cmocka_unit_test(every_loss),
        cmocka_unit_test(every_parameter_of_random_networks),
        cmocka_unit_test(a_tensor_read_many_times_gathers_all_its_gradients),
        cmocka_unit_test(a_vector_joined_to_itself_gathers_all_its_gradients),
        cmocka_unit_test(a_block_that_begins_with_batchnorm_and_relu_leaves_its_input_alone),
        cmocka_unit_test(the_named_models_along_random_directions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
