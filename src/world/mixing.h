/* mixing.h - what all worlds ask of a weighted sum before they make it (link_mix). */
#ifndef VECHE_WORLD_MIXING_H
#define VECHE_WORLD_MIXING_H

#include "link/link.h"

/* FAULT_USAGE where a row of mine does not have the floats that a term wants of it, or where floats that are written are read
 * with a shift. What parcels hold their world knows. `end` is no further than the row's own end. */
fault mixing_check(const struct link *l, const struct engine_setup *s, enum row into, size_t first,
                   size_t end, const struct term *terms, size_t n);

#endif
