/* world.c - `veche bench local` and `veche bench mix`: what the local world costs beside the engine's
 * own work.
 *
 * Each is an experiment; settings on the command line are put over it as in `veche run`.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/bench/bench.h"
#include "api/registry.h"
#include "api/session.h"
#include "base/clock.h"

/* Messages only: an engine that does nothing. */
static const char messages_text[] = "name: bench-local\n"
                                    "data: { set: { kind: blobs, samples: 36000 }, batch: 1 }\n"
                                    "model: logistic\n"
                                    "optim: { kind: sgd, lr: 0.1 }\n"
                                    "agents: 36\n"
                                    "topology: { graph: torus:6x6, weights: metropolis }\n"
                                    "strategy: consensus\n"
                                    "engine: null\n"
                                    "network: { latency_ms: 1, bandwidth_mbps: 1000 }\n"
                                    "train: { epochs: 1, evaluate_every: never, checkpoint_every: never }\n";

/* A real network and its mixing. */
static const char mix_text[] =
    "name: bench-mix\n"
    "data: { set: { kind: images, channels: 3, size: 32, samples: 5760 }, batch: 32 }\n"
    "model: resnet20\n"
    "optim: { kind: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.0001 }\n"
    "agents: 36\n"
    "topology: { graph: torus:6x6, weights: metropolis }\n"
    "strategy: consensus\n"
    "train: { epochs: 1, evaluate_every: never, checkpoint_every: never }\n";

static fault print(const struct veche_run *r, double seconds, char **json)
{
    struct engine_times t = r->world->ops->times(r->world);
    uint64_t messages = 0;
    for (size_t i = 0; i < r->stage.n_members; i++)
        messages += r->world->ops->counts(r->world, i).messages;
    double engine = t.learn_s + t.update_s, world = seconds - engine;
    json_t *object = json_pack(
        "{s:s, s:I, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "engine", r->engine_line,
        "agents", (json_int_t)r->n_agents, "strategy", r->experiment->strategy.kind->name, "topology",
        r->experiment->topology.graph ? r->experiment->topology.graph : "", "rounds",
        (json_int_t)session_rounds(r), "messages", (json_int_t)messages, "seconds", seconds, "learn_s",
        t.learn_s, "update_s", t.update_s, "mix_s", t.mix_s, "scheduler_s", world - t.mix_s,
        "scheduler_us_per_message", messages ? (world - t.mix_s) / (double)messages * 1e6 : 0.0,
        "overhead_over_engine", engine > 0 ? world / engine : 0.0);
    return bench_print(object, json);
}

fault bench_world(bool mixing, const char *const *overrides, size_t n, char **json)
{
    const char *text = mixing ? mix_text : messages_text;
    size_t n_bytes = mixing ? sizeof mix_text - 1 : sizeof messages_text - 1;
    struct registry registry = registry_of_everything();
    struct experiment *e;
    struct veche_run *r;
    TRY(overrides_agree(overrides, n));
    TRY(experiment_parse(text, n_bytes, "the benchmark's own experiment", overrides, n, &registry, &e));
    TRY(session_open(e, NULL, NULL, &r));
    double began = clock_now_s();
    fault f = r->world->ops->play(r->world);
    if (!f)
        f = print(r, clock_now_s() - began, json);
    session_close(r);
    return f;
}
