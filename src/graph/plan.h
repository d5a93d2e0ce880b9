/* plan.h - what is computed in which order, and where each tensor lies.
 *
 * The steps of a lesson are the ops forward, then their gradients backward; the steps of an exam are the ops forward.
 * An op that learns nothing itself and before which nothing is learnt has no backward step. A tensor's value is needed
 * until its last reader (backward included), its gradient from the first writer to the reader; buffers whose lives do
 * not touch share memory. Sizes come from the engine, which alone knows layouts.
 *
 * Passes are a lesson in stretches, between which other micro-batches may have theirs: forward, then backward; or forward,
 * the gradients of inputs, the gradients of weights. A buffer that lives in more than one stretch is kept: each micro-batch in flight
 * has its own memory for these, of `n_kept` bytes. All others lie in memory that any pass may use.
 */
#ifndef VECHE_GRAPH_PLAN_H
#define VECHE_GRAPH_PLAN_H

#include "graph/graph.h"

enum plan_kind { PLAN_EXAM, PLAN_LESSON, PLAN_PASSES, PLAN_SPLIT_PASSES };

struct step {
    int op;
    bool back;      /* the gradient of the op                                                */
    bool weights;   /* back: the gradients of its parameters are made                        */
    bool wanted[2]; /* back: the gradient of in[i] is wanted (never of the graph's input)    */
    bool adds[2];   /* back: it is added to what another reader of in[i] already put there   */
};

#define PLAN_NOWHERE ((size_t)-1)

struct plan {
    struct step *steps; /* in the graph's or caller's arena */
    size_t n_steps;
    size_t n_forward; /* steps[0 .. n_forward) are forward */
    size_t
        n_inputs; /* steps[n_inputs .. n_steps) make gradients of weights alone; n_steps where they are not apart */
    size_t *value_at; /* per tensor: offset in bytes                                            */
    size_t *grad_at;  /* per tensor: offset in bytes, PLAN_NOWHERE where there is no gradient   */
    size_t n_kept;    /* offsets below are in the memory that a micro-batch keeps; 0 in lessons and exams */
    size_t n_bytes;   /* of the whole memory, all offsets multiples of 64                       */
};

/* `value_bytes` and `grad_bytes` hold one size per tensor (for the whole batch). An exam has no gradients: grad_bytes may be NULL. */
fault plan_make(const struct graph *g, enum plan_kind kind, const size_t *value_bytes,
                const size_t *grad_bytes, struct arena *arena, struct plan *out);

/* The memory of a lesson of so many samples whose values and gradients are floats, without anything between them. */
fault plan_lesson_bytes(const struct graph *g, size_t n_samples, size_t *out);

#endif
