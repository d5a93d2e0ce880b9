/* machines.h - what `machines:` means: how fast each agent's machine is, and when it falls behind.
 *
 *   a lesson of b samples on agent i's machine takes  b / (rate * speed_i) * slowdown           virtual seconds
 *   a step or mix that reads and writes n bytes       n / (memory_gbps * 1e9 * speed_i); memory_gbps 0: nothing
 *
 * A sum of n rows of which m came from others moves n + 1 + 2 m of them: what comes is written to memory and read again.
 *
 * Helpers' machines have speed 1. `machines: measured` has neither rate nor memory_gbps until somebody has measured them
 * and said machines_are.
 *
 * Everything follows from the seed: the speeds once, the slowdown of every lesson anew.
 */
#ifndef VECHE_EXPERIMENT_MACHINES_H
#define VECHE_EXPERIMENT_MACHINES_H

#include "experiment/experiment.h"

/* The speed of each agent's machine, all above 0. */
void machine_speeds(const struct machine_settings *m, uint64_t seed, size_t n_agents, double *speeds);

/* How many times longer lesson k of an agent takes than its machine's speed says: 1 where nothing delays it. */
double machine_slowdown(const struct machine_settings *m, uint64_t seed, size_t agent, uint64_t k);

/* What it takes a machine of this speed to read and write so many bytes in a step or a mix. */
double machine_memory_s(const struct machine_settings *m, double speed, double n_bytes);

struct measured_settings {
    int64_t side_by_side; /* agents that share this machine */
    double seconds;       /* to measure */
};

/* What is to be measured, or NULL. */
const struct measured_settings *machines_to_measure(const struct machine_settings *m);
/* They were measured: from now on the experiment is one where these numbers are given. Lessons scatter by `sigma` (the
 * stragglers 'scatter'), unless the experiment says how they do. */
fault machines_are(struct experiment *e, double rate, double memory_gbps, double sigma);

/* The rows behind KIND_MACHINE, KIND_SPEED and KIND_STRAGGLER. */
extern const struct kind machine_rows[2], speed_rows[3], straggler_rows[4];
extern const struct kinds machine_kinds, speed_kinds, straggler_kinds;

#endif
