/* peak.h - the most this machine's cores can do, to measure engines against. */
#ifndef VECHE_ENGINE_PEAK_H
#define VECHE_ENGINE_PEAK_H

#include "base/pool.h"

/* Floating-point operations a second (a multiply-add is two) of fp32 multiply-adds on all workers at once, by
 * running them for a moment; the best of several tries, since the machine may be shared. */
double peak_flops(struct pool *pool);

#endif
