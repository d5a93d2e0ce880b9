#include "world/local/agenda.h"

#include <stdlib.h>

#include "base/arena.h"

void agenda_release(struct agenda *a)
{
    free(a->heap);
    *a = (struct agenda){0};
}

static bool is_before(const struct moment *a, const struct moment *b)
{
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->number < b->number);
}

/* Into the hole at i, or above it. */
static void rise(struct agenda *a, size_t i, const struct moment *m)
{
    while (i > 0 && is_before(m, &a->heap[(i - 1) / 2])) {
        a->heap[i] = a->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    a->heap[i] = *m;
}

fault agenda_add(struct agenda *a, struct moment m)
{
    struct moment *heap = array_with_room(a->heap, &a->room, a->n + 1, sizeof *heap);
    if (!heap)
        return OUT_OF_MEMORY;
    a->heap = heap;
    m.number = a->entered++;
    rise(a, a->n++, &m);
    return OK;
}

/* The hole that the first leaves goes down to a leaf, the earlier child moving up each time; there the last takes its place, which is
 * rarely far above. */
struct moment agenda_take(struct agenda *a)
{
    struct moment first = a->heap[0], last = a->heap[--a->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < a->n; i = child) {
        child += child + 1 < a->n && is_before(&a->heap[child + 1], &a->heap[child]);
        a->heap[i] = a->heap[child];
    }
    if (a->n)
        rise(a, i, &last);
    return first;
}
