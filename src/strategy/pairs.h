/* pairs.h - the random pairs of a round of gossip, sorted by agent.
 *
 * Independent draws from all edges of the topology, from the seed and the round alone: every agent would draw
 * the same, so they are drawn once for all. The last rounds are kept, since agents are not all in the same
 * one.
 */
#ifndef VECHE_STRATEGY_PAIRS_H
#define VECHE_STRATEGY_PAIRS_H

#include "topology/topology.h"

struct pairs;

fault pairs_new(const struct topology *t, uint64_t seed, uint64_t n_pairs, struct pairs **out);
void pairs_free(struct pairs *p);

/* The partners of an agent in round k, in the order of the draws; valid until the next call. */
const uint32_t *pairs_of_agent(struct pairs *p, uint64_t k, size_t agent, size_t *n);

#endif
