/* threads.h - see threads.cpp. */
#ifndef VECHE_TESTS_GPU_THREADS_H
#define VECHE_TESTS_GPU_THREADS_H

#include <cstddef>
#include <functional>

/* Runs one block of so many threads, with so many bytes of shared memory, to its end; blockIdx, blockDim and gridDim
 * say which. */
void run_block(int threads, size_t shared, const std::function<void()> &of_thread);

#endif
