/* driver.cpp - a pretended GPU: NVIDIA's driver as the engine `cuda` calls it, with the host's memory for the device's and
 * its kernels compiled for the host (kernels.cpp). Everything is done at once, one block after the other; only what is
 * captured waits for its graph. It shows whether kernels are right, and nothing of how fast they are.
 *
 * The environment can make another GPU of it: PRETENDED_GPU_COUNT (how many there are), PRETENDED_GPU_CAPABILITY (90 for
 * 9.0), PRETENDED_GPU_MIB (of memory), PRETENDED_GPU_SHARED_KIB (of a block), PRETENDED_GPU_CUDA (what the driver is for,
 * 13000 for 13.0). Into the file PRETENDED_GPU_KERNELS it writes which kernels were launched, a line for each the first
 * time. */
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "kernels.h"
#include "language.h"
#include "threads.h"

typedef std::vector<std::function<void()>> tasks;

static tasks *capturing; /* where a stream's work goes instead of being done */

static CUresult perform(std::function<void()> task)
{
    if (capturing)
        capturing->push_back(task);
    else
        task();
    return CUDA_SUCCESS;
}

static void *at(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

static size_t setting(const char *name, size_t otherwise)
{
    const char *text = std::getenv(name);
    return text ? std::strtoul(text, nullptr, 10) : otherwise;
}

static std::map<CUdeviceptr, size_t> taken; /* the device's memory: how long each piece is */

static size_t all_memory(void)
{
    return setting("PRETENDED_GPU_MIB", 16 << 10) << 20;
}

static size_t unused_memory(void)
{
    size_t unused = all_memory();
    for (const auto &piece : taken)
        unused -= piece.second;
    return unused;
}

static size_t most_shared(void)
{
    return setting("PRETENDED_GPU_SHARED_KIB", 227) << 10;
}

static void tell(const kernel *k)
{
    static std::set<const kernel *> told;
    const char *path = std::getenv("PRETENDED_GPU_KERNELS");
    if (path && told.insert(k).second)
        std::ofstream(path, std::ios::app) << k->name << '\n';
}

static std::set<void *> &registered()
{
    static std::set<void *> them;
    return them;
}

static CUresult give(void **out, size_t n)
{
    return posix_memalign(out, 256, n) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

extern "C" {

CUresult cuDriverGetVersion(int *version)
{
    *version = (int)setting("PRETENDED_GPU_CUDA", CUDA_VERSION);
    return CUDA_SUCCESS;
}
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char **text)
{
    *text = "the pretended GPU cannot do that";
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *n)
{
    *n = (int)setting("PRETENDED_GPU_COUNT", 1);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int)
{
    *device = 0;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice)
{
    std::strncpy(name, "pretended GPU", (size_t)length);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice)
{
    int capability = (int)setting("PRETENDED_GPU_CAPABILITY", 90);
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? capability / 10
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR          ? capability % 10
             : what == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? (int)most_shared()
                                                                             : 4; /* processors */
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice)
{
    *context = (CUcontext)1;
    return all_memory() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext *) { return CUDA_SUCCESS; }

CUresult cuModuleLoadData(CUmodule *module, const void *)
{
    *module = (CUmodule)1;
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name)
{
    *function = (CUfunction)find_kernel(name);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int, size_t)
{
    *n = 2;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int shared)
{
    return (size_t)shared <= most_shared() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t n)
{
    void *p;
    if (n > unused_memory() || give(&p, n) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = (CUdeviceptr)(uintptr_t)p;
    taken[*memory] = n;
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr memory)
{
    taken.erase(memory);
    std::free(at(memory));
    return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t *unused, size_t *all)
{
    *unused = unused_memory();
    *all = all_memory();
    return CUDA_SUCCESS;
}
CUresult cuMemAllocHost(void **memory, size_t n) { return give(memory, n); }
CUresult cuMemFreeHost(void *memory)
{
    std::free(memory);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void *memory, size_t, unsigned)
{
    return registered().insert(memory).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
CUresult cuMemHostUnregister(void *memory) { return registered().erase(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream)
{
    return perform([=] { std::memcpy(at(to), from, n); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream)
{
    return perform([=] { std::memmove(at(to), at(from), n); });
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream)
{
    return perform([=] { std::memcpy(to, at(from), n); });
}
CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t n, CUstream)
{
    return perform([=] { std::memset(at(memory), value, n); });
}

CUresult cuStreamCreate(CUstream *stream, unsigned)
{
    *stream = (CUstream)1;
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode)
{
    capturing = new tasks;
    return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream, CUgraph *graph)
{
    *graph = (CUgraph)capturing;
    capturing = nullptr;
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long)
{
    *exec = (CUgraphExec) new tasks(*(tasks *)graph);
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream)
{
    for (const std::function<void()> &task : *(tasks *)exec)
        task();
    return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph)
{
    delete (tasks *)graph;
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    delete (tasks *)exec;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned)
{
    *event = (CUevent)1;
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent, CUstream) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float *ms, CUevent, CUevent)
{
    *ms = 1;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned threads,
                        unsigned, unsigned, unsigned shared, CUstream, void **args, void **)
{
    if (shared > most_shared())
        return CUDA_ERROR_INVALID_VALUE;
    tell((const kernel *)function);
    std::function<void()> of_thread = ((const kernel *)function)->bind(args);
    return perform([=] {
        gridDim = {grid_x, grid_y, grid_z};
        blockDim = {threads, 1, 1};
        for (unsigned z = 0; z < grid_z; z++)
            for (unsigned y = 0; y < grid_y; y++)
                for (unsigned x = 0; x < grid_x; x++) {
                    blockIdx = {x, y, z};
                    run_block((int)threads, shared, of_thread);
                }
    });
}
}
