/* device.c - the device with its stream, its kernels and the way tables take to it. */
#include <string.h>

#include "engine/cuda/store.h"

enum { STAGING_ALIGN = 256 };

static fault open_inside(struct device *d)
{
    const struct driver *driver = &d->driver;
    void *pinned;
    TRY(kernels_open(driver, &d->kernels));
    TRY(CU(driver, cuStreamCreate, &d->stream, CU_STREAM_DEFAULT));
    TRY(CU(driver, cuMemAllocHost, &pinned, STAGING_BYTES));
    d->staging = pinned;
    return driver_take(driver, STAGING_BYTES, "tables", &d->staged);
}

fault device_open(struct device *d, size_t number)
{
    memset(d, 0, sizeof *d);
    TRY(driver_open(&d->driver, number));
    fault f = driver_enter(&d->driver);
    if (f) {
        driver_close(&d->driver);
        return f;
    }
    f = open_inside(d);
    driver_leave(&d->driver);
    if (f)
        device_close(d);
    return f;
}

void device_close(struct device *d)
{
    const struct driver *driver = &d->driver;
    fault f = driver_enter(driver);
    if (!f) {
        driver_give(driver, &d->staged);
        if (d->staging)
            driver->cuMemFreeHost(d->staging);
        if (d->stream)
            driver->cuStreamDestroy(d->stream);
        kernels_close(driver, &d->kernels);
        driver_leave(driver);
    }
    fault_drop(f);
    driver_close(&d->driver);
}

fault device_wait(struct device *d)
{
    d->staging_used = 0;
    return CU(&d->driver, cuStreamSynchronize, d->stream);
}

fault staging_take(struct device *d, size_t n_bytes, struct parcel_room *out)
{
    if (n_bytes > STAGING_BYTES)
        return FAIL(FAULT_ENGINE, "a table of %zu bytes is longer than the GPU's engine can take (%d)",
                    n_bytes, (int)STAGING_BYTES);
    if (d->staging_used + n_bytes > STAGING_BYTES)
        TRY(device_wait(d));
    *out = (struct parcel_room){d->staging + d->staging_used, d->staged + d->staging_used, n_bytes};
    d->staging_used = round_up(d->staging_used + n_bytes, STAGING_ALIGN);
    return OK;
}

fault staging_send(struct device *d, struct parcel_room room)
{
    return CU(&d->driver, cuMemcpyHtoDAsync, room.device, room.host, room.n_bytes, d->stream);
}
