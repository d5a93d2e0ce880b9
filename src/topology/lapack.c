/* lapack.c - LAPACK by its name, and only where there is room for it.
 *
 * OpenBLAS asks for memory again and again, without end, where `ulimit -v` leaves none. So it is asked first
 * how much there is.
 */
#include "topology/lapack.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/pool.h"

static const char LIBRARY[] = "liblapacke.so.3";

/* Of address space, in MiB: to load any BLAS, for a thread that it starts, and what OpenBLAS takes for each
 * when it computes. */
enum { TO_LOAD = 208, FOR_THREAD = 12, TO_COMPUTE = 32, FOR_BUFFER = 132 };

/* MiB that `ulimit -v` leaves. */
static size_t address_space_left(void)
{
    struct rlimit limit;
    unsigned long long pages = 0;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    FILE *file = fopen("/proc/self/statm", "re");
    bool known = file && fscanf(file, "%llu", &pages) == 1;
    if (file)
        fclose(file);
    unsigned long long taken = pages * (unsigned long long)sysconf(_SC_PAGESIZE);
    if (!known)
        return SIZE_MAX;
    return taken < limit.rlim_cur ? (size_t)((limit.rlim_cur - taken) >> 20) : 0;
}

static fault need_address_space(size_t wanted)
{
    size_t left = address_space_left();
    if (left >= wanted)
        return OK;
    return FAIL(FAULT_MEMORY,
                "eigenvalues of graphs need LAPACK, which may take %zu MiB of address space here, and the "
                "limit (ulimit -v) leaves %zu",
                wanted, left);
}

static fault check_room_to_compute(void *library)
{
    int (*threads)(void) = NULL;
    void *found = dlsym(library, "openblas_get_num_threads");
    memcpy(&threads, &found, sizeof threads);
    return threads ? need_address_space(TO_COMPUTE + FOR_BUFFER * (size_t)threads()) : OK;
}

static fault find(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    if (!found)
        return FAIL(FAULT_FILE, "%s: has no %s", LIBRARY, name);
    memcpy(out, &found, sizeof found);
    return OK;
}

static fault find_all(void *library, struct lapack *out)
{
    TRY(find(library, "LAPACKE_dsyevd", &out->dsyevd));
    TRY(find(library, "LAPACKE_dpotrf", &out->dpotrf));
    TRY(find(library, "LAPACKE_dpotri", &out->dpotri));
    return find(library, "LAPACKE_dposv", &out->dposv);
}

/* Where there is no room to compute it goes again, so that whoever asks next is told the same. */
static fault load(void **out)
{
    TRY(need_address_space(TO_LOAD + FOR_THREAD * (size_t)pool_cores()));
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return FAIL(FAULT_FILE,
                    "eigenvalues of graphs need LAPACK, and it cannot be opened: %s; install liblapacke",
                    dlerror());
    fault f = check_room_to_compute(library);
    if (f)
        dlclose(library);
    else
        *out = library;
    return f;
}

/* What was found stays until the program ends. */
fault lapack_open(struct lapack *out)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library)
        TRY(load(&library));
    return find_all(library, out);
}
