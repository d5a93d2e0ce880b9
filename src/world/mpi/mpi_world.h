/* mpi_world.h - the world `mpi`: one agent in each process that mpirun or srun has started.
 *
 *   join -> (open all an experiment names) -> agree that all could -> open -> [restore] -> play -> look -> close
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

/* The library's own words about itself, e.g. "Open MPI v4.1.4"; at most n bytes with the final zero. */
void mpi_library(char *into, size_t n);

/* Where this process sits. */
struct mpi_seat {
    size_t rank, n_ranks;
    size_t here;       /* how many ranks before this one sit on the same machine */
    int threads;       /* what is its own of the machine's cores; 1 or more */
    bool oversubscribed; /* there are more ranks than cores here, so nobody may spin */
};

/* Starts MPI (once in a process; it is ended when the process is), and takes a seat among all ranks, who call this together,
 * or one with nobody beside it. */
fault mpi_join(bool alone, struct mpi_seat *out);
/* Before that, where somebody will wait in calls of the MPI (mpi_sum_at_once): it gives cores away where ranks outnumber them. */
void mpi_will_wait_in_calls(void);
/* How many processes a launcher has started, as it says in the environment; 1 where there is none. */
size_t mpi_launched(void);
bool mpi_has_launcher(void);

/* All ranks call each of these together. Nobody waits longer than so many seconds for the others. */

/* `mine` is taken. Where somebody has a fault everyone gets one: the leader its sentence, and whose it is; the others
 * FAULT_ELSEWHERE. */
fault mpi_agree(const struct mpi_seat *seat, fault mine, double patience_s);
/* A fault that names the first rank whose text differs from the leader's: "has another data set". */
fault mpi_compare(const struct mpi_seat *seat, const char *what, const char *mine, double patience_s);
/* The largest of all. */
fault mpi_largest(const struct mpi_seat *seat, uint64_t mine, double patience_s, uint64_t *out);
/* n bytes of everyone to everyone: *out, a pointer of any type, is to those of rank 0, 1, ...; the caller frees. */
fault mpi_gather(const struct mpi_seat *seat, const void *mine, size_t n, double patience_s, void *out);
/* The leader's text to everyone; the caller frees. */
fault mpi_spread_text(const struct mpi_seat *seat, char **text, double patience_s);

/* Agents are borrowed; that of this rank gets its link. The engine has this rank's row as replica 0,
 * a second replica where mpi_replicas says so, and MPI_SPARE_ROWS. */
enum { MPI_SPARE_ROWS = 2 };
size_t mpi_replicas(const struct experiment *e);
fault mpi_open(const struct mpi_seat *seat, const struct stage *stage, struct agent *agents, struct engine *engine,
               struct watcher watcher, struct world **out);

/* For comparisons: the MPI's own all-reduce of any memory, as one call in which everyone waits. */
void mpi_sum_at_once(struct link *l, float *floats, size_t n);

#endif
