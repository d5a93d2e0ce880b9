/* What the MPI does by itself, for `algorithm: native` and `exchange: native`. */
#include <math.h>

#include "api/registry.h"
#include "base/rng.h"
#include "collective/collective.h"
#include "mpi/crew.h"

/* ---- sums ---- */

static float value_of(size_t agent, size_t i)
{
    return (float)(rng_hash(agent + 1, i) >> 40) / 0x1p20f - 8; /* sums of these must be rounded */
}

/* Everybody's row is that of the rank before, bit for bit. */
static fault have_same_bits(struct agent *a, enum row row)
{
    size_t n = link_row_floats(a->link, row);
    struct parcel p;
    TRY(link_send_rows(a->link, after(a), 1, whole(1u << row)));
    TRY(link_recv_rows(a->link, before(a), 1, &p, NULL));
    bool same =
        memcmp(incoming_floats(far_of(a->link), p.rows, row, 0, n), crew_row(a, row), n * sizeof(float)) == 0;
    link_drop(a->link, &p);
    CHECK(same);
    return OK;
}

static fault sum_natively(struct agent *a)
{
    size_t n = crew_of(a)->size;
    for (size_t i = 0; i < n; i++)
        crew_row(a, ROW_GRADS)[i] = value_of(a->index, i);
    TRY(group_sum(agent_group(a), collective_rows[NATIVE], ROW_GRADS, 5, n));
    for (size_t i = 0; i < n; i++) {
        double sum = i < 5 ? value_of(a->index, i) : 0;
        for (size_t who = 0; i >= 5 && who < a->link->n_members; who++)
            sum += value_of(who, i);
        CHECK(fabs(crew_row(a, ROW_GRADS)[i] - sum) < 1e-4);
    }
    for (size_t i = 0; i < 5; i++)
        crew_row(a, ROW_GRADS)[i] = 0;
    return have_same_bits(a, ROW_GRADS);
}

static void a_native_sum_gives_everyone_the_same_bits(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c, (struct strategy_row){.run = sum_natively, .forms_group = true}, "");
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
}

static fault sum_among_fewer(struct agent *a)
{
    struct group *g = agent_group(a);
    size_t n = g->n;
    g->n--;
    fault f = group_sum(g, collective_rows[NATIVE], ROW_GRADS, 0, TO_END);
    g->n = n;
    CHECK_FAULT(f, FAULT_USAGE, "sums over all");
    return OK;
}

static void a_native_sum_is_over_all_or_refused(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c, (struct strategy_row){.run = sum_among_fewer, .forms_group = true}, "");
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
}

/* ---- neighbours ---- */

/* A copy of this rank's parameters and slots after a run; the caller frees. */
static float *learn_with(const char *strategy, size_t *n_bytes)
{
    static const enum row rows[] = {ROW_PARAMS, ROW_SLOT, ROW_SLOT + 1};
    struct crew c;
    size_t n = crew_ranks()->n;
    char *more = text_of("topology: \"%s:%zu\"\nstrategy: %s\n", n > 2 ? "cycle" : "path", n, strategy);
    crew_open(&c, NULL, more);
    free(more);
    fault f = crew_play(&c);
    *n_bytes = 3 * c.size * sizeof(float);
    float *kept = malloc(*n_bytes);
    for (size_t i = 0; kept && i < 3; i++)
        memcpy(kept + i * c.size, row_of(c.world, rows[i]), c.size * sizeof *kept);
    crew_close(&c);
    must(f);
    return kept;
}

static void neighbours_mix_natively_to_the_bits_of_messages(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "", "order: combine-then-adapt, mix_statistics: true, mix_momentum: true", "every: 3"};
    for (size_t i = 0; i < 3; i++) {
        char *plain = text_of("{kind: consensus, %s}", settings[i]);
        char *native = text_of("{kind: consensus, exchange: native, %s}", settings[i]);
        size_t n_bytes;
        float *ours = learn_with(plain, &n_bytes), *theirs = learn_with(native, &n_bytes);
        assert_non_null(ours);
        assert_non_null(theirs);
        assert_memory_equal(ours, theirs, n_bytes);
        free(plain);
        free(native);
        free(ours);
        free(theirs);
    }
}

static fault gather_in_pieces(struct agent *a)
{
    size_t n = crew_of(a)->size, degree = agent_degree(a);
    far_of(a->link)->piece_bytes = 8192 - 4;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    crew_fill(a, ROW_STATS, -(float)(a->index + 1));
    TRY(link_gather_near(a->link, (struct span){ROWS_PARAMS | ROWS_STATS, 10, TO_END}, a->parcels));
    for (size_t i = 0; i < degree; i++) {
        float theirs = (float)(agent_neighbour(a, i) + 1);
        CHECK(crew_parcel_is(a, &a->parcels[i], ROW_PARAMS, 10, n, theirs));
        CHECK(crew_parcel_is(a, &a->parcels[i], ROW_STATS, 10, link_row_floats(a->link, ROW_STATS), -theirs));
        CHECK(!crew_parcel_is(a, &a->parcels[i], ROW_PARAMS, 9, n, theirs));
        link_drop(a->link, &a->parcels[i]);
    }
    CHECK(a->link->counts.messages == degree && a->link->counts.received == degree);
    return OK;
}

static void rows_of_neighbours_come_in_their_order_and_in_pieces(void **state)
{
    (void)state;
    size_t n = crew_ranks()->n;
    char *more = text_of("topology: \"cycle:%zu\"\n", n);
    crew_run(gather_in_pieces, more);
    free(more);
}

/* ---- refusals ---- */

static void must_be_refused(const char *world, const char *strategy, const char *words)
{
    struct registry registry = registry_of_everything();
    struct experiment *e = NULL;
    char *text =
        text_of("data: {set: blobs, batch: 2}\nmodel: logistic\noptim: {kind: sgd, lr: 0.1}\nagents: 3\n"
                "topology: \"cycle:3\"\ntrain: {epochs: 1}\nworld: %s\nstrategy: %s\n",
                world, strategy);
    must(experiment_parse(text, strlen(text), "test", NULL, 0, &registry, &e));
    fault f = session_check(e);
    assert_non_null(f);
    if (!strstr(fault_text(f), words))
        fail_msg("expected '%s', but it says: %s", words, fault_text(f));
    fault_drop(f);
    experiment_free(e);
    free(text);
}

static void what_only_a_cluster_has_is_refused_before_anything_runs(void **state)
{
    (void)state;
    must_be_refused("local", "{kind: allreduce, algorithm: native}",
                    "strategy.algorithm: 'native' is the cluster's own; the local world has none");
    must_be_refused("local", "{kind: average, algorithm: native}",
                    "strategy.algorithm: 'native' is the cluster's own");
    must_be_refused("local", "{kind: consensus, exchange: native}",
                    "strategy.exchange: 'native' is the cluster's own");
    must_be_refused("mpi", "{kind: allreduce, algorithm: native, backups: 1}",
                    "it cannot be with strategy.backups");
    must_be_refused("mpi", "{kind: consensus, exchange: native, mix_every: [1, 2, 1]}",
                    "strategy.mix_every has a number for each");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_native_sum_gives_everyone_the_same_bits),
        crew_test(3, a_native_sum_is_over_all_or_refused),
        crew_test(2, neighbours_mix_natively_to_the_bits_of_messages),
        crew_test(3, rows_of_neighbours_come_in_their_order_and_in_pieces),
        cmocka_unit_test(what_only_a_cluster_has_is_refused_before_anything_runs),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
