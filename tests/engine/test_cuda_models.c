/* Whole networks on the engine `cuda` against the judge `ref`, and bit for bit against itself. Needs a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "support/question.h"

static void check_model(const char *name, struct shape input, size_t batch, size_t n_replicas, bool is_calm,
                        enum nature nature)
{
    struct graph *g = model_build(name, input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 100);
    struct question q = {
        .g = g, .data = d, .batch = batch, .n_replicas = n_replicas, .seed = 5, .exam = 7, .calm = is_calm};
    check_in_both(&engine_cuda, q, name, nature);
    random_dataset_free(d);
    graph_free(g);
}

static void named_models_agree(void **state)
{
    (void)state;
    static const size_t n_replicas[] = {1, 3, 36};
    for (size_t i = 0; i < 3; i++) {
        check_model("logistic", (struct shape){1, 28, 28}, 10, n_replicas[i], false, SMOOTH);
        check_model("mlp:40-30", (struct shape){1, 28, 28}, 9, n_replicas[i], true, SMOOTH);
        check_model("lenet", (struct shape){1, 28, 28}, 6, n_replicas[i], false, BENDS);
    }
    check_model("resnet20", (struct shape){3, 12, 12}, 4, 3, false, DEEP);
}

/* Pictures that differ in brightness as well as in detail: what a mean over all pixels sees does not cancel
 * out. */
static void make_uneven(const struct samples *s)
{
    uint8_t *pixels = (uint8_t *)s->pixels;
    size_t size = s->c * s->h * s->w;
    for (size_t i = 0; i < s->n * size; i++)
        pixels[i] = (uint8_t)(pixels[i] / 4 + i / size * 37 % 192);
}

static void net_step(struct network *n, int64_t out, int64_t stride)
{
    net_conv(n, out, 3, stride, 1);
    net_batchnorm(n);
    net_layer(n, "relu");
}

static void net_block(struct network *n, int64_t out, int64_t stride)
{
    net_residual(n);
    net_step(n, out, stride);
    net_conv(n, out, 3, 1, 1);
    net_batchnorm(n);
    net_end(n);
    net_layer(n, "relu");
}

/* Blocks as in ResNet-20, two a stage: what fused.h takes over in bf16, with relus held away from their
 * kinks, so that every weight's gradient can be looked at by itself. */
static void check_blocks(size_t stages, size_t batch, size_t n_replicas)
{
    struct network n = {0};
    net_step(&n, 16, 1);
    for (size_t stage = 0; stage < stages; stage++) {
        net_block(&n, 16 << stage, stage ? 2 : 1);
        net_block(&n, 16 << stage, 1);
    }
    net_layer(&n, "globalpool");
    net_linear(&n, 6);
    struct shape input = {3, 32, 32};
    struct graph *g = net_build(&n, input, 6);
    struct dataset *d = random_dataset(stages, input, 6, 50, 90);
    make_uneven(&d->train);
    make_uneven(&d->test);
    char what[64];
    snprintf(what, sizeof what, "blocks of %zu stages", stages);
    struct question q = {
        .g = g, .data = d, .batch = batch, .n_replicas = n_replicas, .seed = stages, .exam = 7, .calm = true};
    check_in_both(&engine_cuda, q, what, stages < 3 ? BENDS : DEEP);
    random_dataset_free(d);
    graph_free(g);
    net_release(&n);
}

/* The last stage of ResNet-20 by itself: its kernels want the most shared memory, and on many GPUs smaller ones take their place.
 * Relus are held away from their kinks: one that bends otherwise moves the gradient of five samples by two per cent. */
static void a_chain_of_convolutions_agrees(void **state)
{
    (void)state;
    struct network n = {0};
    net_step(&n, 32, 2);
    net_step(&n, 64, 2);
    net_step(&n, 64, 1);
    net_step(&n, 64, 1);
    net_layer(&n, "globalpool");
    net_linear(&n, 6);
    struct shape input = {3, 32, 32};
    struct graph *g = net_build(&n, input, 6);
    struct dataset *d = random_dataset(4, input, 6, 50, 90);
    make_uneven(&d->train);
    make_uneven(&d->test);
    struct question q = {
        .g = g, .data = d, .batch = 5, .n_replicas = 2, .seed = 4, .exam = 7, .examined = 1, .calm = true};
    check_in_both(&engine_cuda, q, "a chain", BENDS);
    random_dataset_free(d);
    graph_free(g);
    net_release(&n);
}

static void a_block_or_two_agree(void **state)
{
    (void)state;
    check_blocks(2, 2, 1);
}

static void residual_blocks_agree_in_every_shape(void **state)
{
    (void)state;
    static const size_t batches[] = {4, 5, 7};
    for (size_t stages = 1; stages <= 3; stages++)
        check_blocks(stages, batches[stages - 1], 3);
}

static void the_named_networks_of_3x3_convolutions_agree(void **state)
{
    (void)state;
    check_model("fashion-cnn", (struct shape){1, 28, 28}, 6, 3, false, BENDS);
    check_model("resnet20", (struct shape){3, 32, 32}, 6, 2, false, DEEP);
}

/* Pictures whose class can be seen, so that the gradients of many lessons have something in common: stripes,
 * each class its own. */
static void make_telling(const struct samples *s)
{
    uint8_t *pixels = (uint8_t *)s->pixels;
    size_t plane = s->h * s->w, size = s->c * plane;
    for (size_t i = 0; i < s->n * size; i++) {
        size_t k = s->labels[i / size], y = i % plane / s->w, x = i % s->w;
        pixels[i] = (uint8_t)(pixels[i] / 2 + (y * (1 + k % 4) + x * (k / 4)) * 16 % 128);
    }
}

/* The sum of all replicas' gradients over so many rounds of lessons; all stand at the same point. */
static float *sum_of_gradients(struct question q, enum precision precision, size_t rounds)
{
    size_t size = q.g->size;
    q.precision = precision;
    struct engine *e = question_open(&engine_cuda, &q);
    struct answer a = answer_new(&q);
    float *row = zeros(size, sizeof *row), *sum = zeros(size, sizeof *sum);
    question_write(&q, e, 0);
    must(e->ops->read(e, ROW_PARAMS, 0, row));
    for (size_t i = 1; i < q.n_replicas; i++)
        must(e->ops->write(e, ROW_PARAMS, i, row));
    for (uint64_t round = 0; round < rounds; round++) {
        question_learn(&q, e, round, &a);
        for (size_t i = 0; i < q.n_replicas; i++) {
            must(e->ops->read(e, ROW_GRADS, i, row));
            for (size_t k = 0; k < size; k++)
                sum[k] += row[k];
        }
    }
    engine_close(e);
    answer_release(&a);
    free(row);
    return sum;
}

static double mean_apart(struct question q, const char *what, size_t rounds)
{
    float *want = sum_of_gradients(q, PRECISION_FP32, rounds),
          *have = sum_of_gradients(q, PRECISION_BF16, rounds);
    double off = apart(have, want, q.g->size);
    print_message("%-12s mean gradient of %5zu lessons of %zu: bf16 off by %.2e, worst weight by %.2e\n",
                  what, rounds * q.n_replicas, q.batch, off, worst_apart(q.g, have, want));
    free(want);
    free(have);
    return off;
}

/* What one lesson's gradient is off by after many layers is noise, not a pull: sixteen times as many lessons
 * leave a quarter of it, and fp32 and bf16 follow the same slope. The engine's own fp32 is the judge, which
 * `ref` judged. */
static void mean_gradients_of_many_lessons_agree(void **state)
{
    (void)state;
    struct shape input = {3, 32, 32};
    struct graph *g = model_build("resnet20", input, 10);
    struct dataset *d = random_dataset(1, input, 10, 2000, 1);
    make_telling(&d->train);
    struct question q = {.g = g, .data = d, .batch = 32, .n_replicas = 16, .seed = 5};
    double few = mean_apart(q, "resnet20", 1), many = mean_apart(q, "resnet20", 16);
    assert_true(many < 2e-2);
    assert_true(many < few / 3);
    random_dataset_free(d);
    graph_free(g);
}

/* One lesson in which every picture of q's comes so many times. */
static struct answer learn_repeated(struct question q, enum precision precision, size_t times)
{
    struct pick *once = zeros(q.batch, sizeof *once), *picks = zeros(times * q.batch, sizeof *picks);
    struct lesson *lessons = question_lessons(&q, 0, once);
    for (size_t i = 0; i < times * q.batch; i++)
        picks[i] = once[i % q.batch];
    lessons->picks = picks;
    q.batch *= times;
    q.precision = precision;
    struct answer a = answer_new(&q);
    struct engine *e = question_open(&engine_cuda, &q);
    question_write(&q, e, 0);
    must(e->ops->learn(e, lessons, 1));
    a.loss[0] = lessons->loss;
    must(e->ops->read(e, ROW_GRADS, 0, a.grads));
    engine_close(e);
    free(lessons);
    free(picks);
    free(once);
    return a;
}

/* A batch in which every picture comes k times has the same means as those pictures once, and so the same
 * loss and gradient (not the same statistics: running variances are of n - 1): lessons too large for `ref`
 * are judged by small ones, which `ref` judged. */
static void check_repeated(const char *model, struct shape input, size_t batch, size_t times)
{
    struct graph *g = model_build(model, input, 10);
    struct dataset *d = random_dataset(1, input, 10, 60, 1);
    struct question q = {.g = g, .data = d, .batch = batch, .n_replicas = 1, .seed = 5};
    struct answer small = learn_repeated(q, PRECISION_FP32, 1),
                  large = learn_repeated(q, PRECISION_FP32, times),
                  small_bf16 = learn_repeated(q, PRECISION_BF16, 1),
                  large_bf16 = learn_repeated(q, PRECISION_BF16, times);
    char what[96];
    snprintf(what, sizeof what, "%s, %zu x %zu pictures, fp32", model, times, batch);
    check_answer(&q, &large, &small, what, 1e-4, 1e-4);
    snprintf(what, sizeof what, "%s, %zu x %zu pictures, bf16", model, times, batch);
    check_answer(&q, &large_bf16, &small_bf16, what, 2e-2, 1);
    assert_true(answer_distance(&q, &large_bf16, &small, 0).grads <
                1.5 * answer_distance(&q, &small_bf16, &small, 0).grads);
    struct answer *all[] = {&small, &large, &small_bf16, &large_bf16};
    for (int i = 0; i < 4; i++)
        answer_release(all[i]);
    random_dataset_free(d);
    graph_free(g);
}

static void a_few_repeated_pictures_teach_the_same(void **state)
{
    (void)state;
    check_repeated("resnet20", (struct shape){3, 16, 16}, 4, 3);
}

static void many_repeated_pictures_teach_the_same(void **state)
{
    (void)state;
    static const size_t times[] = {4, 7, 36}; /* 128, 224 and 1152 pictures */
    for (size_t i = 0; i < 3; i++)
        check_repeated("resnet20", (struct shape){3, 32, 32}, 32, times[i]);
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
        struct question q = {.g = g, .data = d, .batch = 16, .n_replicas = 5, .seed = 5, .exam = 7};
        q.precision = p ? PRECISION_BF16 : PRECISION_FP32;
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
        struct question q = {.g = g, .data = d, .batch = 16, .n_replicas = 5, .seed = 5, .exam = 7};
        q.precision = p ? PRECISION_BF16 : PRECISION_FP32;
        struct pick *picks = zeros(q.n_replicas * q.batch, sizeof *picks);
        struct lesson *lessons = question_lessons(&q, 0, picks);
        struct engine *e = question_open(&engine_cuda, &q);
        float *together = zeros(g->size, sizeof *together), *alone = zeros(g->size, sizeof *alone);
        for (size_t i = 0; i < q.n_replicas; i++)
            question_write(&q, e, i);
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
    if (is_missing(&engine_cuda))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_models_agree),
        cmocka_unit_test(a_chain_of_convolutions_agrees),
        cmocka_unit_test(a_block_or_two_agree),
        cmocka_unit_test(residual_blocks_agree_in_every_shape),
        cmocka_unit_test(the_named_networks_of_3x3_convolutions_agree),
        cmocka_unit_test(mean_gradients_of_many_lessons_agree),
        cmocka_unit_test(a_few_repeated_pictures_teach_the_same),
        cmocka_unit_test(many_repeated_pictures_teach_the_same),
        cmocka_unit_test(the_same_seed_gives_the_same_bits),
        cmocka_unit_test(a_lesson_gives_the_same_bits_alone_and_beside_others),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
