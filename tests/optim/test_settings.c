/* The rows of settings: PyTorch's defaults, ranges that keep a run alive, settings that need each other. */
#include "optim/optim.h"
#include "optim/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* The settings of one kind with everything left out that can be. */
static void *filled(const struct kind *kind, struct arena *arena)
{
    void *settings = arena_take(arena, kind->size);
    fault f = field_defaults(kind->fields, kind->n_fields, arena, settings);
    if (f)
        fail_msg("%s", fault_text(f));
    return settings;
}

static const struct kind *optimiser(const char *name)
{
    const struct kind *kind = kind_find(&optim_kinds, name);
    assert_non_null(kind);
    return kind;
}

static void what_is_left_out_is_as_in_pytorch(void **state)
{
    (void)state;
    struct arena arena = {0};
    const struct sgd_settings *sgd = filled(optimiser("sgd"), &arena);
    assert_true(sgd->momentum == 0 && sgd->weight_decay == 0 && !sgd->nesterov);
    const struct adagrad_settings *adagrad = filled(optimiser("adagrad"), &arena);
    assert_true(adagrad->eps == 1e-10 && adagrad->lr_decay == 0 && adagrad->weight_decay == 0);
    const struct rmsprop_settings *rmsprop = filled(optimiser("rmsprop"), &arena);
    assert_true(rmsprop->alpha == 0.99 && rmsprop->eps == 1e-8 && rmsprop->momentum == 0);
    assert_true(rmsprop->weight_decay == 0);
    const struct adam_settings *adam = filled(optimiser("adam"), &arena);
    assert_true(adam->beta1 == 0.9 && adam->beta2 == 0.999 && adam->eps == 1e-8 && adam->weight_decay == 0);
    const struct adam_settings *adamw = filled(optimiser("adamw"), &arena);
    assert_true(adamw->beta1 == 0.9 && adamw->beta2 == 0.999 && adamw->eps == 1e-8);
    assert_true(adamw->weight_decay == 0.01);
    const struct step_settings *step = filled(kind_find(&schedule_kinds, "step"), &arena);
    assert_true(step->factor == 0.1);
    const struct cosine_settings *cosine = filled(kind_find(&schedule_kinds, "cosine"), &arena);
    assert_true(cosine->floor == 0);
    arena_release(&arena);
}

static bool is_allowed(const struct kinds *kinds, const char *name, const char *key, const char *text)
{
    struct arena arena = {0};
    const struct kind *kind = kind_find(kinds, name);
    void *settings = filled(kind, &arena);
    for (size_t i = 0; i < kind->n_fields; i++)
        if (strcmp(kind->fields[i].name, key) == 0) {
            fault f = field_read(&kind->fields[i], text, &arena, settings);
            bool allowed = !f;
            fault_drop(f);
            arena_release(&arena);
            return allowed;
        }
    fail_msg("%s has no setting %s", name, key);
    return false;
}

static void values_that_would_spoil_every_step_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"sgd", "lr", "-0.1"},         {"sgd", "lr", "nan"},          {"sgd", "momentum", "1"},
        {"sgd", "momentum", "-0.1"},   {"sgd", "weight_decay", "-1"}, {"adagrad", "eps", "0"},
        {"adagrad", "lr_decay", "-1"}, {"rmsprop", "alpha", "1"},     {"rmsprop", "eps", "-1e-8"},
        {"adam", "beta1", "1"},        {"adam", "beta2", "1"},        {"adam", "beta2", "-0.5"},
        {"adam", "eps", "0"},          {"adamw", "lr", "inf"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (is_allowed(&optim_kinds, bad[i][0], bad[i][1], bad[i][2]))
            fail_msg("%s takes %s: %s", bad[i][0], bad[i][1], bad[i][2]);
    assert_false(is_allowed(&schedule_kinds, "cosine", "floor", "1.5"));
    assert_false(is_allowed(&schedule_kinds, "step", "factor", "-1"));
    assert_true(is_allowed(&optim_kinds, "sgd", "lr", "0"));
    assert_true(is_allowed(&optim_kinds, "sgd", "momentum", "0.99"));
    assert_true(is_allowed(&optim_kinds, "adam", "beta2", "0.9999"));
    assert_true(is_allowed(&schedule_kinds, "cosine", "floor", "1"));
}

static void nesterov_without_momentum_is_named_with_its_place(void **state)
{
    (void)state;
    struct sgd_settings s = {.lr = 0.1, .nesterov = true};
    struct optim_settings o = {.kind = {optimiser("sgd"), &s, NULL, {"x.yaml", 3, 7}}};
    fault f = optim_check(&o, 1);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_non_null(strstr(fault_text(f), "x.yaml:3:7: "));
    assert_non_null(strstr(fault_text(f), "momentum"));
    fault_drop(f);
    s.momentum = 0.9;
    assert_null(optim_check(&o, 1));
    s = (struct sgd_settings){.lr = 0.1};
    assert_null(optim_check(&o, 1));
}

static void a_warm_up_from_a_rate_must_be_one_and_rise(void **state)
{
    (void)state;
    static const struct {
        double from, epochs;
        bool scale_lr;
        const char *words;
    } cases[] = {
        {0, 0, false, NULL},
        {0.05, 5, false, NULL},
        {0.05, 0, false, "without warmup_epochs there is no warm-up"},
        {0.1, 5, false, "0.1 is not below the rate it leads to, 0.1"},
        {0.1, 5, true, NULL}, /* as in the paper: from the base rate to that of all agents */
        {0.9, 5, true, "0.9 is not below the rate it leads to, 0.8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sgd_settings s = {.lr = 0.1};
        struct optim_settings o = {.kind = {optimiser("sgd"), &s, NULL, {"x.yaml", 3, 7}},
                                   .warmup_epochs = cases[i].epochs,
                                   .warmup_from = cases[i].from,
                                   .scale_lr = cases[i].scale_lr};
        fault f = optim_check(&o, 8);
        assert_true((f != NULL) == (cases[i].words != NULL));
        assert_true(!f || strstr(fault_text(f), cases[i].words));
        fault_drop(f);
    }
}

static void other_optimisers_pass_the_check(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (size_t i = 0; i < optim_kinds.n; i++) {
        const struct kind *kind = &optim_kinds.rows[i];
        struct optim_settings o = {.kind = {.kind = kind, .settings = filled(kind, &arena)}};
        assert_null(optim_check(&o, 1));
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_is_as_in_pytorch),
        cmocka_unit_test(values_that_would_spoil_every_step_are_refused),
        cmocka_unit_test(nesterov_without_momentum_is_named_with_its_place),
        cmocka_unit_test(a_warm_up_from_a_rate_must_be_one_and_rise),
        cmocka_unit_test(other_optimisers_pass_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
