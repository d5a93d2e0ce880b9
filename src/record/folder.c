/* folder.c - a folder made whole, locked, swept, thrown away. */
#include "record/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/file.h"

enum { NAMES_TRIED = 10000 };

static fault cannot_make(const char *path, int error)
{
    return FAIL(FAULT_FILE, "%s: the folder cannot be made: %s", path, strerror(error));
}

/* Makes the folder and those above it that are not there yet. */
static fault make_folders(const char *path)
{
    char head[RUN_PATH];
    size_t n = strlen(path);
    if (n >= RUN_PATH)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(head, path, i);
        head[i] = '\0';
        if (mkdir(head, 0777) != 0 && errno != EEXIST && errno != EISDIR)
            return cannot_make(head, errno);
    }
    return OK;
}

fault folder_lock(const char *folder, int *out)
{
    char path[FILE_PATH];
    TRY(path_join(folder, "lock", sizeof path, path));
    int lock;
    TRY(file_open(path, O_RDWR, &lock));
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        int error = errno;
        close(lock);
        if (error == EWOULDBLOCK)
            return FAIL(FAULT_USAGE, "%s: is being worked on by another process", folder);
        return FAIL(FAULT_FILE, "%s: cannot be locked: %s", path, strerror(error));
    }
    *out = lock;
    return OK;
}

fault folder_each(const char *folder, fault (*visit)(void *ctx, const char *name), void *ctx)
{
    DIR *d = opendir(folder);
    if (!d)
        return FAIL(FAULT_FILE, "%s: the folder cannot be read: %s", folder, strerror(errno));
    fault f = OK;
    for (struct dirent *entry; !f && (entry = readdir(d));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            f = visit(ctx, entry->d_name);
    closedir(d);
    return f;
}

static fault remove_file(const char *folder, const char *name)
{
    char path[FILE_PATH];
    TRY(path_join(folder, name, sizeof path, path));
    if (unlink(path) != 0 && errno != ENOENT)
        return FAIL(FAULT_FILE, "%s: cannot be removed: %s", path, strerror(errno));
    return OK;
}

static fault remove_any(void *ctx, const char *name)
{
    return remove_file(ctx, name);
}

/* A folder that did not come to be: best done quietly, for the fault that led here is the one to tell. */
static void remove_folder(char *path)
{
    fault_drop(folder_each(path, remove_any, path));
    rmdir(path);
}

/* A file, or a folder with nothing but files in it. */
static fault remove_entry(const char *folder, const char *name)
{
    char path[FILE_PATH];
    struct stat about;
    TRY(path_join(folder, name, sizeof path, path));
    if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        remove_folder(path);
        return OK;
    }
    return remove_file(folder, name);
}

static fault remove_part(void *ctx, const char *name)
{
    const char *folder = ctx;
    return file_is_part(name) ? remove_entry(folder, name) : OK;
}

/* Renames the folder to the first name that is free. */
static fault take_name(const char *from, const char *parent, const char *name, bool exactly,
                       char to[RUN_PATH])
{
    int tries = exactly ? 1 : NAMES_TRIED;
    for (int i = 1; i <= tries; i++) {
        int n = i == 1 ? snprintf(to, RUN_PATH, "%s/%s", parent, name)
                       : snprintf(to, RUN_PATH, "%s/%s-%d", parent, name, i);
        if (n < 0 || n >= RUN_PATH)
            return FAIL(FAULT_FILE, "%.200s...: the path is too long", parent);
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
            return OK;
        if (errno == EINVAL &&
            rename(from, to) == 0) /* no such flag here; a run, never empty, is not replaced either */
            return OK;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return cannot_make(to, errno);
    }
    if (exactly)
        return FAIL(FAULT_USAGE, "%s: is there already", to);
    return FAIL(FAULT_FILE, "%s: there are %d runs of this name already", to, NAMES_TRIED);
}

/* One that another process has just swept, between these calls, is gone or has a lock that is. */
static bool is_swept(const char *path, fault locked, int lock)
{
    struct stat about;
    if (locked)
        return fault_kind_of(locked) == FAULT_USAGE || lstat(path, &about) != 0;
    return fstat(lock, &about) == 0 && about.st_nlink == 0;
}

/* A folder of its own, locked. */
static fault make_part_folder(const char *parent, const char *name, char path[RUN_PATH], int *lock)
{
    for (int i = 0; i < NAMES_TRIED; i++) {
        int n = snprintf(path, RUN_PATH, "%s/.%s.part-%ld-%d", parent, name, (long)getpid(), i);
        if (n < 0 || n >= RUN_PATH)
            return FAIL(FAULT_FILE, "%.200s...: the path is too long", parent);
        if (mkdir(path, 0777) != 0) {
            if (errno == EEXIST)
                continue;
            return cannot_make(path, errno);
        }
        int held = -1;
        fault f = folder_lock(path, &held);
        if (!is_swept(path, f, held)) {
            *lock = held;
            if (f)
                remove_folder(path);
            return f;
        }
        if (held >= 0)
            close(held);
        fault_drop(f);
    }
    return cannot_make(path, EEXIST);
}

/* Parts that no process holds. Whatever hinders this hinders nothing else. */
static fault sweep_part_folder(void *ctx, const char *name)
{
    char path[FILE_PATH];
    struct stat about;
    int lock;
    TRY(path_join(ctx, name, sizeof path, path));
    if (*name != '.' || !file_is_part(name) || lstat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return OK;
    fault f = folder_lock(path, &lock);
    if (!f) {
        remove_folder(path);
        close(lock);
    }
    fault_drop(f);
    return OK;
}

static fault furnish(const char *path, const char *file, const char *text)
{
    char first[FILE_PATH];
    TRY(path_join(path, file, sizeof first, first));
    struct piece piece = {text, strlen(text)};
    return file_replace(first, &piece, 1);
}

fault folder_create(const char *parent, const char *name, bool exactly, const char *file, const char *text,
                    char path[RUN_PATH], int *lock)
{
    char part[RUN_PATH], named[RUN_PATH];
    int held = -1;
    if (*name == '\0' || *name == '.' || strchr(name, '/') || file_is_part(name))
        return FAIL(FAULT_USAGE, "'%s' cannot be the name of a run's folder", name);
    fault f = OK;
    TRY(make_folders(parent));
    fault_drop(folder_each(parent, sweep_part_folder, (void *)parent));
    TRY(make_part_folder(parent, name, part, &held));
    TRY_OR(remove, f, furnish(part, file, text));
    TRY_OR(remove, f, take_name(part, parent, name, exactly, named));
    memcpy(part, named, sizeof named);
    TRY_OR(remove, f, folder_sync(parent));
    memcpy(path, named, sizeof named);
    *lock = held;
    return OK;
remove:
    remove_folder(part);
    if (held >= 0)
        close(held);
    return f;
}

fault folder_sweep(const char *path)
{
    return folder_each(path, remove_part, (void *)path);
}

fault folder_discard(const char *path)
{
    int lock;
    TRY(folder_lock(path, &lock));
    fault f = folder_each(path, remove_any, (void *)path);
    if (!f && rmdir(path) != 0)
        f = FAIL(FAULT_FILE, "%s: cannot be removed: %s", path, strerror(errno));
    close(lock);
    return f;
}
