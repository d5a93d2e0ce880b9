/* pool.c - one job at a time over threads that spin briefly, then sleep on a futex.
 *
 *   pool_run:  write the job -> set the lanes to (generation, pieces left) -> publish the generation -> work -> wait
 *   worker:    see a generation -> read the job -> claim pieces from its lane, then from the others -> wait
 *
 * A piece is claimed by compare-and-swap on (generation, pieces left) in one word, so a worker that slept through a
 * whole job finds the generation moved on and claims nothing: no other has to wait for it.
 */
#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"

enum { CACHE_LINE = 64, SPINS = 1500, MOST_WORKERS = 1024 };

struct lane {
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket; /* generation << 32 | pieces left */
};

struct pool {
    _Alignas(CACHE_LINE) _Atomic uint32_t generation;
    _Atomic uint32_t sleepers;
    _Alignas(CACHE_LINE) _Atomic uint32_t undone; /* pieces of this job not yet finished */
    _Atomic uint32_t caller_sleeps;
    pool_task *_Atomic task;
    void *_Atomic ctx;
    _Atomic uint32_t n;
    _Atomic bool quit;
    int n_workers;
    struct worker {
        struct pool *pool;
        pthread_t thread;
        int index;
    } * workers;        /* owned; workers[0] is the caller and has no thread */
    struct lane *lanes; /* owned */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Where the pieces of a lane begin. */
static size_t lane_first(const struct pool *p, uint64_t n, int lane)
{
    return (size_t)(n * (uint64_t)lane / (uint64_t)p->n_workers);
}

/* Runs what is left of one lane; false when the job of this generation is over. The job is read only after a piece of it
 * was claimed: from then on it cannot end, and so not change, before that piece is done. */
static bool work_on_lane(struct pool *p, int lane, uint32_t generation, int worker)
{
    _Atomic uint64_t *ticket = &p->lanes[lane].ticket;
    uint64_t t = atomic_load_explicit(ticket, memory_order_acquire);
    for (;;) {
        if ((uint32_t)(t >> 32) != generation)
            return false;
        uint32_t left = (uint32_t)t;
        if (left == 0)
            return true;
        if (!atomic_compare_exchange_weak_explicit(ticket, &t, t - 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        uint64_t n = atomic_load_explicit(&p->n, memory_order_relaxed);
        pool_task *task = atomic_load_explicit(&p->task, memory_order_relaxed);
        task(atomic_load_explicit(&p->ctx, memory_order_relaxed), lane_first(p, n, lane + 1) - left, worker);
        if (atomic_fetch_sub_explicit(&p->undone, 1, memory_order_seq_cst) == 1 &&
            atomic_load_explicit(&p->caller_sleeps, memory_order_seq_cst))
            futex_wake_all(&p->undone);
        t = atomic_load_explicit(ticket, memory_order_acquire);
    }
}

static void work(struct pool *p, uint32_t generation, int worker)
{
    for (int i = 0; i < p->n_workers; i++)
        if (!work_on_lane(p, (worker + i) % p->n_workers, generation, worker))
            return;
}

static uint32_t next_generation(struct pool *p, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t g = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (g != seen)
            return g;
        pause_briefly();
    }
    atomic_fetch_add(&p->sleepers, 1);
    uint32_t g;
    while ((g = atomic_load(&p->generation)) == seen)
        futex_wait(&p->generation, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return g;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    uint32_t seen = 0;
    for (;;) {
        seen = next_generation(w->pool, seen);
        if (atomic_load_explicit(&w->pool->quit, memory_order_relaxed))
            return NULL;
        work(w->pool, seen, w->index);
    }
}

static void wait_for_all(struct pool *p)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->undone, memory_order_acquire) == 0)
            return;
        pause_briefly();
    }
    atomic_store(&p->caller_sleeps, 1);
    uint32_t left;
    while ((left = atomic_load(&p->undone)) != 0)
        futex_wait(&p->undone, left);
    atomic_store(&p->caller_sleeps, 0);
}

static void publish(struct pool *p, uint32_t generation)
{
    atomic_store(&p->generation, generation);
    if (atomic_load(&p->sleepers))
        futex_wake_all(&p->generation);
}

void pool_run(struct pool *p, size_t n, pool_task *task, void *ctx)
{
    if (n == 0)
        return;
    if (p->n_workers == 1 || n == 1) {
        for (size_t i = 0; i < n; i++)
            task(ctx, i, 0);
        return;
    }
    uint32_t generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->task, task, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->n, (uint32_t)n, memory_order_relaxed);
    atomic_store_explicit(&p->undone, (uint32_t)n, memory_order_relaxed);
    for (int i = 0; i < p->n_workers; i++) {
        uint64_t left = lane_first(p, n, i + 1) - lane_first(p, n, i);
        atomic_store_explicit(&p->lanes[i].ticket, (uint64_t)generation << 32 | left, memory_order_release);
    }
    publish(p, generation);
    work(p, generation, 0);
    wait_for_all(p);
}

int pool_size(const struct pool *p)
{
    return p->n_workers;
}

static void stop_workers(struct pool *p, int n_started)
{
    atomic_store_explicit(&p->quit, true, memory_order_relaxed);
    publish(p, atomic_load(&p->generation) + 1);
    for (int i = 1; i < n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
}

static void pool_free(struct pool *p)
{
    free(p->workers);
    free(p->lanes);
    free(p);
}

fault pool_open(int n_workers, struct pool **out)
{
    if (n_workers == 0)
        n_workers = pool_cores();
    if (n_workers < 1 || n_workers > MOST_WORKERS)
        return FAIL(FAULT_USAGE, "%d worker threads were asked for; 1 to %d are possible", n_workers, MOST_WORKERS);
    struct pool *p = aligned_alloc(CACHE_LINE, sizeof *p);
    if (!p)
        return OUT_OF_MEMORY;
    *p = (struct pool){.n_workers = n_workers};
    p->workers = calloc((size_t)n_workers, sizeof *p->workers);
    p->lanes = aligned_alloc(CACHE_LINE, sizeof *p->lanes * (size_t)n_workers);
    if (!p->workers || !p->lanes) {
        pool_free(p);
        return OUT_OF_MEMORY;
    }
    for (int i = 0; i < n_workers; i++)
        atomic_init(&p->lanes[i].ticket, 0);
    for (int i = 1; i < n_workers; i++) {
        p->workers[i] = (struct worker){.pool = p, .index = i};
        int error = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (error) {
            stop_workers(p, i);
            pool_free(p);
            return FAIL(FAULT_MEMORY, "worker thread %d of %d does not start (error %d)", i, n_workers, error);
        }
    }
    *out = p;
    return OK;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    stop_workers(p, p->n_workers);
    pool_free(p);
}
