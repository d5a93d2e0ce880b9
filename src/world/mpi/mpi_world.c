/* mpi_world.c - the world `mpi`: one agent per rank. */
#include "world/mpi/mpi_world.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

void mpi_library(char *into, size_t n)
{
    char words[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;

    MPI_Get_library_version(words, &length);
    words[strcspn(words, "\n,")] = 0;
    snprintf(into, n, "%s", words);
}
