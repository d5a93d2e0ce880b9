/* Gradients told of while a lesson is still learnt: what is said to be final is final. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/network.h"

enum { REPLICAS = 3, BATCH = 3 };

static const char *const engine_names[] = {"ref", "dnnl"};

/* NULL: not in this build. */
static const struct engine_ops *engine_named(const char *name)
{
    const struct engine_ops *ops = kind_find(&engine_kinds, name)->row;
    return ops;
}

/* What was told of one lesson, and the floats as they were then. */
struct witness {
    const float *row;
    float *copy; /* owned */
    size_t size, last;
    size_t calls;
    bool falls; /* each call was for less than the one before */
};

static void note(void *ctx, size_t first)
{
    struct witness *w = ctx;
    w->falls = w->falls && first < w->last;
    if (first < w->last)
        memcpy(w->copy + first, w->row + first, (w->last - first) * sizeof *w->copy);
    w->last = first;
    w->calls++;
}

static void witness_init(struct witness *w, struct engine *e, size_t replica, size_t size)
{
    *w = (struct witness){.row = e->ops->floats(e, ROW_GRADS, replica),
                          .copy = malloc((size + 1) * sizeof(float)),
                          .size = size,
                          .last = size,
                          .falls = true};
    float *row = e->ops->floats(e, ROW_GRADS, replica);
    for (size_t i = 0; i < size; i++)
        row[i] = -12345;
}

static void witness_check(struct witness *w, size_t fewest_calls)
{
    assert_true(w->falls);
    assert_int_equal(w->last, 0);
    assert_true(w->calls >= fewest_calls);
    assert_memory_equal(w->copy, w->row, w->size * sizeof *w->copy);
    free(w->copy);
}

/* n lessons at once: some side by side and the rest shared out, depending on the threads. */
static void learn_watched(struct engine *e, const struct samples *s, size_t n, uint64_t seed,
                          size_t fewest_calls)
{
    struct witness w[REPLICAS];
    struct lesson lessons[REPLICAS];
    struct pick picks[REPLICAS][BATCH];
    struct rng r = rng_stream(seed, 0, RNG_TEST, 0);
    for (size_t i = 0; i < n; i++) {
        random_picks(&r, s, false, 0, picks[i], BATCH);
        witness_init(&w[i], e, i, e->setup.graph->size);
        lessons[i] = (struct lesson){
            .replica = i, .picks = picks[i], .seed = seed + i, .ready = note, .ready_ctx = &w[i]};
    }
    assert_null(e->ops->learn(e, lessons, n));
    for (size_t i = 0; i < n; i++)
        witness_check(&w[i], fewest_calls);
}

static void watch_network(const struct graph *g, const struct dataset *d, uint64_t seed, size_t fewest_calls)
{
    for (size_t k = 0; k < 2; k++) {
        const struct engine_ops *ops = engine_named(engine_names[k]);
        for (int threads = 1; ops && threads <= 2; threads++) {
            struct engine *e = engine_start(ops, g, d, REPLICAS, BATCH, threads, seed);
            learn_watched(e, &d->train, REPLICAS, seed, fewest_calls);
            learn_watched(e, &d->train, 1, seed, fewest_calls);
            engine_close(e);
        }
    }
}

static const struct {
    const char *name;
    struct shape input;
    size_t fewest_calls;
} models[] = {
    {"resnet20", {3, 16, 16}, 20},
    {"lenet", {1, 28, 28}, 4},
    {"fashion-cnn", {1, 28, 28}, 4},
    {"mlp:40-30", {1, 8, 8}, 3},
};

static void the_models_gradients_are_final_when_they_are_told_of_and_not_all_at_once(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct graph *g = model_build(models[m].name, models[m].input, 10);
        struct dataset *d = random_dataset(m, models[m].input, 10, 20, 5);
        watch_network(g, d, m, models[m].fewest_calls);
        graph_free(g);
        random_dataset_free(d);
    }
}

static void so_are_those_of_any_network(void **state)
{
    (void)state;
    const struct shape input = {2, 9, 9};
    struct dataset *d = random_dataset(5, input, 4, 20, 5);
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct network n = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 1);
        net_random(&n, &r, input, 4, 1 + rng_below(&r, 10));
        struct graph *g = net_build(&n, input, 4);
        watch_network(g, d, seed, 1);
        graph_free(g);
        net_release(&n);
    }
    random_dataset_free(d);
}

static void count(void *ctx, size_t first)
{
    size_t *calls = ctx;
    *calls += first == 0 ? 1 : 100;
}

static void a_network_without_parameters_is_told_of_once(void **state)
{
    (void)state;
    struct network n = {0};
    net_layer(&n, "flatten");
    struct graph *g = net_build(&n, (struct shape){4, 1, 1}, 4);
    struct dataset *d = random_dataset(6, g->input, 4, 20, 5);
    assert_int_equal(g->size, 0);
    for (size_t k = 0; k < 2; k++) {
        const struct engine_ops *ops = engine_named(engine_names[k]);
        if (!ops)
            continue;
        struct engine *e = engine_start(ops, g, d, 1, BATCH, 1, 1);
        struct pick picks[BATCH] = {{0}};
        size_t calls = 0;
        struct lesson l = {.picks = picks, .ready = count, .ready_ctx = &calls};
        assert_null(e->ops->learn(e, &l, 1));
        assert_int_equal(calls, 1);
        engine_close(e);
    }
    graph_free(g);
    random_dataset_free(d);
    net_release(&n);
}

static void an_engine_that_computes_nothing_tells_of_all_at_once(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:40-30", (struct shape){1, 8, 8}, 10);
    struct dataset *d = random_dataset(7, g->input, 10, 20, 5);
    struct engine *e = engine_start(&engine_null, g, d, REPLICAS, BATCH, 1, 1);
    learn_watched(e, &d->train, REPLICAS, 1, 1);
    engine_close(e);
    graph_free(g);
    random_dataset_free(d);
}

/* Another thread takes the floats away as it learns of them, as a world does that sends them. */
struct taker {
    const float *row;
    float *taken; /* owned */
    size_t size;
    atomic_size_t first;
};

static void publish(void *ctx, size_t first)
{
    struct taker *t = ctx;
    atomic_store_explicit(&t->first, first, memory_order_release);
}

static void *take(void *ctx)
{
    struct taker *t = ctx;
    for (size_t last = t->size; last > 0;) {
        size_t first = atomic_load_explicit(&t->first, memory_order_acquire);
        memcpy(t->taken + first, t->row + first, (last - first) * sizeof *t->taken);
        last = first;
        sched_yield();
    }
    return NULL;
}

static void another_thread_may_take_them_while_the_lesson_goes_on(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", (struct shape){3, 16, 16}, 10);
    struct dataset *d = random_dataset(8, g->input, 10, 20, 5);
    for (size_t k = 0; k < 2; k++) {
        const struct engine_ops *ops = engine_named(engine_names[k]);
        if (!ops)
            continue;
        struct engine *e = engine_start(ops, g, d, 1, BATCH, 2, 1);
        struct pick picks[BATCH] = {{0}};
        struct taker t = {.row = e->ops->floats(e, ROW_GRADS, 0), .size = g->size};
        t.taken = calloc(g->size, sizeof *t.taken);
        struct lesson l = {.picks = picks, .ready = publish, .ready_ctx = &t};
        for (uint64_t round = 0; round < 3; round++) {
            pthread_t thread;
            atomic_store(&t.first, g->size);
            l.seed = round;
            picks[0].sample = (uint32_t)round;
            assert_int_equal(pthread_create(&thread, NULL, take, &t), 0);
            assert_null(e->ops->learn(e, &l, 1));
            assert_int_equal(pthread_join(thread, NULL), 0);
            assert_memory_equal(t.taken, t.row, g->size * sizeof *t.taken);
        }
        free(t.taken);
        engine_close(e);
    }
    graph_free(g);
    random_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_models_gradients_are_final_when_they_are_told_of_and_not_all_at_once),
        cmocka_unit_test(so_are_those_of_any_network),
        cmocka_unit_test(a_network_without_parameters_is_told_of_once),
        cmocka_unit_test(an_engine_that_computes_nothing_tells_of_all_at_once),
        cmocka_unit_test(another_thread_may_take_them_while_the_lesson_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
