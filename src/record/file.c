/* file.c - write beside, sync, rename, sync the folder. */
#include "record/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"

#define PART ".part-"

enum { PART_TRIES = 100, MOST_AT_ONCE = 1 << 30 };

static fault cannot_write(const char *path, int error)
{
    return FAIL(FAULT_FILE, "%s: cannot be written: %s", path, strerror(error));
}

bool file_is_part(const char *name)
{
    return strstr(name, PART) != NULL;
}

bool file_write_all(int descriptor, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = write(descriptor, at, smaller(n, MOST_AT_ONCE));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

fault path_join(const char *folder, const char *name, size_t n, char *out)
{
    int length = snprintf(out, n, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= n)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", folder);
    return OK;
}

/* A new file beside `path`. A part of an earlier process may still hold the first names. */
static fault open_part(const char *path, char part[FILE_PATH], int *descriptor)
{
    for (int i = 0; i < PART_TRIES; i++) {
        int length = snprintf(part, FILE_PATH, "%s" PART "%ld-%d", path, (long)getpid(), i);
        if (length < 0 || length >= FILE_PATH)
            return FAIL(FAULT_FILE, "%.200s...: the path is too long", path);
        *descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*descriptor >= 0)
            return OK;
        if (errno != EEXIST)
            break;
    }
    return cannot_write(path, errno);
}

/* Writes, syncs and closes; 0 or the error. A full disk may come to light as late as the sync or the close. */
static int fill_and_close(int descriptor, const struct piece *pieces, size_t n_pieces)
{
    int error = 0;
    for (size_t i = 0; i < n_pieces && !error; i++)
        if (!file_write_all(descriptor, pieces[i].bytes, pieces[i].n))
            error = errno;
    if (!error && fsync(descriptor) != 0)
        error = errno;
    if (close(descriptor) != 0 && !error)
        error = errno;
    return error;
}

static void folder_of(const char *path, char folder[FILE_PATH])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        strcpy(folder, ".");
    else
        snprintf(folder, FILE_PATH, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

fault folder_sync(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return cannot_write(path, errno);
    int error = fsync(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    if (error && error != EINVAL) /* some file systems have no such call for folders */
        return cannot_write(path, error);
    return OK;
}

fault file_replace(const char *path, const struct piece *pieces, size_t n_pieces)
{
    char part[FILE_PATH], folder[FILE_PATH];
    int descriptor = -1;
    TRY(open_part(path, part, &descriptor));
    int error = fill_and_close(descriptor, pieces, n_pieces);
    if (!error && rename(part, path) != 0)
        error = errno;
    if (error) {
        unlink(part);
        return cannot_write(path, error);
    }
    folder_of(path, folder);
    return folder_sync(folder);
}

fault file_open(const char *path, int flags, int *descriptor)
{
    struct stat about;
    int opened = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (opened < 0 && errno == ELOOP)
        return FAIL(FAULT_FILE, "%s: is a symbolic link, and is not followed", path);
    if (opened < 0 && errno != ENXIO) /* a pipe that is not read */
        return FAIL(FAULT_FILE, "%s: cannot be opened for writing: %s", path, strerror(errno));
    if (opened < 0 || fstat(opened, &about) != 0 || !S_ISREG(about.st_mode)) {
        if (opened >= 0)
            close(opened);
        return FAIL(FAULT_FILE, "%s: cannot be written: it is not a plain file", path);
    }
    *descriptor = opened;
    return OK;
}

static fault read_to_end(int descriptor, const char *path, char **out, size_t *n)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return FAIL(FAULT_FILE, "%s: cannot be read: it is not a plain file", path);
    size_t size = (size_t)about.st_size, have = 0;
    char *bytes = malloc(size + 1);
    if (!bytes)
        return FAIL(FAULT_MEMORY, "%s: there is no memory for its %zu bytes", path, size);
    while (have < size) {
        ssize_t got = read(descriptor, bytes + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(bytes);
            return FAIL(FAULT_FILE, "%s: cannot be read at byte %zu: %s", path, have,
                        got < 0 ? strerror(errno) : "it became shorter meanwhile");
        }
        have += (size_t)got;
    }
    bytes[size] = '\0';
    *out = bytes;
    *n = size;
    return OK;
}

fault file_read(const char *path, char **bytes, size_t *n)
{
    int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us up */
    if (descriptor < 0)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    fault f = read_to_end(descriptor, path, bytes, n);
    close(descriptor);
    return f;
}
