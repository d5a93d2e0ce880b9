/* run.c - the folder of a run: made whole, locked, swept.
 *
 *   create:  PARENT/.NAME.part-... with lock and experiment.yaml in it -> renamed to the first free NAME,
 * NAME-2, ... open:    lock -> sweep parts of interrupted writes -> cut a half-written event
 *
 * Whoever holds the lock is the only one who writes in the folder; the system lets go of it when the process
 * ends, however it ends.
 */
#include "record/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/inside.h"
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

static fault take_lock(const char *folder, int *out)
{
    char path[FILE_PATH];
    TRY(path_join(folder, "lock", sizeof path, path));
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return FAIL(FAULT_FILE, "%s: cannot be opened for writing: %s", path, strerror(errno));
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

/* Calls `visit` for each name in the folder but the dots; stops at the first fault. */
fault run_each_file(const char *folder, fault (*visit)(void *ctx, const char *name), void *ctx)
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

static fault remove_part(void *ctx, const char *name)
{
    const char *folder = ctx;
    return file_is_part(name) ? remove_file(folder, name) : OK;
}

static fault remove_any(void *ctx, const char *name)
{
    return remove_file(ctx, name);
}

/* A folder that did not come to be: best done quietly, for the fault that led here is the one to tell. */
static void remove_folder(char *path)
{
    fault_drop(run_each_file(path, remove_any, path));
    rmdir(path);
}

/* Lock, experiment and events in the folder at r->path. What is held on a fault is closed by run_close. */
static fault furnish(struct run_folder *r, const char *experiment_yaml)
{
    char path[FILE_PATH];
    TRY(take_lock(r->path, &r->lock));
    TRY(path_join(r->path, "experiment.yaml", sizeof path, path));
    struct piece text = {experiment_yaml, strlen(experiment_yaml)};
    TRY(file_replace(path, &text, 1));
    return events_open(r);
}

/* Renames the folder to the first name that is free. */
static fault take_name(const char *from, const char *parent, const char *name, char to[RUN_PATH])
{
    for (int i = 1; i <= NAMES_TRIED; i++) {
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
    return FAIL(FAULT_FILE, "%s: there are %d runs of this name already", to, NAMES_TRIED);
}

static fault make_part_folder(const char *parent, const char *name, char path[RUN_PATH])
{
    for (int i = 0; i < NAMES_TRIED; i++) {
        int n = snprintf(path, RUN_PATH, "%s/.%s.part-%ld-%d", parent, name, (long)getpid(), i);
        if (n < 0 || n >= RUN_PATH)
            return FAIL(FAULT_FILE, "%.200s...: the path is too long", parent);
        if (mkdir(path, 0777) == 0)
            return OK;
        if (errno != EEXIST)
            break;
    }
    return cannot_make(path, errno);
}

fault run_create(const char *parent, const char *name, const char *experiment_yaml, int64_t keep,
                 struct run_folder *out)
{
    if (*name == '\0' || *name == '.' || strchr(name, '/') || file_is_part(name))
        return FAIL(FAULT_USAGE, "'%s' cannot be the name of a run's folder", name);
    struct run_folder r = {.lock = -1, .events = -1, .keep = keep};
    char named[RUN_PATH];
    fault f = OK;
    TRY(make_folders(parent));
    TRY(make_part_folder(parent, name, r.path));
    TRY_OR(remove, f, furnish(&r, experiment_yaml));
    TRY_OR(remove, f, take_name(r.path, parent, name, named));
    memcpy(r.path, named, sizeof named);
    TRY_OR(remove, f, folder_sync(parent));
    *out = r;
    return OK;
remove:
    remove_folder(r.path);
    run_close(&r);
    return f;
}

static fault look_inside(struct run_folder *r)
{
    char path[FILE_PATH];
    TRY(path_join(r->path, "experiment.yaml", sizeof path, path));
    if (access(path, R_OK) != 0)
        return FAIL(FAULT_FILE, "%s: is not a run: experiment.yaml cannot be read: %s", r->path,
                    strerror(errno));
    TRY(take_lock(r->path, &r->lock));
    TRY(run_each_file(r->path, remove_part, r->path));
    return events_open(r);
}

fault run_open(const char *path, int64_t keep, struct run_folder *out)
{
    struct run_folder r = {.lock = -1, .events = -1, .keep = keep};
    if (snprintf(r.path, sizeof r.path, "%s", path) >= (int)sizeof r.path)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", path);
    fault f = look_inside(&r);
    if (f)
        run_close(&r);
    else
        *out = r;
    return f;
}

void run_close(struct run_folder *r)
{
    if (r->events >= 0)
        close(r->events);
    if (r->lock >= 0)
        close(r->lock);
    r->events = r->lock = -1;
}
