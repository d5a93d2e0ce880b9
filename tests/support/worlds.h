/* worlds.h - random experiments full of trouble: unequal machines, stragglers, thin networks, crashes, cuts.
 */
#ifndef VECHE_TESTS_WORLDS_H
#define VECHE_TESTS_WORLDS_H

#include <stddef.h>

#include "base/rng.h"

/* The text of an experiment of 2 .. most_agents agents with a tiny model and one of these strategies; the
 * caller frees.
 */
char *random_world(struct rng *r, const char *const *strategies, size_t n_strategies, int most_agents);

#endif
