/* spectrum.h - eigenvalues of graphs, and the weights that follow from them. */
#ifndef VECHE_TOPOLOGY_SPECTRUM_H
#define VECHE_TOPOLOGY_SPECTRUM_H

#include <stdbool.h>

#include "topology/topology.h"

/* Square matrices are dense [n x n] and symmetric, so that rows and columns may be taken for each other. */

/* All eigenvalues of the matrix, ascending; the matrix is used up. */
fault spectrum_eigenvalues(double *matrix, size_t n, double *values);

/* The n eigenvalues of the Laplacian, ascending; the first is set to exactly 0. FAULT_USAGE above
 * SPECTRUM_MOST. */
fault spectrum_of_laplacian(const struct topology *t, double *values);

/* Writes I - J - L(w): W with the eigenvalue 1 of agreement taken away, so that gamma is its norm. */
void spectrum_disagreement(const struct topology *t, const double *edge, double *matrix);

/* The largest absolute eigenvalue of that; rounding errors below 1e-13 are taken for the 0 they stand for. */
fault spectrum_gamma_of_edges(const struct topology *t, const double *edge, double *out);

/* fastest.c: the weights of the least gamma, with their certificate. */
bool weights_fastest_is_allowed(const struct topology *t);
fault weights_fastest(const struct topology *t, struct weights *w);

/* weights.c: what is left of 1 for oneself. */
void weights_set_self(const struct topology *t, struct weights *w);

#endif
