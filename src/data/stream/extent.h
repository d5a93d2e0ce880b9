/* extent.h - where samples lie in files, one record after the other, and reading some of them.
 *
 *   byte 0          first_byte        + step            + 2 step
 *   | head or label | sample, n_bytes | label or nothing | sample, n_bytes | ...
 *
 * A file is opened once, when it is looked through, and has to stay what it was then: one that is changed, cut short or taken away is
 * a fault of the next reading.
 */
#ifndef VECHE_DATA_STREAM_EXTENT_H
#define VECHE_DATA_STREAM_EXTENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/fault.h"

struct extent {
    char *path; /* owned, as the file */
    int file;
    struct stat was; /* before it was looked through */
    uint64_t first_byte;
    size_t step;  /* bytes from one sample to the next */
    size_t first; /* the number of its first sample, counted through all extents of the samples */
    size_t n;
};

struct extents {
    struct extent *at; /* owned */
    size_t n;
    size_t n_bytes; /* of one sample */
};

/* Puts it behind the others, which says what its `first` is; takes its file, but on a fault. The path is copied. */
fault extents_add(struct extents *e, const struct extent *extent);
void extents_close(struct extents *e);

const struct extent *extents_find(const struct extents *e, size_t sample);

/* A sample that is to be read, and where to. */
struct wish {
    size_t sample;
    uint8_t *to;
};

/* Reads so many, which rise: those that lie side by side in one go. */
fault extents_read(const struct extents *e, const struct wish *wishes, size_t n);

/* The samples themselves, all in one file. */
uint64_t extents_bytes(const struct extents *e);

#endif
