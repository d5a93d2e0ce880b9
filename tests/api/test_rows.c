/* What an experiment's check says of rows: names, whose they are, floats, sums; spare ones; those that wait for the data. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/page.h"
#include "engine/rows.h"
#include "support/must.h"
#include "veche.h"
#include "world/world.h"

enum { PARAMS = 256 * 1000 + 1000 + 2 * 1000 + 1000 * 10 + 10, STATS = 2 * 1000 };

#define MODEL                                                                                                \
    "data: {set: {kind: images, channels: 1, size: 16}, batch: 4}\n"                                         \
    "model: [linear: {out: 1000}, batchnorm, linear: {out: 10}]\n"                                           \
    "train: {epochs: 1}\nagents: 4\n"

static void tell_of(const char *text, char **told)
{
    veche_experiment *e;
    must(veche_parse(text, "text", &e));
    must(veche_describe_model(e, told));
    veche_experiment_free(e);
}

static const char *line_of(const char *told, const char *begin)
{
    const char *at = strstr(told, begin);
    if (!at)
        fail_msg("there is no '%s' in: %s", begin, told);
    return at + strlen(begin);
}

static size_t plain_number(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n = *text == ',' ? n : 10 * n + (size_t)(*text - '0');
    return n;
}

static double mib_of(size_t floats)
{
    return (double)floats * sizeof(float) / 0x1p20;
}

/* The figures of a row's line; gives its floats. */
static size_t expect_row(const char *told, const char *name, const char *owner, size_t floats)
{
    char begin[40], of[16], count[32];
    double mib;
    snprintf(begin, sizeof begin, "\n%s ", name);
    assert_int_equal(sscanf(line_of(told, begin), "%15s %31s %lf\n", of, count, &mib), 3);
    assert_string_equal(of, owner);
    assert_int_equal(plain_number(count), floats);
    assert_true(fabs(mib - mib_of(floats)) < 0.0051);
    return floats;
}

static size_t expect_engines_rows(const char *told)
{
    return expect_row(told, "parameters", "network", PARAMS) +
           expect_row(told, "gradient", "network", PARAMS) + expect_row(told, "statistics", "network", STATS);
}

/* In all, and of so many replicas. */
static void expect_sum(const char *told, size_t floats, size_t n_replicas)
{
    double one, many;
    size_t n;
    assert_int_equal(
        sscanf(line_of(told, "\nrows: "), "%lf MiB a replica, %lf MiB for %zu of them\n", &one, &many, &n),
        3);
    assert_int_equal(n, n_replicas);
    assert_true(fabs(one - mib_of(floats)) < 0.0051);
    assert_true(fabs(many - mib_of(floats * n)) < 0.0051);
}

static void the_rows_of_network_optimiser_and_strategy_are_told_with_their_sum(void **state)
{
    (void)state;
    char *told;
    tell_of(MODEL "optim: {kind: adam, lr: 0.001}\nstrategy: admm\n", &told);
    size_t all = expect_engines_rows(told);
    all += expect_row(told, "exp_avg", "optimiser", PARAMS) +
           expect_row(told, "exp_avg_sq", "optimiser", PARAMS);
    all += expect_row(told, "price", "strategy", PARAMS) + expect_row(told, "z", "strategy", PARAMS);
    expect_sum(told, all, 5); /* four agents and a centre */
    assert_int_equal(strtoul(line_of(told, "\nspare rows: at most "), NULL, 10), 1 + 4 * 5 + 2 * 4);
    assert_null(strstr(told, "inputs"));
    free(told);
}

static void a_row_that_is_not_needed_is_not_told(void **state)
{
    (void)state;
    char *told;
    tell_of(MODEL "optim: {kind: sgd, lr: 0.1}\nstrategy: average\n", &told);
    size_t all = expect_engines_rows(told) + expect_row(told, "momentum_buffer", "optimiser", PARAMS);
    expect_sum(told, all, 4);
    assert_null(strstr(told, "block"));
    free(told);
}

/* Every process has its member's rows, and another replica where a peer may come while it learns. */
static void where_members_are_processes_it_is_told_what_one_has(void **state)
{
    (void)state;
    if (!world_named("mpi"))
        skip_because("built without MPI");
    char *told;
    tell_of(MODEL "optim: {kind: sgd, lr: 0.1}\nstrategy: adpsgd\ntopology: cycle:4\nworld: mpi\n", &told);
    size_t all = expect_engines_rows(told) + expect_row(told, "momentum_buffer", "optimiser", PARAMS);
    expect_sum(told, all, 2);
    line_of(told, "\nspare rows: at most 2 of each, ");
    line_of(told, "\neach of 4 processes has these rows\n");
    free(told);
    tell_of(MODEL "optim: {kind: sgd, lr: 0.1}\nstrategy: allreduce\nworld: mpi\n", &told);
    line_of(told, "\nrows: 3.09 MiB a replica\n");
    free(told);
}

static void a_row_that_waits_for_the_data_says_so(void **state)
{
    (void)state;
    struct rows rows = {.n = 0};
    struct page page;
    char *told;
    must(page_open(&page));
    rows_keep(&rows, (struct row_entry){.name = "weights", .size = 1 << 18});
    rows_keep(&rows, (struct row_entry){.name = "duals", .awaits_data = true});
    fputc('\n', page.out);
    rows_describe(&rows, 1, 0, page.out);
    must(page_close(&page, OK, &told));
    expect_row(told, "weights", "strategy", 1 << 18);
    char of[16], count[32];
    assert_int_equal(sscanf(line_of(told, "\nduals "), "%15s %31[a-z ]\n", of, count), 2);
    assert_string_equal(of, "strategy");
    assert_string_equal(count, "set by the data");
    line_of(told, "\nrows: more than 1.00 MiB a replica\n");
    assert_null(strstr(told, "spare"));
    free(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_of_network_optimiser_and_strategy_are_told_with_their_sum),
        cmocka_unit_test(a_row_that_is_not_needed_is_not_told),
        cmocka_unit_test(where_members_are_processes_it_is_told_what_one_has),
        cmocka_unit_test(a_row_that_waits_for_the_data_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
