/* Samples that stay on disk: the same bytes as in memory whoever wants which of them when, within the window, and a sentence
 * when their file is not what it was. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "data/split.h"
#include "data/stream/stream.h"
#include "support/data_files.h"

enum { N = 130, N_TEST = 70, SIDE = 5, CLASSES = 7, SEED = 3, BATCH = 6, AGENTS = 3, BAYS = 4 };
#define BAY_MB(one) ((double)SAMPLES_AT_ONCE * (double)(one) / 1e6)

struct files {
    char *folder, *images, *labels, *test_images, *test_labels, *records, *test_records; /* owned */
    struct idx_settings idx;
    struct cifar_binary_settings cifar;
};

static char *put(const char *folder, const char *name, struct bytes b)
{
    put_file(folder, name, b);
    free(b.at);
    return path_in(folder, name);
}

static struct files files_new(void)
{
    struct files f = {.folder = temporary_folder()};
    f.images = put(f.folder, "images", make_idx_images(N, SIDE, SIDE));
    f.labels = put(f.folder, "labels", make_idx_labels(N, CLASSES));
    f.test_images = put(f.folder, "test-images", make_idx_images(N_TEST, SIDE, SIDE));
    f.test_labels = put(f.folder, "test-labels", make_idx_labels(N_TEST, CLASSES));
    f.records = put(f.folder, "records", make_cifar(N, CLASSES, 1, 0));
    f.test_records = put(f.folder, "test-records", make_cifar(N_TEST, CLASSES, 1, N));
    f.idx = (struct idx_settings){f.images, f.labels, f.test_images, f.test_labels, CLASSES};
    f.cifar = (struct cifar_binary_settings){f.records, f.test_records, CLASSES, true};
    return f;
}

static void files_free(struct files *f)
{
    char *paths[] = {f->images, f->labels, f->test_images, f->test_labels, f->records, f->test_records};
    for (size_t i = 0; i < 6; i++)
        free(paths[i]);
    remove_folder(f->folder);
}

/* Of pictures in records of CIFAR's, or in an IDX file. */
static struct data_settings settings_of(const struct files *f, bool records, size_t bays)
{
    size_t one = records ? 3072 : SIDE * SIDE;
    return (struct data_settings){
        .set = {.kind = kind_find(&data_set_kinds, records ? "cifar-binary" : "idx"),
                .settings = records ? (void *)(uintptr_t)&f->cifar : (void *)(uintptr_t)&f->idx},
        .split = {.kind = kind_find(&split_kinds, "shuffle")},
        .batch = BATCH,
        .flip = true,
        .crop = 1,
        .stream = bays > 0,
        .window_mb = (double)bays * BAY_MB(one) * 1.001,
    };
}

static struct dataset *opened(const struct data_settings *settings)
{
    struct dataset *d = NULL;
    assert_ok(dataset_open(settings, SEED, &d));
    return d;
}

/* These picks have the same bytes in both. */
static void assert_same_bytes(const struct samples *a, const struct samples *b, const struct pick *picks,
                              size_t n)
{
    struct held of_a, of_b;
    assert_ok(samples_hold(a, picks, n, &of_a));
    assert_ok(samples_hold(b, picks, n, &of_b));
    for (size_t i = 0; i < n; i++) {
        assert_memory_equal(samples_bytes(a, &of_a, i, picks[i]), samples_bytes(b, &of_b, i, picks[i]),
                            samples_one(a));
        assert_int_equal(a->labels[picks[i].sample], b->labels[picks[i].sample]);
        assert_true(!of_b.is_packed || of_b.samples[i] == picks[i].sample);
    }
    samples_let_go(a, &of_a);
    samples_let_go(b, &of_b);
}

static void assert_within_window(const struct dataset *d, double window_mb)
{
    struct stream_counts c = stream_counts(d->stream);
    assert_true(c.n_bytes <= window_mb * 1e6);
    assert_in_range(c.most_bytes, 1, c.n_bytes);
}

static void chosen_at_random_they_are_those_in_memory(void **state)
{
    (void)state;
    struct files f = files_new();
    for (int way = 0; way < 4; way++) {
        struct data_settings held = settings_of(&f, way & 1, 0), streamed = settings_of(&f, way & 1, BAYS);
        held.limit = streamed.limit = way & 2 ? 80 : 0;
        held.test_limit = streamed.test_limit = way & 2 ? 33 : 0;
        struct dataset *a = opened(&held), *b = opened(&streamed);
        assert_null(b->train.pixels);
        assert_int_equal(a->train.n, b->train.n);
        assert_memory_equal(a->train.mean, b->train.mean, sizeof a->train.mean);
        assert_memory_equal(a->train.deviation, b->train.deviation, sizeof a->train.deviation);
        struct rng r = rng_stream(SEED, 0, RNG_TEST, (uint64_t)way);
        for (int k = 0; k < 50; k++) {
            struct pick picks[SAMPLES_AT_ONCE] = {{0}};
            size_t n = 1 + rng_below(&r, SAMPLES_AT_ONCE);
            const struct samples *of = k & 1 ? &a->test : &a->train;
            for (size_t i = 0; i < n; i++) /* the same one may come twice */
                picks[i].sample = (uint32_t)rng_below(&r, of->n);
            assert_same_bytes(of, k & 1 ? &b->test : &b->train, picks, n);
        }
        assert_within_window(b, streamed.window_mb);
        dataset_close(a);
        dataset_close(b);
    }
    files_free(&f);
}

static void the_digest_is_that_in_memory(void **state)
{
    (void)state;
    struct files f = files_new();
    for (int records = 0; records < 2; records++) {
        struct data_settings held = settings_of(&f, records, 0), streamed = settings_of(&f, records, 1);
        struct dataset *a = opened(&held), *b = opened(&streamed);
        char x[65], y[65];
        assert_ok(dataset_digest(a, true, x));
        assert_ok(dataset_digest(b, true, y));
        assert_string_equal(x, y);
        dataset_close(a);
        dataset_close(b);
    }
    files_free(&f);
}

/* Agents of unequal shares, each in its own order, for some epochs. */
static void check_feeds(const struct data_settings *held, const struct data_settings *streamed, size_t kept)
{
    static const size_t first[] = {0, 70, 110, N};
    struct dataset *a = opened(held), *b = opened(streamed);
    struct split of_a, of_b;
    struct feed feeds[AGENTS];
    assert_ok(split_make(held, &a->train, AGENTS, NULL, SEED, &of_a));
    assert_ok(split_make(streamed, &b->train, AGENTS, NULL, SEED, &of_b));
    bool one_only = kept < AGENTS;
    if (one_only) {
        assert_ok(dataset_keep(a, &of_a, kept));
        assert_ok(dataset_keep(b, &of_b, kept));
    }
    for (uint32_t i = 0; i < AGENTS; i++) {
        const size_t *share = one_only ? of_b.first : first;
        assert_ok(feed_init(&feeds[i], streamed, SEED, i, of_b.samples + share[i], share[i + 1] - share[i]));
        if (!one_only || i == kept)
            assert_ok(samples_follow(&b->train, &feeds[i]));
    }
    for (uint64_t k = 0; k < 40; k++)
        for (size_t i = 0; i < AGENTS; i++) {
            struct pick picks[BATCH];
            if (one_only && i != kept)
                continue;
            feed_batch(&feeds[i], k < 30 ? k : k - 25,
                       picks); /* once it goes back, as a run does that is resumed */
            assert_same_bytes(&a->train, &b->train, picks, BATCH);
        }
    assert_within_window(b, streamed->window_mb);
    assert_true(stream_counts(b->stream).n_read >= 40 * BATCH);
    for (size_t i = 0; i < AGENTS; i++)
        feed_release(&feeds[i]);
    dataset_close(a);
    dataset_close(b);
    split_release(&of_a);
    split_release(&of_b);
}

static void agents_meet_the_same_samples_however_small_the_window(void **state)
{
    (void)state;
    struct files f = files_new();
    static const size_t bays[] = {1, 2, BAYS, 40};
    for (size_t i = 0; i < 4; i++) {
        struct data_settings held = settings_of(&f, i & 1, 0), streamed = settings_of(&f, i & 1, bays[i]);
        check_feeds(&held, &streamed, AGENTS);
        check_feeds(&held, &streamed, i % AGENTS); /* and when only one's share is kept */
    }
    files_free(&f);
}

static void what_a_feed_gives_next_is_there_before_it_is_asked_for(void **state)
{
    (void)state;
    struct files f = files_new();
    struct data_settings held = settings_of(&f, true, 0), streamed = settings_of(&f, true, 12);
    struct dataset *a = opened(&held), *b = opened(&streamed);
    uint32_t share[N];
    for (uint32_t i = 0; i < N; i++)
        share[i] = i;
    struct feed feed, other;
    assert_ok(feed_init(&feed, &streamed, SEED, 0, share, N));
    assert_ok(feed_copy(&feed, &other));
    assert_ok(samples_follow(&b->train, &feed));
    struct pick picks[BATCH];
    struct held now, next;
    feed_batch(&feed, 0, picks);
    assert_ok(samples_hold(&b->train, picks, BATCH, &now));
    for (int i = 0; !samples_hold_next(&b->train, &now, &next); i++) {
        assert_true(i < 10000); /* ten seconds */
        usleep(1000);
    }
    feed_batch(&other, 1, picks);
    for (size_t i = 0; i < BATCH; i++)
        assert_memory_equal(samples_bytes(&b->train, &next, i, picks[i]),
                            a->train.pixels + picks[i].sample * samples_one(&a->train),
                            samples_one(&a->train));
    assert_false(samples_hold_next(&a->train, &now, &next)); /* in memory nothing is ahead of anything */
    samples_let_go(&b->train, &now);
    samples_let_go(&b->train, &next);
    feed_release(&feed);
    feed_release(&other);
    dataset_close(a);
    dataset_close(b);
    files_free(&f);
}

static void batches_that_nobody_holds_make_room_for_later_ones(void **state)
{
    (void)state;
    struct files f = files_new();
    struct data_settings streamed = settings_of(&f, true, 5);
    struct dataset *d = opened(&streamed);
    uint32_t share[N];
    for (uint32_t i = 0; i < N; i++)
        share[i] = i;
    struct feed feed;
    assert_ok(feed_init(&feed, &streamed, SEED, 0, share, N));
    assert_ok(samples_follow(&d->train, &feed));
    struct pick picks[BATCH];
    struct held held, next = {0};
    for (uint64_t k = 0; k < 20; k++) {
        feed_batch(&feed, k, picks);
        if (k < 18)
            continue;
        assert_ok(samples_hold(&d->train, picks, BATCH, &held));
        for (int i = 0; k == 18 && i < 10000 && !samples_hold_next(&d->train, &held, &next); i++)
            usleep(1000); /* ten seconds */
        samples_let_go(&d->train, &held);
    }
    assert_int_equal(held.bay, next.bay); /* the last one was read ahead again */
    samples_let_go(&d->train, &next);
    feed_release(&feed);
    dataset_close(d);
    files_free(&f);
}

static atomic_bool is_counting;
static atomic_uint n_allocated;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                 \
    !defined(__clang__)
void *__libc_malloc(size_t n);

/* In place of the C library's, which sanitizers replace themselves. */
__attribute__((visibility("default"))) void *malloc(size_t n)
{
    n_allocated += atomic_load(&is_counting);
    return __libc_malloc(n);
}
#endif

/* Rounds of agents that learn batch after batch of shares of `n_share` samples, all from the first on. */
static void check_rounds(const struct data_settings *settings, size_t n_agents, size_t n_share,
                         uint64_t n_rounds)
{
    struct dataset *d = opened(settings);
    struct feed feeds[AGENTS];
    uint32_t share[N];
    for (uint32_t i = 0; i < n_share; i++)
        share[i] = i;
    for (uint32_t i = 0; i < n_agents; i++) {
        assert_ok(feed_init(&feeds[i], settings, SEED, i, share, n_share));
        assert_ok(samples_follow(&d->train, &feeds[i]));
    }
    atomic_store(&is_counting, true);
    for (uint64_t k = 0; k < n_rounds; k++)
        for (size_t i = 0; i < n_agents; i++) {
            struct pick picks[2 * N];
            struct held held;
            feed_batch(&feeds[i], k, picks);
            assert_ok(samples_hold(&d->train, picks, feeds[i].batch, &held));
            assert_memory_equal(held.samples, &picks[0].sample, sizeof picks[0].sample);
            samples_let_go(&d->train, &held);
        }
    atomic_store(&is_counting, false);
    assert_int_equal(stream_counts(d->stream).n_held, n_agents * n_rounds);
    assert_int_equal(atomic_load(&n_allocated), 0);
    for (size_t i = 0; i < n_agents; i++)
        feed_release(&feeds[i]);
    dataset_close(d);
}

/* All batches that there are lie in bays, and some bays are free: whoever reads ahead has nothing to do, and must see it. */
static void a_share_of_fewer_batches_than_bays_is_trained_to_the_end(void **state)
{
    (void)state;
    static const struct {
        size_t share, batch, agents;
    } ways[] = {{1, BATCH, 1}, {1, 1, 1}, {3, 1, 1}, {2, 2, 1}, {4, 1, AGENTS}, {N, N, 1}};
    struct files f = files_new();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct data_settings s = settings_of(&f, false, 12);
        s.batch = (int64_t)ways[i].batch;
        s.limit = (int64_t)ways[i].share;
        s.window_mb *= (double)larger(ways[i].batch, SAMPLES_AT_ONCE) / SAMPLES_AT_ONCE;
        alarm(30);
        check_rounds(&s, ways[i].agents, ways[i].share, 100);
        alarm(0);
    }
    files_free(&f);
}

static void reading_a_batch_allocates_nothing_however_large_it_is(void **state)
{
    (void)state;
    struct files f = files_new();
    struct data_settings s = settings_of(&f, false, 12);
    s.batch = N + 20;
    s.window_mb *= 3;
    check_rounds(&s, 2, N, 50);
    files_free(&f);
}

static void a_test_set_that_fits_is_read_once_for_all_exams(void **state)
{
    (void)state;
    enum { EXAMS = 50 };
    struct files f = files_new();
    struct data_settings s = settings_of(&f, true, 2 * BAYS);
    struct dataset *d = opened(&s);
    for (int i = 0; i < EXAMS; i++)
        samples_expect(&d->test, 0, N_TEST, SAMPLES_AT_ONCE);
    for (int i = 0; stream_counts(d->stream).n_read < N_TEST; i++) {
        assert_true(i < 10000); /* ten seconds */
        usleep(1000);
    }
    for (size_t i = 0; i < EXAMS; i++)
        for (size_t first = 0; first < N_TEST; first += SAMPLES_AT_ONCE) {
            struct pick picks[SAMPLES_AT_ONCE];
            struct held held;
            size_t n = smaller(SAMPLES_AT_ONCE, N_TEST - first);
            for (size_t k = 0; k < n; k++)
                picks[k] = (struct pick){.sample = (uint32_t)(first + k)};
            assert_ok(samples_hold(&d->test, picks, n, &held));
            samples_let_go(&d->test, &held);
        }
    assert_true(stream_counts(d->stream).n_read < 5 * N_TEST); /* once, unless a reader slept too long */
    dataset_close(d);
    files_free(&f);
}

struct taker {
    const struct samples *held, *streamed;
    uint64_t number;
    bool failed;
};

static void *take_many(void *ctx)
{
    struct taker *t = ctx;
    struct rng r = rng_stream(SEED, 1, RNG_TEST, t->number);
    for (int k = 0; k < 100 && !t->failed; k++) {
        struct pick picks[BATCH] = {{0}};
        struct held h;
        for (size_t i = 0; i < BATCH; i++)
            picks[i].sample = (uint32_t)rng_below(&r, k % 10 ? t->held->n : 2); /* some want the same */
        samples_expect(t->streamed, 0, t->held->n, BATCH);
        t->failed = samples_hold(t->streamed, picks, BATCH, &h) != OK;
        for (size_t i = 0; i < BATCH && !t->failed; i++)
            t->failed = memcmp(samples_bytes(t->streamed, &h, i, picks[i]),
                               samples_bytes(t->held, &(struct held){.bytes = t->held->pixels}, i, picks[i]),
                               samples_one(t->held)) != 0;
        if (!t->failed)
            samples_let_go(t->streamed, &h);
    }
    return NULL;
}

static void several_threads_share_a_window_of_one_batch(void **state)
{
    (void)state;
    struct files f = files_new();
    for (size_t bays = 1; bays <= 3; bays += 2) {
        struct data_settings held = settings_of(&f, true, 0), streamed = settings_of(&f, true, bays);
        struct dataset *a = opened(&held), *b = opened(&streamed);
        pthread_t threads[4];
        struct taker takers[4];
        for (uint64_t i = 0; i < 4; i++) {
            takers[i] = (struct taker){i & 1 ? &a->test : &a->train, i & 1 ? &b->test : &b->train, i, false};
            assert_int_equal(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_false(takers[i].failed);
        }
        assert_within_window(b, streamed.window_mb);
        dataset_close(a);
        dataset_close(b);
    }
    files_free(&f);
}

static void a_window_that_is_too_small_is_told_the_least(void **state)
{
    (void)state;
    struct files f = files_new();
    struct data_settings s = settings_of(&f, true, 1);
    struct dataset *d;
    s.window_mb = 0.1967;
    assert_ok(dataset_open(&s, SEED, &d)); /* 64 samples of 3072 bytes */
    dataset_close(d);
    s.window_mb = 0.196;
    assert_fault_says(dataset_open(&s, SEED, &d),
                      "data.window_mb: 0.196 holds less than 64 samples of 3072 bytes, which are needed "
                      "at a time; the least is 0.1967");
    s.batch = 100;
    assert_fault_says(dataset_open(&s, SEED, &d), "the least is 0.3072");
    files_free(&f);
}

static void what_cannot_be_streamed_is_refused(void **state)
{
    (void)state;
    struct files f = files_new();
    struct dataset *d;
    struct data_settings s = settings_of(&f, true, 1);
    struct bytes plain = make_cifar(N, CLASSES, 1, 0), packed = pack(plain, "gzip");
    put_file(f.folder, "records", packed);
    assert_fault_says(dataset_open(&s, SEED, &d),
                      "records: is compressed, so its samples cannot be read one by one");
    free(packed.at);
    free(plain.at);
    s.stream = false;
    assert_fault_says(dataset_check(&s),
                      "data.window_mb: samples are read through a window only with data.stream: true");
    s = (struct data_settings){.set = {.kind = kind_find(&data_set_kinds, "blobs")}, .stream = true};
    assert_fault_says(dataset_check(&s), "data.stream: 'blobs' is made up");
    files_free(&f);
}

/* The same complaints as of a file that is read into memory. */
static void damaged_files_are_named_with_the_byte(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct files f = files_new();
        struct data_settings s = settings_of(&f, way < 2, 1);
        struct dataset *d;
        struct bytes b = way < 2 ? make_cifar(N, CLASSES, 1, 0) : make_idx_images(N, SIDE, SIDE);
        if (way == 0)
            b.at[2 * 3074 + 1] = CLASSES;
        else
            b.n -= 3;
        put_file(f.folder, way < 2 ? "records" : "images", b);
        char *of_stream, *of_memory;
        for (int k = 0; k < 2; k++) {
            s.stream = k == 0;
            s.window_mb = k == 0 ? 1 : 0;
            fault wrong = dataset_open(&s, SEED, &d);
            assert_non_null(wrong);
            *(k ? &of_memory : &of_stream) = strdup(fault_text(wrong));
            fault_drop(wrong);
        }
        assert_string_equal(of_stream, of_memory);
        free(of_stream);
        free(of_memory);
        free(b.at);
        files_free(&f);
    }
}

static void cut_short(const struct files *f)
{
    assert_int_equal(truncate(f->records, 3074 * 2), 0);
}

static void change(const struct files *f)
{
    FILE *file = fopen(f->records, "r+b");
    assert_non_null(file);
    assert_int_equal(fputc(1, file), 1);
    fclose(file);
    static const struct timespec then[2] = {{1, 0}, {1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, f->records, then, 0), 0); /* clocks of files may be coarse */
}

static void take_away(const struct files *f)
{
    assert_int_equal(unlink(f->records), 0);
}

static void a_file_that_is_not_what_it_was_is_named(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(const struct files *f);
        const char *says;
    } ways[] = {{cut_short, "records: was cut short, to 6148 of 399620 bytes"},
                {change, "records: was changed while the run was reading"},
                {take_away, "records: was removed or replaced while the run was reading"}};
    for (size_t way = 0; way < 3; way++) {
        struct files f = files_new();
        struct data_settings s = settings_of(&f, true, 2);
        struct dataset *d = opened(&s);
        struct pick picks[BATCH] = {{.sample = N - 1}}, first = {.sample = 0};
        struct held h;
        ways[way].spoil(&f);
        for (int k = 0; k < 2; k++) /* and it stays so */
            assert_fault_says(samples_hold(&d->train, picks, BATCH, &h), ways[way].says);
        assert_ok(samples_hold(&d->test, &first, 1, &h)); /* its file is as it was */
        samples_let_go(&d->test, &h);
        dataset_close(d);
        files_free(&f);
    }
}

static atomic_bool disk_is_stuck;

/* In place of the C library's: a disk that can hang. */
ssize_t preadv(int file, const struct iovec *parts, int n, off_t at)
{
    while (atomic_load(&disk_is_stuck))
        usleep(1000);
    return syscall(SYS_preadv, file, parts, n, at, 0);
}

/* Nothing is read any more and nothing is let go, so a third batch waits; but no longer than patience. */
static void a_disk_that_hangs_is_named_though_bays_are_held(void **state)
{
    (void)state;
    struct files f = files_new();
    struct data_settings s = settings_of(&f, true, 2);
    struct dataset *d = opened(&s);
    struct pick picks[BATCH] = {{.sample = 1}}, other = {.sample = N - 1};
    struct held held, none;
    dataset_set_patience(d, 0.2);
    assert_ok(samples_hold(&d->train, picks, BATCH, &held));
    atomic_store(&disk_is_stuck, true);
    samples_expect(&d->test, 0, N_TEST, SAMPLES_AT_ONCE);
    alarm(30);
    for (int k = 0; k < 2; k++) /* whether what is expected took the other bay, or this batch did */
        assert_fault_says(samples_hold(&d->train, &other, 1, &none), "the disk is too slow, or gone");
    alarm(0);
    atomic_store(&disk_is_stuck, false);
    samples_let_go(&d->train, &held);
    dataset_close(d);
    files_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_at_random_they_are_those_in_memory),
        cmocka_unit_test(the_digest_is_that_in_memory),
        cmocka_unit_test(agents_meet_the_same_samples_however_small_the_window),
        cmocka_unit_test(what_a_feed_gives_next_is_there_before_it_is_asked_for),
        cmocka_unit_test(batches_that_nobody_holds_make_room_for_later_ones),
        cmocka_unit_test(a_share_of_fewer_batches_than_bays_is_trained_to_the_end),
        cmocka_unit_test(reading_a_batch_allocates_nothing_however_large_it_is),
        cmocka_unit_test(a_test_set_that_fits_is_read_once_for_all_exams),
        cmocka_unit_test(several_threads_share_a_window_of_one_batch),
        cmocka_unit_test(a_window_that_is_too_small_is_told_the_least),
        cmocka_unit_test(what_cannot_be_streamed_is_refused),
        cmocka_unit_test(damaged_files_are_named_with_the_byte),
        cmocka_unit_test(a_file_that_is_not_what_it_was_is_named),
        cmocka_unit_test(a_disk_that_hangs_is_named_though_bays_are_held),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
