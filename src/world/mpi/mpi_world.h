/* mpi_world.h - the world `mpi`: one agent in each process that mpirun or srun has started.
 *
 * Rank 0 leads: it is told of moments, shows progress, keeps the run's folder, and looks at the others' rows by asking
 * for them. Its agent, as everybody's, lives on the process's main thread, which alone calls MPI; lessons are computed
 * on a second thread, so messages go on travelling while they are. Time is real, and stands still while the leader
 * looks. What the rest of the program may know is here; mpi.h stays inside.
 *
 * Plain MPI ends a job when a process dies: mpirun or srun does so, and the run goes on from its last checkpoint. A
 * process that stalls ends it, too, after patience, and is named (silence.c).
 */
#ifndef VECHE_WORLD_MPI_MPI_WORLD_H
#define VECHE_WORLD_MPI_MPI_WORLD_H

#include "world/world.h"

extern const struct world_door mpi_door;

#endif
