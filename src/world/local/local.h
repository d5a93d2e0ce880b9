/* local.h - the local world: all agents in one process, taking turns on a virtual clock.
 *
 *   turns:  run every agent that can go on until it waits -> (the moment is over: tell the watcher)
 *           -> move the clock to what happens next -> wake the agents it concerns -> ...
 *
 * Time is what the experiment says: lessons take as long as the machine needs, a machine's network card
 * serves one transfer at a time in each direction, and events of the script (crash, return, cut, ...) happen
 * when they are due. What agents compute is written on a tape (tape.h) and computed together. The order of
 * everything follows from the seed and the experiment alone, numbers play no part in it: same seed, same
 * bits, on any number of threads; and a run can be lived through again without its numbers, which is how one
 * resumes.
 */
#ifndef VECHE_WORLD_LOCAL_LOCAL_H
#define VECHE_WORLD_LOCAL_LOCAL_H

#include "world/local/tape.h"
#include "world/world.h"

struct local;

extern const struct world_door local_door;

/* Spare rows the engine must have for so many agents, helpers counted, and links. */
size_t local_spare_rows(size_t n_members, size_t n_edges);

/* The first spare row is the group's model; agents are borrowed and get their links; `speeds` of all machines, those of
 * the first agent first, is copied. */
fault local_open(const struct stage *stage, struct agent *agents, struct engine *engine, const double *speeds,
                 struct watcher watcher, struct world **out);
void local_close(struct local *w);

/* Lets all members live to the end of the play. */
fault local_play(struct local *w);
/* Lives through the first `steps` steps without numbers; afterwards the rows must be restored before
 * local_play. */
fault local_replay(struct local *w, uint64_t steps);

double local_now_s(const struct local *w);
uint64_t local_steps(const struct local *w);
bool local_is_replaying(const struct local *w);
bool local_is_alive(const struct local *w, size_t agent);
struct link_counts local_counts(const struct local *w, size_t agent);
const struct waits *local_waits(const struct local *w);
/* Real seconds the engine worked for this world. */
struct tape_times local_times(const struct local *w);
/* Computes everything asked for so far, so that rows and tallies are those of this moment. */
fault local_settle(struct local *w);
/* Which rows of a matrix hold something that is still needed: the agents' own (gradients only until they are
 * used), and spare ones that messages under way refer to. `needed` has one entry for each row, spare ones
 * included. */
void local_rows_needed(const struct local *w, enum row row, bool *needed);

#endif
