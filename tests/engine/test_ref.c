/* The reference engine as an engine: lessons, exams, replicas, threads. Its numbers are judged in
 * test_gradients.c and test_ref_values.c; here floats are compared with the same loops in double. */
#include "engine/host.h"
#include "support/judge.h"
#include "support/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_BATCH = 8 };

static float *read_row(struct engine *e, enum row row, size_t replica)
{
    float *x = calloc(row_size(&e->setup, row) + 1, sizeof *x);
    assert_non_null(x);
    assert_null(e->ops->read(e, row, replica, x));
    return x;
}

/* Puts the parameters of the engine's replica and the lesson's batch into a judge. */
static struct judge *same_in_double(struct engine *e, const struct lesson *l)
{
    const struct graph *g = e->setup.graph;
    struct judge *j = judge_new(g, e->setup.batch, 1);
    float *params = read_row(e, ROW_PARAMS, l->replica), *stats = read_row(e, ROW_STATS, l->replica);
    float *sample = calloc(shape_size(g->input), sizeof *sample);
    for (size_t i = 0; i < g->size; i++)
        j->params[i] = params[i];
    for (size_t i = 0; i < g->stats_size; i++)
        j->stats[i] = stats[i];
    for (size_t n = 0; n < e->setup.batch; n++) {
        const struct samples *s = e->setup.train;
        host_sample(s, s->pixels + l->picks[n].sample * samples_one(s), l->picks[n], sample);
        for (size_t i = 0; i < shape_size(g->input); i++)
            j->input[n * shape_size(g->input) + i] = sample[i];
        j->labels[n] = e->setup.train->labels[l->picks[n].sample];
    }
    j->seed = l->seed;
    free(sample);
    free(params);
    free(stats);
    return j;
}

/* |a - b| / |b| over n numbers */
static double distance(const float *a, const double *b, size_t n)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(apart / fmax(size, 1e-12));
}

static void compare_with_double(struct graph *g, size_t batch, uint64_t seed)
{
    struct dataset *d = random_dataset(seed, g->input, g->classes, 20, 5);
    struct engine *e = engine_start(&engine_ref, g, d, 1, batch, 1, seed);
    struct rng r = rng_stream(seed, 0, RNG_TEST, 6);
    struct pick picks[MOST_BATCH];
    random_picks(&r, &d->train, true, 1, picks, batch);
    struct lesson l = {.picks = picks, .seed = seed};
    struct judge *j = same_in_double(e, &l);
    assert_null(e->ops->learn(e, &l, 1));
    double loss = judge_learn(j);
    float *grads = read_row(e, ROW_GRADS, 0), *stats = read_row(e, ROW_STATS, 0);
    assert_true(fabs(l.loss - loss) < 1e-5 * (1 + loss));
    assert_int_equal(l.hits, j->hits);
    assert_true(distance(grads, j->grads, g->size) < 1e-4);
    assert_true(distance(stats, j->stats, g->stats_size) < 1e-5);
    free(grads);
    free(stats);
    judge_free(j);
    engine_close(e);
    random_dataset_free(d);
}

static void floats_agree_with_doubles_on_random_networks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct network net = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 7);
        struct shape input = {1 + rng_below(&r, 4), 3 + seed % 6, 3 + seed % 6};
        net_random(&net, &r, input, 5, 1 + seed % 10);
        struct graph *g = net_build(&net, input, 5);
        compare_with_double(g, 2 + seed % 3, seed);
        graph_free(g);
        net_release(&net);
    }
}

static void floats_agree_with_doubles_on_models(void **state)
{
    (void)state;
    static const char *const names[] = {"logistic", "mlp:30-20", "lenet", "fashion-cnn", "resnet20"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct graph *g = model_build(names[i], (struct shape){1, 16, 16}, 10);
        compare_with_double(g, 3, 3);
        graph_free(g);
    }
}

/* A network with everything that could depend on order: batchnorm, dropout, residuals. */
static struct graph *busy_network(void)
{
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_batchnorm(&net);
    net_layer(&net, "relu");
    net_residual(&net);
    net_conv(&net, 6, 3, 2, 1);
    net_dropout(&net, 0.3);
    net_end(&net);
    net_layer(&net, "relu");
    net_pool(&net, "maxpool", 2, 0, 0);
    net_linear(&net, 4);
    struct graph *g = net_build(&net, (struct shape){3, 8, 8}, 4);
    net_release(&net);
    return g;
}

enum { N_REPLICAS = 5, BATCH = 3 };

struct round {
    struct pick picks[N_REPLICAS][BATCH];
    struct lesson lessons[N_REPLICAS];
};

static void prepare_round(struct round *round, const struct samples *s)
{
    struct rng r = rng_stream(4, 0, RNG_TEST, 8);
    for (size_t i = 0; i < N_REPLICAS; i++) {
        random_picks(&r, s, true, 2, round->picks[i], BATCH);
        round->lessons[i] = (struct lesson){.replica = i, .picks = round->picks[i], .seed = 100 + i};
    }
}

/* The gradients and statistics of all replicas after a round of lessons, in the order `order`. */
static float *all_numbers(const struct graph *g, const struct dataset *d, int threads, const size_t *order,
                          bool one_by_one)
{
    struct engine *e = engine_start(&engine_ref, g, d, N_REPLICAS, BATCH, threads, 1);
    struct round round;
    struct lesson shuffled[N_REPLICAS];
    prepare_round(&round, &d->train);
    for (size_t i = 0; i < N_REPLICAS; i++)
        shuffled[i] = round.lessons[order[i]];
    for (size_t i = 0; one_by_one && i < N_REPLICAS; i++)
        assert_null(e->ops->learn(e, &shuffled[i], 1));
    if (!one_by_one)
        assert_null(e->ops->learn(e, shuffled, N_REPLICAS));
    size_t row = g->size + g->stats_size + 2;
    float *all = calloc(row * N_REPLICAS, sizeof *all);
    for (size_t i = 0; i < N_REPLICAS; i++) {
        assert_null(e->ops->read(e, ROW_GRADS, i, all + i * row));
        assert_null(e->ops->read(e, ROW_STATS, i, all + i * row + g->size));
        all[order[i] * row + row - 2] = (float)shuffled[i].loss;
        all[order[i] * row + row - 1] = (float)shuffled[i].hits;
    }
    engine_close(e);
    return all;
}

static void the_same_lessons_give_the_same_bits_on_any_number_of_threads_in_any_order(void **state)
{
    (void)state;
    static const size_t straight[] = {0, 1, 2, 3, 4}, crooked[] = {3, 0, 4, 1, 2};
    struct graph *g = busy_network();
    struct dataset *d = random_dataset(2, g->input, 4, 30, 10);
    size_t n_bytes = (g->size + g->stats_size + 2) * N_REPLICAS * sizeof(float);
    float *first = all_numbers(g, d, 1, straight, false);
    for (int threads = 1; threads <= 3; threads++)
        for (int k = 0; k < 4; k++) {
            float *again = all_numbers(g, d, threads, k & 1 ? crooked : straight, k & 2);
            assert_memory_equal(first, again, n_bytes);
            free(again);
        }
    free(first);
    random_dataset_free(d);
    graph_free(g);
}

static void a_lesson_touches_only_its_own_rows(void **state)
{
    (void)state;
    struct graph *g = busy_network();
    struct dataset *d = random_dataset(2, g->input, 4, 30, 10);
    struct engine *e = engine_start(&engine_ref, g, d, 3, BATCH, 2, 1);
    float *params = read_row(e, ROW_PARAMS, 1), *stats = read_row(e, ROW_STATS, 0);
    struct round round;
    prepare_round(&round, &d->train);
    round.lessons[0].replica = 1;
    assert_null(e->ops->learn(e, round.lessons, 1));
    float *params_after = read_row(e, ROW_PARAMS, 1), *stats_after = read_row(e, ROW_STATS, 0);
    float *moved = read_row(e, ROW_STATS, 1), *idle = read_row(e, ROW_GRADS, 2);
    assert_memory_equal(params, params_after, g->size * sizeof *params);
    assert_memory_equal(stats, stats_after, g->stats_size * sizeof *stats);
    assert_memory_not_equal(moved, stats, g->stats_size * sizeof *stats);
    for (size_t i = 0; i < g->size; i++)
        assert_true(idle[i] == 0);
    float *all[] = {params, stats, params_after, stats_after, moved, idle};
    for (size_t i = 0; i < 6; i++)
        free(all[i]);
    engine_close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void an_exam_in_pieces_of_any_size_adds_up(void **state)
{
    (void)state;
    struct graph *g = busy_network();
    struct dataset *d = random_dataset(3, g->input, 4, 10, 23);
    struct exam whole = {.n = 23};
    struct engine *e = engine_start(&engine_ref, g, d, 1, 23, 1, 1);
    float *stats = read_row(e, ROW_STATS, 0);
    assert_null(e->ops->examine(e, &whole, 1));
    engine_close(e);
    for (size_t batch = 1; batch <= 8; batch++) {
        e = engine_start(&engine_ref, g, d, 1, batch, 2, 1);
        struct exam parts[] = {{.n = 23}, {.n = 7}, {.first = 7, .n = 16}, {.first = 23, .n = 0}};
        assert_null(e->ops->examine(e, parts, 4));
        assert_int_equal(parts[0].hits, whole.hits);
        assert_true(fabs(parts[0].loss - whole.loss) < 1e-6);
        assert_int_equal(parts[1].hits + parts[2].hits, whole.hits);
        assert_true(fabs((7 * parts[1].loss + 16 * parts[2].loss) / 23 - whole.loss) < 1e-6);
        assert_true(parts[3].loss == 0 && parts[3].hits == 0);
        float *after = read_row(e, ROW_STATS, 0);
        assert_memory_equal(after, stats, g->stats_size * sizeof *stats); /* an exam changes nothing */
        free(after);
        engine_close(e);
    }
    free(stats);
    random_dataset_free(d);
    graph_free(g);
}

static void an_exam_on_training_samples_takes_them_as_they_are(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:6", (struct shape){1, 3, 3}, 4);
    struct dataset *d = random_dataset(3, g->input, 4, 4, 2);
    struct engine *e = engine_start(&engine_ref, g, d, 1, 4, 1, 1);
    struct pick picks[4] = {{.sample = 0}, {.sample = 1}, {.sample = 2}, {.sample = 3}};
    struct lesson l = {.picks = picks};
    struct exam x = {.on_train = true, .n = 4};
    assert_null(e->ops->learn(e, &l, 1));
    assert_null(e->ops->examine(e, &x, 1));
    assert_true(x.loss == l.loss); /* nothing in this network tells a lesson from an exam */
    assert_int_equal(x.hits, l.hits);
    engine_close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void dropout_drops_its_share_by_seed_and_op(void **state)
{
    (void)state;
    enum { N = 100000 };
    for (double rate = 0; rate < 1; rate += 0.24) {
        uint64_t one = rng_hash(7, 3), other = rng_hash(7, 4);
        size_t dropped = 0, same = 0;
        for (size_t i = 0; i < N; i++) {
            dropped += !dropout_keeps(one, rate, i);
            same += dropout_keeps(one, rate, i) == dropout_keeps(other, rate, i);
        }
        double noise = 4 * sqrt(N * 0.25), alike = rate * rate + (1 - rate) * (1 - rate);
        assert_true(fabs((double)dropped - rate * N) <= noise);
        assert_true(fabs((double)same - alike * N) <= noise);
        assert_true(rate > 0 || dropped == 0);
    }
}

/* Dropout before a linear layer whose two outputs are both the mean z of what came through of 900 ones. The
 * label is 0, so the loss is ((z - 1)^2 + z^2) / 2, from which z = 1/2 + sqrt(loss - 1/4). */
static void dropout_keeps_the_mean_while_learning_and_everything_in_an_exam(void **state)
{
    (void)state;
    struct network net = {0};
    net_dropout(&net, 0.4);
    net_linear(&net, 2)->bias = false;
    net_layer(&net, "mse");
    struct graph *g = net_build(&net, (struct shape){1, 30, 30}, 2);
    struct dataset *d = random_dataset(5, g->input, 2, 1, 1);
    memset((void *)d->train.pixels, 255, shape_size(g->input));
    memset((void *)d->train.labels, 0, sizeof *d->train.labels);
    d->train.mean[0] = 0;
    d->train.deviation[0] = 1;
    struct engine *e = engine_start(&engine_ref, g, d, 1, 1, 1, 1);
    float *weights = calloc(g->size, sizeof *weights);
    for (size_t i = 0; i < g->size; i++)
        weights[i] = 1.0f / 900;
    assert_null(e->ops->write(e, ROW_PARAMS, 0, weights));
    struct pick pick = {0};
    double sum = 0, losses = 0;
    enum { N = 200 };
    for (uint64_t seed = 0; seed < N; seed++) {
        struct lesson l = {.picks = &pick, .seed = seed};
        assert_null(e->ops->learn(e, &l, 1));
        sum += 0.5 + sqrt(fmax(0, l.loss - 0.25));
        losses += l.loss;
    }
    assert_true(sum / N > 0.95 && sum / N < 1.05);
    double variance = 0.4 / 0.6 / 900; /* of z, whose mean is 1 */
    assert_true(fabs(losses / N - (0.5 + variance)) < 0.01);
    struct exam x = {.on_train = true, .n = 1};
    assert_null(e->ops->examine(e, &x, 1));
    assert_true(fabs(x.loss - 0.5) < 1e-6);
    free(weights);
    engine_close(e);
    random_dataset_free(d);
    graph_free(g);
    net_release(&net);
}

static void learning_lowers_the_loss(void **state)
{
    (void)state;
    struct graph *g = busy_network();
    struct dataset *d = random_dataset(6, g->input, 4, 8, 4);
    struct engine *e = engine_start(&engine_ref, g, d, 1, 8, 1, 1);
    struct pick picks[8];
    for (uint32_t i = 0; i < 8; i++)
        picks[i] = (struct pick){.sample = i};
    double first = 0, last = 0;
    for (uint64_t k = 0; k < 60; k++) {
        struct lesson l = {.picks = picks, .seed = k};
        assert_null(e->ops->learn(e, &l, 1));
        float *params = read_row(e, ROW_PARAMS, 0), *grads = read_row(e, ROW_GRADS, 0);
        for (size_t i = 0; i < g->size; i++)
            params[i] -= 0.1f * grads[i];
        assert_null(e->ops->write(e, ROW_PARAMS, 0, params));
        free(params);
        free(grads);
        first = k == 0 ? l.loss : first;
        last = l.loss;
    }
    assert_true(last < 0.3 * first);
    engine_close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void bf16_is_beyond_the_reference(void **state)
{
    (void)state;
    struct graph *g = busy_network();
    struct engine_setup setup = {
        .graph = g, .rows = rows_of(g, NULL), .n_replicas = 1, .batch = 1, .precision = PRECISION_BF16};
    struct engine *e = NULL;
    fault f = engine_ref.open(&setup, &e);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_ENGINE);
    assert_null(e);
    fault_drop(f);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_agree_with_doubles_on_random_networks),
        cmocka_unit_test(floats_agree_with_doubles_on_models),
        cmocka_unit_test(the_same_lessons_give_the_same_bits_on_any_number_of_threads_in_any_order),
        cmocka_unit_test(a_lesson_touches_only_its_own_rows),
        cmocka_unit_test(an_exam_in_pieces_of_any_size_adds_up),
        cmocka_unit_test(an_exam_on_training_samples_takes_them_as_they_are),
        cmocka_unit_test(dropout_drops_its_share_by_seed_and_op),
        cmocka_unit_test(dropout_keeps_the_mean_while_learning_and_everything_in_an_exam),
        cmocka_unit_test(learning_lowers_the_loss),
        cmocka_unit_test(bf16_is_beyond_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
