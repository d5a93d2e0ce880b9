/* worlds.c - see worlds.h. */
#include "support/worlds.h"

#include <stdlib.h>

#include "support/cast.h"

static const char *one_of(struct rng *r, const char *const *list, size_t n)
{
    return list[rng_below(r, n)];
}

static char *random_graph(struct rng *r, int n)
{
    static const char *const names[] = {"cycle", "complete", "star", "path", "exponential"};
    return text_of("\"%s:%d\"", n < 3 ? "path" : one_of(r, names, 5), n);
}

static char *random_event(struct rng *r, int n)
{
    double at_s = 0.03 * rng_uniform(r);
    int a = (int)rng_below(r, (uint64_t)n), b = (a + 1 + (int)rng_below(r, (uint64_t)n - 1)) % n;
    switch (rng_below(r, 7)) {
    case 0:
        return text_of("  - {at_s: %g, crash: [%d, %d]}\n", at_s, a, b);
    case 1:
        return text_of("  - {at_s: %g, return: [%d, %d]}\n", at_s, a, b);
    case 2:
        return text_of("  - {at_s: %g, cut: [%d, %d]}\n", at_s, a, b);
    case 3:
        return text_of("  - {at_s: %g, mend: [%d, %d]}\n", at_s, a, b);
    case 4:
        return text_of("  - {at_s: %g, partition: [[%d], [%d]]}\n", at_s, a, b);
    case 5:
        return text_of("  - {at_s: %g, stall: [%d, %d]}\n", at_s, a, b);
    default:
        return text_of("  - {at_s: %g, heal: all}\n", at_s);
    }
}

static char *random_events(struct rng *r, int n)
{
    size_t many = rng_below(r, 8);
    char *text = text_of("events:\n  - {at_s: 0.5, heal: all}\n");
    for (size_t i = 0; i < many; i++) {
        char *event = random_event(r, n), *longer = text_of("%s%s", text, event);
        free(text);
        free(event);
        text = longer;
    }
    static const char *const chances[] = {
        "",
        "",
        "  - random: {crash_every_s: 0.01, down_s: 0.004}\n",
        "  - random: {crash_every_s: 0.03}\n",
        "  - random: {crash_every_s: 0.02, down_s: 0.01, cut_every_s: 0.01, cut_s: 0.01}\n",
        "  - random: {cut_every_s: 0.005, cut_s: 0.003}\n",
        "  - random: {cut_every_s: 0.02}\n",
    };
    char *whole = text_of("%s%s", text, one_of(r, chances, 7));
    free(text);
    return whole;
}

char *random_world(struct rng *r, const char *const *strategies, size_t n_strategies, int most_agents)
{
    static const char *const machines[] = {
        "",
        "machines: {speed: {kind: lognormal, sigma: 1}}\n",
        "machines: {stragglers: {kind: random, chance: 0.2, factor: 10}}\n",
        ("machines: {speed: {kind: uniform, between: [0.1, 3]}, "
         "stragglers: {kind: random, chance: 0.1, factor: 5}}\n"),
        "machines: {memory_gbps: 0.0005}\n",
        "machines: {memory_gbps: 0.002, speed: {kind: uniform, between: [0.3, 2]}}\n",
    };
    static const char *const networks[] = {
        "",
        "network: {latency_ms: 0.3, patience_s: 0.01}\n",
        "network: {latency_ms: 0.3, patience_s: 0.01, notice_s: 0.002}\n",
        "network: {latency_ms: 1, bandwidth_mbps: 2, patience_s: 0.02}\n",
        "network: {latency_ms: 1, patience_s: 0.006, notice_s: 0.004}\n",
        "network: {latency_ms: 4, bandwidth_mbps: 0.3, patience_s: 0.006}\n",
        "network: {bandwidth_mbps: 0.5}\n",
    };
    int n = 2 + (int)rng_below(r, (uint64_t)most_agents - 1);
    char *graph = random_graph(r, n), *events = random_events(r, n);
    char *text = text_of("data: {set: {kind: blobs, classes: 2, samples: 32, test_samples: 4}, batch: 1}\n"
                         "model: logistic\noptim: {kind: sgd, lr: 0.1, momentum: 0.5}\n"
                         "engine: {kind: ref, threads: 1}\n"
                         "strategy: %s\nagents: %d\ntopology: {graph: %s, weights: metropolis}\n%s%s%s",
                         one_of(r, strategies, n_strategies), n, graph, one_of(r, machines, 6),
                         one_of(r, networks, 7), rng_below(r, 8) ? events : "");
    free(graph);
    free(events);
    return text;
}
