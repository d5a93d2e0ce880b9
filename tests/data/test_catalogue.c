/* Getting a known set: from folders and archives, from programs that fail, into folders that are full or in
 * use.
 *
 * The set here is a small one in CIFAR's layout: two training files and a test file of 4 pictures each.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sha256.h"
#include "data/catalogue.h"
#include "data/fetch/fetch.h"
#include "support/data_files.h"

enum { FILES = 3, EACH = 4, CLASSES = 2 };

static const char *const names[FILES] = {"a.bin", "b.bin", "t.bin"};
static const char *const pngs[FILES] = {"a.png", "b.png", "t.png"};
static const struct mosaic_files mosaics = {pngs, "train.json", "test.json"};
static const struct listener nobody;

struct small {
    struct known known;
    struct known_file files[FILES];
    char sums[FILES][SHA256_HEX];
    struct bytes bytes[FILES];
    struct origin origins[2];
    char *folder, *data, *from; /* the data folder is not there yet */
};

static int set_up(void **state)
{
    struct small *s = calloc(1, sizeof *s);
    for (size_t i = 0; i < FILES; i++) {
        s->bytes[i] = make_cifar(EACH, CLASSES, 0, i * EACH);
        assert_ok(sha256_of(s->bytes[i].at, s->bytes[i].n, s->sums[i]));
        s->files[i] = (struct known_file){names[i], s->sums[i], NULL, NULL, EACH, i == FILES - 1};
    }
    s->known = (struct known){.name = "small",
                              .layout = LAYOUT_CIFAR,
                              .classes = CLASSES,
                              .files = s->files,
                              .n_files = FILES,
                              .also = "small-official",
                              .mosaics = &mosaics};
    s->folder = temporary_folder();
    s->data = path_in(s->folder, "deep/data");
    s->from = path_in(s->folder, "from");
    assert_ok(folder_make(s->from));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct small *s = *state;
    for (size_t i = 0; i < FILES; i++)
        free(s->bytes[i].at);
    remove_folder(s->folder);
    free(s->data);
    free(s->from);
    free(s);
    return 0;
}

static void put_all(const struct small *s, const char *folder, const char *filter)
{
    for (size_t i = 0; i < FILES; i++) {
        char name[32];
        struct bytes b = filter ? pack(s->bytes[i], filter) : s->bytes[i];
        snprintf(name, sizeof name, "%s%s", names[i], !filter ? "" : strcmp(filter, "xz") ? ".gz" : ".xz");
        put_file(folder, name, b);
        if (filter)
            free(b.at);
    }
}

/* The set is in place, every byte right, and nothing else is in the data folder. */
static void assert_is_got(const struct small *s)
{
    struct intake train = {0}, test = {0};
    char *set = path_in(s->data, "small");
    assert_ok(known_read(&s->known, set, &nobody, &train, &test));
    assert_int_equal(train.n, 2 * EACH);
    assert_int_equal(test.n, EACH);
    for (size_t i = 0; i < 2 * EACH * 3072; i++)
        assert_int_equal(train.pixels[i], test_pixel(i));
    assert_int_equal(count_entries(s->data), 1);
    assert_int_equal(count_entries(set), FILES);
    intake_close(&train);
    intake_close(&test);
    free(set);
}

static void assert_nothing_is_left(const struct small *s)
{
    assert_int_equal(count_entries(s->data), 0);
}

static fault get(const struct small *s, const char *from)
{
    return known_get(&s->known, s->data, from, &nobody);
}

static void a_folder_gives_the_set_plain_or_packed_there_or_below(void **state)
{
    struct small *s = *state;
    const char *const filters[] = {NULL, "gzip", "xz"}, *const below[] = {".", "small", "small-official"};
    for (size_t i = 0; i < 3; i++) {
        char *folder = path_in(s->from, below[i]);
        assert_ok(folder_make(folder));
        put_all(s, folder, filters[i]);
        assert_ok(get(s, s->from));
        assert_is_got(s);
        folder_remove(s->data);
        folder_remove(s->from);
        assert_ok(folder_make(s->from));
        free(folder);
    }
    assert_fault_says(get(s, s->from), "does not hold all the files of small, the first being a.bin");
    assert_nothing_is_left(s);
    assert_fault_says(get(s, "/nowhere"), "/nowhere: cannot be read");
    assert_nothing_is_left(s);
}

static struct bytes archive_of(const struct small *s, const char *filter)
{
    struct member members[FILES + 1] = {{"small-official/readme.html", {(uint8_t *)"hello", 5}}};
    char paths[FILES][64];
    for (size_t i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "small-official/%s", names[i]);
        members[i + 1] = (struct member){paths[i], s->bytes[i]};
    }
    return make_archive("gnutar", filter, members, FILES + 1);
}

static struct bytes deb_of(const struct small *s)
{
    struct bytes inner = archive_of(s, "xz");
    struct member members[] = {{"debian-binary", {(uint8_t *)"2.0\n", 4}}, {"data.tar.xz", inner}};
    struct bytes deb = make_archive("arbsd", NULL, members, 2);
    free(inner.at);
    return deb;
}

static struct bytes npm_of(size_t wrong_label)
{
    struct member members[FILES + 2];
    char paths[FILES][32];
    for (size_t i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "package/%s", pngs[i]);
        members[i] = (struct member){paths[i], make_mosaic(EACH, 1024, i * EACH)};
    }
    members[FILES] = (struct member){"package/train.json", make_json_labels(2 * EACH, CLASSES, wrong_label)};
    members[FILES + 1] = (struct member){"package/test.json", make_json_labels(EACH, CLASSES, 2 * EACH)};
    struct bytes tgz = make_archive("gnutar", "gzip", members, FILES + 2);
    for (size_t i = 0; i < FILES + 2; i++)
        free(members[i].bytes.at);
    return tgz;
}

static void archives_of_every_kind_give_the_set(void **state)
{
    struct small *s = *state;
    struct bytes archives[] = {archive_of(s, NULL), archive_of(s, "gzip"), archive_of(s, "xz"), deb_of(s),
                               npm_of(0)};
    char *path = path_in(s->from, "archive");
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        put_file(s->from, "archive", archives[i]);
        assert_ok(get(s, path));
        assert_is_got(s);
        folder_remove(s->data);
        free(archives[i].at);
    }
    free(path);
}

static void a_truncated_archive_is_a_fault_and_leaves_nothing(void **state)
{
    struct small *s = *state;
    struct bytes archives[] = {archive_of(s, "gzip"), deb_of(s), npm_of(0)};
    char *path = path_in(s->from, "archive");
    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 0; n < archives[i].n; n += archives[i].n / 13 + 1) {
            put_file(s->from, "archive", (struct bytes){archives[i].at, n});
            assert_fault_says(get(s, path), "archive");
            assert_nothing_is_left(s);
        }
        free(archives[i].at);
    }
    free(path);
}

static void wrong_bytes_are_told_by_their_sum_and_wrong_labels_by_their_count(void **state)
{
    struct small *s = *state;
    put_all(s, s->from, NULL);
    s->bytes[1].at[100] ^= 1; /* a pixel */
    put_file(s->from, names[1], s->bytes[1]);
    assert_fault_says(get(s, s->from), "b.bin: is damaged, or another file: the SHA-256 is ");
    assert_nothing_is_left(s);
    s->bytes[1].at[100] ^= 1;
    s->bytes[1].at[0] ^= 1; /* a label; its sum is made right */
    put_file(s->from, names[1], s->bytes[1]);
    assert_ok(sha256_of(s->bytes[1].at, s->bytes[1].n, s->sums[1]));
    assert_fault_says(get(s, s->from), "label 0 stands at 3 training samples, but should at 4");
    assert_nothing_is_left(s);
    put_file(s->from, names[1], (struct bytes){s->bytes[1].at, 3073});
    assert_fault_says(get(s, s->from), "b.bin: holds 1 samples, but should hold 4");
    assert_nothing_is_left(s);
}

static void labels_in_another_order_are_a_fault(void **state)
{
    struct small *s = *state;
    struct bytes tgz = npm_of(1);
    char *path = path_in(s->from, "archive");
    put_file(s->from, "archive", tgz);
    assert_fault_says(get(s, path), "a.bin: is damaged, or another file: the SHA-256 is ");
    assert_nothing_is_left(s);
    free(tgz.at);
    free(path);
}

static void a_good_copy_is_kept_and_a_bad_one_replaced(void **state)
{
    struct small *s = *state;
    char *set = path_in(s->data, "small");
    struct stat before, after;
    char *first = path_in(set, names[0]);
    put_all(s, s->from, NULL);
    assert_ok(get(s, s->from));
    assert_int_equal(stat(first, &before), 0);
    assert_ok(get(s, "/nowhere")); /* nothing is needed from there */
    assert_int_equal(stat(first, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    put_file(set, names[0], s->bytes[1]);
    put_file(set, "notes", s->bytes[1]);
    assert_ok(get(s, s->from));
    char *notes = path_in(set, "notes");
    assert_int_equal(unlink(notes), 0); /* what else was there is still there */
    assert_is_got(s);
    free(notes);
    free(first);
    free(set);
}

static void what_a_killed_fetch_left_is_removed(void **state)
{
    struct small *s = *state;
    char *left = path_in(s->data, ".veche-get-Abc123/0/cache");
    assert_ok(folder_make(left));
    put_file(left, "half", s->bytes[0]);
    put_all(s, s->from, NULL);
    assert_ok(get(s, s->from));
    assert_is_got(s);
    free(left);
}

/* In a process of its own, in which no file may grow beyond a few bytes: a full disk as far as writing goes.
 */
static void a_full_disk_is_one_sentence_and_leaves_nothing(void **state)
{
    struct small *s = *state;
    put_all(s, s->from, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {5000, 5000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        fault f = get(s, s->from);
        _exit(f && strstr(fault_text(f), "a.bin: cannot be written: File too large") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_nothing_is_left(s);
}

static void many_fetches_at_once_do_not_harm_each_other(void **state)
{
    struct small *s = *state;
    enum { MANY = 6 };
    pid_t pids[MANY];
    put_all(s, s->from, "xz");
    for (size_t i = 0; i < MANY; i++)
        if ((pids[i] = fork()) == 0)
            _exit(get(s, s->from) ? 1 : 0);
    for (size_t i = 0; i < MANY; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_is_got(s);
}

/* Programs of our own stand before the real ones on the PATH. */
static char *put_program(struct small *s, const char *name, const char *script)
{
    char *bin = path_in(s->folder, "bin"), *path = path_in(bin, name), *before = strdup(getenv("PATH"));
    char *both = malloc(strlen(bin) + strlen(before) + 2);
    assert_ok(folder_make(bin));
    put_file(bin, name, (struct bytes){(uint8_t *)(uintptr_t)script, strlen(script)});
    assert_int_equal(chmod(path, 0755), 0);
    sprintf(both, "%s:%s", bin, before);
    setenv("PATH", both, 1);
    free(both);
    free(path);
    free(bin);
    return before;
}

static void restore_path(char *before)
{
    setenv("PATH", before, 1);
    free(before);
}

static void origins_are_tried_in_order_until_one_gives_the_set(void **state)
{
    struct small *s = *state;
    struct bytes tgz = npm_of(0);
    char sum[SHA256_HEX], script[4096];
    put_file(s->from, "archive", tgz);
    assert_ok(sha256_of(tgz.at, tgz.n, sum));
    snprintf(script, sizeof script, "#!/bin/sh\nfor last; do :; done\ncp \"%s/$last\" archive\n", s->from);
    char *path = put_program(s, "curl", script);
    char *path2 = put_program(s, "npm", "#!/bin/sh\necho half > half.tgz\necho no network >&2\nexit 7\n");
    s->origins[0] = (struct origin){FETCH_NPM, "small@1", NULL, 1000};
    s->origins[1] = (struct origin){FETCH_CURL, "archive", sum, 1000};
    s->known.origins = s->origins;
    s->known.n_origins = 2;
    assert_ok(get(s, NULL));
    assert_is_got(s);
    folder_remove(s->data);
    sum[5] ^= 1;
    assert_fault_says(get(s, NULL),
                      "npm failed with exit code 7: no network; archive came with the SHA-256 ");
    assert_nothing_is_left(s);
    restore_path(path2);
    restore_path(path);
    free(tgz.at);
}

static bool stop(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    size_t *left = ctx;
    return *left && (*left)--;
}

static void a_fetch_stopped_anywhere_leaves_nothing(void **state)
{
    struct small *s = *state;
    put_all(s, s->from, NULL);
    size_t steps = 0;
    for (;; steps++) {
        size_t left = steps;
        fault f = known_get(&s->known, s->data, s->from, &(struct listener){stop, &left});
        if (!f)
            break;
        assert_int_equal(fault_kind_of(f), FAULT_STOPPED);
        fault_drop(f);
        assert_nothing_is_left(s);
    }
    assert_true(steps > 4);
    assert_is_got(s);
}

static void the_catalogue_lists_what_is_here_and_where(void **state)
{
    struct small *s = *state;
    char folder[4096], expected[4096];
    struct catalogue_entry e;
    bool seen = false;
    setenv("VECHE_DATA", s->data, 1);
    for (size_t i = 0; i < catalogue_count(); i++) {
        assert_ok(catalogue_look(i, &e, folder, sizeof folder));
        assert_true(e.here == (e.folder != NULL));
        if (strcmp(e.name, "cifar-100") == 0) {
            assert_false(e.here);
            seen = true;
        }
    }
    assert_true(seen);
    char *set = path_in(s->data, "cifar-100-binary");
    assert_ok(folder_make(set));
    put_file(set, "train.bin.xz", s->bytes[0]);
    put_file(set, "test.bin", s->bytes[0]);
    assert_ok(catalogue_look(2, &e, folder, sizeof folder));
    snprintf(expected, sizeof expected, "%s/cifar-100-binary", s->data);
    assert_true(e.here);
    assert_string_equal(e.folder, expected);
    assert_fault_says(catalogue_verify("cifar-100", NULL, NULL), "cifar-100-binary/train.bin.xz: byte ");
    unsetenv("VECHE_DATA");
    free(set);
}

static void an_unknown_set_is_a_fault_with_the_nearest_name(void **state)
{
    struct small *s = *state;
    setenv("VECHE_DATA", s->data, 1);
    assert_fault_says(catalogue_get("cifra-10", NULL, NULL, NULL), "did you mean 'cifar-10'?");
    assert_fault_says(catalogue_verify("zzzzzzzzz", NULL, NULL), "`veche data list` shows all");
    assert_fault_says(catalogue_verify("cifar-10", NULL, NULL), "`veche data get cifar-10` fetches it");
    unsetenv("VECHE_DATA");
}

static void the_data_folder_is_where_the_environment_says(void **state)
{
    (void)state;
    char path[4096], *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("HOME", "/home/x", 1);
    unsetenv("XDG_DATA_HOME");
    unsetenv("VECHE_DATA");
    assert_ok(data_folder(path, sizeof path));
    assert_string_equal(path, "/home/x/.local/share/veche");
    setenv("XDG_DATA_HOME", "/xdg", 1);
    assert_ok(data_folder(path, sizeof path));
    assert_string_equal(path, "/xdg/veche");
    setenv("VECHE_DATA", "/data", 1);
    assert_ok(data_folder(path, sizeof path));
    assert_string_equal(path, "/data");
    assert_fault_says(data_folder(path, 3), "too long");
    unsetenv("VECHE_DATA");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    assert_fault_says(data_folder(path, sizeof path), "set VECHE_DATA or HOME");
    setenv("HOME", home, 1);
    free(home);
}

static void every_known_set_is_well_formed(void **state)
{
    (void)state;
    for (const struct known *const *at = known_sets; *at; at++) {
        const struct known *k = *at;
        size_t n[2] = {0};
        assert_true(k->n_origins > 0);
        for (size_t i = 0; i < k->n_files; i++) {
            assert_int_equal(strlen(k->files[i].sha256), 64);
            assert_true((k->layout == LAYOUT_IDX) == (k->files[i].labels != NULL));
            if (k->files[i].labels)
                assert_int_equal(strlen(k->files[i].labels_sha256), 64);
            n[k->files[i].test] += k->files[i].n;
        }
        assert_int_equal(n[0] % k->classes, 0);
        assert_int_equal(n[1], 10000);
        for (size_t i = 0; i < k->n_origins; i++)
            assert_true(!k->origins[i].sha256 || strlen(k->origins[i].sha256) == 64);
    }
}

/* ---- bombs ---- */

enum { BOMB = 1 << 26 };

static struct bytes zeros(size_t n)
{
    return (struct bytes){calloc(1, n), n};
}

/* An archive in which one file, at `path`, is far longer than it can be, beside those of the set. */
static void try_bomb(const struct small *s, const char *path, struct bytes bomb, const char *format, const char *filter,
                     const char *words)
{
    struct member member = {path, bomb};
    struct bytes archive = make_archive(format, filter, &member, 1);
    char *at = path_in(s->from, "archive");
    put_file(s->from, "archive", archive);
    assert_fault_says(get(s, at), words);
    assert_nothing_is_left(s);
    free(archive.at);
    free(at);
}

static void a_file_that_unpacks_to_more_than_the_table_says_is_a_fault(void **state)
{
    struct small *s = *state;
    struct bytes bomb = zeros(BOMB), packed = pack(bomb, "gzip"), twice = zeros(3 * (size_t)BOMB);
    char words[128];
    snprintf(words, sizeof words, "unpacks to more than %zu bytes", source_room(s->bytes[0].n));
    try_bomb(s, "a.bin.gz", packed, "gnutar", NULL, words);
    try_bomb(s, "a.bin", bomb, "gnutar", "gzip", "a.bin has 67108864 bytes, more than such a file can have");
    try_bomb(s, "a.bin", bomb, "zip", NULL, "a.bin has 67108864 bytes, more than such a file can have");
    try_bomb(s, "readme", twice, "gnutar", "gzip", "more than such an archive can have");
    try_bomb(s, "readme", twice, "zip", NULL, "more than such an archive can have");
    put_all(s, s->from, NULL);
    put_file(s->from, names[1], packed);
    assert_fault_says(get(s, s->from), words);
    assert_nothing_is_left(s);
    free(bomb.at);
    free(packed.at);
    free(twice.at);
}

static void what_is_neither_a_folder_nor_a_file_is_refused_at_once(void **state)
{
    struct small *s = *state;
    char *pipe = path_in(s->from, names[0]);
    assert_int_equal(mkfifo(pipe, 0666), 0);
    assert_fault_says(get(s, pipe), "is neither a folder nor a file");
    assert_fault_says(get(s, "/dev/zero"), "/dev/zero: is neither a folder nor a file");
    for (size_t i = 1; i < FILES; i++)
        put_file(s->from, names[i], s->bytes[i]);
    assert_fault_says(get(s, s->from), "is not a file");
    assert_nothing_is_left(s);
    free(pipe);
}

#define SMALL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SMALL(a_folder_gives_the_set_plain_or_packed_there_or_below),
        SMALL(archives_of_every_kind_give_the_set),
        SMALL(a_file_that_unpacks_to_more_than_the_table_says_is_a_fault),
        SMALL(what_is_neither_a_folder_nor_a_file_is_refused_at_once),
        SMALL(a_truncated_archive_is_a_fault_and_leaves_nothing),
        SMALL(wrong_bytes_are_told_by_their_sum_and_wrong_labels_by_their_count),
        SMALL(labels_in_another_order_are_a_fault),
        SMALL(a_good_copy_is_kept_and_a_bad_one_replaced),
        SMALL(what_a_killed_fetch_left_is_removed),
        SMALL(a_full_disk_is_one_sentence_and_leaves_nothing),
        SMALL(many_fetches_at_once_do_not_harm_each_other),
        SMALL(origins_are_tried_in_order_until_one_gives_the_set),
        SMALL(a_fetch_stopped_anywhere_leaves_nothing),
        SMALL(the_catalogue_lists_what_is_here_and_where),
        SMALL(an_unknown_set_is_a_fault_with_the_nearest_name),
        cmocka_unit_test(the_data_folder_is_where_the_environment_says),
        cmocka_unit_test(every_known_set_is_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
