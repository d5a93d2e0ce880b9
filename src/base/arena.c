/* arena.c - a list of growing chunks; blocks straight from the system. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 16, FIRST_CHUNK = 4096, HUGE_PAGE = 2 << 20 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(ALIGN) unsigned char bytes[];
};

void *arena_take(struct arena *a, size_t n_bytes)
{
    if (n_bytes > SIZE_MAX / 4)
        return NULL;
    size_t need = round_up(n_bytes ? n_bytes : 1, ALIGN);
    struct arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < need) {
        size_t size = c ? c->size * 2 : FIRST_CHUNK;
        if (size < need)
            size = need;
        c = calloc(1, sizeof *c + size);
        if (!c)
            return NULL;
        c->size = size;
        c->next = a->chunks;
        a->chunks = c;
    }
    void *piece = c->bytes + c->used;
    c->used += need;
    return piece;
}

char *arena_text(struct arena *a, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = arena_take(a, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : arena_take(a, (size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

void arena_release(struct arena *a)
{
    while (a->chunks) {
        struct arena_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
}

static fault open_block(size_t size, int flags, int file, struct block *out)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    if (bytes == MAP_FAILED)
        return FAIL(FAULT_MEMORY, "out of memory: %zu MiB asked for in one piece", size >> 20);
    madvise(bytes, size, MADV_HUGEPAGE); /* a hint: without huge pages all works, a little slower */
    *out = (struct block){bytes, size, file >= 0, file};
    return OK;
}

static size_t block_size(size_t n_bytes)
{
    return round_up(n_bytes ? n_bytes : 1, n_bytes >= HUGE_PAGE ? HUGE_PAGE : 4096);
}

fault block_open(size_t n_bytes, struct block *out)
{
    return open_block(block_size(n_bytes), MAP_PRIVATE | MAP_ANONYMOUS, -1, out);
}

fault block_open_shared(size_t n_bytes, struct block *out)
{
    int file = memfd_create("veche", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)block_size(n_bytes)) == 0)
        return open_block(block_size(n_bytes), MAP_SHARED, file, out);
    if (file >= 0)
        close(file);
    return block_open(n_bytes, out);
}

void block_close(struct block *b)
{
    if (b->bytes)
        munmap(b->bytes, b->n_bytes);
    if (b->is_shared)
        close(b->file);
    *b = (struct block){0};
}

void *array_grow(void *array, size_t *room, size_t n, size_t size)
{
    size_t wanted = *room ? *room : 64;
    while (wanted < n)
        wanted *= 2;
    void *longer = realloc(array, wanted * size);
    if (longer)
        *room = wanted;
    return longer;
}
