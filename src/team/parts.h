/* parts.h - where a network is cut: each part is a stretch of its ops, in their order. */
#ifndef VECHE_TEAM_PARTS_H
#define VECHE_TEAM_PARTS_H

#include "experiment/experiment.h"
#include "graph/graph.h"

/* Parts for machines of these speeds, part g on machine g modulo n_machines: the slowest is as fast as can be, and of such cuts
 * the one across which the fewest floats go. first[g], for [n_parts]: the first op of part g. */
fault parts_balance(const struct graph *g, const double *speeds, size_t n_machines, size_t n_parts, size_t *first);
/* Parts that begin at the layers of these names: n_parts - 1 of them. */
fault parts_by_name(const struct graph *g, const struct texts *names, struct place place, size_t n_parts, size_t *first);

#endif
