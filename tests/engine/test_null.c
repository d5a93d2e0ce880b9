/* The null engine has the right shapes and touches nothing. */
#include "support/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_nothing_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
