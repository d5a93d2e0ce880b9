/* peak.h - the most this machine's cores can do, to measure engines against. */
#ifndef VECHE_ENGINE_PEAK_H
#define VECHE_ENGINE_PEAK_H

#include "base/isa.h"
#include "base/pool.h"

/* The work of one thread: so many steps of so many chains of vectors. */
enum { PEAK_CHAINS = 12, PEAK_LANES = 16, PEAK_STEPS = 200000 };
#define DECLARE_WORK(isa, name) pool_task name##_##isa;
EACH_ISA(DECLARE_WORK, peak_work)
#undef DECLARE_WORK

/* Floating-point operations a second (a multiply-add is two) of fp32 multiply-adds on all workers at once, by
 * running them for a moment; the best of several tries, since the machine may be shared. */
double peak_flops(struct pool *pool);

#endif
