/* measure.c - see measure.h. Times are the device's own, between events on its stream. */
#include "engine/cuda/measure.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 5, PEAK_THREADS = 256, PEAK_BLOCKS = 8 };

struct watch { /* two events with the work to be timed between them */
    const struct driver *driver;
    CUstream stream;
    CUevent began, ended;
};

static fault watch_open(struct watch *w, struct device *d)
{
    *w = (struct watch){.driver = &d->driver, .stream = d->stream};
    TRY(CU(w->driver, cuEventCreate, &w->began, CU_EVENT_DEFAULT));
    fault f = CU(w->driver, cuEventCreate, &w->ended, CU_EVENT_DEFAULT);
    if (f)
        w->driver->cuEventDestroy(w->began);
    return f;
}

static void watch_close(struct watch *w)
{
    w->driver->cuEventDestroy(w->began);
    w->driver->cuEventDestroy(w->ended);
}

static fault watch_start(struct watch *w)
{
    return CU(w->driver, cuEventRecord, w->began, w->stream);
}

static fault watch_stop(struct watch *w, double *ms)
{
    float passed;
    TRY(CU(w->driver, cuEventRecord, w->ended, w->stream));
    TRY(CU(w->driver, cuStreamSynchronize, w->stream));
    TRY(CU(w->driver, cuEventElapsedTime, &passed, w->began, w->ended));
    *ms = passed;
    return OK;
}

static void note(struct engine_work *out, const char *name, double ms)
{
    size_t i = 0;
    while (i < out->n_kernels && strcmp(out->kernels[i].name, name) != 0)
        i++;
    if (i == WORK_KERNELS)
        return;
    if (i == out->n_kernels)
        out->kernels[out->n_kernels++] = (struct work_kernel){.name = name};
    out->kernels[i].ms += ms;
    out->kernels[i].calls++;
}

static int longest_first(const void *a, const void *b)
{
    double x = ((const struct work_kernel *)a)->ms, y = ((const struct work_kernel *)b)->ms;
    return (x < y) - (x > y);
}

static fault time_launches(struct launches *p, size_t n, struct watch *w, struct engine_work *out)
{
    for (size_t i = 0; i < p->n_launches; i++) {
        double ms;
        TRY(watch_start(w));
        TRY(launches_run_one(p, i, n));
        TRY(watch_stop(w, &ms));
        note(out, cuda_kernel_names[p->launches[i].kernel], ms);
    }
    return OK;
}

fault measure_kernels(struct launches *p, size_t n, struct engine_work *out)
{
    struct watch w;
    TRY(watch_open(&w, p->device));
    fault f = time_launches(p, n, &w, out);
    watch_close(&w);
    qsort(out->kernels, out->n_kernels, sizeof *out->kernels, longest_first);
    return f;
}

static fault time_copy(struct watch *w, CUdeviceptr memory, size_t n_bytes, double *bytes_per_s)
{
    size_t half = n_bytes / 2;
    for (int i = 0; i < TRIES; i++) {
        double ms;
        TRY(watch_start(w));
        TRY(CU(w->driver, cuMemcpyDtoDAsync, memory + half, memory, half, w->stream));
        TRY(watch_stop(w, &ms));
        double rate = 2 * (double)half / (ms / 1e3);
        *bytes_per_s = rate > *bytes_per_s ? rate : *bytes_per_s;
    }
    return OK;
}

static fault time_products(struct watch *w, struct device *d, bool bf16, CUdeviceptr memory,
                           double *flops_per_s)
{
    unsigned blocks = (unsigned)(d->driver.processors * PEAK_BLOCKS);
    double per_thread = 2.0 * PEAK_ROUNDS * PEAK_CHAINS * 16 * 8 * (bf16 ? 16 : 8) / 32;
    void *args[] = {&memory};
    for (int i = 0; i < TRIES; i++) {
        double ms;
        TRY(watch_start(w));
        TRY(CU(w->driver, cuLaunchKernel, d->kernels.of[bf16 ? KERNEL_peak_bf16 : KERNEL_peak_fp32],
               blocks, 1, 1, PEAK_THREADS, 1, 1, 0, w->stream, args, NULL));
        TRY(watch_stop(w, &ms));
        double rate = per_thread * PEAK_THREADS * blocks / (ms / 1e3);
        *flops_per_s = rate > *flops_per_s ? rate : *flops_per_s;
    }
    return OK;
}

fault measure_peaks(struct device *d, bool bf16, CUdeviceptr memory, size_t n_bytes, struct engine_work *out)
{
    struct watch w;
    TRY(watch_open(&w, d));
    fault f = time_copy(&w, memory, n_bytes, &out->peak_bytes_per_s);
    if (!f)
        f = time_products(&w, d, bf16, memory, &out->peak_flops_per_s);
    watch_close(&w);
    return f;
}
