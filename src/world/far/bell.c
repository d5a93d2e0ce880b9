/* bell.c - wakes a rank that sleeps, without its having to look round.
 *
 *   sleeper:  heard = rings;  looks round;  nothing: sleeps for a nap, or until rings != heard
 *   ringer:   has sent something, or computed it;  rings + 1;  who sleeps is woken
 *
 * Its own engine rings, and so do the ranks of the same machine, which map the bell as they map rows (fetch.c). Ranks of other
 * machines cannot, nor does a transport ring when it has moved a part of something long: where any of that is under way naps stay short.
 *
 * That rows were read where they lie is news for those who wait to write them. Others are not woken for it: where ranks outnumber cores a
 * rank that wakes up for nothing stands in the way of one that has something to do.
 */
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "world/far/inside.h"

struct bell { /* in memory that all ranks of a machine see */
    _Atomic uint32_t rings;
    _Atomic uint32_t sleeps; /* whose bell it is */
    _Atomic uint32_t awaits_readers;
};

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "the kernel looks at a plain number");

fault bell_open(struct far *w)
{
    TRY(block_open_shared(sizeof(struct bell), &w->bell_memory));
    w->bell = w->bell_memory.bytes;
    return OK;
}

void bell_close(struct far *w)
{
    for (size_t i = 0; w->peers && i < w->n; i++)
        if (w->peers[i].bell) {
            munmap(w->peers[i].bell, w->bell_memory.n_bytes);
            w->peers[i].bell = NULL;
        }
    block_close(&w->bell_memory);
}

uint32_t bell_heard(const struct far *w)
{
    return atomic_load(&w->bell->rings);
}

void bell_ring(struct bell *b)
{
    if (!b)
        return;
    atomic_fetch_add(&b->rings, 1);
    if (atomic_load(&b->sleeps))
        syscall(SYS_futex, &b->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void bell_ring_of_reading(struct bell *b)
{
    atomic_thread_fence(memory_order_seq_cst); /* the word was sent before one looks whether it is awaited */
    if (b && atomic_load(&b->awaits_readers))
        bell_ring(b);
}

bool bell_await_readers(struct far *w, bool awaits)
{
    return !atomic_exchange(&w->bell->awaits_readers, awaits) && awaits;
}

void bell_sleep(struct far *w, uint32_t heard, double most_s)
{
    struct bell *b = w->bell;
    struct timespec nap = {(time_t)most_s, (long)((most_s - (double)(time_t)most_s) * 1e9)};
    atomic_store(&b->sleeps, 1);
    if (atomic_load(&b->rings) == heard)
        syscall(SYS_futex, &b->rings, FUTEX_WAIT, heard, &nap, NULL, 0);
    atomic_store(&b->sleeps, 0);
}
