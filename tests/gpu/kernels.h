/* kernels.h - see kernels.cpp. */
#ifndef VECHE_TESTS_GPU_KERNELS_H
#define VECHE_TESTS_GPU_KERNELS_H

#include <functional>
#include <string>

struct kernel {
    std::string name;
    std::function<std::function<void()>(void **args)> bind; /* a thread's work; keeps copies of the arguments */
};

const kernel *find_kernel(const std::string &name); /* NULL: none of that name */

#endif
