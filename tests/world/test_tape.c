/* What is written on a tape and computed together has the same bits as when it is computed one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "support/cast.h"

enum { AGENTS = 6 };

/* What reached the engine. */
struct calls {
    const struct engine_ops *real;
    struct engine_ops ops; /* the engine points here while it is watched */
    size_t n, lessons, largest_lessons, updates, largest_updates, blends, largest_blends;
};

static struct calls *calls_of(struct engine *e)
{
    return (struct calls *)((char *)(uintptr_t)e->ops - offsetof(struct calls, ops));
}

static fault watched_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct calls *c = calls_of(e);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(lessons[i].replica, lessons[j].replica);
    c->n++;
    c->lessons += n;
    c->largest_lessons = n > c->largest_lessons ? n : c->largest_lessons;
    return c->real->learn(e, lessons, n);
}

static fault watched_update(struct engine *e, const struct update *updates, size_t n)
{
    struct calls *c = calls_of(e);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(updates[i].replica, updates[j].replica);
    c->n++;
    c->updates += n;
    c->largest_updates = n > c->largest_updates ? n : c->largest_updates;
    return c->real->update(e, updates, n);
}

static bool touches(const struct blend *b, enum row row, size_t at)
{
    bool found = b->row == row && (b->into == at || b->also == at);
    for (size_t i = 0; i < b->n; i++)
        found |= b->addends[i].row == row && b->addends[i].from == at;
    return found;
}

/* No blend of a call may read or write a row that another one writes. */
static fault watched_mix(struct engine *e, const struct blend *blends, size_t n)
{
    struct calls *c = calls_of(e);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (i != j) {
                assert_false(touches(&blends[j], blends[i].row, blends[i].into));
                assert_false(blends[i].also != NO_ROW && touches(&blends[j], blends[i].row, blends[i].also));
            }
    c->n++;
    c->blends += n;
    c->largest_blends = n > c->largest_blends ? n : c->largest_blends;
    return c->real->mix(e, blends, n);
}

static void watch_calls(struct engine *e, struct calls *c)
{
    *c = (struct calls){.real = e->ops, .ops = *e->ops};
    c->ops.learn = watched_learn;
    c->ops.update = watched_update;
    c->ops.mix = watched_mix;
    e->ops = &c->ops;
}

static void stop_watching(struct engine *e, const struct calls *c)
{
    e->ops = c->real;
}

/* ---- lessons of a client that needs no world ---- */

struct school {
    size_t n_samples, batch;
    double losses[AGENTS]; /* summed in the order of answers */
    uint64_t answered[AGENTS];
};

static void prepare(void *ctx, size_t agent, uint64_t lesson, struct pick *picks, uint64_t *seed)
{
    struct school *s = ctx;
    struct rng r = rng_stream(agent, 0, RNG_TEST, lesson);
    for (size_t i = 0; i < s->batch; i++)
        picks[i] = (struct pick){.sample = (uint32_t)rng_below(&r, s->n_samples)};
    *seed = rng_next(&r);
}

static fault answered(void *ctx, size_t agent, uint64_t lesson, double loss, size_t hits)
{
    struct school *s = ctx;
    (void)hits;
    assert_int_equal(lesson, s->answered[agent]);
    s->answered[agent]++;
    s->losses[agent] = s->losses[agent] * 0.75 + loss; /* tells orders apart */
    return OK;
}

static void open_group(struct cast *g)
{
    cast_open(g,
              "data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 2}\n"
              "model: [{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.2}}, {linear: {out: 3}}]\n"
              "optim: {kind: adam, lr: 0.01}\nengine: {kind: ref, threads: 1}\n"
              "strategy: consensus\nagents: 6\ntopology: cycle:6\n",
              1);
    cast_scatter(g, 3);
}

static struct school school_of(const struct cast *g)
{
    return (struct school){.n_samples = g->run->dataset->train.n, .batch = g->run->engine->setup.batch};
}

static void learn_at_once(struct cast *g, struct school *s, size_t agent, uint64_t lesson)
{
    struct pick picks[8];
    struct lesson l = {.replica = agent, .picks = picks};
    prepare(s, agent, lesson, picks, &l.seed);
    must(g->run->engine->ops->learn(g->run->engine, &l, 1));
    must(answered(s, agent, lesson, l.loss, l.hits));
}

static void must_have_equal_rows(struct cast *a, struct cast *b)
{
    const struct engine_setup *s = &a->run->engine->setup;
    float x[256], y[256];
    for (int row = 0; row < N_ROWS; row++) {
        size_t n = row_size(s, (enum row)row), rows = s->n_replicas + s->n_spare;
        assert_true(n <= 256);
        for (size_t i = 0; n && i < rows; i++) {
            must(a->run->engine->ops->read(a->run->engine, (enum row)row, i, x));
            must(b->run->engine->ops->read(b->run->engine, (enum row)row, i, y));
            assert_memory_equal(x, y, n * sizeof *x);
        }
    }
}

/* A random entry, written on the tape and done at once in the other group. */
static void random_entry(struct rng *r, struct tape *t, struct cast *plain, struct school *s,
                         uint64_t *lessons, uint64_t *steps)
{
    static const enum row equally_long[] = {ROW_PARAMS, ROW_GRADS, ROW_SLOT, ROW_SLOT + 1};
    struct engine *e = plain->run->engine;
    size_t agent = rng_below(r, AGENTS), n_rows = AGENTS + e->setup.n_spare;
    uint64_t dice = rng_below(r, 10);
    if (dice < 3) {
        must(tape_learn(t, agent, lessons[agent]));
        learn_at_once(plain, s, agent, lessons[agent]++);
    } else if (dice < 6) {
        double lr = 0.01 * rng_uniform(r);
        struct update u = {agent, lr, ++steps[agent], rng_below(r, 10), rng_below(r, 2) ? 20 : TO_END};
        must(tape_update(t, u));
        must(e->ops->update(e, &u, 1));
    } else {
        size_t n = 1 + rng_below(r, 4);
        struct addend addends[4];
        bool is_stats = rng_below(r, 4) == 0;
        struct blend b = {.row = is_stats ? ROW_STATS : equally_long[rng_below(r, 4)],
                          .into = rng_below(r, n_rows),
                          .also = NO_ROW,
                          .first = rng_below(r, 3) ? 0 : rng_below(r, 8),
                          .end = rng_below(r, 3) ? TO_END : 4 + rng_below(r, 8),
                          .addends = addends,
                          .n = n};
        if (rng_below(r, 3) == 0)
            b.also = (b.into + 1 + rng_below(r, n_rows - 1)) % n_rows;
        for (size_t i = 0; i < n; i++) {
            addends[i] = (struct addend){.weight = (float)rng_uniform(r) / (float)n,
                                         .row = is_stats ? ROW_STATS : equally_long[rng_below(r, 4)],
                                         .from = rng_below(r, n_rows)};
            if (b.end != TO_END && addends[i].row != b.row && !is_stats)
                addends[i].shift = (ptrdiff_t)rng_below(r, 5);
        }
        must(tape_blend(t, b));
        must(e->ops->mix(e, &b, 1));
    }
}

static void a_tape_gives_the_bits_of_one_by_one(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct cast taped, plain;
        struct calls calls;
        uint64_t lessons[AGENTS] = {0}, steps[AGENTS] = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 4);
        open_group(&taped);
        open_group(&plain);
        struct school a = school_of(&taped), b = school_of(&plain);
        struct tape *t;
        watch_calls(taped.run->engine, &calls);
        must(tape_new(taped.run->engine, (struct tape_client){prepare, answered, &a}, AGENTS, &t));
        for (int i = 0; i < 400; i++) {
            random_entry(&r, t, &plain, &b, lessons, steps);
            if (rng_below(&r, 60) == 0)
                must(tape_flush(t));
        }
        must(tape_flush(t));
        assert_memory_equal(a.losses, b.losses, sizeof a.losses);
        must_have_equal_rows(&taped, &plain);
        assert_true(calls.n < 400);
        tape_free(t);
        stop_watching(taped.run->engine, &calls);
        cast_close(&taped);
        cast_close(&plain);
    }
}

static void lessons_of_all_agents_are_one_call_however_they_were_asked_for(void **state)
{
    (void)state;
    struct cast g;
    struct calls calls;
    open_group(&g);
    struct school s = school_of(&g);
    struct tape *t;
    watch_calls(g.run->engine, &calls);
    must(tape_new(g.run->engine, (struct tape_client){prepare, answered, &s}, AGENTS, &t));
    for (uint64_t lesson = 0; lesson < 3; lesson++) /* three whole rounds, agent by agent */
        for (size_t agent = 0; agent < AGENTS; agent++) {
            must(tape_learn(t, agent, lesson));
            must(tape_update(t, (struct update){agent, 0.01, lesson + 1, 0, TO_END}));
        }
    assert_true(tape_is_long(t));
    assert_int_equal(calls.n, 0);
    must(tape_flush(t));
    assert_int_equal(calls.n, 6); /* a call of lessons and a call of steps for each round */
    assert_int_equal(calls.largest_lessons, AGENTS);
    assert_int_equal(calls.largest_updates, AGENTS);
    must(tape_flush(t)); /* nothing is left */
    assert_int_equal(calls.n, 6);
    tape_free(t);
    stop_watching(g.run->engine, &calls);
    cast_close(&g);
}

static void a_world_batches_the_lessons_of_a_round(void **state)
{
    (void)state;
    struct cast g;
    struct calls calls;
    cast_open(&g, TINY("consensus") "agents: 12\ntopology: torus:3x4\n", 10);
    watch_calls(g.run->engine, &calls);
    cast_play(&g);
    assert_int_equal(calls.lessons, 120);
    assert_int_equal(calls.largest_lessons, 12);
    assert_int_equal(calls.updates, 120);
    assert_int_equal(calls.largest_updates, 12);
    assert_true(calls.largest_blends > 1);
    stop_watching(g.run->engine, &calls);
    cast_close(&g);
}

static void a_silent_tape_computes_nothing(void **state)
{
    (void)state;
    struct cast g;
    struct calls calls;
    open_group(&g);
    struct school s = school_of(&g);
    struct tape *t;
    const struct addend all = {.weight = 1, .row = ROW_PARAMS, .from = 1};
    watch_calls(g.run->engine, &calls);
    must(tape_new(g.run->engine, (struct tape_client){prepare, answered, &s}, AGENTS, &t));
    tape_set_silent(t, true);
    must(tape_learn(t, 0, 0));
    must(tape_update(t, (struct update){0, 0.1, 1, 0, TO_END}));
    must(tape_blend(
        t, (struct blend){.row = ROW_PARAMS, .also = NO_ROW, .end = TO_END, .addends = &all, .n = 1}));
    assert_false(tape_is_long(t));
    must(tape_flush(t));
    assert_int_equal(calls.n, 0);
    tape_set_silent(t, false);
    must(tape_learn(t, 0, 0));
    must(tape_flush(t));
    assert_int_equal(calls.n, 1);
    tape_free(t);
    stop_watching(g.run->engine, &calls);
    cast_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tape_gives_the_bits_of_one_by_one),
        cmocka_unit_test(lessons_of_all_agents_are_one_call_however_they_were_asked_for),
        cmocka_unit_test(a_world_batches_the_lessons_of_a_round),
        cmocka_unit_test(a_silent_tape_computes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
