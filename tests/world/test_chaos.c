/* A thousand small worlds of unequal machines, thin wires, crashes, returns, cuts and partitions.
 *
 * Each is played to its end by consensus, gossip or adpsgd under a wrapper that keeps books of its own: who
 * wrote whose parameters when, what was sent and received, how long each wait took. In the end the books must
 * agree with the world's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "experiment/machines.h"
#include "support/cast.h"
#include "support/worlds.h"

enum { MOST_AGENTS = 8, MOST_ROUNDS = 12, WORLDS = 1000 };

/* ---- the books ---- */

struct books {
    uint64_t writes[MOST_AGENTS], at_lesson[MOST_AGENTS];
    uint64_t stale_sum[MOST_AGENTS], stale_most[MOST_AGENTS], steps[MOST_AGENTS];
    uint32_t sent[MOST_AGENTS][MOST_AGENTS][MOST_ROUNDS + 1];
    uint32_t received[MOST_AGENTS][MOST_AGENTS][MOST_ROUNDS + 1];
    double patience_s, longest_s;
};

static struct books *books_of(const struct link *l)
{
    struct cast *g = ((const struct actor *)l)->world->watcher.ctx;
    return g->ctx;
}

/* What an average or an adoption spends on the agent's own memory, each row so many times read or written. */
static double moving_s(struct link *l, row_set rows, double times)
{
    const struct actor *a = actor_of(l);
    return machine_memory_s(&a->world->stage->experiment->machines, a->machines->speed,
                            times * (double)actor_floats(a, 0, whole(rows)) * sizeof(float));
}

static fault waited(struct link *l, double since, fault f)
{
    struct books *b = books_of(l);
    b->longest_s = fmax(b->longest_s, local_link.now_s(l) - since);
    return f;
}

static fault kept_learn(struct link *l, uint64_t lesson)
{
    struct books *b = books_of(l);
    b->at_lesson[l->self] = b->writes[l->self]; /* the lesson sees the row as it is when it is asked for */
    return local_link.learn(l, lesson);
}

static fault kept_update(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    struct books *b = books_of(l);
    uint64_t stale = b->writes[l->self] - b->at_lesson[l->self];
    b->stale_sum[l->self] += stale;
    b->stale_most[l->self] = stale > b->stale_most[l->self] ? stale : b->stale_most[l->self];
    b->steps[l->self]++;
    fault f = local_link.update(l, first, end, lr, t);
    b->writes[l->self] += f == OK;
    return f;
}

static fault kept_send(struct link *l, size_t to, uint64_t tag, struct span span)
{
    fault f = local_link.send_rows(l, to, tag, span);
    books_of(l)->sent[l->self][to][tag] += f == OK;
    return f;
}

static fault kept_recv(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender)
{
    double since = local_link.now_s(l);
    fault f = local_link.recv_rows(l, from, tag, out, sender);
    books_of(l)->received[from][l->self][tag] += f == OK;
    return waited(l, since, f);
}

static fault kept_mix(struct link *l, enum row into, size_t first, size_t end, const struct term *terms,
                      size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += terms[i].weight;
    assert_true(fabs(sum - 1) < 1e-12);
    fault f = local_link.mix(l, into, first, end, terms, n);
    books_of(l)->writes[l->self] += into == ROW_PARAMS && f == OK;
    return f;
}

static fault kept_average(struct link *l, size_t peer, row_set rows)
{
    double since = local_link.now_s(l) + moving_s(l, rows, 5);
    fault f = local_link.average(l, peer, rows);
    books_of(l)->writes[l->self] += f == OK;
    books_of(l)->writes[peer] += f == OK;
    return waited(l, since, f);
}

static fault kept_adopt(struct link *l, size_t peer, uint64_t *round)
{
    double since =
        local_link.now_s(l) + moving_s(l, ROWS_PARAMS | ROWS_STATS | ROWS_SLOTS | ROWS_KEPT, 2);
    fault f = local_link.adopt(l, peer, round);
    books_of(l)->writes[l->self] += f == OK;
    return waited(l, since, f);
}

static void keep_books(struct cast *g, struct books *b)
{
    g->ctx = b;
    b->patience_s = g->run->experiment->network.patience_s;
    g->ops.learn = kept_learn;
    g->ops.update = kept_update;
    g->ops.send_rows = kept_send;
    g->ops.recv_rows = kept_recv;
    g->ops.mix = kept_mix;
    g->ops.average = kept_average;
    g->ops.adopt = kept_adopt;
}

static const char *const strategies[] = {
    "consensus",
    "{kind: consensus, order: combine-then-adapt}",
    "{kind: consensus, every: 2, mix_momentum: true}",
    "gossip",
    "{kind: gossip, pairs: 4, mix_momentum: true}",
    "gossip",
    "adpsgd",
    "{kind: adpsgd, every: 2, mix_momentum: true}",
    "adpsgd",
};
enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

/* ---- the judgement ---- */

/* What is in the mail and under way; and the spare rows all that refers to. */
struct remains {
    uint64_t messages;
    size_t n_rows[N_ROWS];
    bool held[N_ROWS][256];
};

static void count_message(struct remains *r, const struct cast *g, const struct message *m)
{
    r->messages++;
    for (size_t i = 0; i < m->n_rows; i++) {
        const struct snapshot *s = m->rows[i];
        if (s->at < g->n)
            continue;
        assert_true(s->at < 256);
        r->n_rows[s->row] += !r->held[s->row][s->at];
        r->held[s->row][s->at] = true;
    }
}

static struct remains remains_of(const struct cast *g)
{
    struct remains r = {0};
    for (size_t i = 0; i < g->n; i++)
        for (const struct message *m = g->world->actors[i].mail; m; m = m->next)
            count_message(&r, g, m);
    for (size_t i = 0; i < g->world->agenda.n; i++) {
        const struct moment *m = &g->world->agenda.heap[i];
        if (m->kind == MOMENT_ARRIVE)
            count_message(&r, g, m->what);
        r.messages += m->kind == MOMENT_AVERAGE ? 2 : m->kind == MOMENT_ADOPT;
    }
    return r;
}

static void no_message_was_lost_or_doubled(const struct cast *g, const struct books *b)
{
    struct link_counts sum = cast_counts(g);
    struct remains r = remains_of(g);
    assert_int_equal(sum.messages, sum.received + sum.lost + sum.unread + r.messages);
    for (enum row row = 0; row < g->run->engine->setup.rows.n; row++)
        assert_int_equal(g->world->n_free_rows[row] + r.n_rows[row], g->run->engine->setup.n_spare - 1);
    for (size_t from = 0; from < g->n; from++)
        for (size_t to = 0; to < g->n; to++)
            for (size_t tag = 0; tag <= MOST_ROUNDS; tag++)
                assert_true(b->received[from][to][tag] <= b->sent[from][to][tag]);
}

static void every_life_ended_in_a_stated_way(const struct cast *g)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct actor *a = &g->world->actors[i];
        assert_true(a->life == LIFE_DONE || (a->life == LIFE_DOWN && !a->alive));
        if (a->life == LIFE_DONE && !g->run->stage.asynchronous)
            assert_true(a->agent->k >= g->run->stage.rounds);
    }
}

static void staleness_is_as_measured(const struct cast *g, const struct books *b)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct staleness *s = &g->run->agents[i].staleness;
        assert_int_equal(s->sum, b->stale_sum[i]);
        assert_int_equal(s->most, b->stale_most[i]);
        assert_int_equal(s->n, b->steps[i]);
        assert_int_equal(g->world->actors[i].writes, b->writes[i]);
    }
}

struct history { /* over all worlds: that the chaos was one */
    uint64_t down, stale, lost, unread, late, all_down, without, partner, back;
};

static void judge(struct cast *g, const struct books *b, fault f, struct history *h)
{
    if (f) {
        assert_int_equal(fault_kind_of(f), FAULT_PEER);
        must_fail(f, "agents are down, and none came to its end");
        h->all_down++;
    }
    every_life_ended_in_a_stated_way(g);
    no_message_was_lost_or_doubled(g, b);
    staleness_is_as_measured(g, b);
    assert_true(b->longest_s <= b->patience_s * (1 + 1e-12) + 1e-12);
    for (size_t i = 0; i < g->n; i++) {
        h->down += g->world->actors[i].life == LIFE_DOWN;
        h->stale += b->stale_sum[i];
        h->lost += local_counts(g->world, i).lost;
        h->unread += local_counts(g->world, i).unread;
    }
    h->late += cast_noted(g, "in vain");
    h->without += cast_noted(g, "without:");
    h->partner += cast_noted(g, "partner:");
    h->back += cast_noted(g, "is back with the parameters of");
}

static void a_thousand_worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    struct history h = {0};
    for (unsigned seed = 0; seed < WORLDS; seed++) {
        struct rng r = rng_stream(seed, 0, RNG_TEST, 5);
        char *text = *state = random_world(&r, strategies, N_STRATEGIES, MOST_AGENTS);
        struct cast g;
        struct books b = {0};
        must(cast_try(&g, text, 1 + (int)rng_below(&r, MOST_ROUNDS), seed));
        keep_books(&g, &b);
        judge(&g, &b, cast_go(&g), &h);
        cast_close(&g);
        free(text);
        *state = NULL;
    }
    assert_true(h.down > 200 && h.stale > 1000 && h.lost > 200 && h.unread > 100);
    assert_true(h.late > 50 && h.without > 50 && h.partner > 50 && h.back > 50 && h.all_down > 5);
    assert_true(h.all_down < WORLDS / 5);
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
        cmocka_unit_test_teardown(a_thousand_worlds_of_trouble_come_to_an_orderly_end,
                                  show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
