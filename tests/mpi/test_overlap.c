/* Buckets travel while the backward pass goes on: on a slow network less time is lost than where the gradient
 * goes in one piece after it. The lesson here only passes time, and the network is so slow that what a busy
 * machine adds is little beside it. */
#include <time.h>

#include "mpi/crew.h"

/* A lesson of LESSON_MS, in which the gradient becomes ready step by step. Its 30,000 floats take 100 ms on
 * the wire by themselves, and in a ring of m members 200 (m - 1) / m. */
enum { LESSON_MS = 240, LESSON_STEPS = 12, LESSON_ROUNDS = 3 };

static fault learn_slowly(struct engine *e, struct lesson *lesson, size_t n)
{
    size_t size = e->setup.graph->size;
    (void)n;
    for (size_t step = LESSON_STEPS; step-- > 0;) {
        nanosleep(&(struct timespec){0, LESSON_MS / LESSON_STEPS * 1000000}, NULL);
        lesson->ready(lesson->ready_ctx, size * step / LESSON_STEPS);
    }
    lesson->loss = 1;
    return OK;
}

/* The share of this rank's time in which it waited for others. */
static double share_waited(int bucket_kb)
{
    struct crew c;
    char *more = text_of("strategy: {kind: allreduce, algorithm: ring, bucket_kb: %d}\n"
                         "network: {bandwidth_mbps: 9.6, patience_s: 30}\n",
                         bucket_kb);
    crew_open(&c, NULL, more);
    free(more);
    struct engine_ops ops = *c.run->engine->ops;
    ops.learn = learn_slowly;
    c.run->engine->ops = &ops;
    c.run->stage.rounds = LESSON_ROUNDS;
    fault f = crew_play(&c);
    double share = c.world->link.counts.waiting_s / far_now_s(c.world);
    crew_close(&c);
    must(f);
    return share;
}

static void buckets_leave_less_to_wait_for_on_a_slow_network(void **state)
{
    (void)state;
    double whole_gradient, in_buckets;
    uint64_t misses = 1;
    for (int tries = 0; tries < 3 && misses; tries++) { /* a rank may be kept from its core for longer than a lesson takes */
        whole_gradient = share_waited(0);
        in_buckets = share_waited(12);
        must(world_largest(crew_ranks(), !(in_buckets < 0.6 * whole_gradient), 20, &misses));
    }
    if (misses)
        fail_msg("waiting share %.3f with buckets, %.3f without", in_buckets, whole_gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        crew_test(2, buckets_leave_less_to_wait_for_on_a_slow_network),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
