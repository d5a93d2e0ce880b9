/* How a run ended, for programs and for people. */
#include "record/run.h"

#include <jansson.h>
#include <math.h>

#include "record/scratch.h"

static const struct summary example = {
    .name = "fashion",
    .strategy = "single",
    .status = "done",
    .run = "runs/fashion",
    .version = "0.1.0",
    .engine = "dnnl",
    .agents = 1,
    .rounds = 2345,
    .samples = 300160,
    .epochs = 5,
    .accuracy = {91.52, 0, 91.52, 91.52},
    .loss = {0.2412, 0, 0.2412, 0.2412},
    .best_accuracy = 91.6,
    .averaged_accuracy = NAN,
    .real_s = 123.4,
    .virtual_s = 70,
    .images_per_s = 2431.7,
    .params_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    .data_sha256 = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
};

static void a_spread_by_hand(void **state)
{
    (void)state;
    const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    struct spread s = spread_of(values, 8);
    assert_true(s.mean == 5 && s.std == 2 && s.min == 2 && s.max == 9);
    s = spread_of(values, 1);
    assert_true(s.mean == 2 && s.std == 0 && s.min == 2 && s.max == 2);
    assert_true(isnan(spread_of(values, 0).mean));
}

static void only_the_living_count_unless_none_lives(void **state)
{
    (void)state;
    struct score scores[] = {{.accuracy = 90, .loss = 1, .alive = true},
                             {.accuracy = NAN, .loss = 5},
                             {.accuracy = 92, .loss = 2, .alive = true}};
    struct spread s = spread_of_scores(scores, 3, offsetof(struct score, accuracy));
    assert_true(s.mean == 91 && s.std == 1 && s.min == 90 && s.max == 92);
    s = spread_of_scores(scores, 3, offsetof(struct score, loss));
    assert_true(s.mean == 1.5 && s.std == 0.5);
    scores[0].alive = scores[2].alive = false;
    s = spread_of_scores(scores, 3, offsetof(struct score, loss));
    assert_true(s.min == 1 && s.max == 5);
    assert_true(isnan(spread_of_scores(scores, 0, offsetof(struct score, loss)).mean));
}

static void equal_values_have_no_spread(void **state)
{
    (void)state;
    double values[50];
    for (size_t n = 1; n <= 50; n++) {
        values[n - 1] = 91.37;
        struct spread s = spread_of(values, n);
        assert_true(fabs(s.mean - 91.37) < 1e-12 && s.std < 1e-12 && s.min == 91.37 && s.max == 91.37);
    }
}

static json_t *object_of(const struct summary *s)
{
    char *text;
    assert_ok(summary_json(s, &text));
    assert_null(strchr(text, '\n')); /* one line, so that a script can take the last one */
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(object));
    free(text);
    return object;
}

static double at(const json_t *object, const char *key, const char *inner)
{
    const json_t *value = json_object_get(object, key);
    if (inner)
        value = json_object_get(value, inner);
    if (!json_is_number(value))
        fail_msg("%s is not there or not a number", key);
    return json_number_value(value);
}

static void the_object_has_every_key_with_its_value(void **state)
{
    (void)state;
    struct summary s = example;
    s.accuracy = (struct spread){91, 0.5, 90, 92};
    s.loss = (struct spread){0.25, 0.125, 0.1, 0.5};
    s.disagreement = (struct disagreement){1, 2, 3, 4};
    s.agents = 4, s.bytes = 1000000007, s.messages = 17;
    s.averaged_accuracy = 91.25, s.waiting_share = 0.125, s.notes = 3, s.dropped = 7;
    s.staleness_mean = 1.5, s.staleness_max = 9;
    json_t *o = object_of(&s);
    static const char *const texts[][2] = {
        {"name", "fashion"},  {"strategy", "single"}, {"status", "done"},  {"run", "runs/fashion"},
        {"version", "0.1.0"}, {"engine", "dnnl"},     {"clock", "virtual"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(json_string_value(json_object_get(o, texts[i][0])), texts[i][1]);
    assert_string_equal(json_string_value(json_object_get(o, "params_sha256")), example.params_sha256);
    assert_string_equal(json_string_value(json_object_get(o, "data_sha256")), example.data_sha256);
    assert_true(at(o, "agents", NULL) == 4 && at(o, "rounds", NULL) == 2345 &&
                at(o, "samples", NULL) == 300160);
    assert_true(at(o, "epochs", NULL) == 5 && at(o, "best_accuracy", NULL) == 91.6);
    assert_true(at(o, "real_s", NULL) == 123.4 && at(o, "virtual_s", NULL) == 70);
    assert_true(at(o, "images_per_s", NULL) == 2431.7);
    assert_true(at(o, "bytes", NULL) == 1000000007 && at(o, "messages", NULL) == 17);
    assert_true(at(o, "accuracy", "mean") == 91 && at(o, "accuracy", "std") == 0.5);
    assert_true(at(o, "accuracy", "min") == 90 && at(o, "accuracy", "max") == 92);
    assert_true(at(o, "loss", "mean") == 0.25 && at(o, "loss", "std") == 0.125);
    assert_true(at(o, "loss", "min") == 0.1 && at(o, "loss", "max") == 0.5);
    assert_true(at(o, "disagreement", "l1") == 1 && at(o, "disagreement", "l2") == 2);
    assert_true(at(o, "disagreement", "linf") == 3 && at(o, "disagreement", "variation") == 4);
    assert_true(at(o, "averaged_accuracy", NULL) == 91.25 && at(o, "waiting_share", NULL) == 0.125);
    assert_true(at(o, "staleness_mean", NULL) == 1.5 && at(o, "staleness_max", NULL) == 9);
    assert_true(at(o, "notes", NULL) == 3);
    assert_true(at(o, "dropped", NULL) == 7);
    assert_true(json_is_null(json_object_get(o, "waiting")));         /* it is not known */
    assert_true(json_is_null(json_object_get(o, "stopped_because"))); /* it has done all its rounds */
    assert_int_equal(json_object_size(o), 30);
    json_decref(o);
    s.stopped_because = "accuracy is 91, and train.stop.accuracy is 90";
    o = object_of(&s);
    assert_string_equal(json_string_value(json_object_get(o, "stopped_because")), s.stopped_because);
    json_decref(o);
}

static void who_was_waited_for_stands_in_the_object_and_in_the_table(void **state)
{
    (void)state;
    static const double waiting[] = {10, 20, 0}, waited_for[] = {2, 1, 25, 2};
    struct summary s = example;
    s.agents = 3;
    s.waiting = (struct waiting){.waiting_s = waiting,
                                 .waited_for_s = waited_for,
                                 .n_agents = 3,
                                 .n_members = 4,
                                 .virtual_s = 40,
                                 .helper = "server",
                                 .most = 2,
                                 .longest = 1,
                                 .longest_s = 16,
                                 .slowest = 2,
                                 .link = {1, 3},
                                 .link_s = 17};
    json_t *o = object_of(&s), *w = json_object_get(o, "waiting");
    const json_t *link = json_object_get(w, "slowest_link"), *ends = json_object_get(link, "between");
    assert_string_equal(json_string_value(json_object_get(w, "most_waited_for")), "agent 2");
    assert_string_equal(json_string_value(json_object_get(w, "slowest")), "agent 2");
    assert_string_equal(json_string_value(json_array_get(ends, 0)), "agent 1");
    assert_string_equal(json_string_value(json_array_get(ends, 1)), "server 0");
    assert_true(at(link, "waiting_s", NULL) == 17);
    for (size_t i = 0; i < 4; i++)
        assert_true(json_real_value(json_array_get(json_object_get(w, "waited_for_s"), i)) == waited_for[i]);
    for (size_t i = 0; i < 3; i++)
        assert_true(json_real_value(json_array_get(json_object_get(w, "waiting_s"), i)) == waiting[i]);
    json_decref(o);
    char *text;
    assert_ok(summary_table(&s, &text));
    assert_non_null(strstr(text, "0: 25.0 %  1: 50.0 %  2: 0.0 %\n"));
    assert_non_null(strstr(text, "others waited 25 s for agent 2, most of all agent 1 (16 s)\n"));
    free(text);
}

static void a_loss_that_is_not_finite_is_null(void **state)
{
    (void)state;
    struct summary s = example;
    s.loss.mean = NAN;
    json_t *o = object_of(&s);
    assert_true(json_is_null(json_object_get(json_object_get(o, "loss"), "mean")));
    json_decref(o);
}

static void the_summary_file_holds_the_same_object(void **state)
{
    struct run_folder r;
    size_t n;
    assert_ok(run_create(*state, "run", "x: 1\n", 1, &r));
    assert_ok(run_write_summary(&r, &example));
    assert_ok(run_write_summary(&r, &example)); /* again, in its own place */
    char *text = slurp(in(r.path, "summary.json"), &n);
    assert_true(text[n - 1] == '\n');
    json_t *file = json_loads(text, 0, NULL), *object = object_of(&example);
    assert_int_equal(json_object_del(file, "digest"), 0);
    assert_string_equal(json_string_value(json_object_get(file, "last_event")), r.last_event);
    assert_int_equal(json_object_del(file, "last_event"), 0);
    assert_true(json_equal(file, object));
    json_decref(file);
    json_decref(object);
    free(text);
    run_close(&r);
}

static char *table_of(const struct summary *s)
{
    char *text;
    assert_ok(summary_table(s, &text));
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        size_t n = strcspn(line, "\n");
        if (n > 80)
            fail_msg("%zu columns: %.*s", n, (int)n, line);
        assert_true(n == 0 || line[n - 1] != ' ');
    }
    return text;
}

static void assert_has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' is not in\n%s", words, text);
}

static void the_table_tells_a_single_agent_what_counts(void **state)
{
    (void)state;
    char *text = table_of(&example);
    static const char *const words[] = {"fashion: done",  "91.52 %",     "91.60 %",
                                        "0.2412",         "5 epochs",    "2345 rounds",
                                        "300160 samples", "2 min 03 s",  "2432 samples a second",
                                        "1 min 10 s",     "single",      "dnnl",
                                        "0123456789ab",   "runs/fashion"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_has(text, words[i]);
    assert_null(strstr(text, "traffic")); /* one agent talks to nobody */
    assert_null(strstr(text, "disagreement"));
    free(text);
}

static void the_table_tells_many_agents_how_they_differ(void **state)
{
    (void)state;
    struct summary s = example;
    s.agents = 50, s.bytes = 12345678901, s.messages = 4000;
    s.accuracy = (struct spread){91.5, 0.3, 91.12, 91.87};
    s.disagreement.l2 = 0.0123;
    s.averaged_accuracy = 91.77, s.waiting_share = 0.256, s.notes = 12;
    s.staleness_mean = 2.25, s.staleness_max = 17;
    char *text = table_of(&s);
    static const char *const words[] = {"91.50 %",
                                        "from 91.12 % to 91.87 %",
                                        "50",
                                        "12.3 GB",
                                        "4000 messages",
                                        "0.0123",
                                        "91.77 %",
                                        "25.60 %",
                                        "12 ",
                                        "2.25",
                                        "most 17"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_has(text, words[i]);
    free(text);
}

static void the_table_stays_in_its_columns_with_numbers_of_any_size(void **state)
{
    (void)state;
    struct summary s = example;
    const double values[] = {NAN, INFINITY, -INFINITY, 0, 1e-300, 1e300, 59.96, 3599.6, 1e9};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        s.real_s = s.virtual_s = values[i];
        s.loss.mean = s.loss.min = s.loss.max = s.disagreement.l2 = values[i];
        s.accuracy.min = s.accuracy.max = s.best_accuracy = i < 4 ? values[i] : 100;
        s.images_per_s = i < 4 ? values[i] : 1e9;
        s.agents = i % 2 ? 10000 : 1;
        s.rounds = s.samples = UINT64_C(1000000000000);
        s.bytes = s.messages = s.notes = UINT64_MAX;
        s.averaged_accuracy = s.accuracy.min, s.waiting_share = i < 4 ? values[i] : 1;
        s.staleness_mean = s.staleness_max = values[i];
        free(table_of(&s));
    }
}

static void real_machines_have_real_time_alone(void **state)
{
    (void)state;
    struct summary s = example;
    s.agents = 4, s.on_machines = true;
    json_t *o = object_of(&s);
    assert_string_equal(json_string_value(json_object_get(o, "clock")), "real");
    json_decref(o);
    char *text = table_of(&s);
    assert_null(strstr(text, "virtual"));
    assert_has(text, "of the agents' time");
    free(text);
}

static void without_an_evaluation_nothing_is_known(void **state)
{
    (void)state;
    struct summary s = example;
    s.loss.mean = s.loss.min = s.loss.max = NAN;
    char *text = table_of(&s);
    assert_has(text, "not finite");
    free(text);
    s.accuracy.mean = s.accuracy.min = s.accuracy.max = NAN;
    for (s.agents = 1; s.agents < 3; s.agents++) {
        text = table_of(&s);
        assert_null(strstr(text, "not finite"));
        free(text);
    }
}

static void durations_are_said_as_people_say_them(void **state)
{
    (void)state;
    static const struct {
        double s;
        const char *words;
    } cases[] = {{0.04, "0.0 s"},       {12.34, "12.3 s"},        {59.94, "59.9 s"},
                 {59.96, "1 min 00 s"}, {3599, "59 min 59 s"},    {3599.6, "1 h 00 min"},
                 {7260, "2 h 01 min"},  {359999, "100 h 00 min"}, {NAN, "unknown"}};
    struct summary s = example;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.real_s = cases[i].s;
        char *text = table_of(&s);
        char *line = strstr(text, "  time");
        assert_non_null(line);
        assert_has(line, cases[i].words);
        assert_true(strstr(line, cases[i].words) < strchr(line, '\n'));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spread_by_hand),
        cmocka_unit_test(only_the_living_count_unless_none_lives),
        cmocka_unit_test(equal_values_have_no_spread),
        cmocka_unit_test(the_object_has_every_key_with_its_value),
        cmocka_unit_test(who_was_waited_for_stands_in_the_object_and_in_the_table),
        cmocka_unit_test(a_loss_that_is_not_finite_is_null),
        SCRATCH(the_summary_file_holds_the_same_object),
        cmocka_unit_test(the_table_tells_a_single_agent_what_counts),
        cmocka_unit_test(the_table_tells_many_agents_how_they_differ),
        cmocka_unit_test(the_table_stays_in_its_columns_with_numbers_of_any_size),
        cmocka_unit_test(real_machines_have_real_time_alone),
        cmocka_unit_test(without_an_evaluation_nothing_is_known),
        cmocka_unit_test(durations_are_said_as_people_say_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
