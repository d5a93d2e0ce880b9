/* Rows of ranks on one machine are read where they lie: as they were offered, and without anybody waiting for
 * ever. What the leader asks for it gets, or nothing. */
#include "mpi/crew.h"

#include <math.h>
#include <time.h>

#include "base/clock.h"

enum { OFFERED = 1, WORD = 2 };

static fault send_parameters(struct agent *a, size_t to)
{
    return link_send_rows(a->link, to, OFFERED, whole(ROWS_PARAMS));
}

static fault mix_up_to(struct agent *a, size_t end, double factor)
{
    struct term mine = {factor, ROW_PARAMS, NULL, 0};
    return link_mix(a->link, ROW_PARAMS, 0, end, &mine, 1);
}

/* All but the last float: a part of a row has to wait for those who read it. */
static fault fill_by_mixing(struct agent *a, double factor)
{
    return mix_up_to(a, crew_of(a)->size - 1, factor);
}

static bool is_offered(const struct parcel *p)
{
    return ((const struct incoming *)p->rows)->head.offer != 0;
}

/* The first offers its rows to the last when it is asked for them: whoever waits for anything else would fetch them. */
static fault offer_and_take(struct agent *a)
{
    struct far *w = far_of(a->link);
    struct parcel p;
    size_t last = w->n - 1;
    char word = 0;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    if (a->index == last)
        TRY(link_send(a->link, 0, WORD, &word, 1));
    if (a->index == 0) {
        TRY(link_recv(a->link, last, WORD, &word, 1, NULL));
        TRY(send_parameters(a, last)); /* and may hear at once that they were read */
    }
    if (a->index == last) {
        bool sees = w->peers[0].rows;
        TRY(link_recv_rows(a->link, 0, OFFERED, &p, NULL));
        CHECK(is_offered(&p) == sees);
        CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, 1));
        CHECK(is_offered(&p) == sees); /* reading it moved nothing */
        link_drop(a->link, &p);
    }
    TRY(crew_barrier(a, WORD + 1));
    TRY(sendings_await(w, ROW_PARAMS, 0, TO_END));
    CHECK(!sendings_hold(w, ROW_PARAMS, 0, TO_END));
    return OK;
}

static void rows_stay_where_they_are_until_they_are_read(void **state)
{
    (void)state;
    crew_run(offer_and_take, "");
}

/* Everyone gives its rows to the next and wants to write them, with the parcel of the one before in its hand.
 */
static fault swap_and_write(struct agent *a)
{
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    for (int k = 0; k < 50; k++) {
        float both = crew_row(a, ROW_PARAMS)[0];
        TRY(send_parameters(a, after(a)));
        TRY(link_recv_rows(a->link, before(a), OFFERED, &p, NULL));
        struct term terms[] = {{0.5, ROW_PARAMS, NULL, 0}, {0.5, ROW_PARAMS, &p, 0}};
        both = 0.5f * both + 0.5f * incoming_floats(far_of(a->link), p.rows, ROW_PARAMS, 0, 1)[0];
        TRY(link_mix(a->link, ROW_PARAMS, 0, TO_END, terms, 2));
        CHECK(crew_row_is(a, ROW_PARAMS, both));
        link_drop(a->link, &p);
    }
    return OK;
}

static void those_who_write_what_others_have_not_read_do_not_wait_for_ever(void **state)
{
    (void)state;
    crew_run(swap_and_write, "");
}

/* The first cannot say its word before the second has read its rows, and the second asks for the word first.
 */
static fault write_before_the_word(struct agent *a)
{
    struct parcel p;
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    if (a->index == 0) {
        TRY(send_parameters(a, 1));
        TRY(fill_by_mixing(a, 2));
        return link_send(a->link, 1, WORD, &word, 1);
    }
    if (a->index > 1)
        return OK;
    TRY(link_recv(a->link, 0, WORD, &word, 1, NULL));
    TRY(link_recv_rows(a->link, 0, OFFERED, &p, NULL));
    CHECK(!is_offered(&p));
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, 1));
    link_drop(a->link, &p);
    return OK;
}

static void whoever_waits_fetches_what_was_offered(void **state)
{
    (void)state;
    crew_run(write_before_the_word, "");
}

/* The same with the rows already in its agent's hand. */
static fault write_before_the_second_word(struct agent *a)
{
    struct parcel p;
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    if (a->index == 0) {
        TRY(send_parameters(a, 1));
        TRY(fill_by_mixing(a, 2));
        return link_send(a->link, 1, WORD, &word, 1);
    }
    if (a->index > 1)
        return OK;
    TRY(link_recv_rows(a->link, 0, OFFERED, &p, NULL));
    TRY(link_recv(a->link, 0, WORD, &word, 1, NULL));
    CHECK(!is_offered(&p));
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, 1));
    link_drop(a->link, &p);
    return OK;
}

static void whoever_waits_fetches_what_it_has_in_hand(void **state)
{
    (void)state;
    crew_run(write_before_the_second_word, "");
}

/* Nobody waits for a reader to write a whole row, once; the second time what is written is what the reader has. */
static fault write_beside(struct agent *a)
{
    struct far *w = far_of(a->link);
    struct parcel p;
    crew_fill(a, ROW_PARAMS, 1);
    if (a->index == 0) {
        const float *before = crew_row(a, ROW_PARAMS);
        TRY(send_parameters(a, 1));
        bool is_read = sendings_hold(w, ROW_PARAMS, 0, TO_END); /* it may have been, already */
        TRY(mix_up_to(a, TO_END, 2));
        CHECK(is_read == (crew_row(a, ROW_PARAMS) != before));
        CHECK(crew_row_is(a, ROW_PARAMS, 2));
        TRY(mix_up_to(a, TO_END, 2));
        CHECK(crew_row_is(a, ROW_PARAMS, 4));
        TRY(send_parameters(a, 1));
        TRY(mix_up_to(a, TO_END, 2));
        return OK;
    }
    for (int k = 0; k < 2 && a->index == 1; k++) {
        TRY(link_recv_rows(a->link, 0, OFFERED, &p, NULL));
        CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, k ? 4 : 1));
        link_drop(a->link, &p);
    }
    return OK;
}

static void a_whole_row_is_written_beside_the_one_that_is_read(void **state)
{
    (void)state;
    crew_run(write_beside, "");
}

static fault forget_offers(struct agent *a)
{
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    for (uint64_t k = 10; k < 30; k++) {
        TRY(link_send_rows(a->link, after(a), 2 * k, whole(ROWS_PARAMS | ROWS_SLOTS)));
        TRY(link_send(a->link, after(a), 2 * k + 1, &word, 1));
        TRY(link_recv(a->link, before(a), 2 * k + 1, &word, 1, NULL)); /* so the rows are there, too */
        link_forget(a->link, 2 * k + 1);
        TRY(fill_by_mixing(a, 1));
    }
    CHECK(a->link->counts.unread == 20);
    return OK;
}

static void what_was_offered_and_forgotten_is_let_go(void **state)
{
    (void)state;
    crew_run(forget_offers, "");
}

static fault expect_no_offer(struct agent *a)
{
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)(a->index + 1));
    TRY(send_parameters(a, after(a)));
    TRY(link_recv_rows(a->link, before(a), OFFERED, &p, NULL));
    CHECK(!is_offered(&p));
    CHECK(crew_parcel_is(a, &p, ROW_PARAMS, 0, crew_of(a)->size, (float)(before(a) + 1)));
    link_drop(a->link, &p);
    return OK;
}

static fault hide_rows(struct agent *a)
{
    for (size_t i = 0; i < a->link->n_members; i++)
        far_of(a->link)->peers[i].sees_my_rows = false;
    return expect_no_offer(a);
}

static void rows_that_cannot_be_seen_are_sent(void **state)
{
    (void)state;
    crew_run(hide_rows, "");
    crew_run(expect_no_offer, "network: {latency_ms: 1, patience_s: 20}\n");
    crew_run(expect_no_offer, "network: {bandwidth_mbps: 1000, patience_s: 20}\n");
}

/* Ends with offers that nobody has asked for. */
static fault offer_to_nobody(struct agent *a)
{
    for (uint64_t k = 0; k < 5; k++)
        TRY(link_send_rows(a->link, after(a), 100 + k, whole(ROWS_PARAMS)));
    return a->index ? OK : fill_by_mixing(a, 2);
}

static void a_run_ends_though_offers_were_not_wanted(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        crew_run(offer_to_nobody, "");
}

/* ---- looks ---- */

/* The leader begins to look when agent 2 has the rows of agent 1 in its mail; agent 2 hears everything for a
 * while and reads nothing, and agent 1 wants to write them. */
static fault write_beside_a_look(struct agent *a)
{
    struct far *w = far_of(a->link);
    struct parcel p;
    char word = 0;
    crew_fill(a, ROW_PARAMS, 1);
    if (a->index == 1) {
        TRY(send_parameters(a, 2));
        return fill_by_mixing(a, 2);
    }
    if (a->index == 2) {
        for (double until_s = clock_now_s() + 20; !w->mail && clock_now_s() < until_s;)
            courier_progress(w);
        TRY(link_send(a->link, 0, WORD, &word, 1));
        for (double until_s = clock_now_s() + 0.3; clock_now_s() < until_s;
             nanosleep(&(struct timespec){0, 100000}, NULL))
            courier_progress(w);
        TRY(link_recv_rows(a->link, 1, OFFERED, &p, NULL));
        link_drop(a->link, &p);
    }
    if (a->index)
        return OK;
    TRY(link_recv(a->link, 2, WORD, &word, 1, NULL));
    while (!crew_of(a)->kept[0])
        TRY(agent_end_round(a));
    return OK;
}

static bool always(void *ctx, uint64_t round)
{
    (void)ctx;
    return round > 0;
}

static fault look_at_the_writer(void *ctx)
{
    struct crew *c = ctx;
    struct world *w = c->run->world;
    if (session_totals(c->run).ended < c->n) /* a moment at which it does not look */
        return OK;
    float *row = malloc(c->size * sizeof *row);
    fault f = row ? w->ops->settle(w) : OUT_OF_MEMORY;
    if (!f)
        f = w->ops->read(w, ROW_PARAMS, 1, row);
    c->kept[0]++;
    c->kept[1] = f ? 0 : (uint64_t)row[0];
    free(row);
    return f;
}

static void a_look_does_not_come_before_a_write_that_waits_for_readers_alone(void **state)
{
    struct crew c;
    (void)state;
    crew_open_row(&c,
                  (struct strategy_row){.run = write_beside_a_look,
                                        .hears_everyone = true,
                                        .kept = {{.name = "first"}, {.name = "second"}},
                                        .asynchronous = true},
                  "");
    c.run->stage.rounds = 1000;
    c.watcher.is_due = always;
    c.watcher.moment = look_at_the_writer;
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
    assert_int_equal(c.kept[0], crew_leads() ? 1 : 0);
    assert_int_equal(c.kept[1], crew_leads() ? 2 : 0);
}

/* ---- answers that come too late ---- */

enum { UNTOUCHED = 77 };

static fault run_one_round(struct agent *a)
{
    return agent_goes_on(a) ? agent_end_round(a) : OK;
}

static void fill_with(float *row, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        row[i] = value;
}

/* Every wait of the leader breaks off, as when a rank is gone, while it looks at agents 0 and 1; the answers of 1 come
 * afterwards. What they were meant for is the test's own, so that a write into it is seen. */
struct late {
    float *row;
    struct exam exams[2];
    fault read, examined;
};

static fault ask_and_break_off(void *ctx)
{
    struct crew *c = ctx;
    struct late *late = (struct late *)(uintptr_t)c->kept[0];
    struct world *w = c->run->world;
    if (session_totals(c->run).ended < c->n || late->row)
        return OK;
    late->row = malloc(c->size * sizeof *late->row);
    fill_with(late->row, c->size, UNTOUCHED);
    for (size_t i = 0; i < 2; i++)
        late->exams[i] = (struct exam){.replica = i, .n = c->run->dataset->test.n};
    wait_break_off(c->world, FAIL(FAULT_CRASH, "agent 2 is gone"));
    late->examined = w->ops->examine(w, late->exams, 2);
    late->exams[1].hits = UNTOUCHED;
    late->read = w->ops->read(w, ROW_PARAMS, 1, late->row);
    return FAIL(FAULT_CRASH, "agent 2 is gone");
}

static void an_answer_that_comes_too_late_is_written_nowhere(void **state)
{
    struct crew c;
    struct late late = {0};
    (void)state;
    crew_open(&c, run_one_round, "");
    c.kept[0] = (uint64_t)(uintptr_t)&late;
    c.run->stage.rounds = 1000;
    c.watcher.is_due = always;
    c.watcher.moment = ask_and_break_off;
    fault f = crew_play(&c);
    size_t size = c.size;
    crew_close(&c);
    assert_true(crew_is_fault(f, crew_leads() ? FAULT_CRASH : FAULT_ELSEWHERE, ""));
    fault_drop(f);
    if (!crew_leads())
        return;
    assert_int_equal(late.exams[1].hits, UNTOUCHED);
    for (size_t i = 0; late.read && i < size; i++) /* on a busy machine the answer may have been quicker */
        assert_true(late.row[i] == UNTOUCHED);
    fault_drop(late.examined);
    fault_drop(late.read);
    free(late.row);
}

/* The answer to a look that was given up is not taken for the answer to the next one. */
static fault ask_twice(void *ctx)
{
    struct crew *c = ctx;
    struct world *w = c->run->world;
    float *row = session_totals(c->run).ended < c->n ? NULL : malloc(c->size * sizeof *row);
    if (!row)
        return OK;
    struct exam exam = {.replica = 1, .n = c->run->dataset->test.n};
    wait_break_off(c->world, FAIL(FAULT_CRASH, "for a moment"));
    fault_drop(w->ops->read(w, ROW_PARAMS, 1, row));
    fault_drop(c->world->broken);
    c->world->broken = OK;
    fault f = w->ops->examine(w, &exam, 1);
    c->kept[0]++;
    c->kept[1] += isnan(exam.loss);
    free(row);
    return f;
}

static void an_answer_that_comes_too_late_does_not_answer_the_next_question(void **state)
{
    struct crew c;
    (void)state;
    crew_open(&c, run_one_round, "");
    c.run->stage.rounds = 2;
    c.watcher.is_due = always;
    c.watcher.moment = ask_twice;
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
    assert_int_equal(c.kept[0], crew_leads() ? 1 : 0);
    assert_int_equal(c.kept[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        crew_test(2, rows_stay_where_they_are_until_they_are_read),
        crew_test(2, those_who_write_what_others_have_not_read_do_not_wait_for_ever),
        crew_test(2, whoever_waits_fetches_what_was_offered),
        crew_test(2, whoever_waits_fetches_what_it_has_in_hand),
        crew_test(2, a_whole_row_is_written_beside_the_one_that_is_read),
        crew_test(2, what_was_offered_and_forgotten_is_let_go),
        crew_test(2, rows_that_cannot_be_seen_are_sent),
        crew_test(3, a_look_does_not_come_before_a_write_that_waits_for_readers_alone),
        crew_test(2, a_run_ends_though_offers_were_not_wanted),
        crew_test(2, an_answer_that_comes_too_late_is_written_nowhere),
        crew_test(2, an_answer_that_comes_too_late_does_not_answer_the_next_question),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
