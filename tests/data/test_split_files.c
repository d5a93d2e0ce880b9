/* Agents with files of their own: together in one process, or each alone with its own file. */
#include "data/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "data/synthetic.h"
#include "support/data_files.h"

enum { AGENTS = 3, CLASSES = 4 };

/* Three agents with 5, 1 and 9 samples, and 6 test samples. */
struct world {
    char *folder;
    char *files[AGENTS], *labels[AGENTS], *test, *test_labels;
    struct files_split split;
    struct cifar_binary_settings cifar;
    struct idx_settings idx;
    struct data_settings data;
    double mean[3], deviation[3];
};

static const size_t shares[AGENTS] = {5, 1, 9}, begins[AGENTS + 1] = {0, 5, 6, 15};

static char *put(struct world *w, const char *name, struct bytes b)
{
    put_file(w->folder, name, b);
    free(b.at);
    return path_in(w->folder, name);
}

static void open_world(struct world *w, const char *set, size_t channels)
{
    bool idx = strcmp(set, "idx") == 0;
    *w = (struct world){.folder = temporary_folder()};
    for (size_t a = 0; a < AGENTS; a++) {
        char name[32];
        sprintf(name, "agent-%zu", a);
        w->files[a] = put(w, name,
                          idx ? make_idx_images((uint32_t)shares[a], 6, 5)
                              : make_cifar(shares[a], CLASSES, 0, begins[a]));
        sprintf(name, "labels-%zu", a);
        w->labels[a] = put(w, name, make_idx_labels((uint32_t)shares[a], CLASSES));
    }
    w->test = put(w, "test", idx ? make_idx_images(6, 6, 5) : make_cifar(6, CLASSES, 0, 100));
    w->test_labels = put(w, "test-labels", make_idx_labels(6, CLASSES));
    w->split.files = (struct texts){(const char *const *)w->files, AGENTS};
    if (idx)
        w->split.labels = (struct texts){(const char *const *)w->labels, AGENTS};
    w->cifar = (struct cifar_binary_settings){NULL, w->test, CLASSES, false};
    w->idx = (struct idx_settings){NULL, NULL, w->test, w->test_labels, CLASSES};
    for (size_t c = 0; c < channels; c++) {
        w->mean[c] = 0.25;
        w->deviation[c] = 0.5;
    }
    w->data = (struct data_settings){
        .set = {.kind = kind_find(&data_set_kinds, set),
                .settings = idx ? (void *)&w->idx : (void *)&w->cifar,
                .place = {"e.yaml", 2, 5}},
        .split = {.kind = kind_find(&split_kinds, "files"), .settings = &w->split, .place = {"e.yaml", 3, 8}},
        .batch = 2,
        .mean = {w->mean, channels},
        .deviation = {w->deviation, channels},
    };
}

static void close_world(struct world *w)
{
    for (size_t a = 0; a < AGENTS; a++) {
        free(w->files[a]);
        free(w->labels[a]);
    }
    free(w->test);
    free(w->test_labels);
    remove_folder(w->folder);
}

static void in_one_process_shares_are_the_files(void **state)
{
    (void)state;
    static const char *const sets[] = {"idx", "cifar-binary"};
    for (size_t k = 0; k < 2; k++) {
        struct world w;
        struct dataset *d;
        struct split s;
        open_world(&w, sets[k], k == 0 ? 1 : 3);
        assert_ok(split_check(&w.data, AGENTS));
        assert_ok(dataset_open(&w.data, 1, &d));
        assert_int_equal(d->train.n, 15);
        assert_int_equal(d->test.n, 6);
        assert_true(d->train.mean[0] == 0.25f && d->train.deviation[0] == 0.5f);
        assert_ok(split_make(&w.data, &d->train, AGENTS, NULL, 1, &s));
        assert_memory_equal(s.first, begins, sizeof begins);
        for (uint32_t i = 0; i < 15; i++)
            assert_int_equal(s.samples[i], i);
        size_t one = d->train.c * d->train.h * d->train.w;
        for (size_t a = 0; a < AGENTS; a++)
            for (size_t i = 0; i < shares[a]; i++) {
                size_t made =
                    k == 0 ? i : begins[a] + i; /* IDX files are each made from the first sample on */
                assert_int_equal(d->train.labels[begins[a] + i], made % CLASSES);
                for (size_t p = 0; p < one; p++)
                    assert_int_equal(d->train.pixels[(begins[a] + i) * one + p], test_pixel(made * one + p));
            }
        split_release(&s);
        dataset_close(d);
        close_world(&w);
    }
}

static void a_process_of_one_agent_opens_only_its_own_file(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, "cifar-binary", 3);
    struct dataset *all;
    assert_ok(dataset_open(&w.data, 1, &all));
    for (size_t mine = 0; mine < AGENTS; mine++) {
        struct dataset *d;
        struct split s;
        char hidden[AGENTS][512];
        for (size_t a = 0; a < AGENTS; a++) { /* nobody else's file is here */
            snprintf(hidden[a], sizeof hidden[a], "%s-elsewhere", w.files[a]);
            if (a != mine)
                assert_int_equal(rename(w.files[a], hidden[a]), 0);
        }
        assert_ok(dataset_open_for(&w.data, 1, (int64_t)mine, &d));
        assert_int_equal(d->train.n, shares[mine]);
        assert_int_equal(d->test.n, 6);
        assert_memory_equal(d->train.pixels, all->train.pixels + begins[mine] * 3072, shares[mine] * 3072);
        assert_memory_equal(d->train.mean, all->train.mean, sizeof d->train.mean);
        assert_ok(split_make(&w.data, &d->train, AGENTS, NULL, 1, &s));
        for (size_t a = 0; a < AGENTS; a++)
            assert_int_equal(s.first[a + 1] - s.first[a], a == mine ? shares[a] : 0);
        split_release(&s);
        dataset_close(d);
        assert_fault_says(dataset_open(&w.data, 1, &d), "cannot be read");
        for (size_t a = 0; a < AGENTS; a++)
            if (a != mine)
                assert_int_equal(rename(hidden[a], w.files[a]), 0);
    }
    struct dataset *d;
    assert_fault_says(dataset_open_for(&w.data, 1, AGENTS, &d), "agent 3 has none of the 3 files");
    dataset_close(all);
    close_world(&w);
}

static void with_other_splits_a_process_of_one_agent_opens_the_whole_set(void **state)
{
    (void)state;
    struct blobs_settings blobs = {
        .classes = 3, .features = 2, .samples = 30, .test_samples = 9, .spread = 0.02};
    struct data_settings d = {.set = {.kind = kind_find(&data_set_kinds, "blobs"), .settings = &blobs},
                              .split = {.kind = kind_find(&split_kinds, "shuffle")},
                              .batch = 2};
    struct dataset *set;
    assert_ok(dataset_open_for(&d, 1, 2, &set));
    assert_int_equal(set->train.n, 30);
    assert_null(set->train.file_first);
    dataset_close(set);
}

static void the_shape_is_known_without_the_agents_files(void **state)
{
    (void)state;
    struct world w;
    struct sample_shape shape;
    open_world(&w, "idx", 1);
    for (size_t a = 0; a < AGENTS; a++)
        assert_int_equal(unlink(w.files[a]), 0);
    assert_ok(dataset_shape(&w.data, &shape));
    assert_int_equal(shape.c, 1);
    assert_int_equal(shape.h, 6);
    assert_int_equal(shape.w, 5);
    assert_int_equal(shape.classes, CLASSES);
    close_world(&w);
}

static void files_that_do_not_fit_are_refused_with_their_place(void **state)
{
    (void)state;
    struct world w;
    struct dataset *d;
    open_world(&w, "cifar-binary", 3);
    assert_fault_says(split_check(&w.data, 4), "e.yaml:3:8: data.split: 3 files for 4 agents");
    w.split.labels = (struct texts){(const char *const *)w.labels, 2};
    assert_fault_says(split_check(&w.data, 3), "e.yaml:3:8: data.split: 2 files of labels for 3 agents");
    w.split.labels.n = 3;
    assert_fault_says(dataset_open(&w.data, 1, &d), "labels: cifar-binary has its labels with the samples");
    w.split.labels.n = 0;
    const char *twice[] = {w.files[0], w.files[1], w.files[0]};
    w.split.files.at = twice;
    assert_fault_says(split_check(&w.data, 3), "is given to two agents");
    assert_fault_says(dataset_open(&w.data, 1, &d), "is given to two agents");
    w.split.files.at = (const char *const *)w.files;
    w.data.limit = 4;
    assert_fault_says(dataset_open(&w.data, 1, &d), "data.limit: cannot be used with the split 'files'");
    w.data.limit = 0;
    w.data.mean.n = w.data.deviation.n = 0;
    assert_fault_says(dataset_open(&w.data, 1, &d), "data.mean: must be written with the split 'files'");
    w.data.mean.n = w.data.deviation.n = 3;
    w.cifar.train = w.files[0];
    assert_fault_says(dataset_open(&w.data, 1, &d),
                      "e.yaml:2:5: data.set: train: each agent has its own file by the split 'files'");
    close_world(&w);
    open_world(&w, "idx", 1);
    w.split.labels.n = 0;
    assert_fault_says(dataset_open(&w.data, 1, &d), "data.split: the key 'labels' is missing");
    struct blobs_settings blobs = {
        .classes = 3, .features = 2, .samples = 30, .test_samples = 9, .spread = 0.02};
    w.data.set = (struct choice){.kind = kind_find(&data_set_kinds, "blobs"), .settings = &blobs};
    assert_fault_says(dataset_open(&w.data, 1, &d),
                      "'files' is for sets that lie in files, and blobs is made up");
    close_world(&w);
}

static void without_files_of_the_agents_the_sets_own_must_be_named(void **state)
{
    (void)state;
    struct world w;
    struct dataset *d;
    open_world(&w, "idx", 1);
    w.data.split = (struct choice){.kind = kind_find(&split_kinds, "shuffle")};
    assert_fault_says(dataset_open(&w.data, 1, &d),
                      "e.yaml:2:5: data.set: the key 'train_images' is missing");
    w.idx.train_images = w.test;
    assert_fault_says(dataset_open(&w.data, 1, &d), "data.set: the key 'train_labels' is missing");
    close_world(&w);
}

static void a_damaged_file_is_named_and_nothing_leaks(void **state)
{
    (void)state;
    struct world w;
    struct dataset *d;
    open_world(&w, "cifar-binary", 3);
    struct bytes b = make_cifar(2, CLASSES, 0, 0);
    put_file(w.folder, "agent-1", (struct bytes){b.at, b.n - 1});
    free(b.at);
    assert_fault_says(dataset_open(&w.data, 1, &d), "agent-1: byte 3073: the record of 3073 bytes");
    assert_ok(dataset_open_for(&w.data, 1, 0, &d)); /* which is none of agent 0's business */
    dataset_close(d);
    close_world(&w);
}

static void every_agents_file_has_a_digest_of_its_own(void **state)
{
    (void)state;
    struct world w;
    struct dataset *all, *own;
    char together[AGENTS][65], alone[65];
    open_world(&w, "idx", 1);
    assert_ok(dataset_open(&w.data, 1, &all));
    for (size_t a = 0; a < AGENTS; a++)
        assert_ok(dataset_share_digest(all, a, together[a]));
    for (size_t a = 0; a < AGENTS; a++) {
        assert_ok(dataset_open_for(&w.data, 1, (int64_t)a, &own));
        assert_ok(dataset_share_digest(own, a, alone));
        assert_string_equal(together[a], alone);
        assert_string_not_equal(together[a], together[(a + 1) % AGENTS]);
        dataset_close(own);
    }
    dataset_close(all);
    close_world(&w);
}

/* CIFAR-100 of the known sets: the test samples from where the set lies, the training samples from the
 * agents. */
static void a_known_set_gives_the_test_samples_and_its_normalisation(void **state)
{
    (void)state;
    char *folder = temporary_folder(), *set = path_in(folder, "cifar-100");
    struct bytes some = make_cifar(4, 100, 1, 0), test = make_cifar(200, 100, 1, 0);
    struct small_set small;
    make_small_set(&small, some, test);
    assert_ok(folder_make(set));
    put_file(set, "train.bin", (struct bytes){some.at, 7}); /* damaged, but not opened */
    put_file(set, "test.bin", test);
    put_file(folder, "mine", some);
    char *mine = path_in(folder, "mine");
    struct files_split split = {.files = {(const char *const *)&mine, 1}};
    struct data_settings s = {.set = {.kind = &small.kind},
                              .split = {.kind = kind_find(&split_kinds, "files"), .settings = &split},
                              .batch = 2};
    struct dataset *d;
    setenv("VECHE_DATA", folder, 1);
    assert_ok(dataset_open(&s, 1, &d));
    unsetenv("VECHE_DATA");
    assert_int_equal(d->train.n, 4);
    assert_int_equal(d->test.n, 200);
    assert_true(d->train.mean[0] == 0.5071f);
    dataset_close(d);
    free(some.at);
    free(test.at);
    free(mine);
    free(set);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_process_shares_are_the_files),
        cmocka_unit_test(a_process_of_one_agent_opens_only_its_own_file),
        cmocka_unit_test(with_other_splits_a_process_of_one_agent_opens_the_whole_set),
        cmocka_unit_test(the_shape_is_known_without_the_agents_files),
        cmocka_unit_test(files_that_do_not_fit_are_refused_with_their_place),
        cmocka_unit_test(without_files_of_the_agents_the_sets_own_must_be_named),
        cmocka_unit_test(a_damaged_file_is_named_and_nothing_leaks),
        cmocka_unit_test(every_agents_file_has_a_digest_of_its_own),
        cmocka_unit_test(a_known_set_gives_the_test_samples_and_its_normalisation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
