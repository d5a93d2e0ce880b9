/* passes.h - a floor of the graph: how a network is simplified once it is built from layers, before it is planned or cut.
 *
 *   identities   an op that gives the numbers it reads is left out            identities.c
 *   merge        equal ops on equal inputs become one                         merge.c
 *   fuse         a relu becomes part of the op before it                      fuse.c
 *   drop         what no path leads from to the loss goes                     drop.c
 *
 * The first three turn readers to another tensor, drop takes away what then nobody reads. As each can make work for the
 * others, all are repeated until none finds anything.
 *
 * Laws, which tests hold against the engine `ref`: an op that stays computes the same bits from the same bits, in lessons
 * and exams; a parameter that stays keeps its name and its start; dropout drops the same numbers. Gradients are those of the
 * same function. They keep their bits, too, unless a tensor has got the readers of another one: its gradient is then a sum in another
 * order, and equal up to rounding.
 *
 * There is no pass that computes constants beforehand, as there are none: every op reads a tensor, and the first of all
 * tensors are the samples, so that everything depends on these. What is constant about an op is that it does nothing; see identities.
 */
#ifndef VECHE_GRAPH_PASSES_H
#define VECHE_GRAPH_PASSES_H

#include "graph/build.h"

enum graph_pass { IDENTITIES_PASS, MERGE_PASS, FUSE_PASS, DROP_PASS, N_GRAPH_PASSES };

extern const char *const pass_names[N_GRAPH_PASSES];

/* Runs some of the passes on a whole graph until they find nothing: a sum of 1 << pass. DROP_PASS always is among them. */
fault passes_run(struct graph *g, unsigned which);
#define ALL_PASSES ((1u << N_GRAPH_PASSES) - 1)

/* What a pass did to an op, in words: "relu1 is computed by bn1". */
void pass_tell(const struct gone *gone, FILE *to);

/* ---- for the passes ---- */

/* The readers of an op read another tensor from now on: the op is gone. */
void pass_replace(struct graph *g, enum graph_pass pass, const struct op *op, int by);

/* Each looks at all ops in turn. The uses are counted before it is called, and nothing is there that nobody reads. */
void pass_identities(struct graph *g);
void pass_merge(struct graph *g);
void pass_fuse(struct graph *g);
fault pass_drop(struct graph *g);

/* The op of which a relu can become part, or NULL. */
struct op *pass_fuses_into(const struct graph *g, const struct op *op);

#endif
