/* driver.h - NVIDIA's driver, found at run time: a program built with this engine starts on any machine.
 *
 * The driver's library is opened by name and its functions are kept in a table, so nothing is linked and
 * nothing is global. Calls go through CU, which turns an error into a fault. A context is current between
 * driver_enter and driver_leave; all other calls must lie between them.
 */
#ifndef VECHE_ENGINE_CUDA_DRIVER_H
#define VECHE_ENGINE_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

#define DRIVER_CALLS(X)                                                                                      \
    X(cuDriverGetVersion)                                                                                    \
    X(cuInit)                                                                                                \
    X(cuGetErrorString)                                                                                      \
    X(cuDeviceGetCount)                                                                                      \
    X(cuDeviceGet)                                                                                           \
    X(cuDeviceGetName)                                                                                       \
    X(cuDeviceGetAttribute)                                                                                  \
    X(cuDevicePrimaryCtxRetain)                                                                              \
    X(cuDevicePrimaryCtxRelease)                                                                             \
    X(cuCtxPushCurrent)                                                                                      \
    X(cuCtxPopCurrent)                                                                                       \
    X(cuModuleLoadData)                                                                                      \
    X(cuModuleUnload)                                                                                        \
    X(cuModuleGetFunction)                                                                                   \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                           \
    X(cuFuncSetAttribute)                                                                                    \
    X(cuMemAlloc)                                                                                            \
    X(cuMemFree)                                                                                             \
    X(cuMemGetInfo)                                                                                          \
    X(cuMemAllocHost)                                                                                        \
    X(cuMemFreeHost)                                                                                         \
    X(cuMemHostRegister)                                                                                     \
    X(cuMemHostUnregister)                                                                                   \
    X(cuMemcpyHtoDAsync)                                                                                     \
    X(cuMemcpyDtoDAsync)                                                                                     \
    X(cuMemcpyDtoHAsync)                                                                                     \
    X(cuMemsetD8Async)                                                                                       \
    X(cuStreamCreate)                                                                                        \
    X(cuStreamDestroy)                                                                                       \
    X(cuStreamSynchronize)                                                                                   \
    X(cuStreamBeginCapture)                                                                                  \
    X(cuStreamEndCapture)                                                                                    \
    X(cuGraphInstantiateWithFlags)                                                                           \
    X(cuGraphLaunch)                                                                                         \
    X(cuGraphDestroy)                                                                                        \
    X(cuGraphExecDestroy)                                                                                    \
    X(cuEventCreate)                                                                                         \
    X(cuEventDestroy)                                                                                        \
    X(cuEventRecord)                                                                                         \
    X(cuEventElapsedTime)                                                                                    \
    X(cuLaunchKernel)

struct driver {
#define DRIVER_FIELD(name) __typeof__(name) *name;
    DRIVER_CALLS(DRIVER_FIELD)
#undef DRIVER_FIELD
    void *library;
    CUdevice device;
    CUcontext context; /* owned: a share of the device's one */
    char name[128];    /* of the device */
    int capability;    /* 90 for 9.0 */
    int processors;
    size_t shared_bytes; /* the most one block may ask for */
};

/* The machine's device of this number, counted round and round. FAULT_ENGINE with one sentence: no driver, no device,
 * either of them too old. */
fault driver_open(struct driver *d, size_t number);
void driver_close(struct driver *d);

fault driver_enter(const struct driver *d);
void driver_leave(const struct driver *d);

/* The fault of a failed call; OK for CUDA_SUCCESS. */
fault driver_check(const struct driver *d, CUresult result, const char *what);
#define CU(d, call, ...) driver_check((d), (d)->call(__VA_ARGS__), #call)

/* Device memory, zeroed; `what` it is for stands in the fault when there is not enough. */
fault driver_take(const struct driver *d, size_t n_bytes, const char *what, CUdeviceptr *out);
void driver_give(const struct driver *d, CUdeviceptr *memory);

#endif
