/* The null engine has the right shapes and touches nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/cut.h"
#include "support/parts.h"

static void it_does_nothing_and_says_so(void **state)
{
    (void)state;
    struct shape shape = {1, 4, 4};
    struct graph *g = model_build("mlp:5", shape, 3);
    struct dataset *d = random_dataset(1, shape, 3, 8, 4);
    struct engine *e = engine_start(&engine_null, g, d, 2, 2, 1, 7);
    float *before = calloc(2 * g->size, sizeof *before), *after = before + g->size;
    for (size_t i = 0; i < g->size; i++)
        before[i] = 3;
    assert_null(e->ops->write(e, ROW_GRADS, 1, before));
    assert_null(e->ops->read(e, ROW_PARAMS, 1, before));
    struct pick picks[2] = {{0}};
    struct lesson lesson = {.replica = 1, .picks = picks, .loss = 5, .hits = 5};
    struct exam exam = {.replica = 1, .n = 4, .loss = 5, .hits = 5};
    assert_null(e->ops->learn(e, &lesson, 1));
    assert_null(e->ops->update(e, &(struct update){1, 0.1, 1, 0, TO_END}, 1));
    assert_null(e->ops->examine(e, &exam, 1));
    assert_true(lesson.loss == 0 && lesson.hits == 0 && exam.loss == 0 && exam.hits == 0);
    assert_null(e->ops->read(e, ROW_PARAMS, 1, after));
    assert_memory_equal(before, after, g->size * sizeof *after);
    assert_null(e->ops->read(e, ROW_GRADS, 1, after));
    for (size_t i = 0; i < g->size; i++)
        assert_true(after[i] == 3);
    char text[200];
    e->ops->describe(e, text, sizeof text);
    assert_non_null(strstr(text, "nothing is computed"));
    engine_close(e);
    free(before);
    random_dataset_free(d);
    graph_free(g);
}

static void expect_no_pass(struct engine *e, struct pass p, const char *words)
{
    fault f = e->ops->pass(e, &p, 1);
    assert_non_null(f);
    assert_non_null(strstr(fault_text(f), words));
    fault_drop(f);
}

/* Of each row of what crosses, and of all others. */
static void every_float_is(struct engine *e, size_t replica, float x)
{
    for (enum row row = 0; row < e->setup.rows.n; row++)
        for (size_t i = 0; i < row_size(&e->setup, row); i++)
            assert_true(e->ops->floats(e, row, replica)[i] == x);
}

static void its_passes_do_nothing_and_only_those_it_was_opened_for_are_given(void **state)
{
    (void)state;
    struct shape shape = {1, 4, 4};
    struct graph *g = model_build("mlp:5", shape, 3), *parts[2];
    struct dataset *d = random_dataset(1, shape, 3, 8, 4);
    size_t part_of[8];
    assert_true(g->n_ops <= 8);
    cut_at(g, (const size_t[]){2}, 1, part_of);
    assert_null(graph_cut(g, part_of, 2, parts));
    for (int splits = 0; splits < 2; splits++) {
        struct engine_setup s = {.graph = parts[0], .train = &d->train, .test = &d->test, .n_replicas = 2};
        s.rows = rows_of(parts[0], NULL);
        s.batch = 4;
        s.micro_batches = s.flights = 2;
        s.splits = splits;
        rows_cross(&s.rows, parts[0], s.flights, micro_most(&s));
        struct engine *e = NULL;
        assert_null(engine_null.open(&s, &e));
        assert_true(row_size(&s, ROW_OUTPUTS) > 0 && row_size(&s, ROW_OUTPUT_GRADS) > 0);
        for (enum row row = 0; row < s.rows.n; row++)
            for (size_t i = 0; i < row_size(&s, row); i++)
                e->ops->floats(e, row, 1)[i] = 3;
        struct pick picks[4] = {{0}};
        const enum pass_kind kinds[] = {PASS_FORWARD, splits ? PASS_INPUTS : PASS_BACKWARD,
                                        splits ? PASS_WEIGHTS : PASS_BACKWARD};
        for (int k = 0; k < 3; k++) {
            struct pass pass = {.replica = 1, .kind = kinds[k], .picks = picks, .loss = 5, .hits = 5};
            assert_null(e->ops->pass(e, &pass, 1));
            assert_true(pass.loss == 0 && pass.hits == 0);
        }
        every_float_is(e, 1, 3);
        expect_no_pass(e, (struct pass){.kind = splits ? PASS_BACKWARD : PASS_WEIGHTS, .picks = picks},
                       splits ? "apart" : "backward in one pass");
        expect_no_pass(e, (struct pass){.flight = 2, .picks = picks},
                       "no such replica, flight or micro-batch");
        engine_close(e);
    }
    struct engine *lessons = engine_start(&engine_null, g, d, 1, 2, 1, 7);
    expect_no_pass(lessons, (struct pass){.kind = PASS_FORWARD}, "gives no passes");
    engine_close(lessons);
    random_dataset_free(d);
    graph_free(parts[0]);
    graph_free(parts[1]);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_nothing_and_says_so),
        cmocka_unit_test(its_passes_do_nothing_and_only_those_it_was_opened_for_are_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
