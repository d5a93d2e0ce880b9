/* profile.h - what each layer of a network costs: a chain that can be cut between any two layers.
 *
 *        edge[1]      edge[2]                edge[i]: bytes that cross where layer i begins another machine's part, each way
 *   conv --|-- relu --|-- add -- ...
 *      \______________|___/                  a flow: what one layer makes and another reads
 *
 * All figures are of one micro-batch, on a machine of speed 1. A tensor that several later layers read crosses a cut once. The
 * layers of a file are a chain without branches; those of a network are its ops.
 */
#ifndef VECHE_TEAM_PROFILE_H
#define VECHE_TEAM_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/fault.h"

struct graph;
struct engine_setup;
struct engine_ops;

struct profile_layer {
    const char *name;
    double forward_s, inputs_s, weights_s; /* a backward pass is the last two: gradients of inputs, and of weights */
    double parameter_bytes;
    double kept_bytes; /* of what it makes: what is needed again in the backward pass */
    bool mixes;        /* each of its outputs depends on all inputs or channels; of a file: it has parameters */
};

struct profile_flow {
    size_t from, to;
    double bytes; /* all that `from` makes, however many read it */
};

struct profile {
    const char *source;           /* for people: the file, or "this machine, ..." */
    struct profile_layer *layers; /* in the arena, as all here */
    size_t n_layers;
    struct profile_flow *flows; /* by `from`, then by `to` */
    size_t n_flows;
    double *edge; /* [n_layers + 1]; 0 at both ends */
};

static inline double profile_layer_s(const struct profile_layer *l)
{
    return l->forward_s + l->inputs_s + l->weights_s;
}

/* Of a CSV file with a line for each layer and the columns layer, forward_ms, backward_ms, activation_bytes, parameter_bytes, in
 * any order; also weights_ms, the part of backward_ms that is spent on gradients of weights, else half of it. A fault names
 * line and column. */
fault profile_read(const char *path, struct arena *arena, struct profile *out);
/* The same of its text, which ends with a zero and is changed. */
fault profile_read_text(char *text, const char *source, struct arena *arena, struct profile *out);

/* The chain of a whole network's ops for micro-batches of n samples; it takes no time yet. */
fault profile_of_graph(const struct graph *g, size_t n_samples, struct arena *arena, struct profile *out);
/* Its times where all passes of a micro-batch take so many seconds: shared out by the multiplications and additions of each layer, as the virtual
 * clock does it. */
void profile_share_out(const struct graph *g, double micro_batch_s, struct profile *p);
/* Its times on this machine: medians of passes of each layer alone, scaled so that their sum is that of the whole network's passes,
 * which an engine fuses and whose values need not be handed on. The setup says batch, micro-batches, precision and threads. */
fault profile_measure(const struct engine_ops *ops, const struct engine_setup *setup, struct profile *p);

/* The layer of this name; a fault says which there is that is nearest. */
fault profile_find(const struct profile *p, const char *name, size_t *out);

#endif
