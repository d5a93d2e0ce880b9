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

fault agenda_add(struct agenda *a, struct moment m)
{
    struct moment *heap = array_with_room(a->heap, &a->room, a->n + 1, sizeof *heap);
    if (!heap)
        return OUT_OF_MEMORY;
    a->heap = heap;
    m.number = a->entered++;
    size_t i = a->n++;
    while (i > 0 && is_before(&m, &a->heap[(i - 1) / 2])) {
        a->heap[i] = a->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    a->heap[i] = m;
    return OK;
}

bool agenda_is_empty(const struct agenda *a)
{
    return a->n == 0;
}

const struct moment *agenda_first(const struct agenda *a)
{
    return &a->heap[0];
}

struct moment agenda_take(struct agenda *a)
{
    struct moment first = a->heap[0], last = a->heap[--a->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= a->n)
            break;
        if (child + 1 < a->n && is_before(&a->heap[child + 1], &a->heap[child]))
            child++;
        if (!is_before(&a->heap[child], &last))
            break;
        a->heap[i] = a->heap[child];
        i = child;
    }
    if (a->n)
        a->heap[i] = last;
    return first;
}
