/* A process of one agent: what is left of a set when only its share is kept, and the digest of a set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/split.h"
#include "data/synthetic.h"
#include "engine/host.h"
#include "support/data_files.h"

enum { AGENTS = 3, CLASSES = 4, SEED = 9, BATCH = 7, ROUNDS = 12 };

static struct images_settings images = {
    .classes = CLASSES, .channels = 2, .size = 5, .samples = 50, .test_samples = 11, .noise = 0.2};

static struct data_settings settings_for(const char *split)
{
    return (struct data_settings){.set = {.kind = kind_find(&data_set_kinds, "images"), .settings = &images},
                                  .split = {.kind = kind_find(&split_kinds, split)},
                                  .batch = BATCH,
                                  .flip = true,
                                  .crop = 2};
}

/* All pictures and labels of an agent's first rounds, as the engine would see them. */
struct seen {
    float *pictures; /* owned */
    size_t n_bytes;
    uint16_t labels[ROUNDS * BATCH];
};

static struct seen look(const struct data_settings *settings, const struct dataset *d, const struct split *s,
                        size_t agent)
{
    size_t one = d->train.c * d->train.h * d->train.w, n = 0;
    struct seen seen = {.n_bytes = ROUNDS * BATCH * one * sizeof(float)};
    seen.pictures = malloc(seen.n_bytes);
    struct feed f;
    assert_ok(feed_init(&f, settings, SEED, (uint32_t)agent, s->samples + s->first[agent],
                        s->first[agent + 1] - s->first[agent]));
    for (uint64_t k = 0; k < ROUNDS; k++) {
        struct pick picks[BATCH];
        struct held held;
        feed_batch(&f, k, picks);
        assert_ok(samples_hold(&d->train, picks, BATCH, &held));
        for (size_t i = 0; i < BATCH; i++, n++) {
            assert_true(picks[i].sample < d->train.n);
            host_sample(&d->train, samples_bytes(&d->train, &held, i, picks[i]), picks[i],
                        seen.pictures + n * one);
            seen.labels[n] = d->train.labels[picks[i].sample];
        }
        samples_let_go(&d->train, &held);
    }
    feed_release(&f);
    return seen;
}

static void assert_seen_alike(struct seen *a, struct seen *b)
{
    assert_int_equal(a->n_bytes, b->n_bytes);
    assert_memory_equal(a->pictures, b->pictures, a->n_bytes);
    assert_memory_equal(a->labels, b->labels, sizeof a->labels);
    free(a->pictures);
    free(b->pictures);
}

static void assert_only_share_is_left(const struct dataset *d, const struct split *s, const size_t *first,
                                      size_t agent)
{
    size_t n = first[agent + 1] - first[agent];
    assert_int_equal(d->train.n, n);
    assert_memory_equal(s->first, first, (AGENTS + 1) * sizeof *first);
    for (size_t i = 0; i < first[AGENTS]; i++)
        assert_int_equal(s->samples[i], i >= first[agent] && i < first[agent] + n ? i - first[agent] : 0);
}

/* Keeps one agent's share and sees that it meets the same pictures as before, and that the test set is as it
 * was. */
static void try_keep(const struct data_settings *settings, int64_t opened_for, size_t agent)
{
    struct dataset *d;
    struct split s;
    char before[65], after[65];
    assert_ok(dataset_open_for(settings, SEED, opened_for, &d));
    assert_ok(split_make(settings, &d->train, AGENTS, NULL, SEED, &s));
    size_t first[AGENTS + 1], n_all = d->train.n;
    memcpy(first, s.first, sizeof first);
    struct seen whole = look(settings, d, &s, agent);
    assert_ok(dataset_digest(d, false, before));
    assert_ok(dataset_keep(d, &s, agent));
    assert_only_share_is_left(d, &s, first, agent);
    struct seen kept = look(settings, d, &s, agent);
    assert_seen_alike(&whole, &kept);
    assert_ok(dataset_digest(d, false, after));
    assert_string_equal(before, after);
    if (d->train.file_first) {
        assert_int_equal(d->train.file_first[agent], 0);
        assert_int_equal(d->train.file_first[agent + 1], d->train.n);
        assert_int_equal(d->train.file_first[AGENTS], d->train.n);
    }
    assert_true(opened_for >= 0 || d->train.n < n_all);
    split_release(&s);
    dataset_close(d);
}

static void an_agent_meets_the_same_pictures_when_only_its_share_is_kept(void **state)
{
    (void)state;
    static const char *const splits[] = {"shuffle", "replacement"};
    for (size_t k = 0; k < 2; k++) {
        struct data_settings settings = settings_for(splits[k]);
        for (size_t agent = 0; agent < AGENTS; agent++)
            try_keep(&settings, -1, agent);
    }
}

static void it_does_so_with_a_file_of_its_own_too(void **state)
{
    (void)state;
    char *folder = temporary_folder(), *paths[AGENTS + 1], name[16];
    static const size_t shares[AGENTS + 1] = {5, 3, 9, 6}, begins[] = {0, 5, 8, 100};
    for (size_t i = 0; i <= AGENTS; i++) {
        struct bytes b = make_cifar(shares[i], CLASSES, 0, begins[i]);
        snprintf(name, sizeof name, "part-%zu", i);
        put_file(folder, name, b);
        paths[i] = path_in(folder, name);
        free(b.at);
    }
    const double mean[] = {0.4, 0.5, 0.6}, deviation[] = {0.2, 0.3, 0.25};
    struct cifar_binary_settings cifar = {NULL, paths[AGENTS], CLASSES, false};
    struct files_split files = {.files = {(const char *const *)paths, AGENTS}};
    struct data_settings settings = {
        .set = {.kind = kind_find(&data_set_kinds, "cifar-binary"), .settings = &cifar},
        .split = {.kind = kind_find(&split_kinds, "files"), .settings = &files},
        .batch = BATCH,
        .mean = {mean, 3},
        .deviation = {deviation, 3},
    };
    for (size_t agent = 0; agent < AGENTS; agent++) {
        try_keep(&settings, -1, agent);
        try_keep(&settings, (int64_t)agent, agent);
    }
    for (size_t i = 0; i <= AGENTS; i++)
        free(paths[i]);
    remove_folder(folder);
}

static void one_who_learns_nothing_keeps_the_test_set_only(void **state)
{
    (void)state;
    struct data_settings settings = settings_for("shuffle");
    struct dataset *d;
    struct split s;
    char before[65], after[65];
    assert_ok(dataset_open(&settings, SEED, &d));
    assert_ok(split_make(&settings, &d->train, AGENTS, NULL, SEED, &s));
    assert_ok(dataset_digest(d, false, before));
    assert_ok(dataset_keep(d, &s, AGENTS));
    assert_int_equal(d->train.n, 0);
    assert_int_equal(s.first[AGENTS], images.samples);
    assert_ok(dataset_digest(d, false, after));
    assert_string_equal(before, after);
    split_release(&s);
    dataset_close(d);
}

/* A set by hand, so that each of its numbers can be changed by itself. */
struct tiny {
    uint8_t pixels[2][12];
    uint16_t labels[2][3];
    struct dataset d;
};

static void make_tiny(struct tiny *t)
{
    *t = (struct tiny){.pixels = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {5, 4, 3, 2, 1}},
                       .labels = {{0, 1, 2}, {2, 1, 0}}};
    struct samples *both[] = {&t->d.test, &t->d.train};
    for (int i = 0; i < 2; i++)
        *both[i] = (struct samples){.n = 3,
                                    .c = 1,
                                    .h = 2,
                                    .w = 2,
                                    .classes = 3,
                                    .pixels = t->pixels[i],
                                    .labels = t->labels[i],
                                    .mean = {0.5f},
                                    .deviation = {0.25f}};
}

enum { N_CHANGES = 9, FIRST_OF_TRAIN = 7 };

static void change(struct tiny *t, int which)
{
    struct samples *test = &t->d.test;
    switch (which) {
    case 0:
        test->n = 2;
        break;
    case 1:
        test->c = 2, test->h = 1;
        break;
    case 2:
        test->classes = 4;
        break;
    case 3:
        test->mean[0] = 0.50000006f;
        break;
    case 4:
        test->deviation[0] = 0.25000003f;
        break;
    case 5:
        t->labels[0][2] = 1;
        break;
    case 6:
        t->pixels[0][11] = 13;
        break;
    case 7:
        t->labels[1][0] = 1;
        break;
    case 8:
        t->pixels[1][11] = 1;
        break;
    }
}

static void any_change_of_the_data_changes_their_digest(void **state)
{
    (void)state;
    struct tiny t;
    char test_only[65], both[65], changed[65];
    make_tiny(&t);
    assert_ok(dataset_digest(&t.d, false, test_only));
    assert_ok(dataset_digest(&t.d, true, both));
    assert_string_not_equal(test_only, both);
    assert_int_equal(strlen(both), 64);
    for (int which = 0; which < N_CHANGES; which++) {
        make_tiny(&t);
        change(&t, which);
        assert_ok(dataset_digest(&t.d, true, changed));
        assert_string_not_equal(both, changed);
        assert_ok(dataset_digest(&t.d, false, changed));
        assert_int_equal(strcmp(test_only, changed) == 0, which >= FIRST_OF_TRAIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_meets_the_same_pictures_when_only_its_share_is_kept),
        cmocka_unit_test(it_does_so_with_a_file_of_its_own_too),
        cmocka_unit_test(one_who_learns_nothing_keeps_the_test_set_only),
        cmocka_unit_test(any_change_of_the_data_changes_their_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
