/* The table of methods: what is shown, what is best, and that it stays within 80 columns. */
#include "record/comparison.h"

#include <math.h>

#include "record/scratch.h"

static struct report_run run_of(double accuracy, double averaged, double virtual_s, uint64_t bytes,
                                double waiting, double staleness, double target_s)
{
    return (struct report_run){
        .n_agents = 4,
        .target_s = target_s,
        .end = {.accuracy = {.mean = accuracy},
                .averaged_accuracy = averaged,
                .virtual_s = virtual_s,
                .bytes = bytes,
                .waiting_share = waiting,
                .staleness_mean = staleness},
    };
}

static char *table_of(const struct compared *methods, size_t n, double target)
{
    char *text;
    assert_ok(comparison_table(methods, n, target, false, &text));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    return text;
}

static void must_have(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("'%s' is not in\n%s", line, text);
}

static void the_best_of_each_column_is_marked(void **state)
{
    (void)state;
    struct report_run a = run_of(91.5, 92, 120, 5000000, 0.4, 0, 60.25),
                      b = run_of(90.25, 93, 30.04, 7500000, 0.02, 1.5, 12),
                      c = run_of(91.496, 91, 250, 1000000, 0.4, 0, NAN);
    struct compared methods[] = {
        {"consensus", NULL, &a, true}, {"adpsgd", NULL, &b, true}, {"average", NULL, &c, true}};
    char *text = table_of(methods, 3, 90);
    must_have(text, "method     accuracy  averaged  s to 90%  virtual s  sent MB  wait %  stale\n");
    must_have(text, "consensus     91.50*    92.00     60.25      120.0    5.000    40.0   0.00*\n");
    must_have(text, "adpsgd        90.25     93.00*    12.00*      30.0*   7.500     2.0*  1.50\n");
    must_have(text, "average       91.50*    91.00         -      250.0    1.000*   40.0   0.00*\n");
    must_have(text, "* the best of its column\n");
    free(text);
}

static void what_is_the_same_in_all_is_not_marked_and_no_staleness_is_no_column(void **state)
{
    (void)state;
    struct report_run a = run_of(91, 91, 5, 1000, 0, 0, NAN), b = a;
    struct compared methods[] = {{"a", NULL, &a, true}, {"b", NULL, &b, true}};
    char *text = table_of(methods, 2, NAN);
    assert_null(strchr(text, '*'));
    assert_null(strstr(text, "stale"));
    assert_null(strstr(text, "s to"));
    free(text);
}

static void one_agent_has_nobody_to_wait_for_and_sends_nothing(void **state)
{
    (void)state;
    struct report_run single = run_of(95, NAN, 100, 0, 0, 0, NAN), b = run_of(91, 91, 5, 1000, 0.5, 1, NAN);
    single.n_agents = 1;
    struct compared methods[] = {{"single", NULL, &single, true}, {"b", NULL, &b, true}};
    char *text = table_of(methods, 2, NAN);
    must_have(text, "single     95.00*        -      100.0        -       -      -\n");
    must_have(text, "b          91.00     91.00        5.0*   1.000    50.0   1.00\n");
    free(text);
}

static void who_failed_or_is_not_done_is_never_best(void **state)
{
    (void)state;
    struct report_run a = run_of(91, 91, 5, 1000, 0.5, 0, NAN), b = run_of(99, 99, 1, 10, 0.1, 0, NAN), c = b;
    struct compared methods[] = {
        {"a", NULL, &a, true},
        {"b",
         "the loss of agent 3 became NaN in lesson 17 (epoch 0.25, learning rate 10): training has diverged",
         &b, false},
        {"c", NULL, &c, false},
        {"d", NULL, NULL, false},
        {"e", "out of luck", NULL, false},
    };
    char *text = table_of(methods, 5, NAN);
    assert_null(strchr(text, '*'));
    must_have(text,
              "\nb       failed: the loss of agent 3 became NaN in lesson 17 (epoch 0.25, lear...\n");
    must_have(text, "\nc       begun, not done\n");
    must_have(text, "\nd       not begun\n");
    must_have(text, "\ne       failed: out of luck\n");
    free(text);
}

static void a_long_name_has_a_line_for_itself(void **state)
{
    (void)state;
    struct report_run a = run_of(91, 91, 1e6, 1000, 0.5, 20, 1e5), b = run_of(92, 91, 2e9, 5, 0.5, 1, NAN);
    struct compared methods[] = {{"consensus, order combine-then-adapt, every 3", NULL, &a, true},
                                 {"b", NULL, &b, true}};
    char *text = table_of(methods, 2, 87.5);
    must_have(text, "\nconsensus, order combine-then-adapt, every 3\n          ");
    must_have(text, "s to 87.5%");
    free(text);
}

static void the_object_has_the_figures_of_the_table(void **state)
{
    (void)state;
    struct report_run a = run_of(91.5, 92, 120, 5000000, 0.4, 0.5, NAN);
    a.waited_for = "agent 3 (12.0 s)";
    json_t *o = comparison_figures(&(struct compared){"a", NULL, &a, true});
    assert_string_equal(json_string_value(json_object_get(o, "state")), "done");
    assert_true(json_real_value(json_object_get(json_object_get(o, "accuracy"), "mean")) == 91.5);
    assert_true(json_real_value(json_object_get(o, "averaged_accuracy")) == 92);
    assert_true(json_real_value(json_object_get(o, "virtual_s")) == 120);
    assert_true(json_integer_value(json_object_get(o, "bytes")) == 5000000);
    assert_true(json_real_value(json_object_get(o, "waiting_share")) == 0.4);
    assert_true(json_real_value(json_object_get(o, "staleness_mean")) == 0.5);
    assert_true(json_is_null(json_object_get(o, "target_s")));
    assert_string_equal(json_string_value(json_object_get(o, "waited_for")), "agent 3 (12.0 s)");
    json_decref(o);
    o = comparison_figures(&(struct compared){"b", "it broke", NULL, false});
    assert_string_equal(json_string_value(json_object_get(o, "state")), "failed");
    assert_string_equal(json_string_value(json_object_get(o, "failure")), "it broke");
    assert_null(json_object_get(o, "accuracy"));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_each_column_is_marked),
        cmocka_unit_test(what_is_the_same_in_all_is_not_marked_and_no_staleness_is_no_column),
        cmocka_unit_test(one_agent_has_nobody_to_wait_for_and_sends_nothing),
        cmocka_unit_test(who_failed_or_is_not_done_is_never_best),
        cmocka_unit_test(a_long_name_has_a_line_for_itself),
        cmocka_unit_test(the_object_has_the_figures_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
