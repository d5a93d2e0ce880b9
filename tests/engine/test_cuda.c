/* Every op of the engine `cuda` against the judge `ref`, in all shapes, for one, three and thirty-six
 * replicas that learn side by side: losses, hits, gradients and statistics of the same lessons. Needs a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/trials.h"

/* An exact trial is held to `ref` in bf16 as well, whatever it bends. */
static void check_for(const struct trial *t, size_t n_replicas)
{
    struct question q = {.g = t->g,
                         .data = t->data,
                         .batch = t->batch,
                         .n_replicas = n_replicas,
                         .seed = t->seed,
                         .exam = 7,
                         .examined = t->i % 8 ? 1 : 0,
                         .exact = t->exact};
    check_in_both(&engine_cuda, q, t->what, t->bends && !t->exact ? BENDS : SMOOTH);
}

static void check(const struct trial *t)
{
    check_for(t, 3);
}

/* Every second one alone, which takes less long where a GPU is pretended. */
static void check_for_one_or_three(const struct trial *t)
{
    check_for(t, t->i % 2 ? 3 : 1);
}

static void check_for_three_or_many(const struct trial *t)
{
    check_for(t, t->i % 8 ? 3 : 36);
}

static void convolutions_of_all_shapes_agree(void **state)
{
    (void)state;
    each_convolution(check_for_one_or_three);
}

static void groups_agree(void **state)
{
    (void)state;
    each_convolution_of_groups(check_for_one_or_three);
}

static void joined_branches_agree(void **state)
{
    (void)state;
    each_join(check_for_one_or_three);
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
    each_chain_of_residuals(check);
}

static void a_residual_alone_agrees(void **state)
{
    (void)state;
    each_residual(check);
}

static void random_networks_agree(void **state)
{
    (void)state;
    each_random_network(check_for_three_or_many);
}

/* An argument is a pattern: only the tests whose names match it are run. */
int main(int argc, char **argv)
{
    if (is_missing(&engine_cuda))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_all_shapes_agree),
        cmocka_unit_test(groups_agree),
        cmocka_unit_test(joined_branches_agree),
        cmocka_unit_test(pools_of_all_shapes_agree),
        cmocka_unit_test(pools_of_the_input_itself_agree),
        cmocka_unit_test(linear_layers_of_all_sizes_agree),
        cmocka_unit_test(residuals_of_all_kinds_agree),
        cmocka_unit_test(a_residual_alone_agrees),
        cmocka_unit_test(random_networks_agree),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
