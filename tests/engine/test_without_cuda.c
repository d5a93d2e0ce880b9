/* A build that knows no CUDA, on any machine: engine.c once more, instead of the library's. Run again where
 * there is a driver (tests/gpu). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "support/network.h"

#undef VECHE_HAS_CUDA
#include "engine/engine.c"

static void describe_auto(char *text, size_t n)
{
    struct shape input = {1, 1, 4};
    struct graph *g = model_build("mlp:3", input, 2);
    struct dataset *d = random_dataset(1, input, 2, 8, 4);
    struct engine_setup setup = {.graph = g,
                                 .rows = rows_of(g, NULL),
                                 .train = &d->train,
                                 .test = &d->test,
                                 .n_replicas = 1,
                                 .batch = 2,
                                 .threads = 1};
    struct engine *e;
    must(engine_open(&engine_kinds.rows[0], &setup, &e));
    engine_describe(e, text, n);
    engine_close(e);
    random_dataset_free(d);
    graph_free(g);
}

static void a_gpu_that_is_not_used_is_named(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    char text[512];
    describe_auto(text, sizeof text);
    if (driver)
        assert_non_null(strstr(text, "(no GPU: this veche was built without CUDA; docs/gpu.md says how"));
    else
        assert_null(strstr(text, "GPU"));
    if (driver)
        dlclose(driver);
}

static void asked_for_it_is_refused(void **state)
{
    (void)state;
    fault f = engine_usable(&engine_kinds.rows[1]);
    assert_string_equal(fault_text(f), "engine 'cuda' cannot be used: this veche was built without CUDA; "
                                       "docs/gpu.md says how to build it with");
    fault_drop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_that_is_not_used_is_named),
        cmocka_unit_test(asked_for_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
