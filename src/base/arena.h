/* arena.h - memory by lifetime.
 *
 * An arena hands out small pieces that live and die together (an experiment, a graph): grow as needed, free at
 * once. A block is one large stretch for numbers (activations, parameters), aligned to 64 bytes, zeroed and backed
 * by huge pages where the system gives them. Nothing in a training step takes memory from either.
 */
#ifndef VECHE_BASE_ARENA_H
#define VECHE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

struct arena {
    struct arena_chunk *chunks; /* owned, newest first */
};

/* An arena starts as { 0 } and needs no init. All memory it gives is zeroed and aligned for any type. */
void *arena_take(struct arena *a, size_t n_bytes); /* NULL when memory is out */
char *arena_text(struct arena *a, const char *text);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_release(struct arena *a);

#define ARENA_NEW(arena, type, count) ((type *)arena_take((arena), sizeof(type) * (size_t)(count)))
#define OUT_OF_MEMORY FAIL(FAULT_MEMORY, "out of memory")

struct block {
    void *bytes; /* owned */
    size_t n_bytes;
    bool is_shared;
    int file; /* owned, of a shared one */
};

fault block_open(size_t n_bytes, struct block *out);
/* The same in memory that other processes can map by its file, where the system has such; else is_shared is false. */
fault block_open_shared(size_t n_bytes, struct block *out);
void block_close(struct block *b);

/* A heap array with room for n of `size` bytes each: itself, or moved to where it has at least twice the room. NULL:
 * memory is out, and the array is as it was. */
void *array_grow(void *array, size_t *room, size_t n, size_t size);
static inline void *array_with_room(void *array, size_t *room, size_t n, size_t size)
{
    return n <= *room ? array : array_grow(array, room, n, size);
}

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The next multiple of `step` (a power of two) at or after n. */
static inline size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) & ~(step - 1);
}

#endif
