/* waits.c - who waited for whom.
 *
 * A wait counts for the peer that was waited for; a wait for ANYONE for whoever's message ended it, and for
 * nobody where none came. Only the waiting of those that learn is held against a peer, since a helper that
 * waits for work is idle and not held up; what helpers waited is kept apart.
 *
 * Pairs are a dense table, which a world of more than MOST_IN_TABLE members does without.
 */
#include <stdlib.h>

#include "world/local/inside.h"

enum { MOST_IN_TABLE = 1024 };

fault waits_open(struct local *w)
{
    w->waits.for_agents = calloc(w->n, sizeof(double));
    w->waits.for_helpers = calloc(w->n, sizeof(double));
    if (!w->waits.for_agents || !w->waits.for_helpers)
        return OUT_OF_MEMORY;
    if (w->n > MOST_IN_TABLE)
        return OK;
    w->waits.pairs = calloc(w->n * w->n, sizeof(double));
    return w->waits.pairs ? OK : OUT_OF_MEMORY;
}

void waits_close(struct local *w)
{
    free(w->waits.for_agents);
    free(w->waits.for_helpers);
    free(w->waits.pairs);
}

void count_wait(struct actor *a, size_t peer, double since_s)
{
    struct local *w = a->world;
    size_t self = a->link.self;
    bool learns = self < w->stage->n_agents;
    double seconds = w->now_s - since_s;
    a->link.counts.waiting_s += seconds;
    if (peer == ANYONE)
        return;
    (learns ? w->waits.for_agents : w->waits.for_helpers)[peer] += seconds;
    if (learns && w->waits.pairs)
        w->waits.pairs[self * w->n + peer] += seconds;
}

const double *local_waited_for(const struct local *w)
{
    return w->waits.for_agents;
}

const double *local_helpers_waited_for(const struct local *w)
{
    return w->waits.for_helpers;
}

bool local_longest_for(const struct local *w, size_t member, size_t *who, double *seconds)
{
    double longest = 0;
    for (size_t i = 0; w->waits.pairs && i < w->stage->n_agents; i++)
        if (w->waits.pairs[i * w->n + member] > longest) {
            longest = w->waits.pairs[i * w->n + member];
            *who = i;
        }
    if (longest > 0)
        *seconds = longest;
    return longest > 0;
}

bool local_slowest_link(const struct local *w, size_t ends[2], double *seconds)
{
    const double *pairs = w->waits.pairs;
    double longest = 0;
    for (size_t i = 0; pairs && i < w->n; i++)
        for (size_t j = i + 1; j < w->n; j++) {
            double both = pairs[i * w->n + j] + pairs[j * w->n + i];
            if (both > longest) {
                longest = both;
                ends[0] = i;
                ends[1] = j;
            }
        }
    if (longest > 0)
        *seconds = longest;
    return longest > 0;
}
