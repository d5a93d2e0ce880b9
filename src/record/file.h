/* file.h - files that are there whole or not at all.
 *
 * A file is written under another name in the same folder, synced, renamed over its place, and the folder
 * synced. A crash at any moment leaves the old file or the new one and at most a part, which its name gives
 * away.
 */
#ifndef VECHE_RECORD_FILE_H
#define VECHE_RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

enum { FILE_PATH = 4096 };

struct piece {
    const void *bytes; /* borrowed */
    size_t n;
};

/* Puts the pieces, one after the other, at `path`, in place of what stood there. On a fault that is still
 * there, and nothing else. */
fault file_replace(const char *path, const struct piece *pieces, size_t n_pieces);

/* Opens a file that is written in place, and makes it where there is none. What stands there is refused unless it is a plain
 * file: a symbolic link could lead anywhere, and a pipe would hold us up. */
fault file_open(const char *path, int flags, int *descriptor);

/* Writes all n bytes to a descriptor; false, with errno set, when that cannot be done. */
bool file_write_all(int descriptor, const void *bytes, size_t n);

/* Whether this is the name of a part that an interrupted write left. */
bool file_is_part(const char *name);

/* The whole file, with a zero byte after it. Caller frees. */
fault file_read(const char *path, char **bytes, size_t *n);

fault folder_sync(const char *path);

/* "PATH/NAME" into out; a fault when it does not fit. */
fault path_join(const char *folder, const char *name, size_t n, char *out);

#endif
