/* Sums, means, barriers and exchanges: the right numbers, and the same bits everywhere,
 * for 1 to 17 members and spans from nothing to a million floats. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "collective/collective.h"
#include "support/cast.h"

enum { MOST = 17, LONG = 1000003, MOST_LENGTHS = 6, APART = 64 };

#define SMALL "model: logistic\n"
#define LARGE "model: [{linear: {out: 1000}}, {linear: {out: 984}}, {linear: {out: 2}}]\n"

/* What a test plays: all algorithms over all lengths, from one moment to the next. Member i begins with the
 * floats from `numbers + i * APART` on. */
struct trial {
    size_t m, first, n_lengths, lengths[MOST_LENGTHS];
    size_t at, arrived;
    float *numbers, *row, *other;
};

static size_t n_cases(const struct trial *t)
{
    return N_COLLECTIVES * t->n_lengths;
}

static void write_inputs(struct cast *g, const struct trial *t)
{
    for (size_t i = 0; i < t->m; i++)
        cast_write(g, i, t->numbers + i * APART);
}

static void must_be_the_sum(const struct trial *t, const float *row, size_t j)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < t->m; i++) {
        sum += t->numbers[i * APART + j];
        size += fabs(t->numbers[i * APART + j]);
    }
    if (fabs(row[j] - sum) > (double)t->m * FLT_EPSILON * size)
        fail_msg("case %zu, %zu members: float %zu is %g and not %g", t->at, t->m, j, row[j], sum);
}

static void judge(struct cast *g, struct trial *t)
{
    size_t end = t->first + t->lengths[t->at % t->n_lengths];
    struct engine *e = g->run->engine;
    must(local_settle(g->world));
    must(e->ops->read(e, ROW_PARAMS, 0, t->row));
    for (size_t j = t->first; j < end; j++)
        must_be_the_sum(t, t->row, j);
    for (size_t i = 0; i < t->m; i++) {
        const float *mine = t->numbers + i * APART;
        must(e->ops->read(e, ROW_PARAMS, i, t->other));
        assert_memory_equal(t->other + t->first, t->row + t->first, (end - t->first) * sizeof(float));
        assert_memory_equal(t->other, mine, t->first * sizeof(float));
        assert_memory_equal(t->other + end, mine + end, (g->size - end) * sizeof(float));
    }
}

/* Once all have summed and nothing more happens at this moment. */
static fault look(void *ctx)
{
    struct cast *g = ctx;
    struct trial *t = g->ctx;
    if (t->arrived == t->m) {
        judge(g, t);
        write_inputs(g, t);
        t->arrived = 0;
        t->at++;
    }
    return OK;
}

/* Everyone comes at another moment, so that messages arrive in many orders. */
static fault sum_in_every_way(struct agent *a)
{
    struct trial *t = cast_of_agent(a)->ctx;
    struct rng r = rng_stream(7, (uint32_t)a->index, RNG_TEST, t->m);
    for (size_t i = 0; i < n_cases(t); i++) {
        size_t end = t->first + t->lengths[i % t->n_lengths];
        TRY(link_sleep(a->link, rng_uniform(&r)));
        TRY(group_sum(agent_group(a), collective_rows[i / t->n_lengths], ROW_PARAMS, t->first, end));
        t->arrived++;
        TRY(link_sleep(a->link, 10 * (double)(i + 1) - link_now_s(a->link)));
    }
    return OK;
}

static void form(struct cast *g, const char *model, size_t m, strategy_run *program)
{
    char *text = text_of(
        "data: {set: {kind: blobs, classes: 2, features: 16, samples: 20, test_samples: 2}, batch: 1}\n"
        "%soptim: {kind: sgd, lr: 0.1}\nengine: {kind: ref, threads: 1}\nstrategy: single\nagents: %zu\n",
        model, m);
    cast_form(g, text, 1, 1, program);
    free(text);
}

static void must_have_let_go(const struct cast *g)
{
    for (enum row row = 0; row < g->run->engine->setup.rows.n; row++)
        assert_int_equal(g->world->n_free_rows[row], g->run->engine->setup.n_spare - 1);
    for (size_t i = 0; i < g->n; i++)
        assert_null(g->world->actors[i].mail);
}

static void try_all(struct trial t, const char *model)
{
    struct cast g;
    form(&g, model, t.m, sum_in_every_way);
    struct rng r = rng_stream(3, 0, RNG_TEST, t.m);
    t.numbers = calloc(g.size + MOST * APART, sizeof *t.numbers);
    t.row = calloc(2 * g.size, sizeof *t.row);
    t.other = t.row + g.size;
    for (size_t j = 0; j < g.size + MOST * APART; j++)
        t.numbers[j] = (float)(rng_uniform(&r) - 0.4);
    g.ctx = &t;
    g.world->watcher.moment = look;
    write_inputs(&g, &t);
    cast_play(&g);
    assert_int_equal(t.at, n_cases(&t));
    must_have_let_go(&g);
    cast_close(&g);
    free(t.numbers);
    free(t.row);
}

static void short_spans_are_summed_alike_everywhere(void **state)
{
    (void)state;
    for (size_t m = 1; m <= MOST; m++)
        for (size_t first = 0; first < 3; first++)
            try_all(
                (struct trial){
                    .m = m, .first = first, .n_lengths = 6, .lengths = {0, 1, m - 1, m, m + 1, 34 - first}},
                SMALL);
}

static void a_million_floats_are_summed_alike_everywhere(void **state)
{
    (void)state;
    for (size_t m = 1; m <= MOST; m++)
        try_all((struct trial){.m = m, .first = 1, .n_lengths = 1, .lengths = {LONG}}, LARGE);
}

/* ---- means ---- */

static fault mean_gradients(struct agent *a)
{
    TRY(group_mean(agent_group(a), collective_rows[RING], ROW_GRADS, 0, TO_END));
    return group_mean(agent_group(a), collective_rows[TREE], ROW_GRADS, 3, 5);
}

static void a_mean_is_the_sum_divided_by_the_members(void **state)
{
    (void)state;
    for (size_t m = 1; m <= MOST; m++) {
        struct cast g;
        float row[64];
        form(&g, SMALL, m, mean_gradients);
        struct engine *e = g.run->engine;
        for (size_t i = 0; i < m; i++) {
            for (size_t j = 0; j < g.size; j++)
                row[j] = (float)(i * i + j);
            must(e->ops->write(e, ROW_GRADS, i, row));
        }
        cast_play(&g);
        double squares = 0;
        for (size_t i = 0; i < m; i++)
            squares += (double)(i * i) / (double)m;
        for (size_t i = 0; i < m; i++) {
            must(e->ops->read(e, ROW_GRADS, i, row));
            for (size_t j = 0; j < g.size; j++)
                assert_true(fabs(row[j] - squares - (double)j) < 1e-4);
        }
        must_have_let_go(&g);
        cast_close(&g);
    }
}

/* The middle and the root divide theirs while the pieces they have sent are under way. */
static fault mean_in_pieces(struct agent *a)
{
    TRY(group_mean(agent_group(a), collective_rows[STAR], ROW_PARAMS, 0, TO_END));
    return group_mean(agent_group(a), collective_rows[TREE], ROW_PARAMS, 0, TO_END);
}

static void pieces_under_way_are_those_that_were_sent(void **state)
{
    (void)state;
    for (size_t m = 2; m <= 8; m++) {
        struct cast g;
        form(&g, LARGE "network: {latency_ms: 1, bandwidth_mbps: 100}\n", m, mean_in_pieces);
        float *row = calloc(g.size, sizeof *row);
        for (size_t i = 0; i < m; i++) {
            for (size_t j = 0; j < g.size; j++)
                row[j] = (float)(i * 2 + j % 1000);
            cast_write(&g, i, row);
        }
        cast_play(&g);
        for (size_t i = 0; i < m; i++) {
            const float *mine = cast_row(&g, i);
            for (size_t j = 0; j < g.size; j++)
                assert_true(fabs(mine[j] - (double)(m - 1) - (double)(j % 1000)) < 1e-3);
        }
        assert_int_equal(g.n_notes, 0); /* none were given up for want of rows */
        must_have_let_go(&g);
        cast_close(&g);
        free(row);
    }
}

/* ---- barrier, exchange ---- */

static fault come_late_and_wait(struct agent *a)
{
    struct group *g = agent_group(a);
    for (size_t last = 0; last < g->n; last++) {
        double opens = 10 * (double)(last + 1);
        double comes = opens - (g->rank == last ? 0 : 1 + (double)((g->rank * 5 + last) % 7));
        TRY(link_sleep(a->link, comes - link_now_s(a->link)));
        TRY(group_barrier(g));
        double now = link_now_s(a->link);
        assert_true(now >= opens && now < opens + 0.01);
    }
    return OK;
}

static size_t log2_up(size_t n)
{
    return n > 1 ? 1 + log2_up((n + 1) / 2) : 0;
}

static void nobody_leaves_a_barrier_before_everybody_has_come(void **state)
{
    (void)state;
    for (size_t m = 1; m <= MOST; m++) {
        struct cast g;
        form(&g, SMALL "network: {latency_ms: 1}\n", m, come_late_and_wait);
        cast_play(&g);
        assert_int_equal(cast_counts(&g).messages, m * m * log2_up(m));
        cast_close(&g);
    }
}

static fault exchange_names(struct agent *a)
{
    struct group *g = agent_group(a);
    for (size_t n = 1; n <= 5; n++) {
        uint64_t mine[5], all[5 * MOST];
        for (size_t i = 0; i < n; i++)
            mine[i] = 7 * g->rank + i;
        TRY(group_exchange(g, mine, n, all));
        for (size_t i = 0; i < g->n; i++)
            for (size_t j = 0; j < n; j++)
                assert_int_equal(all[i * n + j], 7 * i + j);
    }
    return OK;
}

static void an_exchange_tells_everyone_what_everyone_says(void **state)
{
    (void)state;
    for (size_t m = 1; m <= MOST; m++) {
        struct cast g;
        form(&g, SMALL, m, exchange_names);
        cast_play(&g);
        struct link_counts c = cast_counts(&g);
        assert_int_equal(c.messages, 5 * m * log2_up(m));
        assert_int_equal(c.bytes, sizeof(uint64_t) * (1 + 2 + 3 + 4 + 5) * m * (m - 1));
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_spans_are_summed_alike_everywhere),
        cmocka_unit_test(a_million_floats_are_summed_alike_everywhere),
        cmocka_unit_test(a_mean_is_the_sum_divided_by_the_members),
        cmocka_unit_test(pieces_under_way_are_those_that_were_sent),
        cmocka_unit_test(nobody_leaves_a_barrier_before_everybody_has_come),
        cmocka_unit_test(an_exchange_tells_everyone_what_everyone_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
