/* peers.c - time, rounds and the others: who is silent, absent, gone, back, or at its end. */
#include "link/suite.h"

/* ---- time ---- */

static fault sleeping_takes_its_time(struct agent *a)
{
    double since = link_now_s(a->link);
    TRY(link_sleep(a->link, 0.02));
    CHECK(link_now_s(a->link) >= since + 0.02 * (1 - 1e-9));
    CHECK(a->link->counts.waiting_s == 0); /* for nobody */
    return OK;
}

/* As long as it takes: somebody else waits out its patience first. */
static fault hear_at_last(struct agent *a, size_t from, uint64_t tag)
{
    char byte;
    fault f = FAIL(FAULT_TIMEOUT, "not yet");
    for (int i = 0; i < 20 && f && fault_kind_of(f) == FAULT_TIMEOUT; i++) {
        fault_drop(f);
        f = link_recv(a->link, from, tag, &byte, 1, NULL);
    }
    return f;
}

/* The last member waits for the first in vain; the others have to wait for it. */
static fault a_wait_ends_with_patience(struct agent *a)
{
    char byte = 'x';
    size_t last = a->link->n_members - 1;
    if (a->index == last) {
        double since = link_now_s(a->link);
        CHECK_FAULT(link_recv(a->link, 0, 1, &byte, 1, NULL), FAULT_TIMEOUT, "s for agent 0");
        CHECK(link_now_s(a->link) - since >= SUITE_PATIENCE_S);
        CHECK(a->link->counts.waiting_s >= SUITE_PATIENCE_S);
        for (size_t i = 0; i < last; i++)
            TRY(link_send(a->link, i, 2, &byte, 1));
        return OK;
    }
    return hear_at_last(a, last, 2);
}

/* The first waits in vain, and then for what was sent after that. */
static fault it_is_never_too_late(struct agent *a)
{
    char byte = 'x';
    if (a->index == 1) {
        TRY(hear_at_last(a, 0, 2));
        return link_send(a->link, 0, 1, &byte, 1);
    }
    if (a->index)
        return OK;
    CHECK_FAULT(link_recv(a->link, 1, 1, &byte, 1, NULL), FAULT_TIMEOUT, "s for agent 1");
    TRY(link_send(a->link, 1, 2, &byte, 1));
    return hear_at_last(a, 1, 1);
}

#define STALL_PATIENCE_S (2 * SUITE_PATIENCE_S)

/* The last one's machine stalls, for less than anyone's patience. */
static fault who_stalls_for_a_while_is_waited_for(struct agent *a)
{
    char byte = 'x';
    size_t last = a->link->n_members - 1;
    TRY(suite_barrier(a, 1));
    if (a->index == last) {
        TRY(suite_be_absent(a, 0.4 * STALL_PATIENCE_S));
        for (size_t i = 0; i < last; i++)
            TRY(link_send(a->link, i, 2, &byte, 1));
    } else {
        TRY(link_recv(a->link, last, 2, &byte, 1, NULL));
        CHECK(link_can_reach(a->link, last));
    }
    return OK;
}

/* ---- the others ---- */

static fault who_is_there_can_be_reached(struct agent *a)
{
    for (size_t i = 0; i < a->link->n_members; i++)
        CHECK(link_can_reach(a->link, i) && link_takes_part(a->link, i, a->k));
    return suite_barrier(a, 1);
}

/* The last one sends and is at its end; nothing more will come, and what it sent before is there. */
static fault who_has_ended_has_said_all(struct agent *a)
{
    size_t last = a->link->n_members - 1;
    uint64_t number = 7;
    if (a->index == last) {
        for (size_t i = 0; i < last; i++)
            TRY(link_send(a->link, i, 1, &number, sizeof number));
        return OK;
    }
    while (!link_has_ended(a->link, last))
        TRY(link_sleep(a->link, 1e-3));
    fault f = link_recv(a->link, last, 2, &number, sizeof number, NULL);
    CHECK(f && is_about_peers(f));
    fault_drop(f);
    TRY(link_recv(a->link, last, 1, &number, sizeof number, NULL));
    CHECK(number == 7);
    return OK;
}

/* The last one goes down when all have met. What it sent before is here, and nothing more will come. */
static fault who_is_gone_is_named(struct agent *a)
{
    size_t last = a->link->n_members - 1;
    char byte = 'x', words[32];
    TRY(link_send(a->link, 0, 4, &byte, 1));
    TRY(suite_barrier(a, 1));
    if (a->index == last)
        return suite_fall(a);
    snprintf(words, sizeof words, "agent %zu ", last);
    fault f = OK;
    for (int i = 0; i < 20 && !(f && fault_kind_of(f) == FAULT_PEER); i++) {
        fault_drop(f);
        f = link_recv(a->link, last, 2, &byte, 1, NULL);
    }
    CHECK_FAULT(f, FAULT_PEER, words);
    CHECK(!link_can_reach(a->link, last) && !link_takes_part(a->link, last, a->k) &&
          !link_has_ended(a->link, last));
    CHECK_FAULT(link_send(a->link, last, 3, &byte, 1), FAULT_PEER, words);
    CHECK_FAULT(link_send_rows(a->link, last, 3, whole(ROWS_PARAMS)), FAULT_PEER, words);
    CHECK_FAULT(link_recv_rows(a->link, last, 3, &a->parcels[0], NULL), FAULT_PEER, words);
    if (a->index == 0)
        TRY(link_recv(a->link, last, 4, &byte, 1, NULL));
    for (size_t i = 0; i < last; i++) /* those who are left go on */
        TRY(link_send(a->link, i, 5, &byte, 1));
    for (size_t i = 0; i < last; i++)
        TRY(link_recv(a->link, i, 5, &byte, 1, NULL));
    return OK;
}

/* The last one goes down, and comes back where its machine does: its program begins again. */
static fault who_comes_back_can_be_reached_again(struct agent *a)
{
    size_t last = a->link->n_members - 1;
    char byte = 'x';
    if (a->index == last && !a->has_been_down)
        return suite_fall(a);
    if (a->index == last) {
        for (size_t i = 0; i < last; i++)
            TRY(link_send(a->link, i, 6, &byte, 1));
        return OK;
    }
    while (link_can_reach(a->link, last))
        TRY(link_sleep(a->link, 1e-2));
    if (!link_may_return(a->link, last))
        return OK;
    while (!link_can_reach(a->link, last))
        TRY(link_sleep(a->link, 1e-2));
    return link_recv(a->link, last, 6, &byte, 1, NULL);
}

/* ---- rounds ---- */

static fault shared_rounds_are_taken_once_each(struct agent *a)
{
    uint64_t ended, before_it = 0, n = 0;
    while (link_take_round(a->link, &ended)) {
        CHECK(ended >= before_it);
        before_it = ended;
        TRY(link_sleep(a->link, a->index == 0 ? 1e-3 : 1e-4)); /* at very different pace */
        a->k++;
        TRY(link_end_round(a->link));
        n++;
    }
    CHECK(!link_take_round(a->link, &ended));
    TRY(link_send(a->link, 0, 1, &n, sizeof n));
    uint64_t sum = 0;
    for (size_t i = 0; a->index == 0 && i < a->link->n_members; i++) {
        TRY(link_recv(a->link, i, 1, &n, sizeof n, NULL));
        sum += n;
    }
    CHECK(a->index || sum == a->stage->rounds * a->link->n_members);
    return OK;
}

static fault all_rounds_are_counted(struct play *p)
{
    CHECK(session_totals(p->run).ended == p->run->stage.rounds * p->n);
    return OK;
}

static fault nobody_goes_on_after_the_end(struct agent *a)
{
    double since = link_now_s(a->link);
    TRY(suite_barrier(a, 1));
    TRY(link_sleep(a->link, 0.01));
    CHECK(!link_others_go_on(a->link, since)); /* nobody has ended a round */
    TRY(suite_barrier(a, 2));
    link_skip_rounds(a->link, a->stage->rounds - a->k);
    a->k = a->stage->rounds;
    return OK;
}

const struct link_case cases_of_peers[] = {
    {.name = "sleeping takes its time, and is no waiting",
     .says = {"The verbs that take time", "for peers; virtual in a world with a virtual clock"},
     .program = sleeping_takes_its_time},
    {.name = "a wait for a silent peer ends with patience and names it",
     .says = {"Every wait has a deadline, the world's patience", "a silent one FAULT_TIMEOUT"},
     .program = a_wait_ends_with_patience,
     .least = 2,
     .patience_s = SUITE_PATIENCE_S},
    {.name = "a message that comes after patience is not lost",
     .says = {"What comes after that is not lost: one may wait again."},
     .program = it_is_never_too_late,
     .least = 2,
     .patience_s = SUITE_PATIENCE_S},
    {.name = "who stalls for less than patience is waited for",
     .says = {"Every wait has a deadline, the world's patience"},
     .program = who_stalls_for_a_while_is_waited_for,
     .least = 2,
     .patience_s = STALL_PATIENCE_S},
    {.name = "who is there can be reached and takes part",
     .says = {"The peer is alive and can be reached from here, as far as is known.",
              "The peer is alive, can be reached from here, and takes part in round k."},
     .program = who_is_there_can_be_reached},
    {.name = "who has ended has said all",
     .says = {"The peer's program is known to have come to its end."},
     .program = who_has_ended_has_said_all,
     .least = 2,
     .patience_s = SUITE_PATIENCE_S},
    {.name = "who is gone is named, to all who deal with it",
     .says = {"a peer known to be gone gives FAULT_PEER with its name",
              "FAULT_PEER when it is known to be gone.",
              "One's own machine going down is FAULT_CRASH: that one is passed up by everyone"},
     .program = who_is_gone_is_named,
     .least = 3,
     .script = "events: [{at_s: 0.1, crash: [%zu]}]\n",
     .one_falls = true},
    {.name = "who comes back can be reached again",
     .says = {"A peer that cannot be reached may come back.",
              "ends the agent's program until the machine returns"},
     .program = who_comes_back_can_be_reached_again,
     .least = 3,
     .script = "events: [{at_s: 0.1, crash: [%zu]}, {at_s: 0.5, return: [%zu]}]\n",
     .one_falls = true},
    {.name = "rounds that all share are taken once each",
     .says = {"Takes the next of the rounds that all share, and says how many all had ended by then; false: "
              "none is left.",
              "A round of mine is over: it is counted"},
     .program = shared_rounds_are_taken_once_each,
     .row = {.asynchronous = true},
     .look = all_rounds_are_counted},
    {.name = "rounds that are left out count as ended, and nobody goes on",
     .says = {"So many rounds of mine are left out, and count as ended.",
              "Others are known to have ended rounds since then, on the clock of now_s."},
     .program = nobody_goes_on_after_the_end},
    {0},
};
