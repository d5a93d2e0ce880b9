/* Speeds and delays: what the section says is what machines do, and everything follows from the seed. */
#include "experiment/machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/registry.h"

enum { MANY = 20000 };

static struct experiment *with(const char *agents, const char *machines)
{
    char text[512];
    struct experiment *e = NULL;
    snprintf(text, sizeof text,
             "data: {set: dots, batch: 1}\nmodel: tower\noptim: {sgd: 1}\ntrain: {epochs: 1}\nagents: %s\n"
             "machines: %s\n",
             agents, machines);
    fault f = experiment_parse(text, strlen(text), "e.yaml", NULL, 0, &toy_registry, &e);
    if (f)
        fail_msg("refused: %s", fault_text(f));
    return e;
}

static void machines_that_are_measured_have_no_rate_until_they_are(void **state)
{
    (void)state;
    struct experiment *e = with("2", "measured");
    assert_int_equal(machines_to_measure(&e->machines)->side_by_side, 1);
    assert_true(e->machines.rate == 0);
    assert_null(machines_are(e, 70, 3, 0.1));
    assert_null(machines_to_measure(&e->machines));
    assert_true(e->machines.rate == 70 && e->machines.memory_gbps == 3);
    char *yaml;
    assert_null(experiment_print(e, &yaml));
    assert_non_null(strstr(yaml, "machines:\n  kind: given\n  rate: 70\n  memory_gbps: 3\n  speed:"));
    assert_non_null(strstr(yaml, "stragglers: {kind: scatter, sigma: 0.1}"));
    free(yaml);
    experiment_free(e);
    e = with("2", "{measured: 4, speed: [1, 2]}");
    assert_int_equal(machines_to_measure(&e->machines)->side_by_side, 4);
    experiment_free(e);
    e = with("2", "{kind: measured, stragglers: {random: 0.1, factor: 3}}");
    assert_null(machines_are(e, 70, 3, 0.1)); /* who falls behind is said already */
    assert_string_equal(e->machines.stragglers.kind->name, "random");
    experiment_free(e);
    e = with("2", "{rate: 5, memory_gbps: 0.5}");
    assert_null(machines_to_measure(&e->machines));
    assert_true(machine_memory_s(&e->machines, 2, 1e9) == 1);
    experiment_free(e);
}

static void speeds_are_as_listed_or_one_for_all(void **state)
{
    (void)state;
    double speeds[3];
    struct experiment *e = with("3", "{speed: [1, 0.5, 4]}");
    machine_speeds(&e->machines, 1, 3, speeds);
    assert_true(speeds[0] == 1 && speeds[1] == 0.5 && speeds[2] == 4);
    experiment_free(e);
    e = with("3", "{speed: 2}");
    machine_speeds(&e->machines, 1, 3, speeds);
    assert_true(speeds[0] == 2 && speeds[1] == 2 && speeds[2] == 2);
    experiment_free(e);
    e = with("3", "{rate: 5}");
    machine_speeds(&e->machines, 1, 3, speeds);
    assert_true(speeds[0] == 1 && speeds[1] == 1 && speeds[2] == 1);
    experiment_free(e);
}

static void drawn_speeds_follow_from_the_seed_and_not_from_the_number_of_agents(void **state)
{
    (void)state;
    static const char *const kinds[] = {"{speed: {uniform: [0.5, 2]}}", "{speed: {lognormal: 0.7}}"};
    for (size_t k = 0; k < 2; k++) {
        double a[8], b[8], few[3], other[8];
        struct experiment *e = with("8", kinds[k]);
        machine_speeds(&e->machines, 5, 8, a);
        machine_speeds(&e->machines, 5, 8, b);
        machine_speeds(&e->machines, 5, 3, few);
        machine_speeds(&e->machines, 6, 8, other);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(a, few, sizeof few);
        assert_memory_not_equal(a, other, sizeof a);
        assert_true(a[0] != a[1]);
        experiment_free(e);
    }
}

static void uniform_speeds_fill_their_range_evenly(void **state)
{
    (void)state;
    static double speeds[MANY];
    struct experiment *e = with("20000", "{speed: {uniform: [0.5, 2.5]}}");
    machine_speeds(&e->machines, 9, MANY, speeds);
    size_t quarter[4] = {0};
    for (size_t i = 0; i < MANY; i++) {
        assert_true(speeds[i] >= 0.5 && speeds[i] < 2.5);
        quarter[(size_t)((speeds[i] - 0.5) * 2)]++;
    }
    for (size_t q = 0; q < 4; q++)
        assert_in_range(quarter[q], MANY / 4 - 306, MANY / 4 + 306); /* 5 standard deviations of 61 */
    experiment_free(e);
}

static void half_of_lognormal_speeds_are_above_1_and_their_logarithm_has_the_deviation(void **state)
{
    (void)state;
    static double speeds[MANY];
    struct experiment *e = with("20000", "{speed: {lognormal: 0.5}}");
    machine_speeds(&e->machines, 9, MANY, speeds);
    size_t above = 0;
    double squares = 0;
    for (size_t i = 0; i < MANY; i++) {
        assert_true(speeds[i] > 0);
        above += speeds[i] > 1;
        squares += log(speeds[i]) * log(speeds[i]);
    }
    assert_in_range(above, MANY / 2 - 354, MANY / 2 + 354); /* 5 standard deviations of 71 */
    assert_true(fabs(squares / MANY - 0.25) < 0.0125);      /* 5 of 0.25 sqrt(2 / MANY) */
    experiment_free(e);
}

static void without_stragglers_no_lesson_is_late(void **state)
{
    (void)state;
    struct experiment *e = with("2", "{rate: 10}");
    for (uint64_t k = 0; k < 100; k++)
        assert_true(machine_slowdown(&e->machines, 1, k % 2, k) == 1);
    experiment_free(e);
}

static void fixed_stragglers_are_always_late_and_others_never(void **state)
{
    (void)state;
    struct experiment *e = with("9", "{stragglers: {kind: fixed, agents: [7, 0, 4], factor: 10}}");
    for (size_t agent = 0; agent < 9; agent++)
        for (uint64_t k = 0; k < 5; k++)
            assert_true(machine_slowdown(&e->machines, 1, agent, k) ==
                        (agent == 0 || agent == 4 || agent == 7 ? 10 : 1));
    double speeds[9];
    machine_speeds(&e->machines, 1, 9, speeds); /* a straggler is late against its speed, which stays */
    assert_true(speeds[7] == 1);
    experiment_free(e);
}

static void random_stragglers_are_late_as_often_as_they_should_be(void **state)
{
    (void)state;
    struct experiment *e = with("2", "{stragglers: {random: 0.1, factor: 5}}");
    size_t late[2] = {0}, both = 0;
    for (uint64_t k = 0; k < MANY; k++) {
        double a = machine_slowdown(&e->machines, 3, 0, k), b = machine_slowdown(&e->machines, 3, 1, k);
        assert_true((a == 1 || a == 5) && (b == 1 || b == 5));
        assert_true(a == machine_slowdown(&e->machines, 3, 0, k)); /* asked again, the same */
        late[0] += a == 5;
        late[1] += b == 5;
        both += a == 5 && b == 5;
    }
    assert_in_range(late[0], 2000 - 212, 2000 + 212); /* 5 standard deviations of 42 */
    assert_in_range(late[1], 2000 - 212, 2000 + 212);
    assert_in_range(both, 200 - 70, 200 + 70); /* agents are late independently */
    experiment_free(e);
    e = with("2", "{stragglers: {random: 0, factor: 5}}");
    for (uint64_t k = 0; k < 1000; k++)
        assert_true(machine_slowdown(&e->machines, 3, 0, k) == 1);
    experiment_free(e);
    e = with("2", "{stragglers: {random: 1, factor: 5}}");
    for (uint64_t k = 0; k < 1000; k++)
        assert_true(machine_slowdown(&e->machines, 3, 0, k) == 5);
    experiment_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_that_are_measured_have_no_rate_until_they_are),
        cmocka_unit_test(speeds_are_as_listed_or_one_for_all),
        cmocka_unit_test(drawn_speeds_follow_from_the_seed_and_not_from_the_number_of_agents),
        cmocka_unit_test(uniform_speeds_fill_their_range_evenly),
        cmocka_unit_test(half_of_lognormal_speeds_are_above_1_and_their_logarithm_has_the_deviation),
        cmocka_unit_test(without_stragglers_no_lesson_is_late),
        cmocka_unit_test(fixed_stragglers_are_always_late_and_others_never),
        cmocka_unit_test(random_stragglers_are_late_as_often_as_they_should_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
