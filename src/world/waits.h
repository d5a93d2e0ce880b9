/* waits.h - who waited for whom.
 *
 * A wait counts for the peer that was waited for; a wait for ANYONE for the sender of the message that ended it, and for
 * no member where none came. Only the waiting of those that learn is held against a peer, since a helper that
 * waits for work is idle and not held up; what helpers waited is kept apart.
 *
 * Pairs are a dense table, which a world of more than MOST_IN_TABLE members does without.
 */
#ifndef VECHE_WORLD_WAITS_H
#define VECHE_WORLD_WAITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

enum { MOST_IN_TABLE = 1024 };

struct waits { /* owned, seconds of the world's clock; of each member: how long it was waited for ... */
    size_t n_agents, n;               /* members: those that learn, and all */
    double *for_agents, *for_helpers; /* ... by those that learn, by those that help */
    double *pairs; /* [n x n]: how long an agent of a row waited for that of a column; NULL: too many */
};

fault waits_open(struct waits *w, size_t n_agents, size_t n_members);
void waits_close(struct waits *w);
/* `who` has waited so long for `peer`, or for ANYONE and no message came. */
void waits_count(struct waits *w, size_t who, size_t peer, double seconds);
/* Which agent waited longest for this member; which two waited longest for each other, one way and the other taken
 * together. False where none waited or there are too many members to tell. */
bool waits_longest_for(const struct waits *w, size_t member, size_t *who, double *seconds);
bool waits_slowest_link(const struct waits *w, size_t ends[2], double *seconds);

#endif
