/* The learning rate of every round: schedules against hand values and closed forms, warm-up, the scaling
 * rule. */
#include "optim/optim.h"
#include "optim/rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"

static struct sgd_settings base = {.lr = 0.1};

static struct optim_settings under(const char *schedule, void *settings)
{
    struct optim_settings o = {.kind = {.kind = &optim_kinds.rows[0], .settings = &base}};
    for (size_t i = 0; i < schedule_kinds.n; i++)
        if (text_is(schedule_kinds.rows[i].name, schedule))
            o.schedule = (struct choice){.kind = &schedule_kinds.rows[i], .settings = settings};
    assert_non_null(o.schedule.kind);
    return o;
}

static void assert_rate(double is, double wanted)
{
    if (!(fabs(is - wanted) <= 1e-12 * (1 + fabs(wanted))))
        fail_msg("the rate is %.17g and not %.17g", is, wanted);
}

static void a_constant_rate_stays(void **state)
{
    (void)state;
    struct optim_settings o = under("constant", NULL);
    for (uint64_t k = 0; k < 1000; k += 37)
        assert_true(optim_lr(&o, 4, k, 10, 100) == 0.1);
}

static void a_step_falls_exactly_at_its_epochs(void **state)
{
    (void)state;
    const double epochs[] = {81, 122};
    struct step_settings s = {.epochs = {epochs, 2}, .factor = 0.1};
    struct optim_settings o = under("step", &s);
    const double rounds = 390.625; /* 50000 samples in batches of 128 */
    assert_rate(optim_lr(&o, 1, 0, rounds, 164), 0.1);
    assert_rate(optim_lr(&o, 1, 31640, rounds, 164), 0.1); /* 81 * 390.625 = 31640.6 */
    assert_rate(optim_lr(&o, 1, 31641, rounds, 164), 0.01);
    assert_rate(optim_lr(&o, 1, 47656, rounds, 164), 0.01); /* 122 * 390.625 = 47656.25 */
    assert_rate(optim_lr(&o, 1, 47657, rounds, 164), 0.001);
    assert_rate(optim_lr(&o, 1, 64062, rounds, 164), 0.001);
}

static void rounding_does_not_delay_a_step(void **state)
{
    (void)state;
    for (int share = 1; share < 400; share++) {
        double rounds_per_epoch = share / 7.0, epoch = 7; /* round `share` begins epoch 7 */
        struct step_settings s = {.epochs = {&epoch, 1}, .factor = 0.5};
        struct optim_settings o = under("step", &s);
        assert_rate(optim_lr(&o, 1, (uint64_t)share - 1, rounds_per_epoch, 100), 0.1);
        assert_rate(optim_lr(&o, 1, (uint64_t)share, rounds_per_epoch, 100), 0.05);
    }
}

static void the_order_of_steps_does_not_matter_and_none_is_constant(void **state)
{
    (void)state;
    const double up[] = {1, 2, 3}, down[] = {3, 2, 1};
    struct step_settings a = {{up, 3}, 0.5}, b = {{down, 3}, 0.5}, none = {{NULL, 0}, 0.5};
    struct optim_settings rising = under("step", &a), falling = under("step", &b),
                          never = under("step", &none);
    for (uint64_t k = 0; k < 50; k++) {
        assert_true(optim_lr(&rising, 1, k, 10, 5) == optim_lr(&falling, 1, k, 10, 5));
        assert_rate(optim_lr(&rising, 1, k, 10, 5), 0.1 * pow(0.5, k / 10 > 3 ? 3 : (double)(k / 10)));
        assert_rate(optim_lr(&never, 1, k, 10, 5), 0.1);
    }
}

static void a_cosine_goes_from_the_whole_rate_through_half_to_its_floor(void **state)
{
    (void)state;
    struct cosine_settings s = {.floor = 0};
    struct optim_settings o = under("cosine", &s);
    assert_rate(optim_lr(&o, 1, 0, 10, 6), 0.1);
    assert_rate(optim_lr(&o, 1, 20, 10, 6), 0.075); /* cos(pi/3) = 1/2  */
    assert_rate(optim_lr(&o, 1, 30, 10, 6), 0.05);
    assert_rate(optim_lr(&o, 1, 40, 10, 6), 0.025); /* cos(2pi/3) = -1/2 */
    assert_rate(optim_lr(&o, 1, 60, 10, 6), 0);
    s.floor = 0.2;
    assert_rate(optim_lr(&o, 1, 0, 10, 6), 0.1);
    assert_rate(optim_lr(&o, 1, 30, 10, 6), 0.06);
    assert_rate(optim_lr(&o, 1, 60, 10, 6), 0.02);
    assert_rate(optim_lr(&o, 1, 1000, 10, 6), 0.02); /* beyond the end it stays */
}

static void a_cosine_only_falls(void **state)
{
    (void)state;
    struct cosine_settings s = {.floor = 0.01};
    struct optim_settings o = under("cosine", &s);
    for (uint64_t k = 1; k <= 500; k++)
        assert_true(optim_lr(&o, 1, k, 100.5, 5) <= optim_lr(&o, 1, k - 1, 100.5, 5));
}

static void a_cosine_over_no_epochs_is_its_floor(void **state)
{
    (void)state;
    struct cosine_settings s = {.floor = 0.5};
    struct optim_settings o = under("cosine", &s);
    assert_rate(optim_lr(&o, 1, 0, 10, 0), 0.05);
}

static void warm_up_rises_every_round_and_ends_at_the_whole_rate(void **state)
{
    (void)state;
    struct optim_settings o = under("constant", NULL);
    o.warmup_epochs = 2;
    for (uint64_t k = 0; k < 20; k++)
        assert_rate(optim_lr(&o, 1, k, 10, 5), 0.1 * ((double)k + 1) / 20);
    assert_true(optim_lr(&o, 1, 19, 10, 5) == 0.1);
    assert_true(optim_lr(&o, 1, 20, 10, 5) == 0.1);
}

/* Goyal et al. 2017: from the base rate to k times it, by the same amount every round. */
static void warm_up_rises_from_the_rate_it_is_told(void **state)
{
    (void)state;
    struct optim_settings o = under("constant", NULL);
    o.warmup_epochs = 2;
    o.warmup_from = 0.1;
    o.scale_lr = true;
    assert_true(optim_lr(&o, 8, 0, 10, 5) == 0.1);
    for (uint64_t k = 0; k < 20; k++)
        assert_rate(optim_lr(&o, 8, k, 10, 5), 0.1 + 0.7 * (double)k / 19);
    assert_true(optim_lr(&o, 8, 19, 10, 5) == 0.8);
    assert_true(optim_lr(&o, 8, 20, 10, 5) == 0.8);
    struct cosine_settings s = {.floor = 0};
    struct optim_settings falling = under("cosine", &s);
    falling.warmup_epochs = 4;
    falling.warmup_from = 0.02;
    assert_rate(optim_lr(&falling, 1, 20, 10, 6), 0.75 * (0.02 + 0.08 * 20 / 39));
}

static void warm_up_from_nothing_begins_a_step_above_it(void **state)
{
    (void)state;
    struct optim_settings o = under("constant", NULL), from = o;
    o.warmup_epochs = from.warmup_epochs = 3.7;
    from.warmup_from = 0.1 / 37;
    for (uint64_t k = 0; k < 40; k++)
        assert_rate(optim_lr(&from, 1, k, 10, 5), optim_lr(&o, 1, k, 10, 5));
}

static void warm_up_shorter_than_a_round_is_none(void **state)
{
    (void)state;
    struct optim_settings o = under("constant", NULL);
    o.warmup_epochs = 0.05;
    assert_true(optim_lr(&o, 1, 0, 10, 5) == 0.1);
}

static void warm_up_multiplies_the_schedule(void **state)
{
    (void)state;
    struct cosine_settings s = {.floor = 0};
    struct optim_settings o = under("cosine", &s);
    o.warmup_epochs = 4;
    assert_rate(optim_lr(&o, 1, 20, 10, 6), 0.075 * 21 / 40);
    assert_rate(optim_lr(&o, 1, 40, 10, 6), 0.025);
}

static void the_scaling_rule_multiplies_by_the_agents(void **state)
{
    (void)state;
    struct optim_settings o = under("constant", NULL);
    assert_rate(optim_lr(&o, 8, 3, 10, 5), 0.1);
    o.scale_lr = true;
    assert_rate(optim_lr(&o, 8, 3, 10, 5), 0.8);
    assert_rate(optim_lr(&o, 1, 3, 10, 5), 0.1);
    o.warmup_epochs = 1;
    assert_rate(optim_lr(&o, 8, 4, 10, 5), 0.4);
}

static void every_row_is_complete(void **state)
{
    (void)state;
    assert_int_equal(schedule_kinds.n, 3);
    for (size_t i = 0; i < schedule_kinds.n; i++) {
        const struct kind *kind = &schedule_kinds.rows[i];
        assert_non_null(kind->row);
        assert_true(strlen(kind->help) > 10);
        assert_int_equal(kind->n_fields == 0, kind->size == 0);
        for (size_t f = 0; f < kind->n_fields; f++)
            assert_true(kind->fields[f].offset < kind->size && kind->fields[f].help);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_rate_stays),
        cmocka_unit_test(a_step_falls_exactly_at_its_epochs),
        cmocka_unit_test(rounding_does_not_delay_a_step),
        cmocka_unit_test(the_order_of_steps_does_not_matter_and_none_is_constant),
        cmocka_unit_test(a_cosine_goes_from_the_whole_rate_through_half_to_its_floor),
        cmocka_unit_test(a_cosine_only_falls),
        cmocka_unit_test(a_cosine_over_no_epochs_is_its_floor),
        cmocka_unit_test(warm_up_rises_every_round_and_ends_at_the_whole_rate),
        cmocka_unit_test(warm_up_rises_from_the_rate_it_is_told),
        cmocka_unit_test(warm_up_from_nothing_begins_a_step_above_it),
        cmocka_unit_test(warm_up_shorter_than_a_round_is_none),
        cmocka_unit_test(warm_up_multiplies_the_schedule),
        cmocka_unit_test(the_scaling_rule_multiplies_by_the_agents),
        cmocka_unit_test(every_row_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
