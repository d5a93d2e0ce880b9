/* train.accumulate: what micro-batches change of a run and what they do not, against runs without them and a loop over
 * micro-batches written out here. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/cast.h"
#include "support/must.h"
#include "veche.h"

#define PICTURES                                                                                             \
    "data: {set: {kind: images, size: 6, channels: 2, samples: 50, test_samples: 10}, batch: 10, flip: "     \
    "true, crop: 1}\n"

enum { BATCH = 10, ROUNDS = 12, MOST_MICRO = BATCH };
#define RATE "0.05"

static void open_cut(struct cast *g, const char *text, int accumulate)
{
    char *whole = text_of(
        "%strain: {epochs: 1, seed: 5, accumulate: %d, evaluate_every: never, checkpoint_every: never}\n",
        text, accumulate);
    cast_open(g, whole, ROUNDS);
    free(whole);
}

static double furthest(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs((double)a[i] - b[i]) > most)
            most = fabs((double)a[i] - b[i]);
    return most;
}

/* ---- without batchnorm ---- */

/* Dropout's masks are those of the whole batch: other ones would be seen at once. */
static void where_samples_do_not_meet_micro_batches_change_no_more_than_rounding(void **state)
{
    (void)state;
    static const char *const engines[] = {"ref", "auto"}, *const strategies[] = {"consensus", "allreduce"};
    static const int cuts[] = {2, 3, 7, 10};
    for (size_t i = 0; i < 2; i++) {
        struct cast whole, cut;
        char *text =
            text_of(PICTURES "model: [{conv: {out: 4, kernel: 3, pad: 1}}, relu, {dropout: {rate: 0.5}}, "
                             "{maxpool: {kernel: 2}}, {linear: {out: 10}}]\n"
                             "optim: {kind: sgd, lr: " RATE ", momentum: 0.9}\nagents: 3\ntopology: cycle:3\n"
                             "strategy: %s\nengine: {kind: %s, threads: 1}\n",
                    strategies[i], engines[i]);
        open_cut(&whole, text, 1);
        cast_play(&whole);
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            open_cut(&cut, text, cuts[k]);
            cast_play(&cut);
            for (size_t agent = 0; agent < 3; agent++) {
                const struct tally *a = &whole.run->agents[agent].tally, *b = &cut.run->agents[agent].tally;
                assert_true(furthest(cast_row(&whole, agent), cast_row(&cut, agent), cut.size) < 1e-5);
                assert_true(a->lessons == ROUNDS && b->lessons == ROUNDS && a->samples == b->samples);
                assert_true(fabs(a->loss - b->loss) < 1e-5 * a->loss);
                assert_int_equal(a->hits, b->hits);
            }
            assert_true(local_now_s(whole.world) == local_now_s(cut.world));
            cast_close(&cut);
        }
        cast_close(&whole);
        free(text);
    }
}

/* ---- with batchnorm ---- */

#define WITH_BATCHNORM                                                                                       \
    PICTURES                                                                                                 \
    "model: [{conv: {out: 4, kernel: 3, pad: 1}}, batchnorm, relu, globalpool, {linear: {out: 10}}]\n"       \
    "optim: {kind: sgd, lr: " RATE "}\nstrategy: single\n"

/* One engine for each size of a micro-batch, whose batch it is. */
struct loop {
    struct engine *of[BATCH + 1]; /* NULL: not asked for yet */
    const struct cast *g;
    float *params, *stats, *grads; /* owned */
    double *sum, loss;             /* owned */
};

static struct engine *engine_for(struct loop *l, size_t n)
{
    const struct engine_setup s = {.graph = l->g->run->graph,
                                   .train = &l->g->run->dataset->train,
                                   .test = &l->g->run->dataset->test,
                                   .rows = rows_of(l->g->run->graph, NULL),
                                   .n_replicas = 1,
                                   .batch = n,
                                   .threads = 1};
    if (!l->of[n])
        must(engine_ref.open(&s, &l->of[n]));
    return l->of[n];
}

/* The gradient and the loss of n samples, as their part of the batch's; the statistics move. */
static void learn_some(struct loop *l, const struct pick *picks, size_t n, uint64_t seed)
{
    struct engine *e = engine_for(l, n);
    struct lesson lesson = {.picks = picks, .seed = seed};
    must(e->ops->write(e, ROW_PARAMS, 0, l->params));
    must(e->ops->write(e, ROW_STATS, 0, l->stats));
    must(e->ops->learn(e, &lesson, 1));
    must(e->ops->read(e, ROW_STATS, 0, l->stats));
    must(e->ops->read(e, ROW_GRADS, 0, l->grads));
    for (size_t i = 0; i < l->g->size; i++)
        l->sum[i] += (double)n / BATCH * l->grads[i];
    l->loss += (double)n / BATCH * lesson.loss;
}

static void learn_naively(struct loop *l, const size_t *sizes)
{
    struct pick picks[BATCH];
    for (uint64_t k = 0; k < ROUNDS; k++) {
        uint64_t seed;
        size_t first = 0;
        memset(l->sum, 0, l->g->size * sizeof *l->sum);
        agent_prepare(&l->g->run->agents[0], k, picks, &seed);
        for (const size_t *n = sizes; *n; first += *n++)
            learn_some(l, picks + first, *n, seed);
        assert_int_equal(first, BATCH);
        for (size_t i = 0; i < l->g->size; i++)
            l->params[i] -= (float)(strtod(RATE, NULL) * l->sum[i]);
    }
}

static void open_loop(struct loop *l, const struct cast *g)
{
    size_t n_stats = g->run->graph->stats_size;
    *l = (struct loop){.g = g,
                       .params = calloc(g->size, sizeof(float)),
                       .stats = calloc(n_stats, sizeof(float)),
                       .grads = calloc(g->size, sizeof(float)),
                       .sum = calloc(g->size, sizeof(double))};
    assert_true(l->params && l->stats && l->grads && l->sum);
    must(g->run->engine->ops->read(g->run->engine, ROW_PARAMS, 0, l->params));
    must(g->run->engine->ops->read(g->run->engine, ROW_STATS, 0, l->stats));
}

static void close_loop(struct loop *l)
{
    for (size_t n = 0; n <= BATCH; n++)
        if (l->of[n])
            engine_close(l->of[n]);
    free(l->params);
    free(l->stats);
    free(l->grads);
    free(l->sum);
}

enum { SIZE = 4 * 2 * 9 + 4 + 2 * 4 + 10 * 4 + 10 }; /* of that network */

struct way {
    int accumulate;
    size_t sizes[MOST_MICRO + 1]; /* the larger ones first, then 0 */
};

/* The run's parameters, statistics and losses are the loop's. The parameters are left in `params`. */
static void run_as_the_loop(const char *text, const struct way *way, float *params)
{
    struct cast g;
    struct loop l;
    open_cut(&g, text, way->accumulate);
    open_loop(&l, &g);
    cast_play(&g);
    learn_naively(&l, way->sizes);
    assert_int_equal(g.size, SIZE);
    memcpy(params, cast_row(&g, 0), g.size * sizeof *params);
    must(g.run->engine->ops->read(g.run->engine, ROW_STATS, 0, l.grads));
    assert_true(furthest(params, l.params, g.size) < 1e-5);
    assert_true(furthest(l.grads, l.stats, g.run->graph->stats_size) < 1e-5);
    assert_true(fabs(g.run->agents[0].tally.loss - l.loss) < 1e-5 * l.loss);
    close_loop(&l);
    cast_close(&g);
}

static void batchnorm_sees_a_micro_batch_at_a_time_as_a_loop_over_them_would(void **state)
{
    (void)state;
    static const char *const texts[] = {WITH_BATCHNORM "engine: {kind: ref, threads: 1}\n",
                                        WITH_BATCHNORM "engine: {kind: auto, threads: 2}\n"};
    static const struct way ways[] = {{1, {10}}, {2, {5, 5}}, {3, {4, 3, 3}}, {7, {2, 2, 2, 1, 1, 1, 1}}};
    for (size_t k = 0; k < 2; k++) {
        float whole[SIZE], params[SIZE];
        run_as_the_loop(texts[k], &ways[0], whole);
        for (size_t i = 1; i < sizeof ways / sizeof *ways; i++) {
            run_as_the_loop(texts[k], &ways[i], params);
            assert_true(furthest(whole, params, SIZE) > 1e-3); /* it matters */
        }
    }
}

/* ---- what users are told ---- */

static void tell_of(const char *text, char **told)
{
    veche_experiment *e;
    must(veche_parse(text, "text", &e));
    must(veche_describe_model(e, told));
    veche_experiment_free(e);
}

static double number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    if (!at)
        fail_msg("there is no '%s' in: %s", words, text);
    return strtod(at + strlen(words), NULL);
}

/* What a lesson keeps is what one of a batch as large as the largest micro-batch would keep. */
static void check_tells_how_a_batch_is_cut_and_what_that_saves(void **state)
{
    (void)state;
#define CHECKED(batch, accumulate)                                                                           \
    "data: {set: {kind: images, size: 32}, batch: " batch                                                    \
    "}\nmodel: resnet20\noptim: {kind: sgd, lr: 0.1}\n"                                                      \
    "train: {epochs: 1, accumulate: " accumulate "}\n"
    static const char of[] = "activations: ", uncut[] = "MiB a lesson in fp32; uncut, the batch would take ";
    char *whole, *cut, *even, *four, *two;
    tell_of(CHECKED("10", "1"), &whole);
    tell_of(CHECKED("10", "3"), &cut);
    tell_of(CHECKED("10", "5"), &even);
    tell_of(CHECKED("4", "1"), &four);
    tell_of(CHECKED("2", "1"), &two);
    assert_non_null(strstr(whole, "\nbatch: 10 samples\n"));
    assert_non_null(strstr(cut, "\nbatch: 10 samples in 3 micro-batches of 4 or 3\n"));
    assert_non_null(strstr(even, "\nbatch: 10 samples in 5 micro-batches of 2\n"));
    assert_true(number_after(cut, of) == number_after(four, of) &&
                number_after(even, of) == number_after(two, of));
    assert_true(number_after(cut, uncut) == number_after(whole, of));
    assert_true(number_after(whole, of) > 2 * number_after(four, of));
    assert_null(strstr(whole, "uncut"));
    free(whole);
    free(cut);
    free(even);
    free(four);
    free(two);
}

static double activations_of_bench(const char *accumulate)
{
    const char *const settings[] = {"engine=ref",   "model=lenet", "batch=12",
                                    "seconds=0.01", "threads=1",   accumulate};
    char *json;
    must(veche_bench("engine", settings, sizeof settings / sizeof *settings, &json));
    json_t *figures = json_loads(json, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(figures, "accumulate")),
                     atoi(strchr(accumulate, '=') + 1));
    double mib = number_after(json_string_value(json_object_get(figures, "engine")), " MiB for rows, ");
    json_decref(figures);
    free(json);
    return mib;
}

static void a_bench_measures_micro_batches(void **state)
{
    (void)state;
    assert_true(activations_of_bench("accumulate=6") < 0.7 * activations_of_bench("accumulate=1"));
    const char *const settings[] = {"engine=ref", "batch=4", "accumulate=5"};
    char *json;
    must_fail(veche_bench("engine", settings, 3, &json),
              "a batch of 4 samples cannot be cut into 5 micro-batches");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_samples_do_not_meet_micro_batches_change_no_more_than_rounding),
        cmocka_unit_test(batchnorm_sees_a_micro_batch_at_a_time_as_a_loop_over_them_would),
        cmocka_unit_test(check_tells_how_a_batch_is_cut_and_what_that_saves),
        cmocka_unit_test(a_bench_measures_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
