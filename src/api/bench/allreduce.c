/* allreduce.c - `veche bench allreduce`: how long a sum over all agents takes on a network, by every
 * algorithm.
 *
 * All agents begin a sum at one moment of virtual time, lower ranks first, and the last to be done ends it.
 * Time on a network depends on the product of floats and seconds a float only: spans longer than the network
 * used here are played shorter on a thinner wire, which comes to the same but for the rounding of shares.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/bench/bench.h"
#include "api/registry.h"
#include "api/session.h"
#include "base/text.h"
#include "collective/collective.h"

struct allreduce_bench {
    int world;
    int64_t agents, floats;
    double latency_ms, bandwidth_mbps;
};

static const char *const worlds[] = {"local", "mpi", NULL};

static const struct field fields[] = {
    CHOICE_FIELD(struct allreduce_bench, world, "local", worlds,
                 "virtual time on a network, or real time between ranks"),
    INT_FIELD(struct allreduce_bench, agents, "16", 1, 1024, "that sum"),
    INT_FIELD(struct allreduce_bench, floats, "1000000", 1, 1e12, "each of them has"),
    REAL_FIELD(struct allreduce_bench, latency_ms, "1", 0, 1e9, "of every wire"),
    REAL_FIELD(struct allreduce_bench, bandwidth_mbps, "1000", 1e-6, 1e9, "of every card, in each direction"),
};

/* With 272,386 parameters. */
static const char form[] = "name: bench-allreduce\n"
                           "data: {set: {kind: blobs, classes: 2, features: 16, samples: 2000}, batch: 1}\n"
                           "model: [{linear: {out: 512}}, {linear: {out: 512}}, {linear: {out: 2}}]\n"
                           "optim: {kind: sgd, lr: 0.1}\n"
                           "agents: %lld\n"
                           "strategy: single\n"
                           "engine: null\n"
                           "network: {latency_ms: %.17g, bandwidth_mbps: %.17g, patience_s: 1e12}\n"
                           "train: {epochs: 1, evaluate_every: never, checkpoint_every: never}\n";
enum { MOST_FLOATS = 1 << 18 };

/* ---- the program ---- */

struct trial { /* what the agents share */
    size_t floats;
    double apart_s; /* from the beginning of one sum to that of the next: a power of two */
    struct timing {
        double seconds;
        uint64_t messages, bytes; /* sent by the busiest */
    } timings[N_COLLECTIVES];
};

/* At this moment, in the order of ranks; these times are exact in binary. */
static fault wake_together(struct agent *a, double at_s, double apart_s)
{
    double early = at_s - apart_s / 4 + apart_s * (double)a->index / (1 << 20);
    TRY(link_sleep(a->link, early - link_now_s(a->link)));
    return link_sleep(a->link, at_s - early);
}

static fault sum_once(struct agent *a, const struct collective *c, size_t floats, struct timing *o)
{
    struct link_counts before = a->link->counts;
    double began = link_now_s(a->link);
    TRY(group_sum(agent_group(a), c, ROW_PARAMS, 0, floats));
    uint64_t messages = a->link->counts.messages - before.messages,
             bytes = a->link->counts.bytes - before.bytes;
    o->seconds = fmax(o->seconds, link_now_s(a->link) - began);
    o->messages = messages > o->messages ? messages : o->messages;
    o->bytes = bytes > o->bytes ? bytes : o->bytes;
    return OK;
}

static fault sum_by_all(struct agent *a)
{
    struct trial *t = a->stage->shared;
    for (size_t i = 0; i < N_COLLECTIVES; i++) {
        TRY(wake_together(a, t->apart_s * (double)(i + 1), t->apart_s));
        TRY(sum_once(a, collective_rows[i], t->floats, &t->timings[i]));
    }
    return OK;
}

static const struct strategy_row program = {.run = sum_by_all, .forms_group = true};
static const struct kind kind = {.name = "bench", .row = &program};

/* ---- figures ---- */

static double predicted_s(const struct allreduce_bench *s, size_t i)
{
    struct cost c = collective_cost(collective_rows[i], (size_t)s->agents, (size_t)s->floats);
    return cost_seconds(c, s->latency_ms / 1000, 32 / (s->bandwidth_mbps * 1e6));
}

static json_t *figures_of(const struct allreduce_bench *s, const struct trial *t, size_t i)
{
    double scale = (double)s->floats / (double)t->floats;
    return json_pack("{s:s, s:f, s:f, s:I, s:f}", "algorithm", collective_names[i], "seconds",
                     t->timings[i].seconds, "predicted_s", predicted_s(s, i), "messages",
                     (json_int_t)t->timings[i].messages, "megabytes",
                     (double)t->timings[i].bytes * scale / 1e6);
}

static fault print(const struct allreduce_bench *s, const struct trial *t, char **json)
{
    size_t fastest = 0;
    json_t *list = json_array();
    for (size_t i = 0; list && i < N_COLLECTIVES; i++) {
        if (json_array_append_new(list, figures_of(s, t, i)) != 0) {
            json_decref(list);
            return OUT_OF_MEMORY;
        }
        if (t->timings[i].seconds < t->timings[fastest].seconds)
            fastest = i;
    }
    return bench_print(json_pack("{s:I, s:I, s:f, s:f, s:s, s:o}", "agents", (json_int_t)s->agents, "floats",
                                 (json_int_t)s->floats, "latency_ms", s->latency_ms, "bandwidth_mbps",
                                 s->bandwidth_mbps, "fastest", collective_names[fastest], "algorithms", list),
                       json);
}

/* ---- playing ---- */

static fault make_experiment(const struct allreduce_bench *s, size_t floats, struct experiment **out)
{
    char text[1024];
    struct registry registry = registry_of_everything();
    double bandwidth = s->bandwidth_mbps * (double)floats / (double)s->floats;
    int n = snprintf(text, sizeof text, form, (long long)s->agents, s->latency_ms, bandwidth);
    TRY(experiment_parse(text, (size_t)n, "the benchmark's own experiment", NULL, 0, &registry, out));
    (*out)->strategy.kind = &kind;
    return OK;
}

/* Long enough for the slowest, binary blocks' queues included. */
static double time_apart_s(const struct allreduce_bench *s)
{
    double longest = 1;
    for (size_t i = 0; i < N_COLLECTIVES; i++)
        longest = fmax(longest, 8 * predicted_s(s, i));
    return exp2(ceil(log2(longest)));
}

static fault play(const struct allreduce_bench *s, char **json)
{
    struct trial t = {.floats = s->floats < MOST_FLOATS ? (size_t)s->floats : MOST_FLOATS,
                      .apart_s = time_apart_s(s)};
    struct experiment *e;
    struct veche_run *r;
    TRY(make_experiment(s, t.floats, &e));
    TRY(session_open(e, NULL, NULL, &r));
    r->stage.shared = &t;
    fault f = r->world->ops->play(r->world);
    if (!f)
        f = print(s, &t, json);
    session_close(r);
    return f;
}

/* The last `world=NAME` is of another world than those in which all members live in this process. */
static bool is_for_ranks(const char *const *settings, size_t n)
{
    bool is = false;
    for (size_t i = 0; i < n; i++)
        if (strncmp(settings[i], "world=", 6) == 0) {
            const struct kind *world = kind_find(&world_kinds, settings[i] + 6);
            const struct world_door *door = world ? world->row : NULL;
            is = world && (!door || door->gather); /* one that is not in this build is refused there */
        }
    return is;
}

fault bench_allreduce(const char *const *settings, size_t n, char **json)
{
    if (is_for_ranks(settings, n))
        return bench_ranks(settings, n, json);
    struct arena arena = {0};
    struct allreduce_bench s = {0};
    fault f = bench_settings(fields, sizeof fields / sizeof *fields, settings, n, &arena, &s);
    if (!f)
        f = play(&s, json);
    arena_release(&arena);
    return f;
}
