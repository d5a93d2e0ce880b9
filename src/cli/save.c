/* save.c - a text as a file that appears whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static int cannot_write(const char *path, int error)
{
    fprintf(stderr, "veche: %s: cannot be written: %s\n", path, strerror(error));
    return 1;
}

/* Writes under another name; 0, or the errno of what failed. */
static int write_part(const char *path, const char *text)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return errno;
    FILE *file = fdopen(descriptor, "w");
    if (!file) {
        int error = errno;
        close(descriptor);
        return error;
    }
    int error = fputs(text, file) == EOF ? errno : 0;
    if (fclose(file) == EOF && !error)
        error = errno;
    return error;
}

/* Devices and pipes are refused: a rename would put a file in their place. */
int cli_save(const char *path, const char *text)
{
    struct stat there;
    char *part;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return cannot_write(path, S_ISDIR(there.st_mode) ? EISDIR : EINVAL);
    if (asprintf(&part, "%s.%ld.part", path, (long)getpid()) < 0)
        return cannot_write(path, ENOMEM);
    int error = write_part(part, text);
    if (!error && rename(part, path) != 0)
        error = errno;
    if (error && error != EEXIST)
        unlink(part);
    free(part);
    return error ? cannot_write(path, error) : 0;
}
