/* data_files.h - small files of every format the data room reads, made in memory by other means than its
 * readers. */
#ifndef TESTS_SUPPORT_DATA_FILES_H
#define TESTS_SUPPORT_DATA_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "data/set_kinds.h"

struct bytes {
    uint8_t *at; /* owned: free it */
    size_t n;
};

uint8_t test_pixel(size_t i); /* the i-th byte of every made file's pixels: any value, by position */

struct bytes make_idx_images(uint32_t n, uint32_t h, uint32_t w);
struct bytes make_idx_labels(uint32_t n, unsigned classes); /* label i is i mod classes */
/* Records with label i mod classes; with coarse labels (i mod 20) when `coarse`. Pixels from test_pixel(first
 * * 3072). */
struct bytes make_cifar(size_t n, unsigned classes, int coarse, size_t first);
/* The same pictures as make_cifar(n, ..., first) as a PNG of `width` x n. */
struct bytes make_mosaic(size_t n, size_t width, size_t first);
struct bytes make_json_labels(size_t n, unsigned classes, size_t first);

struct bytes pack(struct bytes plain, const char *filter); /* "gzip" or "xz" */

struct member {
    const char *path;
    struct bytes bytes;
};
/* An archive of `format` ("gnutar", "ar", "zip") with a filter or NULL. */
struct bytes make_archive(const char *format, const char *filter, const struct member *members, size_t n);

char *temporary_folder(void);   /* owned by the caller; remove_folder when done */
void remove_folder(char *path); /* with all in it; frees the path */
void put_file(const char *folder, const char *name, struct bytes b);
char *path_in(const char *folder, const char *name); /* free it */
size_t count_entries(const char *folder);            /* all names but . and .. */

/* A set like CIFAR-100, of files with so many samples as these two have; their sums are the right ones. */
struct small_set {
    struct known known;
    struct known_file files[2];
    char sums[2][65];
    struct set_row row;
    struct kind kind; /* what an experiment names */
};
void make_small_set(struct small_set *s, struct bytes train, struct bytes test);

/* Asserts that there is a fault whose sentence holds the words, and drops it. */
void assert_fault_says(fault f, const char *words);
void assert_ok(fault f);

#endif
