/* judge.h - the reference loops in double precision, so that differences can judge gradients to ten digits.
 */
#ifndef VECHE_TESTS_JUDGE_H
#define VECHE_TESTS_JUDGE_H

#include "base/rng.h"
#include "graph/graph.h"

/* A whole network on one random batch, or on the one put into `input` and `labels`. */
struct judge {
    const struct graph *g; /* borrowed */
    size_t batch;
    double *params, *grads, *stats;
    double *input; /* [batch][c][h][w]; copied in before each run */
    uint16_t *labels;
    uint64_t seed; /* dropout */
    size_t hits;
    struct judge_plan *plan; /* owned */
};

/* Parameters as graph_init(seed), a little noise on them all; inputs and labels at random. */
struct judge *judge_new(const struct graph *g, size_t batch, uint64_t seed);
void judge_free(struct judge *j);

double judge_learn(struct judge *j); /* forward and backward: fills grads, moves stats  */
double judge_loss(struct judge *j);  /* forward only, as while learning                 */
double judge_exam(struct judge *j);  /* forward only, running statistics, no dropout    */

/* The largest difference between the gradient and central differences, against the largest gradient of the
 * same parameter tensor: over every parameter ... */
double judge_every_parameter(struct judge *j);
/* ... or along n random directions in parameter space, against the length of the gradient. */
double judge_directions(struct judge *j, size_t n);

/* One op by itself on random numbers: the largest difference of all its gradients (inputs, weight, bias) from
 * central differences of sum(dy * y) (or the loss), against the largest gradient of the same tensor. */
double judge_op(const struct op *op, struct shape in, struct shape out, size_t batch, bool adds,
                uint64_t seed);

#endif
