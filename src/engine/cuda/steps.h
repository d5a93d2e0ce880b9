/* steps.h - which kernel takes an optimiser's step, and the numbers it wants. */
#ifndef VECHE_ENGINE_CUDA_STEPS_H
#define VECHE_ENGINE_CUDA_STEPS_H

#include "engine/cuda/kernels.h"
#include "optim/optim.h"

struct step_rule {
    const char *name; /* the optimiser's */
    enum cuda_kernel (*kernel)(const void *settings);
    void (*scalars)(const void *settings, double lr, uint64_t t, float *number); /* step_entry.number */
};

/* FAULT_ENGINE where the device has no kernel for this optimiser, FAULT_USAGE where there is none. */
fault step_rule_of(const struct optim_settings *optim, const struct step_rule **out);

#endif
