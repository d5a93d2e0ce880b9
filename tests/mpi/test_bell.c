/* A rank that sleeps is woken by its own engine's thread and by every rank of its machine. A nap is so long here that a ring
 * that is missed fails the test by its time limit. */
#include <pthread.h>
#include <time.h>

#include "mpi/crew.h"

#define TOO_LONG_S 1000.0

static fault ring_before_sleeping(struct agent *a)
{
    struct far *w = far_of(a->link);
    uint32_t heard = bell_heard(w);
    bell_ring(w->bell);
    CHECK(bell_heard(w) != heard); /* others may have rung, too */
    bell_sleep(w, heard, TOO_LONG_S);
    return OK;
}

static void who_was_rung_for_while_it_looked_round_does_not_sleep(void **state)
{
    (void)state;
    crew_run(ring_before_sleeping, "");
}

/* Round and round: each is woken by the one before it, and wakes the next. */
static fault pass_it_on(struct agent *a)
{
    struct far *w = far_of(a->link);
    fault f = OK;
    CHECK(w->all_ring);
    for (size_t i = 0; i < w->n; i++)
        CHECK(i == w->link.self || w->peers[i].bell);
    for (uint64_t k = 0; !f && k < 200; k++) {
        uint64_t word = k;
        f = a->index == 0 ? link_send(a->link, after(a), k, &word, sizeof word) : OK;
        if (!f)
            f = link_recv(a->link, before(a), k, &word, sizeof word, NULL);
        if (!f && a->index != 0)
            f = link_send(a->link, after(a), k, &word, sizeof word);
    }
    return f;
}

static void every_rank_of_a_machine_rings_and_is_rung(void **state)
{
    (void)state;
    crew_run(pass_it_on, "");
}

static void *ring_later(void *bell)
{
    for (int i = 0; i < 100; i++) {
        nanosleep(&(struct timespec){0, 100000}, NULL);
        bell_ring(bell);
    }
    return NULL;
}

static fault sleep_beside_a_thread(struct agent *a)
{
    struct far *w = far_of(a->link);
    pthread_t thread;
    uint32_t first = bell_heard(w), heard = first;
    CHECK(pthread_create(&thread, NULL, ring_later, w->bell) == 0);
    while (heard < first + 100) {
        bell_sleep(w, heard, TOO_LONG_S);
        heard = bell_heard(w);
    }
    pthread_join(thread, NULL);
    return OK;
}

static void a_sleeper_is_woken_by_a_thread_beside_it(void **state)
{
    (void)state;
    crew_run(sleep_beside_a_thread, "");
}

/* Messages on a network that is only pretended come when they are due, and nobody rings then. */
static fault be_rung_by_nobody(struct agent *a)
{
    CHECK(!far_of(a->link)->all_ring);
    return OK;
}

static void where_messages_are_late_naps_stay_short(void **state)
{
    (void)state;
    crew_run(be_rung_by_nobody, "network: {latency_ms: 1}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_rung_for_while_it_looked_round_does_not_sleep),
        cmocka_unit_test(every_rank_of_a_machine_rings_and_is_rung),
        cmocka_unit_test(a_sleeper_is_woken_by_a_thread_beside_it),
        crew_test(2, where_messages_are_late_naps_stay_short),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
