/* pool.h - worker threads that share out the pieces of one job at a time.
 *
 * The calling thread is worker 0 and works too. Every worker begins with its own stretch of the pieces and then helps
 * the others, so a worker that the system took off its core delays nothing but the piece it holds. Waiting spins for
 * some microseconds and then sleeps: a busy neighbour on the machine is left in peace.
 *
 * Which worker runs a piece is left to chance; what the piece computes must not depend on it.
 */
#ifndef VECHE_BASE_POOL_H
#define VECHE_BASE_POOL_H

#include <stddef.h>

#include "base/fault.h"

struct pool;
typedef void pool_task(void *ctx, size_t piece, int worker);

/* n_workers includes the caller; 0 means one for each core this process may use. */
fault pool_open(int n_workers, struct pool **out);
void pool_close(struct pool *p);
int pool_size(const struct pool *p);

/* Runs task(ctx, 0 .. n-1) and returns when all are done. One job at a time, not from inside a task. */
void pool_run(struct pool *p, size_t n, pool_task *task, void *ctx);

int pool_cores(void);

#endif
