/* The engine `dnnl` against the judge `ref`: losses, hits, gradients and statistics of the same lessons. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/network.h"

/* How far two spans are apart, against the length of the second. */
static double apart(const float *a, const float *b, size_t n)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        length += (double)b[i] * b[i];
    }
    return sqrt(difference) / (sqrt(length) + 1e-30);
}

struct answer { /* what a lesson and an exam gave */
    double loss, exam_loss;
    size_t hits, exam_hits;
    float *grads, *stats; /* owned */
};

static void answer_release(struct answer *a)
{
    free(a->grads);
    free(a->stats);
}

struct question {
    const struct graph *g;
    const struct dataset *data;
    size_t batch;
    int threads;
    enum precision precision;
    size_t exam_first, exam_n;
    uint64_t seed;
    bool exact; /* the first layer's weights are -1, 0 and 1 */
};

static struct engine *open_engine(const struct engine_ops *ops, const struct question *q, size_t n_replicas)
{
    struct engine_setup setup = {.graph = q->g,
                                 .train = &q->data->train,
                                 .test = &q->data->test,
                                 .n_replicas = n_replicas,
                                 .batch = q->batch,
                                 .precision = q->precision,
                                 .threads = q->threads};
    struct engine *e = NULL;
    fault f = ops->open(&setup, &e);
    if (f)
        fail_msg("%s", fault_text(f));
    return e;
}

/* Not every processor computes in bf16; the engine says so when it is opened. */
static bool can_bf16(const struct question *q)
{
    struct engine_setup setup = {.graph = q->g,
                                 .train = &q->data->train,
                                 .test = &q->data->test,
                                 .n_replicas = 1,
                                 .batch = 1,
                                 .precision = PRECISION_BF16,
                                 .threads = 1};
    struct engine *e = NULL;
    fault f = engine_dnnl.open(&setup, &e);
    if (!f)
        engine_dnnl.close(e);
    bool can = !f || !strstr(fault_text(f), "this processor does not compute in bf16");
    fault_drop(f);
    return can;
}

/* Parameters and statistics with some noise, different for each replica. */
static void write_rows(struct engine *e, const struct question *q, size_t replica, uint64_t seed)
{
    const struct graph *g = q->g;
    struct rng r = rng_stream(seed, (uint32_t)replica, RNG_TEST, 7);
    float *params = calloc(g->size + g->stats_size + 1, sizeof *params);
    assert_non_null(params);
    graph_init(g, seed + replica, params, params + g->size);
    for (size_t i = 0; i < g->size; i++)
        params[i] += 0.02f * (float)rng_normal(&r);
    for (size_t i = 0; i < g->stats_size; i++)
        params[g->size + i] += 0.2f * (float)rng_uniform(&r);
    for (size_t i = 0; q->exact && i < g->params[0].size; i++)
        params[g->params[0].offset + i] = (float)rng_below(&r, 3) - 1;
    assert_null(e->ops->write(e, ROW_PARAMS, replica, params));
    assert_null(e->ops->write(e, ROW_STATS, replica, params + g->size));
    free(params);
}

static void read_rows(struct engine *e, const struct question *q, size_t replica, struct answer *a)
{
    a->grads = calloc(q->g->size + 1, sizeof(float));
    a->stats = calloc(q->g->stats_size + 1, sizeof(float));
    assert_null(e->ops->read(e, ROW_GRADS, replica, a->grads));
    assert_null(e->ops->read(e, ROW_STATS, replica, a->stats));
}

static void make_picks(const struct question *q, size_t replica, struct pick *picks)
{
    struct rng r = rng_stream(q->seed, (uint32_t)replica, RNG_TEST, 8);
    bool has_pixels = q->data->train.h > 1;
    random_picks(&r, &q->data->train, has_pixels, has_pixels ? 2 : 0, picks, q->batch);
}

/* Two lessons on one replica (the second must not see what the first left behind), then an exam. */
static struct answer ask(const struct engine_ops *ops, const struct question *q)
{
    struct answer a = {0};
    struct engine *e = open_engine(ops, q, 1);
    struct pick *picks = calloc(q->batch, sizeof *picks);
    write_rows(e, q, 0, q->seed);
    make_picks(q, 3, picks);
    struct lesson l = {.picks = picks, .seed = q->seed};
    assert_null(ops->learn(e, &l, 1));
    make_picks(q, 0, picks);
    assert_null(ops->learn(e, &l, 1));
    a.loss = l.loss;
    a.hits = l.hits;
    read_rows(e, q, 0, &a);
    if (q->exam_n) {
        struct exam x = {.first = q->exam_first, .n = q->exam_n};
        assert_null(ops->examine(e, &x, 1));
        a.exam_loss = x.loss;
        a.exam_hits = x.hits;
    }
    free(picks);
    ops->close(e);
    return a;
}

static struct answer ask_judge(const struct question *q)
{
    struct question judge = *q;
    judge.precision = PRECISION_FP32;
    judge.threads = 1;
    return ask(&engine_ref, &judge);
}

static void complain(const struct question *q, const struct answer *have, const struct answer *want)
{
    for (size_t i = 0; i < q->g->n_params; i++) {
        const struct param *p = &q->g->params[i];
        print_message("  %-24s %.2e\n", p->name,
                      apart(have->grads + p->offset, want->grads + p->offset, p->size));
    }
}

static void check_against(const struct question *q, const struct answer *want, const char *what, double bound)
{
    struct answer have = ask(&engine_dnnl, q);
    double loss = fabs(have.loss - want->loss) / (fabs(want->loss) + 1e-3);
    double exam = fabs(have.exam_loss - want->exam_loss) / (fabs(want->exam_loss) + 1e-3);
    double grads = apart(have.grads, want->grads, q->g->size);
    double stats = apart(have.stats, want->stats, q->g->stats_size);
    if (!(loss < bound) || !(exam < bound) || !(grads < bound) || !(stats < bound)) {
        complain(q, &have, want);
        fail_msg("%s: off by %.2e in loss, %.2e in the exam, %.2e in gradients, %.2e in statistics", what,
                 loss, exam, grads, stats);
    }
    if (q->precision == PRECISION_FP32) {
        assert_true(have.hits == want->hits);
        assert_true(have.exam_hits == want->exam_hits);
    }
    answer_release(&have);
}

static void check_close(const struct question *q, const char *what, double bound)
{
    struct answer want = ask_judge(q);
    check_against(q, &want, what, bound);
    answer_release(&want);
}

/* The largest of several numbers is not continuous: two that round to the same bf16 may hand a gradient to
 * another pixel. So what is pooled here is exact in both precisions, equals among them: inputs of 0 and 1,
 * weights of -1, 0, 1. */
static void check_exact_in_bf16(const struct network *n, struct shape input, size_t classes, size_t batch,
                                const char *what, uint64_t seed)
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(seed, input, classes, 50, 90);
    uint8_t *pixels = (uint8_t *)d->train.pixels;
    for (size_t i = 0; i < d->train.n * input.c * input.h * input.w; i++)
        pixels[i] = pixels[i] < 128 ? 0 : 255;
    for (size_t c = 0; c < input.c; c++) {
        d->train.mean[c] = 0;
        d->train.deviation[c] = 1;
    }
    struct question q = {g, d, batch, 2, PRECISION_BF16, 0, 0, seed, .exact = true};
    if (can_bf16(&q))
        check_close(&q, what, 2e-2);
    random_dataset_free(d);
    graph_free(g);
}

/* `bf16`: the bound for that precision; 0: it is checked elsewhere. */
static void check_network(const struct network *n, struct shape input, size_t classes, size_t batch,
                          double bf16, const char *what, uint64_t seed)
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(seed, input, classes, 50, 90);
    struct question q = {g, d, batch, 2, PRECISION_FP32, 3, 70, seed, .exact = false};
    struct answer want = ask_judge(&q);
    check_against(&q, &want, what, 1e-4);
    q.precision = PRECISION_BF16;
    if (bf16 > 0 && can_bf16(&q))
        check_against(&q, &want, what, bf16);
    answer_release(&want);
    random_dataset_free(d);
    graph_free(g);
}

/* conv (with its input's gradient wanted, since another stands before it), batchnorm or bias, pool, linear */
static void check_conv(size_t in, size_t out, size_t kernel, size_t stride, size_t pad, size_t side,
                       size_t batch)
{
    struct network n = {0};
    char what[128];
    snprintf(what, sizeof what, "conv %zu -> %zu, kernel %zu, stride %zu, pad %zu, side %zu, batch %zu", in,
             out, kernel, stride, pad, side, batch);
    net_conv(&n, (int64_t)in, 1, 1, 0)->bias = true;
    net_layer(&n, "tanh");
    net_conv(&n, (int64_t)out, (int64_t)kernel, (int64_t)stride, (int64_t)pad)->bias = (in + out) % 2;
    net_layer(&n, "sigmoid");
    net_layer(&n, "globalpool");
    net_linear(&n, 3);
    check_network(&n, (struct shape){2, side, side}, 3, batch, 2e-2, what, in * 1000 + out);
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
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t *s = shapes[i];
        check_conv(s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
    }
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
        check_network(&n, input, 4, (size_t)s[5], i % 2 ? 2e-2 : 0, what, (uint64_t)i + 50);
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
    net_pool(&n, "maxpool", 2, 2, 0);
    net_batchnorm(&n);
    net_conv(&n, 6, 3, 1, 1);
    net_linear(&n, 3);
    check_network(&n, (struct shape){3, 10, 10}, 3, 5, 2e-2, "a pool first", 9);
    net_release(&n);
}

static void linear_layers_of_all_sizes_agree(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {
        /* features, hidden, batch */ {1, 1, 1}, {7, 5, 3}, {16, 260, 4}, {11, 600, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct network n = {0};
        net_linear(&n, (int64_t)sizes[i][1])->bias = i % 2;
        net_layer(&n, "tanh");
        net_dropout(&n, 0.3);
        if (sizes[i][2] > 20)
            net_batchnorm(&n);
        net_linear(&n, 4);
        net_layer(&n, "mse");
        check_network(&n, (struct shape){sizes[i][0], 1, 1}, 4, sizes[i][2], 2e-2, "linear layers", i + 80);
        check_network(&n, (struct shape){sizes[i][0] % 5 + 1, 7, 9}, 4, sizes[i][2], 2e-2,
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
        /* Five batchnorms in a row, each over a few samples, widen what bf16 rounds off. */
        check_network(&n, (struct shape){3, 8, 8}, 5, 6, 8e-2, "residuals", i + 100);
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
        net_residual(&n);
        net_conv(&n, grows * c, 3, grows, 1);
        net_end(&n);
        net_layer(&n, "relu");
        net_layer(&n, "globalpool");
        net_linear(&n, 5);
        check_network(&n, (struct shape){(size_t)c, 8, 8}, 5, 20, 2e-2, "a residual", i + 140);
        net_release(&n);
    }
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* A whole network in bf16: a sum near zero may fall on the other side of a relu or of a pool's largest, so
 * single elements of a gradient may differ by all they are; its loss and its direction may not. */
static void check_direction_in_bf16(struct question q, const char *what, double least)
{
    q.precision = PRECISION_BF16;
    if (!can_bf16(&q))
        return;
    struct answer want = ask_judge(&q), have = ask(&engine_dnnl, &q);
    double loss = fabs(have.loss - want.loss) / (fabs(want.loss) + 1e-3);
    double exam = fabs(have.exam_loss - want.exam_loss) / (fabs(want.exam_loss) + 1e-3);
    double along = cosine(have.grads, want.grads, q.g->size);
    if (!(loss < 2e-2) || !(exam < 2e-2) || !(along > least))
        fail_msg("%s in bf16: off by %.2e in loss, %.2e in the exam; the gradient's cosine is %.4f", what,
                 loss, exam, along);
    answer_release(&want);
    answer_release(&have);
}

static void random_networks_agree(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct rng r = rng_stream(i, 0, RNG_TEST, 1);
        struct network n = {0};
        struct shape input = {1 + rng_below(&r, 5), 6, 6};
        input.h = input.w = 5 + rng_below(&r, 8);
        size_t classes = 2 + rng_below(&r, 20), batch = 1 + rng_below(&r, 20);
        char what[64];
        snprintf(what, sizeof what, "random network %d", (int)i);
        net_random(&n, &r, input, classes, 2 + rng_below(&r, 7));
        struct graph *g = net_build(&n, input, classes);
        struct dataset *d = random_dataset(i, input, classes, 50, 90);
        struct question q = {g, d, batch < 2 ? 2 : batch, 2, PRECISION_FP32, 3, 70, i, .exact = false};
        check_close(&q, what, 1e-4);
        check_direction_in_bf16(q, what, 0.99);
        random_dataset_free(d);
        graph_free(g);
        net_release(&n);
    }
}

static void check_model(const char *name, struct shape input, size_t batch)
{
    struct graph *g = model_build(name, input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 40);
    struct question q = {g, d, batch, 2, PRECISION_FP32, 0, 10, 5, .exact = false};
    check_close(&q, name, 1e-4);
    check_direction_in_bf16(q, name, 0.95); /* resnet20 is deep */
    random_dataset_free(d);
    graph_free(g);
}

static void named_models_agree(void **state)
{
    (void)state;
    check_model("logistic", (struct shape){1, 28, 28}, 10);
    check_model("mlp:40-30", (struct shape){1, 28, 28}, 9);
    check_model("lenet", (struct shape){1, 28, 28}, 6);
    check_model("fashion-cnn", (struct shape){1, 28, 28}, 6);
    check_model("resnet20", (struct shape){3, 12, 12}, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_all_shapes_agree),
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
