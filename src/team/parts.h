/* parts.h - parts of a network as people name them: each is a stretch of its ops, in their order. */
#ifndef VECHE_TEAM_PARTS_H
#define VECHE_TEAM_PARTS_H

#include "experiment/experiment.h"
#include "graph/graph.h"

/* Parts that begin at the layers of these names: n_parts - 1 of them. first[p], for [n_parts]: the first op of part p. */
fault parts_by_name(const struct graph *g, const struct texts *names, struct place place, size_t n_parts, size_t *first);

#endif
