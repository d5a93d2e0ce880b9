/* folder.c - see folder.h; everything here is plain POSIX. */
#include "data/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS_OPEN = 16 };

fault folder_join(char *path, size_t n, const char *folder, const char *name)
{
    int length = snprintf(path, n, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= n)
        return FAIL(FAULT_FILE, "%s: the path is too long", folder);
    return OK;
}

bool folder_is(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_is(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static fault make_one(const char *path)
{
    if (mkdir(path, 0777) == 0 || folder_is(path))
        return OK;
    return FAIL(FAULT_FILE, "%s: the folder cannot be made: %s", path, strerror(errno));
}

fault folder_make(const char *path)
{
    char upper[PATH_ROOM];
    if (strlen(path) >= sizeof upper)
        return FAIL(FAULT_FILE, "%s: the path is too long", path);
    strcpy(upper, path);
    for (char *slash = strchr(upper + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        TRY(make_one(upper));
        *slash = '/';
    }
    return make_one(path);
}

uint64_t folder_bytes(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    uint64_t sum = 0;
    const struct dirent *item;
    while ((item = readdir(dir)) != NULL) {
        char below[PATH_ROOM];
        struct stat info;
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
            fstatat(dirfd(dir), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(info.st_mode))
            sum += (uint64_t)info.st_size;
        int n = snprintf(below, sizeof below, "%s/%s", path, item->d_name);
        if (S_ISDIR(info.st_mode) && n > 0 && (size_t)n < sizeof below)
            sum += folder_bytes(below);
    }
    closedir(dir);
    return sum;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    remove(path);
    return 0;
}

void folder_remove(const char *path)
{
    nftw(path, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS);
}

static fault write_all(int fd, const char *path, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(fd, bytes, n);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return FAIL(FAULT_FILE, "%s: cannot be written: %s", path, strerror(errno));
        bytes += wrote;
        n -= (size_t)wrote;
    }
    if (fsync(fd) != 0)
        return FAIL(FAULT_FILE, "%s: cannot be written: %s", path, strerror(errno));
    return OK;
}

fault file_write(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return FAIL(FAULT_FILE, "%s: cannot be written: %s", path, strerror(errno));
    fault f = write_all(fd, path, bytes, n);
    if (close(fd) != 0 && !f)
        f = FAIL(FAULT_FILE, "%s: cannot be written: %s", path, strerror(errno));
    if (f)
        unlink(path);
    return f;
}

fault folder_only_file(const char *folder, char *path, size_t n)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", folder, strerror(errno));
    size_t files = 0;
    fault f = OK;
    const struct dirent *item;
    while (!f && (item = readdir(dir)) != NULL) {
        struct stat info;
        if (fstatat(dirfd(dir), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
            continue;
        files++;
        f = folder_join(path, n, folder, item->d_name);
    }
    closedir(dir);
    if (!f && files != 1)
        f = FAIL(FAULT_DATA, "%s: %zu files came where one was expected", folder, files);
    return f;
}
