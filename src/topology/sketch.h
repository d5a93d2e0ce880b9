/* sketch.h - a graph in the making: edges come in any order, loops and repetitions are let go at the end.
 *
 * An edge_set answers "is this edge there already?" for the makers that must know while they draw.
 */
#ifndef VECHE_TOPOLOGY_SKETCH_H
#define VECHE_TOPOLOGY_SKETCH_H

#include <stdbool.h>

#include "topology/topology.h"

enum { MOST_VERTICES = 1000000, MOST_EDGES = 1 << 24 };

struct sketch {
    size_t n;           /* vertices */
    struct edge *edges; /* owned */
    size_t n_edges, room;
};

static inline struct edge edge_between(size_t a, size_t b)
{
    return a < b ? (struct edge){(uint32_t)a, (uint32_t)b} : (struct edge){(uint32_t)b, (uint32_t)a};
}

/* FAULT_USAGE beyond MOST_EDGES. A loop (a == b) is passed over. */
fault sketch_add(struct sketch *s, size_t a, size_t b);
void sketch_release(struct sketch *s);

/* Writes for each vertex whether there is a way to it from vertex 0; gives the smallest without one, or n. */
fault sketch_reach(const struct sketch *s, bool *reached, size_t *first_lost);

/* Sorts the edges, drops repetitions and writes n, edges and neighbours of the topology, in its arena. */
fault sketch_finish(struct sketch *s, struct topology *t);

struct edge_set {
    uint64_t *slots; /* owned; 0 is empty */
    size_t mask;
};

fault edge_set_init(size_t most, struct edge_set *out); /* room for `most` edges */
void edge_set_release(struct edge_set *set);
bool edge_set_has(const struct edge_set *set, struct edge e);
void edge_set_put(struct edge_set *set, struct edge e); /* which must not be there yet */
void edge_set_drop(struct edge_set *set, struct edge e);

#endif
