/* steps.h - the steps of every optimiser, compiled for each instruction set. */
#ifndef VECHE_OPTIM_STEPS_H
#define VECHE_OPTIM_STEPS_H

#include "optim/optim.h"

#define DECLARE_STEP(isa, rule) optim_step_fn rule##_step_##isa;
EACH_ISA(DECLARE_STEP, sgd)
EACH_ISA(DECLARE_STEP, adagrad)
EACH_ISA(DECLARE_STEP, rmsprop)
EACH_ISA(DECLARE_STEP, adam)
EACH_ISA(DECLARE_STEP, adamw)
#undef DECLARE_STEP

#endif
