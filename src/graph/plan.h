/* plan.h - what is computed in which order, and where each tensor lies.
 *
 * The steps of a lesson are the ops forward, then their gradients backward; the steps of an exam are the ops forward.
 * An op that learns nothing itself and before which nothing is learnt has no backward step. A tensor's value is needed
 * until its last reader (backward included), its gradient from the first writer to the reader; buffers whose lives do
 * not touch share memory. Sizes come from the engine, which alone knows layouts.
 */
#ifndef VECHE_GRAPH_PLAN_H
#define VECHE_GRAPH_PLAN_H

#include "graph/graph.h"

struct step {
    int op;
    bool back;      /* the gradient of the op                                                */
    bool wanted[2]; /* back: the gradient of in[i] is wanted (never of the graph's input)    */
    bool adds[2];   /* back: it is added to what another reader of in[i] already put there   */
};

#define PLAN_NOWHERE ((size_t)-1)

struct plan {
    struct step *steps; /* in the graph's or caller's arena */
    size_t n_steps;
    size_t n_forward; /* steps[0 .. n_forward) are forward */
    size_t *value_at; /* per tensor: offset in bytes                                            */
    size_t *grad_at;  /* per tensor: offset in bytes, PLAN_NOWHERE where there is no gradient   */
    size_t n_bytes;   /* of the whole memory, all offsets multiples of 64                       */
};

/* `value_bytes` and `grad_bytes` hold one size per tensor (for the whole batch). `learning` false: forward only,
 * grad_bytes may be NULL. */
fault plan_make(const struct graph *g, bool learning, const size_t *value_bytes, const size_t *grad_bytes,
                struct arena *arena, struct plan *out);

#endif
