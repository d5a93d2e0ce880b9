/* slow_disk.c - a library that makes every file of a run slow to reach the disk, but for those with which it begins: it takes
 * SLOW_DISK_MS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_slow(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return strstr(path, "checkpoint-") || strstr(path, "model.") || strstr(path, "summary.");
}

__attribute__((visibility("default"))) int fsync(int file)
{
    int (*next)(int);
    void *symbol = dlsym(RTLD_NEXT, "fsync");
    memcpy(&next, &symbol, sizeof next);
    const char *text = getenv("SLOW_DISK_MS");
    long ms = text && is_slow(file) ? atol(text) : 0;
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    return next(file);
}
