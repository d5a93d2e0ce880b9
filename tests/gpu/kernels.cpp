/* kernels.cpp - all device code of the engine `cuda`, compiled for the host, and its kernels by name. */
#include "kernels.h"

#include <tuple>
#include <vector>

#include "language.h"

#include "engine/cuda/conv3.cuh"
#include "engine/cuda/factors.cuh"
#include "engine/cuda/kernel_list.h"
#include "engine/cuda/measure.h"
#include "engine/cuda/multiply.cuh"
#include "engine/cuda/patch.cuh"
#include "engine/cuda/sums.cuh"

/* Each file has its own static names; what they include is already here. */
namespace module_input {
#include "engine/cuda/input.cu"
}
namespace module_values {
#include "engine/cuda/values.cu"
}
namespace module_pools {
#include "engine/cuda/pools.cu"
}
namespace module_losses {
#include "engine/cuda/losses.cu"
}
namespace module_norm {
#include "engine/cuda/norm.cu"
}
namespace module_weights {
#undef KERNEL
#undef CONV
#undef WIDE
#include "engine/cuda/weights.cu"
}
namespace module_patch {
#undef KERNEL
#undef BOTH
#undef PREPARE
#include "engine/cuda/patch.cu"
}
namespace module_patch_weight {
#undef KERNEL
#include "engine/cuda/patch_weight.cu"
}
namespace module_groups {
#include "engine/cuda/groups.cu"
}
namespace module_linear {
#include "engine/cuda/linear.cu"
}
namespace module_rows {
#include "engine/cuda/rows.cu"
}
namespace module_fused {
#include "engine/cuda/fused.cu"
}
namespace module_conv3_forward {
#undef KERNEL
#include "engine/cuda/conv3_forward.cu"
}
namespace module_conv3_input {
#undef KERNEL
#include "engine/cuda/conv3_input.cu"
}
namespace module_conv3_weight {
#undef KERNEL
#include "engine/cuda/conv3_weight.cu"
}
namespace module_peak {
#include "engine/cuda/peak.cu"
}

template <class... ARGS, size_t... I>
static std::function<void()> bind_args(void (*f)(ARGS...), void **args, std::index_sequence<I...>)
{
    std::tuple<std::decay_t<ARGS>...> kept(*(std::decay_t<ARGS> *)args[I]...);
    return [=] { std::apply(f, kept); };
}

template <class... ARGS> static kernel row(const char *name, void (*f)(ARGS...))
{
    return {name, [=](void **args) { return bind_args(f, args, std::index_sequence_for<ARGS...>()); }};
}

const kernel *find_kernel(const std::string &name)
{
#define ROW(module, kernel) row(#kernel, module_##module::kernel),
    static const std::vector<kernel> rows = {CUDA_KERNELS(ROW)};
    for (const kernel &k : rows)
        if (k.name == name)
            return &k;
    return nullptr;
}
