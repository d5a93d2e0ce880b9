/* unpack.c - find a known set's files in an archive or a folder and lay them out plain.
 *
 *   archive: every regular file by its last name; the data.tar of a .deb is entered as an archive of its own
 *   mosaics: two passes, first the labels, then each PNG becomes a file of records
 *
 * Only names from the table of known sets are ever written, so an archive cannot put anything elsewhere; and
 * nothing is unpacked that is longer than the table says, so a few packed bytes cannot fill the memory.
 */
#include "data/fetch/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/text.h"
#include "data/folder.h"

enum { BLOCK = 1 << 18 };

/* What to do with an archive's files. */
struct taker {
    /* The most bytes that the file may have, packed or not; 0: it is not wanted. */
    size_t (*room)(void *ctx, const char *name);
    fault (*take)(void *ctx, const char *name, const struct source *file);
    void *ctx;
    const struct listener *listener;
    size_t most;    /* bytes that the archive may unpack to */
    uint64_t total; /* bytes of the archive */
};

static fault walk(struct archive *a, const char *from, const struct taker *t);

static fault fail_archive(struct archive *a, const char *from)
{
    const char *why = archive_error_string(a);
    return FAIL(FAULT_DATA, "%s: byte %lld: the archive is damaged: %s", from,
                (long long)archive_filter_bytes(a, -1), why ? why : "it ends too early");
}

static fault new_reader(struct archive **out)
{
    struct archive *a = archive_read_new();
    if (!a)
        return OUT_OF_MEMORY;
    archive_read_support_filter_all(a);
    archive_read_support_format_tar(a);
    archive_read_support_format_ar(a);
    archive_read_support_format_zip(a);
    *out = a;
    return OK;
}

/* Everything that is read from an archive counts. */
struct reading {
    struct archive *archive;
    const char *from;
    const struct taker *taker;
    uint64_t unpacked;
};

/* Filters count what they give; a zip file unpacks by itself. */
static fault go_on(struct reading *r)
{
    const struct taker *t = r->taker;
    uint64_t filtered = (uint64_t)archive_filter_bytes(r->archive, 0);
    if ((filtered > r->unpacked ? filtered : r->unpacked) > t->most)
        return FAIL(FAULT_DATA, "%s: unpacks to more than %zu bytes, more than such an archive can have",
                    r->from, t->most);
    uint64_t taken = t->total ? (uint64_t)archive_filter_bytes(r->archive, -1) : 0;
    return listener_tell(t->listener, "unpacking", taken < t->total ? taken : t->total, t->total);
}

static fault skip_entry(struct reading *r)
{
    const void *block;
    size_t n;
    la_int64_t offset;
    int rc;
    while ((rc = archive_read_data_block(r->archive, &block, &n, &offset)) == ARCHIVE_OK) {
        r->unpacked += n;
        TRY(go_on(r));
    }
    return rc == ARCHIVE_EOF || rc == ARCHIVE_WARN ? OK : fail_archive(r->archive, r->from);
}

static fault fill(struct reading *r, uint8_t *bytes, size_t size)
{
    for (size_t n = 0; n < size;) {
        ssize_t got = archive_read_data(r->archive, bytes + n, size - n < BLOCK ? size - n : BLOCK);
        if (got <= 0)
            return fail_archive(r->archive, r->from);
        n += (size_t)got;
        r->unpacked += (size_t)got;
        TRY(go_on(r));
    }
    return OK;
}

static fault read_entry(struct reading *r, struct archive_entry *entry, const char *name, size_t most,
                        struct source *out)
{
    int64_t size = archive_entry_size(entry);
    if (!archive_entry_size_is_set(entry) || size < 0 || (uint64_t)size > most)
        return FAIL(FAULT_DATA, "%s: %s has %lld bytes, more than such a file can have", r->from, name,
                    (long long)size);
    uint8_t *bytes = malloc(size ? (size_t)size : 1);
    char *full = malloc(strlen(r->from) + strlen(name) + 3);
    fault f = bytes && full ? fill(r, bytes, (size_t)size) : OUT_OF_MEMORY;
    if (!f) {
        sprintf(full, "%s: %s", r->from, name);
        *out = (struct source){full, bytes, (size_t)size};
        return OK;
    }
    free(bytes);
    free(full);
    return f;
}

static fault enter(const struct source *inner, const struct taker *t)
{
    struct archive *a = NULL;
    TRY(new_reader(&a));
    struct taker quiet = *t;
    quiet.total = 0; /* the outer archive is what progress counts */
    fault f = archive_read_open_memory(a, inner->bytes, inner->n) == ARCHIVE_OK
                  ? walk(a, inner->name, &quiet)
                  : fail_archive(a, inner->name);
    archive_read_free(a);
    return f;
}

static fault visit(struct reading *r, struct archive_entry *entry)
{
    const struct taker *t = r->taker;
    const char *path = archive_entry_pathname(entry);
    if (!path || archive_entry_filetype(entry) != AE_IFREG)
        return skip_entry(r);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool nested = t->total && text_starts(name, "data.tar"); /* one level: in the archive that was opened */
    size_t room = nested ? t->most : t->room(t->ctx, name);
    if (!room)
        return skip_entry(r);
    struct source file = {0};
    TRY(read_entry(r, entry, name, room, &file));
    fault f = nested ? enter(&file, t) : t->take(t->ctx, name, &file);
    source_close(&file);
    return f;
}

static fault walk(struct archive *a, const char *from, const struct taker *t)
{
    struct reading r = {a, from, t, 0};
    struct archive_entry *entry;
    for (;;) {
        int rc = archive_read_next_header(a, &entry);
        if (rc == ARCHIVE_EOF)
            return OK;
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return fail_archive(a, from);
        TRY(go_on(&r));
        TRY(visit(&r, entry));
    }
}

static fault walk_file(const char *from, struct taker *t)
{
    struct archive *a = NULL;
    struct stat info;
    t->total = stat(from, &info) == 0 && info.st_size > 0 ? (uint64_t)info.st_size : 1;
    TRY(new_reader(&a));
    fault f =
        archive_read_open_filename(a, from, BLOCK) == ARCHIVE_OK ? walk(a, from, t) : fail_archive(a, from);
    archive_read_free(a);
    return f;
}

/* The known file (or labels' file) that an archive's name stands for, compressed or not, and how long it is;
 * NULL: none. */
static const char *known_name(const struct known *k, const char *name, size_t *n_bytes)
{
    size_t n = strlen(name);
    if (n > 3 && (text_is(name + n - 3, ".gz") || text_is(name + n - 3, ".xz")))
        n -= 3;
    for (size_t i = 0; i < k->n_files; i++) {
        const struct known_file *file = &k->files[i];
        const char *const names[] = {file->name, file->labels};
        for (size_t j = 0; j < 2; j++)
            if (names[j] && strlen(names[j]) == n && strncmp(names[j], name, n) == 0) {
                *n_bytes = j ? known_label_bytes(file) : known_bytes(k, file);
                return names[j];
            }
    }
    return NULL;
}

/* All files of the set twice over, and what else may lie beside them. */
static size_t most_of_archive(const struct known *k)
{
    size_t n = (size_t)1 << 26;
    for (size_t i = 0; i < k->n_files; i++)
        n += 2 * (known_bytes(k, &k->files[i]) + (k->files[i].labels ? known_label_bytes(&k->files[i]) : 0));
    return n;
}

struct laying {
    const struct known *known;
    const char *goal;
    uint16_t *labels; /* owned: of all files end to end, for mosaics */
    bool has_train, has_test;
};

static size_t room_for_known(void *ctx, const char *name)
{
    const struct laying *l = ctx;
    size_t n_bytes;
    return known_name(l->known, name, &n_bytes) ? source_room(n_bytes) : 0;
}

static fault lay_known(void *ctx, const char *name, const struct source *file)
{
    const struct laying *l = ctx;
    char path[PATH_ROOM];
    struct source plain = {0};
    size_t n_bytes;
    TRY(folder_join(path, sizeof path, l->goal, known_name(l->known, name, &n_bytes)));
    TRY(source_unpack(file->name, file->bytes, file->n, source_room(n_bytes), &plain));
    fault f = file_write(path, plain.bytes, plain.n);
    source_close(&plain);
    return f;
}

/* Where the labels of a file begin among those of all files. */
static size_t labels_before(const struct known *k, size_t file)
{
    size_t n = 0;
    for (size_t i = 0; i < file; i++)
        n += k->files[i].n;
    return n;
}

static size_t first_test(const struct known *k)
{
    size_t i = 0;
    while (i < k->n_files && !k->files[i].test)
        i++;
    return i;
}

static size_t room_for_labels(void *ctx, const char *name)
{
    enum { EACH = 16 }; /* a number, its comma and blanks */
    const struct laying *l = ctx;
    bool wanted =
        text_is(name, l->known->mosaics->train_labels) || text_is(name, l->known->mosaics->test_labels);
    return wanted ? source_room(EACH * labels_before(l->known, l->known->n_files)) : 0;
}

static fault take_labels(void *ctx, const char *name, const struct source *file)
{
    struct laying *l = ctx;
    const struct known *k = l->known;
    size_t n_train = labels_before(k, first_test(k)), n_all = labels_before(k, k->n_files);
    if (text_is(name, k->mosaics->train_labels)) {
        l->has_train = true;
        return mosaic_labels(file, n_train, k->classes, l->labels);
    }
    l->has_test = true;
    return mosaic_labels(file, n_all - n_train, k->classes, l->labels + n_train);
}

static size_t png_index(const struct known *k, const char *name)
{
    size_t i = 0;
    while (i < k->n_files && !text_is(k->mosaics->pngs[i], name))
        i++;
    return i;
}

static size_t room_for_png(void *ctx, const char *name)
{
    const struct laying *l = ctx;
    size_t i = png_index(l->known, name);
    return i < l->known->n_files ? source_room(known_bytes(l->known, &l->known->files[i])) : 0;
}

/* Pictures as CIFAR-10's records: the label, then the planes. */
static fault write_records(const char *path, const struct intake *p)
{
    size_t record = 1 + CIFAR_PIXELS;
    uint8_t *bytes = malloc(p->n * record);
    if (!bytes)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < p->n; i++) {
        bytes[i * record] = (uint8_t)p->labels[i];
        memcpy(bytes + i * record + 1, p->pixels + i * CIFAR_PIXELS, CIFAR_PIXELS);
    }
    fault f = file_write(path, bytes, p->n * record);
    free(bytes);
    return f;
}

static fault lay_png(void *ctx, const char *name, const struct source *file)
{
    const struct laying *l = ctx;
    size_t i = png_index(l->known, name);
    const struct known_file *goal = &l->known->files[i];
    char path[PATH_ROOM];
    struct intake intake = {0};
    TRY(folder_join(path, sizeof path, l->goal, goal->name));
    TRY(mosaic_read(file, goal->n, l->labels + labels_before(l->known, i), &intake));
    fault f = write_records(path, &intake);
    intake_close(&intake);
    return f;
}

static fault unpack_mosaics(struct laying *l, const char *from, const struct listener *listener)
{
    struct taker labels = {room_for_labels, take_labels, l, listener, most_of_archive(l->known), 0};
    struct taker pngs = {room_for_png, lay_png, l, listener, most_of_archive(l->known), 0};
    l->labels = calloc(labels_before(l->known, l->known->n_files), sizeof *l->labels);
    if (!l->labels)
        return OUT_OF_MEMORY;
    fault f = walk_file(from, &labels);
    if (!f && l->has_train && l->has_test)
        f = walk_file(from, &pngs);
    free(l->labels);
    return f;
}

fault unpack_archive(const struct known *k, const char *from, const char *goal,
                     const struct listener *listener)
{
    struct laying l = {.known = k, .goal = goal};
    struct taker files = {room_for_known, lay_known, &l, listener, most_of_archive(k), 0};
    TRY(walk_file(from, &files));
    if (!known_is_in(k, goal) && k->mosaics)
        TRY(unpack_mosaics(&l, from, listener));
    if (!known_is_in(k, goal))
        return FAIL(FAULT_DATA, "%s: does not hold all the files of %s", from, k->name);
    return OK;
}

static fault lay_from(const char *folder, const char *name, size_t n_bytes, const char *goal)
{
    char path[PATH_ROOM], plain[PATH_ROOM];
    struct source s = {0};
    if (!source_find(folder, name, path, sizeof path))
        return FAIL(FAULT_FILE, "%s/%s: there is no such file", folder, name);
    TRY(folder_join(plain, sizeof plain, goal, name));
    TRY(source_open(path, source_room(n_bytes), &s));
    fault f = file_write(plain, s.bytes, s.n);
    source_close(&s);
    return f;
}

static fault find_below(const struct known *k, const char *from, char *folder, size_t n)
{
    const char *const below[] = {".", k->name, k->also};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        if (!below[i])
            continue;
        TRY(folder_join(folder, n, from, below[i]));
        if (known_is_in(k, folder))
            return OK;
    }
    return FAIL(FAULT_DATA, "%s: does not hold all the files of %s, the first being %s", from, k->name,
                k->files[0].name);
}

fault unpack_folder(const struct known *k, const char *from, const char *goal,
                    const struct listener *listener)
{
    char folder[PATH_ROOM];
    TRY(find_below(k, from, folder, sizeof folder));
    for (size_t i = 0; i < k->n_files; i++) {
        TRY(listener_tell(listener, "copying", i, k->n_files));
        TRY(lay_from(folder, k->files[i].name, known_bytes(k, &k->files[i]), goal));
        if (k->files[i].labels)
            TRY(lay_from(folder, k->files[i].labels, known_label_bytes(&k->files[i]), goal));
    }
    return listener_tell(listener, "copying", k->n_files, k->n_files);
}
