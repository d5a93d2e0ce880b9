/* folder.h - folders that belong to one process at a time: of a run, of a comparison.
 *
 *   create:  PARENT/.NAME.part-... with its lock and its first file -> renamed to the first free NAME, NAME-2, ...
 *
 * The process that holds the lock is the only one that writes in the folder; the system lets go of it when the process
 * ends, however it ends. So a part that is not locked was left by a process that was killed, and the next that creates a folder
 * beside it removes it.
 */
#ifndef VECHE_RECORD_FOLDER_H
#define VECHE_RECORD_FOLDER_H

#include <stdbool.h>

#include "base/fault.h"

enum { RUN_PATH = 1024 };

/* Makes PARENT/NAME, or where that is taken PARENT/NAME-2, -3, ...; with `exactly`, a fault where it is taken. The
 * folder appears with `file` in it, which holds `text`, or not at all. `lock` is the caller's to close. */
fault folder_create(const char *parent, const char *name, bool exactly, const char *file, const char *text,
                    char path[RUN_PATH], int *lock);
/* A folder another process works in is a fault that says so. */
fault folder_lock(const char *path, int *lock);
/* Removes what interrupted writes left. */
fault folder_sweep(const char *path);
/* Removes the folder of a run that never got as far as a checkpoint, with all that is in it. */
fault folder_discard(const char *path);

/* Calls `visit` for each name in the folder but the dots; stops at the first fault. */
fault folder_each(const char *folder, fault (*visit)(void *ctx, const char *name), void *ctx);

#endif
