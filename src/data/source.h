/* source.h - the bytes of one file, unpacked, with the name that faults call it by. */
#ifndef VECHE_DATA_SOURCE_H
#define VECHE_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

struct source {
    const char *name;     /* owned by the source when it was opened, else borrowed */
    const uint8_t *bytes; /* likewise */
    size_t n;
};

/* More than any data set by far, less than a compressed bomb wants: for files of which nothing is known. */
#define SOURCE_MOST ((size_t)1 << 33)
/* The most that a file may take that has n bytes, packed or not: what cannot be compressed becomes a little longer. */
static inline size_t source_room(size_t n)
{
    return n + n / 64 + 65536;
}

/* Whether a file that begins with these bytes is compressed; SOURCE_TELLS of them tell. */
enum { SOURCE_TELLS = 6 };
bool source_is_packed(const uint8_t *bytes, size_t n);

/* Reads a whole file; gzip and xz are told by their first bytes and unpacked, at most to `most` bytes.
 * Offsets in faults about an unpacked file count unpacked bytes, and its name says so. */
fault source_open(const char *path, size_t most, struct source *out);
/* The same from memory; `bytes` is only read. What comes out is always a copy of its own. */
fault source_unpack(const char *name, const uint8_t *bytes, size_t n, size_t most, struct source *out);
void source_close(struct source *s);

/* The path of `name`, `name`.gz or `name`.xz in the folder, the first that exists; false when none does. */
bool source_find(const char *folder, const char *name, char *path, size_t n_path);

#endif
