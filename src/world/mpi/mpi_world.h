/* mpi_world.h - the world `mpi`: one agent per rank. What the rest of the program may know of it; mpi.h stays inside. */
#ifndef VECHE_WORLD_MPI_MPI_WORLD_H
#define VECHE_WORLD_MPI_MPI_WORLD_H

#include <stddef.h>

/* The library's own words about itself, e.g. "Open MPI v4.1.4"; at most n bytes with the final zero. */
void mpi_library(char *into, size_t n);

#endif
