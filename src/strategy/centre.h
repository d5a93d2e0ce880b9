/* centre.h - one helper keeps what all have in common; those that learn call it (call.h), it answers with rows.
 *
 *   worker:  begin -> ... -> end -> the centre's rows; or it goes on without them, and says so
 *   centre:  while it is needed: hear -> answer
 *
 * The centre does without those that are gone or silent, and names them. It comes to its end when no worker is
 * left that could call: all that can be reached have come to theirs.
 */
#ifndef VECHE_STRATEGY_CENTRE_H
#define VECHE_STRATEGY_CENTRE_H

#include "strategy/agent.h"

struct centre { /* the first thing in stage->shared */
    struct centre_line {
        struct call_line line;
        struct call_head question;
    } * lines; /* owned: one for each worker */
    struct service service;
};

/* For struct kind.helpers: one. */
int64_t centre_helpers(const void *settings, int64_t agents);
/* What was made before a fault is freed by release. */
fault centre_init(struct centre *c, const struct stage *stage);
void centre_release(struct centre *c);
/* The open and close of a strategy that shares nothing else. */
fault centre_open(const struct stage *stage, void **shared);
void centre_close(void *shared);

/* Of both: after a crash a worker's rows become the centre's, or stay where it is not there; the centre has
 * kept its own. */
fault centre_rejoin(struct agent *a, bool *there);

/* ---- a worker ---- */

/* Of my rows, as they are now. */
fault centre_begin(struct agent *a, row_set rows);
/* What goes wrong with the centre is noted, once for each time it goes missing, and `there` is false: then
 * there is no parcel. */
fault centre_end(struct agent *a, struct parcel *out, bool *there);
/* No more calls will come. */
void centre_leave(struct agent *a);

/* ---- the centre ---- */

struct service *centre_of(struct agent *a);
/* Names those that are gone. */
bool centre_is_needed(struct agent *a);

#endif
