/* fetch.c - fetch, unpack, verify, and only then put in place.
 *
 *   DATA/.veche-get-XXXXXX/0, 1, ...   what each origin's program brings
 *   DATA/.veche-get-XXXXXX/set         the set's plain files  -- verified -->  DATA/NAME
 *
 * The data folder is locked meanwhile: a second fetch waits and then finds the set here. A temporary folder
 * that lies there when the lock is held was left by a process that was killed, and is removed.
 */
#include "data/fetch/fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "data/fetch/programs.h"
#include "data/fetch/unpack.h"

#define TEMPORARY ".veche-get-"

static fault check_here(const struct known *k, const char *folder, const struct listener *listener)
{
    struct intake train = {0}, test = {0};
    TRY(known_read(k, folder, listener, &train, &test));
    intake_close(&train);
    intake_close(&test);
    return OK;
}

static fault find_good_copy(const struct known *k, const char *data, const struct listener *listener,
                            bool *good)
{
    char folder[PATH_ROOM];
    bool here;
    *good = false;
    TRY(known_look(k, data, folder, sizeof folder, &here));
    if (!here)
        return OK;
    fault f = check_here(k, folder, listener);
    if (f && fault_kind_of(f) == FAULT_STOPPED)
        return f;
    *good = !f;
    fault_drop(f); /* a bad copy is as good as none: it is fetched again */
    return OK;
}

/* Waits until no other process fetches into the folder. A file system that knows no locks is used without. */
static fault lock(const char *data, const struct listener *listener, int *fd, bool *locked)
{
    int dir = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return FAIL(FAULT_FILE, "%s: cannot be opened: %s", data, strerror(errno));
    while (flock(dir, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            *fd = dir;
            *locked = false;
            return OK;
        }
        fault f = listener_tell(listener, "waiting for another fetch", 0, 0);
        if (f) {
            close(dir);
            return f;
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    *fd = dir;
    *locked = true;
    return OK;
}

static void remove_leftovers(const char *data)
{
    DIR *dir = opendir(data);
    const struct dirent *item;
    while (dir && (item = readdir(dir)) != NULL) {
        char path[PATH_ROOM];
        int n = snprintf(path, sizeof path, "%s/%s", data, item->d_name);
        if (text_starts(item->d_name, TEMPORARY) && n > 0 && (size_t)n < sizeof path)
            folder_remove(path);
    }
    if (dir)
        closedir(dir);
}

static bool is_final(fault f)
{
    enum fault_kind kind = fault_kind_of(f);
    return kind == FAULT_STOPPED || kind == FAULT_MEMORY;
}

static fault from_origin(const struct known *k, size_t i, const char *temporary, const char *set,
                         const struct listener *listener)
{
    char folder[PATH_ROOM], archive[PATH_ROOM], name[24];
    snprintf(name, sizeof name, "%zu", i);
    TRY(folder_join(folder, sizeof folder, temporary, name));
    TRY(folder_make(set));
    TRY(folder_make(folder));
    fault f = fetch_archive(&k->origins[i], folder, listener, archive, sizeof archive);
    if (!f)
        f = unpack_archive(k, archive, set, listener);
    if (!f)
        f = check_here(k, set, listener);
    folder_remove(folder);
    return f;
}

/* Tries the origins in order; when all fail, the fault tells of each. */
static fault from_origins(const struct known *k, const char *temporary, const char *set,
                          const struct listener *listener)
{
    char reasons[900] = "";
    for (size_t i = 0; i < k->n_origins; i++) {
        fault f = from_origin(k, i, temporary, set, listener);
        if (!f || is_final(f))
            return f;
        size_t n = strlen(reasons);
        snprintf(reasons + n, sizeof reasons - n, "%s%s", i ? "; " : "", fault_text(f));
        fault_drop(f);
        folder_remove(set);
    }
    return FAIL(FAULT_DATA, "%s cannot be fetched: %s", k->name, reasons);
}

static fault from_local(const struct known *k, const char *from, const char *set,
                        const struct listener *listener)
{
    TRY(folder_make(set));
    if (access(from, R_OK) != 0)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", from, strerror(errno));
    if (folder_is(from))
        TRY(unpack_folder(k, from, set, listener));
    else if (!file_is(from))
        return FAIL(FAULT_FILE, "%s: is neither a folder nor a file", from);
    else
        TRY(unpack_archive(k, from, set, listener));
    return check_here(k, set, listener);
}

static fault move(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return FAIL(FAULT_FILE, "%s: cannot be put in place: %s", to, strerror(errno));
    return OK;
}

static fault move_file(const char *set, const char *goal, const char *name)
{
    char from[PATH_ROOM], to[PATH_ROOM];
    TRY(folder_join(from, sizeof from, set, name));
    TRY(folder_join(to, sizeof to, goal, name));
    return move(from, to);
}

/* A folder that is there may hold more than this set: only the set's own files in it are replaced. */
static fault put_in_place(const struct known *k, const char *set, const char *data)
{
    char goal[PATH_ROOM];
    TRY(folder_join(goal, sizeof goal, data, k->name));
    if (!folder_is(goal))
        return move(set, goal);
    for (size_t i = 0; i < k->n_files; i++) {
        TRY(move_file(set, goal, k->files[i].name));
        if (k->files[i].labels)
            TRY(move_file(set, goal, k->files[i].labels));
    }
    return OK;
}

static fault get_anew(const struct known *k, const char *data, const char *from,
                      const struct listener *listener)
{
    char temporary[PATH_ROOM], set[PATH_ROOM];
    TRY(folder_join(temporary, sizeof temporary, data, TEMPORARY "XXXXXX"));
    if (!mkdtemp(temporary))
        return FAIL(FAULT_FILE, "%s: a folder cannot be made in it: %s", data, strerror(errno));
    fault f = folder_join(set, sizeof set, temporary, "set");
    if (!f)
        f = from ? from_local(k, from, set, listener) : from_origins(k, temporary, set, listener);
    if (!f)
        f = put_in_place(k, set, data);
    folder_remove(temporary);
    return f;
}

fault known_get(const struct known *k, const char *data, const char *from, const struct listener *listener)
{
    bool good = false, locked = false;
    int fd = -1;
    TRY(find_good_copy(k, data, listener, &good));
    if (good)
        return OK;
    TRY(folder_make(data));
    TRY(lock(data, listener, &fd, &locked));
    if (locked)
        remove_leftovers(data);
    fault f = find_good_copy(k, data, listener, &good); /* another process may just have fetched it */
    if (!f && !good)
        f = get_anew(k, data, from, listener);
    close(fd);
    return f;
}
