/* driver.c - see driver.h. */
#include "engine/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

enum { LEAST_CAPABILITY = 80 }; /* bf16 in the tensor cores */

fault driver_check(const struct driver *d, CUresult result, const char *what)
{
    const char *why = NULL;
    if (result == CUDA_SUCCESS)
        return OK;
    if (d->cuGetErrorString(result, &why) != CUDA_SUCCESS || !why)
        why = "an error without a name";
    return FAIL(FAULT_ENGINE, "the GPU's driver failed in %s: %s", what, why);
}

/* `dlsym` gives a pointer to data; ISO C has no cast from that to a function. */
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *at = dlsym(library, name);
    memcpy(function, &at, size);
    return at != NULL;
}

/* A driver runs what was built for its CUDA or an earlier one, and, within a whole number, for a somewhat
 * later one. */
static fault look_at_version(struct driver *d)
{
    int version = 0;
    if (!find(d->library, "cuDriverGetVersion", &d->cuDriverGetVersion, sizeof d->cuDriverGetVersion) ||
        d->cuDriverGetVersion(&version) != CUDA_SUCCESS || version / 1000 >= CUDA_VERSION / 1000)
        return OK;
    return FAIL(FAULT_ENGINE,
                "the NVIDIA driver of this machine is too old: it is for CUDA %d.%d, and this veche was "
                "built with %d.%d",
                version / 1000, version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
}

/* The library stays loaded when it is not needed any more: it may have threads that run on. */
static fault open_library(struct driver *d)
{
    d->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d->library)
        return FAIL(FAULT_ENGINE, "there is no NVIDIA driver on this machine (libcuda.so.1 was not found)");
    TRY(look_at_version(d));
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name) /* cuda.h gives some calls a newer name */
#define DRIVER_FIND(name)                                                                                    \
    if (!find(d->library, NAME_OF(name), &d->name, sizeof d->name))                                          \
        return FAIL(FAULT_ENGINE, "the NVIDIA driver of this machine is too old: it has no %s",              \
                    NAME_OF(name));
    DRIVER_CALLS(DRIVER_FIND)
#undef DRIVER_FIND
    return OK;
}

static fault attribute(const struct driver *d, CUdevice_attribute what, int *out)
{
    return CU(d, cuDeviceGetAttribute, out, what, d->device);
}

static fault look_at_device(struct driver *d)
{
    int major, minor, shared;
    TRY(CU(d, cuDeviceGetName, d->name, sizeof d->name, d->device));
    TRY(attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    TRY(attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    TRY(attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d->processors));
    TRY(attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared));
    d->capability = 10 * major + minor;
    d->shared_bytes = (size_t)shared;
    if (d->capability < LEAST_CAPABILITY)
        return FAIL(FAULT_ENGINE, "the GPU %s has compute capability %d.%d; at least %d.%d is needed",
                    d->name, major, minor, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
    return OK;
}

static fault open_device(struct driver *d, size_t number)
{
    int n = 0;
    CUresult started = d->cuInit(0);
    if (started == CUDA_SUCCESS)
        started = d->cuDeviceGetCount(&n);
    if (started == CUDA_ERROR_NO_DEVICE || (started == CUDA_SUCCESS && n == 0))
        return FAIL(FAULT_ENGINE, "there is an NVIDIA driver but no GPU on this machine");
    TRY(driver_check(d, started, "cuInit"));
    TRY(CU(d, cuDeviceGet, &d->device, (int)(number % (size_t)n)));
    TRY(look_at_device(d));
    CUcontext context;
    CUresult made = d->cuDevicePrimaryCtxRetain(&context, d->device);
    if (made == CUDA_ERROR_OUT_OF_MEMORY)
        return FAIL(FAULT_ENGINE, "the GPU %s has no memory free", d->name);
    TRY(driver_check(d, made, "cuDevicePrimaryCtxRetain"));
    d->context = context;
    return OK;
}

fault driver_open(struct driver *d, size_t number)
{
    memset(d, 0, sizeof *d);
    fault f = open_library(d);
    if (!f)
        f = open_device(d, number);
    if (f)
        driver_close(d);
    return f;
}

void driver_close(struct driver *d)
{
    if (d->context)
        d->cuDevicePrimaryCtxRelease(d->device);
    if (d->library)
        dlclose(d->library);
    d->context = NULL;
    d->library = NULL;
}

fault driver_enter(const struct driver *d)
{
    return CU(d, cuCtxPushCurrent, d->context);
}

void driver_leave(const struct driver *d)
{
    CUcontext mine;
    d->cuCtxPopCurrent(&mine);
}

fault driver_take(const struct driver *d, size_t n_bytes, const char *what, CUdeviceptr *out)
{
    size_t unused = 0, all = 0;
    CUdeviceptr memory;
    CUresult result = d->cuMemAlloc(&memory, n_bytes ? n_bytes : 1);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        d->cuMemGetInfo(&unused, &all);
        return FAIL(FAULT_ENGINE, "the GPU %s has %zu MiB free of %zu; %zu MiB are needed for %s", d->name,
                    unused >> 20, all >> 20, (n_bytes >> 20) + 1, what);
    }
    TRY(driver_check(d, result, "cuMemAlloc"));
    fault f = CU(d, cuMemsetD8Async, memory, 0, n_bytes ? n_bytes : 1, NULL);
    if (f)
        d->cuMemFree(memory);
    else
        *out = memory;
    return f;
}

void driver_give(const struct driver *d, CUdeviceptr *memory)
{
    if (*memory)
        d->cuMemFree(*memory);
    *memory = 0;
}
