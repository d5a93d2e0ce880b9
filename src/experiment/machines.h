/* machines.h - what `machines:` means: how fast each agent's machine is, and when it falls behind.
 *
 *   a lesson of b samples on agent i's machine takes  b / (rate * speed_i) * slowdown           virtual seconds
 *   a step or mix that reads and writes n bytes       n / (memory_gbps * 1e9 * speed_i); memory_gbps 0: nothing
 *
 * Helpers' machines have speed 1.
 *
 * Everything follows from the seed: the speeds once, the slowdown of every lesson anew.
 */
#ifndef VECHE_EXPERIMENT_MACHINES_H
#define VECHE_EXPERIMENT_MACHINES_H

#include "experiment/experiment.h"

/* The speed of each agent's machine, all above 0. */
void machine_speeds(const struct machine_settings *m, uint64_t seed, size_t n_agents, double *speeds);

/* How many times longer lesson k of an agent takes than its machine's speed says: 1 where nothing delays it.
 */
double machine_slowdown(const struct machine_settings *m, uint64_t seed, size_t agent, uint64_t k);

/* What it takes a machine of this speed to read and write so many bytes in a step or a mix. */
double machine_memory_s(const struct machine_settings *m, double speed, double n_bytes);

/* The rows behind KIND_SPEED and KIND_STRAGGLER. */
extern const struct kind speed_rows[3], straggler_rows[3];
extern const struct kinds speed_kinds, straggler_kinds;

#endif
