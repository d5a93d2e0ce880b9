/* centre.h - one helper keeps what all have in common; those that learn call it, and it answers.
 *
 *   worker:  call (its round, then rows) ---> centre
 *            hear <------------- rows ------- answer
 *            leave ------------------------->
 *
 * Rows and answers travel under the caller's round: an answer that comes too late is forgotten with its
 * round. A worker that cannot reach the centre, or has waited for it a patience, goes on without it and says
 * so. The centre does without those that are gone, names them, and comes to its end when nobody is left who
 * could call: all that can be reached have come to theirs.
 */
#ifndef VECHE_STRATEGY_CENTRE_H
#define VECHE_STRATEGY_CENTRE_H

#include "strategy/agent.h"

/* For struct kind.helpers: one. */
int64_t centre_helpers(const void *settings, int64_t agents);

/* ---- a worker ---- */

/* Of my rows, as they are now. What goes wrong with the centre is noted, once for each time it goes missing,
 * and `there` is false. */
fault centre_call(struct agent *a, row_set rows, bool *there);
/* Waits for the answer to the call of this round. Where `there` is false there is no parcel. */
fault centre_hear(struct agent *a, struct parcel *out, bool *there);
/* After a crash: my rows become the centre's, or stay as they were where it is not there. */
fault centre_adopt(struct agent *a, bool *there);
/* No more calls will come. */
void centre_leave(struct agent *a);

/* ---- the centre ---- */

struct caller {
    size_t who;
    uint64_t round;
};

/* Somebody who can be reached has not come to its end. */
bool centre_is_needed(struct agent *a);
/* Waits for a call of one worker or ANYONE. `came` is false where there was none: that worker leaves, is gone
 * or silent. Then there is no parcel. */
fault centre_await(struct agent *a, size_t from, struct parcel *out, struct caller *caller, bool *came);
/* Of my rows. A caller that went away is done without. */
fault centre_answer(struct agent *a, const struct caller *caller, row_set rows);

#endif
