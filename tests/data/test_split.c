/* Splits: laws over random settings, then what each kind promises. */
#include "data/split.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "support/data_files.h"

enum { MOST = 4000, MOST_AGENTS = 300, MOST_CLASSES = 40 };

/* Samples of which only the labels matter. */
struct set {
    uint16_t labels[MOST];
    struct samples samples;
};

static void make_set(struct set *s, size_t n, size_t classes, uint64_t seed)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 0);
    for (size_t i = 0; i < n; i++)
        s->labels[i] = (uint16_t)rng_below(&r, classes);
    s->samples = (struct samples){.n = n, .c = 1, .h = 1, .w = 1, .classes = classes, .labels = s->labels};
}

static const struct kind *kind_named(const char *name)
{
    const struct kind *kind = kind_find(&split_kinds, name);
    assert_non_null(kind);
    return kind;
}

static struct data_settings settings_for(const char *name, void *settings)
{
    return (struct data_settings){
        .split = {.kind = kind_named(name), .settings = settings, .place = {"e.yaml", 3, 8}}, .batch = 10};
}

static size_t share_of(const struct split *s, size_t agent)
{
    return s->first[agent + 1] - s->first[agent];
}

/* Every sample has exactly one owner, every agent one sample or more, and each share is in rising order. */
static void assert_is_partition(const struct split *s, size_t n, size_t n_agents)
{
    static uint8_t seen[MOST];
    memset(seen, 0, n);
    assert_int_equal(s->n_agents, n_agents);
    assert_int_equal(s->first[0], 0);
    assert_int_equal(s->first[n_agents], n);
    for (size_t a = 0; a < n_agents; a++) {
        assert_true(s->first[a] < s->first[a + 1]);
        for (size_t i = s->first[a]; i < s->first[a + 1]; i++) {
            assert_true(s->samples[i] < n);
            assert_int_equal(seen[s->samples[i]]++, 0);
            assert_true(i == s->first[a] || s->samples[i - 1] < s->samples[i]);
        }
    }
}

static int same_split(const struct split *a, const struct split *b)
{
    return a->n_agents == b->n_agents &&
           memcmp(a->first, b->first, (a->n_agents + 1) * sizeof *a->first) == 0 &&
           memcmp(a->samples, b->samples, a->first[a->n_agents] * sizeof *a->samples) == 0;
}

/* Random settings of every kind that owns its samples. */
struct any {
    struct sizes_split sizes;
    struct proportional_split proportional;
    struct by_label_split by_label;
    struct dirichlet_split dirichlet;
    double parts[MOST_AGENTS], speeds[MOST_AGENTS];
};

static struct data_settings random_settings(struct rng *r, struct any *any, size_t n_agents, size_t classes)
{
    for (size_t i = 0; i < n_agents; i++) {
        any->parts[i] = exp(6 * rng_normal(r));
        any->speeds[i] = exp(rng_normal(r));
    }
    any->sizes.sizes = (struct reals){any->parts, n_agents};
    any->by_label.classes = (int64_t)((classes + n_agents - 1) / n_agents);
    any->dirichlet.alpha = exp(4 * rng_normal(r));
    switch (rng_below(r, 5)) {
    case 0:
        return settings_for("shuffle", NULL);
    case 1:
        return settings_for("sizes", &any->sizes);
    case 2:
        return settings_for("proportional", &any->proportional);
    case 3:
        return settings_for("by-label", &any->by_label);
    default:
        return settings_for("dirichlet", &any->dirichlet);
    }
}

static void shares_cover_the_set_never_overlap_and_follow_from_the_seed(void **state)
{
    (void)state;
    static struct set set;
    static struct any any;
    struct rng r = rng_stream(11, 0, RNG_TEST, 0);
    size_t differ = 0;
    for (uint64_t trial = 0; trial < 600; trial++) {
        size_t n_agents = 1 + rng_below(&r, MOST_AGENTS - 1), classes = 1 + rng_below(&r, MOST_CLASSES);
        size_t n = n_agents + rng_below(&r, MOST - n_agents);
        make_set(&set, n, classes, trial);
        struct data_settings d = random_settings(&r, &any, n_agents, classes);
        struct split one, two, other;
        fault f = split_make(&d, &set.samples, n_agents, any.speeds, trial, &one);
        if (f && strcmp(d.split.kind->name, "by-label") == 0) { /* so few samples of a class, or none */
            fault_drop(f);
            continue;
        }
        assert_ok(f);
        assert_ok(split_make(&d, &set.samples, n_agents, any.speeds, trial, &two));
        assert_ok(split_make(&d, &set.samples, n_agents, any.speeds, trial + 1, &other));
        assert_is_partition(&one, n, n_agents);
        assert_is_partition(&other, n, n_agents);
        assert_true(same_split(&one, &two));
        differ += !same_split(&one, &other);
        split_release(&one);
        split_release(&two);
        split_release(&other);
    }
    assert_true(differ > 450);
}

static void one_agent_has_all_samples_in_their_order_whatever_the_split(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, 500, 4, 1);
    double one_part = 3;
    struct sizes_split sizes = {{&one_part, 1}};
    struct by_label_split by_label = {4};
    struct dirichlet_split dirichlet = {0.1};
    struct proportional_split proportional = {0};
    struct data_settings all[] = {settings_for("shuffle", NULL), settings_for("sizes", &sizes),
                                  settings_for("proportional", &proportional),
                                  settings_for("by-label", &by_label), settings_for("dirichlet", &dirichlet)};
    for (size_t k = 0; k < 5; k++) {
        struct split s;
        assert_ok(split_make(&all[k], &set.samples, 1, &one_part, 42, &s));
        assert_int_equal(s.first[1], 500);
        for (uint32_t i = 0; i < 500; i++)
            assert_int_equal(s.samples[i], i);
        split_release(&s);
    }
}

static void shuffled_shares_differ_by_one_at_most_and_are_random(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, 1003, 5, 1);
    struct data_settings d = settings_for("shuffle", NULL);
    struct split s;
    assert_ok(split_make(&d, &set.samples, 4, NULL, 7, &s));
    assert_int_equal(share_of(&s, 0), 251);
    assert_int_equal(share_of(&s, 2), 251);
    assert_int_equal(share_of(&s, 3), 250);
    for (size_t a = 0; a < 4; a++) {
        size_t early = 0;
        for (size_t i = s.first[a]; i < s.first[a + 1]; i++)
            early += s.samples[i] < 500;
        assert_in_range(early, 125 - 35, 125 + 35); /* 5 standard deviations of 6.8 */
    }
    split_release(&s);
}

static void sizes_are_parts_of_the_whole_rounded_fairly(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, 1000, 5, 1);
    static const struct {
        size_t n, n_agents;
        double parts[4];
        size_t counts[4];
    } cases[] = {
        {1000, 2, {1, 3}, {250, 750}},
        {1000, 3, {1, 1, 1}, {334, 333, 333}},
        {1000, 3, {0.1, 0.2, 0.7}, {100, 200, 700}},
        {10, 4, {1, 1, 1, 1}, {3, 3, 2, 2}},
        {10,
         3,
         {0.36, 0.36, 0.28},
         {4, 3, 3}}, /* quotas 3.6, 3.6, 2.8: the largest remainders are .8 and .6 */
        {10, 3, {1e9, 1e-3, 1e-3}, {8, 1, 1}}, /* nobody goes without */
        {4, 4, {1, 2, 3, 1000}, {1, 1, 1, 1}},
        {7, 4, {1000, 1000, 1, 1}, {3, 2, 1, 1}}, /* 4 and 3, then one each from the two that have most */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct sizes_split sizes = {{cases[k].parts, cases[k].n_agents}};
        struct data_settings d = settings_for("sizes", &sizes);
        struct split s;
        set.samples.n = cases[k].n;
        assert_ok(split_make(&d, &set.samples, cases[k].n_agents, NULL, 1, &s));
        assert_is_partition(&s, cases[k].n, cases[k].n_agents);
        for (size_t a = 0; a < cases[k].n_agents; a++)
            assert_int_equal(share_of(&s, a), cases[k].counts[a]);
        split_release(&s);
    }
}

static void a_machine_four_times_as_fast_gets_four_times_as_much(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, 1300, 5, 1);
    const double speeds[] = {1, 1, 4, 0.5};
    struct proportional_split to = {0};
    struct data_settings d = settings_for("proportional", &to);
    struct split s;
    assert_ok(split_make(&d, &set.samples, 4, speeds, 1, &s));
    assert_int_equal(share_of(&s, 0), 200);
    assert_int_equal(share_of(&s, 1), 200);
    assert_int_equal(share_of(&s, 2), 800);
    assert_int_equal(share_of(&s, 3), 100);
    split_release(&s);
    assert_fault_says(split_make(&d, &set.samples, 4, NULL, 1, &s), "without speeds");
}

static void replacement_draws_from_the_whole_set_again_and_again(void **state)
{
    (void)state;
    static struct set set;
    static unsigned times[MOST];
    make_set(&set, MOST, 5, 1);
    struct data_settings d = settings_for("replacement", NULL);
    struct split s, again;
    assert_ok(split_make(&d, &set.samples, 3, NULL, 5, &s));
    assert_ok(split_make(&d, &set.samples, 3, NULL, 5, &again));
    assert_true(same_split(&s, &again));
    assert_int_equal(share_of(&s, 0), 1334);
    assert_int_equal(share_of(&s, 1), 1333);
    assert_int_equal(share_of(&s, 2), 1333);
    size_t never = 0, often = 0;
    for (size_t i = 0; i < MOST; i++)
        times[s.samples[i]]++;
    for (size_t i = 0; i < MOST; i++) {
        never += times[i] == 0;
        often += times[i] > 1;
    }
    assert_in_range(never, 1472 - 150, 1472 + 150); /* a share of 1 / e */
    assert_true(often > 500);
    split_release(&s);
    split_release(&again);
}

static size_t histogram(const struct split *s, const struct set *set, size_t agent,
                        size_t counts[MOST_CLASSES])
{
    size_t held = 0;
    memset(counts, 0, MOST_CLASSES * sizeof *counts);
    for (size_t i = s->first[agent]; i < s->first[agent + 1]; i++)
        held += counts[set->labels[s->samples[i]]]++ == 0;
    return held;
}

static void by_label_gives_each_agent_so_many_classes_and_splits_them_evenly(void **state)
{
    (void)state;
    static struct set set;
    static const size_t cases[][3] = {{10, 10, 2}, {7, 10, 3}, {5, 10, 2}, {30, 10, 1},
                                      {12, 7, 5},  {3, 4, 4},  {50, 9, 8}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t n_agents = cases[k][0], classes = cases[k][1], held = cases[k][2];
        make_set(&set, MOST, classes, k);
        struct by_label_split by_label = {(int64_t)held};
        struct data_settings d = settings_for("by-label", &by_label);
        struct split s;
        size_t least[MOST_CLASSES], most[MOST_CLASSES] = {0}, holders[MOST_CLASSES] = {0};
        memset(least, 0xFF, sizeof least);
        assert_ok(split_make(&d, &set.samples, n_agents, NULL, k, &s));
        assert_is_partition(&s, MOST, n_agents);
        for (size_t a = 0; a < n_agents; a++) {
            size_t counts[MOST_CLASSES];
            assert_int_equal(histogram(&s, &set, a, counts), held);
            for (size_t c = 0; c < classes; c++) {
                if (counts[c] == 0)
                    continue;
                holders[c]++;
                least[c] = counts[c] < least[c] ? counts[c] : least[c];
                most[c] = counts[c] > most[c] ? counts[c] : most[c];
            }
        }
        for (size_t c = 0; c < classes; c++) {
            assert_in_range(holders[c], n_agents * held / classes, (n_agents * held + classes - 1) / classes);
            assert_true(most[c] - least[c] <= 1);
        }
        split_release(&s);
    }
}

static void classes_meet_in_many_ways_and_not_only_as_neighbours(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, MOST, 10, 1);
    struct by_label_split by_label = {2};
    struct data_settings d = settings_for("by-label", &by_label);
    struct split s;
    uint8_t met[10][10] = {{0}};
    size_t pairs = 0;
    assert_ok(split_make(&d, &set.samples, 100, NULL, 3, &s));
    for (size_t a = 0; a < 100; a++) {
        size_t counts[MOST_CLASSES];
        histogram(&s, &set, a, counts);
        for (size_t x = 0; x < 10; x++)
            for (size_t y = 0; y < x; y++)
                met[x][y] |= counts[x] && counts[y];
    }
    for (size_t x = 0; x < 10; x++)
        for (size_t y = 0; y < x; y++)
            pairs += met[x][y];
    assert_true(pairs > 30); /* of 45 */
    split_release(&s);
}

static void by_label_says_what_does_not_add_up(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, 1000, 10, 1);
    struct by_label_split by_label = {2};
    struct data_settings d = settings_for("by-label", &by_label);
    struct split s;
    assert_fault_says(
        split_make(&d, &set.samples, 4, NULL, 1, &s),
        "e.yaml:3:8: data.split: 4 agents with 2 classes each leave some of the 10 classes out");
    by_label.classes = 11;
    assert_fault_says(split_make(&d, &set.samples, 4, NULL, 1, &s),
                      "data.split: 11 classes for each agent, but the samples are of 10");
    by_label.classes = 5;
    for (size_t i = 0; i < 1000; i++)
        set.labels[i] = (uint16_t)(i < 3 ? 7 : i % 5);
    assert_fault_says(split_make(&d, &set.samples, 6, NULL, 1, &s),
                      "data.split: class 7 has 3 samples for 5 agents");
    assert_ok(split_make(&d, &set.samples, 2, NULL, 1, &s)); /* classes without samples are not dealt */
    size_t counts[MOST_CLASSES];
    assert_int_equal(histogram(&s, &set, 0, counts), 5);
    split_release(&s);
}

/* How far the agents' shares of the classes are from those of the whole set: half the L1 distance, from 0
 * to 1. */
static double skew(const struct split *s, const struct set *set)
{
    size_t whole[MOST_CLASSES] = {0}, counts[MOST_CLASSES];
    double sum = 0;
    for (size_t i = 0; i < set->samples.n; i++)
        whole[set->labels[i]]++;
    for (size_t a = 0; a < s->n_agents; a++) {
        histogram(s, set, a, counts);
        for (size_t c = 0; c < set->samples.classes; c++)
            sum +=
                fabs((double)counts[c] / (double)share_of(s, a) - (double)whole[c] / (double)set->samples.n) /
                2;
    }
    return sum / (double)s->n_agents;
}

static double skew_at(const struct set *set, double alpha, size_t n_agents, uint64_t seed)
{
    struct dirichlet_split dirichlet = {alpha};
    struct data_settings d = settings_for("dirichlet", &dirichlet);
    struct split s;
    assert_ok(split_make(&d, &set->samples, n_agents, NULL, seed, &s));
    assert_is_partition(&s, set->samples.n, n_agents);
    double result = skew(&s, set);
    split_release(&s);
    return result;
}

static void dirichlet_is_skewed_for_small_alpha_and_even_for_large(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, MOST, 10, 1);
    for (uint64_t seed = 0; seed < 5; seed++) {
        double tiny = skew_at(&set, 1e-3, 8, seed), small = skew_at(&set, 0.1, 8, seed),
               one = skew_at(&set, 1, 8, seed), large = skew_at(&set, 1e6, 8, seed);
        assert_true(tiny > 0.7 && small > 0.4 && large < 0.01);
        assert_true(tiny > small && small > one && one > large);
    }
}

/* The share of one of m agents in a class has the mean 1 / m and the variance (m - 1) / (m^2 (m alpha + 1)).
 */
static void shares_of_classes_have_the_variance_of_a_dirichlet_distribution(void **state)
{
    (void)state;
    static struct set set;
    enum { AGENTS = 4, CLASSES = 40, SEEDS = 60 };
    make_set(&set, MOST, CLASSES, 1);
    static const double alphas[] = {0.3, 1, 5};
    for (size_t k = 0; k < 3; k++) {
        double squares = 0, alpha = alphas[k];
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct dirichlet_split dirichlet = {alpha};
            struct data_settings d = settings_for("dirichlet", &dirichlet);
            struct split s;
            size_t counts[AGENTS][MOST_CLASSES];
            assert_ok(split_make(&d, &set.samples, AGENTS, NULL, seed, &s));
            for (size_t a = 0; a < AGENTS; a++)
                histogram(&s, &set, a, counts[a]);
            for (size_t c = 0; c < CLASSES; c++) {
                double all = (double)(counts[0][c] + counts[1][c] + counts[2][c] + counts[3][c]);
                double off = (double)counts[0][c] / all - 1.0 / AGENTS;
                squares += off * off;
            }
            split_release(&s);
        }
        double variance = squares / (CLASSES * SEEDS);
        double expected = (AGENTS - 1.0) / (AGENTS * AGENTS * (AGENTS * alpha + 1));
        assert_true(fabs(variance / expected - 1) < 0.15);
    }
}

static void nobody_goes_without_even_where_chance_gives_all_to_one(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, MOST_AGENTS, 2, 1);
    assert_true(skew_at(&set, 1e-6, MOST_AGENTS, 3) > 0); /* as many samples as agents: one each */
    make_set(&set, MOST, 2, 1);
    assert_true(skew_at(&set, 1e-6, MOST_AGENTS, 3) > 0.3);
}

static void what_cannot_be_split_is_refused_with_its_place(void **state)
{
    (void)state;
    static struct set set;
    make_set(&set, 5, 2, 1);
    struct split s = {0};
    struct dirichlet_split dirichlet = {1};
    struct data_settings several[] = {settings_for("shuffle", NULL), settings_for("replacement", NULL),
                                      settings_for("dirichlet", &dirichlet)};
    for (size_t k = 0; k < 3; k++)
        assert_fault_says(split_make(&several[k], &set.samples, 6, NULL, 1, &s),
                          "e.yaml:3:8: data.split: 5 training samples are too few for 6 agents");
    const double parts[] = {1, 2};
    struct sizes_split sizes = {{parts, 2}};
    struct data_settings d = settings_for("sizes", &sizes);
    assert_fault_says(split_check(&d, 3), "e.yaml:3:8: data.split: 2 sizes for 3 agents");
    assert_fault_says(split_make(&d, &set.samples, 3, NULL, 1, &s),
                      "e.yaml:3:8: data.split: 2 sizes for 3 agents");
    assert_ok(split_check(&d, 2));
    assert_null(s.samples);
}

static void ten_thousand_agents_are_no_trouble(void **state)
{
    (void)state;
    enum { N = 60000, AGENTS = 10000 };
    uint16_t *labels = malloc(N * sizeof *labels);
    double *speeds = malloc(AGENTS * sizeof *speeds);
    assert_non_null(labels);
    assert_non_null(speeds);
    for (size_t i = 0; i < N; i++)
        labels[i] = (uint16_t)(i % 10);
    for (size_t a = 0; a < AGENTS; a++)
        speeds[a] = a < 10 ? 1e6 : 1;
    struct samples samples = {.n = N, .c = 1, .h = 1, .w = 1, .classes = 10, .labels = labels};
    struct dirichlet_split dirichlet = {0.01};
    struct by_label_split by_label = {2};
    struct proportional_split proportional = {0};
    struct data_settings all[] = {settings_for("dirichlet", &dirichlet), settings_for("by-label", &by_label),
                                  settings_for("proportional", &proportional)};
    for (size_t k = 0; k < 3; k++) {
        struct split s;
        size_t sum = 0;
        assert_ok(split_make(&all[k], &samples, AGENTS, speeds, 1, &s));
        for (size_t a = 0; a < AGENTS; a++) {
            assert_true(share_of(&s, a) >= 1);
            sum += share_of(&s, a);
        }
        assert_int_equal(sum, N);
        split_release(&s);
    }
    free(labels);
    free(speeds);
}

static void every_split_has_a_help_and_rows_that_fit_its_settings(void **state)
{
    (void)state;
    assert_int_equal(split_kinds.n, 7);
    for (size_t i = 0; i < split_kinds.n; i++) {
        const struct kind *k = kinds_at(&split_kinds, i);
        assert_non_null(k->help);
        assert_non_null(k->row);
        assert_true((k->n_fields == 0) == (k->size == 0));
        for (size_t j = 0; j < k->n_fields; j++)
            assert_true(k->fields[j].offset < k->size && k->fields[j].help);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_cover_the_set_never_overlap_and_follow_from_the_seed),
        cmocka_unit_test(one_agent_has_all_samples_in_their_order_whatever_the_split),
        cmocka_unit_test(shuffled_shares_differ_by_one_at_most_and_are_random),
        cmocka_unit_test(sizes_are_parts_of_the_whole_rounded_fairly),
        cmocka_unit_test(a_machine_four_times_as_fast_gets_four_times_as_much),
        cmocka_unit_test(replacement_draws_from_the_whole_set_again_and_again),
        cmocka_unit_test(by_label_gives_each_agent_so_many_classes_and_splits_them_evenly),
        cmocka_unit_test(classes_meet_in_many_ways_and_not_only_as_neighbours),
        cmocka_unit_test(by_label_says_what_does_not_add_up),
        cmocka_unit_test(dirichlet_is_skewed_for_small_alpha_and_even_for_large),
        cmocka_unit_test(shares_of_classes_have_the_variance_of_a_dirichlet_distribution),
        cmocka_unit_test(nobody_goes_without_even_where_chance_gives_all_to_one),
        cmocka_unit_test(what_cannot_be_split_is_refused_with_its_place),
        cmocka_unit_test(ten_thousand_agents_are_no_trouble),
        cmocka_unit_test(every_split_has_a_help_and_rows_that_fit_its_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
