/* Whole networks against PyTorch: the same parameters, pictures and masks give the same losses for ten steps,
 * move every parameter and statistic as far in the same direction, and end in the same exam.
 *
 * tools/golden_models.py made golden_models.h; the formulas below are its twins and must give the same bits.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"
#include "engine/golden_models.h"
#include "optim/rules.h"
#include "support/must.h"
#include "support/network.h"

enum { CLASSES = 10, DROPOUT_SEED = 1000 };

/* What two right programs may differ in: golden_models.h says how far PyTorch itself spreads. */
static const double most_off_loss = 1e-3, most_off_exam = 3e-3, most_off_way = 0.05;

struct trial {
    const char *engine;
    const struct golden *golden;
};

/* --- the formulas ------------------------------------------------------------------------------------------
 */

static uint64_t key_of(uint64_t a, uint64_t b)
{
    return rng_hash(rng_hash(GOLDEN_KEY, a), b);
}

/* [-1, 1) with 24 bits: exact in float32. */
static float uniform(uint64_t key, uint64_t i)
{
    return ((float)(rng_hash(key, i) >> 40) - 0x1p23f) * 0x1p-23f;
}

static float param_value(const struct param *p, float u)
{
    if (p->n_dims == 1) {
        bool is_weight = strcmp(p->name + strlen(p->name) - strlen("weight"), "weight") == 0;
        return is_weight ? 1 + u * 0.25f : u * 0.125f;
    }
    double most = (p->n_dims == 4 ? 6.0 : 1.0) / (double)(p->size / p->dims[0]), scale = 1;
    while (scale * scale > most)
        scale /= 2;
    return u * (float)scale;
}

static void fill_params(const struct graph *g, float *params)
{
    for (size_t p = 0; p < g->n_params; p++)
        for (size_t i = 0; i < g->params[p].size; i++)
            params[g->params[p].offset + i] = param_value(&g->params[p], uniform(key_of(0, p), i));
}

/* A coarse pattern for each class, half hidden by noise. */
static void fill_samples(uint64_t part, const struct samples *s, uint8_t *pixels, uint16_t *labels)
{
    uint64_t label_key = key_of(1, part), noise_key = key_of(2, part), cell_key = rng_hash(GOLDEN_KEY, 3);
    for (size_t n = 0, i = 0; n < s->n; n++) {
        labels[n] = (uint16_t)(rng_hash(label_key, n) % CLASSES);
        for (size_t c = 0; c < s->c; c++)
            for (size_t y = 0; y < s->h; y++)
                for (size_t x = 0; x < s->w; x++, i++) {
                    uint64_t cell = (labels[n] * s->c + c) * 16 + y / 8 * 4 + x / 8;
                    pixels[i] = (uint8_t)((rng_hash(noise_key, i) >> 57) + (rng_hash(cell_key, cell) >> 57));
                }
    }
}

static void fill_picks(const struct golden *golden, size_t step, struct pick *picks)
{
    uint64_t key = rng_hash(GOLDEN_KEY, 4);
    for (size_t b = 0; b < golden->batch; b++) {
        size_t sample = step * golden->batch + b;
        uint64_t r = rng_hash(key, sample);
        picks[b] =
            (struct pick){(uint32_t)sample, r & 1, (int8_t)((r >> 8) % 9) - 4, (int8_t)((r >> 16) % 9) - 4};
    }
}

/* --- the stage: a graph, its samples, an engine ------------------------------------------------------------
 */

static struct samples make_samples(const struct golden *golden, uint64_t part, size_t n)
{
    struct samples s = {.n = n, .c = golden->shape[0], .h = golden->shape[1], .w = golden->shape[2]};
    s.classes = CLASSES;
    for (size_t c = 0; c < s.c; c++) {
        s.mean[c] = golden->mean[c];
        s.deviation[c] = golden->deviation[c];
    }
    uint8_t *pixels = malloc(n * s.c * s.h * s.w);
    uint16_t *labels = malloc(n * sizeof *labels);
    assert_non_null(pixels);
    assert_non_null(labels);
    fill_samples(part, &s, pixels, labels);
    s.pixels = pixels;
    s.labels = labels;
    return s;
}

static void free_samples(struct samples *s)
{
    free((void *)s->pixels);
    free((void *)s->labels);
}

/* The list of layers called `mixed` in tools/golden_models.py. */
static struct graph *build_mixed(const char *loss, struct shape shape)
{
    struct network net = {0};
    net_conv(&net, 4, 3, 2, 1);
    net_batchnorm(&net);
    net_layer(&net, "tanh");
    net_residual(&net);
    net_conv(&net, 6, 3, 2, 1);
    net_batchnorm(&net);
    net_end(&net);
    net_layer(&net, "relu");
    net_pool(&net, "avgpool", 3, 2, 1);
    net_conv(&net, 8, 3, 1, 1);
    net_layer(&net, "sigmoid");
    net_pool(&net, "maxpool", 3, 2, 1);
    net_layer(&net, "flatten");
    net_linear(&net, CLASSES);
    net_layer(&net, loss);
    struct graph *g = net_build(&net, shape, CLASSES);
    net_release(&net);
    return g;
}

static struct graph *build(const struct golden *golden)
{
    struct shape shape = {golden->shape[0], golden->shape[1], golden->shape[2]};
    if (text_is(golden->model, "mixed"))
        return build_mixed(golden->loss_kind, shape);
    struct graph *g = model_build(golden->model, shape, CLASSES);
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == OP_DROPOUT) {
            assert_int_equal(i, GOLDEN_DROPOUT_OP); /* the masks were made for this op */
            g->ops[i].rate = golden->rate;
        }
    return g;
}

static const struct kind *row_named(const struct kinds *kinds, const char *name)
{
    for (size_t i = 0; i < kinds->n; i++)
        if (text_is(kinds->rows[i].name, name))
            return &kinds->rows[i];
    fail_msg("there is no kind named %s", name);
    return NULL;
}

static struct optim_settings choose_optim(const struct golden *golden)
{
    static const struct sgd_settings sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4};
    static const struct adam_settings adam = {.lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    void *settings = text_is(golden->optim, "sgd") ? (void *)&sgd : (void *)&adam;
    return (struct optim_settings){
        .kind = {.kind = row_named(&optim_kinds, golden->optim), .settings = settings}};
}

/* --- the comparison ----------------------------------------------------------------------------------------
 */

static void expect_ok(fault f)
{
    if (f)
        fail_msg("%s", fault_text(f));
}

static void assert_near(const char *what, size_t step, double ours, double theirs, double most)
{
    if (!(fabs(ours - theirs) <= most))
        fail_msg("%s, step %zu: %.9g is not PyTorch's %.9g", what, step, ours, theirs);
}

static void take_steps(struct engine *e, const struct golden *golden)
{
    struct pick picks[64];
    assert_true(golden->batch <= sizeof picks / sizeof *picks);
    for (size_t k = 0; k < golden->steps; k++) {
        fill_picks(golden, k, picks);
        struct lesson lesson = {.picks = picks, .seed = DROPOUT_SEED + k};
        expect_ok(e->ops->learn(e, &lesson, 1));
        assert_near("loss against float32", k, lesson.loss, golden->loss[k], most_off_loss);
        assert_near("loss against float64", k, lesson.loss, golden->loss64[k], most_off_loss);
        double share = (double)(k + 1) / golden->warmup;
        struct update update = {.end = TO_END, .lr = golden->lr * (share < 1 ? share : 1), .t = k + 1};
        expect_ok(e->ops->update(e, &update, 1));
    }
}

static void compare_exam(struct engine *e, const struct golden *golden)
{
    struct exam exam = {.n = GOLDEN_EXAM};
    expect_ok(e->ops->examine(e, &exam, 1));
    assert_near("exam", golden->steps, exam.loss, golden->exam, most_off_exam);
    assert_int_equal(exam.hits, golden->exam_hits);
}

/* The way from `before` to `after`, its length and its sum against a fixed pattern, which sees the order. */
static void compare_ways(const struct param *params, size_t n, const float *before, const float *after,
                         const struct golden_tensor *golden, size_t n_golden)
{
    assert_int_equal(n, n_golden);
    for (size_t p = 0; p < n; p++) {
        assert_string_equal(params[p].name, golden[p].name);
        if (golden[p].length < 1e-6)
            continue; /* a bias before batchnorm: its gradient is zero but for rounding, which Adam enlarges
                       */
        double square = 0, mark = 0;
        for (size_t i = 0; i < params[p].size; i++) {
            double way = (double)after[params[p].offset + i] - (double)before[params[p].offset + i];
            square += way * way;
            mark += way * (double)uniform(key_of(5, p), i);
        }
        double most = most_off_way * golden[p].length;
        assert_near(params[p].name, 0, sqrt(square), golden[p].length, most);
        assert_near(params[p].name, 0, mark, golden[p].mark, most);
    }
}

static void run_steps(struct engine *e, const struct graph *g, const struct golden *golden)
{
    float *before = calloc(2 * (g->size + g->stats_size), sizeof *before), *stats = before + g->size;
    assert_non_null(before);
    float *after = stats + g->stats_size, *stats_after = after + g->size;
    graph_init(g, 0, before, stats);
    fill_params(g, before);
    expect_ok(e->ops->write(e, ROW_PARAMS, 0, before));
    expect_ok(e->ops->write(e, ROW_STATS, 0, stats));
    take_steps(e, golden);
    compare_exam(e, golden);
    expect_ok(e->ops->read(e, ROW_PARAMS, 0, after));
    expect_ok(e->ops->read(e, ROW_STATS, 0, stats_after));
    compare_ways(g->params, g->n_params, before, after, golden->params, golden->n_params);
    compare_ways(g->stats, g->n_stats, stats, stats_after, golden->stats, golden->n_stats);
    free(before);
}

static void the_steps_go_as_in_pytorch(void **state)
{
    const struct trial *trial = *state;
    const struct golden *golden = trial->golden;
    const struct kind *kind = row_named(&engine_kinds, trial->engine);
    if (kind->missing)
        skip_because("%s", kind->missing);
    struct graph *g = build(golden);
    struct samples train = make_samples(golden, 0, golden->steps * golden->batch);
    struct samples test = make_samples(golden, 1, GOLDEN_EXAM);
    struct optim_settings optim = choose_optim(golden);
    struct engine_setup setup = {.graph = g,
                                 .rows = rows_of(g, &optim),
                                 .train = &train,
                                 .test = &test,
                                 .n_replicas = 1,
                                 .optim = &optim};
    setup.batch = golden->batch;
    setup.threads = 2;
    struct engine *e = NULL;
    expect_ok(engine_open(kind, &setup, &e));
    run_steps(e, g, golden);
    engine_close(e);
    free_samples(&train);
    free_samples(&test);
    graph_free(g);
}

#define TRIAL(kind, id)                                                                                      \
    {                                                                                                        \
        .name = kind " takes the steps of " #id " as PyTorch does", .test_func = the_steps_go_as_in_pytorch, \
        .initial_state = &(struct trial)                                                                     \
        {                                                                                                    \
            kind, &golden_##id                                                                               \
        }                                                                                                    \
    }
#define TRIALS(kind)                                                                                         \
    TRIAL(kind, mlp), TRIAL(kind, lenet), TRIAL(kind, mixed_mse), TRIAL(kind, mixed_hinge),                  \
        TRIAL(kind, mixed_logistic), TRIAL(kind, fashion_cnn), TRIAL(kind, fashion_cnn_dropout),             \
        TRIAL(kind, resnet20)

int main(void)
{
    const struct CMUnitTest tests[] = {TRIALS("ref"), TRIALS("dnnl")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
