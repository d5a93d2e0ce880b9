/* source.c - a file whole in memory: read, told by its first bytes, unpacked.
 *
 *   1f 8b             gzip: zlib, because it checks the CRC and the length at the end (libarchive does not)
 *   fd 37 7a 58 5a 00 xz: libarchive's filter, where liblzma checks every block
 *   anything else     as it is
 *
 * No data set here begins with those bytes when it is not compressed: an IDX file begins with 00 00, a CIFAR
 * file with a label below 20.
 */
#include "data/source.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"

enum { FIRST_ROOM = 1 << 16, PIECE = 1 << 30 };

/* A stretch of bytes that doubles as it fills. */
struct growing {
    uint8_t *bytes; /* owned */
    size_t n, room, most;
};

static fault grow(struct growing *g, const char *name)
{
    if (g->n < g->room)
        return OK;
    if (g->room >= g->most)
        return FAIL(FAULT_DATA, "%s: unpacks to more than %zu bytes, more than such a file can have", name,
                    g->most);
    size_t room = g->room ? g->room * 2 : FIRST_ROOM;
    if (room > g->most)
        room = g->most;
    uint8_t *bytes = realloc(g->bytes, room);
    if (!bytes)
        return OUT_OF_MEMORY;
    g->bytes = bytes;
    g->room = room;
    return OK;
}

static uInt piece(size_t n)
{
    return (uInt)(n < PIECE ? n : PIECE);
}

static fault inflate_all(z_stream *z, const char *name, const uint8_t *bytes, size_t n, struct growing *g)
{
    size_t taken = 0;
    for (;;) {
        TRY(grow(g, name));
        uInt in = piece(n - taken), out = piece(g->room - g->n);
        z->next_in = (Bytef *)(uintptr_t)(bytes + taken);
        z->avail_in = in;
        z->next_out = g->bytes + g->n;
        z->avail_out = out;
        int rc = inflate(z, Z_NO_FLUSH);
        taken += in - z->avail_in;
        g->n += out - z->avail_out;
        if (rc == Z_STREAM_END)
            break;
        if (rc == Z_MEM_ERROR)
            return OUT_OF_MEMORY;
        if (rc == Z_BUF_ERROR || (rc == Z_OK && taken == n && z->avail_out))
            return FAIL(FAULT_DATA, "%s: byte %zu: the gzip file is cut short", name, n);
        if (rc != Z_OK)
            return FAIL(FAULT_DATA, "%s: byte %zu: the gzip file is damaged: %s", name, taken,
                        z->msg ? z->msg : "not a deflate stream");
    }
    if (taken < n)
        return FAIL(FAULT_DATA, "%s: byte %zu: %zu bytes too many after the gzip data", name, taken,
                    n - taken);
    return OK;
}

static fault gunzip(const char *name, const uint8_t *bytes, size_t n, struct growing *g)
{
    z_stream z = {0};
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return OUT_OF_MEMORY;
    fault f = inflate_all(&z, name, bytes, n, g);
    inflateEnd(&z);
    return f;
}

static fault fail_xz(struct archive *a, const char *name, size_t n)
{
    const char *why = archive_error_string(a);
    return FAIL(FAULT_DATA, "%s: the xz file is damaged or cut short after %zu unpacked bytes: %s", name, n,
                why ? why : "it ends too early");
}

static fault unxz_all(struct archive *a, const char *name, const uint8_t *bytes, size_t n, struct growing *g)
{
    struct archive_entry *entry;
    if (archive_read_support_filter_xz(a) != ARCHIVE_OK || archive_read_support_format_raw(a) != ARCHIVE_OK)
        return FAIL(FAULT_DATA, "%s: this libarchive cannot read xz files", name);
    if (archive_read_open_memory(a, bytes, n) != ARCHIVE_OK)
        return fail_xz(a, name, 0);
    int rc = archive_read_next_header(a, &entry);
    if (rc == ARCHIVE_EOF)
        return OK;
    if (rc != ARCHIVE_OK)
        return fail_xz(a, name, 0);
    for (;;) {
        TRY(grow(g, name));
        ssize_t got = archive_read_data(a, g->bytes + g->n, g->room - g->n);
        if (got < 0)
            return fail_xz(a, name, g->n);
        if (got == 0)
            return OK;
        g->n += (size_t)got;
    }
}

static fault unxz(const char *name, const uint8_t *bytes, size_t n, struct growing *g)
{
    struct archive *a = archive_read_new();
    if (!a)
        return OUT_OF_MEMORY;
    fault f = unxz_all(a, name, bytes, n, g);
    archive_read_free(a);
    return f;
}

static fault keep(const char *name, const char *note, struct growing *g, struct source *out)
{
    char *full = malloc(strlen(name) + strlen(note) + 1);
    if (!full)
        return OUT_OF_MEMORY;
    strcpy(full, name);
    strcat(full, note);
    *out = (struct source){full, g->bytes, g->n};
    return OK;
}

static fault copy_plain(const char *name, const uint8_t *bytes, size_t n, struct growing *g)
{
    if (n > g->most)
        return FAIL(FAULT_DATA, "%s: has %zu bytes, more than such a file can have", name, n);
    g->bytes = malloc(n ? n : 1);
    if (!g->bytes)
        return OUT_OF_MEMORY;
    if (n)
        memcpy(g->bytes, bytes, n);
    g->n = n;
    return OK;
}

static bool is_gzip(const uint8_t *bytes, size_t n)
{
    return n >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static bool is_xz(const uint8_t *bytes, size_t n)
{
    static const uint8_t magic[] = {0xfd, '7', 'z', 'X', 'Z', 0};
    return n >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

fault source_unpack(const char *name, const uint8_t *bytes, size_t n, size_t most, struct source *out)
{
    struct growing g = {.most = most};
    const char *note = " (unpacked)";
    fault f;
    if (is_gzip(bytes, n)) {
        f = gunzip(name, bytes, n, &g);
    } else if (is_xz(bytes, n)) {
        f = unxz(name, bytes, n, &g);
    } else {
        f = copy_plain(name, bytes, n, &g);
        note = "";
    }
    if (!f)
        f = keep(name, note, &g, out);
    if (f)
        free(g.bytes);
    return f;
}

bool source_is_packed(const uint8_t *bytes, size_t n)
{
    return is_gzip(bytes, n) || is_xz(bytes, n);
}

static fault fail_read(const char *path)
{
    return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
}

static fault read_all(FILE *file, const char *path, size_t most, struct growing *g)
{
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        return fail_read(path);
    if (!S_ISREG(info.st_mode))
        return FAIL(FAULT_FILE, "%s: is not a file", path);
    g->most = most;
    g->room = (size_t)info.st_size + 1 < most ? (size_t)info.st_size + 1 : most;
    g->bytes = malloc(g->room);
    if (!g->bytes)
        return OUT_OF_MEMORY;
    for (;;) {
        TRY(grow(g, path));
        size_t got = fread(g->bytes + g->n, 1, g->room - g->n, file);
        g->n += got;
        if (got == 0)
            return ferror(file) ? fail_read(path) : OK;
    }
}

fault source_open(const char *path, size_t most, struct source *out)
{
    struct growing packed = {0};
    int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us up */
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
    if (!file)
        return fail_read(path);
    fault f = read_all(file, path, most, &packed);
    fclose(file);
    if (!f && source_is_packed(packed.bytes, packed.n)) {
        f = source_unpack(path, packed.bytes, packed.n, most, out);
        free(packed.bytes);
        return f;
    }
    if (!f)
        f = keep(path, "", &packed, out);
    if (f)
        free(packed.bytes);
    return f;
}

void source_close(struct source *s)
{
    free((void *)(uintptr_t)s->name);
    free((void *)(uintptr_t)s->bytes);
    *s = (struct source){0};
}

bool source_find(const char *folder, const char *name, char *path, size_t n_path)
{
    static const char *const endings[] = {"", ".gz", ".xz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        int n = snprintf(path, n_path, "%s/%s%s", folder, name, endings[i]);
        if (n > 0 && (size_t)n < n_path && access(path, F_OK) == 0)
            return true;
    }
    return false;
}
