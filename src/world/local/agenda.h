/* agenda.h - what will happen when: a heap of moments on the virtual clock.
 *
 * Of two things at the same moment the one entered first happens first, so that the order of everything
 * follows from the experiment alone.
 */
#ifndef VECHE_WORLD_LOCAL_AGENDA_H
#define VECHE_WORLD_LOCAL_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

struct moment {
    double at_s;
    uint64_t number; /* the agenda's own, by order of entry */
    int kind;        /* the caller's */
    uint32_t who, whom;
    uint64_t ticket; /* the caller's: which wait of `who` this belongs to */
    void *what;      /* borrowed */
};

struct agenda {
    struct moment *heap; /* owned */
    size_t n, room;
    uint64_t entered;
};

void agenda_release(struct agenda *a);
fault agenda_add(struct agenda *a, struct moment m);
struct moment agenda_take(struct agenda *a);

static inline bool agenda_is_empty(const struct agenda *a)
{
    return a->n == 0;
}

static inline const struct moment *agenda_first(const struct agenda *a) /* not of an empty one */
{
    return &a->heap[0];
}

#endif
