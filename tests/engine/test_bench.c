/* The bench of an engine: whole rounds on random bytes. Figures are checked for sense, never for speed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/bench.h"
#include "optim/rules.h"
#include "support/network.h"

static struct engine_bench run(const struct engine_ops *ops, const struct graph *g, size_t n_replicas,
                               const struct optim_settings *optim)
{
    struct engine_setup setup = {.graph = g,
                                 .rows = rows_of(g, optim),
                                 .n_replicas = n_replicas,
                                 .batch = 6,
                                 .threads = 2,
                                 .optim = optim};
    struct engine_bench b;
    fault f = engine_bench(ops, &setup, 0.02, &b);
    if (f)
        fail_msg("%s", fault_text(f));
    return b;
}

static void a_bench_tells_the_rate_of_its_rounds(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:12", (struct shape){1, 6, 6}, 4);
    struct engine_bench b = run(&engine_ref, g, 3, NULL);
    double per_s = 3 * 6 / (b.round_ms / 1e3);
    assert_true(b.samples_per_s > 0.999 * per_s && b.samples_per_s < 1.001 * per_s);
    assert_true(b.slowest_per_s <= b.samples_per_s && b.samples_per_s <= b.fastest_per_s);
    assert_true(b.flops_per_s > 0.999 * b.samples_per_s * g->flops_learn);
    assert_true(b.rounds >= BENCH_REPEATS);
    assert_true(strlen(b.engine) > 0);
    graph_free(g);
}

static void updates_are_part_of_a_round(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:12", (struct shape){1, 6, 6}, 4);
    struct sgd_settings sgd = {.lr = 0.1, .momentum = 0.9};
    struct optim_settings optim = {.kind = {.kind = kind_find(&optim_kinds, "sgd"), .settings = &sgd}};
    struct engine_bench b = run(&engine_ref, g, 2, &optim);
    assert_true(b.update_ms > 0 && b.update_ms < b.round_ms);
    graph_free(g);
}

static void a_pace_has_lessons_steps_and_mixes_of_engines_side_by_side(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:12", (struct shape){1, 6, 6}, 4);
    struct sgd_settings sgd = {.lr = 0.1, .momentum = 0.9};
    struct optim_settings optim = {.kind = {.kind = kind_find(&optim_kinds, "sgd"), .settings = &sgd}};
    struct engine_setup setup = {
        .graph = g, .rows = rows_of(g, &optim), .batch = 6, .threads = 1, .optim = &optim};
    for (size_t n = 1; n <= 3; n++) {
        struct engine_pace p;
        fault f = engine_pace(&engine_ref, &setup, n, 0.02, &p);
        if (f)
            fail_msg("%s", fault_text(f));
        assert_true(p.lesson_s > 0 && p.step_s > 0 && p.mix_s > 0);
    }
    struct engine_pace p;
    setup.batch = 0;
    fault f = engine_pace(&engine_ref, &setup, 2, 0.02, &p);
    assert_non_null(f);
    fault_drop(f);
    graph_free(g);
}

static void the_bench_of_an_engine_that_cannot_open_is_its_fault(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:12", (struct shape){1, 6, 6}, 4);
    struct engine_setup setup = {
        .graph = g, .rows = rows_of(g, NULL), .n_replicas = 0, .batch = 6, .threads = 1};
    struct engine_bench b;
    fault f = engine_bench(&engine_ref, &setup, 0.02, &b);
    assert_non_null(f);
    fault_drop(f);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bench_tells_the_rate_of_its_rounds),
        cmocka_unit_test(updates_are_part_of_a_round),
        cmocka_unit_test(a_pace_has_lessons_steps_and_mixes_of_engines_side_by_side),
        cmocka_unit_test(the_bench_of_an_engine_that_cannot_open_is_its_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
