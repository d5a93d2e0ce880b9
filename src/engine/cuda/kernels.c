/* kernels.c - see kernels.h. The build turns every .cu file into an array of bytes, cuda_code_NAME. */
#include "engine/cuda/kernels.h"

#include <string.h>

#define CODE_DECLARATION(module) extern const unsigned long long cuda_code_##module[];
CUDA_MODULES(CODE_DECLARATION)

static const unsigned long long *const codes[N_CUDA_MODULES] = {
#define CODE_ROW(module) [MODULE_##module] = cuda_code_##module,
    CUDA_MODULES(CODE_ROW)};

static const enum cuda_module module_of[N_CUDA_KERNELS] = {
#define MODULE_ROW(module, kernel) [KERNEL_##kernel] = MODULE_##module,
    CUDA_KERNELS(MODULE_ROW)};

const char *const cuda_kernel_names[N_CUDA_KERNELS] = {
#define NAME_ROW(module, kernel) [KERNEL_##kernel] = #kernel,
    CUDA_KERNELS(NAME_ROW)};

static fault open_modules(const struct driver *d, struct kernels *k)
{
    for (int i = 0; i < N_CUDA_MODULES; i++) {
        CUresult result = d->cuModuleLoadData(&k->modules[i], codes[i]);
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
            return FAIL(FAULT_ENGINE,
                        "this veche has no code for the GPU %s (compute capability %d.%d); build it with "
                        "VECHE_CUDA_ARCHITECTURES naming it",
                        d->name, d->capability / 10, d->capability % 10);
        TRY(driver_check(d, result, "cuModuleLoadData"));
    }
    return OK;
}

fault kernels_open(const struct driver *d, struct kernels *out)
{
    memset(out, 0, sizeof *out);
    fault f = open_modules(d, out);
    for (int i = 0; !f && i < N_CUDA_KERNELS; i++)
        f = CU(d, cuModuleGetFunction, &out->of[i], out->modules[module_of[i]], cuda_kernel_names[i]);
    if (f)
        kernels_close(d, out);
    return f;
}

void kernels_close(const struct driver *d, struct kernels *k)
{
    for (int i = 0; i < N_CUDA_MODULES; i++)
        if (k->modules[i])
            d->cuModuleUnload(k->modules[i]);
    memset(k, 0, sizeof *k);
}
