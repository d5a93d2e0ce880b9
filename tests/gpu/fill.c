/* fill.c - takes a GPU's memory but for so many MiB, says so, and keeps it until its input ends: for real.sh.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/cuda/driver.h"

static size_t unused(const struct driver *d)
{
    size_t bytes = 0, all;
    d->cuMemGetInfo(&bytes, &all);
    return bytes;
}

static fault fill(struct driver *d, size_t left)
{
    CUdeviceptr memory;
    TRY(driver_open(d, 0));
    TRY(driver_enter(d));
    for (size_t piece = unused(d); piece >= 1 << 20; piece /= 2)
        while (unused(d) >= left + piece && d->cuMemAlloc(&memory, piece) == CUDA_SUCCESS)
            ;
    return OK;
}

int main(int argc, char **argv)
{
    struct driver d;
    fault f = fill(&d, (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) << 20);
    if (f) {
        fprintf(stderr, "%s\n", fault_text(f));
        return 1;
    }
    puts("full");
    fflush(stdout);
    return getchar() != EOF; /* the memory goes with the process */
}
