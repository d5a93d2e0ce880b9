/* weights.c - how much each agent listens to whom, by the simple rules.
 *
 *   W = I - L(w):  w_ij on edges, 1 - sum_j w_ij on oneself
 *
 * One number per edge, used at both ends, makes W symmetric and its rows sum to 1; so do its columns, and
 * mixing keeps the mean over agents.
 */
#include <stdlib.h>

#include "topology/spectrum.h"

const char *weights_name(enum weights_kind kind)
{
    static const char *const names[] = {
#define WEIGHTS_NAME(id, name, help) [id] = name,
        WEIGHTS(WEIGHTS_NAME)
#undef WEIGHTS_NAME
    };
    return names[kind];
}

static size_t degree(const struct topology *t, size_t i)
{
    return t->first[i + 1] - t->first[i];
}

static void set_constant(const struct topology *t, double value, double *edge)
{
    for (size_t e = 0; e < t->n_edges; e++)
        edge[e] = value;
}

static fault uniform(const struct topology *t, struct weights *w)
{
    size_t largest = 0;
    for (size_t i = 0; i < t->n; i++)
        largest = larger(degree(t, i), largest);
    set_constant(t, 1.0 / (double)(1 + largest), w->edge);
    return OK;
}

static fault metropolis(const struct topology *t, struct weights *w)
{
    for (size_t e = 0; e < t->n_edges; e++) {
        size_t a = degree(t, t->edges[e].a), b = degree(t, t->edges[e].b);
        w->edge[e] = 1.0 / (double)(1 + larger(a, b));
    }
    return OK;
}

/* The eigenvalues of I - c L are 1 - c l; the best c makes those of the least and the greatest l opposite. */
static fault best_constant(const struct topology *t, struct weights *w)
{
    if (t->n == 1)
        return OK;
    double *l = malloc(t->n * sizeof *l);
    if (!l)
        return OUT_OF_MEMORY;
    fault f = spectrum_of_laplacian(t, l);
    if (!f)
        set_constant(t, 2 / (l[1] + l[t->n - 1]), w->edge);
    free(l);
    return f;
}

void weights_set_self(const struct topology *t, struct weights *w)
{
    for (size_t i = 0; i < t->n; i++) {
        double sum = 0;
        for (size_t k = t->first[i]; k < t->first[i + 1]; k++)
            sum += w->edge[t->edge_of[k]];
        w->self[i] = 1 - sum;
    }
}

fault weights_make(const struct topology *t, enum weights_kind kind, struct weights *out)
{
    static fault (*const make[])(const struct topology *t, struct weights *w) = {
        [WEIGHTS_UNIFORM] = uniform,
        [WEIGHTS_METROPOLIS] = metropolis,
        [WEIGHTS_BEST_CONSTANT] = best_constant,
        [WEIGHTS_FASTEST] = weights_fastest,
    };
    struct weights w = {.edge = calloc(t->n_edges + 1, sizeof *w.edge), .self = calloc(t->n, sizeof *w.self)};
    fault f = w.edge && w.self ? make[kind](t, &w) : OUT_OF_MEMORY;
    if (f) {
        weights_release(&w);
        return f;
    }
    weights_set_self(t, &w);
    *out = w;
    return OK;
}

void weights_release(struct weights *w)
{
    free(w->edge);
    free(w->self);
    *w = (struct weights){0};
}

enum weights_kind weights_usual(const struct topology *t)
{
    return weights_fastest_is_allowed(t) ? WEIGHTS_FASTEST : WEIGHTS_METROPOLIS;
}
