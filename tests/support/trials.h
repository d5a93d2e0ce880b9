/* trials.h - every op in all its shapes: small networks, one after the other, for tests of an engine.
 *
 *   static void check(const struct trial *t) { ... }
 *   ...
 *   each_convolution(check);
 */
#ifndef VECHE_TESTS_TRIALS_H
#define VECHE_TESTS_TRIALS_H

#include "support/question.h"

struct trial {
    const struct graph *g;
    const struct dataset *data;
    size_t batch;
    size_t i; /* which of its kind */
    uint64_t seed;
    bool bends; /* has relus or max pools */
    /* The largest of several numbers is not continuous: two that round to the same bf16 may hand a gradient
     * to another pixel. What is pooled in an exact trial is exact in bf16, too, equals among it: inputs of 0
     * and 1, weights of -1, 0 and 1. */
    bool exact;
    char what[128];
};

void each_convolution(void (*check)(const struct trial *));
void each_convolution_of_groups(void (*check)(const struct trial *));
void each_join(void (*check)(const struct trial *)); /* concats, and sums of what stands far apart */
void each_pool(void (*check)(const struct trial *)); /* after a convolution; every max pool exactly as well */
void each_pool_of_the_input(void (*check)(const struct trial *));
void each_linear(void (*check)(const struct trial *));
void each_residual(void (*check)(const struct trial *)); /* alone in its network */
void each_chain_of_residuals(void (*check)(const struct trial *));
void each_random_network(void (*check)(const struct trial *));

#endif
