/* store.h - the replicas' rows in device memory, and arithmetic on them.
 *
 * Replicas' rows are taken at once; spare ones in handfuls, when they are first named. Tables for a kernel go
 * through pinned memory that is used round and round; the stream is waited for only when it has been used up.
 */
#ifndef VECHE_ENGINE_CUDA_STORE_H
#define VECHE_ENGINE_CUDA_STORE_H

#include "engine/cuda/call.h"
#include "engine/cuda/kernels.h"
#include "engine/engine.h"

enum { STAGING_BYTES = 4 << 20 };

struct device { /* what every part of the engine works with */
    struct driver driver;
    struct kernels kernels;
    CUstream stream;
    char *staging;      /* owned, pinned: STAGING_BYTES */
    CUdeviceptr staged; /* owned: the same on the device */
    size_t staging_used;
};

fault device_open(struct device *d, size_t number);
void device_close(struct device *d);
fault device_wait(struct device *d);

/* Room for n bytes on both sides; fill it, then send it. n is at most STAGING_BYTES. */
struct parcel_room {
    void *host;
    CUdeviceptr device;
    size_t n_bytes;
};
fault staging_take(struct device *d, size_t n_bytes, struct parcel_room *out);
fault staging_send(struct device *d, struct parcel_room room);

struct store {
    struct device *device;            /* borrowed */
    const struct engine_setup *setup; /* borrowed */
    size_t stride[N_ROWS];            /* floats */
    CUdeviceptr of_replicas[N_ROWS];
    CUdeviceptr *spare[N_ROWS]; /* owned: handfuls, 0 where not yet taken */
    size_t n_bytes;             /* of the replicas' rows */
};

fault store_open(struct store *s, struct device *device, const struct engine_setup *setup);
void store_close(struct store *s);

/* Where a row lies; a spare row starts as zeros. */
fault store_find(struct store *s, enum row row, size_t i, float **out);

fault store_update(struct store *s, const struct update *updates, size_t n);
fault store_mix(struct store *s, const struct blend *blends, size_t n);
fault store_read(struct store *s, enum row row, size_t i, float *floats);
fault store_write(struct store *s, enum row row, size_t i, const float *floats);

#endif
