/* The engine `dnnl`: the same lesson gives the same bits on any number of threads and in any company. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "support/question.h"

enum { REPLICAS = 8, BATCH = 11, CLASSES = 5, ROUNDS = 2 };
static const struct shape input = {3, 12, 12};

static struct graph *small_resnet(void)
{
    struct network n = {0};
    net_conv(&n, 16, 3, 1, 1);
    net_batchnorm(&n);
    net_layer(&n, "relu");
    net_residual(&n);
    net_conv(&n, 32, 3, 2, 1)->bias = false;
    net_batchnorm(&n);
    net_layer(&n, "relu");
    net_conv(&n, 32, 3, 1, 1)->bias = false;
    net_batchnorm(&n);
    net_end(&n);
    net_layer(&n, "relu");
    net_residual(&n);
    net_conv(&n, 32, 3, 1, 1)->bias = false;
    net_batchnorm(&n);
    net_layer(&n, "relu");
    net_conv(&n, 32, 3, 1, 1)->bias = false;
    net_batchnorm(&n);
    net_end(&n);
    net_layer(&n, "relu");
    net_pool(&n, "maxpool", 2, 2, 0);
    net_linear(&n, 200);
    net_dropout(&n, 0.25);
    net_linear(&n, CLASSES);
    struct graph *g = net_build(&n, input, CLASSES);
    net_release(&n);
    return g;
}

struct outcome { /* what REPLICAS replicas end with */
    float *params, *grads, *stats;
    double loss[REPLICAS], exam_loss[REPLICAS];
    size_t hits[REPLICAS], exam_hits[REPLICAS];
};

static void rows_release(struct outcome *r)
{
    free(r->params);
    free(r->grads);
    free(r->stats);
}

static struct engine *open_engine(const struct graph *g, const struct dataset *d, int threads,
                                  size_t n_replicas, enum precision precision, enum isa isa)
{
    struct engine_setup setup = {.graph = g,
                                 .rows = rows_of(g, NULL),
                                 .train = &d->train,
                                 .test = &d->test,
                                 .n_replicas = n_replicas,
                                 .batch = BATCH,
                                 .precision = precision,
                                 .threads = threads,
                                 .isa = isa};
    struct engine *e = NULL;
    fault f = engine_dnnl.open(&setup, &e);
    if (f)
        fail_msg("%s", fault_text(f));
    return e;
}

static void write_start(struct engine *e, const struct graph *g, size_t row, size_t replica)
{
    float *params = calloc(g->size + g->stats_size, sizeof *params);
    graph_init(g, 100 + replica, params, params + g->size);
    assert_null(e->ops->write(e, ROW_PARAMS, row, params));
    assert_null(e->ops->write(e, ROW_STATS, row, params + g->size));
    free(params);
}

static void read_end(struct engine *e, const struct graph *g, size_t row, size_t replica, struct outcome *out)
{
    assert_null(e->ops->read(e, ROW_GRADS, row, out->grads + replica * g->size));
    assert_null(e->ops->read(e, ROW_STATS, row, out->stats + replica * g->stats_size));
}

static void make_lesson(const struct dataset *d, size_t row, size_t replica, int round, struct pick *picks,
                        struct lesson *out)
{
    struct rng r = rng_stream(5, (uint32_t)replica, RNG_TEST, (uint64_t)round);
    random_picks(&r, &d->train, true, 2, picks, BATCH);
    *out = (struct lesson){.replica = row, .picks = picks, .seed = replica + 77};
}

static struct outcome rows_new(const struct graph *g)
{
    return (struct outcome){.grads = calloc(g->size * REPLICAS, sizeof(float)),
                            .stats = calloc(g->stats_size * REPLICAS, sizeof(float))};
}

/* All replicas in one engine, `together` of them in each call. */
static struct outcome run_together(const struct graph *g, const struct dataset *d, int threads,
                                   size_t together, enum precision precision, enum isa isa)
{
    struct outcome out = rows_new(g);
    struct engine *e = open_engine(g, d, threads, REPLICAS, precision, isa);
    struct pick picks[REPLICAS][BATCH];
    struct lesson lessons[REPLICAS];
    struct exam exams[REPLICAS];
    for (size_t i = 0; i < REPLICAS; i++)
        write_start(e, g, i, i);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < REPLICAS; i++)
            make_lesson(d, i, i, round, picks[i], &lessons[i]);
        for (size_t i = 0; i < REPLICAS; i += together)
            assert_null(e->ops->learn(e, lessons + i, REPLICAS - i < together ? REPLICAS - i : together));
    }
    for (size_t i = 0; i < REPLICAS; i++)
        exams[i] = (struct exam){.replica = i, .first = i, .n = 70 + i};
    assert_null(e->ops->examine(e, exams, REPLICAS));
    for (size_t i = 0; i < REPLICAS; i++) {
        read_end(e, g, i, i, &out);
        out.loss[i] = lessons[i].loss;
        out.hits[i] = lessons[i].hits;
        out.exam_loss[i] = exams[i].loss;
        out.exam_hits[i] = exams[i].hits;
    }
    e->ops->close(e);
    return out;
}

/* Each replica alone in an engine of its own. */
static struct outcome run_apart(const struct graph *g, const struct dataset *d, int threads,
                                enum precision precision)
{
    struct outcome out = rows_new(g);
    for (size_t i = 0; i < REPLICAS; i++) {
        struct engine *e = open_engine(g, d, threads, 1, precision, ISA_BEST);
        struct pick picks[BATCH];
        struct lesson l;
        write_start(e, g, 0, i);
        for (int round = 0; round < ROUNDS; round++) {
            make_lesson(d, 0, i, round, picks, &l);
            assert_null(e->ops->learn(e, &l, 1));
        }
        struct exam x = {.first = i, .n = 70 + i};
        assert_null(e->ops->examine(e, &x, 1));
        read_end(e, g, 0, i, &out);
        out.loss[i] = l.loss;
        out.hits[i] = l.hits;
        out.exam_loss[i] = x.loss;
        out.exam_hits[i] = x.hits;
        e->ops->close(e);
    }
    return out;
}

static void check_same(const struct graph *g, const struct outcome *a, const struct outcome *b)
{
    assert_memory_equal(a->grads, b->grads, g->size * REPLICAS * sizeof(float));
    assert_memory_equal(a->stats, b->stats, g->stats_size * REPLICAS * sizeof(float));
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->hits, b->hits, sizeof a->hits);
    assert_memory_equal(a->exam_loss, b->exam_loss, sizeof a->exam_loss);
    assert_memory_equal(a->exam_hits, b->exam_hits, sizeof a->exam_hits);
}

static void check_bits(enum precision precision)
{
    static const struct {
        int threads;
        size_t together;
    } ways[] = {{1, 8}, {2, 1}, {2, 8}, {2, 3}, {3, 8}, {3, 2}, {5, 7}};
    struct graph *g = small_resnet();
    struct dataset *d = random_dataset(3, input, CLASSES, 60, 90);
    struct outcome want = run_together(g, d, 1, 1, precision, ISA_BEST);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct outcome have = run_together(g, d, ways[i].threads, ways[i].together, precision, ISA_BEST);
        check_same(g, &have, &want);
        rows_release(&have);
    }
    for (int threads = 1; threads <= 3; threads++) {
        struct outcome have = run_apart(g, d, threads, precision);
        check_same(g, &have, &want);
        rows_release(&have);
    }
    rows_release(&want);
    random_dataset_free(d);
    graph_free(g);
}

static void lessons_give_the_same_bits_on_any_threads_and_in_any_company(void **state)
{
    (void)state;
    check_bits(PRECISION_FP32);
}

static bool has_bf16(void)
{
    struct graph *g = small_resnet();
    struct dataset *d = random_dataset(3, input, CLASSES, 60, 90);
    bool can = can_bf16(&engine_dnnl, &(struct question){.g = g, .data = d, .threads = 1});
    random_dataset_free(d);
    graph_free(g);
    return can;
}

static void lessons_in_bf16_do_so_too(void **state)
{
    (void)state;
    if (!has_bf16())
        skip_because(NO_BF16);
    check_bits(PRECISION_BF16);
}

/* Everything but 3x3 convolutions of stride 1, which are ours with AVX-512 and oneDNN's without. */
static struct graph *any_network(void)
{
    struct network n = {0};
    net_conv(&n, 16, 5, 1, 2);
    net_batchnorm(&n);
    net_layer(&n, "relu");
    net_residual(&n);
    net_conv(&n, 24, 3, 2, 1)->bias = false;
    net_batchnorm(&n);
    net_end(&n);
    net_layer(&n, "relu");
    net_pool(&n, "avgpool", 2, 1, 0);
    net_layer(&n, "tanh");
    net_pool(&n, "maxpool", 2, 2, 0);
    net_linear(&n, 70);
    net_layer(&n, "sigmoid");
    net_dropout(&n, 0.25);
    net_linear(&n, CLASSES);
    struct graph *g = net_build(&n, input, CLASSES);
    net_release(&n);
    return g;
}

static void check_every_isa(enum precision precision)
{
    struct graph *g = any_network();
    struct dataset *d = random_dataset(3, input, CLASSES, 60, 90);
    struct outcome want = run_together(g, d, 1, 1, precision, ISA_any);
    for (enum isa isa = ISA_avx2; isa <= isa_here(); isa++) {
        struct outcome have = run_together(g, d, 1, 1, precision, isa);
        check_same(g, &have, &want);
        rows_release(&have);
    }
    rows_release(&want);
    random_dataset_free(d);
    graph_free(g);
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    check_every_isa(PRECISION_FP32);
}

static void and_so_it_does_in_bf16(void **state)
{
    (void)state;
    if (!has_bf16())
        skip_because(NO_BF16);
    check_every_isa(PRECISION_BF16);
}

/* Samples of an exam one by one: a sum that knows nothing of pieces and tails. */
static void an_exam_is_the_mean_over_its_samples_whatever_their_number(void **state)
{
    (void)state;
    struct graph *g = small_resnet();
    struct dataset *d = random_dataset(4, input, CLASSES, 60, 150);
    struct engine *e = open_engine(g, d, 2, 1, PRECISION_FP32, ISA_BEST);
    write_start(e, g, 0, 0);
    double sums[151] = {0};
    size_t hits[151] = {0};
    for (size_t i = 0; i < 150; i++) {
        struct exam x = {.first = i, .n = 1};
        assert_null(e->ops->examine(e, &x, 1));
        sums[i + 1] = sums[i] + x.loss;
        hits[i + 1] = hits[i] + x.hits;
    }
    static const size_t spans[][2] = {{0, 150},  {0, 64},  {0, 65},  {1, 63},
                                      {20, 130}, {149, 1}, {7, 128}, {5, 129}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        size_t first = spans[i][0], n = spans[i][1];
        struct exam x = {.first = first, .n = n};
        assert_null(e->ops->examine(e, &x, 1));
        double want = (sums[first + n] - sums[first]) / (double)n;
        assert_true(fabs(x.loss - want) < 1e-6 * want);
        assert_int_equal(x.hits, hits[first + n] - hits[first]);
    }
    e->ops->close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void an_exam_changes_no_row(void **state)
{
    (void)state;
    struct graph *g = small_resnet();
    struct dataset *d = random_dataset(4, input, CLASSES, 60, 150);
    struct engine *e = open_engine(g, d, 2, 1, PRECISION_FP32, ISA_BEST);
    struct pick picks[BATCH];
    struct lesson l;
    write_start(e, g, 0, 0);
    make_lesson(d, 0, 0, 0, picks, &l);
    assert_null(e->ops->learn(e, &l, 1));
    struct outcome before = rows_new(g), after = rows_new(g);
    read_end(e, g, 0, 0, &before);
    struct exam x = {.on_train = true, .n = 60};
    assert_null(e->ops->examine(e, &x, 1));
    read_end(e, g, 0, 0, &after);
    assert_memory_equal(before.grads, after.grads, g->size * sizeof(float));
    assert_memory_equal(before.stats, after.stats, g->stats_size * sizeof(float));
    rows_release(&before);
    rows_release(&after);
    e->ops->close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void the_callers_openmp_setting_is_left_alone(void **state)
{
    (void)state;
    struct graph *g = small_resnet();
    struct dataset *d = random_dataset(4, input, CLASSES, 60, 70);
    omp_set_num_threads(7);
    struct engine *e = open_engine(g, d, 2, 1, PRECISION_FP32, ISA_BEST);
    assert_int_equal(omp_get_max_threads(), 7);
    struct pick picks[BATCH];
    struct lesson l;
    write_start(e, g, 0, 0);
    make_lesson(d, 0, 0, 0, picks, &l);
    assert_null(e->ops->learn(e, &l, 1));
    assert_int_equal(omp_get_max_threads(), 7);
    struct exam x = {.n = 70};
    assert_null(e->ops->examine(e, &x, 1));
    assert_int_equal(omp_get_max_threads(), 7);
    e->ops->close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void an_engine_says_what_it_runs_on(void **state)
{
    (void)state;
    struct graph *g = small_resnet();
    struct dataset *d = random_dataset(4, input, CLASSES, 20, 20);
    struct engine *e = open_engine(g, d, 3, 1, PRECISION_FP32, ISA_BEST);
    char text[256];
    e->ops->describe(e, text, sizeof text);
    assert_non_null(strstr(text, "3 threads"));
    assert_non_null(strstr(text, "oneDNN"));
    assert_non_null(strstr(text, "fp32"));
    assert_non_null(strstr(text, "MiB"));
    e->ops->close(e);
    random_dataset_free(d);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lessons_give_the_same_bits_on_any_threads_and_in_any_company),
        cmocka_unit_test(lessons_in_bf16_do_so_too),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(and_so_it_does_in_bf16),
        cmocka_unit_test(an_exam_is_the_mean_over_its_samples_whatever_their_number),
        cmocka_unit_test(an_exam_changes_no_row),
        cmocka_unit_test(the_callers_openmp_setting_is_left_alone),
        cmocka_unit_test(an_engine_says_what_it_runs_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
