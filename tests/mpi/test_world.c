/* A play of many ranks: who is told what, how it is looked at, how it ends. */
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "mpi/crew.h"

/* ---- together ---- */

enum { PATIENCE_S = 20 };

static void a_fault_of_one_rank_is_told_by_the_leader_and_named(void **state)
{
    const struct mpi_seat *seat = crew_seat();
    size_t last = seat->n_ranks - 1;
    char words[128] = "the roof is open", host[64] = "";
    (void)state;
    must(mpi_agree(seat, OK, PATIENCE_S));
    fault mine = seat->rank == last ? FAIL(FAULT_DATA, "the roof is open") : OK;
    fault f = mpi_agree(seat, mine, PATIENCE_S);
    gethostname(host, sizeof host - 1);
    if (last)
        snprintf(words, sizeof words, "rank %zu on %s: the roof is open", last, host);
    assert_true(crew_is_fault(f, seat->rank ? FAULT_ELSEWHERE : FAULT_DATA, seat->rank ? "" : words));
    fault_drop(f);
}

static void the_first_rank_that_differs_is_named(void **state)
{
    const struct mpi_seat *seat = crew_seat();
    char words[128], host[64] = "";
    (void)state;
    must(mpi_compare(seat, "hat", "green", PATIENCE_S));
    crew_needs(2);
    fault f = mpi_compare(seat, "hat", seat->rank == 0 ? "green" : "red", PATIENCE_S);
    gethostname(host, sizeof host - 1);
    snprintf(words, sizeof words, "rank 1 on %s has another hat than rank 0 on %s (red, not green)", host, host);
    assert_true(crew_is_fault(f, seat->rank ? FAULT_ELSEWHERE : FAULT_USAGE, seat->rank ? "hat" : words));
    fault_drop(f);
}

static void numbers_and_texts_go_round(void **state)
{
    const struct mpi_seat *seat = crew_seat();
    uint64_t largest = 0;
    char *text = seat->rank == 0 ? text_of("%01000d", 7) : NULL;
    (void)state;
    must(mpi_largest(seat, seat->rank == seat->n_ranks / 2 ? 77 : seat->rank, PATIENCE_S, &largest));
    assert_int_equal(largest, 77);
    must(mpi_spread_text(seat, &text, PATIENCE_S));
    assert_int_equal(strlen(text), 1000);
    assert_int_equal(text[999], '7');
    free(text);
}

/* ---- notes ---- */

static fault say_something(struct agent *a)
{
    char text[64], longer[3000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    snprintf(text, sizeof text, "hello from %zu", a->index);
    a->link->ops->note(a->link, "greeting", text);
    if (a->index == a->link->n_members - 1)
        a->link->ops->note(a->link, "much", longer);
    return OK;
}

static void notes_of_all_ranks_reach_whoever_leads(void **state)
{
    struct crew c;
    (void)state;
    crew_open(&c, say_something, "");
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
    assert_int_equal(c.n_notes, crew_leads() ? c.n + 1 : 0);
    for (size_t i = 0; i < c.n && crew_leads(); i++) {
        char *line = text_of("%zu greeting: hello from %zu\n", i, i);
        assert_non_null(strstr(c.notes, line));
        free(line);
    }
}

/* ---- faults ---- */

/* The rank in kept[0] fails in the midst of traffic that the others wait for. */
static fault fail_in_the_midst(struct agent *a)
{
    const struct link_ops *ops = a->link->ops;
    for (uint64_t k = 0;; k++) {
        struct parcel p;
        TRY(ops->send_rows(a->link, after(a), k, whole(ROWS_PARAMS)));
        if (k == 5 && a->index == crew_of(a)->kept[0])
            return FAIL(FAULT_DATA, "the roof is open");
        TRY(ops->recv_rows(a->link, before(a), k, &p, NULL));
        ops->drop(a->link, &p);
    }
}

static void play_with_a_fault_of(size_t rank)
{
    struct crew c;
    char words[128] = "the roof is open", host[64] = "";
    crew_open(&c, fail_in_the_midst, "");
    c.kept[0] = rank;
    double since = clock_now_s();
    fault f = crew_play(&c);
    crew_close(&c);
    double seconds = clock_now_s() - since;
    gethostname(host, sizeof host - 1);
    if (rank)
        snprintf(words, sizeof words, "agent %zu (rank %zu on %s): the roof is open", rank, rank, host);
    assert_true(crew_is_fault(f, crew_leads() ? FAULT_DATA : FAULT_ELSEWHERE, crew_leads() ? words : ""));
    fault_drop(f);
    assert_true(seconds < PATIENCE_S);
}

static void a_fault_in_one_program_ends_the_play_for_all(void **state)
{
    (void)state;
    for (size_t rank = 0; rank < crew_seat()->n_ranks; rank++)
        play_with_a_fault_of(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_of_one_rank_is_told_by_the_leader_and_named),
        cmocka_unit_test(the_first_rank_that_differs_is_named),
        cmocka_unit_test(numbers_and_texts_go_round),
        cmocka_unit_test(notes_of_all_ranks_reach_whoever_leads),
        cmocka_unit_test(a_fault_in_one_program_ends_the_play_for_all),
    };
    return crew_join() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
