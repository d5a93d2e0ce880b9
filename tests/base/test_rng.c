/* Random streams: the published generators, streams that know nothing of each other, draws without bias. */
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void rng_hash_is_splitmix64(void **state)
{
    (void)state;
    /* The first outputs of splitmix64 for the seed 1234567, as published with the algorithm's ports. */
    static const uint64_t known[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                     UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                     UINT64_C(16408922859458223821)};
    for (uint64_t i = 0; i < 5; i++)
        assert_true(rng_hash(1234567, i) == known[i]);
}

static void rng_next_is_xoshiro256_star_star(void **state)
{
    (void)state;
    /* From the state {1, 2, 3, 4}; the first few by hand: 2 * 5 = 10, rotated by 7 is 1280, times 9 is 11520;
     * then s[1] = 0 gives 0; and so on. */
    static const uint64_t known[] = {11520,
                                     0,
                                     1509978240,
                                     UINT64_C(1215971899390074240),
                                     UINT64_C(1216172134540287360),
                                     UINT64_C(607988272756665600),
                                     UINT64_C(16172922978634559625),
                                     UINT64_C(8476171486693032832),
                                     UINT64_C(10595114339597558777),
                                     UINT64_C(2904607092377533576)};
    struct rng r = {{1, 2, 3, 4}};
    for (size_t i = 0; i < 10; i++)
        assert_true(rng_next(&r) == known[i]);
}

/* The chain written down in rng.h, worked out here with separate arithmetic: whoever changes it breaks old
 * runs. */
static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z ^= z >> 30;
    z *= UINT64_C(0xbf58476d1ce4e5b9);
    z ^= z >> 27;
    z *= UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t nth_splitmix(uint64_t seed, uint64_t i)
{
    uint64_t out = splitmix(&seed);
    while (i-- > 0)
        out = splitmix(&seed);
    return out;
}

static void a_stream_starts_where_its_key_says(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++)
        for (uint32_t agent = 0; agent < 3; agent++)
            for (uint64_t index = 0; index < 4; index++) {
                struct rng r = rng_stream(seed, agent, RNG_AUGMENT, index);
                uint64_t key = nth_splitmix(nth_splitmix(nth_splitmix(seed, agent), RNG_AUGMENT), index);
                for (int i = 0; i < 4; i++)
                    assert_true(r.s[i] == splitmix(&key));
            }
}

static void streams_differ_in_every_part_of_their_key(void **state)
{
    (void)state;
    enum { SEEDS = 4, AGENTS = 4, PURPOSES = 4, INDICES = 4, ALL = SEEDS * AGENTS * PURPOSES * INDICES };
    uint64_t first[ALL];
    size_t n = 0;
    for (uint64_t s = 0; s < SEEDS; s++)
        for (uint32_t a = 0; a < AGENTS; a++)
            for (int p = 0; p < PURPOSES; p++)
                for (uint64_t i = 0; i < INDICES; i++) {
                    struct rng r = rng_stream(s, a, (enum rng_purpose)p, i);
                    first[n++] = rng_next(&r);
                }
    for (size_t i = 0; i < ALL; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(first[i] != first[j]);
}

static void the_same_key_gives_the_same_stream(void **state)
{
    (void)state;
    struct rng a = rng_stream(42, 3, RNG_ORDER, 7), b = rng_stream(42, 3, RNG_ORDER, 7);
    for (int i = 0; i < 1000; i++)
        assert_true(rng_next(&a) == rng_next(&b));
}

static void neighbouring_streams_are_not_correlated(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct rng a = rng_stream(1, 0, RNG_INIT, 0), b = rng_stream(1, 1, RNG_INIT, 0);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += (rng_uniform(&a) - 0.5) * (rng_uniform(&b) - 0.5);
    double correlation = sum / N * 12;
    assert_true(fabs(correlation) < 5 / sqrt(N)); /* five standard errors */
}

static void every_bit_is_set_half_of_the_time(void **state)
{
    (void)state;
    enum { N = 20000 };
    int ones[64] = {0};
    struct rng r = rng_stream(5, 0, RNG_TEST, 0);
    for (int i = 0; i < N; i++) {
        uint64_t x = rng_next(&r);
        for (int b = 0; b < 64; b++)
            ones[b] += (int)(x >> b & 1);
    }
    for (int b = 0; b < 64; b++)
        assert_true(fabs(ones[b] - N / 2.0) < 5 * sqrt(N / 4.0));
}

static double chi_squared(const int *counts, size_t n, double expected)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

static void rng_below_reaches_all_values_equally(void **state)
{
    (void)state;
    enum { N = 60000 };
    static const uint64_t sizes[] = {1, 2, 3, 7, 10, 64, 100};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int counts[100] = {0};
        struct rng r = rng_stream(11, 0, RNG_TEST, s);
        for (int i = 0; i < N; i++) {
            uint64_t x = rng_below(&r, sizes[s]);
            assert_true(x < sizes[s]);
            counts[x]++;
        }
        double freedom = (double)sizes[s] - 1;
        assert_true(chi_squared(counts, sizes[s], N / (double)sizes[s]) <= freedom + 6 * sqrt(2 * freedom));
    }
}

/* With n = 3/4 of 2^64, taking a draw modulo n would give the lowest third of the results half of the time.
 */
static void rng_below_has_no_bias_for_huge_ranges(void **state)
{
    (void)state;
    enum { N = 30000 };
    const uint64_t n = UINT64_C(3) << 62;
    int counts[3] = {0};
    struct rng r = rng_stream(12, 0, RNG_TEST, 0);
    for (int i = 0; i < N; i++)
        counts[rng_below(&r, n) / (n / 3)]++;
    assert_true(chi_squared(counts, 3, N / 3.0) < 20);
}

static void uniform_numbers_fill_the_unit_interval(void **state)
{
    (void)state;
    enum { N = 100000, CELLS = 50 };
    int counts[CELLS] = {0};
    double sum = 0;
    struct rng r = rng_stream(3, 0, RNG_TEST, 0);
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&r);
        assert_true(u >= 0 && u < 1);
        counts[(int)(u * CELLS)]++;
        sum += u;
    }
    assert_true(fabs(sum / N - 0.5) < 5 / sqrt(12.0 * N));
    assert_true(chi_squared(counts, CELLS, (double)N / CELLS) < CELLS - 1 + 6 * sqrt(2.0 * (CELLS - 1)));
}

static void normal_numbers_have_the_moments_of_the_bell(void **state)
{
    (void)state;
    enum { N = 200000 };
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    int beyond_two = 0;
    struct rng r = rng_stream(4, 0, RNG_TEST, 0);
    for (int i = 0; i < N; i++) {
        double x = rng_normal(&r);
        assert_true(isfinite(x));
        m1 += x;
        m2 += x * x;
        m3 += x * x * x;
        m4 += x * x * x * x;
        beyond_two += fabs(x) > 2;
    }
    /* Five standard errors each: variances of x^k are 1, 2, 15 and 96. */
    assert_true(fabs(m1 / N) < 5 * sqrt(1.0 / N));
    assert_true(fabs(m2 / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(m3 / N) < 5 * sqrt(15.0 / N));
    assert_true(fabs(m4 / N - 3) < 5 * sqrt(96.0 / N));
    double share = erfc(2 / sqrt(2));
    assert_true(fabs((double)beyond_two / N - share) < 5 * sqrt(share * (1 - share) / N));
}

static void a_shuffle_is_a_permutation(void **state)
{
    (void)state;
    enum { MOST = 500 };
    for (size_t n = 0; n <= MOST; n = n * 2 + 1) {
        uint32_t items[MOST];
        int seen[MOST] = {0};
        for (uint32_t i = 0; i < n; i++)
            items[i] = i;
        struct rng r = rng_stream(6, 0, RNG_ORDER, n);
        rng_shuffle(&r, items, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(items[i] < n);
            seen[items[i]]++;
        }
        for (size_t i = 0; i < n; i++)
            assert_int_equal(seen[i], 1);
    }
}

static void all_orders_of_four_come_equally_often(void **state)
{
    (void)state;
    enum { N = 48000 };
    int counts[256] = {0}, orders[24], n = 0;
    struct rng r = rng_stream(8, 0, RNG_ORDER, 0);
    for (int i = 0; i < N; i++) {
        uint32_t items[4] = {0, 1, 2, 3};
        rng_shuffle(&r, items, 4);
        counts[items[0] << 6 | items[1] << 4 | items[2] << 2 | items[3]]++;
    }
    for (int i = 0; i < 256; i++)
        if (counts[i]) {
            assert_true(n < 24);
            orders[n++] = counts[i];
        }
    assert_int_equal(n, 24);
    assert_true(chi_squared(orders, 24, N / 24.0) < 23 + 6 * sqrt(2.0 * 23));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng_hash_is_splitmix64),
        cmocka_unit_test(rng_next_is_xoshiro256_star_star),
        cmocka_unit_test(a_stream_starts_where_its_key_says),
        cmocka_unit_test(streams_differ_in_every_part_of_their_key),
        cmocka_unit_test(the_same_key_gives_the_same_stream),
        cmocka_unit_test(neighbouring_streams_are_not_correlated),
        cmocka_unit_test(every_bit_is_set_half_of_the_time),
        cmocka_unit_test(rng_below_reaches_all_values_equally),
        cmocka_unit_test(rng_below_has_no_bias_for_huge_ranges),
        cmocka_unit_test(uniform_numbers_fill_the_unit_interval),
        cmocka_unit_test(normal_numbers_have_the_moments_of_the_bell),
        cmocka_unit_test(a_shuffle_is_a_permutation),
        cmocka_unit_test(all_orders_of_four_come_equally_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
