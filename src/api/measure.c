/* measure.c - see measure.h.
 *
 *   rate         = batch / seconds of a lesson
 *   memory_gbps  = bytes that a step and a mix of two rows move / seconds that they take
 *   sigma        = 2 erfinv(G): lessons that are lognormal with this deviation have the Gini index G that was measured, and
 *                  of two agents in step the slower one takes (1 + G) times as long as they do on average
 *
 * As many lessons as agents share the machine go on side by side, each on its part of the cores, as ranks of
 * the world `mpi` would have them: two lessons on two cores are slower than one alone, since they share
 * caches, memory and clock.
 */
#include "api/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "data/data.h"
#include "engine/bench.h"
#include "experiment/machines.h"
#include "graph/graph.h"
#include "team/team.h"

#define SHORTEST_S 1e-9 /* of an engine that does nothing */
#define MOST_SIGMA 1.0  /* a machine so uneven is busy with something else */

static int threads_of_one(const struct experiment *e, int64_t side_by_side)
{
    int share = pool_cores() / (int)side_by_side;
    return e->engine.threads ? (int)e->engine.threads : share > 1 ? share : 1;
}

static double sigma_of(double gini)
{
    double low = 0, high = MOST_SIGMA;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (erf(middle / 2) < gini)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static fault measure(const struct experiment *e, const struct graph *g, const struct measured_settings *m,
                     struct measured *out)
{
    const struct engine_ops *ops;
    struct engine_pace pace;
    struct engine_setup setup = {.graph = g,
                                 .rows = rows_of(g, &e->optim),
                                 .batch = (size_t)e->data.batch,
                                 .micro_batches = team_micro_batches(e),
                                 .precision = (enum precision)e->engine.precision,
                                 .threads = threads_of_one(e, m->side_by_side),
                                 .optim = &e->optim};
    TRY(engine_choose(e->engine.kind.kind, &ops));
    TRY(engine_pace(ops, &setup, (size_t)m->side_by_side, m->seconds, &pace));
    double rows = (double)(optim_rows_moved(&e->optim) + 3), floats = (double)g->size;
    out->rate = (double)e->data.batch / fmax(pace.lesson_s, SHORTEST_S);
    out->memory_gbps = rows * floats * sizeof(float) / fmax(pace.step_s + pace.mix_s, SHORTEST_S) / 1e9;
    out->scatter = sigma_of(pace.scatter);
    return OK;
}

/* What the numbers depend on. */
static void describe(const struct experiment *e, const struct graph *g, const struct measured_settings *m,
                     char *text, size_t n)
{
    snprintf(
        text, n,
        "%.200s, %zu parameters, %.0f flops, batch %lld in %zu, %s moving %zu rows, %s, %d, threads %d, "
        "%lld side by side",
        g->name, g->size, g->flops_learn, (long long)e->data.batch, team_micro_batches(e),
        e->optim.kind.kind->name, optim_rows_moved(&e->optim), e->engine.kind.kind->name, e->engine.precision,
        threads_of_one(e, m->side_by_side), (long long)m->side_by_side);
}

static fault measure_graph(const struct experiment *e, const struct graph *g,
                           const struct measured_settings *m, struct measured *last)
{
    struct measured now = {.known = true};
    describe(e, g, m, now.of, sizeof now.of);
    if (last->known && strcmp(last->of, now.of) == 0)
        return OK;
    TRY(measure(e, g, m, &now));
    *last = now;
    return OK;
}

fault measure_machines(struct experiment *e, struct measured *last, char *text, size_t n)
{
    const struct measured_settings *m = machines_to_measure(&e->machines);
    struct sample_shape s;
    struct graph *g;
    *text = 0;
    if (!m)
        return OK;
    TRY(dataset_shape(&e->data, &s));
    TRY(graph_build(&e->model, (struct shape){s.c, s.h, s.w}, s.classes, &g));
    fault f = measure_graph(e, g, m, last);
    graph_free(g);
    TRY(f);
    snprintf(
        text, n,
        "this machine was measured: %.4g samples a second, give or take %.2g %%, memory %.3g GB/s, with %lld lesson%s side by side",
        last->rate, 100 * last->scatter, last->memory_gbps, (long long)m->side_by_side, m->side_by_side == 1 ? "" : "s");
    return machines_are(e, last->rate, last->memory_gbps, last->scatter);
}
