#include "support/data_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/sha256.h"
#include "data/folder.h"

uint8_t test_pixel(size_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

static struct bytes take(size_t n)
{
    struct bytes b = {calloc(1, n ? n : 1), n};
    assert_non_null(b.at);
    return b;
}

static void put_word(uint8_t *at, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(word >> (24 - 8 * i));
}

struct bytes make_idx_images(uint32_t n, uint32_t h, uint32_t w)
{
    struct bytes b = take(16 + (size_t)n * h * w);
    const uint32_t head[] = {0x803, n, h, w};
    for (size_t i = 0; i < 4; i++)
        put_word(b.at + 4 * i, head[i]);
    for (size_t i = 16; i < b.n; i++)
        b.at[i] = test_pixel(i - 16);
    return b;
}

struct bytes make_idx_labels(uint32_t n, unsigned classes)
{
    struct bytes b = take(8 + n);
    put_word(b.at, 0x801);
    put_word(b.at + 4, n);
    for (size_t i = 0; i < n; i++)
        b.at[8 + i] = (uint8_t)(i % classes);
    return b;
}

struct bytes make_cifar(size_t n, unsigned classes, int coarse, size_t first)
{
    size_t n_labels = coarse ? 2 : 1, record = n_labels + 3072;
    struct bytes b = take(n * record);
    for (size_t i = 0; i < n; i++) {
        uint8_t *at = b.at + i * record;
        if (coarse)
            at[0] = (uint8_t)((first + i) % 20);
        at[n_labels - 1] = (uint8_t)((first + i) % classes);
        for (size_t j = 0; j < 3072; j++)
            at[n_labels + j] = test_pixel((first + i) * 3072 + j);
    }
    return b;
}

static void append(png_structp png, png_bytep bytes, size_t n)
{
    struct bytes *b = png_get_io_ptr(png);
    b->at = realloc(b->at, b->n + n);
    memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

static void flush_nothing(png_structp png)
{
    (void)png;
}

struct bytes make_mosaic(size_t n, size_t width, size_t first)
{
    struct bytes b = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    uint8_t *row = calloc(width, 3);
    png_set_write_fn(png, &b, append, flush_nothing);
    png_set_IHDR(png, info, (uint32_t)width, (uint32_t)n, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (size_t i = 0; i < n; i++) {
        for (size_t x = 0; x < width; x++)
            for (size_t c = 0; c < 3; c++)
                row[3 * x + c] = test_pixel((first + i) * 3072 + c * 1024 + x);
        png_write_row(png, row);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(row);
    return b;
}

struct bytes make_json_labels(size_t n, unsigned classes, size_t first)
{
    struct bytes b = take(5 * n + 3);
    b.n = 0;
    b.at[b.n++] = '[';
    for (size_t i = 0; i < n; i++)
        b.n += (size_t)sprintf((char *)b.at + b.n, "%s%zu", i ? "," : "", (first + i) % classes);
    b.at[b.n++] = ']';
    return b;
}

struct bytes make_archive(const char *format, const char *filter, const struct member *members, size_t n)
{
    size_t room = 1 << 16, used = 0;
    for (size_t i = 0; i < n; i++)
        room += 2 * members[i].bytes.n + 4096;
    struct bytes b = take(room);
    struct archive *a = archive_write_new();
    if (filter)
        archive_write_add_filter_by_name(a, filter);
    assert_int_equal(archive_write_set_format_by_name(a, format), ARCHIVE_OK);
    archive_write_set_bytes_in_last_block(a, 1);
    assert_int_equal(archive_write_open_memory(a, b.at, room, &used), ARCHIVE_OK);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *e = archive_entry_new();
        archive_entry_set_pathname(e, members[i].path);
        archive_entry_set_size(e, (int64_t)members[i].bytes.n);
        archive_entry_set_filetype(e, AE_IFREG);
        archive_entry_set_perm(e, 0644);
        assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
        assert_int_equal(archive_write_data(a, members[i].bytes.at, members[i].bytes.n), members[i].bytes.n);
        archive_entry_free(e);
    }
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    b.n = used;
    return b;
}

struct bytes pack(struct bytes plain, const char *filter)
{
    return make_archive("raw", filter, &(struct member){"x", plain}, 1);
}

char *temporary_folder(void)
{
    char *path = strdup("/tmp/veche-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

void remove_folder(char *path)
{
    folder_remove(path);
    free(path);
}

char *path_in(const char *folder, const char *name)
{
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    sprintf(path, "%s/%s", folder, name);
    return path;
}

void put_file(const char *folder, const char *name, struct bytes b)
{
    char *path = path_in(folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(b.n ? fwrite(b.at, 1, b.n, file) : 0, b.n);
    assert_int_equal(fclose(file), 0);
    free(path);
}

size_t count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

void make_small_set(struct small_set *s, struct bytes train, struct bytes test)
{
    const struct bytes *bytes[] = {&train, &test};
    const struct kind *like = kind_find(&data_set_kinds, "cifar-100");
    s->kind = *like;
    s->row = *(const struct set_row *)like->row;
    s->known = *s->row.known;
    for (size_t i = 0; i < 2; i++) {
        s->files[i] = s->known.files[i];
        s->files[i].n = bytes[i]->n / 3074;
        assert_ok(sha256_of(bytes[i]->at, bytes[i]->n, s->sums[i]));
        s->files[i].sha256 = s->sums[i];
    }
    s->known.files = s->files;
    s->row.known = &s->known;
    s->kind.row = &s->row;
}

void assert_fault_says(fault f, const char *words)
{
    assert_non_null(f);
    if (!strstr(fault_text(f), words))
        fail_msg("the fault says '%s', not '%s'", fault_text(f), words);
    fault_drop(f);
}

void assert_ok(fault f)
{
    if (f)
        fail_msg("a fault: %s", fault_text(f));
}
