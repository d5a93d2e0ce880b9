/* rows.c - rows: as they were when they were sent, whole and in spans; mixed, learnt, stepped with, asked about; averaged and adopted;
 * summed and gathered by a world's own means. */
#include "link/suite.h"

#define CHECK_ROW(row, first, end, start, more)                                                              \
    do {                                                                                                     \
        bool is_so_;                                                                                         \
        TRY(suite_row_is(a, row, first, end, start, more, &is_so_));                                         \
        if (!is_so_)                                                                                         \
            return FAIL(FAULT_USAGE, "%s:%d: agent %zu: the row is another", __FILE__, __LINE__, a->index);  \
    } while (0)
#define CHECK_PARCEL(p, row, first, end, value)                                                              \
    do {                                                                                                     \
        bool is_so_;                                                                                         \
        TRY(suite_parcel_is(a, p, row, first, end, value, &is_so_));                                         \
        if (!is_so_)                                                                                         \
            return FAIL(FAULT_USAGE, "%s:%d: agent %zu: the parcel is another", __FILE__, __LINE__,          \
                        a->index);                                                                           \
    } while (0)

/* ---- sending ---- */

static fault double_parameters(struct agent *a)
{
    struct term twice = {2, ROW_PARAMS, NULL, 0};
    return link_mix(a->link, ROW_PARAMS, 0, TO_END, &twice, 1);
}

/* Each round everybody's parameters are sent, and doubled at once. */
static fault rows_arrive_as_they_were(struct agent *a)
{
    struct parcel p;
    double theirs = (double)before(a) + 1;
    TRY(suite_fill(a, ROW_PARAMS, (double)a->index + 1));
    for (uint64_t k = 0; k < 10; k++, theirs *= 2) {
        TRY(link_send_rows(a->link, after(a), k, whole(ROWS_PARAMS)));
        TRY(double_parameters(a));
        TRY(link_recv_rows(a->link, before(a), k, &p, NULL));
        CHECK_PARCEL(&p, ROW_PARAMS, 0, link_row_floats(a->link, ROW_PARAMS), theirs);
        link_drop(a->link, &p);
    }
    return OK;
}

/* A lesson writes gradients and statistics, a step parameters and slots. */
static fault rows_arrive_though_a_lesson_writes_them(struct agent *a)
{
    static const enum row rows[] = {ROW_PARAMS, ROW_STATS, ROW_SLOT, ROW_SLOT + 1};
    struct parcel p, q;
    double mine = (double)a->index + 1, theirs = (double)before(a) + 1;
    for (size_t i = 0; i < 4; i++)
        TRY(suite_fill(a, rows[i], mine));
    TRY(suite_fill(a, ROW_GRADS, mine));
    TRY(link_send_rows(a->link, after(a), 1, whole(ROWS_PARAMS | ROWS_STATS | ROWS_SLOTS)));
    TRY(link_send_rows(a->link, after(a), 2, whole(ROWS_GRADS)));
    TRY(agent_learn(a));
    TRY(agent_update(a));
    TRY(link_recv_rows(a->link, before(a), 2, &q, NULL));
    TRY(link_recv_rows(a->link, before(a), 1, &p, NULL));
    CHECK_PARCEL(&q, ROW_GRADS, 0, link_row_floats(a->link, ROW_GRADS), theirs);
    for (size_t i = 0; i < 4; i++)
        CHECK_PARCEL(&p, rows[i], 0, link_row_floats(a->link, rows[i]), theirs);
    link_drop(a->link, &p);
    link_drop(a->link, &q);
    return OK;
}

/* Spans [first, end): of one float, within a packet and beyond it, to the end. */
static fault spans_hold_what_was_sent_and_no_more(struct agent *a)
{
    size_t size = link_row_floats(a->link, ROW_PARAMS);
    const size_t spans[][2] = {{0, 1},        {3, 10},   {5, 1017},       {5, 1018},
                               {1, size - 1}, {0, size}, {size - 1, size}};
    double theirs = (double)before(a) + 1;
    struct parcel p;
    CHECK(size >= SUITE_PARAMS);
    TRY(suite_fill(a, ROW_PARAMS, (double)a->index + 1));
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        TRY(link_send_rows(a->link, after(a), i, (struct span){ROWS_PARAMS, spans[i][0], spans[i][1]}));
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        const struct term all = {1, ROW_PARAMS, &p, 0}, other = {1, ROW_GRADS, &p, 0};
        TRY(link_recv_rows(a->link, before(a), i, &p, NULL));
        CHECK_PARCEL(&p, ROW_PARAMS, spans[i][0], spans[i][1], theirs);
        if (spans[i][0])
            CHECK_FAULT(link_mix(a->link, ROW_OUGHT, spans[i][0] - 1, spans[i][1], &all, 1), FAULT_USAGE,
                        "was sent other floats than it wants to mix");
        if (spans[i][1] < size)
            CHECK_FAULT(link_mix(a->link, ROW_OUGHT, spans[i][0], spans[i][1] + 1, &all, 1), FAULT_USAGE,
                        "was sent other floats than it wants to mix");
        CHECK_FAULT(link_mix(a->link, ROW_OUGHT, spans[i][0], spans[i][1], &other, 1), FAULT_USAGE,
                    "was sent other floats than it wants to mix"); /* no such row is in it */
        link_drop(a->link, &p);
        CHECK(!p.rows);
    }
    return OK;
}

/* Several rows in one message, each as far as it has floats. */
static fault rows_of_other_lengths_travel_together(struct agent *a)
{
    size_t size = link_row_floats(a->link, ROW_PARAMS);
    double mine = (double)a->index + 1, theirs = (double)before(a) + 1;
    struct parcel p;
    CHECK(link_row_floats(a->link, ROW_FEW) == SUITE_FEW);
    TRY(suite_fill(a, ROW_PARAMS, mine));
    TRY(suite_fill(a, ROW_FEW, -mine));
    TRY(link_send_rows(a->link, after(a), 1, (struct span){ROWS_PARAMS | 1u << ROW_FEW, 2, TO_END}));
    TRY(link_recv_rows(a->link, before(a), 1, &p, NULL));
    CHECK_PARCEL(&p, ROW_PARAMS, 2, size, theirs);
    CHECK_PARCEL(&p, ROW_FEW, 2, SUITE_FEW, -theirs);
    link_drop(a->link, &p);
    return OK;
}

/* ---- mixing ---- */

/* The terms of one sum: mine, theirs twice over, a stretch of theirs from another place. */
static fault sums_have_their_terms(struct agent *a)
{
    size_t size = link_row_floats(a->link, ROW_PARAMS);
    double theirs = (double)before(a) + 1;
    struct parcel p;
    struct term many[70];
    TRY(suite_fill(a, ROW_PARAMS, (double)a->index + 1));
    TRY(link_send_rows(a->link, after(a), 1, whole(ROWS_PARAMS | 1u << ROW_RAMP)));
    TRY(link_recv_rows(a->link, before(a), 1, &p, NULL));
    const struct term terms[] = {
        {2, ROW_RAMP, NULL, 0}, {1, ROW_PARAMS, &p, 0}, {0.5, ROW_PARAMS, &p, 3}, {1, ROW_RAMP, &p, 10}};
    TRY(suite_fill(a, ROW_GRADS, 0));
    TRY(link_mix(a->link, ROW_GRADS, 5, size - 10, terms, 4));
    CHECK_ROW(ROW_GRADS, 0, 5, 0, 0);
    CHECK_ROW(ROW_GRADS, 5, size - 10, 1.5 * theirs + 10, 3);
    CHECK_ROW(ROW_GRADS, size - 10, size, 0, 0);
    CHECK_PARCEL(&p, ROW_PARAMS, 0, size, theirs); /* it is kept */
    link_drop(a->link, &p);
    for (size_t i = 0; i < 70; i++)
        many[i] = (struct term){0.5, ROW_ONES, NULL, 0};
    TRY(link_mix(a->link, ROW_GRADS, 3, TO_END, many, 70));
    CHECK_ROW(ROW_GRADS, 0, 3, 0, 0);
    CHECK_ROW(ROW_GRADS, 3, size, 35, 0);
    return OK;
}

static fault sums_that_cannot_be_are_refused(struct agent *a)
{
    size_t size = link_row_floats(a->link, ROW_PARAMS);
    const struct term beyond = {1, ROW_ONES, NULL, 1}, before_it = {1, ROW_ONES, NULL, -1},
                      itself = {1, ROW_PARAMS, NULL, 2}, few = {1, ROW_FEW, NULL, 0};
    CHECK_FAULT(link_mix(a->link, ROW_PARAMS, 0, TO_END, &beyond, 1), FAULT_USAGE, "mixes the floats");
    CHECK_FAULT(link_mix(a->link, ROW_PARAMS, 0, TO_END, &before_it, 1), FAULT_USAGE, "mixes the floats");
    CHECK_FAULT(link_mix(a->link, ROW_PARAMS, 0, TO_END, &few, 1), FAULT_USAGE, "mixes the floats");
    CHECK_FAULT(link_mix(a->link, ROW_PARAMS, 0, size - 2, &itself, 1), FAULT_USAGE, "still to be read");
    return link_mix(a->link, ROW_PARAMS, 0, 2, &itself, 1); /* these are not written */
}

/* ---- lessons ---- */

static fault a_gradient_is_ready_from_its_end(struct agent *a)
{
    size_t size = link_row_floats(a->link, ROW_PARAMS);
    double loss, part, again;
    const struct question half = {NUMBER_DOT, ROW_GRADS, ROW_GRADS, size / 2, size, 0};
    TRY(agent_begin(a)); /* link_learn */
    CHECK_FAULT(link_number(a->link, &(struct question){.about = NUMBER_LOSS}, &loss), FAULT_USAGE,
                "lesson under way");
    TRY(agent_await(a, size / 2)); /* link_await */
    const struct term kept = {1, ROW_GRADS, NULL, 0};
    TRY(link_mix(a->link, ROW_OUGHT, size / 2, size, &kept, 1));
    TRY(agent_await(a, 0));
    TRY(link_number(a->link, &(struct question){.about = NUMBER_LOSS}, &loss));
    TRY(link_number(a->link, &half, &part));
    TRY(link_number(a->link, &(struct question){NUMBER_DOT, ROW_OUGHT, ROW_OUGHT, size / 2, size, 0},
                    &again));
    CHECK(part == again && part > 0 && loss > 0);
    CHECK(link_staleness(a->link) == 0);
    TRY(link_update(a->link, 0, size / 2, 0.1, 1));
    TRY(link_update(a->link, size / 2, TO_END, 0.1, 1));
    CHECK(link_staleness(a->link) == 2);
    TRY(link_learn(a->link, 1));
    CHECK(link_staleness(a->link) == 0);
    return link_await(a->link, 0);
}

static fault numbers_are_of_my_rows_as_they_are(struct agent *a)
{
    size_t n = link_row_floats(a->link, ROW_PARAMS);
    double x;
    CHECK_FAULT(link_number(a->link, &(struct question){.about = NUMBER_LOSS}, &x), FAULT_USAGE,
                "before its first");
    CHECK_FAULT(link_number(a->link, &(struct question){NUMBER_DOT, ROW_GRADS, ROW_GRADS, 0, TO_END, 0}, &x),
                FAULT_USAGE, "before it has learnt in this round");
    TRY(suite_fill(a, ROW_PARAMS, 3));
    TRY(link_number(a->link, &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_PARAMS, 0, TO_END, 0}, &x));
    CHECK(x == 9 * (double)n);
    TRY(link_number(a->link, &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_RAMP, 2, 5, 4}, &x));
    CHECK(x == 3 * (6 + 7 + 8));
    CHECK_FAULT(link_number(a->link, &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_RAMP, 2, TO_END, 4}, &x),
                FAULT_USAGE, "asks for the floats");
    TRY(agent_learn(a));
    TRY(agent_update(a));
    CHECK_FAULT(link_number(a->link, &(struct question){NUMBER_DOT, ROW_GRADS, ROW_GRADS, 0, TO_END, 0}, &x),
                FAULT_USAGE, "or after a step with it");
    return OK;
}

static fault ask_for_what_is_infinite(struct agent *a)
{
    double x;
    const struct term larger = {1e15, ROW_PARAMS, NULL, 0};
    TRY(suite_fill(a, ROW_PARAMS, 1));
    for (int i = 0; i < 5; i++)
        TRY(link_mix(a->link, ROW_PARAMS, 0, TO_END, &larger, 1));
    TRY(link_number(a->link, &(struct question){NUMBER_DOT, ROW_PARAMS, ROW_PARAMS, 0, TO_END, 0}, &x));
    return FAIL(FAULT_USAGE, "agent %zu was told a number", a->index);
}

/* ---- meeting ---- */

/* Of each pair (0, 1), (2, 3) ... one asks; the other sleeps, and takes no notice. */
static fault an_average_is_of_both_ends(struct agent *a)
{
    size_t peer = a->index ^ 1;
    char byte = 0;
    double mean = (double)(a->index + peer) / 2;
    TRY(suite_fill(a, ROW_PARAMS, (double)a->index));
    TRY(suite_barrier(a, 1));
    if (peer >= a->link->n_members)
        return OK;
    if (a->index < peer) {
        TRY(link_average(a->link, peer, ROWS_PARAMS));
        TRY(link_send(a->link, peer, 2, &byte, 1));
    } else {
        while (!link_has_mail(a->link, 2))
            TRY(link_sleep(a->link, 1e-3));
        TRY(link_recv(a->link, peer, 2, &byte, 1, NULL));
    }
    CHECK_ROW(ROW_PARAMS, 0, link_row_floats(a->link, ROW_PARAMS), mean, 0);
    CHECK_ROW(ROW_RAMP, 0, link_row_floats(a->link, ROW_RAMP), 0, 1);
    return OK;
}

/* Everyone takes over what the last member has, but for its gradient. */
static fault adopted_rows_are_the_peers(struct agent *a)
{
    static const enum row rows[] = {ROW_PARAMS, ROW_STATS, ROW_SLOT, ROW_SLOT + 1, ROW_FEW};
    size_t last = a->link->n_members - 1;
    uint64_t round = 0;
    for (size_t i = 0; i < 5; i++)
        TRY(suite_fill(a, rows[i], (double)(10 * a->index + i)));
    TRY(suite_fill(a, ROW_GRADS, (double)a->index));
    a->k = 100 + a->index;
    TRY(suite_barrier(a, 1));
    if (a->index == last)
        return suite_barrier(a, 2);
    TRY(link_adopt(a->link, last, &round));
    CHECK(round == 100 + last && a->k == 100 + a->index);
    for (size_t i = 0; i < 5; i++)
        CHECK_ROW(rows[i], 0, link_row_floats(a->link, rows[i]), (double)(10 * last + i), 0);
    CHECK_ROW(ROW_GRADS, 0, link_row_floats(a->link, ROW_GRADS), (double)a->index, 0);
    return suite_barrier(a, 2);
}

/* ---- a world's own means ---- */

static fault own_sums_are_over_all(struct agent *a)
{
    size_t n = a->link->n_members, size = link_row_floats(a->link, ROW_GRADS);
    if (!link_has_sum(a->link))
        return OK;
    TRY(suite_fill(a, ROW_GRADS, (double)a->index + 1));
    TRY(link_sum(a->link, ROW_GRADS, 100, 9000));
    CHECK_ROW(ROW_GRADS, 100, 9000, (double)(n * (n + 1)) / 2, 0);
    CHECK_ROW(ROW_GRADS, 0, 100, (double)a->index + 1, 0);
    CHECK_ROW(ROW_GRADS, 9000, size, (double)a->index + 1, 0);
    return OK;
}

static fault own_gatherings_are_of_neighbours(struct agent *a)
{
    size_t size = link_row_floats(a->link, ROW_PARAMS), degree = agent_degree(a);
    if (!link_has_gather_near(a->link))
        return OK;
    TRY(suite_fill(a, ROW_PARAMS, (double)a->index + 1));
    TRY(link_gather_near(a->link, (struct span){ROWS_PARAMS | 1u << ROW_FEW, 3, TO_END}, a->parcels));
    for (size_t i = 0; i < degree; i++) {
        CHECK_PARCEL(&a->parcels[i], ROW_PARAMS, 3, size, (double)agent_neighbour(a, i) + 1);
        CHECK_PARCEL(&a->parcels[i], ROW_FEW, 3, SUITE_FEW, 0);
        link_drop(a->link, &a->parcels[i]);
    }
    return OK;
}

const struct link_case cases_of_rows[] = {
    {.name = "rows arrive as they were when they were sent, though they are mixed afterwards",
     .says = {"Of my rows, as they are now, to a peer; returns at once."},
     .program = rows_arrive_as_they_were},
    {.name = "and though a lesson and a step write them",
     .says = {"Of my rows, as they are now, to a peer; returns at once."},
     .program = rows_arrive_though_a_lesson_writes_them},
    {.name = "spans hold what was sent and no more",
     .says = {"Every term must have these floats, its parcel must hold them", "else FAULT_USAGE"},
     .program = spans_hold_what_was_sent_and_no_more},
    {.name = "rows of other lengths travel together",
     .says = {"The floats [first, end) of each of these rows, as far as it has them",
              "Floats in each of the rows of a kind."},
     .program = rows_of_other_lengths_travel_together},
    {.name = "a sum has its terms, wherever they come from, and parcels are kept",
     .says = {"become the sum of the terms, in their order", "Parcels are kept.",
              "Its float j + shift goes into float j of the sum."},
     .program = sums_have_their_terms},
    {.name = "sums that cannot be are refused",
     .says = {"of the floats that are written none is read with a shift: else FAULT_USAGE"},
     .program = sums_that_cannot_be_are_refused},
    {.name = "a gradient is ready from its end to its beginning",
     .says = {"Waits until the floats [first, ...) of my gradient are ready; 0: the lesson is over.",
              "Times my parameters were written since my last lesson was asked for.",
              "FAULT_USAGE where there is no such number, or a lesson under way is about to change it"},
     .program = a_gradient_is_ready_from_its_end},
    {.name = "numbers are of one's rows as they are",
     .says =
         {"of my rows as they are when I ask", "FAULT_USAGE where there is no such number",
          "A gradient may be asked about in the round in which it was learnt, until a step is made with it."},
     .program = numbers_are_of_my_rows_as_they_are},
    {.name = "a number that is not finite ends the play",
     .says = {"FAULT_NUMBER where it is not finite, which ends the play"},
     .program = ask_for_what_is_infinite,
     .diverges = true},
    {.name = "an average is of both ends, and the peer takes no notice",
     .says = {"The rows of both ends become their mean, at one moment",
              "The peer's program takes no notice."},
     .program = an_average_is_of_both_ends,
     .least = 2,
     .row = {.meets_at_any_time = true}},
    {.name = "who adopts has the peer's rows, and knows its round",
     .says = {"My rows become copies of the peer's, as they are when they have travelled"},
     .program = adopted_rows_are_the_peers,
     .least = 2},
    {.name = "a sum by a world's own means is over all",
     .says = {"The floats [first, end) of a row of all that learn become their sum, by a means of the "
              "world's own"},
     .program = own_sums_are_over_all},
    {.name = "and an exchange of its own is with all neighbours, in their order",
     .says = {"All that learn give a span of their rows to their neighbours in the topology",
              "becomes what neighbour i had"},
     .program = own_gatherings_are_of_neighbours,
     .least = 3},
    {0},
};
