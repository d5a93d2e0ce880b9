/* describe.h - an op in words, for tables and drawings. */
#ifndef VECHE_GRAPH_DESCRIBE_H
#define VECHE_GRAPH_DESCRIBE_H

#include "graph/graph.h"

/* "conv 3x3, stride 2, pad 1" */
struct op_text {
    char text[64];
};
struct op_text op_what(const struct op *op);

/* The name of the op that makes its k-th input: "input" for the samples. */
const char *op_reads(const struct graph *g, const struct op *op, int k);
/* In floats. */
size_t op_parameters(const struct graph *g, const struct op *op);

#endif
