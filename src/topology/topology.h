/* topology.h - who is whose neighbour, how much each listens to whom, and how fast that brings agreement.
 *
 *   spec ("torus:6x6") -> graph -> mixing weights w_ij (symmetric, rows sum to 1)
 *                               -> spectrum, convergence factor
 *
 * gamma is the second largest absolute eigenvalue of W = I - L(w): each mixing round shrinks the disagreement
 * (its Euclidean norm) by at least that factor.
 */
#ifndef VECHE_TOPOLOGY_TOPOLOGY_H
#define VECHE_TOPOLOGY_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fault.h"
#include "experiment/kind.h"

struct edge {
    uint32_t a, b; /* a < b */
};

/* How it is best drawn; SNAKE is a path that turns back at the end of each line, CUBE a projection by bits. */
enum layout {
    LAYOUT_CIRCLE,
    LAYOUT_GRID,
    LAYOUT_STAR,
    LAYOUT_TREE,
    LAYOUT_SNAKE,
    LAYOUT_CUBE,
    LAYOUT_SPRING
};

struct topology {
    struct arena arena; /* owned: all below */
    const char *spec;
    size_t n, n_edges;
    struct edge *edges;  /* sorted, no duplicates, no loops                                     */
    size_t *first;       /* [n + 1]: neighbours of i are neighbour[first[i] .. first[i + 1])    */
    uint32_t *neighbour; /* ascending for each vertex                                           */
    uint32_t *edge_of;   /* [2 n_edges]: the index in edges of each entry of neighbour          */
    enum layout layout;
    size_t rows, columns; /* LAYOUT_GRID */
};

/* `place` says where the spec was written, for faults. Random graphs follow from the seed; they are drawn
 * again until connected (a bounded number of times). A graph that is not connected is a fault that names two
 * vertices without a way. */
fault topology_make(const char *spec, uint64_t seed, struct place place, struct topology **out);
void topology_free(struct topology *t);

extern const struct kinds topology_kinds; /* cycle, chords, expander, ...: name, pattern, help */

#define WEIGHTS(X)                                                                                           \
    X(WEIGHTS_UNIFORM, "uniform", "1 / (1 + the largest degree in the graph), the same for all edges")       \
    X(WEIGHTS_METROPOLIS, "metropolis", "1 / (1 + larger degree of the two ends)")                           \
    X(WEIGHTS_BEST_CONSTANT, "best-constant", "the best single number for all edges: 2 / (l_1 + l_{n-1})")   \
    X(WEIGHTS_FASTEST, "fastest", "the weights that agree fastest (semidefinite programme); may be negative")

enum weights_kind {
#define WEIGHTS_ENUM(id, name, help) id,
    WEIGHTS(WEIGHTS_ENUM)
#undef WEIGHTS_ENUM
        N_WEIGHTS
};

const char *weights_name(enum weights_kind kind);

/* W = (w_ij) is symmetric and its rows sum to 1, so mixing keeps the mean. */
struct weights {
    double *edge; /* owned: one for each edge                                                            */
    double *self; /* owned: one for each vertex, 1 - the sum of its edges                                */
    double certificate; /* WEIGHTS_FASTEST: a proved lower bound on gamma of any weights; else 0 */
};

/* Above this many vertices nothing is asked of dense eigenvalues, above these no fastest weights are sought. */
enum { SPECTRUM_MOST = 2000, FASTEST_MOST = 300, FASTEST_MOST_EDGES = 1000 };

/* uniform and metropolis take O(edges) time and memory; best-constant and fastest are FAULT_USAGE beyond the
 * limits above. */
fault weights_make(const struct topology *t, enum weights_kind kind, struct weights *out);
void weights_release(struct weights *w);

/* What to take where nothing is asked for: fastest, or metropolis where the graph is too large for it. */
enum weights_kind weights_usual(const struct topology *t);

/* gamma of given weights, by eigenvalues of the dense matrix; 0 for one vertex. FAULT_USAGE above
 * SPECTRUM_MOST. */
fault weights_gamma(const struct topology *t, const struct weights *w, double *out);

#define DIAMETER_UNKNOWN SIZE_MAX

struct topology_facts {
    size_t diameter; /* the longest of all shortest ways; DIAMETER_UNKNOWN where the graph is too large */
    double
        connectivity; /* second smallest eigenvalue of the Laplacian; 0 for one vertex, NaN where too large */
    double gamma[N_WEIGHTS]; /* NaN where the graph is too large */
};

/* All that is shown of a graph: its facts, and one kind of weights. */
struct survey {
    struct topology_facts facts;
    enum weights_kind kind;
    struct weights weights; /* owned */
};

/* Rounds of mixing in which a disagreement is halved, at worst: ln 2 / -ln gamma; 0 when one round ends it. */
double survey_rounds_to_halve(double gamma);

fault survey_make(const struct topology *t, enum weights_kind kind, struct survey *out);
void survey_release(struct survey *s);

/* Text for people, one JSON object, a drawing. Caller frees. */
fault survey_text(const struct topology *t, const struct survey *s, char **text);
fault survey_json(const struct topology *t, const struct survey *s, char **json);
fault survey_svg(const struct topology *t, const struct survey *s, char **svg);

#endif
