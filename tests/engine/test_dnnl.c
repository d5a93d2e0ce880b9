/* The engine `dnnl` against the judge `ref`: losses, hits, gradients and statistics of the same lessons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/trials.h"

/* Two threads share the lesson of one replica, or the lessons of three. */
static void check_as(const struct trial *t, enum nature nature)
{
    struct question q = {.g = t->g,
                         .data = t->data,
                         .batch = t->batch,
                         .n_replicas = t->i / 3 % 2 ? 3 : 1,
                         .seed = t->seed,
                         .exam = 24,
                         .examined = t->i % 8 ? 1 : 0,
                         .threads = 2,
                         .exact = t->exact};
    check_in_both(&engine_dnnl, q, t->what, nature);
}

static void check(const struct trial *t)
{
    check_as(t, t->bends && !t->exact ? BENDS : SMOOTH);
}

/* Batchnorms in a row, each over a few samples, widen what bf16 rounds off. */
static void check_deep(const struct trial *t)
{
    check_as(t, DEEP);
}

static void convolutions_of_all_shapes_agree(void **state)
{
    (void)state;
    each_convolution(check);
}

static void convolutions_of_groups_agree(void **state)
{
    (void)state;
    each_convolution_of_groups(check);
}

static void check_joined(const struct trial *t)
{
    check_as(t, t->bends ? DEEP : SMOOTH);
}

static void joined_branches_agree(void **state)
{
    (void)state;
    each_join(check_joined);
}

static void pools_of_all_shapes_agree(void **state)
{
    (void)state;
    each_pool(check);
}

static void pools_of_the_input_itself_agree(void **state)
{
    (void)state;
    each_pool_of_the_input(check);
}

static void linear_layers_of_all_sizes_agree(void **state)
{
    (void)state;
    each_linear(check);
}

static void residuals_of_all_kinds_agree(void **state)
{
    (void)state;
    each_chain_of_residuals(check_deep);
}

static void a_residual_alone_agrees(void **state)
{
    (void)state;
    each_residual(check);
}

static void random_networks_agree(void **state)
{
    (void)state;
    each_random_network(check);
}

static void check_model(const char *name, struct shape input, size_t batch, enum nature nature)
{
    struct graph *g = model_build(name, input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 40);
    struct question q = {
        .g = g, .data = d, .batch = batch, .n_replicas = 1, .seed = 5, .exam = 10, .threads = 2};
    check_in_both(&engine_dnnl, q, name, nature);
    random_dataset_free(d);
    graph_free(g);
}

static void named_models_agree(void **state)
{
    (void)state;
    check_model("logistic", (struct shape){1, 28, 28}, 10, SMOOTH);
    check_model("mlp:40-30", (struct shape){1, 28, 28}, 9, BENDS);
    check_model("lenet", (struct shape){1, 28, 28}, 6, BENDS);
    check_model("fashion-cnn", (struct shape){1, 28, 28}, 6, DEEP);
    check_model("resnet20", (struct shape){3, 12, 12}, 4, DEEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_all_shapes_agree),
        cmocka_unit_test(convolutions_of_groups_agree),
        cmocka_unit_test(joined_branches_agree),
        cmocka_unit_test(pools_of_all_shapes_agree),
        cmocka_unit_test(pools_of_the_input_itself_agree),
        cmocka_unit_test(linear_layers_of_all_sizes_agree),
        cmocka_unit_test(residuals_of_all_kinds_agree),
        cmocka_unit_test(a_residual_alone_agrees),
        cmocka_unit_test(random_networks_agree),
        cmocka_unit_test(named_models_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
