/* A play of many ranks: who is told what, how it is looked at, how it ends. */
#include <sched.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "mpi/crew.h"

/* ---- together ---- */

enum { PATIENCE_S = 20 };

static void a_fault_of_one_rank_is_told_by_the_leader_and_named(void **state)
{
    const struct ranks *ranks = crew_ranks();
    size_t last = ranks->n - 1;
    char words[128] = "the roof is open", host[64] = "";
    (void)state;
    must(world_agree(ranks, OK, PATIENCE_S));
    fault mine = ranks->self == last ? FAIL(FAULT_DATA, "the roof is open") : OK;
    fault f = world_agree(ranks, mine, PATIENCE_S);
    gethostname(host, sizeof host - 1);
    if (last)
        snprintf(words, sizeof words, "rank %zu on %s: the roof is open", last, host);
    assert_true(crew_is_fault(f, ranks->self ? FAULT_ELSEWHERE : FAULT_DATA, ranks->self ? "" : words));
    fault_drop(f);
}

static void the_first_rank_that_differs_is_named(void **state)
{
    const struct ranks *ranks = crew_ranks();
    char words[128], host[64] = "";
    (void)state;
    must(world_compare(ranks, "hat", "green", PATIENCE_S));
    fault f = world_compare(ranks, "hat", ranks->self == 0 ? "green" : "red", PATIENCE_S);
    gethostname(host, sizeof host - 1);
    snprintf(words, sizeof words, "rank 1 on %s has another hat than rank 0 on %s (red, not green)", host,
             host);
    assert_true(crew_is_fault(f, ranks->self ? FAULT_ELSEWHERE : FAULT_USAGE, ranks->self ? "hat" : words));
    fault_drop(f);
}

static void numbers_and_texts_go_round(void **state)
{
    const struct ranks *ranks = crew_ranks();
    uint64_t largest = 0;
    char *text = ranks->self == 0 ? text_of("%01000d", 7) : NULL;
    (void)state;
    must(world_largest(ranks, ranks->self == ranks->n / 2 ? 77 : ranks->self, PATIENCE_S, &largest));
    assert_int_equal(largest, 77);
    must(world_spread_text(ranks, &text, PATIENCE_S));
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
    link_note(a->link, "greeting", text);
    if (a->index == a->link->n_members - 1)
        link_note(a->link, "much", longer);
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
    for (uint64_t k = 0;; k++) {
        struct parcel p;
        TRY(link_send_rows(a->link, after(a), k, whole(ROWS_PARAMS)));
        if (k == 5 && a->index == crew_of(a)->kept[0])
            return FAIL(FAULT_DATA, "the roof is open");
        TRY(link_recv_rows(a->link, before(a), k, &p, NULL));
        link_drop(a->link, &p);
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
    for (size_t rank = 0; rank < crew_ranks()->n; rank++)
        play_with_a_fault_of(rank);
}

/* ---- damage ---- */

/* The last rank writes what is no packet to the rank in kept[0]; in kept[1] how many of its bytes are wrong. */
static fault write_nonsense(struct agent *a)
{
    static unsigned char packet[HEAD_BYTES + 8]; /* it must outlive this function */
    struct far *w = far_of(a->link);
    size_t last = w->n - 1;
    struct passage p;
    struct parcel never;
    packet_write_head(packet, &(struct head){.kind = MSG_BYTES, .tag = 1, .n_bytes = 8});
    for (size_t i = 0; i < crew_of(a)->kept[1]; i++)
        packet[(i * 29) % HEAD_BYTES] ^= 0xa5;
    size_t n = crew_of(a)->kept[1] ? sizeof packet : sizeof packet - 1;
    if (a->index == last) {
        w->transport->ops->send_packet(w->transport, (size_t)crew_of(a)->kept[0], packet, n, &p);
        bell_ring(w->peers[crew_of(a)->kept[0]].bell);
    }
    fault f = link_recv_rows(a->link, ANYONE, 99, &never, NULL);
    while (a->index == last && !w->transport->ops->is_through(w->transport, &p))
        sched_yield();
    return f;
}

static void a_packet_that_cannot_be_read_ends_the_play_and_its_sender_is_named(void **state)
{
    size_t last = crew_ranks()->n - 1;
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct crew c;
        char words[64];
        crew_open(&c, write_nonsense, "");
        c.kept[0] = i % last;
        c.kept[1] = i;
        fault f = crew_play(&c);
        crew_close(&c);
        snprintf(words, sizeof words, "agent %zu (rank %zu on ", last, last);
        assert_true(crew_is_fault(f, crew_leads() ? FAULT_DATA : FAULT_ELSEWHERE, crew_leads() ? words : ""));
        assert_true(!crew_leads() || strstr(fault_text(f), "sent what cannot be read"));
        fault_drop(f);
    }
}

/* ---- stops ---- */

enum { ROUNDS = 22, EVERY = 4 }; /* not the last one, which is looked at when all is over */

static bool is_due(void *ctx, uint64_t round)
{
    (void)ctx;
    return round % EVERY == 0;
}

/* Round after round with the neighbours; the rank in kept[0] is asked to stop in its round 5. */
static fault go_on_and_on(struct agent *a)
{
    struct crew *c = crew_of(a);
    while (agent_goes_on(a)) {
        uint64_t theirs = 0;
        if (a->k == 5 && a->index == c->kept[0])
            atomic_store(&c->stop, true);
        if (!a->stage->asynchronous) {
            TRY(link_send(a->link, after(a), a->k, &a->k, sizeof a->k));
            TRY(link_recv(a->link, before(a), a->k, &theirs, sizeof theirs, NULL));
            CHECK(theirs == a->k);
        }
        TRY(agent_end_round(a));
    }
    return OK;
}

static fault go_on_alone(struct agent *a)
{
    struct crew *c = crew_of(a);
    while (agent_goes_on(a)) {
        if (a->k == 5 && a->index == c->kept[0])
            atomic_store(&c->stop, true);
        nanosleep(&(struct timespec){0, 100000 * (long)((a->index + a->k) % 3)},
                  NULL); /* it hears nothing meanwhile */
        TRY(agent_end_round(a));
    }
    return OK;
}

#define NO_MEMBER ((size_t)-1)

/* The leader is asked in the midst of a moment at which it does not look. */
static fault stop_in_a_moment(void *ctx)
{
    struct crew *c = ctx;
    if (session_totals(c->run).ended / c->n >= 6)
        atomic_store(&c->stop, true);
    return atomic_load(&c->stop) ? FAIL(FAULT_STOPPED, "stopped") : OK;
}

static void stop_by(size_t rank, struct strategy_row row)
{
    struct crew c;
    uint64_t k, most = 0;
    bool in_step = !row.asynchronous;
    crew_open_row(&c, row, "network: {patience_s: 4}\n"); /* ranks look for a stop eight times in it */
    c.run->stage.rounds = 1u << 30;
    c.kept[0] = rank;
    c.watcher.is_due = is_due;
    if (rank == NO_MEMBER)
        c.watcher.moment = stop_in_a_moment;
    fault f = crew_play(&c);
    k = c.world->agent->k;
    crew_close(&c);
    assert_true(crew_is_fault(f, crew_leads() ? FAULT_STOPPED : FAULT_ELSEWHERE, ""));
    fault_drop(f);
    must(world_largest(crew_ranks(), k, PATIENCE_S, &most));
    assert_true(k >= (in_step ? 6 : 1));
    assert_int_equal(k, in_step ? most : k);
}

static void a_stop_asked_of_any_rank_stops_all_in_the_same_round(void **state)
{
    size_t last = crew_ranks()->n - 1;
    (void)state;
    stop_by(last, (struct strategy_row){.run = go_on_and_on});
    stop_by(0, (struct strategy_row){.run = go_on_and_on});
    stop_by(last / 2, (struct strategy_row){.run = go_on_alone});
    for (int i = 0; i < 5; i++)
        stop_by(NO_MEMBER, (struct strategy_row){.run = go_on_alone});
}

static void a_stop_reaches_those_that_are_not_in_step(void **state)
{
    (void)state;
    stop_by(crew_ranks()->n - 1, (struct strategy_row){.run = go_on_and_on, .asynchronous = true});
}

/* ---- looks ---- */

/* After k rounds everybody's parameters are k plus its number; those who come first wait for nobody but a
 * neighbour. */
static fault count_rounds_in_rows(struct agent *a)
{
    struct term terms[] = {{1, ROW_PARAMS, NULL, 0}, {1, ROW_KEPT, NULL, 0}};
    struct parcel p;
    crew_fill(a, ROW_PARAMS, (float)a->index);
    crew_fill(a, ROW_KEPT, 1);
    while (agent_goes_on(a)) {
        TRY(link_send_rows(a->link, after(a), a->k, whole(ROWS_PARAMS)));
        TRY(link_recv_rows(a->link, before(a), a->k, &p, NULL));
        link_drop(a->link, &p);
        TRY(link_mix(a->link, ROW_PARAMS, 0, TO_END, terms, 2));
        TRY(agent_end_round(a));
    }
    return OK;
}

static bool all_are(const float *floats, size_t n, float value)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        same += floats[i] == value;
    return same == n;
}

static fault look_at_all(struct crew *c, float k, float *row)
{
    struct world *w = c->run->world;
    TRY(w->ops->settle(w));
    for (size_t i = 0; i < c->n; i++) {
        TRY(w->ops->read(w, ROW_PARAMS, i, row));
        CHECK(all_are(row, c->size, k + (float)i));
        CHECK(w->ops->account(w, i).k == (uint64_t)k);
    }
    const struct addend ends[] = {{0.5f, ROW_PARAMS, 0, 0}, {2, ROW_PARAMS, c->n - 1, 0}};
    TRY(w->ops->blend(w, ROW_PARAMS, ends, 2));
    TRY(w->ops->read(w, ROW_PARAMS, world_model_row(&c->run->stage), row));
    CHECK(all_are(row, c->size, 0.5f * k + 2 * (k + (float)(c->n - 1))));
    return OK;
}

/* Looks at everybody at rounds that are due, and takes its time, which does not count. */
static fault look(void *ctx)
{
    struct crew *c = ctx;
    struct world *w = c->run->world;
    uint64_t k = session_totals(c->run).ended / c->n;
    if (k % EVERY != 0 || k == c->kept[0])
        return OK;
    double before_s = w->ops->now_s(w);
    float *row = malloc(c->size * sizeof *row);
    fault f = row ? look_at_all(c, (float)k, row) : OUT_OF_MEMORY;
    free(row);
    TRY(f);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    CHECK(w->ops->now_s(w) == before_s);
    c->kept[0] = k;
    c->kept[1]++;
    return OK;
}

static void the_leader_looks_when_all_are_at_the_end_of_the_round_that_is_due(void **state)
{
    struct crew c;
    (void)state;
    crew_open(&c, count_rounds_in_rows, "");
    c.run->stage.rounds = ROUNDS;
    c.watcher.is_due = is_due;
    c.watcher.moment = look;
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
    assert_int_equal(c.kept[1], crew_leads() ? ROUNDS / EVERY : 0);
}

/* What the leader writes before the play is what everybody begins with. */
static fault expect_what_was_written(struct agent *a)
{
    CHECK(crew_row_is(a, ROW_PARAMS, (float)a->index + 0.5f));
    CHECK(crew_row_is(a, ROW_SLOT + 1, 3));
    CHECK(a->k == 7 && a->lessons == 70 + a->index && a->steps == 5);
    CHECK(a->link->counts.bytes == 1234);
    return OK;
}

static fault write_to_all(struct crew *c)
{
    struct world *w = c->run->world;
    float *row = malloc(c->size * sizeof *row);
    fault f = row ? w->ops->restore(w, 7) : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < c->n; i++) {
        struct account account = {.k = 7, .lessons = 70 + i, .steps = 5, .counts = {.bytes = 1234}};
        for (size_t j = 0; j < c->size; j++)
            row[j] = (float)i + 0.5f;
        f = w->ops->write(w, ROW_PARAMS, i, row);
        for (size_t j = 0; j < c->size; j++)
            row[j] = 3;
        if (!f)
            f = w->ops->write(w, ROW_SLOT + 1, i, row);
        w->ops->set_account(w, i, &account);
    }
    free(row);
    return f;
}

static void what_the_leader_writes_is_what_all_begin_with(void **state)
{
    struct crew c;
    (void)state;
    crew_open(&c, expect_what_was_written, "");
    fault f = crew_leads() ? write_to_all(&c) : OK;
    if (!f)
        f = crew_play(&c);
    crew_close(&c);
    must(f);
}

/* ---- lessons ---- */

/* An engine whose lessons stop in the middle until they are let go: the second half of the gradient is there.
 */
static sem_t let_go;

static fault learn_in_halves(struct engine *e, struct lesson *lesson, size_t n)
{
    float *g = e->ops->floats(e, ROW_GRADS, lesson->replica);
    size_t size = e->setup.graph->size;
    struct timespec until;
    (void)n;
    for (size_t i = size / 2; i < size; i++)
        g[i] = 7;
    lesson->ready(lesson->ready_ctx, size / 2);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (sem_timedwait(&let_go, &until) != 0)
        return FAIL(FAULT_TIMEOUT, "nobody let the lesson go");
    nanosleep(&(struct timespec){0, 5000000}, NULL); /* a program that does not wait for the end is ahead of it */
    for (size_t i = 0; i < size / 2; i++)
        g[i] = 5;
    lesson->ready(lesson->ready_ctx, 0);
    lesson->loss = 1;
    return OK;
}

static bool half_is(struct agent *a, size_t first, size_t end, float value)
{
    return all_are(crew_row(a, ROW_GRADS) + first, end - first, value);
}

/* While the lesson goes on, what is ready of its gradient travels. */
static fault send_half_a_gradient(struct agent *a)
{
    struct parcel p;
    size_t half = crew_of(a)->size / 2, size = crew_of(a)->size;
    for (uint64_t k = 0; k < 3; k++) {
        crew_fill(a, ROW_GRADS, 0);
        TRY(agent_begin(a));
        TRY(agent_await(a, half));
        CHECK(half_is(a, half, size, 7) && half_is(a, 0, half, 0));
        TRY(link_send_rows(a->link, after(a), k, (struct span){ROWS_GRADS, half, size}));
        TRY(link_recv_rows(a->link, before(a), k, &p, NULL));
        struct term sum[] = {{1, ROW_GRADS, NULL, 0}, {1, ROW_GRADS, &p, 0}};
        TRY(link_mix(a->link, ROW_GRADS, half, size, sum, 2));
        link_drop(a->link, &p);
        sem_post(&let_go);
        TRY(agent_await(a, 0));
        CHECK(half_is(a, half, size, 14) && half_is(a, 0, half, 5));
    }
    CHECK(a->lessons == 3 && a->tally.lessons == 3 && a->tally.loss == 3);
    return OK;
}

/* Where peers may write one's rows at any time, the gradient is there when the lesson is over. */
static fault await_half_a_gradient(struct agent *a)
{
    size_t half = crew_of(a)->size / 2, size = crew_of(a)->size;
    crew_fill(a, ROW_GRADS, 0);
    sem_post(&let_go);
    TRY(agent_begin(a));
    TRY(agent_await(a, half));
    CHECK(half_is(a, half, size, 7));
    TRY(agent_await(a, 0));
    CHECK(half_is(a, half, size, 7) && half_is(a, 0, half, 5));
    return OK;
}

/* As a round that is done again, since a peer was lost in its midst: the lesson that was begun is not taken for the next one. */
static fault begin_again_in_the_midst(struct agent *a)
{
    size_t half = crew_of(a)->size / 2;
    for (uint64_t k = 0; k < 3; k++) {
        crew_fill(a, ROW_GRADS, 0);
        TRY(agent_begin(a));
        TRY(agent_await(a, half));
        crew_fill(a, ROW_GRADS, 0);
        sem_post(&let_go);
        TRY(agent_begin(a));
        CHECK(half_is(a, 0, half, 5)); /* it has come to its end; the next one is at the other half */
        memset(crew_row(a, ROW_GRADS), 0, half * sizeof(float));
        TRY(agent_await(a, half));
        CHECK(half_is(a, 0, half, 0));
        sem_post(&let_go);
        TRY(agent_await(a, 0));
        CHECK(half_is(a, 0, half, 5));
    }
    return OK;
}

static void play_in_halves(struct strategy_row row)
{
    struct crew c;
    crew_open_row(&c, row, "");
    struct engine_ops ops = *c.run->engine->ops;
    ops.learn = learn_in_halves;
    c.run->engine->ops = &ops;
    sem_init(&let_go, 0, 1); /* the one before the clock begins */
    fault f = crew_play(&c);
    sem_post(&let_go); /* where the program has failed */
    crew_close(&c);
    sem_destroy(&let_go);
    must(f);
}

static void what_is_ready_of_a_gradient_travels_while_the_lesson_goes_on(void **state)
{
    (void)state;
    play_in_halves((struct strategy_row){.run = send_half_a_gradient});
    play_in_halves((struct strategy_row){.run = await_half_a_gradient, .meets_at_any_time = true});
}

static void a_lesson_that_is_not_wanted_any_more_ends_before_the_next_begins(void **state)
{
    (void)state;
    play_in_halves((struct strategy_row){.run = begin_again_in_the_midst});
}

static int lessons_left; /* before the engine is out of coal */

static fault learn_so_often(struct engine *e, struct lesson *lesson, size_t n)
{
    (void)e, (void)lesson, (void)n;
    return lessons_left-- > 0 ? OK : FAIL(FAULT_ENGINE, "the engine is out of coal");
}

static fault learn_and_await_half(struct agent *a)
{
    TRY(agent_begin(a));
    TRY(agent_await(a, crew_of(a)->size / 2));
    return agent_await(a, 0);
}

/* The last rank's engine gives so many lessons: the first one comes before the clock begins. */
static void play_without_coal(strategy_run *program, int lessons)
{
    struct crew c;
    crew_open(&c, program, "");
    struct engine_ops ops = *c.run->engine->ops;
    ops.learn = learn_so_often;
    lessons_left = lessons;
    if (c.self == c.n - 1)
        c.run->engine->ops = &ops;
    fault f = crew_play(&c);
    crew_close(&c);
    assert_true(
        crew_is_fault(f, crew_leads() ? FAULT_ENGINE : FAULT_ELSEWHERE, crew_leads() ? "out of coal" : ""));
    fault_drop(f);
}

static void a_fault_in_a_lesson_ends_the_play(void **state)
{
    (void)state;
    play_without_coal(agent_learn, 0);
    play_without_coal(agent_learn, 1);
    play_without_coal(learn_and_await_half, 1); /* the half never comes */
}

/* ---- time ---- */

static fault keep_all_waiting(struct agent *a)
{
    double since = link_now_s(a->link);
    char byte = 0;
    if (a->index) /* it is about to wait */
        TRY(link_send(a->link, 0, 0, &byte, 1));
    for (size_t i = 1; a->index == 0 && i < a->link->n_members; i++)
        TRY(link_recv(a->link, i, 0, &byte, 1, NULL));
    if (a->index == 0) {
        TRY(link_sleep(a->link, 1));
        CHECK(link_now_s(a->link) - since >= 1);
    }
    for (size_t i = 1; a->index == 0 && i < a->link->n_members; i++)
        TRY(link_send(a->link, i, 1, &byte, 1));
    return a->index ? link_recv(a->link, 0, 1, &byte, 1, NULL) : OK;
}

static void who_waited_for_whom_is_known_to_the_leader(void **state)
{
    struct crew c;
    double waited[64] = {0}, for_first[64] = {0};
    (void)state;
    crew_open(&c, keep_all_waiting, "");
    fault f = crew_play(&c);
    double ended_s = crew_leads() ? c.run->world->ops->now_s(c.run->world) : 0;
    const struct world *w = c.run->world;
    for (size_t i = 0; !f && crew_leads() && i < c.n; i++) {
        waited[i] = w->ops->counts(w, i).waiting_s;
        for_first[i] = w->ops->waits(w)->pairs[i * c.n];
    }
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    double later_s = crew_leads() ? w->ops->now_s(w) : 0;
    crew_close(&c);
    must(f);
    assert_true(later_s == ended_s); /* exams and records at the end take none of the run's time */
    for (size_t i = 1; crew_leads() && i < c.n; i++) {
        assert_true(waited[i] > 0.02); /* of a second; on a busy machine it may begin to wait later */
        assert_true(for_first[i] == waited[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_of_one_rank_is_told_by_the_leader_and_named),
        crew_test(2, the_first_rank_that_differs_is_named),
        cmocka_unit_test(numbers_and_texts_go_round),
        cmocka_unit_test(notes_of_all_ranks_reach_whoever_leads),
        cmocka_unit_test(a_fault_in_one_program_ends_the_play_for_all),
        crew_test(2, a_packet_that_cannot_be_read_ends_the_play_and_its_sender_is_named),
        cmocka_unit_test(a_stop_asked_of_any_rank_stops_all_in_the_same_round),
        cmocka_unit_test(a_stop_reaches_those_that_are_not_in_step),
        cmocka_unit_test(the_leader_looks_when_all_are_at_the_end_of_the_round_that_is_due),
        cmocka_unit_test(what_the_leader_writes_is_what_all_begin_with),
        cmocka_unit_test(what_is_ready_of_a_gradient_travels_while_the_lesson_goes_on),
        cmocka_unit_test(a_lesson_that_is_not_wanted_any_more_ends_before_the_next_begins),
        cmocka_unit_test(a_fault_in_a_lesson_ends_the_play),
        cmocka_unit_test(who_waited_for_whom_is_known_to_the_leader),
    };
    return crew_join() ? crew_run_tests(tests, NULL, NULL) : 1;
}
