/* pace.c - see pace.h. */
#include "engine/dnnl/pace.h"

#include <math.h>

enum { LESSONS_BETWEEN_TRIALS = 3 };

static const double much_slower = 1.25, clearly_faster = 0.8, newest_share = 0.5;
static const double patience_at_first = 100, patience_grows = 3, most_patience = 300;

static bool is_in_doubt(const struct pace *p)
{
    return p->is_alone || !p->was_tried || p->shared > much_slower * p->usual;
}

bool pace_alone(struct pace *p)
{
    if (!is_in_doubt(p)) {
        p->cost = 0; /* of a trial under other circumstances */
        return p->is_alone;
    }
    if (p->n_since_trial < LESSONS_BETWEEN_TRIALS || p->since_trial < p->patience * p->cost)
        return p->is_alone;
    p->n_since_trial = 0;
    p->since_trial = 0;
    p->was_tried = true;
    return !p->is_alone;
}

static double smooth(double old, double new)
{
    return old > 0 ? old + newest_share * (new - old) : new;
}

static void note_habit(struct pace *p, double seconds)
{
    double *time = p->is_alone ? &p->alone : &p->shared;
    *time = smooth(*time, seconds);
    p->n_since_trial++;
    p->since_trial += seconds;
    if (!p->is_alone && (p->usual == 0 || seconds < p->usual))
        p->usual = seconds;
}

static void note_trial(struct pace *p, double seconds)
{
    double habit = p->is_alone ? p->alone : p->shared;
    if (seconds <
        (p->is_alone ? clearly_faster : 1) * habit) { /* one lucky lesson beside a neighbour is not enough */
        p->is_alone = !p->is_alone;
        *(p->is_alone ? &p->alone : &p->shared) = seconds;
        p->cost = p->patience = 0;
        return;
    }
    p->patience = p->patience > 0 ? fmin(patience_grows * p->patience, most_patience) : patience_at_first;
    p->cost = seconds > habit ? seconds - habit : 0;
    if (!p->is_alone)
        p->usual = p->shared; /* this is how fast sharing is now */
}

void pace_note(struct pace *p, bool was_alone, double seconds)
{
    if (was_alone == p->is_alone)
        note_habit(p, seconds);
    else
        note_trial(p, seconds);
}
