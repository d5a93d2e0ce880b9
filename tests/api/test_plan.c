/* veche_plan: an experiment or settings in, texts out. */
#include "veche.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/comma.h"
#include "support/must.h"

static const char experiment[] = "name: net\n"
                                 "data: { set: blobs, batch: 16 }\n"
                                 "model: mlp:50-20\n"
                                 "optim: { kind: sgd, lr: 0.1 }\n"
                                 "agents: 3\n"
                                 "topology: complete:3\n"
                                 "strategy: allreduce\n"
                                 "machines: { speed: [1, 1, 0.5], rate: 1000 }\n"
                                 "train: { epochs: 1 }\n";

static char *planned(const char *const *settings, size_t n)
{
    veche_experiment *e = NULL;
    char *json = NULL;
    must(veche_parse(experiment, "net.yaml", &e));
    must(veche_plan(e, settings, n, NULL, &json, NULL, NULL));
    veche_experiment_free(e);
    return json;
}

static void numbers_have_points_in_every_locale(void **state)
{
    (void)state;
    static const char *const settings[] = {"times=rate", "machines=[1, 0.5]", "memory_mb=0.5"};
    char *before = planned(settings, 3);
    assert_non_null(strstr(before, "0.5"));
    enter_comma_locale();
    char *after = planned(settings, 3);
    leave_comma_locale();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void nothing_is_given_out_on_a_fault(void **state)
{
    (void)state;
    static const char *const settings[] = {"times=rate", "machines=[1, 1, 1, 1, 1, 1, 1, 1, 1]"};
    veche_experiment *e = NULL;
    char *text = NULL, *svg = NULL;
    must(veche_parse(experiment, "net.yaml", &e));
    must_fail(veche_plan(e, settings, 2, &text, NULL, &svg, NULL), "9 machines with 1 part each need at least 9 layers");
    assert_true(!text && !svg);
    must_fail(veche_plan(e, (const char *const[]){"machine=1"}, 1, &text, NULL, NULL, NULL), "did you mean 'machines'?");
    veche_experiment_free(e);
}

static void all_texts_come_at_once(void **state)
{
    (void)state;
    static const char *const settings[] = {"times=rate", "microbatches=2", "schedule=gpipe", "machines=[1, 1]"};
    veche_experiment *e = NULL;
    char *text, *json, *svg, *csv;
    must(veche_parse(experiment, "net.yaml", &e));
    must(veche_plan(e, settings, 4, &text, &json, &svg, &csv));
    assert_string_equal(csv, "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
    assert_true(strstr(text, "bottleneck") && strstr(json, "\"bottleneck_ms\"") && strncmp(svg, "<svg", 4) == 0);
    free(text);
    free(json);
    free(svg);
    free(csv);
    veche_experiment_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_points_in_every_locale),
        cmocka_unit_test(nothing_is_given_out_on_a_fault),
        cmocka_unit_test(all_texts_come_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
