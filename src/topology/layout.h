/* layout.h - where the vertices of a drawing stand. */
#ifndef VECHE_TOPOLOGY_LAYOUT_H
#define VECHE_TOPOLOGY_LAYOUT_H

#include "topology/topology.h"

struct spot {
    double x, y; /* y grows downwards; the scale is free */
};

/* Writes n spots. */
fault layout_spots(const struct topology *t, struct spot *spots);

#endif
