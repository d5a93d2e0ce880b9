/* Every op of the engine `cuda` against the judge `ref`, in all shapes, for one, three and thirty-six
 * replicas that learn side by side: losses, hits, gradients and statistics of the same lessons. Needs a GPU.
 */
#include "engine/cuda_judge.h"

/* A convolution with its input's gradient wanted, since another stands before it. */
static void check_conv(const size_t *s, size_t n_replicas)
{
    struct network n = {0};
    char what[128];
    snprintf(what, sizeof what, "conv %zu -> %zu, kernel %zu, stride %zu, pad %zu, side %zu, batch %zu", s[0],
             s[1], s[2], s[3], s[4], s[5], s[6]);
    net_conv(&n, (int64_t)s[0], 1, 1, 0)->bias = true;
    net_layer(&n, "tanh");
    net_conv(&n, (int64_t)s[1], (int64_t)s[2], (int64_t)s[3], (int64_t)s[4])->bias = (s[0] + s[1]) % 2;
    net_layer(&n, "sigmoid");
    net_layer(&n, "globalpool");
    net_linear(&n, 3);
    check_network(&n, (struct shape){2, s[5], s[5]}, 3, s[6], n_replicas, SMOOTH, what, s[0] * 1000 + s[1]);
    net_release(&n);
}

static void convolutions_of_all_shapes_agree(void **state)
{
    (void)state;
    static const size_t shapes[][7] = {
        /* in, out, kernel, stride, pad, side, batch */
        {1, 1, 1, 1, 0, 1, 1},    {3, 5, 3, 1, 1, 7, 3},    {16, 16, 3, 1, 1, 9, 5},
        {16, 32, 3, 2, 1, 8, 4},  {32, 32, 3, 1, 1, 13, 9}, {17, 33, 3, 1, 1, 5, 2},
        {33, 17, 3, 2, 1, 11, 3}, {64, 64, 3, 1, 1, 8, 8},  {70, 3, 5, 1, 2, 6, 2},
        {5, 70, 5, 2, 2, 9, 2},   {8, 24, 7, 1, 3, 10, 2},  {24, 8, 7, 3, 3, 15, 3},
        {32, 64, 3, 1, 0, 14, 6}, {16, 48, 3, 1, 2, 6, 3},  {48, 16, 1, 1, 0, 6, 7},
        {16, 16, 1, 2, 0, 7, 2},  {31, 31, 3, 3, 0, 10, 1}, {16, 16, 3, 1, 1, 1, 2},
        {4, 6, 3, 1, 0, 3, 4},    {20, 20, 5, 1, 0, 5, 3},  {48, 48, 3, 1, 1, 4, 11},
        {16, 32, 3, 1, 1, 20, 2}, {2, 9, 3, 2, 0, 12, 13},  {12, 40, 4, 2, 1, 10, 3},
        {68, 16, 3, 1, 1, 29, 2}, {4, 100, 3, 1, 1, 6, 3},  {64, 32, 3, 1, 1, 16, 2},
        {28, 68, 3, 1, 1, 5, 5},  {20, 64, 3, 1, 1, 15, 3}, {4, 4, 3, 1, 1, 32, 1},
        {16, 16, 3, 1, 1, 30, 2}, {36, 100, 3, 1, 1, 7, 2}, {100, 12, 3, 2, 1, 9, 2},
        {7, 16, 3, 1, 1, 12, 3},  {3, 40, 3, 1, 1, 16, 2},  {6, 10, 3, 2, 1, 6, 3},
        {48, 20, 3, 2, 1, 10, 2},
    };
    /* Larger ones for one replica, since an exam is of many more samples for three. */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_conv(shapes[i], i % 2 ? 3 : 1);
}

static void pools_of_all_shapes_agree(void **state)
{
    (void)state;
    static const int64_t shapes[][6] = {/* channels, kernel, stride, pad, side, batch */
                                        {5, 2, 2, 0, 8, 3},  {16, 2, 2, 0, 7, 2}, {20, 3, 2, 1, 9, 4},
                                        {33, 3, 1, 1, 6, 1}, {8, 3, 3, 0, 9, 5},  {16, 5, 2, 2, 11, 2},
                                        {3, 4, 4, 0, 4, 7},  {17, 2, 1, 0, 5, 3}};
    static const char *const kinds[] = {"maxpool", "avgpool"};
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i / 2];
        struct network n = {0};
        char what[128];
        snprintf(what, sizeof what, "%s of %d channels, kernel %d, stride %d, pad %d, side %d", kinds[i % 2],
                 (int)s[0], (int)s[1], (int)s[2], (int)s[3], (int)s[4]);
        net_conv(&n, s[0], 3, 1, 1)->bias = true;
        net_pool(&n, kinds[i % 2], s[1], s[2], s[3]);
        net_layer(&n, "tanh");
        net_linear(&n, 4);
        struct shape input = {3, (size_t)s[4], (size_t)s[4]};
        check_network(&n, input, 4, (size_t)s[5], 3, i % 2 ? SMOOTH : BENDS, what, (uint64_t)i + 50);
        net_release(&n);
        if (i % 2)
            continue;
        net_conv(&n, s[0], 3, 1, 1);
        net_pool(&n, kinds[i % 2], s[1], s[2], s[3]);
        net_linear(&n, 4);
        check_exact_in_bf16(&n, input, 4, (size_t)s[5], what, (uint64_t)i + 50);
        net_release(&n);
    }
}

static void pools_of_the_input_itself_agree(void **state)
{
    (void)state;
    struct network n = {0};
    net_pool(&n, "avgpool", 2, 2, 0);
    net_batchnorm(&n);
    net_conv(&n, 6, 3, 1, 1);
    net_linear(&n, 3);
    check_network(&n, (struct shape){3, 10, 10}, 3, 5, 3, SMOOTH, "a pool first", 9);
    net_release(&n);
}

static void linear_layers_of_all_sizes_agree(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {/* features, hidden, batch */ {1, 1, 1},
                                      {7, 5, 3},
                                      {16, 260, 4},
                                      {11, 600, 33},
                                      {13, 260, 5},
                                      {12, 70, 70}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct network n = {0};
        net_linear(&n, (int64_t)sizes[i][1])->bias = i % 2;
        net_layer(&n, "tanh");
        net_dropout(&n, 0.3);
        if (sizes[i][2] > 20)
            net_batchnorm(&n);
        net_linear(&n, 4);
        net_layer(&n, "mse");
        check_network(&n, (struct shape){sizes[i][0], 1, 1}, 4, sizes[i][2], 3, SMOOTH, "linear layers",
                      i + 80);
        check_network(&n, (struct shape){sizes[i][0] % 5 + 1, 7, 9}, 4, sizes[i][2], 3, SMOOTH,
                      "linear layers over pixels", i + 80);
        net_release(&n);
    }
}

static void residuals_of_all_kinds_agree(void **state)
{
    (void)state;
    static const size_t channels[] = {6, 16, 24};
    for (size_t i = 0; i < 3; i++) {
        struct network n = {0};
        int64_t c = (int64_t)channels[i];
        net_conv(&n, c, 3, 1, 1);
        net_batchnorm(&n);
        net_layer(&n, "relu");
        net_residual(&n);
        net_conv(&n, 2 * c, 3, 2, 1);
        net_batchnorm(&n);
        net_layer(&n, "relu");
        net_conv(&n, 2 * c, 3, 1, 1);
        net_batchnorm(&n);
        net_end(&n);
        net_layer(&n, "relu");
        net_residual(&n);
        net_conv(&n, 2 * c, 3, 1, 1);
        net_end(&n);
        net_residual(&n);
        net_batchnorm(&n);
        net_end(&n);
        net_dropout(&n, 0.2);
        net_layer(&n, "globalpool");
        net_linear(&n, 5);
        check_network(&n, (struct shape){3, 8, 8}, 5, 6, 3, BENDS, "residuals", i + 100);
        net_release(&n);
    }
}

static void a_residual_alone_agrees(void **state)
{
    (void)state;
    static const size_t channels[] = {6, 9, 16};
    for (size_t i = 0; i < 6; i++) {
        struct network n = {0};
        int64_t c = (int64_t)channels[i / 2], grows = i % 2 ? 2 : 1;
        for (int bends = 0; bends < 2; bends++) {
            net_residual(&n);
            net_conv(&n, grows * c, 3, grows, 1);
            net_end(&n);
            net_layer(&n, bends ? "relu" : "tanh");
            net_layer(&n, "globalpool");
            net_linear(&n, 5);
            check_network(&n, (struct shape){(size_t)c, 8, 8}, 5, 20, 3, bends ? BENDS : SMOOTH, "a residual",
                          i + 140);
            net_release(&n);
        }
    }
}

static void random_networks_agree(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct rng r = rng_stream(i, 0, RNG_TEST, 1);
        struct network n = {0};
        struct shape input = {1 + rng_below(&r, 5), 6, 6};
        input.h = input.w = 5 + rng_below(&r, 8);
        size_t classes = 2 + rng_below(&r, 20), batch = 2 + rng_below(&r, 19);
        char what[64];
        snprintf(what, sizeof what, "random network %d", (int)i);
        net_random(&n, &r, input, classes, 2 + rng_below(&r, 7));
        check_network(&n, input, classes, batch, i % 8 == 0 ? 36 : 3, BENDS, what, i);
        net_release(&n);
    }
}

/* An argument is a pattern: only the tests whose names match it are run. */
int main(int argc, char **argv)
{
    if (no_gpu())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_all_shapes_agree),
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
