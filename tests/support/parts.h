/* parts.h - a network cut into parts, each in an engine of its own, against the whole in one engine.
 *
 *   gathered   lessons of the whole network, each batch cut into micro-batches
 *   parts      the same lessons as passes: so many micro-batches forward, then backward in ascending order;
 *              what crosses is carried by hand from row to row
 *
 * Compared after each lesson: losses, hits, gradients, statistics.
 */
#ifndef VECHE_TESTS_PARTS_H
#define VECHE_TESTS_PARTS_H

#include "support/network.h"

struct parts_trial {
    const struct engine_ops *ops;
    enum precision precision;
    const struct graph *g;
    const struct dataset *data;
    const size_t *part_of; /* per op */
    size_t n_parts;
    size_t n_replicas, batch, micro_batches, flights;
    bool splits; /* backward in two passes; those for weights all come last */
    int threads;
    uint64_t seed;
    double apart; /* the most that gradients and statistics may differ, of the largest; 0: the same bits */
    double loss_apart;
    const char *what; /* for who reads that it failed */
};

void parts_agree(const struct parts_trial *t);

/* A network to be cut, and samples for it. */
struct subject {
    const char *what;
    const struct graph *g;
    const struct dataset *data;
    uint64_t seed;
    bool is_fused; /* by the engine cuda in bf16, where it is whole: its parts are not, and round in other places */
};

/* The first n of a list of random networks. */
void each_random_subject(size_t n, void (*check)(const struct subject *s, size_t i));

/* The first `at` ops go to part 0, the others to part 1; with more cuts, ascending, more parts. */
void cut_at(const struct graph *g, const size_t *at, size_t n_cuts, size_t *part_of);
/* A random cut into n parts that follows what reads what, not the order of ops; false: there are too few ops. */
bool cut_anywhere(const struct graph *g, struct rng *r, size_t n, size_t *part_of);

#endif
