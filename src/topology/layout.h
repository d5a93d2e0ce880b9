/* layout.h - where the vertices of a drawing stand. */
#ifndef VECHE_TOPOLOGY_LAYOUT_H
#define VECHE_TOPOLOGY_LAYOUT_H

#include "topology/topology.h"

struct position {
    double x, y; /* y grows downwards; the scale is free */
};

/* Writes n positions. */
fault layout_positions(const struct topology *t, struct position *positions);

#endif
