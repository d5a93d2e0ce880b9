/* Who is slow, judged from numbers as the methods make them, and the sentence about it. */
#include "record/run.h"

#include <math.h>

#include "record/scratch.h"

enum { MOST = 8 };

struct group { /* of waiting: the agents' first, the helpers' after them */
    double waiting[MOST], waited_for[MOST], by_helpers[MOST];
    size_t agents, members;
};

static struct waiting judged(const struct group *g)
{
    struct waiting w = {
        .waiting_s = g->waiting,
        .waited_for_s = g->waited_for,
        .n_agents = g->agents,
        .n_members = g->members,
        .virtual_s = 100,
        .helper = "server",
        .longest = NO_MEMBER,
        .link = {NO_MEMBER, NO_MEMBER},
    };
    waiting_judge(&w, g->by_helpers, g->waiting + g->agents);
    return w;
}

static void must_say(const struct waiting *w, const char *expected)
{
    char *text;
    assert_ok(waiting_sentence(w, &text));
    assert_string_equal(text, expected);
    free(text);
}

static void whoever_is_waited_for_and_does_not_wait_is_slow(void **state)
{
    (void)state;
    struct group g = {{9, 8, 9, 0}, {4, 0, 4, 18}, {0}, 4, 4};
    struct waiting w = judged(&g);
    assert_true(w.most == 3 && w.slowest == 3);
    assert_true(fabs(waiting_share(&w) - 0.065) < 1e-12);
    w.longest = 2;
    w.longest_s = 9;
    must_say(&w, "others waited 18 s for agent 3, most of all agent 2 (9 s)");
}

/* On a ring each waits for the one before it, which waits as well: all are waited for alike but for the slow
 * one's predecessor. */
static void the_slow_one_of_a_ring_is_found_among_those_waited_for_alike(void **state)
{
    (void)state;
    struct group g = {{7, 7, 7, 0.1}, {7, 7, 0.1, 7}, {0}, 4, 4};
    struct waiting w = judged(&g);
    assert_true(w.most == 3 && w.slowest == 3);
    must_say(&w, "others waited 7 s for agent 3");
}

/* The workers wait for the server, and the server waits for the slow worker. */
static void behind_a_server_that_waits_stands_the_slow_worker(void **state)
{
    (void)state;
    struct group g = {{7, 7, 7, 0, 8}, {0, 0, 0, 0, 21}, {1, 0, 0, 7, 0}, 4, 5};
    struct waiting w = judged(&g);
    assert_true(w.most == 4 && w.slowest == 3);
    w.longest = 0;
    w.longest_s = 7;
    must_say(&w, "others waited 21 s for server 0, most of all agent 0 (7 s); agent 3 hardly waited itself");
}

static void a_server_whose_card_is_busy_is_slow_itself(void **state)
{
    (void)state;
    struct group g = {{7, 7, 7, 7, 0.2}, {0, 0, 0, 0, 28}, {0.05, 0.05, 0.05, 0.05, 0}, 4, 5};
    struct waiting w = judged(&g);
    assert_true(w.most == 4 && w.slowest == 4);
}

static void where_all_wait_alike_it_is_the_links(void **state)
{
    (void)state;
    struct group g = {{5, 6, 6, 5}, {5, 6, 6, 5}, {0}, 4, 4};
    struct waiting w = judged(&g);
    assert_true(w.most == 1 && w.slowest == NO_MEMBER);
    w.link[0] = 1, w.link[1] = 2, w.link_s = 6.5;
    must_say(&w, "others waited 6 s for agent 1; the slowest link is that of agent 1 and agent 2 (6.5 s)");
}

static void where_nobody_waits_nobody_is_slow(void **state)
{
    (void)state;
    struct group g = {{0}, {0}, {0}, 4, 4};
    struct waiting w = judged(&g);
    assert_true(w.most == NO_MEMBER && w.slowest == NO_MEMBER && waiting_share(&w) == 0);
    must_say(&w, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_waited_for_and_does_not_wait_is_slow),
        cmocka_unit_test(the_slow_one_of_a_ring_is_found_among_those_waited_for_alike),
        cmocka_unit_test(behind_a_server_that_waits_stands_the_slow_worker),
        cmocka_unit_test(a_server_whose_card_is_busy_is_slow_itself),
        cmocka_unit_test(where_all_wait_alike_it_is_the_links),
        cmocka_unit_test(where_nobody_waits_nobody_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
