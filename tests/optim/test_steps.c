/* Every optimiser walks as PyTorch's does, step for step, and a span may be cut anywhere. */
#include "optim/optim.h"
#include "optim/rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"
#include "optim/golden_optim.h"

enum { MOST = 100 };

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < optim_kinds.n; i++)
        if (text_is(optim_kinds.rows[i].name, name))
            return &optim_kinds.rows[i];
    fail_msg("no optimiser is called %s", name);
    return NULL;
}

static const struct optim_row *row_named(const char *name)
{
    return kind_named(name)->row;
}

/* The same rationals as in tools/golden_optim.py. */
static float start(int i)
{
    return (float)(i * 37 % 11 - 5) / 8;
}

static float gradient(int t, int i)
{
    return (t + i) % 5 ? (float)((t * 29 + i * 53) % 31 - 15) / 16 : 0;
}

/* PyTorch may fuse a product into a sum, so that the last bits differ and differences gather over the steps.
 */
static void assert_near(float ours, float theirs)
{
    if (!(fabsf(ours - theirs) <= 2e-6f + 4e-6f * fabsf(theirs)))
        fail_msg("%.9g is not PyTorch's %.9g", (double)ours, (double)theirs);
}

static void walks_as(const struct golden *golden, const char *name, const void *settings)
{
    const struct optim_row *row = row_named(name);
    double lr = *(const double *)settings;
    float theta[GOLDEN_N], g[GOLDEN_N], memory[OPTIM_SLOTS][GOLDEN_N];
    float *const slot[OPTIM_SLOTS] = {memory[0], memory[1]};
    for (int i = 0; i < GOLDEN_N; i++) {
        theta[i] = start(i);
        for (size_t s = 0; s < OPTIM_SLOTS; s++)
            memory[s][i] = row->slot_start[s];
    }
    for (int t = 1; t <= GOLDEN_STEPS; t++) {
        for (int i = 0; i < GOLDEN_N; i++)
            g[i] = gradient(t, i);
        row->step[isa_here()](settings, lr, (uint64_t)t, GOLDEN_N, theta, g, slot);
        for (int i = 0; i < GOLDEN_N; i++)
            assert_near(theta[i], golden->theta[t - 1][i]);
    }
    for (size_t s = 0; s < OPTIM_SLOTS; s++)
        for (int i = 0; i < GOLDEN_N; i++)
            assert_near(memory[s][i], golden->slot[s][i]);
}

#define WALKS(test, golden, name, type, ...)                                                                 \
    static void test(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        struct type s = {__VA_ARGS__};                                                                       \
        walks_as(&golden, name, &s);                                                                         \
    }

WALKS(plain_sgd_walks_as_pytorch, golden_sgd_plain, "sgd", sgd_settings, .lr = 0.1)
WALKS(sgd_with_decay_walks_as_pytorch, golden_sgd_decay, "sgd", sgd_settings, .lr = 0.1, .weight_decay = 0.05)
WALKS(sgd_with_momentum_walks_as_pytorch, golden_sgd_momentum, "sgd", sgd_settings, .lr = 0.05,
      .momentum = 0.9)
WALKS(sgd_with_momentum_and_decay_walks_as_pytorch, golden_sgd_momentum_decay, "sgd", sgd_settings,
      .lr = 0.05, .momentum = 0.8, .weight_decay = 0.02)
WALKS(sgd_with_nesterov_walks_as_pytorch, golden_sgd_nesterov, "sgd", sgd_settings, .lr = 0.05,
      .momentum = 0.9, .nesterov = true, .weight_decay = 0.01)
WALKS(adagrad_walks_as_pytorch, golden_adagrad, "adagrad", adagrad_settings, .lr = 0.1, .eps = 1e-10)
WALKS(adagrad_with_all_settings_walks_as_pytorch, golden_adagrad_all, "adagrad", adagrad_settings, .lr = 0.1,
      .lr_decay = 0.03, .weight_decay = 0.02, .eps = 1e-3)
WALKS(rmsprop_walks_as_pytorch, golden_rmsprop, "rmsprop", rmsprop_settings, .lr = 0.01, .alpha = 0.99,
      .eps = 1e-8)
WALKS(rmsprop_with_all_settings_walks_as_pytorch, golden_rmsprop_all, "rmsprop", rmsprop_settings, .lr = 0.01,
      .alpha = 0.9, .momentum = 0.7, .weight_decay = 0.02, .eps = 1e-3)
WALKS(adam_walks_as_pytorch, golden_adam, "adam", adam_settings, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999,
      .eps = 1e-8)
WALKS(adam_with_all_settings_walks_as_pytorch, golden_adam_all, "adam", adam_settings, .lr = 0.02,
      .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.03, .eps = 1e-3)
WALKS(adamw_walks_as_pytorch, golden_adamw, "adamw", adam_settings, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999,
      .weight_decay = 0.01, .eps = 1e-8)
WALKS(adamw_with_all_settings_walks_as_pytorch, golden_adamw_all, "adamw", adam_settings, .lr = 0.02,
      .beta1 = 0.7, .beta2 = 0.9, .weight_decay = 0.2, .eps = 1e-4)

/* One step by hand, on numbers whose results are short. */
static float one_step(const char *name, const void *settings, uint64_t t, float theta, float g, float *a,
                      float *b)
{
    float *const slot[OPTIM_SLOTS] = {a, b};
    row_named(name)->step[isa_here()](settings, *(const double *)settings, t, 1, &theta, &g, slot);
    return theta;
}

static void a_step_of_sgd_by_hand(void **state)
{
    (void)state;
    struct sgd_settings s = {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.25};
    float b = 2;
    /* g = 1 + 0.25 * 4 = 2; b = 0.5 * 2 + 2 = 3; theta = 4 - 0.5 * 3 */
    assert_true(one_step("sgd", &s, 2, 4, 1, &b, NULL) == 2.5f);
    assert_true(b == 3);
    s.nesterov = true;
    b = 2; /* as before, but theta = 4 - 0.5 * (2 + 0.5 * 3) */
    assert_true(one_step("sgd", &s, 2, 4, 1, &b, NULL) == 2.25f);
}

static void a_step_of_adagrad_by_hand(void **state)
{
    (void)state;
    struct adagrad_settings s = {.lr = 1, .lr_decay = 0.5, .eps = 1};
    float sum = 7;
    /* s = 7 + 3^2 = 16; the third step's rate is 1 / (1 + 2 * 0.5); theta = 1 - 0.5 * 3 / (4 + 1) */
    assert_near(one_step("adagrad", &s, 3, 1, 3, &sum, NULL), 0.7f);
    assert_true(sum == 16);
}

static void a_step_of_rmsprop_by_hand(void **state)
{
    (void)state;
    struct rmsprop_settings s = {.lr = 0.5, .alpha = 0.75, .eps = 1, .momentum = 0.5};
    float square = 16, b = 1;
    /* s = 0.75 * 16 + 0.25 * 4^2 = 16; b = 0.5 + 4 / (4 + 1); theta = 2 - 0.5 * 1.3 */
    assert_near(one_step("rmsprop", &s, 1, 2, 4, &square, &b), 1.35f);
    assert_true(square == 16);
    assert_near(b, 1.3f);
}

static void the_first_step_of_adam_is_the_rate_whatever_the_gradient(void **state)
{
    (void)state;
    struct adam_settings s = {.lr = 0.25, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    float gradients[] = {1e-3f, -1e-3f, 5, -700};
    for (size_t i = 0; i < 4; i++) {
        float m = 0, v = 0;
        assert_near(one_step("adam", &s, 1, 1, gradients[i], &m, &v), gradients[i] > 0 ? 0.75f : 1.25f);
        assert_near(m, 0.1f * gradients[i]);
    }
}

static void adamw_shrinks_the_parameters_apart_from_the_gradient(void **state)
{
    (void)state;
    struct adam_settings s = {.lr = 0.5, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.5};
    float m = 0, v = 0; /* theta = 8 * (1 - 0.25), and no gradient at all */
    assert_near(one_step("adamw", &s, 1, 8, 0, &m, &v), 6);
    assert_true(m == 0 && v == 0);
}

static void adam_stays_finite_after_very_many_steps(void **state)
{
    (void)state;
    struct adam_settings s = {.lr = 0.25, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    float m = 2, v = 4; /* the corrections have become 1: theta = 1 - 0.25 * 2 / 2 */
    assert_near(one_step("adam", &s, UINT64_C(1) << 60, 1, 2, &m, &v), 0.75f);
}

static void a_gradient_of_zero_moves_nothing_from_a_standing_start(void **state)
{
    (void)state;
    struct adam_settings adam = {.lr = 1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-30};
    struct adagrad_settings adagrad = {.lr = 1, .eps = 1e-30};
    struct rmsprop_settings rmsprop = {.lr = 1, .alpha = 0.99, .eps = 1e-30};
    float a = 0, b = 0;
    assert_true(one_step("adam", &adam, 1, 3, 0, &a, &b) == 3);
    assert_true(one_step("adagrad", &adagrad, 1, 3, 0, &a, &b) == 3);
    assert_true(one_step("rmsprop", &rmsprop, 1, 3, 0, &a, &b) == 3);
}

/* Settings that leave no branch of any optimiser out. */
static const struct sgd_settings plain = {.lr = 0.1, .weight_decay = 0.01};
static const struct sgd_settings heavy = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
static const struct sgd_settings nesterov = {.lr = 0.1, .momentum = 0.9, .nesterov = true};
static const struct adagrad_settings adagrad = {.lr = 0.1, .eps = 1e-10, .weight_decay = 0.01};
static const struct rmsprop_settings rmsprop = {.lr = 0.1, .alpha = 0.9, .eps = 1e-8};
static const struct rmsprop_settings rmsprop_heavy = {.lr = 0.1, .alpha = 0.9, .eps = 1e-8, .momentum = 0.9};
static const struct adam_settings adam = {
    .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};

static const struct {
    const char *name;
    const void *settings;
} walkers[] = {{"sgd", &plain},       {"sgd", &heavy},       {"sgd", &nesterov},
               {"adagrad", &adagrad}, {"rmsprop", &rmsprop}, {"rmsprop", &rmsprop_heavy},
               {"adam", &adam},       {"adamw", &adam}};

struct span {
    float theta[MOST], slot[OPTIM_SLOTS][MOST];
};

/* Three steps over [0, MOST), done as two pieces [0, cut) and [cut, MOST), the later piece first. */
static void walk_in_two_pieces(size_t walker, enum isa isa, size_t cut, struct span *out)
{
    const struct optim_row *row = row_named(walkers[walker].name);
    memset(out, 0, sizeof *out);
    float g[MOST];
    for (int i = 0; i < MOST; i++)
        out->theta[i] = start(i) * 1.1f;
    for (int t = 1; t <= 3; t++) {
        for (int i = 0; i < MOST; i++)
            g[i] = gradient(t, i) * 0.37f;
        float *const head[] = {out->slot[0], out->slot[1]};
        float *const tail[] = {out->slot[0] + cut, out->slot[1] + cut};
        row->step[isa](walkers[walker].settings, 0.1, (uint64_t)t, MOST - cut, out->theta + cut, g + cut,
                       tail);
        row->step[isa](walkers[walker].settings, 0.1, (uint64_t)t, cut, out->theta, g, head);
    }
}

static void a_span_cut_anywhere_gives_the_same_bits(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof walkers / sizeof *walkers; w++) {
        struct span whole, pieces;
        walk_in_two_pieces(w, isa_here(), 0, &whole);
        for (size_t cut = 1; cut <= MOST; cut++) {
            walk_in_two_pieces(w, isa_here(), cut, &pieces);
            assert_memory_equal(&whole, &pieces, sizeof whole);
        }
    }
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof walkers / sizeof *walkers; w++) {
        struct span any, other;
        walk_in_two_pieces(w, ISA_any, 5, &any);
        for (enum isa isa = ISA_any; isa <= isa_here(); isa++) {
            walk_in_two_pieces(w, isa, 5, &other);
            assert_memory_equal(&any, &other, sizeof any);
        }
    }
}

static void a_step_touches_nothing_beyond_its_span(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof walkers / sizeof *walkers; w++) {
        struct span s;
        float g[MOST];
        for (int i = 0; i < MOST; i++)
            s.theta[i] = s.slot[0][i] = s.slot[1][i] = g[i] = 1;
        float *const slot[] = {s.slot[0], s.slot[1]};
        row_named(walkers[w].name)->step[isa_here()](walkers[w].settings, 0.1, 1, 37, s.theta, g, slot);
        for (int i = 37; i < MOST; i++)
            assert_true(s.theta[i] == 1 && s.slot[0][i] == 1 && s.slot[1][i] == 1 && g[i] == 1);
        assert_true(s.theta[36] != 1);
    }
}

static void every_row_is_complete(void **state)
{
    (void)state;
    assert_int_equal(optim_kinds.n, 5);
    for (size_t i = 0; i < optim_kinds.n; i++) {
        const struct kind *kind = &optim_kinds.rows[i];
        const struct optim_row *row = kind->row;
        for (enum isa isa = ISA_any; isa <= isa_here(); isa++)
            assert_non_null(row->step[isa]);
        assert_true(row->n_slots <= OPTIM_SLOTS && strlen(kind->help) > 10);
        for (size_t s = 0; s < OPTIM_SLOTS; s++)
            assert_int_equal(row->slot_names[s] != NULL, s < row->n_slots);
        assert_string_equal(kind->fields[0].name, "lr");
        assert_int_equal(kind->fields[0].offset, 0);
        for (size_t f = 0; f < kind->n_fields; f++) {
            assert_true(kind->fields[f].offset < kind->size);
            assert_non_null(kind->fields[f].help);
            assert_int_equal(kind->fields[f].fallback == NULL, f == 0); /* only lr must be written */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_sgd_walks_as_pytorch),
        cmocka_unit_test(sgd_with_decay_walks_as_pytorch),
        cmocka_unit_test(sgd_with_momentum_walks_as_pytorch),
        cmocka_unit_test(sgd_with_momentum_and_decay_walks_as_pytorch),
        cmocka_unit_test(sgd_with_nesterov_walks_as_pytorch),
        cmocka_unit_test(adagrad_walks_as_pytorch),
        cmocka_unit_test(adagrad_with_all_settings_walks_as_pytorch),
        cmocka_unit_test(rmsprop_walks_as_pytorch),
        cmocka_unit_test(rmsprop_with_all_settings_walks_as_pytorch),
        cmocka_unit_test(adam_walks_as_pytorch),
        cmocka_unit_test(adam_with_all_settings_walks_as_pytorch),
        cmocka_unit_test(adamw_walks_as_pytorch),
        cmocka_unit_test(adamw_with_all_settings_walks_as_pytorch),
        cmocka_unit_test(a_step_of_sgd_by_hand),
        cmocka_unit_test(a_step_of_adagrad_by_hand),
        cmocka_unit_test(a_step_of_rmsprop_by_hand),
        cmocka_unit_test(the_first_step_of_adam_is_the_rate_whatever_the_gradient),
        cmocka_unit_test(adamw_shrinks_the_parameters_apart_from_the_gradient),
        cmocka_unit_test(adam_stays_finite_after_very_many_steps),
        cmocka_unit_test(a_gradient_of_zero_moves_nothing_from_a_standing_start),
        cmocka_unit_test(a_span_cut_anywhere_gives_the_same_bits),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(a_step_touches_nothing_beyond_its_span),
        cmocka_unit_test(every_row_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
