/* parts.c - see parts.h.
 *
 *   slowest[k][j] = min over i of max(slowest[k - 1][i], work of ops i .. j - 1 / speed of part k)
 *
 * where k parts take the first j ops. Of equal ones the fewer floats that go across all cuts count, then the later cut: what has
 * no work of its own, as a batchnorm, stays with the layer before it.
 */
#include "team/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct state { /* k parts take the first j ops */
    double slowest, floats;
    size_t from; /* the last of these parts begins here */
};

static double work_of(const struct graph *g, size_t i)
{
    struct op_work w = graph_op_work(g, &g->ops[i]);
    return w.forward + w.inputs + w.weights;
}

/* Floats of a sample that ops before op i make and others read. */
static double floats_across(const struct graph *g, size_t i)
{
    double floats = 0;
    for (size_t t = 1; t < g->n_tensors; t++) {
        bool crosses = false;
        for (size_t reader = i; reader < g->n_ops && !crosses; reader++)
            crosses = g->ops[reader].in[0] == (int)t || g->ops[reader].in[1] == (int)t;
        if (crosses && (size_t)g->tensors[t].producer < i)
            floats += (double)shape_size(g->tensors[t].shape);
    }
    return floats;
}

static bool is_better(const struct state *a, const struct state *b)
{
    return a->slowest < b->slowest || (a->slowest == b->slowest && a->floats <= b->floats);
}

/* The best way to end part k before op j. */
static struct state best_end(const struct state *before, const double *sums, const double *across, double speed, size_t k, size_t j)
{
    struct state best = {.slowest = INFINITY};
    for (size_t i = k; i < j; i++) {
        double mine = (sums[j] - sums[i]) / speed;
        struct state s = {.slowest = fmax(before[i].slowest, mine), .floats = before[i].floats + across[i], .from = i};
        if (is_better(&s, &best))
            best = s;
    }
    return best;
}

fault parts_balance(const struct graph *g, const double *speeds, size_t n_machines, size_t n_parts, size_t *first)
{
    size_t n = g->n_ops;
    if (n_parts > n)
        return FAIL(FAULT_USAGE, "a network of %zu layers cannot be cut into %zu parts", n, n_parts);
    double *sums = calloc(2 * (n + 1), sizeof *sums), *across = sums + n + 1;
    struct state *states = calloc((n_parts + 1) * (n + 1), sizeof *states);
    if (!sums || !states) {
        free(sums);
        free(states);
        return OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        sums[i + 1] = sums[i] + work_of(g, i);
        across[i] = i ? floats_across(g, i) : 0;
    }
    for (size_t j = 1; j <= n; j++)
        states[j].slowest = INFINITY; /* no part takes nothing */
    for (size_t k = 0; k < n_parts; k++) {
        struct state *row = states + (k + 1) * (n + 1);
        for (size_t j = 0; j <= n; j++)
            row[j] = j > k ? best_end(row - (n + 1), sums, across, speeds[k % n_machines], k, j)
                           : (struct state){.slowest = INFINITY};
    }
    for (size_t k = n_parts, j = n; k-- > 0; j = first[k])
        first[k] = states[(k + 1) * (n + 1) + j].from;
    free(sums);
    free(states);
    return OK;
}

/* "layer1" names "layer1", and "layer1.0.conv1" where nothing is called that. */
static size_t first_op_of(const struct graph *g, const char *name)
{
    size_t n = strlen(name), within = g->n_ops;
    for (size_t i = g->n_ops; i-- > 0;) {
        if (text_is(g->ops[i].name, name))
            return i;
        if (strncmp(g->ops[i].name, name, n) == 0 && g->ops[i].name[n] == '.')
            within = i;
    }
    return within;
}

static const char *name_at(const void *ctx, size_t i)
{
    const struct graph *g = ctx;
    return i < g->n_ops ? g->ops[i].name : NULL;
}

fault parts_by_name(const struct graph *g, const struct texts *names, struct place place, size_t n_parts, size_t *first)
{
    first[0] = 0;
    for (size_t k = 1; k < n_parts; k++) {
        const char *name = names->at[k - 1];
        first[k] = first_op_of(g, name);
        if (first[k] == g->n_ops) {
            const char *near = text_nearest(name, name_at, g);
            return fail_at(place, "team.cut: the network has no layer '%s'%s%s%s", text_shown(name).text,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        if (first[k] <= first[k - 1])
            return fail_at(place, "team.cut: '%s' does not come after '%s' in the network", name, g->ops[first[k - 1]].name);
    }
    return OK;
}
