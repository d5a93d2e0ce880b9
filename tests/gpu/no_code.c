/* no_code.c - stands for the device's code, which a pretended GPU has already. */
#include "engine/cuda/kernel_list.h"

#define CODE(module) extern const unsigned long long cuda_code_##module[1];
CUDA_MODULES(CODE)
#undef CODE
#define CODE(module) const unsigned long long cuda_code_##module[1] = {0};
CUDA_MODULES(CODE)
