/* threads.h - LAPACK on one thread.
 *
 * A BLAS built on OpenMP spins on every core between its many small products, and falls to a hundredth of its
 * speed beside other work. Graphs of this room are small: one thread is as fast, and leaves the machine in
 * peace.
 */
#ifndef VECHE_TOPOLOGY_THREADS_H
#define VECHE_TOPOLOGY_THREADS_H

/* From here on the calling thread's LAPACK works alone; gives the number to hand back. */
int threads_alone(void);
void threads_back(int before);

#endif
