/* fetch.c - rows of ranks on this machine, read where they lie.
 *
 *   sender: a head that offers its rows -->  receiver: in the mail, nothing has moved yet
 *                                            mix: adds the sender's floats to its own, or copies them
 *   may write its rows again  <------------  "fetched", when the parcel is let go
 *
 * An engine's rows are in memory that has a file, though no name: a process that may look at another's open files can map it.
 * At the start every rank tries to map the rows of all others on its machine, and offers go only to those who could. A
 * message then costs no copy at all, where a transport needs one or two.
 *
 * No member may wait for long beside an offer, or two that each wait to write what the other has not yet read would wait
 * for ever: one that has waited for as long as fetching takes fetches into memory of its own all that was offered to it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "world/far/inside.h"

/* ---- maps ---- */

/* The kernel that runs here: names of machines may be alike. */
static void read_boot(char boot[40])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, boot, 36);
    boot[n < 0 ? 0 : n] = 0;
    if (file >= 0)
        close(file);
}

struct address address_of(const struct block *b)
{
    struct address p = {.pid = getpid(), .file = -1};
    struct stat s;
    read_boot(p.boot);
    if (!b || !b->is_shared || !p.boot[0] || fstat(b->file, &s) != 0)
        return p;
    p.file = b->file;
    p.device = s.st_dev;
    p.inode = s.st_ino;
    p.n_bytes = b->n_bytes;
    return p;
}

/* Where processes are numbered apart, in containers say, that number is another's: the file tells. */
static void *map(const struct address *p, int protection)
{
    char path[64];
    struct stat s;
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)p->pid, (int)p->file);
    int file = open(path, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    void *bytes = MAP_FAILED;
    if (file >= 0 && fstat(file, &s) == 0 && s.st_dev == p->device && s.st_ino == p->inode)
        bytes = mmap(NULL, p->n_bytes, protection, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    return bytes == MAP_FAILED ? NULL : bytes;
}

void *address_seen_from(const struct address *mine, const struct address *theirs, int protection)
{
    bool are_near = mine->file >= 0 && theirs->file >= 0 && strcmp(mine->boot, theirs->boot) == 0;
    return are_near && mine->n_bytes == theirs->n_bytes ? map(theirs, protection) : NULL;
}

void fetch_forget_rows(struct far *w)
{
    for (size_t i = 0; w->peers && i < w->n; i++)
        if (w->peers[i].rows)
            munmap((void *)w->peers[i].rows, w->engine->shared->n_bytes);
}

const float *offer_row(const struct far *w, const struct incoming *m, enum row row)
{
    const struct places *places = (const struct places *)(const void *)m->bytes;
    return (const float *)(const void *)(w->peers[m->from].rows + places->at[row]);
}

/* ---- offers ---- */

/* What fits into a head goes with it. A network that is slower than the real one is made of messages that are late. */
bool offer_is_possible(const struct far *w, size_t to, size_t n_bytes)
{
    struct wire wire = network_wire(&w->stage->experiment->network, w->link.self, to);
    return w->peers[to].sees_my_rows && n_bytes > INLINE_BYTES && wire.bytes_per_s <= 0 &&
           wire.latency_s <= 0;
}

static void take_from_hand(struct far *w, const struct incoming *m)
{
    struct incoming **at = &w->in_hand;
    while (*at && *at != m)
        at = &(*at)->next_in_hand;
    if (*at)
        *at = m->next_in_hand;
}

void offer_is_over(struct far *w, struct incoming *m)
{
    take_from_hand(w, m);
    far_tell(w, m->from, MSG_FETCHED, m->head.offer, NULL, 0);
    m->head.offer = 0;
}

static void fetch(struct far *w, struct incoming *m)
{
    size_t room;
    unsigned char *bytes = m->head.offer ? message_take_bytes(w, (size_t)m->head.n_bytes, &room) : NULL,
                  *at = bytes;
    if (!m->head.offer)
        return;
    if (!bytes) {
        wait_break_off(w, OUT_OF_MEMORY);
        return;
    }
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
        size_t n = packet_floats_in_row(&w->bounds, packet_span(&m->head), row) * sizeof(float);
        if (n)
            memcpy(at, offer_row(w, m, row) + m->head.first, n);
        at += n;
    }
    message_give_bytes(w, m->bytes, m->room);
    m->bytes = bytes;
    m->room = room;
    offer_is_over(w, m);
}

/* About what a core copies in a second. */
#define COPIED_BYTES_PER_S 1e10

double fetch_takes_s(const struct far *w)
{
    double n_bytes = 0;
    for (const struct incoming *m = w->in_hand; m; m = m->next_in_hand)
        n_bytes += (double)m->head.n_bytes;
    for (const struct incoming *m = w->mail; m; m = m->next)
        n_bytes += m->head.offer ? (double)m->head.n_bytes : 0;
    return n_bytes / COPIED_BYTES_PER_S;
}

void fetch_everything(struct far *w)
{
    while (w->in_hand && !w->broken)
        fetch(w, w->in_hand);
    for (struct incoming *m = w->mail; m && !w->broken; m = m->next)
        fetch(w, m);
}
