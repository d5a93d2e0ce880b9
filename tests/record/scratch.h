/* scratch.h - a folder of its own for each test, and small questions about files in it. */
#ifndef TESTS_RECORD_SCRATCH_H
#define TESTS_RECORD_SCRATCH_H

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "support/must.h"

static inline int scratch_open(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char *path = malloc(512);
    snprintf(path, 512, "%s/veche-record-XXXXXX", tmp ? tmp : "/tmp");
    *state = mkdtemp(path);
    return *state ? chmod(path, 0755) : -1;
}

static inline int scratch_remove_one(const char *path, const struct stat *s, int kind, struct FTW *w)
{
    (void)s, (void)kind, (void)w;
    return remove(path);
}

static inline int scratch_close(void **state)
{
    nftw(*state, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

#define SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_open, scratch_close)

/* "FOLDER/NAME"; the texts of one test live until its process ends or the next 16 are made. */
static inline const char *in(const char *folder, const char *name)
{
    static char paths[16][1100];
    static size_t next;
    char path[sizeof paths[0]]; /* `folder` may itself be one of the sixteen */
    snprintf(path, sizeof path, "%.800s/%.250s", folder, name);
    return memcpy(paths[next++ % 16], path, sizeof path);
}

static inline bool exists(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

/* How many names in the folder contain `part` (hidden ones too; "": all). */
static inline size_t count_names(const char *folder, const char *part)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strstr(e->d_name, part);
    if (d)
        closedir(d);
    return n;
}

static inline char *slurp(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = calloc(1, 1 << 22);
    *n = fread(bytes, 1, (1 << 22) - 1, file);
    fclose(file);
    return bytes;
}

static inline void spit(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static inline void assert_ok(fault f)
{
    if (f)
        fail_msg("a fault: %s", fault_text(f));
}

/* A fault of this kind whose one sentence contains these words; dropped. */
static inline void assert_fault(fault f, enum fault_kind kind, const char *words)
{
    if (!f)
        fail_msg("no fault, where one should say '%s'", words);
    if (fault_kind_of(f) != kind || !strstr(fault_text(f), words) || strchr(fault_text(f), '\n'))
        fail_msg("the fault is: %s (kind %d), and not '%s' (kind %d)", fault_text(f), (int)fault_kind_of(f),
                 words, (int)kind);
    fault_drop(f);
}

#endif
