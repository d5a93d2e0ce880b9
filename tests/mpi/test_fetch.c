/* Rows of ranks on one machine are read where they lie: as they were offered, and without anybody waiting for
 * ever. */
#include "mpi/crew.h"

enum { OFFERED = 1, WORD = 2 };

static fault send_parameters(struct agent *a, size_t to)
{
    return a->link->ops->send_rows(a->link, to, OFFERED, whole(ROWS_PARAMS));
}

static fault fill_by_mixing(struct agent *a, double factor)
{
    struct term mine = {factor, ROW_PARAMS, NULL};
    return a->link->ops->mix(a->link, ROW_PARAMS, 0, TO_END, &mine, 1);
}

static bool is_offered(const struct parcel *p)
{
    return ((const struct message *)p->rows)->head.offer != 0;
}

static fault offer_and_take(struct agent *a)
{
    const struct link_ops *ops = a->link->ops;
    struct mpi *w = mpi_of(a->link);
    struct parcel p;
    bool sees = w->peers[before(a)].rows;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    TRY(send_parameters(a, after(a)));
    CHECK(is_being_sent(w, ROW_PARAMS, 100, 101));
    TRY(ops->recv_rows(a->link, before(a), OFFERED, &p, NULL));
    CHECK(is_offered(&p) == sees);
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, (float)(before(a) + 1)));
    CHECK(is_offered(&p) == sees); /* reading it moved nothing */
    ops->drop(a->link, &p);
    TRY(crew_barrier(a, WORD));
    TRY(before_writing(w, ROW_PARAMS, 0, TO_END));
    CHECK(!is_being_sent(w, ROW_PARAMS, 0, TO_END));
    return OK;
}

static void rows_stay_where_they_are_until_they_are_read(void **state)
{
    (void)state;
    crew_needs(2);
    crew_run(offer_and_take, "");
}

/* Everyone gives its rows to the next and wants to write them, with the parcel of the one before in its hand.
 */
static fault swap_and_write(struct agent *a)
{
    const struct link_ops *ops = a->link->ops;
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    for (int k = 0; k < 50; k++) {
        float both = crew_row(a, ROW_PARAMS)[0];
        TRY(send_parameters(a, after(a)));
        TRY(ops->recv_rows(a->link, before(a), OFFERED, &p, NULL));
        struct term terms[] = {{0.5, ROW_PARAMS, NULL}, {0.5, ROW_PARAMS, &p}};
        both = 0.5f * both + 0.5f * floats_in(mpi_of(a->link), p.rows, ROW_PARAMS, 0, 1)[0];
        TRY(ops->mix(a->link, ROW_PARAMS, 0, TO_END, terms, 2));
        CHECK(crew_row_is(a, ROW_PARAMS, both));
        ops->drop(a->link, &p);
    }
    return OK;
}

static void those_who_write_what_others_have_not_read_do_not_wait_for_ever(void **state)
{
    (void)state;
    crew_needs(2);
    crew_run(swap_and_write, "");
}

/* The first cannot say its word before the second has read its rows, and the second asks for the word first.
 */
static fault write_before_the_word(struct agent *a)
{
    const struct link_ops *ops = a->link->ops;
    struct parcel p;
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    if (a->index == 0) {
        TRY(send_parameters(a, 1));
        TRY(fill_by_mixing(a, 2));
        return ops->send(a->link, 1, WORD, &word, 1);
    }
    if (a->index > 1)
        return OK;
    TRY(ops->recv(a->link, 0, WORD, &word, 1, NULL));
    TRY(ops->recv_rows(a->link, 0, OFFERED, &p, NULL));
    CHECK(!is_offered(&p));
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, 1));
    ops->drop(a->link, &p);
    return OK;
}

static void whoever_waits_fetches_what_was_offered(void **state)
{
    (void)state;
    crew_needs(2);
    crew_run(write_before_the_word, "");
}

/* The same with the rows already in its agent's hand. */
static fault write_before_the_second_word(struct agent *a)
{
    const struct link_ops *ops = a->link->ops;
    struct parcel p;
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    if (a->index == 0) {
        TRY(send_parameters(a, 1));
        TRY(fill_by_mixing(a, 2));
        return ops->send(a->link, 1, WORD, &word, 1);
    }
    if (a->index > 1)
        return OK;
    TRY(ops->recv_rows(a->link, 0, OFFERED, &p, NULL));
    TRY(ops->recv(a->link, 0, WORD, &word, 1, NULL));
    CHECK(!is_offered(&p));
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, 1));
    ops->drop(a->link, &p);
    return OK;
}

static void whoever_waits_fetches_what_it_has_in_hand(void **state)
{
    (void)state;
    crew_needs(2);
    crew_run(write_before_the_second_word, "");
}

static fault forget_offers(struct agent *a)
{
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    for (uint64_t k = 10; k < 30; k++) {
        TRY(a->link->ops->send_rows(a->link, after(a), 2 * k, whole(ROWS_PARAMS | ROWS_SLOTS)));
        TRY(a->link->ops->send(a->link, after(a), 2 * k + 1, &word, 1));
        TRY(a->link->ops->recv(a->link, before(a), 2 * k + 1, &word, 1,
                               NULL)); /* so the rows are there, too */
        a->link->ops->forget(a->link, 2 * k + 1);
        TRY(fill_by_mixing(a, 1));
    }
    CHECK(a->link->counts.unread == 20);
    return OK;
}

static void what_was_offered_and_forgotten_is_let_go(void **state)
{
    (void)state;
    crew_needs(2);
    crew_run(forget_offers, "");
}

static fault expect_no_offer(struct agent *a)
{
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    TRY(send_parameters(a, after(a)));
    TRY(a->link->ops->recv_rows(a->link, before(a), OFFERED, &p, NULL));
    CHECK(!is_offered(&p));
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, (float)(before(a) + 1)));
    a->link->ops->drop(a->link, &p);
    return OK;
}

static fault hide_rows(struct agent *a)
{
    for (size_t i = 0; i < a->link->n_members; i++)
        mpi_of(a->link)->peers[i].sees_my_rows = false;
    return expect_no_offer(a);
}

static void rows_that_cannot_be_seen_are_sent(void **state)
{
    (void)state;
    crew_needs(2);
    crew_run(hide_rows, "");
    crew_run(expect_no_offer, "network: {latency_ms: 1, patience_s: 20}\n");
    crew_run(expect_no_offer, "network: {bandwidth_mbps: 1000, patience_s: 20}\n");
}

/* Ends with offers that nobody has asked for. */
static fault offer_to_nobody(struct agent *a)
{
    for (uint64_t k = 0; k < 5; k++)
        TRY(a->link->ops->send_rows(a->link, after(a), 100 + k, whole(ROWS_PARAMS)));
    return a->index ? OK : fill_by_mixing(a, 2);
}

static void a_run_ends_though_offers_were_not_wanted(void **state)
{
    (void)state;
    crew_needs(2);
    for (int i = 0; i < 3; i++)
        crew_run(offer_to_nobody, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_where_they_are_until_they_are_read),
        cmocka_unit_test(those_who_write_what_others_have_not_read_do_not_wait_for_ever),
        cmocka_unit_test(whoever_waits_fetches_what_was_offered),
        cmocka_unit_test(whoever_waits_fetches_what_it_has_in_hand),
        cmocka_unit_test(what_was_offered_and_forgotten_is_let_go),
        cmocka_unit_test(rows_that_cannot_be_seen_are_sent),
        cmocka_unit_test(a_run_ends_though_offers_were_not_wanted),
    };
    return crew_join() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
