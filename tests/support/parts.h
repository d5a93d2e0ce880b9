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

enum { MOST_PARTS = 8 };

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
    double apart; /* the most that gradients and statistics may differ, of the network's largest; 0: the same bits */
    double loss_apart;
    const char *what; /* for who reads that it failed */
    /* Borrowed: what the whole gave in a trial that is cut in another way and else like this; NULL: it learns. */
    const struct whole *whole;
    /* Borrowed, or NULL: the same in fp32. Parts may then be twice as far from the whole as rounding has brought that from it. */
    const struct whole *exact;
};

void parts_agree(const struct parts_trial *t);
struct whole *whole_learn(const struct parts_trial *t);
void whole_free(struct whole *w);

/* Parts of a network whose samples are streamed, against the whole with the same samples in memory. */
void streamed_parts_agree(const struct engine_ops *ops);

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
/* A random cut into n parts that follows what reads what, not the order of ops, or else one into as many ops each; false:
 * there are fewer ops than parts. */
bool cut_anywhere(const struct graph *g, struct rng *r, size_t n, size_t *part_of);

/* Whether VECHE_ALL_CUTS asks for all networks and cuts; the suite takes a choice of them. */
bool all_cuts_are_asked_for(void);
/* Whether the next cut is for this process: of VECHE_CUTS_SHARE=i/n every n-th is, from the i-th on, so that n processes go
 * through all of them side by side. */
bool cut_is_in_share(void);

#endif
