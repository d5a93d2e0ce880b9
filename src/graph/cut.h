/* cut.h - one network as several parts, each a graph of its own that one machine can compute.
 *
 *        whole:  conv - batchnorm - conv - add - linear - loss
 *                   \___________________/
 *
 *        part 0: conv -> send, send          part 1: receive - batchnorm - conv -> send
 *                                            part 2: receive, receive - add - linear - loss
 *
 * What one part makes and another reads is sent straight to its reader: a send there, a receive here, one pair for each
 * tensor and reading part. The gradient goes the same way back. Every op of a part computes what it computes in the whole,
 * from the same numbers in the same order, so forward and backward by parts give the bits of the whole.
 *
 * That holds for sums of gradients, too. Where several ops read a tensor their gradients are added from the last op
 * to the first; so a part sends one gradient for all of its readers only if they are the last, and else one for each reader.
 */
#ifndef VECHE_GRAPH_CUT_H
#define VECHE_GRAPH_CUT_H

#include "graph/graph.h"

/* Cuts a whole graph into n parts: op i goes to part part_of[i]. Nothing may flow from a part to one before it, and no part is
 * empty. The parts are the caller's, to be freed with graph_free; they borrow the whole. */
fault graph_cut(const struct graph *whole, const size_t *part_of, size_t n, struct graph **parts);

/* The op before which a part begins that is to begin with this layer: the op of that name, else the first of those behind
 * "name."; n_ops where there is none. */
size_t graph_cut_at(const struct graph *g, const char *layer);

#endif
