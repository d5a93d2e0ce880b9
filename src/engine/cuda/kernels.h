/* kernels.h - the device's code by name: each .cu file is a module carried in the program, each kernel a row.
 */
#ifndef VECHE_ENGINE_CUDA_KERNELS_H
#define VECHE_ENGINE_CUDA_KERNELS_H

#include "engine/cuda/driver.h"
#include "engine/cuda/kernel_list.h"

enum cuda_module {
#define MODULE_ENUM(module) MODULE_##module,
    CUDA_MODULES(MODULE_ENUM)
#undef MODULE_ENUM
        N_CUDA_MODULES
};

enum cuda_kernel {
#define KERNEL_ENUM(module, kernel) KERNEL_##kernel,
    CUDA_KERNELS(KERNEL_ENUM)
#undef KERNEL_ENUM
        N_CUDA_KERNELS
};

extern const char *const cuda_kernel_names[N_CUDA_KERNELS];

struct kernels {
    CUmodule modules[N_CUDA_MODULES]; /* owned */
    CUfunction of[N_CUDA_KERNELS];
};

/* FAULT_ENGINE where the code does not suit the device. */
fault kernels_open(const struct driver *d, struct kernels *out);
void kernels_close(const struct driver *d, struct kernels *k);

#endif
