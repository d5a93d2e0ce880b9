/* Sets by name: made-up ones, local files, limits, normalisation; Fashion-MNIST where it is installed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/sha256.h"
#include "data/folder.h"
#include "data/known_sets.h"
#include "data/set_kinds.h"
#include "data/synthetic.h"
#include "support/data_files.h"
#include "support/must.h"

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < data_set_kinds.n; i++)
        if (strcmp(data_set_kinds.rows[i].name, name) == 0)
            return &data_set_kinds.rows[i];
    return NULL;
}

static struct data_settings settings_for(const char *name, void *settings)
{
    struct data_settings s = {.set = {.kind = kind_named(name), .settings = settings}, .batch = 10};
    assert_non_null(s.set.kind);
    return s;
}

static struct blobs_settings blobs = {
    .classes = 3, .features = 2, .samples = 300, .test_samples = 90, .spread = 0.02};
static struct spirals_settings spirals = {
    .classes = 2, .samples = 400, .test_samples = 100, .noise = 0.005, .turns = 1};
static struct images_settings images = {
    .classes = 5, .channels = 3, .size = 12, .samples = 500, .test_samples = 200, .noise = 0.2};

static const struct {
    const char *name;
    void *settings;
    size_t n, n_test, c, side, classes;
} made[] = {
    {"blobs", &blobs, 300, 90, 2, 1, 3},
    {"spirals", &spirals, 400, 100, 2, 1, 2},
    {"images", &images, 500, 200, 3, 12, 5},
};

static int same_samples(const struct samples *a, const struct samples *b)
{
    return a->n == b->n && memcmp(a->pixels, b->pixels, a->n * a->c * a->h * a->w) == 0 &&
           memcmp(a->labels, b->labels, a->n * sizeof *a->labels) == 0;
}

static void made_up_sets_have_the_shape_asked_for_and_follow_from_the_seed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct data_settings s = settings_for(made[i].name, made[i].settings);
        struct dataset *d, *again, *other;
        assert_ok(dataset_open(&s, 7, &d));
        assert_ok(dataset_open(&s, 7, &again));
        assert_ok(dataset_open(&s, 8, &other));
        assert_int_equal(d->train.n, made[i].n);
        assert_int_equal(d->test.n, made[i].n_test);
        assert_int_equal(d->train.c, made[i].c);
        assert_int_equal(d->train.h, made[i].side);
        assert_int_equal(d->train.w, made[i].side);
        assert_int_equal(d->train.classes, made[i].classes);
        assert_int_equal(d->test.classes, made[i].classes);
        assert_true(same_samples(&d->train, &again->train));
        assert_true(same_samples(&d->test, &again->test));
        assert_false(same_samples(&d->train, &other->train));
        assert_memory_not_equal(d->train.pixels, d->test.pixels, made[i].n_test);
        dataset_close(d);
        dataset_close(again);
        dataset_close(other);
    }
}

/* The share of test samples whose nearest training sample has their class. */
static double nearest_neighbour_accuracy(const struct dataset *d)
{
    size_t one = d->train.c * d->train.h * d->train.w, hits = 0;
    for (size_t i = 0; i < d->test.n; i++) {
        long best = -1;
        size_t nearest = 0;
        for (size_t j = 0; j < d->train.n; j++) {
            long distance = 0;
            for (size_t k = 0; k < one; k++) {
                int t = d->test.pixels[i * one + k] - d->train.pixels[j * one + k];
                distance += (long)t * t;
            }
            if (best < 0 || distance < best) {
                best = distance;
                nearest = j;
            }
        }
        hits += d->test.labels[i] == d->train.labels[nearest];
    }
    return (double)hits / (double)d->test.n;
}

static void made_up_sets_can_be_learnt_and_have_every_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct data_settings s = settings_for(made[i].name, made[i].settings);
        struct dataset *d;
        size_t counts[5] = {0};
        assert_ok(dataset_open(&s, 3, &d));
        for (size_t j = 0; j < d->train.n; j++)
            counts[d->train.labels[j]]++;
        for (size_t c = 0; c < d->train.classes; c++)
            assert_int_equal(counts[c], d->train.n / d->train.classes);
        double accuracy = nearest_neighbour_accuracy(d);
        if (accuracy < 0.95)
            fail_msg("%s: a nearest neighbour is right for only %g", made[i].name, accuracy);
        dataset_close(d);
    }
}

static void more_training_samples_do_not_change_the_test_samples(void **state)
{
    (void)state;
    struct images_settings more = images;
    struct data_settings s = settings_for("images", &images), t = settings_for("images", &more);
    struct dataset *a, *b;
    more.samples = 700;
    assert_ok(dataset_open(&s, 3, &a));
    assert_ok(dataset_open(&t, 3, &b));
    assert_true(same_samples(&a->test, &b->test));
    assert_memory_equal(a->train.pixels, b->train.pixels, 500 * 3 * 144);
    dataset_close(a);
    dataset_close(b);
}

static void a_set_of_ones_own_is_normalised_to_mean_0_and_deviation_1(void **state)
{
    (void)state;
    struct data_settings s = settings_for("images", &images);
    struct dataset *d;
    assert_ok(dataset_open(&s, 3, &d));
    for (size_t c = 0; c < 3; c++) {
        double sum = 0, squares = 0, n = 500 * 144;
        for (size_t i = 0; i < 500; i++)
            for (size_t j = 0; j < 144; j++) {
                double x = (d->train.pixels[(i * 3 + c) * 144 + j] / 255.0 - d->train.mean[c]) /
                           d->train.deviation[c];
                sum += x;
                squares += x * x;
            }
        assert_true(fabs(sum / n) < 1e-5);
        assert_true(fabs(squares / n - 1) < 1e-5);
        assert_true(d->test.mean[c] == d->train.mean[c] && d->test.deviation[c] == d->train.deviation[c]);
    }
    dataset_close(d);
}

static void the_experiment_may_say_the_normalisation(void **state)
{
    (void)state;
    const double mean[] = {0.1, 0.2, 0.3}, deviation[] = {0.4, 0.5, 0.6}, bad[] = {0.4, 0, 0.6};
    struct data_settings s = settings_for("images", &images);
    struct dataset *d;
    s.mean = (struct reals){mean, 3};
    s.deviation = (struct reals){deviation, 3};
    assert_ok(dataset_open(&s, 3, &d));
    for (size_t c = 0; c < 3; c++)
        assert_true(d->train.mean[c] == (float)mean[c] && d->test.deviation[c] == (float)deviation[c]);
    dataset_close(d);
    s.mean.n = 2;
    assert_fault_says(dataset_open(&s, 3, &d), "data.mean: 2 numbers for 3 channels");
    s.mean.n = 0;
    s.deviation.n = 1;
    assert_fault_says(dataset_open(&s, 3, &d), "data.deviation: 1 numbers for 3 channels");
    s.deviation = (struct reals){bad, 3};
    assert_fault_says(dataset_open(&s, 3, &d), "data.deviation: 0 is not above 0");
}

/* Where sample i of a limited set stands in the whole one, searching from `from` on. */
static size_t find_sample(const struct samples *whole, const struct samples *some, size_t i, size_t from)
{
    size_t one = whole->c * whole->h * whole->w;
    for (size_t j = from; j < whole->n; j++)
        if (whole->labels[j] == some->labels[i] &&
            memcmp(whole->pixels + j * one, some->pixels + i * one, one) == 0)
            return j;
    fail_msg("sample %zu of the limited set is not in the whole set after %zu", i, from);
    return 0;
}

static void a_limit_takes_a_random_subset_in_the_old_order(void **state)
{
    (void)state;
    struct data_settings s = settings_for("images", &images);
    struct dataset *whole, *some, *again;
    assert_ok(dataset_open(&s, 3, &whole));
    s.limit = 120;
    s.test_limit = 30;
    assert_ok(dataset_open(&s, 3, &some));
    assert_ok(dataset_open(&s, 3, &again));
    assert_int_equal(some->train.n, 120);
    assert_int_equal(some->test.n, 30);
    assert_true(same_samples(&some->train, &again->train));
    assert_true(some->train.mean[0] == whole->train.mean[0]); /* a subset is normalised as the whole */
    size_t at = 0, first_half = 0;
    for (size_t i = 0; i < 120; i++) {
        size_t found = find_sample(&whole->train, &some->train, i, at);
        first_half += found < 250;
        at = found + 1;
    }
    assert_in_range(first_half, 35, 85); /* 60 +- 5 standard deviations */
    dataset_close(whole);
    dataset_close(some);
    dataset_close(again);
}

static void impossible_limits_and_augmentations_are_faults(void **state)
{
    (void)state;
    struct data_settings s = settings_for("images", &images);
    struct dataset *d;
    s.limit = 501;
    assert_fault_says(dataset_open(&s, 3, &d),
                      "data.limit: 501 is not between 0 and the 500 training samples");
    s.limit = 0;
    s.test_limit = 201;
    assert_fault_says(dataset_open(&s, 3, &d), "data.test_limit: 201");
    s.test_limit = 0;
    s.crop = 12;
    assert_fault_says(dataset_open(&s, 3, &d), "data.crop: a shift by 12");
    struct data_settings flat = settings_for("blobs", &blobs);
    flat.flip = true;
    assert_fault_says(dataset_open(&flat, 3, &d), "data.flip");
}

static void write_idx_set(const char *folder, struct idx_settings *s, uint32_t n, uint32_t n_test)
{
    struct bytes b = make_idx_images(n, 6, 5), packed = pack(b, "gzip");
    put_file(folder, "a.gz", packed);
    free(b.at);
    free(packed.at);
    b = make_idx_labels(n, 4);
    put_file(folder, "b", b);
    free(b.at);
    b = make_idx_images(n_test, 6, 5);
    put_file(folder, "c", b);
    free(b.at);
    b = make_idx_labels(n_test, 4);
    put_file(folder, "d", b);
    free(b.at);
    *s = (struct idx_settings){path_in(folder, "a.gz"), path_in(folder, "b"), path_in(folder, "c"),
                               path_in(folder, "d"), 4};
}

static void free_paths(struct idx_settings *s)
{
    free((void *)s->train_images);
    free((void *)s->train_labels);
    free((void *)s->test_images);
    free((void *)s->test_labels);
}

static void idx_files_of_ones_own_can_be_named(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    struct idx_settings files;
    struct dataset *d;
    write_idx_set(folder, &files, 20, 8);
    struct data_settings s = settings_for("idx", &files);
    assert_ok(dataset_open(&s, 1, &d));
    assert_int_equal(d->train.n, 20);
    assert_int_equal(d->test.n, 8);
    assert_int_equal(d->train.h, 6);
    assert_int_equal(d->train.w, 5);
    for (size_t i = 0; i < 20 * 30; i++)
        assert_int_equal(d->train.pixels[i], test_pixel(i));
    dataset_close(d);
    files.classes = 3;
    assert_fault_says(dataset_open(&s, 1, &d), "byte 11: label 3, but there are 3 classes");
    free_paths(&files);
    remove_folder(folder);
}

static void cifar_files_of_ones_own_can_be_named(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    struct bytes train = make_cifar(6, 3, 0, 0), test = make_cifar(2, 3, 0, 6);
    put_file(folder, "train", train);
    put_file(folder, "test", test);
    struct cifar_binary_settings files = {path_in(folder, "train"), path_in(folder, "test"), 3, false};
    struct data_settings s = settings_for("cifar-binary", &files);
    struct dataset *d;
    assert_ok(dataset_open(&s, 1, &d));
    assert_int_equal(d->train.n, 6);
    assert_int_equal(d->test.n, 2);
    assert_memory_equal(d->test.pixels, test.at + 1, 3072);
    dataset_close(d);
    free((void *)files.train);
    free((void *)files.test);
    free(train.at);
    free(test.at);
    remove_folder(folder);
}

static void missing_data_name_the_folder_and_the_command(void **state)
{
    (void)state;
    char *folder = temporary_folder(), words[4096];
    struct data_settings s = settings_for("cifar-10", NULL);
    struct dataset *d;
    setenv("VECHE_DATA", folder, 1);
    sprintf(words, "cifar-10 is not in %s/cifar-10: `veche data get cifar-10` fetches it", folder);
    assert_fault_says(dataset_open(&s, 1, &d), words);
    unsetenv("VECHE_DATA");
    remove_folder(folder);
}

static void a_truncated_file_of_a_known_set_is_named(void **state)
{
    (void)state;
    char *folder = temporary_folder(), *set = path_in(folder, "cifar-100");
    struct bytes train = make_cifar(4, 100, 1, 0);
    struct data_settings s = settings_for("cifar-100", NULL);
    struct dataset *d;
    assert_ok(folder_make(set));
    put_file(set, "train.bin", (struct bytes){train.at, train.n - 1});
    put_file(set, "test.bin", train);
    setenv("VECHE_DATA", folder, 1);
    assert_fault_says(dataset_open(&s, 1, &d), "train.bin: byte 9222: the record of 3074 bytes");
    put_file(set, "train.bin", train);
    assert_fault_says(dataset_open(&s, 1, &d), "train.bin: holds 4 samples, but should hold 50000");
    unsetenv("VECHE_DATA");
    free(train.at);
    free(set);
    remove_folder(folder);
}

/* Any byte of any file of a known set: the sum of the file is found to be wrong when it is opened to be
 * learnt from. */
static void a_known_set_in_which_a_pixel_has_changed_is_not_learnt_from(void **state)
{
    (void)state;
    char *folder = temporary_folder(), *set = path_in(folder, "cifar-100");
    struct bytes files[] = {make_cifar(200, 100, 1, 0), make_cifar(100, 100, 1, 7)};
    static const char *const names[] = {"train.bin", "test.bin"};
    struct small_set small;
    struct dataset *d;
    make_small_set(&small, files[0], files[1]);
    struct data_settings s = {.set = {.kind = &small.kind}, .batch = 10};
    assert_ok(folder_make(set));
    setenv("VECHE_DATA", folder, 1);
    for (size_t i = 0; i < 2; i++)
        put_file(set, names[i], files[i]);
    assert_ok(dataset_open(&s, 1, &d));
    dataset_close(d);
    for (size_t i = 0; i < 2; i++) {
        char words[96];
        files[i].at[files[i].n / 2] ^= 1;
        put_file(set, names[i], files[i]);
        snprintf(words, sizeof words, "cifar-100/%s: is damaged, or another file: the SHA-256 is ", names[i]);
        assert_fault_says(dataset_open(&s, 1, &d), words);
        files[i].at[files[i].n / 2] ^= 1;
        put_file(set, names[i], files[i]);
    }
    unsetenv("VECHE_DATA");
    free(files[0].at);
    free(files[1].at);
    free(set);
    remove_folder(folder);
}

/* Two labels that have changed places: counts of labels do not tell, only the sum of their own file. */
static void a_known_set_in_which_labels_have_changed_places_is_not_learnt_from(void **state)
{
    (void)state;
    enum { N = 20, CLASSES = 10, HEAD = 8 };
    char *folder = temporary_folder(), *set = path_in(folder, "fashion-mnist"), sums[2][65];
    struct bytes pictures = make_idx_images(N, 28, 28), labels = make_idx_labels(N, CLASSES);
    struct known known = known_fashion_mnist;
    struct known_file files[2];
    struct set_row row = *(const struct set_row *)kind_named("fashion-mnist")->row;
    struct kind kind = *kind_named("fashion-mnist");
    struct data_settings s = {.set = {.kind = &kind}, .batch = 10};
    struct dataset *d;
    assert_ok(sha256_of(pictures.at, pictures.n, sums[0]));
    assert_ok(sha256_of(labels.at, labels.n, sums[1]));
    assert_ok(folder_make(set));
    for (size_t i = 0; i < 2; i++) {
        files[i] = (struct known_file){known.files[i].name, sums[0], known.files[i].labels, sums[1], N,
                                       known.files[i].test};
        put_file(set, files[i].name, pictures);
        put_file(set, files[i].labels, labels);
    }
    known.files = files;
    row.known = &known;
    kind.row = &row;
    setenv("VECHE_DATA", folder, 1);
    assert_ok(dataset_open(&s, 1, &d));
    dataset_close(d);
    for (size_t i = 0; i < 2; i++) {
        char words[128];
        snprintf(words, sizeof words, "fashion-mnist/%s: is damaged, or another file: the SHA-256 is ",
                 files[i].labels);
        labels.at[HEAD] = 1;
        labels.at[HEAD + 1] = 0;
        put_file(set, files[i].labels, labels);
        assert_fault_says(dataset_open(&s, 1, &d), words);
        labels.at[HEAD] = 0;
        labels.at[HEAD + 1] = 1;
        put_file(set, files[i].labels, labels);
    }
    unsetenv("VECHE_DATA");
    free(pictures.at);
    free(labels.at);
    free(set);
    remove_folder(folder);
}

static void fashion_mnist_is_itself_where_it_is_here(void **state)
{
    (void)state;
    struct data_settings s = settings_for("fashion-mnist", NULL);
    struct dataset *d;
    fault f = dataset_open(&s, 1, &d);
    if (f) {
        fault_drop(f);
        skip_because("Fashion-MNIST is not here (veche data get fashion-mnist)");
    }
    assert_int_equal(d->train.n, 60000);
    assert_int_equal(d->test.n, 10000);
    assert_int_equal(d->train.labels[0], 9);
    assert_int_equal(d->test.labels[1], 2);
    uint64_t sum = 0;
    for (size_t i = 0; i < 60000 * 784; i++)
        sum += d->train.pixels[i];
    assert_true(fabs((double)sum / (60000.0 * 784 * 255) - d->train.mean[0]) < 1e-5);
    assert_true(d->train.mean[0] == 0.28604f && d->train.deviation[0] == 0.35302f);
    dataset_close(d);
}

static void every_set_has_a_help_and_rows_that_fit_its_settings(void **state)
{
    (void)state;
    for (size_t i = 0; i < data_set_kinds.n; i++) {
        const struct kind *k = &data_set_kinds.rows[i];
        assert_non_null(k->help);
        assert_non_null(k->row);
        assert_true((k->n_fields == 0) == (k->size == 0));
        for (size_t j = 0; j < k->n_fields; j++) {
            assert_true(k->fields[j].offset < k->size);
            assert_non_null(k->fields[j].help);
        }
    }
    for (const struct known *const *k = known_sets; *k; k++) {
        assert_non_null(kind_named((*k)->name));
        assert_ptr_equal(((const struct set_row *)kind_named((*k)->name)->row)->known, *k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up_sets_have_the_shape_asked_for_and_follow_from_the_seed),
        cmocka_unit_test(made_up_sets_can_be_learnt_and_have_every_class),
        cmocka_unit_test(more_training_samples_do_not_change_the_test_samples),
        cmocka_unit_test(a_set_of_ones_own_is_normalised_to_mean_0_and_deviation_1),
        cmocka_unit_test(the_experiment_may_say_the_normalisation),
        cmocka_unit_test(a_limit_takes_a_random_subset_in_the_old_order),
        cmocka_unit_test(impossible_limits_and_augmentations_are_faults),
        cmocka_unit_test(idx_files_of_ones_own_can_be_named),
        cmocka_unit_test(cifar_files_of_ones_own_can_be_named),
        cmocka_unit_test(missing_data_name_the_folder_and_the_command),
        cmocka_unit_test(a_truncated_file_of_a_known_set_is_named),
        cmocka_unit_test(a_known_set_in_which_a_pixel_has_changed_is_not_learnt_from),
        cmocka_unit_test(a_known_set_in_which_labels_have_changed_places_is_not_learnt_from),
        cmocka_unit_test(fashion_mnist_is_itself_where_it_is_here),
        cmocka_unit_test(every_set_has_a_help_and_rows_that_fit_its_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
