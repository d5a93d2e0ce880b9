/* kinds.c - the worlds one may name, and their doors. */
#include <string.h>

#include "world/local/local.h"
#include "world/world.h"
#ifdef VECHE_HAS_MPI
#include "world/mpi/mpi_world.h"
#endif

static const struct kind rows[] = {
    {.name = "local", .help = "all agents in this process, on a virtual clock", .row = &local_door},
    {
        .name = "mpi",
        .help = "an agent for each process that mpirun or srun has started",
#ifdef VECHE_HAS_MPI
        .row = &mpi_door,
#else
        .missing = "built without MPI",
#endif
    },
};

const struct kinds world_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};

const struct world_door *world_named(const char *name)
{
    for (size_t i = 0; i < world_kinds.n; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].row;
    return NULL;
}

const struct world_door *world_launched(size_t *n_processes)
{
    for (size_t i = 0; i < world_kinds.n; i++) {
        const struct world_door *door = rows[i].row;
        size_t n = door && door->launched ? door->launched() : 0;
        if (n) {
            *n_processes = n;
            return door;
        }
    }
    *n_processes = 1;
    return NULL;
}
