/* kinds.c - the worlds one may name. */
#include "world/world.h"

static const struct kind rows[] = {
    {.name = "local", .help = "all agents in this process, on a virtual clock"},
    {.name = "mpi",
     .help = "an agent for each process that mpirun or srun has started",
#ifndef VECHE_HAS_MPI
     .missing = "built without MPI",
#endif
    },
};

const struct kinds world_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};
