/* families.h - the makers of edges behind the names of graphs. */
#ifndef VECHE_TOPOLOGY_FAMILIES_H
#define VECHE_TOPOLOGY_FAMILIES_H

#include "base/rng.h"
#include "topology/sketch.h"

/* The numbers of a spec, each family using its own. */
struct sizes {
    int64_t n;             /* vertices                                                   */
    int64_t k;             /* chords, degree, fanout, dimensions                         */
    int64_t rows, columns; /* grid, torus                                                */
    double p;              /* a chance                                                   */
    const char *path;      /* file                                                       */
};

/* Sets the sketch's n and adds edges. A fault's sentence does not say which spec it is about. `random` is
 * used by the makers in random.c only. */
typedef fault maker(const struct sizes *z, struct rng *random, struct sketch *s);

maker family_path, family_cycle, family_chords, family_complete, family_star, family_tree, family_grid,
    family_torus, family_hypercube, family_exponential, family_expander; /* families.c */
maker family_random, family_regular, family_small_world;                 /* random.c   */
maker family_from_file; /* file.c: faults begin with the file and its line */

#endif
