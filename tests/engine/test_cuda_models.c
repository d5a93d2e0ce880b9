/* Whole networks on the engine `cuda` against the judge `ref`, and bit for bit against itself. Needs a GPU.
 */
#include "engine/cuda_judge.h"

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

/* Pictures that differ in brightness as well as in detail: what a mean over all pixels sees does not cancel
 * out. */
static void make_uneven(const struct samples *s)
{
    uint8_t *pixels = (uint8_t *)s->pixels;
    size_t size = s->c * s->h * s->w;
    for (size_t i = 0; i < s->n * size; i++)
        pixels[i] = (uint8_t)(pixels[i] / 4 + i / size * 37 % 192);
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

/* Blocks as in ResNet-20, of one, two and three stages: what fused.h takes over in bf16. Every layer rounds,
 * so the bound grows with their number. */
static void residual_blocks_agree_in_every_shape(void **state)
{
    (void)state;
    static const size_t batches[] = {4, 5, 7};
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
        make_uneven(&d->train);
        make_uneven(&d->test);
        char what[64];
        snprintf(what, sizeof what, "blocks of %zu stages", stages);
        struct question q = {g, d, batches[stages - 1], 3, PRECISION_FP32, stages, false, true};
        check_question(q, what, 3e-2 * (double)stages);
        random_dataset_free(d);
        graph_free(g);
        net_release(&n);
    }
}

/* With relus and pools as they fall, bf16 sends some gradients another way; losses and statistics stay close.
 */
static void whole_models_stay_close_in_bf16(void **state)
{
    (void)state;
    check_model("resnet20", (struct shape){3, 32, 32}, 6, 2, false, 0.35);
    check_model("fashion-cnn", (struct shape){1, 28, 28}, 6, 3, false, 0.1);
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
    if (no_gpu())
        return 77;
    const struct CMUnitTest tests[] = {
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
