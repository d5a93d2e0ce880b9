/* mpi_world.h - the world `mpi`: one agent in each process that mpirun or srun has started. It is a far world (far/far.h), and this
 * folder is all that knows MPI: mpi.h stays inside.
 *
 * Plain MPI ends a job when a process dies: mpirun or srun does so, and the run goes on from its last checkpoint. A process that stalls
 * ends it, too, after patience, and is named (far/silence.c).
 */
#ifndef VECHE_WORLD_MPI_MPI_WORLD_H
#define VECHE_WORLD_MPI_MPI_WORLD_H

#include "world/world.h"

extern const struct world_door mpi_door;

#endif
