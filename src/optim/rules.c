/* rules.c - the optimisers one may name: what each keeps, its settings and its steps (steps.c). */
#include "optim/rules.h"

#include "optim/optim.h"
#include "optim/steps.h"

#define STEP(isa, rule) [ISA_##isa] = rule##_step_##isa,
#define STEPS(rule)                                                                                          \
    {                                                                                                        \
        EACH_ISA(STEP, rule)                                                                                 \
    }

static bool sgd_uses(const void *settings, size_t slot)
{
    (void)slot;
    return ((const struct sgd_settings *)settings)->momentum != 0;
}

static bool rmsprop_uses(const void *settings, size_t slot)
{
    return slot == 0 || ((const struct rmsprop_settings *)settings)->momentum != 0;
}

enum { ROWS_WITHOUT_SLOTS = 3 };

size_t optim_rows_moved(const struct optim_settings *o)
{
    const struct optim_row *row = optim_row(o);
    size_t n = ROWS_WITHOUT_SLOTS;
    for (size_t slot = 0; slot < row->n_slots; slot++)
        n += !row->uses_slot || row->uses_slot(o->kind.settings, slot) ? 2 : 0;
    return n;
}

bool optim_keeps_slots(const struct optim_settings *o)
{
    return optim_rows_moved(o) > ROWS_WITHOUT_SLOTS;
}

static const struct optim_row sgd_row = {1, {"momentum_buffer"}, {0}, STEPS(sgd), sgd_uses};
static const struct optim_row adagrad_row = {1, {"sum"}, {0}, STEPS(adagrad), NULL};
static const struct optim_row rmsprop_row = {
    2, {"square_avg", "momentum_buffer"}, {0, 0}, STEPS(rmsprop), rmsprop_uses};
static const struct optim_row adam_row = {2, {"exp_avg", "exp_avg_sq"}, {0, 0}, STEPS(adam), NULL};
static const struct optim_row adamw_row = {2, {"exp_avg", "exp_avg_sq"}, {0, 0}, STEPS(adamw), NULL};

/* Rates of decay stop short of 1, where nothing new would ever count; eps stays well above the smallest fp32 number, so that it
 * still keeps a quotient finite. */

static const struct field sgd_fields[] = {
    REAL_FIELD(struct sgd_settings, lr, NULL, 0, 1e6, "learning rate"),
    REAL_FIELD(struct sgd_settings, momentum, "0", 0, 0.9999999, "share of the last step that carries on"),
    FLAG_FIELD(struct sgd_settings, nesterov, "false", "look ahead along the momentum (requires momentum)"),
    REAL_FIELD(struct sgd_settings, weight_decay, "0", 0, 1e6, "times theta is added to the gradient"),
};

static const struct field adagrad_fields[] = {
    REAL_FIELD(struct adagrad_settings, lr, NULL, 0, 1e6, "learning rate"),
    REAL_FIELD(struct adagrad_settings, lr_decay, "0", 0, 1e6, "lr is divided by 1 + lr_decay times the steps so far"),
    REAL_FIELD(struct adagrad_settings, weight_decay, "0", 0, 1e6, "times theta is added to the gradient"),
    REAL_FIELD(struct adagrad_settings, eps, "1e-10", 1e-30, 1e6, "added to the divisor"),
};

static const struct field rmsprop_fields[] = {
    REAL_FIELD(struct rmsprop_settings, lr, NULL, 0, 1e6, "learning rate"),
    REAL_FIELD(struct rmsprop_settings, alpha, "0.99", 0, 0.9999999, "memory of the mean square of the gradient"),
    REAL_FIELD(struct rmsprop_settings, momentum, "0", 0, 0.9999999, "share of the last step that carries on"),
    REAL_FIELD(struct rmsprop_settings, weight_decay, "0", 0, 1e6, "times theta is added to the gradient"),
    REAL_FIELD(struct rmsprop_settings, eps, "1e-8", 1e-30, 1e6, "added to the divisor"),
};

static const struct field adam_fields[] = {
    REAL_FIELD(struct adam_settings, lr, NULL, 0, 1e6, "learning rate"),
    REAL_FIELD(struct adam_settings, beta1, "0.9", 0, 0.9999999, "memory of the mean gradient"),
    REAL_FIELD(struct adam_settings, beta2, "0.999", 0, 0.9999999, "memory of its mean square"),
    REAL_FIELD(struct adam_settings, weight_decay, "0", 0, 1e6, "times theta is added to the gradient"),
    REAL_FIELD(struct adam_settings, eps, "1e-8", 1e-30, 1e6, "added to the divisor"),
};

static const struct field adamw_fields[] = {
    REAL_FIELD(struct adam_settings, lr, NULL, 0, 1e6, "learning rate"),
    REAL_FIELD(struct adam_settings, beta1, "0.9", 0, 0.9999999, "memory of the mean gradient"),
    REAL_FIELD(struct adam_settings, beta2, "0.999", 0, 0.9999999, "memory of its mean square"),
    REAL_FIELD(struct adam_settings, weight_decay, "0.01", 0, 1e6, "theta shrinks by lr times this each step"),
    REAL_FIELD(struct adam_settings, eps, "1e-8", 1e-30, 1e6, "added to the divisor"),
};

#define KIND(word, owner, table, words)                                                                      \
    {                                                                                                        \
        .name = #word, .help = words, .fields = table, .n_fields = sizeof table / sizeof *table,             \
        .size = sizeof(struct owner), .row = &word##_row                                                     \
    }

static const struct kind rows[] = {
    KIND(sgd, sgd_settings, sgd_fields,
         "stochastic gradient descent, with momentum and Nesterov's look ahead"),
    KIND(adagrad, adagrad_settings, adagrad_fields, "steps shrink with the sum of squared gradients"),
    KIND(rmsprop, rmsprop_settings, rmsprop_fields, "steps divided by the recent size of the gradient"),
    KIND(adam, adam_settings, adam_fields, "momentum and recent size together, freed of their start at zero"),
    KIND(adamw, adam_settings, adamw_fields, "adam with weight decay apart from the gradient"),
};

const struct kinds optim_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};
