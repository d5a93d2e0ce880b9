/* local.h - the local world: all agents in one process, taking turns on a virtual clock.
 *
 *   turns:  run every agent that can go on until it waits -> (the moment is over: tell the watcher) -> move
 * the clock to what happens next -> wake whom it concerns -> ...
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

#include "strategy/agent.h"
#include "world/local/tape.h"

struct local;

struct watcher {
    void *ctx;
    /* Nothing more happens at this moment. A fault ends the play; FAULT_STOPPED is not an error. */
    fault (*moment)(void *ctx);
    void (*note)(void *ctx, double now_s, size_t agent, const char *kind, const char *text);
};

/* Spare rows the engine must have for so many agents, helpers counted, and links. */
size_t local_spare_rows(size_t n_members, size_t n_edges);
/* The spare row nobody uses but the watcher: room for the mean of all agents. */
size_t local_mean_row(size_t n_members);

/* Agents are borrowed and get their links; `speeds` is copied. */
fault local_open(struct stage *stage, struct agent *agents, struct engine *engine, const double *speeds,
                 struct watcher watcher, struct local **out);
void local_close(struct local *w);

/* Lets everyone live to the end of the play. */
fault local_play(struct local *w);
/* Lives through the first `steps` steps without numbers; afterwards the rows must be restored before
 * local_play. */
fault local_replay(struct local *w, uint64_t steps);

double local_now_s(const struct local *w);
uint64_t local_steps(const struct local *w);
bool local_is_replaying(const struct local *w);
bool local_is_alive(const struct local *w, size_t agent);
struct link_counts local_counts(const struct local *w, size_t agent);
/* How long each member was waited for, in virtual seconds: by those that learn, by those that help. */
const double *local_waited_for(const struct local *w);
const double *local_helpers_waited_for(const struct local *w);
/* Which agent waited longest for this member; which two waited longest for each other, one way and the other taken
 * together. False where nobody waited or there are too many members to tell. */
bool local_longest_for(const struct local *w, size_t member, size_t *who, double *seconds);
bool local_slowest_link(const struct local *w, size_t ends[2], double *seconds);
/* Real seconds the engine worked for this world. */
struct tape_times local_times(const struct local *w);
/* Computes everything asked for so far, so that rows and tallies are those of this moment. */
fault local_settle(struct local *w);
/* Which rows of a matrix hold something that is still needed: the agents' own (gradients only until they are
 * used), and spare ones that messages under way refer to. `needed` has one entry for each row, spare ones
 * included. */
void local_rows_needed(const struct local *w, enum row row, bool *needed);

#endif
