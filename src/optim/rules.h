/* rules.h - the settings of each optimiser and schedule, for those who compute steps on another device or
 * make a choice without an experiment file (tests, benches). The fields in rules.c and schedule.c describe
 * the same structs.
 */
#ifndef VECHE_OPTIM_RULES_H
#define VECHE_OPTIM_RULES_H

#include <stdbool.h>

#include "base/field.h"

/* `lr` comes first in all of them: optim_lr reads it without knowing which optimiser it is. */
struct sgd_settings {
    double lr, momentum, weight_decay;
    bool nesterov; /* only with momentum: optim_check */
};

struct adagrad_settings {
    double lr, lr_decay, weight_decay, eps;
};

struct rmsprop_settings {
    double lr, alpha, momentum, weight_decay, eps;
};

struct adam_settings { /* adamw too */
    double lr, beta1, beta2, weight_decay, eps;
};

struct step_settings {
    struct reals epochs;
    double factor;
};

struct cosine_settings {
    double floor; /* the share of the base rate that is left at the end */
};

#endif
