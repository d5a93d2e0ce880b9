/* profile_measure.c - how long each layer takes on this machine.
 *
 *   each op as a part of its own -> an engine -> medians of its passes    t_i
 *   the whole network            -> an engine -> medians of its passes    t
 *   layer i takes t_i t / sum of all t_i, forward and backward each
 *
 * Alone an op pays for being called and for handing values on, and nothing is fused; the shares t_i are honest, their sum is not.
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "graph/cut.h"
#include "team/profile.h"

enum { LEAST_PASSES = 5, MOST_PASSES = 101, N_SAMPLES = 64, SEED = 1 };
static const double SECONDS_EACH = 0.03; /* of an op; of the whole network ten times as long */

struct times { /* of a micro-batch */
    double forward_s, backward_s;
};

struct gauge {
    const struct engine_ops *ops;
    const struct engine_setup *setup;
    struct samples samples;
    uint16_t labels[N_SAMPLES];
    struct block pixels; /* owned */
    struct pick *picks;  /* owned: [batch] */
};

static fault gauge_open(struct gauge *g)
{
    const struct graph *whole = g->setup->graph;
    size_t n_bytes = N_SAMPLES * shape_size(whole->input);
    g->picks = calloc(g->setup->batch, sizeof *g->picks);
    if (!g->picks)
        return OUT_OF_MEMORY;
    TRY(block_open(n_bytes, &g->pixels));
    struct rng r = rng_stream(SEED, 0, RNG_SYNTHETIC, 0);
    uint8_t *bytes = g->pixels.bytes;
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)rng_next(&r);
    for (size_t i = 0; i < N_SAMPLES; i++)
        g->labels[i] = (uint16_t)rng_below(&r, whole->classes);
    for (size_t i = 0; i < g->setup->batch; i++)
        g->picks[i] = (struct pick){.sample = (uint32_t)(i % N_SAMPLES)};
    g->samples = (struct samples){.n = N_SAMPLES,
                                  .c = whole->input.c,
                                  .h = whole->input.h,
                                  .w = whole->input.w,
                                  .classes = whole->classes,
                                  .pixels = bytes,
                                  .labels = g->labels};
    for (size_t c = 0; c < MOST_CHANNELS; c++) {
        g->samples.mean[c] = 0.5f;
        g->samples.deviation[c] = 0.25f;
    }
    return OK;
}

static void gauge_close(struct gauge *g)
{
    block_close(&g->pixels);
    free(g->picks);
}

static fault fill_row(struct engine *e, enum row row)
{
    size_t n = row_size(&e->setup, row);
    float *floats = malloc((n + 1) * sizeof *floats);
    if (!floats)
        return OUT_OF_MEMORY;
    struct rng r = rng_stream(SEED, 0, RNG_SYNTHETIC, row);
    for (size_t i = 0; i < n; i++)
        floats[i] = (float)rng_normal(&r);
    fault f = n ? e->ops->write(e, row, 0, floats) : OK;
    free(floats);
    return f;
}

static fault fill_engine(struct engine *e, const struct graph *g)
{
    float *floats = calloc(g->size + g->stats_size + 1, sizeof *floats);
    if (!floats)
        return OUT_OF_MEMORY;
    graph_init(g, SEED, floats, floats + g->size);
    fault f = g->size ? e->ops->write(e, ROW_PARAMS, 0, floats) : OK;
    if (!f && g->stats_size)
        f = e->ops->write(e, ROW_STATS, 0, floats + g->size);
    free(floats);
    TRY(f);
    TRY(fill_row(e, ROW_INPUTS));
    return fill_row(e, ROW_OUTPUT_GRADS);
}

static fault time_pass(const struct gauge *g, struct engine *e, enum pass_kind kind, double *seconds)
{
    struct pass pass = {.kind = kind, .picks = g->picks, .seed = SEED};
    double start = clock_now_s();
    TRY(e->ops->pass(e, &pass, 1));
    *seconds = clock_now_s() - start;
    return OK;
}

static int by_length(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_length);
    return values[n / 2];
}

/* The first pass of either kind is to warm up. */
static fault time_passes(const struct gauge *g, struct engine *e, double seconds, struct times *out)
{
    double forward[MOST_PASSES], backward[MOST_PASSES], start = clock_now_s();
    size_t n = 0;
    TRY(time_pass(g, e, PASS_FORWARD, &forward[0]));
    TRY(time_pass(g, e, PASS_BACKWARD, &backward[0]));
    while (n < LEAST_PASSES || (n < MOST_PASSES && clock_now_s() - start < seconds)) {
        TRY(time_pass(g, e, PASS_FORWARD, &forward[n]));
        TRY(time_pass(g, e, PASS_BACKWARD, &backward[n]));
        n++;
    }
    *out = (struct times){median(forward, n), median(backward, n)};
    return OK;
}

static fault time_part(const struct gauge *g, const struct graph *part, double seconds, struct times *out)
{
    struct engine_setup setup = *g->setup;
    struct engine *e;
    setup.graph = part;
    setup.train = setup.test = &g->samples;
    setup.n_replicas = setup.flights = 1;
    setup.optim = NULL;
    setup.rows = rows_of(part, NULL);
    rows_cross(&setup.rows, part, setup.flights, micro_most(&setup));
    TRY(g->ops->open(&setup, &e));
    fault f = fill_engine(e, part);
    if (!f)
        f = time_passes(g, e, seconds, out);
    engine_close(e);
    return f;
}

static fault time_layers(const struct gauge *g, struct graph *const *parts, struct times *layers, struct profile *p)
{
    struct times sum = {0}, whole;
    for (size_t i = 0; i < p->n_layers; i++) {
        TRY(time_part(g, parts[i], SECONDS_EACH, &layers[i]));
        sum.forward_s += layers[i].forward_s;
        sum.backward_s += layers[i].backward_s;
    }
    TRY(time_part(g, g->setup->graph, 10 * SECONDS_EACH, &whole));
    for (size_t i = 0; i < p->n_layers; i++) {
        p->layers[i].forward_s = layers[i].forward_s * whole.forward_s / fmax(sum.forward_s, 1e-12);
        p->layers[i].inputs_s = p->layers[i].weights_s = layers[i].backward_s * whole.backward_s / fmax(sum.backward_s, 1e-12) / 2;
    }
    return OK;
}

static fault measure(const struct gauge *g, struct profile *p)
{
    size_t n = p->n_layers, *part_of = calloc(n, sizeof *part_of);
    struct graph **parts = calloc(n, sizeof *parts);
    struct times *layers = calloc(n, sizeof *layers);
    fault f = part_of && parts && layers ? OK : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < n; i++)
        part_of[i] = i;
    if (!f)
        f = graph_cut(g->setup->graph, part_of, n, parts);
    if (!f) {
        f = time_layers(g, parts, layers, p);
        for (size_t i = 0; i < n; i++)
            graph_free(parts[i]);
    }
    free(layers);
    free(parts);
    free(part_of);
    return f;
}

fault profile_measure(const struct engine_ops *ops, const struct engine_setup *setup, struct profile *p)
{
    struct gauge *g = calloc(1, sizeof *g);
    if (!g)
        return OUT_OF_MEMORY;
    g->ops = ops;
    g->setup = setup;
    fault f = gauge_open(g);
    if (!f)
        f = measure(g, p);
    gauge_close(g);
    free(g);
    return f;
}
