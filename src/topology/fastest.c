/* fastest.c - the weights that agree fastest (Xiao and Boyd 2004), with a proof that none are faster.
 *
 *   minimise s  such that  -s I <= M(w) <= s I,   M(w) = I - J - L(w),  L(w) = sum over edges of w_e a_e a_e'
 *
 * where a_e is +1 at one end of the edge, -1 at the other. A barrier method: for growing t, Newton's method
 * finds the least of  t s - log det(s I - M) - log det(s I + M).  At that point the inverses A = (s I -
 * M)^-1, B = (s I + M)^-1 give gradient, Hessian and, as (A - B) / t, a solution of the dual problem
 *
 *   maximise tr Y (I - J)  such that  the absolute eigenvalues of Y sum to 1,  a_e' Y a_e = 0 for each edge
 *
 * whose value no weights can go below, and which is 2 n / t away. That Y is only nearly feasible, as Newton's
 * method ends somewhere; but a_e' Y a_e = Y_ii + Y_jj - 2 Y_ij holds each free entry Y_ij once, so setting
 * Y_ij to the mean of Y_ii and Y_jj mends it exactly, and dividing by the sum of absolute eigenvalues does
 * the rest. The bound is thus proved by one evaluation, whatever the solver did.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topology/lapack.h"
#include "topology/spectrum.h"
#include "topology/threads.h"

static const double wanted_gap = 1e-7, allowed_gap = 1e-4; /* between gamma and its bound */
static const double raise_t = 20;                          /* from one barrier to the next  */
static const double ridge =
    1e-11; /* on the Hessian's diagonal: near the end it is as good as singular on some graphs */
enum { MOST_NEWTON_STEPS = 60 };

struct point {
    double *w; /* [m + 1], owned: the weights of edges, then s */
    double t;
    double *a,
        *b; /* [n x n], owned: the inverses of s I - M and s I + M (their factors in a point that is tried) */
    double value; /* of the barrier */
};

struct solver {
    const struct topology *graph;
    struct lapack lapack;
    size_t n, m;
    struct point at, tried;
    double *gradient, *step; /* [m + 1], owned                */
    double *hessian;         /* [(m + 1) x (m + 1)], owned    */
};

/* In a complete graph the best constant, 1 / n, leaves no disagreement: there is nothing to search for. */
static bool is_complete(const struct topology *t)
{
    return t->n_edges == t->n * (t->n - 1) / 2;
}

bool weights_fastest_is_allowed(const struct topology *t)
{
    return t->n <= FASTEST_MOST && (t->n_edges <= FASTEST_MOST_EDGES || is_complete(t));
}

/* Factors s I + sign M in `matrix`; false when it is not positive definite. */
static bool factor(const struct solver *v, const struct point *p, double sign, double *matrix,
                   double *log_det)
{
    lapack_int n = (lapack_int)v->n;
    spectrum_disagreement(v->graph, p->w, matrix);
    for (size_t i = 0; i < v->n * v->n; i++)
        matrix[i] *= sign;
    for (size_t i = 0; i < v->n; i++)
        matrix[i * v->n + i] += p->w[v->m];
    if (v->lapack.dpotrf(LAPACK_COL_MAJOR, 'L', n, matrix, n))
        return false;
    *log_det = 0;
    for (size_t i = 0; i < v->n; i++)
        *log_det += 2 * log(matrix[i * v->n + i]);
    return true;
}

/* The barrier at the point's w and t; false outside of its domain. */
static bool evaluate(const struct solver *v, struct point *p)
{
    double of_a, of_b;
    if (!factor(v, p, -1, p->a, &of_a) || !factor(v, p, 1, p->b, &of_b))
        return false;
    p->value = p->t * p->w[v->m] - of_a - of_b;
    return true;
}

/* From the lower half of a factor to the whole inverse. */
static fault invert(const struct solver *v, double *matrix)
{
    size_t n = v->n;
    if (v->lapack.dpotri(LAPACK_COL_MAJOR, 'L', (lapack_int)n, matrix, (lapack_int)n))
        return FAIL(FAULT_NUMBER, "a matrix of the solver for the fastest weights has no inverse");
    for (size_t j = 0; j < n; j++)
        for (size_t i = j + 1; i < n; i++)
            matrix[i * n + j] = matrix[j * n + i];
    return OK;
}

static fault invert_both(struct solver *v)
{
    TRY(invert(v, v->at.a));
    return invert(v, v->at.b);
}

/* a_e' X a_f */
static double across(const double *x, size_t n, struct edge e, struct edge f)
{
    const double *row_a = x + e.a * n, *row_b = x + e.b * n;
    return (row_a[f.a] - row_a[f.b]) - (row_b[f.a] - row_b[f.b]);
}

/* |X a_e|^2 */
static double square_across(const double *x, size_t n, struct edge e)
{
    const double *row_a = x + e.a * n, *row_b = x + e.b * n;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (row_a[i] - row_b[i]) * (row_a[i] - row_b[i]);
    return sum;
}

static void differentiate(struct solver *v)
{
    const double *a = v->at.a, *b = v->at.b;
    const struct edge *edges = v->graph->edges;
    size_t n = v->n, m = v->m, size = m + 1;
    double trace = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        trace += a[i * n + i] + b[i * n + i];
    for (size_t i = 0; i < n * n; i++)
        squares += a[i] * a[i] + b[i] * b[i];
    for (size_t e = 0; e < m; e++) {
        v->gradient[e] = across(b, n, edges[e], edges[e]) - across(a, n, edges[e], edges[e]);
        for (size_t f = e; f < m; f++) { /* the lower half, by columns */
            double x = across(a, n, edges[e], edges[f]), y = across(b, n, edges[e], edges[f]);
            v->hessian[e * size + f] = x * x + y * y;
        }
        v->hessian[e * size + m] = square_across(a, n, edges[e]) - square_across(b, n, edges[e]);
    }
    v->gradient[m] = v->at.t - trace;
    v->hessian[m * size + m] = squares;
}

/* The Newton step, and its decrement: twice what it promises to gain. */
static fault find_step(struct solver *v, double *decrement)
{
    lapack_int size = (lapack_int)v->m + 1;
    differentiate(v);
    for (size_t i = 0; i <= v->m; i++) {
        v->step[i] = -v->gradient[i];
        v->hessian[i * (v->m + 1) + i] *= 1 + ridge;
    }
    if (v->lapack.dposv(LAPACK_COL_MAJOR, 'L', size, 1, v->hessian, size, v->step, size))
        return FAIL(FAULT_NUMBER, "%s: the equations for the fastest weights cannot be solved",
                    v->graph->spec);
    *decrement = 0;
    for (size_t i = 0; i <= v->m; i++)
        *decrement -= v->gradient[i] * v->step[i];
    return OK;
}

/* Goes along the step, halved until it stays inside and gains. `*gained` is false when no part of it does:
 * the end. */
static fault walk(struct solver *v, double decrement, bool *gained)
{
    *gained = false;
    v->tried.t = v->at.t;
    for (double part = 1; part > 1e-6; part /= 2) {
        for (size_t i = 0; i <= v->m; i++)
            v->tried.w[i] = v->at.w[i] + part * v->step[i];
        if (!evaluate(v, &v->tried) || v->tried.value > v->at.value - 0.1 * part * decrement)
            continue;
        struct point left = v->at;
        v->at = v->tried;
        v->tried = left;
        *gained = true;
        return invert_both(v);
    }
    return OK;
}

/* Newton's method for one t, until a step would gain next to nothing or nothing that can still be seen. */
static fault centre(struct solver *v, double enough)
{
    bool gained = true;
    for (int i = 0; gained && i < MOST_NEWTON_STEPS; i++) {
        double decrement = 0;
        TRY(find_step(v, &decrement));
        if (decrement < enough)
            break;
        TRY(walk(v, decrement, &gained));
    }
    return OK;
}

static void raise_barrier(struct solver *v, double t)
{
    v->at.value += (t - v->at.t) * v->at.w[v->m];
    v->at.t = t;
}

static fault solve(struct solver *v)
{
    v->at.t = 2 * (double)v->n;
    if (!evaluate(v, &v->at))
        return FAIL(FAULT_NUMBER, "%s: no weights to start from", v->graph->spec);
    TRY(invert_both(v));
    for (;;) {
        bool last = 2 * (double)v->n / v->at.t < wanted_gap;
        TRY(centre(v, last ? 1e-9 : 1e-3));
        if (last)
            return OK;
        raise_barrier(v, v->at.t * raise_t);
    }
}

/* Takes the mean off each row and column: this leaves a_e' Y a_e and tr Y (I - J) as they are, and lessens
 * the sum of absolute eigenvalues. */
static void take_means_off(double *y, size_t n, double *means)
{
    double whole = 0;
    for (size_t i = 0; i < n; i++) {
        means[i] = 0;
        for (size_t j = 0; j < n; j++)
            means[i] += y[i * n + j] / (double)n;
        whole += means[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            y[i * n + j] -= means[i] + means[j] - whole;
}

/* The bound that the dual solution proves. */
static fault certify(struct solver *v, double *bound)
{
    size_t n = v->n;
    double *y = v->tried.a, *values = v->tried.b, trace = 0, size = 0;
    for (size_t i = 0; i < n * n; i++)
        y[i] = (v->at.a[i] - v->at.b[i]) / v->at.t;
    for (size_t e = 0; e < v->m; e++) {
        size_t a = v->graph->edges[e].a, b = v->graph->edges[e].b;
        y[a * n + b] = y[b * n + a] = (y[a * n + a] + y[b * n + b]) / 2;
    }
    take_means_off(y, n, values);
    for (size_t i = 0; i < n; i++)
        trace += y[i * n + i];
    TRY(spectrum_eigenvalues(y, n, values));
    for (size_t i = 0; i < n; i++)
        size += fabs(values[i]);
    *bound = size > 0 ? trace / size : 0;
    return OK;
}

static fault point_init(size_t n, size_t m, struct point *p)
{
    p->w = calloc(m + 1, sizeof *p->w);
    p->a = calloc(n * n, sizeof *p->a);
    p->b = calloc(n * n, sizeof *p->b);
    return p->w && p->a && p->b ? OK : OUT_OF_MEMORY;
}

static void point_release(struct point *p)
{
    free(p->w);
    free(p->a);
    free(p->b);
}

static fault solver_init(const struct topology *graph, struct solver *v)
{
    size_t size = graph->n_edges + 1;
    *v = (struct solver){.graph = graph, .n = graph->n, .m = graph->n_edges};
    TRY(lapack_open(&v->lapack));
    TRY(point_init(v->n, v->m, &v->at));
    TRY(point_init(v->n, v->m, &v->tried));
    v->gradient = calloc(size, sizeof *v->gradient);
    v->step = calloc(size, sizeof *v->step);
    v->hessian = calloc(size * size, sizeof *v->hessian);
    return v->gradient && v->step && v->hessian ? OK : OUT_OF_MEMORY;
}

static void solver_release(struct solver *v)
{
    point_release(&v->at);
    point_release(&v->tried);
    free(v->gradient);
    free(v->step);
    free(v->hessian);
}

/* Keeps the start where the search found nothing better: on many symmetric graphs the best constant is the
 * best. */
static fault take_better(struct solver *v, double gamma, double *edge, double *certificate)
{
    double found;
    TRY(spectrum_gamma_of_edges(v->graph, v->at.w, &found));
    TRY(certify(v, certificate));
    if (found < gamma) {
        memcpy(edge, v->at.w, v->m * sizeof *edge);
        gamma = found;
    }
    if (gamma - *certificate > allowed_gap)
        return FAIL(FAULT_NUMBER,
                    "%s: the search for the fastest weights ended at gamma %.6g, with %.6g as the bound",
                    v->graph->spec, gamma, *certificate);
    return OK;
}

static fault improve(const struct topology *t, double gamma, double *edge, double *certificate)
{
    struct solver v;
    fault f = solver_init(t, &v);
    if (!f) {
        memcpy(v.at.w, edge, v.m * sizeof *edge);
        v.at.w[v.m] = (1 + gamma) / 2;
        f = solve(&v);
    }
    if (!f)
        f = take_better(&v, gamma, edge, certificate);
    solver_release(&v);
    return f;
}

fault weights_fastest(const struct topology *t, struct weights *w)
{
    struct weights start;
    double gamma;
    if (!weights_fastest_is_allowed(t))
        return FAIL(FAULT_USAGE,
                    "%s has %zu vertices and %zu edges, and fastest weights are sought for up to %d and %d; "
                    "take metropolis",
                    t->spec, t->n, t->n_edges, FASTEST_MOST, FASTEST_MOST_EDGES);
    TRY(weights_make(t, WEIGHTS_BEST_CONSTANT, &start));
    fault f = spectrum_gamma_of_edges(t, start.edge, &gamma);
    memcpy(w->edge, start.edge, t->n_edges * sizeof *w->edge);
    weights_release(&start);
    if (!f && !is_complete(t)) {
        int threads = threads_alone();
        f = improve(t, gamma, w->edge, &w->certificate);
        threads_back(threads);
    }
    return f;
}
