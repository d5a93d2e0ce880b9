/* Feeds: every sample once an epoch, the same picks for the same round, fair flips and shifts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/data.h"
#include "support/data_files.h"

enum { MOST = 4096 };

struct setting {
    struct feed feed;
    uint32_t share[MOST];
};

/* The share is 10, 13, 16, ...: a feed must give samples of the share, not positions in it. */
static void open_feed(struct setting *s, size_t n_share, int64_t batch, bool flip, int64_t crop,
                      uint64_t seed, uint32_t agent)
{
    struct data_settings settings = {.batch = batch, .flip = flip, .crop = crop};
    for (size_t i = 0; i < n_share; i++)
        s->share[i] = (uint32_t)(10 + 3 * i);
    assert_ok(feed_init(&s->feed, &settings, seed, agent, s->share, n_share));
}

static int is_in_share(const struct setting *s, uint32_t sample)
{
    return sample >= 10 && (sample - 10) % 3 == 0 && (sample - 10) / 3 < s->feed.n_share;
}

static void every_sample_is_met_exactly_once_an_epoch(void **state)
{
    (void)state;
    const size_t shares[] = {1, 2, 7, 64, 100, 101}, batches[] = {1, 3, 7, 64, 250};
    for (size_t a = 0; a < 6; a++)
        for (size_t b = 0; b < 5; b++) {
            static struct setting s;
            static struct pick picks[MOST * 2];
            size_t n = shares[a], batch = batches[b], epochs = 5, met[MOST] = {0};
            open_feed(&s, n, (int64_t)batch, false, 0, 3, 0);
            size_t rounds = (n * epochs + batch - 1) / batch;
            for (size_t k = 0; k < rounds; k++)
                feed_batch(&s.feed, k, picks + k * batch);
            for (size_t e = 0; e < epochs; e++)
                for (size_t i = 0; i < n; i++) {
                    assert_true(is_in_share(&s, picks[e * n + i].sample));
                    size_t which = (picks[e * n + i].sample - 10) / 3;
                    assert_int_equal(met[which]++, e);
                }
            feed_release(&s.feed);
        }
}

static void a_batch_follows_from_its_round_alone(void **state)
{
    (void)state;
    static struct setting s, t;
    enum { BATCH = 30, ROUNDS = 40 };
    struct pick in_order[ROUNDS][BATCH], again[BATCH];
    open_feed(&s, 100, BATCH, true, 4, 11, 2);
    open_feed(&t, 100, BATCH, true, 4, 11, 2);
    for (size_t k = 0; k < ROUNDS; k++)
        feed_batch(&s.feed, k, in_order[k]);
    for (size_t i = 0; i < 3 * ROUNDS; i++) {
        size_t k = i * 17 % ROUNDS; /* any order, forth and back, each several times */
        memset(again, 0, sizeof again);
        feed_batch(&t.feed, k, again);
        for (size_t j = 0; j < BATCH; j++) {
            assert_int_equal(again[j].sample, in_order[k][j].sample);
            assert_int_equal(again[j].flip, in_order[k][j].flip);
            assert_int_equal(again[j].dy, in_order[k][j].dy);
            assert_int_equal(again[j].dx, in_order[k][j].dx);
        }
    }
    feed_release(&s.feed);
    feed_release(&t.feed);
}

static size_t differences(uint64_t seed, uint32_t agent, uint64_t k)
{
    static struct setting s, t;
    struct pick a[50], b[50];
    size_t n = 0;
    open_feed(&s, 1000, 50, true, 4, 1, 0);
    open_feed(&t, 1000, 50, true, 4, seed, agent);
    feed_batch(&s.feed, 0, a);
    feed_batch(&t.feed, k, b);
    for (size_t i = 0; i < 50; i++)
        n += a[i].sample != b[i].sample;
    feed_release(&s.feed);
    feed_release(&t.feed);
    return n;
}

static void seeds_agents_and_epochs_have_orders_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(differences(1, 0, 0), 0);
    assert_true(differences(2, 0, 0) > 40);
    assert_true(differences(1, 1, 0) > 40);
    assert_true(differences(1, 0, 20) > 40); /* the first batch of the second epoch */
}

static void augmentation_does_not_change_the_order(void **state)
{
    (void)state;
    static struct setting s, t;
    struct pick a[50], b[50];
    open_feed(&s, 1000, 50, true, 4, 1, 0);
    open_feed(&t, 1000, 50, false, 0, 1, 0);
    for (uint64_t k = 0; k < 30; k++) {
        feed_batch(&s.feed, k, a);
        feed_batch(&t.feed, k, b);
        for (size_t i = 0; i < 50; i++) {
            assert_int_equal(a[i].sample, b[i].sample);
            assert_int_equal(b[i].flip, 0);
            assert_int_equal(b[i].dy, 0);
            assert_int_equal(b[i].dx, 0);
        }
    }
    feed_release(&s.feed);
    feed_release(&t.feed);
}

static void half_are_mirrored_and_all_shifts_are_equally_likely(void **state)
{
    (void)state;
    static struct setting s;
    enum { BATCH = 100, ROUNDS = 810, CROP = 4, SIDE = 2 * CROP + 1, DRAWS = BATCH * ROUNDS };
    struct pick picks[BATCH];
    size_t flips = 0, at[SIDE][SIDE] = {{0}}, flips_at_0 = 0, expected = DRAWS / (SIDE * SIDE);
    open_feed(&s, 1000, BATCH, true, CROP, 5, 0);
    for (uint64_t k = 0; k < ROUNDS; k++) {
        feed_batch(&s.feed, k, picks);
        for (size_t i = 0; i < BATCH; i++) {
            assert_in_range(picks[i].flip, 0, 1);
            assert_true(abs(picks[i].dy) <= CROP && abs(picks[i].dx) <= CROP);
            flips += (size_t)picks[i].flip;
            flips_at_0 += picks[i].flip && picks[i].dy == 0;
            at[picks[i].dy + CROP][picks[i].dx + CROP]++;
        }
    }
    /* within five standard deviations: sqrt(81000) / 2 = 142, sqrt(9000) / 2 = 47, sqrt(1000) = 32 */
    assert_in_range(flips, DRAWS / 2 - 711, DRAWS / 2 + 711);
    assert_in_range(flips_at_0, DRAWS / SIDE / 2 - 240, DRAWS / SIDE / 2 + 240);
    for (size_t y = 0; y < SIDE; y++)
        for (size_t x = 0; x < SIDE; x++)
            assert_in_range(at[y][x], expected - 160, expected + 160);
    feed_release(&s.feed);
}

/* In a fair shuffle each sample is as likely at each place. */
static void every_place_of_an_epoch_is_equally_likely_for_a_sample(void **state)
{
    (void)state;
    static struct setting s;
    enum { N = 8, EPOCHS = 8000 };
    struct pick picks[N];
    size_t at[N][N] = {{0}};
    open_feed(&s, N, N, false, 0, 9, 0);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        feed_batch(&s.feed, e, picks);
        for (size_t i = 0; i < N; i++)
            at[i][(picks[i].sample - 10) / 3]++;
    }
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            assert_in_range(at[i][j], 1000 - 150, 1000 + 150);
    feed_release(&s.feed);
}

static void epochs_are_counted_by_samples(void **state)
{
    (void)state;
    static struct setting s;
    open_feed(&s, 1000, 30, false, 0, 1, 0);
    assert_true(feed_epochs(&s.feed, 0) == 0);
    assert_true(feed_epochs(&s.feed, 100) == 3);
    feed_release(&s.feed);
}

static void impossible_settings_are_faults(void **state)
{
    (void)state;
    struct feed f;
    uint32_t share[1] = {0};
    struct data_settings none = {.batch = 0}, large = {.batch = 1, .crop = 128}, good = {.batch = 1};
    assert_fault_says(feed_init(&f, &none, 1, 0, share, 1), "data.batch");
    assert_fault_says(feed_init(&f, &large, 1, 0, share, 1), "data.crop");
    assert_fault_says(feed_init(&f, &good, 1, 7, share, 0), "agent 7 has no samples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_met_exactly_once_an_epoch),
        cmocka_unit_test(a_batch_follows_from_its_round_alone),
        cmocka_unit_test(seeds_agents_and_epochs_have_orders_of_their_own),
        cmocka_unit_test(augmentation_does_not_change_the_order),
        cmocka_unit_test(half_are_mirrored_and_all_shifts_are_equally_likely),
        cmocka_unit_test(every_place_of_an_epoch_is_equally_likely_for_a_sample),
        cmocka_unit_test(epochs_are_counted_by_samples),
        cmocka_unit_test(impossible_settings_are_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
