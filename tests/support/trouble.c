/* trouble.c - see trouble.h. */
#include "support/trouble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "support/cast.h"
#include "support/worlds.h"

enum { MOST_AGENTS = 8, MOST_ROUNDS = 12, MOST_MOMENTS = 200000 };
#define LONGEST_S 0.1 /* of patience: a minute has ten thousand cuts in some worlds */

/* A world that goes on for ever is found out. */
static fault count_moments(void *ctx)
{
    struct cast *g = ctx;
    unsigned *moments = g->ctx;
    if (++*moments > MOST_MOMENTS)
        return FAIL(FAULT_USAGE, "the world does not come to its end");
    return OK;
}

static void every_life_ended_in_a_stated_way(const struct cast *g)
{
    const struct stage *s = &g->run->stage;
    size_t done = 0;
    for (size_t i = 0; i < s->n_members; i++) {
        const struct actor *a = &g->world->actors[i];
        assert_true(a->life == LIFE_DONE || (a->life == LIFE_DOWN && !a->alive));
        done += a->life == LIFE_DONE && i < g->n;
        if (a->life == LIFE_DONE && i < g->n && !s->asynchronous)
            assert_true(a->agent->k >= s->rounds);
    }
    if (done && s->asynchronous)
        assert_true(session_totals(g->run).begun >= s->rounds * s->n_agents);
}

struct remains { /* messages in the mail and under way, and the spare rows that they hold */
    uint64_t messages;
    size_t n_rows[N_ROWS];
    bool held[N_ROWS][512];
};

static void count_message(struct remains *r, const struct cast *g, const struct message *m)
{
    r->messages++;
    for (size_t i = 0; i < m->n_rows; i++) {
        const struct snapshot *s = m->rows[i];
        if (s->at < g->run->stage.n_members)
            continue;
        assert_true(s->at < 512);
        r->n_rows[s->row] += !r->held[s->row][s->at];
        r->held[s->row][s->at] = true;
    }
}

void no_message_was_lost_or_doubled(const struct cast *g)
{
    struct remains r = {0};
    struct link_counts sum = cast_counts(g);
    for (size_t i = 0; i < g->run->stage.n_members; i++)
        for (const struct message *m = g->world->actors[i].mail; m; m = m->next)
            count_message(&r, g, m);
    for (size_t i = 0; i < g->world->agenda.n; i++) {
        const struct moment *m = &g->world->agenda.heap[i];
        if (m->kind == MOMENT_ARRIVE)
            count_message(&r, g, m->what);
        r.messages += m->kind == MOMENT_AVERAGE ? 2 : m->kind == MOMENT_ADOPT;
    }
    assert_int_equal(sum.messages, sum.received + sum.lost + sum.unread + r.messages);
    for (enum row row = 0; row < g->run->engine->setup.rows.n; row++)
        assert_int_equal(g->world->n_free_rows[row] + r.n_rows[row], g->run->engine->setup.n_spare - 1);
}

struct trouble play_worlds_of_trouble(const char *const *strategies, size_t n_strategies, unsigned n_worlds,
                                      const char *words, void **state)
{
    struct trouble seen = {0};
    for (unsigned seed = 0; seed < n_worlds; seed++) {
        struct rng r = rng_stream(seed, 0, RNG_TEST, 7);
        char *text = *state = random_world(&r, strategies, n_strategies, MOST_AGENTS);
        struct cast g;
        unsigned moments = 0;
        must(cast_try(&g, text, 1 + (int)rng_below(&r, MOST_ROUNDS), seed));
        g.ctx = &moments;
        g.world->watcher.moment = count_moments;
        if (g.run->experiment->network.patience_s > LONGEST_S)
            g.run->experiment->network.patience_s = LONGEST_S;
        fault f = cast_go(&g);
        bool noted = cast_noted(&g, words), down = f != OK;
        if (f)
            must_fail(f, "agents are down, and none came to its end");
        seen.all_down += down;
        seen.noted += noted;
        seen.went_on += noted && !down;
        every_life_ended_in_a_stated_way(&g);
        no_message_was_lost_or_doubled(&g);
        cast_close(&g);
        free(text);
        *state = NULL;
    }
    return seen;
}

int show_the_world_that_failed(void **state)
{
    if (*state)
        print_message("%s", (const char *)*state);
    return 0;
}
