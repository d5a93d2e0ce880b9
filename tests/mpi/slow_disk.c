/* slow_disk.c - a library that puts a disk in trouble. Every file of a run, but for those with which it begins, takes SLOW_DISK_MS to
 * reach it. Reading of samples (files with "records" in their name) fails once the file $DISK_FAILS exists, and takes ten seconds once
 * $DISK_HANGS does. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void path_of(int file, char path[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, 4095);
    path[n < 0 ? 0 : n] = 0;
}

static int is_slow(int file)
{
    char path[4096];
    path_of(file, path);
    return strstr(path, "checkpoint-") || strstr(path, "model.") || strstr(path, "summary.");
}

static void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

__attribute__((visibility("default"))) int fsync(int file)
{
    int (*next)(int);
    void *symbol = next_of("fsync");
    memcpy(&next, &symbol, sizeof next);
    const char *text = getenv("SLOW_DISK_MS");
    sleep_ms(text && is_slow(file) ? atol(text) : 0);
    return next(file);
}

static int is_there(const char *variable)
{
    const char *path = getenv(variable);
    return path && access(path, F_OK) == 0;
}

/* Whether reading this file fails. */
static int has_trouble(int file)
{
    char path[4096];
    path_of(file, path);
    if (!strstr(path, "records"))
        return 0;
    if (is_there("DISK_HANGS"))
        sleep_ms(10000);
    return is_there("DISK_FAILS");
}

__attribute__((visibility("default"))) ssize_t preadv(int file, const struct iovec *parts, int n, off_t at)
{
    ssize_t (*next)(int, const struct iovec *, int, off_t);
    void *symbol = next_of("preadv");
    memcpy(&next, &symbol, sizeof next);
    return has_trouble(file) ? (errno = EIO, -1) : next(file, parts, n, at);
}

__attribute__((visibility("default"))) ssize_t pread(int file, void *bytes, size_t n, off_t at)
{
    ssize_t (*next)(int, void *, size_t, off_t);
    void *symbol = next_of("pread");
    memcpy(&next, &symbol, sizeof next);
    return has_trouble(file) ? (errno = EIO, -1) : next(file, bytes, n, at);
}
