/* What is asked of a peer whose program takes no notice: averages, rows, rounds; and the sums of the MPI
 * itself. */
#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "mpi/crew.h"

/* Anything may be asked of me at any time: a copy of my rows learns. */
static const struct strategy_row meeting = {
    .meets_at_any_time = true, .hears_everyone = true, .kept = {{.name = "first"}, {.name = "second"}}};

static struct strategy_row with(struct strategy_row row, strategy_run *program)
{
    row.run = program;
    return row;
}

static float draw(struct rng *r)
{
    float x = (float)rng_uniform(r);
    return x < 0.5f ? 0 : x;
}

/* Numbers from 0 to 1, many of them 0. */
static void fill_at_random(struct agent *a, enum row row, uint64_t k)
{
    struct rng r = rng_stream(5, (uint32_t)a->index, RNG_TEST, k);
    for (size_t i = 0; i < link_row_floats(a->link, row); i++)
        crew_row(a, row)[i] = draw(&r);
}

/* ---- averages ---- */

static fault swap_bytes(struct agent *a, size_t peer, uint64_t tag)
{
    char byte = 0;
    TRY(link_send(a->link, peer, tag, &byte, 1));
    return link_recv(a->link, peer, tag, &byte, 1, NULL);
}

static fault have_same_bits(struct agent *a, size_t peer, uint64_t tag, enum row row)
{
    struct parcel p;
    size_t n = link_row_floats(a->link, row);
    TRY(link_send_rows(a->link, peer, tag, whole(1u << row)));
    TRY(link_recv_rows(a->link, peer, tag, &p, NULL));
    bool same =
        memcmp(incoming_floats(far_of(a->link), p.rows, row, 0, n), crew_row(a, row), n * sizeof(float)) == 0;
    link_drop(a->link, &p);
    CHECK(same);
    return OK;
}

/* Of what both were filled with. */
static bool has_mean_of(struct agent *a, size_t peer, enum row row, uint64_t k)
{
    struct rng mine = rng_stream(5, (uint32_t)a->index, RNG_TEST, k),
               theirs = rng_stream(5, (uint32_t)peer, RNG_TEST, k);
    size_t wrong = 0;
    for (size_t i = 0; i < link_row_floats(a->link, row); i++)
        wrong += fabsf(crew_row(a, row)[i] - (draw(&mine) + draw(&theirs)) / 2) > 1e-6f;
    return wrong == 0;
}

/* Pairs (0, 1), (2, 3) ... The higher asks in even rounds, the lower in odd ones. */
static fault meet_in_pairs(struct agent *a)
{
    size_t peer = a->index ^ 1;
    for (uint64_t k = 0; peer < a->link->n_members && k < 4; k++) {
        fill_at_random(a, ROW_PARAMS, k);
        fill_at_random(a, ROW_STATS, k);
        TRY(swap_bytes(a, peer, 5 * k)); /* both are ready */
        if (a->index % 2 != k % 2)
            TRY(link_average(a->link, peer, ROWS_PARAMS | ROWS_STATS));
        TRY(swap_bytes(a, peer, 5 * k + 1)); /* they have met */
        CHECK(has_mean_of(a, peer, ROW_PARAMS, k) && has_mean_of(a, peer, ROW_STATS, k));
        TRY(have_same_bits(a, peer, 5 * k + 2, ROW_PARAMS));
        TRY(have_same_bits(a, peer, 5 * k + 3, ROW_STATS));
        TRY(swap_bytes(a, peer, 5 * k + 4)); /* nothing is under way */
    }
    return OK;
}

static void two_that_meet_have_the_same_bits(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c, with(meeting, meet_in_pairs), "");
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
}

/* Both ask each other at the same time, again and again: neither may take the other's place. */
static fault ask_each_other(struct agent *a)
{
    size_t peer = a->index ^ 1;
    for (uint64_t k = 0; peer < a->link->n_members && k < 50; k++) {
        crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
        TRY(swap_bytes(a, peer, 2 * k));
        TRY(link_average(a->link, peer, ROWS_PARAMS));
        TRY(swap_bytes(a, peer, 2 * k + 1));
        CHECK(crew_row_is(a, ROW_PARAMS, 0.5f * (float)(a->index + 1 + peer + 1)));
    }
    return OK;
}

static void two_that_ask_each_other_at_once_meet_halfway(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c, with(meeting, ask_each_other), "");
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
}

/* Everyone averages with everyone, at its own pace, in the midst of lessons. */
static fault average_at_random(struct agent *a)
{
    size_t n = a->link->n_members;
    struct rng r = rng_stream(9, (uint32_t)a->index, RNG_TEST, 2);
    fill_at_random(a, ROW_PARAMS, 1);
    TRY(crew_barrier(a, 1));
    for (int k = 0; n > 1 && k < 30; k++) {
        if (k % 3 == 0)
            TRY(agent_learn(a));
        TRY(link_average(a->link, (a->index + 1 + rng_below(&r, n - 1)) % n, ROWS_PARAMS));
    }
    return OK;
}

static fault read_all(struct crew *c, float *rows)
{
    for (size_t i = 0; i < c->n; i++)
        TRY(c->run->world->ops->read(c->run->world, ROW_PARAMS, i, rows + i * c->size));
    return OK;
}

struct verdict {
    double sum, apart; /* the furthest that a sum over all ranks is from 0, that anybody is from the mean */
    double least, most;
};

static struct verdict judge(const float *rows, size_t n, size_t size)
{
    struct verdict v = {.least = INFINITY, .most = -INFINITY};
    for (size_t j = 0; j < size; j++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += rows[i * size + j];
        v.sum = fmax(v.sum, fabs(sum));
        for (size_t i = 0; i < n; i++) {
            double x = rows[i * size + j];
            v.apart = fmax(v.apart, fabs(x - sum / (double)n));
            v.least = fmin(v.least, x);
            v.most = fmax(v.most, x);
        }
    }
    return v;
}

/* What everyone began with, taken from the sums, so that they should be nothing. */
static void take_from_first(float *rows, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        struct rng r = rng_stream(5, (uint32_t)i, RNG_TEST, 1);
        for (size_t j = 0; j < size; j++)
            rows[j] -= draw(&r);
    }
}

static void averages_conserve_the_sum_while_many_meet_at_once(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c, with(meeting, average_at_random), "");
    size_t n = c.n, size = c.size;
    fault f = crew_play(&c);
    float *rows = calloc(n * size, sizeof *rows);
    if (!f && crew_leads())
        f = read_all(&c, rows);
    crew_close(&c);
    must(f);
    if (crew_leads()) {
        struct verdict end = judge(rows, n, size);
        take_from_first(rows, n, size);
        assert_true(judge(rows, n, size).sum < 1e-4);
        assert_true(end.least >= 0 && end.most <= 1); /* nobody leaves the range of what all began with */
        assert_true(n == 1 || end.apart < 0.5);
    }
    free(rows);
}

/* A rank that sleeps is met, and takes no notice. */
static fault meet_a_sleeper(struct agent *a)
{
    crew_fill(a, ROW_PARAMS, a->index ? 1 : 0);
    TRY(crew_barrier(a, 1));
    if (a->index == 0) {
        while (crew_row(a, ROW_PARAMS)[0] == 0)
            TRY(link_sleep(a->link, 0.001));
        CHECK(a->link->counts.messages == a->link->n_members + 1);
        CHECK(crew_row_is(a, ROW_PARAMS, 0.5));
        return OK;
    }
    if (a->index == 1)
        TRY(link_average(a->link, 0, ROWS_PARAMS));
    return OK;
}

static void a_rank_that_sleeps_can_be_met(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c, with(meeting, meet_a_sleeper), "");
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
}

/* ---- rows ---- */

/* Rows are given in the midst of a lesson only as they are: its statistics are not half written. */
static fault adopt_a_learner(struct agent *a)
{
    if (a->index == 0)
        for (int k = 0; k < 20; k++) {
            TRY(agent_learn(a));
            TRY(agent_update(a));
        }
    for (int k = 0; a->index && k < 5; k++)
        TRY(link_adopt(a->link, 0, NULL));
    return OK;
}

static void a_rank_that_learns_gives_its_rows(void **state)
{
    (void)state;
    crew_run(adopt_a_learner, "");
}

/* With a lesson begun rank 0 waits for all others, as those do who send a gradient in buckets; they want its rows first. */
static fault adopt_one_who_waits(struct agent *a)
{
    char byte = 0;
    if (a->index) {
        TRY(link_adopt(a->link, 0, NULL));
        return link_send(a->link, 0, 7, &byte, 1);
    }
    TRY(link_learn(a->link, 0));
    for (size_t i = 1; i < a->link->n_members; i++)
        TRY(link_recv(a->link, i, 7, &byte, 1, NULL));
    return link_await(a->link, 0);
}

static void a_rank_that_waits_beside_its_lesson_gives_its_rows_to_whom_it_waits_for(void **state)
{
    (void)state;
    crew_run(adopt_one_who_waits, "network: { patience_s: 5 }\n");
}

/* ---- the MPI's own sums ---- */

static fault sum_all(struct agent *a)
{
    size_t n = a->link->n_members, size = crew_of(a)->size;
    const size_t spans[][2] = {{0, size}, {7, 8}, {100, 9000}};
    for (size_t s = 0; s < 3; s++) {
        if (s == 1)
            far_of(a->link)->piece_bytes = 8192;
        for (size_t i = 0; i < size; i++)
            crew_row(a, ROW_GRADS)[i] = (float)(a->index + i % 100);
        TRY(link_sum(a->link, ROW_GRADS, spans[s][0], spans[s][1]));
        for (size_t i = 0; i < size; i++) {
            bool summed = i >= spans[s][0] && i < spans[s][1];
            float all = (float)(n * (n - 1) / 2 + n * (i % 100)), own = (float)(a->index + i % 100);
            CHECK(crew_row(a, ROW_GRADS)[i] == (summed ? all : own));
        }
    }
    return OK;
}

static void the_sums_of_the_mpi_itself_are_over_all_that_learn(void **state)
{
    (void)state;
    crew_run(sum_all, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        crew_test(2, two_that_meet_have_the_same_bits),
        crew_test(2, two_that_ask_each_other_at_once_meet_halfway),
        cmocka_unit_test(averages_conserve_the_sum_while_many_meet_at_once),
        crew_test(2, a_rank_that_sleeps_can_be_met),
        cmocka_unit_test(a_rank_that_learns_gives_its_rows),
        cmocka_unit_test(a_rank_that_waits_beside_its_lesson_gives_its_rows_to_whom_it_waits_for),
        cmocka_unit_test(the_sums_of_the_mpi_itself_are_over_all_that_learn),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
