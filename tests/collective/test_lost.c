/* Members that die, come back or cannot be reached in the middle of a collective: everybody hears of it in
 * time and whom it concerns, nothing stays behind, and those that are left find each other and go on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "collective/collective.h"
#include "support/cast.h"

enum { MOST = 9, WORLDS = 600 };
static const double patience_s = 0.5;

struct books {
    const struct collective *algorithm;
    double died_s; /* of the one whose death is watched; 0: nobody's is */
    size_t victim;
    size_t failures, in_time;
    struct view {              /* of a member, when it came to its end */
        bool ended, as_others; /* with the rows of one that had ended before */
        uint64_t generation, origin;
        size_t n;
        uint32_t members[MOST];
    } views[MOST];
    double longest_s; /* wait */
};

/* ---- the program: means of parameters, round by round, with whoever is there ---- */

static void note_failure(struct agent *a, struct books *b, fault f)
{
    char name[32];
    b->failures++;
    if (b->died_s == 0)
        return;
    snprintf(name, sizeof name, "agent %zu ", b->victim);
    assert_int_equal(fault_kind_of(f), FAULT_PEER);
    if (!strstr(fault_text(f), name))
        fail_msg("'%s' does not name agent %zu", fault_text(f), b->victim);
    b->in_time += link_now_s(a->link) <= b->died_s + patience_s;
}

static fault one_round(struct agent *a, const struct books *b)
{
    struct group *g = agent_group(a);
    if (group_is_incomplete(g))
        return FAIL(FAULT_PEER, "somebody can be reached again");
    TRY(link_sleep(a->link, 0.001));
    return group_mean(g, b->algorithm, ROW_PARAMS, 0, TO_END);
}

static void note_end(struct agent *a, struct books *b, bool as_others)
{
    const struct group *g = agent_group(a);
    struct view *v = &b->views[a->index];
    *v = (struct view){
        .ended = true, .as_others = as_others, .generation = g->generation, .origin = g->origin, .n = g->n};
    memcpy(v->members, g->members, g->n * sizeof *g->members);
}

static fault go_on_together(struct agent *a)
{
    struct books *b = cast_of_agent(a)->ctx;
    bool as_others = !agent_goes_on(a); /* when it came back */
    while (agent_goes_on(a)) {
        fault f = one_round(a, b);
        if (f && !is_about_peers(f))
            return f;
        if (f) {
            note_failure(a, b, f);
            fault g = agent_regroup(a, fault_text(f));
            fault_drop(f);
            TRY(g);
            as_others = !agent_goes_on(a);
            continue;
        }
        TRY(agent_end_round(a));
    }
    note_end(a, b, as_others);
    return OK;
}

/* ---- the judgement ---- */

static fault kept_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    struct books *b = ((struct cast *)((struct actor *)l)->world->watcher.ctx)->ctx;
    double since = local_link.now_s(l);
    fault f = local_link.recv_rows(l, from, tag, out, sender);
    b->longest_s = fmax(b->longest_s, local_link.now_s(l) - since);
    return f;
}

static void form(struct cast *g, struct books *b, const char *text, int rounds, unsigned seed)
{
    cast_form(g, text, rounds, seed, go_on_together);
    g->ctx = b;
    g->ops.recv_rows = kept_recv_rows;
    cast_scatter(g, seed);
}

/* Of spare rows, those that messages in somebody's mail or on their way still refer to. */
static size_t rows_under_way(const struct cast *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++)
        for (const struct message *m = g->world->actors[i].mail; m; m = m->next)
            n += m->n_rows && m->rows[0]->at >= g->n;
    for (size_t i = 0; i < g->world->agenda.n; i++) {
        const struct moment *m = &g->world->agenda.heap[i];
        const struct message *message = m->kind == MOMENT_ARRIVE ? m->what : NULL;
        n += message && message->n_rows && message->rows[0]->at >= g->n;
    }
    return n;
}

static void nothing_stays_behind(const struct cast *g)
{
    size_t spare = g->run->engine->setup.n_spare - 1;
    assert_true(g->world->n_free_rows[ROW_PARAMS] + rows_under_way(g) >=
                spare); /* several may refer to one */
    for (size_t i = 0; i < g->n; i++) {
        const struct agent *a = g->world->actors[i].agent;
        for (size_t j = 0; j < a->parcel_room; j++)
            assert_null(a->parcels[j].rows);
    }
}

/* Those of one generation and origin had the same members, and have the same rows. */
static void those_who_ended_together_agree(struct cast *g, const struct books *b)
{
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct view *x = &b->views[i], *y = &b->views[j];
            if (!x->ended || !y->ended || x->as_others || y->as_others || x->generation != y->generation ||
                x->origin != y->origin)
                continue;
            assert_int_equal(x->n, y->n);
            assert_memory_equal(x->members, y->members, x->n * sizeof *x->members);
            assert_memory_equal(cast_row(g, i), cast_row(g, j), g->size * sizeof(float));
        }
}

static void whoever_ended_as_others_did_has_the_rows_of_one(struct cast *g, const struct books *b)
{
    for (size_t i = 0; i < g->n; i++) {
        size_t same = 0;
        for (size_t j = 0; b->views[i].as_others && j < g->n; j++)
            same += j != i && b->views[j].ended &&
                    memcmp(cast_row(g, i), cast_row(g, j), g->size * sizeof(float)) == 0;
        assert_true(same || !b->views[i].as_others);
    }
}

static void every_life_ended_in_a_stated_way(const struct cast *g)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct actor *a = &g->world->actors[i];
        assert_true(a->life == LIFE_DONE || (a->life == LIFE_DOWN && !a->alive));
        if (a->life == LIFE_DONE)
            assert_true(a->agent->k >= g->run->stage.rounds);
    }
}

static void judge(struct cast *g, const struct books *b)
{
    every_life_ended_in_a_stated_way(g);
    nothing_stays_behind(g);
    those_who_ended_together_agree(g, b);
    whoever_ended_as_others_did_has_the_rows_of_one(g, b);
    assert_true(b->longest_s <= patience_s * (1 + 1e-12));
}

/* ---- one death, at every moment of every algorithm ---- */

#define NET "network: {latency_ms: 1, bandwidth_mbps: 0.5, patience_s: 0.5}\n"

static void a_death_in_the_middle_is_named_by_all_the_living_in_time(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm < N_COLLECTIVES; algorithm++)
        for (size_t m = 2; m <= MOST; m++)
            for (size_t step = 0; step < 6; step++) {
                struct cast g;
                struct books b = {.algorithm = collective_rows[algorithm]};
                double takes = cost_seconds(collective_cost(b.algorithm, m, 34), 0.001, 32 / 0.5e6);
                b.victim = (step * 3 + m) % m;
                b.died_s = 0.001 + takes * (0.05 + 0.17 * (double)step);
                char *text =
                    text_of(TINY("single") "agents: %zu\n" NET "events:\n  - {at_s: %.9f, crash: %zu}\n", m,
                            b.died_s, b.victim);
                form(&g, &b, text, 3, 1);
                free(text);
                cast_play(&g);
                assert_int_equal(b.failures, m - 1);
                assert_int_equal(b.in_time, m - 1);
                for (size_t i = 0; i < m; i++)
                    assert_true(i == b.victim ? !b.views[i].ended : b.views[i].n == m - 1);
                judge(&g, &b);
                cast_close(&g);
            }
}

/* ---- back together ---- */

/* Plays twenty rounds of five members and counts those that had so many members in the end. */
static size_t play_five(int algorithm, const char *network, const char *events, size_t n, struct books *b)
{
    struct cast g;
    size_t with_n = 0;
    *b = (struct books){.algorithm = collective_rows[algorithm]};
    char *text =
        text_of(TINY("single") "agents: 5\nnetwork: {%s, patience_s: 0.5}\nevents:\n%s", network, events);
    form(&g, b, text, 20, 1);
    free(text);
    cast_play(&g);
    judge(&g, b);
    for (size_t i = 0; i < 5; i++)
        with_n += b->views[i].ended && b->views[i].n == n;
    cast_close(&g);
    return with_n;
}

static void a_member_that_returns_is_taken_in_again(void **state)
{
    (void)state;
    struct books b;
    for (int a = 0; a < N_COLLECTIVES; a++)
        for (int victim = 0; victim < 5; victim++) {
            char *events =
                text_of("  - {at_s: 0.0123, crash: %d}\n  - {at_s: 0.0301, return: %d}\n", victim, victim);
            assert_int_equal(play_five(a, "latency_ms: 0.5", events, 5, &b), 5);
            assert_true(b.failures >= 4 + 4); /* when it was gone, and when it was back */
            free(events);
        }
}

static void parts_go_on_apart_and_together_once_the_network_heals(void **state)
{
    (void)state;
    struct books b;
    static const char apart[] = "  - {at_s: 0.0123, partition: [[0, 3], [1, 2, 4]]}\n";
    char *healed = text_of("%s  - {at_s: 0.0301, heal: all}\n", apart);
    for (int a = 0; a < N_COLLECTIVES; a++) {
        assert_int_equal(play_five(a, "latency_ms: 0.5", apart, 2, &b), 2);
        assert_int_equal(b.views[0].members[1], 3);
        assert_int_equal(play_five(a, "latency_ms: 0.5", apart, 3, &b), 3);
        assert_int_equal(play_five(a, "latency_ms: 0.5", healed, 5, &b), 5);
    }
    free(healed);
}

static void one_cut_link_leaves_out_one_end_of_it_until_it_is_mended(void **state)
{
    (void)state;
    struct books b;
    static const char cut[] = "  - {at_s: 0.0123, cut: [1, 3]}\n";
    char *mended = text_of("%s  - {at_s: 0.0201, mend: [1, 3]}\n", cut);
    for (int a = 0; a < N_COLLECTIVES; a++) {
        bool meet = a != TREE && a != STAR && a != RING; /* those two, in this algorithm */
        assert_int_equal(play_five(a, "latency_ms: 0.5", cut, 4, &b), meet ? 4 : 0);
        assert_int_equal(b.views[3].n, meet ? 1 : 5);
        assert_int_equal(play_five(a, "latency_ms: 0.5", mended, 5, &b), 5);
    }
    free(mended);
}

static void where_no_message_comes_in_time_everybody_goes_on_alone(void **state)
{
    (void)state;
    struct books b;
    static const char nothing[] = "  - {at_s: 100000, heal: all}\n";
    for (int a = 0; a < N_COLLECTIVES; a++) /* seven floats take more than half a second */
        assert_int_equal(play_five(a, "bandwidth_mbps: 0.0004", nothing, 1, &b), 5);
}

/* ---- worlds of trouble ---- */

static char *random_event(struct rng *r, int m)
{
    double at_s = 0.06 * rng_uniform(r);
    int a = (int)rng_below(r, (uint64_t)m), b = (a + 1 + (int)rng_below(r, (uint64_t)m - 1)) % m;
    switch (rng_below(r, 6)) {
    case 0:
        return text_of("  - {at_s: %g, crash: [%d, %d]}\n", at_s, a, b);
    case 1:
        return text_of("  - {at_s: %g, crash: %d}\n  - {at_s: %g, return: %d}\n", at_s, a, at_s + 0.02, a);
    case 2:
        return text_of("  - {at_s: %g, cut: [%d, %d]}\n", at_s, a, b);
    case 3:
        return text_of("  - {at_s: %g, return: [%d, %d]}\n", at_s, a, b);
    case 4:
        return text_of("  - {at_s: %g, partition: [[%d], [%d]]}\n", at_s, a, b);
    default:
        return text_of("  - {at_s: %g, heal: all}\n", at_s);
    }
}

static char *random_world(struct rng *r)
{
    static const char *const networks[] = {
        "patience_s: 0.5",
        "latency_ms: 0.3, patience_s: 0.5",
        "latency_ms: 1, bandwidth_mbps: 0.5, patience_s: 0.5",
        "latency_ms: 4, bandwidth_mbps: 2, patience_s: 0.5",
    };
    static const char *const chances[] = {
        "",
        "",
        "  - random: {crash_every_s: 0.05, down_s: 0.01}\n",
        "  - random: {crash_every_s: 0.1}\n",
    };
    int m = 2 + (int)rng_below(r, MOST - 1);
    char *text = text_of(TINY("single") "agents: %d\nnetwork: {%s}\nevents:\n%s", m,
                         networks[rng_below(r, 4)], chances[rng_below(r, 4)]);
    for (size_t left = 1 + rng_below(r, 6); left; left--) {
        char *event = random_event(r, m), *longer = text_of("%s%s", text, event);
        free(text);
        free(event);
        text = longer;
    }
    return text;
}

static void worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    size_t all_down = 0, failures = 0, apart = 0, together = 0;
    for (unsigned seed = 0; seed < WORLDS; seed++) {
        struct rng r = rng_stream(seed, 0, RNG_TEST, 11);
        struct books b = {.algorithm = collective_rows[rng_below(&r, N_COLLECTIVES)]};
        struct cast g;
        char *text = *state = random_world(&r);
        form(&g, &b, text, 1 + (int)rng_below(&r, 12), seed);
        fault f = cast_go(&g);
        if (f) {
            must_fail(f, "agents are down, and none came to its end");
            all_down++;
        }
        judge(&g, &b);
        failures += b.failures;
        for (size_t i = 0; i < g.n; i++) {
            apart += b.views[i].ended && b.views[i].n < g.n;
            together += b.views[i].ended && b.views[i].n == g.n;
        }
        cast_close(&g);
        free(text);
        *state = NULL;
    }
    assert_true(failures > 500 && apart > 200 && together > 500 && all_down < WORLDS / 5);
}

static int show_the_world_that_failed(void **state)
{
    if (*state)
        print_message("%s", (const char *)*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_in_the_middle_is_named_by_all_the_living_in_time),
        cmocka_unit_test(a_member_that_returns_is_taken_in_again),
        cmocka_unit_test(parts_go_on_apart_and_together_once_the_network_heals),
        cmocka_unit_test(one_cut_link_leaves_out_one_end_of_it_until_it_is_mended),
        cmocka_unit_test(where_no_message_comes_in_time_everybody_goes_on_alone),
        cmocka_unit_test_teardown(worlds_of_trouble_come_to_an_orderly_end, show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
