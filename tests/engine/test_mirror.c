/* An engine whose rows are far away, reached on the host all the same: to the bits of one whose rows are here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/parts.h"

enum { REPLICAS = 3, BATCH = 4, ROUNDS = 5 };

/* A step with something to remember: slot = slot / 2 + g, theta -= lr * slot. */
static void heavy_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                       float *const slot[OPTIM_SLOTS])
{
    (void)settings, (void)t;
    for (size_t i = 0; i < n; i++) {
        slot[0][i] = slot[0][i] / 2 + g[i];
        theta[i] -= (float)lr * slot[0][i];
    }
}

#define STEP(isa, function) [ISA_##isa] = function, /* no hot file */
static const struct optim_row heavy_row = {.n_slots = 1, .slot_names = {"pace"}, .step = {EACH_ISA(STEP, heavy_step)}};
static const struct kind heavy_kind = {.name = "heavy", .row = &heavy_row};
static const struct optim_settings heavy = {.kind = {.kind = &heavy_kind}};

struct fixture {
    struct graph *g;
    struct dataset *d;
    struct engine *here, *far; /* one with its rows here, and the mirror of one like it */
};

/* As ref, but nobody is told where its rows are. */
static fault open_far(const struct engine_setup *setup, struct engine **out)
{
    assert_false(setup->rows_on_host);
    return engine_ref.open(setup, out);
}

static void write_start(struct engine *e)
{
    const struct graph *g = e->setup.graph;
    float *params = calloc(g->size + g->stats_size, sizeof *params);
    graph_init(g, 5, params, params + g->size);
    for (size_t i = 0; i < REPLICAS; i++) {
        assert_null(e->ops->write(e, ROW_PARAMS, i, params));
        assert_null(e->ops->write(e, ROW_STATS, i, params + g->size));
    }
    free(params);
}

static struct fixture fixture_new(void)
{
    static const struct engine_ops far = {.name = "far", .open = open_far};
    const struct kind kind = {.name = "far", .row = &far};
    struct shape shape = {2, 6, 6};
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_batchnorm(&net);
    net_layer(&net, "relu");
    net_dropout(&net, 0.3);
    net_linear(&net, 3);
    struct fixture f = {.g = net_build(&net, shape, 3), .d = random_dataset(2, shape, 3, 30, 12)};
    net_release(&net);
    struct engine_setup setup = {.graph = f.g, .train = &f.d->train, .test = &f.d->test};
    setup.n_replicas = REPLICAS;
    setup.n_spare = 1;
    setup.batch = BATCH;
    setup.threads = 1;
    setup.optim = &heavy;
    setup.rows = rows_of(f.g, &heavy);
    rows_keep(&setup.rows, (struct row_entry){.name = "kept", .size = 77});
    setup.rows_on_host = true;
    assert_null(engine_open(kind_find(&engine_kinds, "ref"), &setup, &f.here));
    assert_null(engine_open(&kind, &setup, &f.far));
    write_start(f.here);
    write_start(f.far);
    return f;
}

static void fixture_free(struct fixture *f)
{
    engine_close(f->here);
    engine_close(f->far);
    graph_free(f->g);
    random_dataset_free(f->d);
}

/* What the host's row held when it was told of: all of it, and nothing before. */
struct witness {
    struct engine *engine;
    size_t replica, calls, last;
    float sum;
};

static void note(void *ctx, size_t first)
{
    struct witness *w = ctx;
    const float *grads = w->engine->ops->floats(w->engine, ROW_GRADS, w->replica);
    w->calls++;
    w->last = first;
    w->sum = 0;
    for (size_t i = first; i < w->engine->setup.graph->size; i++)
        w->sum += grads[i];
}

static void train_a_round(struct engine *e, uint64_t k, struct witness *w)
{
    struct pick picks[REPLICAS][BATCH];
    struct lesson lessons[REPLICAS];
    struct update updates[REPLICAS];
    struct rng r = rng_stream(k, 0, RNG_TEST, 0);
    for (size_t i = 0; i < REPLICAS; i++) {
        random_picks(&r, e->setup.train, true, 1, picks[i], BATCH);
        w[i] = (struct witness){.engine = e, .replica = i};
        lessons[i] = (struct lesson){
            .replica = i, .picks = picks[i], .seed = k + i, .ready = note, .ready_ctx = &w[i]};
        updates[i] = (struct update){.replica = i, .lr = 0.1, .t = k + 1, .end = TO_END};
    }
    assert_null(e->ops->learn(e, lessons, REPLICAS));
    assert_true(lessons[0].loss > 0);
    assert_null(e->ops->update(e, updates, REPLICAS));
    const struct addend addends[] = {{0.25f, ROW_PARAMS, 0, 0}, {0.75f, ROW_PARAMS, 1, 0}};
    struct blend blend = {
        .row = ROW_PARAMS, .into = 1, .also = REPLICAS, .end = TO_END, .addends = addends, .n = 2};
    assert_null(e->ops->mix(e, &blend, 1));
    e->ops->floats(e, ROW_PARAMS, 2)[k] += 0.5f; /* as a peer would write it */
}

static void all_rows_are_alike(struct fixture *f)
{
    for (enum row row = 0; row < f->here->setup.rows.n; row++)
        for (size_t i = 0; i < REPLICAS; i++)
            assert_memory_equal(f->here->ops->floats(f->here, row, i), f->far->ops->floats(f->far, row, i),
                                row_size(&f->here->setup, row) * sizeof(float));
}

static void it_trains_to_the_same_bits(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    for (uint64_t k = 0; k < ROUNDS; k++) {
        struct witness here[REPLICAS], far[REPLICAS];
        train_a_round(f.here, k, here);
        train_a_round(f.far, k, far);
        all_rows_are_alike(&f);
        for (size_t i = 0; i < REPLICAS; i++) {
            assert_int_equal(far[i].calls, 1);
            assert_int_equal(far[i].last, 0);
            assert_true(far[i].sum == here[i].sum);
        }
    }
    fixture_free(&f);
}

static void it_examines_what_the_host_has_now(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    struct witness w[REPLICAS];
    train_a_round(f.here, 0, w);
    train_a_round(f.far, 0, w);
    struct exam here[2] = {{.replica = 2, .n = 12}, {.replica = REPLICAS, .on_train = true, .first = 3, .n = 20}}, far[2];
    memcpy(far, here, sizeof here);
    assert_null(f.here->ops->examine(f.here, here, 2));
    assert_null(f.far->ops->examine(f.far, far, 2));
    for (int i = 0; i < 2; i++) {
        assert_true(here[i].loss == far[i].loss);
        assert_int_equal(here[i].hits, far[i].hits);
    }
    assert_true(here[0].loss != here[1].loss);
    all_rows_are_alike(&f);
    fixture_free(&f);
}

static void it_has_the_devices_name_and_rows_that_others_can_map(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    char text[300];
    assert_string_equal(f.far->ops->name, "far");
    engine_describe(f.far, text, sizeof text);
    assert_non_null(strstr(text, "rows on the host"));
    assert_non_null(f.far->shared);
    assert_int_equal(f.far->shared->n_bytes, f.here->shared->n_bytes);
    fixture_free(&f);
}

/* Whatever is opened of these engines is far; all mirrors have the same functions. */
static fault open_mirror(const struct engine_setup *setup, struct engine **out)
{
    static const struct engine_ops far = {.name = "far", .open = open_far};
    const struct kind kind = {.name = "far", .row = &far};
    struct engine_setup s = *setup;
    s.rows_on_host = true;
    return engine_open(&kind, &s, out);
}

static void it_computes_parts_to_the_same_bits(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    struct engine_ops ops = *f.far->ops;
    ops.open = open_mirror;
    size_t part_of[16];
    assert_true(f.g->n_ops <= 16);
    for (int splits = 0; splits < 2; splits++) {
        cut_at(f.g, (const size_t[]){1, 3}, 2, part_of);
        struct parts_trial t = {.ops = &ops,
                                .g = f.g,
                                .data = f.d,
                                .part_of = part_of,
                                .n_parts = 3,
                                .n_replicas = 2,
                                .batch = 5,
                                .micro_batches = 3,
                                .flights = 2,
                                .splits = splits,
                                .threads = 1,
                                .seed = 3,
                                .what = "a mirror"};
        parts_agree(&t);
    }
    fixture_free(&f);
}

/* Of which nothing crosses anywhere. */
static void it_computes_passes_of_a_whole_network_to_the_same_bits(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    struct engine_setup setup = f.far->setup;
    struct engine *by_passes = NULL;
    setup.micro_batches = setup.flights = 2;
    assert_null(open_mirror(&setup, &by_passes));
    write_start(by_passes);
    setup.flights = 0;
    struct engine *by_lessons = NULL;
    assert_null(open_mirror(&setup, &by_lessons));
    write_start(by_lessons);
    struct pick picks[BATCH];
    struct rng r = rng_stream(1, 0, RNG_TEST, 0);
    random_picks(&r, setup.train, true, 1, picks, BATCH);
    struct lesson lesson = {.replica = 1, .picks = picks, .seed = 9};
    assert_null(by_lessons->ops->learn(by_lessons, &lesson, 1));
    double loss = 0;
    for (size_t k = 0; k < 4; k++) {
        struct pass pass = {.replica = 1, .picks = picks, .seed = 9};
        pass.kind = k % 2 ? PASS_BACKWARD : PASS_FORWARD;
        pass.flight = pass.micro = k / 2;
        pass.adds = k / 2;
        assert_null(by_passes->ops->pass(by_passes, &pass, 1));
        loss += k % 2 ? 0 : pass.loss;
    }
    assert_true(loss == lesson.loss && loss > 0);
    for (enum row row = ROW_PARAMS; row <= ROW_STATS; row++)
        assert_memory_equal(by_passes->ops->floats(by_passes, row, 1),
                            by_lessons->ops->floats(by_lessons, row, 1),
                            row_size(&setup, row) * sizeof(float));
    engine_close(by_passes);
    engine_close(by_lessons);
    fixture_free(&f);
}

static fault is_full(const struct engine_setup *setup, struct engine **out)
{
    (void)setup, (void)out;
    return FAIL(FAULT_ENGINE, "the device is full");
}

static void a_device_that_cannot_be_opened_says_why(void **state)
{
    (void)state;
    static const struct engine_ops full = {.name = "full", .open = is_full};
    const struct kind kind = {.name = "full", .row = &full};
    struct fixture f = fixture_new();
    struct engine *e = NULL;
    fault bad = engine_open(&kind, &f.far->setup, &e);
    assert_string_equal(fault_text(bad), "the device is full");
    assert_null(e);
    fault_drop(bad);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_trains_to_the_same_bits),
        cmocka_unit_test(it_examines_what_the_host_has_now),
        cmocka_unit_test(it_computes_parts_to_the_same_bits),
        cmocka_unit_test(it_computes_passes_of_a_whole_network_to_the_same_bits),
        cmocka_unit_test(it_has_the_devices_name_and_rows_that_others_can_map),
        cmocka_unit_test(a_device_that_cannot_be_opened_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
