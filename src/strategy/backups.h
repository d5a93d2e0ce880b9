/* backups.h - synchronous SGD with backup workers (Chen et al. 2016): a round does not wait for its last b gradients.
 *
 *   agent:    learn -> call: ready(k) -> verdict:  counted: all-reduce with the others that count -> step -> k + 1
 *                                            late:    drop the gradient, take over the rows of one that is further
 *   counter:  ready(k) from enough -> counted to them;  the first ready(k + 1) -> late to all who are still at k;
 *             a farewell, after all rounds
 *
 * The counter is a member that does not learn, so that it answers at once. It decides on one set of agents at a time;
 * if one of them dies in the all-reduce, the others call ready(k) again, and only when all of them have spoken is it known
 * that none got through and the round may be done again: the replicas never part. When the counter itself is gone
 * all who are left go on without backups.
 */
#ifndef VECHE_STRATEGY_BACKUPS_H
#define VECHE_STRATEGY_BACKUPS_H

#include "call/service.h"
#include "collective/collective.h"
#include "strategy/agent.h"

struct allreduce { /* the settings of the strategy `allreduce` */
    int algorithm;
    double bucket_kb;
    int64_t backups;
    bool mix_statistics;
};

fault backups_open(const struct stage *s, void **shared);
void backups_close(void *shared);

fault backups_learn(struct agent *a, const struct allreduce *s, const struct collective *c);
fault backups_count(struct agent *a, const struct allreduce *s);
fault backups_rejoin(struct agent *a);

#endif
