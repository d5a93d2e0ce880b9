/* waits.c - see waits.h. */
#include "world/waits.h"

#include <stdlib.h>

#include "link/link.h"

fault waits_open(struct waits *w, size_t n_agents, size_t n_members)
{
    *w = (struct waits){.n_agents = n_agents, .n = n_members};
    w->for_agents = calloc(w->n, sizeof(double));
    w->for_helpers = calloc(w->n, sizeof(double));
    if (!w->for_agents || !w->for_helpers)
        return OUT_OF_MEMORY;
    if (w->n > MOST_IN_TABLE)
        return OK;
    w->pairs = calloc(w->n * w->n, sizeof(double));
    return w->pairs ? OK : OUT_OF_MEMORY;
}

void waits_close(struct waits *w)
{
    free(w->for_agents);
    free(w->for_helpers);
    free(w->pairs);
}

void waits_count(struct waits *w, size_t who, size_t peer, double seconds)
{
    bool learns = who < w->n_agents;
    if (peer == ANYONE)
        return;
    (learns ? w->for_agents : w->for_helpers)[peer] += seconds;
    if (learns && w->pairs)
        w->pairs[who * w->n + peer] += seconds;
}

bool waits_longest_for(const struct waits *w, size_t member, size_t *who, double *seconds)
{
    double longest = 0;
    for (size_t i = 0; w->pairs && i < w->n_agents; i++)
        if (w->pairs[i * w->n + member] > longest) {
            longest = w->pairs[i * w->n + member];
            *who = i;
        }
    if (longest > 0)
        *seconds = longest;
    return longest > 0;
}

bool waits_slowest_link(const struct waits *w, size_t ends[2], double *seconds)
{
    double longest = 0;
    for (size_t i = 0; w->pairs && i < w->n; i++)
        for (size_t j = i + 1; j < w->n; j++) {
            double both = w->pairs[i * w->n + j] + w->pairs[j * w->n + i];
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
