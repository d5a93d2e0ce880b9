/* scan.c - a file is read once from end to end, a piece at a time, and hashed on the way; see reader.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "data/reader.h"

static fault fail_read(const char *path)
{
    return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
}

static fault check_file(struct scan *s)
{
    uint8_t head[SOURCE_TELLS] = {0};
    if (fstat(s->file, &s->was) != 0)
        return fail_read(s->path);
    if (!S_ISREG(s->was.st_mode))
        return FAIL(FAULT_FILE, "%s: is not a file", s->path);
    ssize_t got = pread(s->file, head, sizeof head, 0);
    if (got < 0)
        return fail_read(s->path);
    if (source_is_packed(head, (size_t)got))
        return FAIL(FAULT_DATA,
                    "%s: is compressed, so its samples cannot be read one by one: unpack it, or write "
                    "data.stream: false",
                    s->path);
    s->room = malloc(SCAN_ROOM);
    return s->room ? sha256_open(&s->hash) : OUT_OF_MEMORY;
}

fault scan_open(const char *path, struct scan *out)
{
    struct scan s = {.path = path};
    s.file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us up */
    if (s.file < 0)
        return fail_read(path);
    fault f = check_file(&s);
    if (f)
        scan_close(&s, NULL);
    else
        *out = s;
    return f;
}

fault scan_next(struct scan *s, size_t n, const uint8_t **bytes)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read(s->file, s->room + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_read(s->path);
        if (got == 0)
            return FAIL(FAULT_FILE, "%s: was cut short while it was read", s->path);
        done += (size_t)got;
    }
    sha256_add(&s->hash, s->room, n);
    s->at += n;
    *bytes = s->room;
    return OK;
}

fault scan_keep(struct scan *s, uint64_t first_byte, size_t step, size_t n, struct intake *out)
{
    struct extent x = {.path = (char *)(uintptr_t)s->path,
                       .file = s->file,
                       .was = s->was,
                       .first_byte = first_byte,
                       .step = step,
                       .n = n};
    TRY(extents_add(&out->extents, &x));
    s->file = -1;
    return OK;
}

void scan_close(struct scan *s, char hex[SHA256_HEX])
{
    if (s->hash.state)
        sha256_close(&s->hash, hex);
    if (s->file >= 0)
        close(s->file);
    free(s->room);
    *s = (struct scan){.file = -1};
}
