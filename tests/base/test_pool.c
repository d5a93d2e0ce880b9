/* The workers share out every piece exactly once, however many there are and however often they are asked. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MOST = 1000 };

struct count {
    _Atomic int runs[MOST];
    int n_workers;
    _Atomic int strangers; /* pieces run by a worker that does not exist */
};

static void count_piece(void *ctx, size_t piece, int worker)
{
    struct count *c = ctx;
    atomic_fetch_add(&c->runs[piece], 1);
    if (worker < 0 || worker >= c->n_workers)
        atomic_fetch_add(&c->strangers, 1);
}

static void every_piece_runs_exactly_once(void **state)
{
    (void)state;
    for (int n_workers = 1; n_workers <= 5; n_workers++) {
        struct pool *pool;
        assert_null(pool_open(n_workers, &pool));
        assert_int_equal(pool_size(pool), n_workers);
        for (size_t n = 0; n <= MOST; n = n * 3 / 2 + 1) {
            struct count c = {.n_workers = n_workers};
            pool_run(pool, n, count_piece, &c);
            for (size_t i = 0; i < MOST; i++)
                assert_int_equal(c.runs[i], i < n);
            assert_int_equal(c.strangers, 0);
        }
        pool_close(pool);
    }
}

static void add_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    atomic_fetch_add((_Atomic uint64_t *)ctx, piece + 1);
}

static void ten_thousand_small_jobs_in_a_row_lose_nothing(void **state)
{
    (void)state;
    struct pool *pool;
    assert_null(pool_open(3, &pool));
    _Atomic uint64_t sum = 0;
    for (int i = 0; i < 10000; i++)
        pool_run(pool, 5, add_piece, &sum);
    assert_int_equal(sum, 10000 * 15);
    pool_close(pool);
}

struct sized {
    _Atomic int runs[8], beyond;
    size_t n;
};

static void count_sized(void *ctx, size_t piece, int worker)
{
    (void)worker;
    struct sized *s = ctx;
    if (piece < s->n)
        atomic_fetch_add(&s->runs[piece], 1);
    else
        atomic_fetch_add(&s->beyond, 1);
}

/* A worker that is late for a small job must not take pieces of the larger one that follows for pieces of the small. */
static void jobs_of_changing_size_never_mix(void **state)
{
    (void)state;
    struct pool *pool;
    assert_null(pool_open(4, &pool));
    for (int i = 0; i < 20000; i++) {
        struct sized s = {.n = i % 2 ? 8 : 2};
        pool_run(pool, s.n, count_sized, &s);
        assert_int_equal(s.beyond, 0);
        for (size_t j = 0; j < 8; j++)
            assert_int_equal(s.runs[j], j < s.n);
    }
    pool_close(pool);
}

static void an_impossible_number_of_workers_is_a_fault(void **state)
{
    (void)state;
    struct pool *pool = NULL;
    fault f = pool_open(-3, &pool);
    assert_non_null(f);
    assert_null(pool);
    fault_drop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_exactly_once),
        cmocka_unit_test(ten_thousand_small_jobs_in_a_row_lose_nothing),
        cmocka_unit_test(jobs_of_changing_size_never_mix),
        cmocka_unit_test(an_impossible_number_of_workers_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
