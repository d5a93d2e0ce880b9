/* lesson.c - the thread that computes, or waits for a disk, so that the other one can look after what travels.
 *
 * The main thread gives it a job and goes on; the engine says how much of the gradient is ready, and the main thread
 * reads that much and no more. At any time one of them uses the engine: while a lesson runs the main thread adds up rows
 * by itself (host_blend).
 *
 * A job is given through a pipe, since Linux takes who writes into one for about to wait, which it is: the thread gets the core of
 * the one that wakes it, or an idle one. One that is woken in other ways goes where it ran before; where ranks and their threads
 * outnumber cores that was, time and again, behind the lesson of another rank, with a core idle beside it.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plain.h"
#include "world/far/inside.h"

static bool is_wanted(struct lessons *l)
{
    size_t wanted = atomic_load(&l->wanted);
    return wanted && atomic_load(&l->ready) <= wanted;
}

/* Called by the engine, from the thread that computes, for every layer: the other one is woken only for what it waits for. */
static void gradient_is_ready(void *ctx, size_t first)
{
    struct lessons *l = ctx;
    atomic_store(&l->ready, first);
    if (!is_wanted(l))
        return;
    bell_ring(l->bell);
}

static fault do_task(struct lessons *l)
{
    PLAIN_NUMBERS; /* as in the thread that asked */
    return l->task(l->task_ctx);
}

static fault do_job(struct far *w)
{
    struct lessons *l = &w->lessons;
    switch (l->job) {
    case JOB_LEARN:
        return w->engine->ops->learn(w->engine, &l->lesson, 1);
    case JOB_EXAM:
        return w->engine->ops->examine(w->engine, &l->exam, 1);
    default:
        return do_task(l);
    }
}

/* False: there will be none any more. */
static bool await_job(const struct lessons *l)
{
    char job;
    ssize_t n;
    do
        n = read(l->jobs[0], &job, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static void answer(struct lessons *l, fault f)
{
    pthread_mutex_lock(&l->lock);
    l->verdict = f;
    l->is_answered = true;
    pthread_mutex_unlock(&l->lock);
    bell_ring(l->bell);
}

static void *compute(void *arg)
{
    struct far *w = arg;
    struct lessons *l = &w->lessons;
    while (await_job(l))
        answer(l, do_job(w));
    return NULL;
}

static void give(struct lessons *l)
{
    l->is_running = true;
    pthread_mutex_lock(&l->lock);
    l->is_answered = false;
    pthread_mutex_unlock(&l->lock);
    if (write(l->jobs[1], "", 1) != 1)
        answer(l, FAIL(FAULT_FILE, "a job cannot be given to the thread for lessons: %s", strerror(errno)));
}

void lesson_begin(struct far *w, uint64_t number)
{
    struct lessons *l = &w->lessons;
    l->job = JOB_LEARN;
    l->number = number;
    l->lesson = (struct lesson){
        .replica = w->keeps_copy, .picks = l->picks, .ready = gradient_is_ready, .ready_ctx = l};
    agent_prepare(w->agent, number, l->picks, &l->lesson.seed);
    atomic_store(&l->ready, TO_END);
    give(l);
}

void exam_begin(struct far *w, const struct exam *exam, uint64_t look)
{
    w->lessons.job = JOB_EXAM;
    w->lessons.exam = *exam;
    w->lessons.look = look;
    give(&w->lessons);
}

bool lessons_are_over(const struct far *w, const void *ctx)
{
    (void)ctx;
    return lessons_job_is_over((struct far *)w);
}

/* Even where the run is broken off meanwhile the task is waited for: what it writes is the caller's. */
fault lessons_do_aside(struct far *w, fault (*task)(void *ctx), void *ctx)
{
    struct lessons *l = &w->lessons;
    l->job = JOB_TASK;
    l->task = task;
    l->task_ctx = ctx;
    give(l);
    fault_drop(wait_for_members(w, lessons_are_over, NULL));
    while (!lessons_job_is_over(w))
        bell_sleep(w, bell_heard(w), 0.01);
    return lessons_take_verdict(w);
}

fault lessons_take_verdict(struct far *w)
{
    fault f = w->lessons.verdict;
    w->lessons.verdict = OK;
    return f;
}

bool lessons_are_computing(struct far *w)
{
    struct lessons *l = &w->lessons;
    pthread_mutex_lock(&l->lock);
    bool answered = l->is_answered;
    pthread_mutex_unlock(&l->lock);
    return l->is_running && !answered;
}

bool lessons_job_is_over(struct far *w)
{
    struct lessons *l = &w->lessons;
    if (!l->is_running)
        return true;
    pthread_mutex_lock(&l->lock);
    bool over = l->is_answered;
    pthread_mutex_unlock(&l->lock);
    if (!over)
        return false;
    l->is_running = false;
    l->ended_s = far_now_s(w);
    return true;
}

/* While the engine computes the main thread looks round so often for what does not ring; where nothing comes more and more
 * seldom, since every look takes the core from the engine. */
#define LEAST_NAP_S 2e-4
#define MOST_NAP_S  1e-3

void lessons_expect_traffic(struct far *w)
{
    w->lessons.nap_s = LEAST_NAP_S;
}

double lessons_nap_s(struct far *w)
{
    struct lessons *l = &w->lessons;
    double nap_s = l->nap_s;
    l->nap_s = fmin(1.25 * nap_s, MOST_NAP_S);
    return nap_s;
}

static void copy_floats(float *to, const float *from, size_t n)
{
    if (n) /* of no floats there is no place */
        memcpy(to, from, n * sizeof *to);
}

/* A lesson whose outcome is thrown away, on rows that are afterwards what they were. */
static fault learn_for_nothing(struct far *w, float *stats, float *grads)
{
    size_t replica = w->keeps_copy, n_stats = floats_of(w, ROW_STATS), n_grads = floats_of(w, ROW_GRADS);
    float *stats_now = w->engine->ops->floats(w->engine, ROW_STATS, replica);
    float *grads_now = w->engine->ops->floats(w->engine, ROW_GRADS, replica);
    copy_floats(stats, stats_now, n_stats);
    copy_floats(grads, grads_now, n_grads);
    lesson_begin(w, w->agent->lessons);
    TRY(wait_for_members(w, lessons_are_over, NULL));
    fault f = lessons_take_verdict(w);
    copy_floats(stats_now, stats, n_stats);
    copy_floats(grads_now, grads, n_grads);
    return f;
}

fault lessons_warm_up(struct far *w)
{
    if (agent_helps(w->agent))
        return OK;
    float *stats = malloc((floats_of(w, ROW_STATS) + 1) * sizeof *stats);
    float *grads = malloc((floats_of(w, ROW_GRADS) + 1) * sizeof *grads);
    fault f = stats && grads ? learn_for_nothing(w, stats, grads) : OUT_OF_MEMORY;
    free(stats);
    free(grads);
    return f;
}

fault lessons_open(struct far *w)
{
    struct lessons *l = &w->lessons;
    l->picks = calloc(w->engine->setup.batch, sizeof *l->picks);
    if (!l->picks)
        return OUT_OF_MEMORY;
    lessons_expect_traffic(w);
    pthread_mutex_init(&l->lock, NULL);
    l->bell = w->bell;
    if (pipe2(l->jobs, O_CLOEXEC) != 0)
        return FAIL(FAULT_FILE, "a thread for lessons cannot be made: %s", strerror(errno));
    int wrong = pthread_create(&l->thread, NULL, compute, w);
    l->is_open = wrong == 0;
    if (l->is_open)
        return OK;
    close(l->jobs[0]);
    close(l->jobs[1]);
    return FAIL(FAULT_MEMORY, "a thread for lessons cannot be made (%s)", wrong == EAGAIN ? "too many" : "refused");
}

void lessons_close(struct far *w)
{
    struct lessons *l = &w->lessons;
    if (l->is_open) {
        close(l->jobs[1]);
        pthread_join(l->thread, NULL);
        close(l->jobs[0]);
        pthread_mutex_destroy(&l->lock);
    }
    fault_drop(l->verdict);
    free(l->picks);
}
