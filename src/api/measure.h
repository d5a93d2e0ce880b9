/* measure.h - `machines: measured`: how fast this machine is at an experiment. */
#ifndef VECHE_API_MEASURE_H
#define VECHE_API_MEASURE_H

#include "experiment/experiment.h"

/* What was measured before, for experiments that would measure the same. */
struct measured {
    bool known;
    char of[512]; /* network, batch, engine, optimiser, ... */
    double rate, memory_gbps, scatter;
};

/* Where the experiment says so, measures and puts the numbers into it; `text` becomes a line that says what they are, and
 * is empty where there is nothing to measure. `last` is used if it fits, and replaced if not. */
fault measure_machines(struct experiment *e, struct measured *last, char *text, size_t n);

#endif
