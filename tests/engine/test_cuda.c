/* The engine `cuda` against the judge `ref`, for one, three and thirty-six replicas that learn side by side:
 * losses, hits, gradients and statistics of the same lessons. Steps and mixes are the host's bit for bit.
 * Needs a GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "optim/rules.h"
#include "support/network.h"

static double apart(const float *a, const float *b, size_t n)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        length += (double)b[i] * b[i];
    }
    return sqrt(difference) / (sqrt(length) + 1e-30);
}

struct question {
    const struct graph *g;
    const struct dataset *data;
    size_t batch, n_replicas;
    enum precision precision;
    uint64_t seed;
    bool exact; /* the first layer's weights are -1, 0 and 1 */
    bool calm;  /* no number comes near a relu's kink, where bf16 would fall on the other side */
};

struct answer { /* of all replicas */
    double *loss, *exam_loss;
    size_t *hits, *exam_hits;
    float *grads, *stats; /* [replica][...] */
};

static void *zeros(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

static void must(fault f)
{
    if (f)
        fail_msg("%s", fault_text(f));
}

static struct answer answer_new(const struct question *q)
{
    size_t n = q->n_replicas;
    return (struct answer){zeros(n, sizeof(double)),
                           zeros(n, sizeof(double)),
                           zeros(n, sizeof(size_t)),
                           zeros(n, sizeof(size_t)),
                           zeros(n * q->g->size, sizeof(float)),
                           zeros(n * q->g->stats_size, sizeof(float))};
}

static void answer_release(struct answer *a)
{
    free(a->loss);
    free(a->exam_loss);
    free(a->hits);
    free(a->exam_hits);
    free(a->grads);
    free(a->stats);
}

static struct engine *open_engine(const struct engine_ops *ops, const struct question *q)
{
    struct engine_setup setup = {.graph = q->g,
                                 .train = &q->data->train,
                                 .test = &q->data->test,
                                 .n_replicas = q->n_replicas,
                                 .batch = q->batch,
                                 .precision = ops == &engine_ref ? PRECISION_FP32 : q->precision};
    struct engine *e = NULL;
    must(ops->open(&setup, &e));
    return e;
}

static void fill(float *params, const struct param *p, float low, float high)
{
    for (size_t i = 0; i < p->size; i++)
        params[p->offset + i] = i % 5 == 4 ? low : high;
}

/* Biases before every relu keep four channels in five well above zero, the fifth well below. */
static void calm(const struct graph *g, float *params)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        if (op->kind == OP_BATCHNORM) {
            fill(params, &g->params[op->weight], 0.25f, 0.3f);
            fill(params, &g->params[op->bias], op->relu ? -1.5f : 1.5f, 1.5f);
        }
        if (op->kind == OP_RELU && g->tensors[op->in[0]].producer >= 0) {
            const struct op *before = &g->ops[g->tensors[op->in[0]].producer];
            if (before->bias >= 0)
                fill(params, &g->params[before->bias], -5, 5);
        }
    }
}

/* Parameters and statistics with some noise, different for each replica. */
static void write_rows(struct engine *e, const struct question *q, size_t replica)
{
    const struct graph *g = q->g;
    struct rng r = rng_stream(q->seed, (uint32_t)replica, RNG_TEST, 7);
    float *params = zeros(g->size + g->stats_size, sizeof *params);
    graph_init(g, q->seed + replica, params, params + g->size);
    for (size_t i = 0; i < g->size; i++)
        params[i] += 0.02f * (float)rng_normal(&r);
    for (size_t i = 0; i < g->stats_size; i++)
        params[g->size + i] += 0.2f * (float)rng_uniform(&r);
    for (size_t i = 0; q->exact && i < g->params[0].size; i++)
        params[g->params[0].offset + i] = (float)rng_below(&r, 3) - 1;
    if (q->calm)
        calm(g, params);
    must(e->ops->write(e, ROW_PARAMS, replica, params));
    must(e->ops->write(e, ROW_STATS, replica, params + g->size));
    free(params);
}

/* Lessons for all replicas, the last one first, so that seats and replicas differ. */
static struct lesson *make_lessons(const struct question *q, uint64_t round, struct pick *picks)
{
    struct lesson *lessons = zeros(q->n_replicas, sizeof *lessons);
    bool has_pixels = q->data->train.h > 1;
    for (size_t i = 0; i < q->n_replicas; i++) {
        struct rng r = rng_stream(q->seed, (uint32_t)i, RNG_TEST, 8 + round);
        size_t replica = q->n_replicas - 1 - i;
        random_picks(&r, &q->data->train, has_pixels, has_pixels ? 2 : 0, picks + i * q->batch, q->batch);
        lessons[i] = (struct lesson){.replica = replica, .picks = picks + i * q->batch, .seed = q->seed + i};
    }
    return lessons;
}

static void learn(struct engine *e, const struct question *q, uint64_t round, struct answer *a)
{
    struct pick *picks = zeros(q->n_replicas * q->batch, sizeof *picks);
    struct lesson *lessons = make_lessons(q, round, picks);
    must(e->ops->learn(e, lessons, q->n_replicas));
    for (size_t i = 0; i < q->n_replicas; i++) {
        a->loss[lessons[i].replica] = lessons[i].loss;
        a->hits[lessons[i].replica] = lessons[i].hits;
    }
    free(lessons);
    free(picks);
}

static void examine(struct engine *e, const struct question *q, struct answer *a)
{
    struct exam *exams = zeros(q->n_replicas, sizeof *exams);
    for (size_t i = 0; i < q->n_replicas; i++) /* of all lengths, from none to more than a piece */
        exams[i] =
            (struct exam){.replica = i, .on_train = i % 3 == 1, .first = i % 5, .n = (7 + 35 * i) % 86};
    for (size_t i = 0; i < q->n_replicas; i++)
        if (exams[i].on_train)
            exams[i].n = exams[i].n % 45;
    must(e->ops->examine(e, exams, q->n_replicas));
    for (size_t i = 0; i < q->n_replicas; i++) {
        a->exam_loss[i] = exams[i].loss;
        a->exam_hits[i] = exams[i].hits;
    }
    free(exams);
}

/* Three lessons (the later ones must not see what the first left behind, and the third is a replay), an exam.
 */
static struct answer ask(const struct engine_ops *ops, const struct question *q)
{
    struct answer a = answer_new(q);
    struct engine *e = open_engine(ops, q);
    for (size_t i = 0; i < q->n_replicas; i++)
        write_rows(e, q, i);
    for (uint64_t round = 0; round < 3; round++)
        learn(e, q, round, &a);
    examine(e, q, &a);
    for (size_t i = 0; i < q->n_replicas; i++) {
        must(ops->read(e, ROW_GRADS, i, a.grads + i * q->g->size));
        must(ops->read(e, ROW_STATS, i, a.stats + i * q->g->stats_size));
    }
    ops->close(e);
    return a;
}

/* Errors of whole networks are worth seeing even when they are small. */
static bool verbose(const char *what)
{
    return strstr(what, "blocks") || strstr(what, "resnet") || strstr(what, "fashion");
}

static void complain(const struct question *q, const float *have, const float *want)
{
    for (size_t i = 0; i < q->g->n_params; i++) {
        const struct param *p = &q->g->params[i];
        print_message("  %-24s %.2e\n", p->name, apart(have + p->offset, want + p->offset, p->size));
    }
}

/* `bound` is for everything but the gradients, which have one of their own. */
static void check_replica(const struct question *q, const struct answer *have, const struct answer *want,
                          size_t i, const char *what, double bound, double of_grads)
{
    size_t size = q->g->size, stats_size = q->g->stats_size;
    double loss = fabs(have->loss[i] - want->loss[i]) / (fabs(want->loss[i]) + 1e-3);
    double exam = fabs(have->exam_loss[i] - want->exam_loss[i]) / (fabs(want->exam_loss[i]) + 1e-3);
    double grads = apart(have->grads + i * size, want->grads + i * size, size);
    double stats = apart(have->stats + i * stats_size, want->stats + i * stats_size, stats_size);
    if (verbose(what))
        print_message("%-40s %s replica %zu: loss %.1e exam %.1e gradients %.1e statistics %.1e\n", what,
                      q->precision == PRECISION_BF16 ? "bf16" : "fp32", i, loss, exam, grads, stats);
    if (!(loss < bound) || !(exam < bound) || !(grads < of_grads) || !(stats < bound)) {
        complain(q, have->grads + i * size, want->grads + i * size);
        fail_msg(
            "%s, replica %zu of %zu, %s: off by %.2e in loss, %.2e in the exam, %.2e in gradients, %.2e in "
            "statistics",
            what, i, q->n_replicas, q->precision == PRECISION_BF16 ? "bf16" : "fp32", loss, exam, grads,
            stats);
    }
    if (q->precision == PRECISION_FP32) {
        assert_int_equal(have->hits[i], want->hits[i]);
        assert_int_equal(have->exam_hits[i], want->exam_hits[i]);
    }
}

static void check_against(const struct question *q, const struct answer *want, const char *what, double bound,
                          double of_grads)
{
    struct answer have = ask(&engine_cuda, q);
    for (size_t i = 0; i < q->n_replicas; i++)
        check_replica(q, &have, want, i, what, bound, of_grads);
    answer_release(&have);
}

/* `bf16`: the bound of gradients in that precision; 0: it is checked elsewhere. */
static void check_question(struct question q, const char *what, double bf16)
{
    struct answer want = ask(&engine_ref, &q);
    q.precision = PRECISION_FP32;
    check_against(&q, &want, what, 1e-4, 1e-4);
    q.precision = PRECISION_BF16;
    if (bf16 > 0)
        check_against(&q, &want, what, 2e-2, bf16);
    answer_release(&want);
}

static void check_network(const struct network *n, struct shape input, size_t classes, size_t batch,
                          size_t n_replicas, double bf16, const char *what, uint64_t seed)
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(seed, input, classes, 50, 90);
    check_question((struct question){g, d, batch, n_replicas, PRECISION_FP32, seed, false, false}, what, bf16);
    random_dataset_free(d);
    graph_free(g);
}

/* The largest of several numbers is not continuous, so what is pooled here is exact in both precisions:
 * inputs of 0 and 1, weights of -1, 0, 1. */
static void check_exact_in_bf16(const struct network *n, struct shape input, size_t classes, size_t batch,
                                const char *what, uint64_t seed)
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(seed, input, classes, 50, 90);
    struct samples *sets[] = {&d->train, &d->test};
    for (int k = 0; k < 2; k++) {
        uint8_t *pixels = (uint8_t *)sets[k]->pixels;
        for (size_t i = 0; i < sets[k]->n * shape_size(input); i++)
            pixels[i] = pixels[i] < 128 ? 0 : 255;
        for (size_t c = 0; c < input.c; c++) {
            sets[k]->mean[c] = 0;
            sets[k]->deviation[c] = 1;
        }
    }
    struct question q = {g, d, batch, 3, PRECISION_BF16, seed, true, false};
    struct answer want = ask(&engine_ref, &q);
    check_against(&q, &want, what, 2e-2, 2e-2);
    answer_release(&want);
    random_dataset_free(d);
    graph_free(g);
}

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
    check_network(&n, (struct shape){2, s[5], s[5]}, 3, s[6], n_replicas, 2e-2, what, s[0] * 1000 + s[1]);
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
        check_network(&n, input, 4, (size_t)s[5], 3, i % 2 ? 2e-2 : 0, what, (uint64_t)i + 50);
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
    check_network(&n, (struct shape){3, 10, 10}, 3, 5, 3, 2e-2, "a pool first", 9);
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
        check_network(&n, (struct shape){sizes[i][0], 1, 1}, 4, sizes[i][2], 3, 2e-2, "linear layers",
                      i + 80);
        check_network(&n, (struct shape){sizes[i][0] % 5 + 1, 7, 9}, 4, sizes[i][2], 3, 2e-2,
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
        check_network(&n, (struct shape){3, 8, 8}, 5, 6, 3, 8e-2, "residuals", i + 100);
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
            check_network(&n, (struct shape){(size_t)c, 8, 8}, 5, 20, 3, bends ? 0 : 2e-2, "a residual", i + 140);
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
        check_network(&n, input, classes, batch, i % 8 == 0 ? 36 : 3, 0, what, i);
        net_release(&n);
    }
}

static void check_model(const char *name, struct shape input, size_t batch, size_t n_replicas, bool is_calm,
                        double bf16)
{
    struct graph *g = model_build(name, input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 100);
    check_question((struct question){g, d, batch, n_replicas, PRECISION_FP32, 5, false, is_calm}, name, bf16);
    random_dataset_free(d);
    graph_free(g);
}

static void named_models_agree(void **state)
{
    (void)state;
    static const size_t n_replicas[] = {1, 3, 36};
    for (size_t i = 0; i < 3; i++) {
        check_model("logistic", (struct shape){1, 28, 28}, 10, n_replicas[i], false, 2e-2);
        check_model("mlp:40-30", (struct shape){1, 28, 28}, 9, n_replicas[i], true, 2e-2);
        check_model("lenet", (struct shape){1, 28, 28}, 6, n_replicas[i], false, 0);
    }
    check_model("resnet20", (struct shape){3, 12, 12}, 4, 3, false, 0);
}

static void net_block(struct network *n, int64_t out, int64_t stride)
{
    net_residual(n);
    net_conv(n, out, 3, stride, 1);
    net_batchnorm(n);
    net_layer(n, "relu");
    net_conv(n, out, 3, 1, 1);
    net_batchnorm(n);
    net_end(n);
    net_layer(n, "relu");
}

/* Blocks as in ResNet-20, of one, two and three stages: what fused.h takes over in bf16. Every layer rounds, so the
 * bound grows with their number. */
static void residual_blocks_agree_in_every_shape(void **state)
{
    (void)state;
    static const size_t batches[] = {1, 4, 7};
    for (size_t stages = 1; stages <= 3; stages++) {
        struct network n = {0};
        net_conv(&n, 16, 3, 1, 1);
        net_batchnorm(&n);
        net_layer(&n, "relu");
        for (size_t stage = 0; stage < stages; stage++) {
            net_block(&n, 16 << stage, stage ? 2 : 1);
            net_block(&n, 16 << stage, 1);
        }
        net_layer(&n, "globalpool");
        net_linear(&n, 6);
        struct shape input = {3, 32, 32};
        struct graph *g = net_build(&n, input, 6);
        struct dataset *d = random_dataset(stages, input, 6, 50, 90);
        char what[64];
        snprintf(what, sizeof what, "blocks of %zu stages", stages);
        struct question q = {g, d, batches[stages - 1], 3, PRECISION_FP32, stages, false, true};
        check_question(q, what, 2e-2 * (double)(1 + stages));
        random_dataset_free(d);
        graph_free(g);
        net_release(&n);
    }
}

/* With relus and pools as they fall, bf16 sends some gradients another way; losses and statistics stay close. */
static void whole_models_stay_close_in_bf16(void **state)
{
    (void)state;
    check_model("resnet20", (struct shape){3, 32, 32}, 6, 2, false, 0.35);
    check_model("fashion-cnn", (struct shape){1, 28, 28}, 6, 3, false, 0.1);
}

struct rule {
    const char *name;
    const void *settings;
};

/* Random rows; a gradient that pulls both ways. */
static void random_row(struct engine *e, enum row row, size_t i, uint64_t seed)
{
    size_t n = row_size(&e->setup, row);
    float *x = zeros(n, sizeof *x);
    struct rng r = rng_stream(seed, (uint32_t)i, RNG_TEST, 20 + (uint64_t)row);
    for (size_t k = 0; k < n; k++)
        x[k] = (float)rng_normal(&r);
    must(e->ops->write(e, row, i, x));
    free(x);
}

static void same_rows(struct engine *a, struct engine *b, const char *what)
{
    size_t most = a->setup.graph->size + a->setup.graph->stats_size;
    float *x = zeros(most, sizeof *x), *y = zeros(most, sizeof *y);
    for (int row = 0; row < N_ROWS; row++)
        for (size_t i = 0; i < a->setup.n_replicas + a->setup.n_spare; i++) {
            size_t n = row_size(&a->setup, (enum row)row);
            must(a->ops->read(a, (enum row)row, i, x));
            must(b->ops->read(b, (enum row)row, i, y));
            for (size_t k = 0; k < n; k++)
                if (memcmp(&x[k], &y[k], sizeof *x) != 0)
                    fail_msg("%s: row %d of %zu differs at %zu: %.9g and %.9g", what, row, i, k, (double)x[k],
                             (double)y[k]);
        }
    free(x);
    free(y);
}

static struct engine *open_rows(const struct engine_ops *ops, const struct graph *g, const struct dataset *d,
                                const struct optim_settings *optim)
{
    struct engine_setup setup = {.graph = g, .train = &d->train, .test = &d->test, .n_replicas = 3};
    setup.n_spare = 20;
    setup.n_keep = 2;
    setup.batch = 2;
    setup.threads = 1;
    setup.optim = optim;
    struct engine *e = NULL;
    must(ops->open(&setup, &e));
    for (int row = 0; row < N_ROWS; row++)
        for (size_t i = 0; i < 3; i++)
            if (row != ROW_SLOT0 && row != ROW_SLOT1)
                random_row(e, (enum row)row, i, 4);
    return e;
}

static void steps_of_every_optimiser_are_the_hosts_bit_for_bit(void **state)
{
    (void)state;
    const struct sgd_settings plain = {.weight_decay = 1e-2},
                              momentum = {.momentum = 0.9, .weight_decay = 1e-4},
                              nesterov = {.momentum = 0.8, .weight_decay = 1e-3, .nesterov = true};
    const struct adagrad_settings adagrad = {.lr_decay = 0.1, .weight_decay = 1e-3, .eps = 1e-10};
    const struct rmsprop_settings rms = {.alpha = 0.99, .weight_decay = 1e-3, .eps = 1e-8},
                                  rms_momentum = {.alpha = 0.9, .momentum = 0.5, .eps = 1e-8};
    const struct adam_settings adam = {.beta1 = 0.9, .beta2 = 0.999, .weight_decay = 1e-2, .eps = 1e-8};
    const struct rule rules[] = {{"sgd", &plain},       {"sgd", &momentum}, {"sgd", &nesterov},
                                 {"adagrad", &adagrad}, {"rmsprop", &rms},  {"rmsprop", &rms_momentum},
                                 {"adam", &adam},       {"adamw", &adam}};
    struct graph *g = model_build("mlp:100", (struct shape){1, 20, 20}, 3);
    struct dataset *d = random_dataset(1, (struct shape){1, 20, 20}, 3, 10, 5);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct optim_settings optim = {
            .kind = {.kind = kind_find(&optim_kinds, rules[i].name), .settings = (void *)rules[i].settings}};
        struct engine *host = open_rows(&engine_ref, g, d, &optim),
                      *cuda = open_rows(&engine_cuda, g, d, &optim);
        struct engine *both[] = {host, cuda};
        for (uint64_t t = 1; t <= 3; t++)
            for (int k = 0; k < 2; k++) {
                const struct update updates[] = {{2, 0.1, t, 0, TO_END}, {0, 0.01 * (double)t, t, 77, 5003}};
                must(both[k]->ops->update(both[k], updates, 2));
            }
        same_rows(host, cuda, rules[i].name);
        engine_close(host);
        engine_close(cuda);
    }
    random_dataset_free(d);
    graph_free(g);
}

static void mixes_are_the_hosts_bit_for_bit(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:100", (struct shape){1, 20, 20}, 3);
    struct dataset *d = random_dataset(1, (struct shape){1, 20, 20}, 3, 10, 5);
    struct engine *host = open_rows(&engine_ref, g, d, NULL), *cuda = open_rows(&engine_cuda, g, d, NULL);
    struct engine *both[] = {host, cuda};
    for (int k = 0; k < 2; k++) {
        const size_t all[] = {0, 1, 2}, one[] = {22}, back[] = {4, 0};
        const float thirds[] = {0.3f, -0.2f, 0.9f}, whole[] = {1}, halves[] = {0.5f, 0.5f};
        const enum row mixed[] = {ROW_GRADS, ROW_KEEP0, ROW_PARAMS};
        const struct blend first[] = {
            {ROW_PARAMS, 22, NO_ROW, 0, TO_END, all, NULL, thirds, 3},
            {ROW_GRADS, 4, 5, 0, TO_END, all, mixed, thirds, 3},
            {ROW_KEEP1, 1, NO_ROW, 10, 3001, all, mixed, thirds, 3},
        };
        const struct blend second[] = {
            {ROW_PARAMS, 0, NO_ROW, 0, TO_END, one, NULL, whole, 1},
            {ROW_GRADS, 0, 19, 64, 128, back, NULL, halves, 2}, /* reads what it writes */
        };
        must(both[k]->ops->mix(both[k], first, 3));
        must(both[k]->ops->mix(both[k], second, 2));
    }
    same_rows(host, cuda, "mixes");
    engine_close(host);
    engine_close(cuda);
    random_dataset_free(d);
    graph_free(g);
}

static bool same_answer(const struct question *q, const struct answer *a, const struct answer *b, size_t from,
                        size_t to)
{
    size_t size = q->g->size * sizeof(float), stats = q->g->stats_size * sizeof(float);
    return a->loss[from] == b->loss[to] &&
           memcmp(a->grads + from * q->g->size, b->grads + to * q->g->size, size) == 0 &&
           memcmp(a->stats + from * q->g->stats_size, b->stats + to * q->g->stats_size, stats) == 0;
}

static void the_same_seed_gives_the_same_bits(void **state)
{
    (void)state;
    struct shape input = {3, 32, 32};
    struct graph *g = model_build("resnet20", input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 100);
    for (int p = 0; p < 2; p++) {
        struct question q = {g, d, 16, 5, p ? PRECISION_BF16 : PRECISION_FP32, 5, false, false};
        struct answer a = ask(&engine_cuda, &q), b = ask(&engine_cuda, &q);
        for (size_t i = 0; i < q.n_replicas; i++)
            assert_true(same_answer(&q, &a, &b, i, i));
        answer_release(&a);
        answer_release(&b);
    }
    random_dataset_free(d);
    graph_free(g);
}

/* The last replica of five takes the seat of the only one. */
static void a_lesson_gives_the_same_bits_alone_and_beside_others(void **state)
{
    (void)state;
    struct shape input = {3, 32, 32};
    struct graph *g = model_build("resnet20", input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 100);
    for (int p = 0; p < 2; p++) {
        struct question q = {g, d, 16, 5, p ? PRECISION_BF16 : PRECISION_FP32, 5, false, false};
        struct pick *picks = zeros(q.n_replicas * q.batch, sizeof *picks);
        struct lesson *lessons = make_lessons(&q, 0, picks);
        struct engine *e = open_engine(&engine_cuda, &q);
        float *together = zeros(g->size, sizeof *together), *alone = zeros(g->size, sizeof *alone);
        for (size_t i = 0; i < q.n_replicas; i++)
            write_rows(e, &q, i);
        must(e->ops->learn(e, lessons, q.n_replicas));
        must(e->ops->read(e, ROW_GRADS, lessons[3].replica, together));
        must(e->ops->learn(e, lessons + 3, 1));
        must(e->ops->read(e, ROW_GRADS, lessons[3].replica, alone));
        assert_memory_equal(together, alone, g->size * sizeof *alone);
        engine_close(e);
        free(together);
        free(alone);
        free(lessons);
        free(picks);
    }
    random_dataset_free(d);
    graph_free(g);
}

/* An argument is a pattern: only the tests whose names match it are run. */
int main(int argc, char **argv)
{
    fault f = engine_cuda.usable();
    if (f) {
        printf("SKIPPED: %s\n", fault_text(f));
        fault_drop(f);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_every_optimiser_are_the_hosts_bit_for_bit),
        cmocka_unit_test(mixes_are_the_hosts_bit_for_bit),
        cmocka_unit_test(convolutions_of_all_shapes_agree),
        cmocka_unit_test(pools_of_all_shapes_agree),
        cmocka_unit_test(pools_of_the_input_itself_agree),
        cmocka_unit_test(linear_layers_of_all_sizes_agree),
        cmocka_unit_test(residuals_of_all_kinds_agree),
        cmocka_unit_test(a_residual_alone_agrees),
        cmocka_unit_test(random_networks_agree),
        cmocka_unit_test(named_models_agree),
        cmocka_unit_test(residual_blocks_agree_in_every_shape),
        cmocka_unit_test(whole_models_stay_close_in_bf16),
        cmocka_unit_test(the_same_seed_gives_the_same_bits),
        cmocka_unit_test(a_lesson_gives_the_same_bits_alone_and_beside_others),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
