/* The rounding twin of `ref`, which the tests of the engine `cuda` lean on, by itself: no GPU is needed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "support/network.h"
#include "support/rounded.h"

static void the_nearest_number_of_bf16_is_taken_and_of_two_the_even_one(void **state)
{
    (void)state;
    const float step = 0x1p-7f; /* above 1 */
    const float pairs[][2] = {{0, 0},
                              {1, 1},
                              {1 + 0.4f * step, 1},
                              {1 + 0.5f * step, 1},
                              {1 + 0.6f * step, 1 + step},
                              {1 + 1.5f * step, 1 + 2 * step},
                              {-(1 + 1.5f * step), -(1 + 2 * step)},
                              {1e-30f * (1 + 0x1p-20f), rounded(1e-30f)}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(rounded(pairs[i][0]) == pairs[i][1]);
}

/* One lesson's gradient. */
static float *learn_once(const struct engine_ops *ops, const struct graph *g, const struct dataset *d)
{
    struct pick picks[4];
    struct rng r = rng_stream(3, 0, RNG_TEST, 1);
    random_picks(&r, &d->train, false, 0, picks, 4);
    struct lesson lesson = {.picks = picks, .seed = 1};
    struct engine *e = engine_start(ops, g, d, 1, 4, 1, 7);
    float *grads = calloc(g->size, sizeof *grads);
    assert_non_null(grads);
    assert_null(ops->learn(e, &lesson, 1));
    assert_null(ops->read(e, ROW_GRADS, 0, grads));
    engine_close(e);
    return grads;
}

/* Neither nothing nor more than a few steps of bf16, fused or not. */
static void rounding_moves_a_gradient_a_little(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        struct network n = {0};
        net_conv(&n, fused ? 16 : 5, 3, 1, 1);
        if (fused)
            net_batchnorm(&n);
        else
            net_layer(&n, "tanh");
        net_layer(&n, "globalpool");
        net_linear(&n, 3);
        size_t side = fused ? 32 : 9;
        struct graph *g = net_build(&n, (struct shape){3, side, side}, 3);
        struct dataset *d = random_dataset(1, (struct shape){3, side, side}, 3, 10, 1);
        float *plain = learn_once(&engine_ref, g, d), *twin = learn_once(&engine_rounded, g, d);
        double off = 0, length = 0;
        for (size_t i = 0; i < g->size; i++) {
            off += pow((double)plain[i] - twin[i], 2);
            length += pow(plain[i], 2);
        }
        assert_true(sqrt(off / length) > 1e-5 && sqrt(off / length) < 2e-2);
        free(plain);
        free(twin);
        random_dataset_free(d);
        graph_free(g);
        net_release(&n);
    }
}

/* What a convolution of 16 channels, a batchnorm and a mean make of a lesson. Of so many groups, or with zeros where these have
 * no weights. */
static double loss_of(const struct engine_ops *ops, size_t groups, bool has_groups, const struct dataset *d)
{
    enum { CHANNELS = 16, WINDOW = 9 };
    struct network n = {0};
    net_conv(&n, CHANNELS, 3, 1, 1)->groups = has_groups ? (int64_t)groups : 1;
    net_batchnorm(&n);
    net_layer(&n, "globalpool");
    net_linear(&n, 3);
    struct graph *g = net_build(&n, (struct shape){CHANNELS, 32, 32}, 3);
    struct engine *e = engine_start(ops, g, d, 1, 4, 1, 7);
    float *params = calloc(g->size, sizeof *params);
    struct rng r = rng_stream(6, 0, RNG_TEST, 0);
    size_t at = 0, in_group = CHANNELS / groups;
    for (size_t out = 0; out < CHANNELS; out++)
        for (size_t in = 0; in < CHANNELS; in++)
            for (size_t k = 0; k < WINDOW; k++) {
                bool is_there = in / in_group == out / in_group;
                if (is_there || !has_groups)
                    params[at++] = is_there ? (float)rng_normal(&r) : 0;
            }
    while (at < g->size)
        params[at++] = (float)rng_normal(&r);
    assert_null(ops->write(e, ROW_PARAMS, 0, params));
    struct pick picks[4] = {{.sample = 1}, {.sample = 2}, {.sample = 3}, {.sample = 4}};
    struct lesson lesson = {.picks = picks};
    assert_null(ops->learn(e, &lesson, 1));
    engine_close(e);
    free(params);
    graph_free(g);
    net_release(&n);
    return lesson.loss;
}

/* Of the same numbers: a batchnorm behind groups is rounded, since nothing is fused there. */
static void a_convolution_of_groups_is_never_fused(void **state)
{
    (void)state;
    struct dataset *d = random_dataset(2, (struct shape){16, 32, 32}, 3, 10, 1);
    assert_true(fabs(loss_of(&engine_ref, 2, true, d) - loss_of(&engine_ref, 2, false, d)) < 1e-6);
    assert_true(loss_of(&engine_rounded, 2, true, d) != loss_of(&engine_rounded, 2, false, d));
    random_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_number_of_bf16_is_taken_and_of_two_the_even_one),
        cmocka_unit_test(rounding_moves_a_gradient_a_little),
        cmocka_unit_test(a_convolution_of_groups_is_never_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
