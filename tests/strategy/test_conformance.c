/* What every strategy must do. A new strategy is a line in the list below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/encode.h"
#include "support/cast.h"
#include "support/trouble.h"

static const struct line {
    const char *strategy;
    bool alone;  /* one agent equals plain training, bit for bit */
    bool served; /* the loss of a server may end a run: test_ps_chaos.c */
} lines[] = {
    {"consensus", .alone = true},
    {"{kind: consensus, order: combine-then-adapt}", .alone = true},
    {"gossip", .alone = true},
    {"adpsgd", .alone = true},
    {"allreduce", .alone = true},
    {"{kind: allreduce, algorithm: halving-doubling, bucket_kb: 0.1}", .alone = true},
    {"ps", .alone = true, .served = true},
    {"{kind: ps, servers: 2}", .alone = true, .served = true},
    {"{kind: ps, mode: async}", .alone = true, .served = true},
    {"{kind: ps, mode: ssp, staleness: 2}", .alone = true, .served = true},
    {"{kind: downpour, push_every: 3, pull_every: 3}", .served = true},
    {"average", .alone = true},
    {"{kind: average, tau: end}", .alone = true},
    {"{kind: average, tau: 2, momentum: 0.5}", .alone = false},
    {"easgd", .alone = false},
    {"{kind: easgd, mode: sync, every: 2}", .alone = false},
    {"admm", .alone = false},
    {"{kind: admm, mode: async, steps: 3}", .alone = false},
};
enum { N_LINES = sizeof lines / sizeof *lines };

static void every_strategy_has_a_line(void **state)
{
    (void)state;
    for (size_t k = 0; k < strategy_kinds.n; k++) {
        const char *name = kinds_at(&strategy_kinds, k)->name;
        bool found = strcmp(name, "single") == 0;
        for (size_t i = 0; i < N_LINES && !found; i++) {
            const char *at = strstr(lines[i].strategy, name);
            char next = at ? at[strlen(name)] : 'x';
            found = at && (next == '\0' || next == ',' || next == '}');
        }
        if (!found)
            fail_msg("the strategy '%s' has no line here", name);
    }
}

/* ---- alone ---- */

static void learn_alone(struct cast *g, const char *strategy)
{
    char *text =
        text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 4}\n"
                "model: [{linear: {out: 6}}, batchnorm, relu, {dropout: {rate: 0.3}}, {linear: {out: 3}}]\n"
                "optim: {kind: adam, lr: 0.01, schedule: {warmup_epochs: 0.5}}\n"
                "engine: {kind: ref, threads: 1}\nstrategy: %s\n",
                strategy);
    cast_open(g, text, 20);
    free(text);
    cast_play(g);
}

static void one_agent_is_plain_training_where_the_method_says_so(void **state)
{
    (void)state;
    struct cast single;
    learn_alone(&single, "single");
    for (size_t i = 0; i < N_LINES; i++) {
        struct cast g;
        if (!lines[i].alone)
            continue;
        learn_alone(&g, lines[i].strategy);
        if (memcmp(cast_row(&single, 0), cast_row(&g, 0), single.size * sizeof(float)) != 0)
            fail_msg("%s: one agent is not plain training", lines[i].strategy);
        cast_close(&g);
    }
    cast_close(&single);
}

/* ---- together ---- */

static void play_wild(struct cast *g, const char *strategy, unsigned seed)
{
    char *text = text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 2}\n"
                         "model: [{linear: {out: 5}}, batchnorm, relu, {linear: {out: 3}}]\n"
                         "optim: {kind: sgd, lr: 0.05, momentum: 0.5}\nengine: {kind: ref, threads: 1}\n"
                         "strategy: %s\nagents: 5\ntopology: \"cycle:5\"\n"
                         "machines: {speed: {kind: lognormal, sigma: 0.5}, stragglers: {kind: random, "
                         "chance: 0.2, factor: 4}}\n"
                         "network: {latency_ms: 0.5, bandwidth_mbps: 5, patience_s: 0.1}\n"
                         "events: [{at_s: 0.01, crash: 2}, {at_s: 0.03, return: 2}]\n",
                         strategy);
    must(cast_try(g, text, 12, seed));
    free(text);
    cast_play(g);
}

static void the_same_seed_gives_the_same_bits_and_another_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LINES; i++) {
        struct cast one, two, other;
        play_wild(&one, lines[i].strategy, 1);
        play_wild(&two, lines[i].strategy, 1);
        play_wild(&other, lines[i].strategy, 2);
        bool differs = false;
        for (size_t a = 0; a < one.n; a++) {
            const float *row = cast_row(&one, a);
            if (memcmp(row, cast_row(&two, a), one.size * sizeof(float)) != 0)
                fail_msg("%s: agent %zu learns something else in the same world", lines[i].strategy, a);
            differs |= memcmp(row, cast_row(&other, a), one.size * sizeof(float)) != 0;
        }
        assert_true(differs && local_now_s(one.world) == local_now_s(two.world));
        cast_close(&one);
        cast_close(&two);
        cast_close(&other);
    }
}

static void agents_learn(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LINES; i++) {
        struct cast g;
        char *text =
            text_of("data: {set: {kind: blobs, classes: 3, samples: 240, test_samples: 60}, batch: 4}\n"
                    "model: logistic\noptim: {kind: sgd, lr: 0.1}\nengine: {kind: ref, threads: 1}\n"
                    "strategy: %s\nagents: 4\ntopology: \"cycle:4\"\n",
                    lines[i].strategy);
        cast_open(&g, text, 60);
        free(text);
        cast_play(&g);
        must(local_settle(g.world));
        struct exam exam = {.n = 60};
        must(g.run->engine->ops->examine(g.run->engine, &exam, 1));
        if (exam.hits < 45) /* 20 by chance */
            fail_msg("%s: only %zu of 60 are right", lines[i].strategy, exam.hits);
        cast_close(&g);
    }
}

/* ---- a member that stalls for good ---- */

static const char *const more_roles[] = {
    "{kind: ps, replicate_every: 2}",
    "{kind: ps, mode: async, replicate_every: 3}",
    "{kind: ps, servers: 2, replicate_every: 1}",
    "{kind: ps, tree: 2}",
    "{kind: allreduce, backups: 1}",
};
enum { N_MORE_ROLES = sizeof more_roles / sizeof *more_roles };

#define PATIENCE_S 0.5

static void open_for_stall(struct cast *g, const char *strategy, size_t whom)
{
    char *text =
        text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 2}\nmodel: logistic\n"
                "optim: {kind: sgd, lr: 0.05}\nengine: {kind: ref, threads: 1}\n"
                "strategy: %s\nagents: 4\ntopology: \"cycle:4\"\n"
                "network: {latency_ms: 0.1, patience_s: %g}\nevents: [{at_s: 0.02, stall: %zu}]\n",
                strategy, PATIENCE_S, whom);
    cast_open(g, text, 40);
    free(text);
}

/* Of the others each waits for the one that has stalled once, at most until it is noticed: patience. A worker
 * gives a server that is lost twice as much to come back, and the last words of others take as much again at
 * most. */
#define LATEST_S                                                                                             \
    (0.02 + 40 * 0.02 + 4 * PATIENCE_S) /* the stall; 40 rounds of a few milliseconds; patience */

static fault be_in_time(void *ctx)
{
    const struct cast *g = ctx;
    double now_s = local_now_s(g->world);
    return now_s > LATEST_S ? FAIL(FAULT_USAGE, "the others go on after %g s", now_s) : OK;
}

/* When everyone else has come to its end; or nobody could go on, which must be told with the name of who
 * stalled. */
static void end_after_stall(const char *strategy, size_t whom)
{
    struct cast g;
    char named[32];
    open_for_stall(&g, strategy, whom);
    snprintf(named, sizeof named, " %zu", whom);
    g.world->watcher.moment = be_in_time;
    fault f = cast_go(&g);
    if (f && !strstr(fault_text(f), named))
        fail_msg("%s: member %zu has stalled, but: %s", strategy, whom, fault_text(f));
    double end_s = local_now_s(g.world);
    if (end_s > 0.02 + PATIENCE_S && !cast_noted(&g, "has stalled (nothing was heard of it"))
        fail_msg("%s: nobody notices that member %zu has stalled", strategy, whom);
    fault_drop(f);
    cast_close(&g);
}

static void stall_everyone_in_turn(const char *strategy)
{
    struct cast g;
    open_for_stall(&g, strategy, 0);
    size_t n = g.run->stage.n_members;
    cast_close(&g);
    for (size_t whom = 0; whom < n; whom++)
        end_after_stall(strategy, whom);
}

static void no_wait_is_longer_than_patience_whoever_stalls(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LINES; i++)
        stall_everyone_in_turn(lines[i].strategy);
    for (size_t i = 0; i < N_MORE_ROLES; i++)
        stall_everyone_in_turn(more_roles[i]);
}

/* ---- trouble ---- */

static void worlds_of_trouble_come_to_an_orderly_end(void **state)
{
    for (size_t i = 0; i < N_LINES; i++)
        if (!lines[i].served)
            play_worlds_of_trouble(&lines[i].strategy, 1, 40, "", state);
}

/* ---- a crash, and a return ---- */

enum { ROUNDS = 60, AGENTS = 5 };
#define CRASH_S  0.0205
#define RETURN_S 0.0605

struct cost {
    double seconds;
    size_t notes, members;
};

static struct cost cost_of(const char *strategy, const char *topology, const char *events)
{
    struct cast g;
    char *text =
        text_of("data: {set: {kind: blobs, samples: 60, test_samples: 10}, batch: 2}\nmodel: logistic\n"
                "optim: {kind: sgd, lr: 0.05}\nengine: {kind: ref, threads: 1}\nstrategy: %s\n"
                "agents: %d\n%snetwork: {latency_ms: 0.1, bandwidth_mbps: 10, patience_s: %g}\n%s",
                strategy, AGENTS, topology, PATIENCE_S, events);
    must(cast_try(&g, text, ROUNDS, 1));
    free(text);
    cast_play(&g);
    struct cost cost = {local_now_s(g.world), g.n_notes, g.run->stage.n_members};
    cast_close(&g);
    return cost;
}

/* Whoever is lost costs the time it is away, and a few patiences until everyone knows; then the others go on
 * as before. Every member says at most one thing about a crash and one about a return, and so does the world.
 */
static void must_cost_little(const char *strategy, const char *topology)
{
    char *crash = text_of("events: [{at_s: %g, crash: 2}]\n", CRASH_S);
    char *both = text_of("events: [{at_s: %g, crash: 2}, {at_s: %g, return: 2}]\n", CRASH_S, RETURN_S);
    struct cost calm = cost_of(strategy, topology, ""), without = cost_of(strategy, topology, crash),
                back = cost_of(strategy, topology, both);
    free(crash);
    free(both);
    assert_int_equal(calm.notes, 0);
    if (without.seconds > calm.seconds + 3 * PATIENCE_S || without.notes > calm.members + 1)
        fail_msg("%s, %s: a crash: %g s and %zu notes, in calm %g s", strategy, topology, without.seconds,
                 without.notes, calm.seconds);
    if (back.seconds > calm.seconds + RETURN_S - CRASH_S + 3 * PATIENCE_S ||
        back.notes > 2 * (calm.members + 1))
        fail_msg("%s, %s: a crash and a return: %g s and %zu notes, in calm %g s", strategy, topology,
                 back.seconds, back.notes, calm.seconds);
}

static bool needs_topology(const char *strategy)
{
    struct cast g;
    char *text = text_of(TINY("%s") "agents: 2\n", strategy);
    fault f = cast_try(&g, text, 1, 1);
    free(text);
    if (!f)
        cast_close(&g);
    bool needs = f != NULL;
    fault_drop(f);
    return needs;
}

static void a_crash_and_a_return_cost_little_time_and_few_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LINES; i++) {
        must_cost_little(lines[i].strategy, "topology: \"cycle:5\"\n");
        must_cost_little(lines[i].strategy, "topology: \"complete:5\"\n");
        if (!needs_topology(lines[i].strategy))
            must_cost_little(lines[i].strategy, "");
    }
}

/* ---- lies ---- */

#define NO_LETTER "member 1 sent member 3 a letter that says what cannot be"
#define NO_ANSWER "member 3 sent member "

/* What one of three agents, or the helper after them, says in bytes: with four of them replaced, some left out. */
static const struct lie {
    const char *strategy;
    size_t by, at;
    uint32_t word;
    size_t cut;
    const char *words;
} lies[] = {
    {"ps", 1, 0, 1, 8, "agent 1 sent 40 bytes where agent 3 expects 48"},
    {"ps", 1, 8, UINT32_MAX, 0, NO_LETTER},
    {"ps", 1, 12, UINT32_MAX, 0, NO_LETTER},
    {"ps", 1, 44, UINT32_MAX, 0, NO_LETTER},
    {"ps", 1, 40, 0, 0, NO_LETTER},
    {"ps", 3, 12, UINT32_MAX, 0, NO_ANSWER},
    {"{kind: ps, mode: async}", 3, 12, UINT32_MAX, 0, NO_ANSWER},
    {"easgd", 1, 8, UINT32_MAX, 0, NO_LETTER},
    {"{kind: allreduce, backups: 1}", 1, 12, UINT32_MAX, 0, NO_LETTER},
    {"{kind: allreduce, backups: 1}", 3, 12, UINT32_MAX, 0, NO_ANSWER},
    {"{kind: allreduce, backups: 1}", 3, 12, 2, 0, NO_ANSWER},              /* late: who leads? */
    {"{kind: allreduce, backups: 1}", 3, 24, UINT32_MAX - 7, 0, NO_ANSWER}, /* strangers count */
    {"{kind: average, tau: 1, weights: data}", 1, 4, UINT32_MAX, 0, "agent 1 says that it has "},
    {"{kind: average, tau: 1, weights: data}", 1, 4, 0xbff00000, 0, "agent 1 says that it has "},
    {"allreduce\nevents: [{at_s: 0.0015, crash: 2}]", 1, 0, 1, 8,
     "agent 1 sent 16 bytes where agent 0 expects 24"},
};

static fault send_lie(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    const struct lie *lie = ((struct cast *)((struct actor *)l)->world->watcher.ctx)->ctx;
    unsigned char said[256];
    assert_true(n <= sizeof said);
    memcpy(said, bytes, n);
    if (l->self == lie->by) {
        struct encoder e = encode_into(said + lie->at, sizeof said - lie->at);
        encode_u32(&e, lie->word);
        n -= lie->cut;
    }
    return local_link.send(l, to, tag, said, n);
}

static void what_cannot_be_is_refused_with_the_name_of_whoever_said_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct cast g;
        struct lie lie = lies[i];
        char *text = text_of(TINY("%s") "agents: 3\n", lie.strategy);
        cast_open(&g, text, 4);
        free(text);
        g.ctx = &lie;
        g.ops.send = send_lie;
        must_fail(cast_go(&g), lie.words);
        cast_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_has_a_line),
        cmocka_unit_test(one_agent_is_plain_training_where_the_method_says_so),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_and_another_others),
        cmocka_unit_test(agents_learn),
        cmocka_unit_test(what_cannot_be_is_refused_with_the_name_of_whoever_said_it),
        cmocka_unit_test(a_crash_and_a_return_cost_little_time_and_few_words),
        cmocka_unit_test(no_wait_is_longer_than_patience_whoever_stalls),
        cmocka_unit_test_teardown(worlds_of_trouble_come_to_an_orderly_end, show_the_world_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
