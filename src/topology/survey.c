/* survey.c - the facts about a graph: how far its ends are apart, how well it holds together, how fast it
 * agrees. */
#include <math.h>
#include <stdlib.h>

#include "topology/spectrum.h"

static const double most_steps = 1e9; /* of the search for the diameter */

double survey_rounds_to_halve(double gamma)
{
    return gamma > 0 ? log(2) / -log(gamma) : 0;
}

/* The distance from `start` to the farthest vertex, breadth first. `distance` and `queue` hold n entries
 * each. */
static size_t farthest(const struct topology *t, size_t start, uint32_t *distance, uint32_t *queue)
{
    size_t head = 0, tail = 0;
    for (size_t i = 0; i < t->n; i++)
        distance[i] = UINT32_MAX;
    distance[start] = 0;
    queue[tail++] = (uint32_t)start;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (size_t k = t->first[v]; k < t->first[v + 1]; k++)
            if (distance[t->neighbour[k]] == UINT32_MAX) {
                distance[t->neighbour[k]] = distance[v] + 1;
                queue[tail++] = t->neighbour[k];
            }
    }
    return distance[queue[tail - 1]];
}

static fault find_diameter(const struct topology *t, size_t *out)
{
    *out = DIAMETER_UNKNOWN;
    if ((double)t->n * (double)(t->n + 2 * t->n_edges) > most_steps)
        return OK;
    uint32_t *distance = malloc(2 * t->n * sizeof *distance);
    if (!distance)
        return OUT_OF_MEMORY;
    *out = 0;
    for (size_t i = 0; i < t->n; i++) {
        size_t far = farthest(t, i, distance, distance + t->n);
        *out = far > *out ? far : *out;
    }
    free(distance);
    return OK;
}

static bool is_constant(const struct topology *t, const double *edge)
{
    for (size_t e = 1; e < t->n_edges; e++)
        if (edge[e] != edge[0])
            return false;
    return true;
}

/* gamma, from the Laplacian's eigenvalues l where all edges weigh the same. */
static fault find_gamma(const struct topology *t, const struct weights *w, const double *l, double *out)
{
    if (t->n > 1 && is_constant(t, w->edge)) {
        double gamma = fmax(fabs(1 - w->edge[0] * l[1]), fabs(1 - w->edge[0] * l[t->n - 1]));
        *out = gamma < 1e-13 ? 0 : gamma;
        return OK;
    }
    return weights_gamma(t, w, out);
}

/* One kind of weights: its gamma and, where it is the one asked for, the weights themselves. */
static fault survey_kind(const struct topology *t, enum weights_kind kind, const double *l, struct survey *s)
{
    struct weights w;
    TRY(weights_make(t, kind, &w));
    fault f = l ? find_gamma(t, &w, l, &s->facts.gamma[kind]) : OK;
    if (!f && kind == s->kind)
        s->weights = w;
    else
        weights_release(&w);
    return f;
}

static bool is_within_reach(const struct topology *t, enum weights_kind kind)
{
    if (kind == WEIGHTS_FASTEST)
        return weights_fastest_is_allowed(t);
    return kind != WEIGHTS_BEST_CONSTANT || t->n <= SPECTRUM_MOST;
}

static fault survey_with(const struct topology *t, const double *l, struct survey *s)
{
    TRY(find_diameter(t, &s->facts.diameter));
    s->facts.connectivity = !l ? NAN : t->n > 1 ? l[1] : 0;
    for (int k = 0; k < N_WEIGHTS; k++) {
        s->facts.gamma[k] = NAN;
        if ((int)s->kind == k || is_within_reach(t, (enum weights_kind)k))
            TRY(survey_kind(t, (enum weights_kind)k, l, s));
    }
    return OK;
}

fault survey_make(const struct topology *t, enum weights_kind kind, struct survey *out)
{
    struct survey s = {.kind = kind};
    double *l = NULL;
    fault f = OK;
    if (t->n <= SPECTRUM_MOST) {
        l = malloc(t->n * sizeof *l);
        f = l ? spectrum_of_laplacian(t, l) : OUT_OF_MEMORY;
    }
    if (!f)
        f = survey_with(t, l, &s);
    free(l);
    if (f)
        survey_release(&s);
    else
        *out = s;
    return f;
}

void survey_release(struct survey *s)
{
    weights_release(&s->weights);
}
