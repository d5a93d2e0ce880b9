/* folder.h - making, measuring, filling and removing folders. */
#ifndef VECHE_DATA_FOLDER_H
#define VECHE_DATA_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

enum { PATH_ROOM = 4096 };

fault folder_make(const char *path); /* and those above it; may be there already */
fault folder_join(char *path, size_t n, const char *folder, const char *name);
uint64_t folder_bytes(const char *path); /* of all files in it and below */
void folder_remove(const char *path);    /* and all in it; as far as possible */
bool folder_is(const char *path);
bool file_is(const char *path);

/* Writes a new file whole and makes sure it reached the disk; on a fault no file is left. */
fault file_write(const char *path, const void *bytes, size_t n);

/* The only regular file in the folder (subfolders do not count); a fault when there is none or there are
 * several. */
fault folder_only_file(const char *folder, char *path, size_t n);

#endif
