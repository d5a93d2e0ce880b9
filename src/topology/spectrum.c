/* spectrum.c - eigenvalues by LAPACK, of dense matrices.
 *
 * gamma, the convergence factor, is the largest absolute eigenvalue of W - J, where J averages: what is left
 * of a disagreement after one round, at worst.
 */
#include "topology/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topology/lapack.h"
#include "topology/threads.h"

fault spectrum_eigenvalues(double *matrix, size_t n, double *values)
{
    struct lapack lapack;
    TRY(lapack_open(&lapack));
    int threads = threads_alone();
    lapack_int info = lapack.dsyevd(LAPACK_COL_MAJOR, 'N', 'L', (lapack_int)n, matrix, (lapack_int)n, values);
    threads_back(threads);
    if (info == LAPACK_WORK_MEMORY_ERROR)
        return OUT_OF_MEMORY;
    if (info)
        return FAIL(FAULT_NUMBER, "the eigenvalues of a matrix of %zu rows were not found (LAPACK says %d)",
                    n, (int)info);
    return OK;
}

/* matrix += scale * L(w), with w = 1 where edge is NULL. */
static void add_laplacian(const struct topology *t, const double *edge, double scale, double *matrix)
{
    for (size_t e = 0; e < t->n_edges; e++) {
        size_t a = t->edges[e].a, b = t->edges[e].b;
        double w = scale * (edge ? edge[e] : 1);
        matrix[a * t->n + a] += w;
        matrix[b * t->n + b] += w;
        matrix[a * t->n + b] -= w;
        matrix[b * t->n + a] -= w;
    }
}

void spectrum_disagreement(const struct topology *t, const double *edge, double *matrix)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < t->n; j++)
            matrix[i * t->n + j] = (i == j) - 1.0 / (double)t->n;
    add_laplacian(t, edge, -1, matrix);
}

static fault check_size(const struct topology *t)
{
    if (t->n > SPECTRUM_MOST)
        return FAIL(FAULT_USAGE, "%s has %zu vertices, and eigenvalues are computed for up to %d", t->spec,
                    t->n, SPECTRUM_MOST);
    return OK;
}

fault spectrum_of_laplacian(const struct topology *t, double *values)
{
    TRY(check_size(t));
    double *matrix = calloc(t->n * t->n, sizeof *matrix);
    if (!matrix)
        return OUT_OF_MEMORY;
    add_laplacian(t, NULL, 1, matrix);
    fault f = spectrum_eigenvalues(matrix, t->n, values);
    free(matrix);
    values[0] = 0;
    return f;
}

fault spectrum_gamma_of_edges(const struct topology *t, const double *edge, double *out)
{
    TRY(check_size(t));
    double *matrix = malloc(t->n * t->n * sizeof *matrix), *values = malloc(t->n * sizeof *values);
    fault f = matrix && values ? OK : OUT_OF_MEMORY;
    if (!f) {
        spectrum_disagreement(t, edge, matrix);
        f = spectrum_eigenvalues(matrix, t->n, values);
    }
    if (!f) {
        double gamma = fmax(fabs(values[0]), fabs(values[t->n - 1]));
        *out = gamma < 1e-13 ? 0 : gamma;
    }
    free(matrix);
    free(values);
    return f;
}

fault weights_gamma(const struct topology *t, const struct weights *w, double *out)
{
    return spectrum_gamma_of_edges(t, w->edge, out);
}
