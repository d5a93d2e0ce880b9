/* optim.h - from a gradient to a step; how the learning rate moves.
 *
 * An optimiser is a row: how many slots (spans as long as the parameters) it keeps, and one function over a stretch of
 * the flat spans. Steps are element by element, so a span may be cut anywhere and the pieces done in any order.
 */
#ifndef VECHE_OPTIM_OPTIM_H
#define VECHE_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/isa.h"
#include "experiment/experiment.h"

enum { OPTIM_SLOTS = 2 }; /* the most any optimiser keeps */

/* One step of one stretch: theta moves, the slots follow. `t` counts this replica's steps from 1. */
typedef void optim_step_fn(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                           float *const slot[OPTIM_SLOTS]);

struct optim_row { /* what struct kind.row of an optimiser points to */
    size_t n_slots;
    const char *slot_names[OPTIM_SLOTS]; /* as PyTorch calls them: "momentum_buffer", "exp_avg", ... */
    float slot_start[OPTIM_SLOTS];       /* what a slot holds before the first step                  */
    optim_step_fn *step[ISA_avx512_bf16 + 1]; /* by instruction set: all the same bits */
    bool (*uses_slot)(const void *settings, size_t slot); /* whether a step reads and writes it; NULL: every one */
};

extern const struct kinds optim_kinds;    /* sgd, adagrad, rmsprop, adam, adamw  */
extern const struct kinds schedule_kinds; /* constant, step, cosine              */

static inline const struct optim_row *optim_row(const struct optim_settings *o)
{
    return o->kind.kind->row;
}

/* The learning rate of round k (from 0) when an epoch is `rounds_per_epoch` rounds: the base rate (times the number
 * of agents under the linear scaling rule), moved by the schedule and the warm-up (schedule.c has the formula). */
double optim_lr(const struct optim_settings *o, int64_t agents, uint64_t k, double rounds_per_epoch, double epochs);
/* Whether the rate of a round depends on how many epochs there are in all. */
bool optim_follows_epochs(const struct optim_settings *o);

/* Rows that one step reads and writes: theta and g read, theta written, every slot in use read and written. */
size_t optim_rows_moved(const struct optim_settings *o);
/* Some slot is in use: plain SGD has none. */
bool optim_keeps_slots(const struct optim_settings *o);

/* Settings that are each allowed but do not go together (nesterov without momentum): a fault with the place. */
fault optim_check(const struct optim_settings *o, int64_t agents);

#endif
