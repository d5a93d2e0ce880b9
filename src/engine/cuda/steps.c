/* steps.c - the optimisers as rows.cu computes them. The formulas are those of optim/rules.c: scalars are
 * worked out in double and rounded once. */
#include "engine/cuda/steps.h"

#include <math.h>

#include "base/text.h"
#include "optim/rules.h"

static enum cuda_kernel sgd_kernel(const void *settings)
{
    const struct sgd_settings *s = settings;
    if (s->momentum == 0)
        return KERNEL_step_sgd_plain;
    return s->nesterov ? KERNEL_step_sgd_nesterov : KERNEL_step_sgd_momentum;
}

static void sgd_scalars(const void *settings, double lr, uint64_t t, float *number)
{
    (void)t;
    const struct sgd_settings *s = settings;
    number[0] = (float)lr;
    number[1] = (float)s->weight_decay;
    number[2] = (float)s->momentum;
}

static enum cuda_kernel adagrad_kernel(const void *settings)
{
    (void)settings;
    return KERNEL_step_adagrad;
}

static void adagrad_scalars(const void *settings, double lr, uint64_t t, float *number)
{
    const struct adagrad_settings *s = settings;
    number[0] = (float)(lr / (1 + (double)(t - 1) * s->lr_decay));
    number[1] = (float)s->weight_decay;
    number[2] = (float)s->eps;
}

static enum cuda_kernel rmsprop_kernel(const void *settings)
{
    const struct rmsprop_settings *s = settings;
    return s->momentum == 0 ? KERNEL_step_rmsprop_plain : KERNEL_step_rmsprop_momentum;
}

static void rmsprop_scalars(const void *settings, double lr, uint64_t t, float *number)
{
    (void)t;
    const struct rmsprop_settings *s = settings;
    number[0] = (float)lr;
    number[1] = (float)s->weight_decay;
    number[2] = (float)s->eps;
    number[3] = (float)s->alpha;
    number[4] = (float)(1 - s->alpha);
    number[5] = (float)s->momentum;
}

static enum cuda_kernel adam_kernel(const void *settings)
{
    (void)settings;
    return KERNEL_step_adam;
}

static void adam_scalars(const void *settings, double lr, uint64_t t, float *number)
{
    const struct adam_settings *s = settings;
    number[0] = (float)(lr / (1 - pow(s->beta1, (double)t)));
    number[1] = (float)s->weight_decay;
    number[2] = (float)s->eps;
    number[3] = 1;
    number[4] = (float)s->beta1;
    number[5] = (float)(1 - s->beta1);
    number[6] = (float)s->beta2;
    number[7] = (float)(1 - s->beta2);
    number[8] = (float)sqrt(1 - pow(s->beta2, (double)t));
}

static void adamw_scalars(const void *settings, double lr, uint64_t t, float *number)
{
    const struct adam_settings *s = settings;
    adam_scalars(settings, lr, t, number);
    number[1] = 0;
    number[3] = (float)(1 - lr * s->weight_decay);
}

static const struct step_rule rules[] = {
    {"sgd", sgd_kernel, sgd_scalars},
    {"adagrad", adagrad_kernel, adagrad_scalars},
    {"rmsprop", rmsprop_kernel, rmsprop_scalars},
    {"adam", adam_kernel, adam_scalars},
    {"adamw", adam_kernel, adamw_scalars},
};

fault step_rule_of(const struct optim_settings *optim, const struct step_rule **out)
{
    if (!optim)
        return FAIL(FAULT_USAGE, "this engine was opened without an optimiser and takes no steps");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (text_is(optim->kind.kind->name, rules[i].name)) {
            *out = &rules[i];
            return OK;
        }
    return FAIL(FAULT_ENGINE, "the engine cuda does not know the optimiser '%s'", optim->kind.kind->name);
}
