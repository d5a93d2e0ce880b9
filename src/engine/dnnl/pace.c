/* pace.c - see pace.h. */
#include "engine/dnnl/pace.h"

enum { TRY_ALONE_AFTER = 4, TRY_SHARED_AFTER = 16 }; /* lessons */

static const double much_slower = 1.25, newest_share = 0.5;

static bool is_slowed_down(const struct pace *p)
{
    return p->usual > 0 && p->shared > much_slower * p->usual;
}

bool pace_alone(struct pace *p)
{
    p->since_trial++;
    if (p->is_alone ? p->since_trial > TRY_SHARED_AFTER
                    : is_slowed_down(p) && p->since_trial > TRY_ALONE_AFTER) {
        p->since_trial = 0;
        return !p->is_alone;
    }
    return p->is_alone;
}

static double smooth(double old, double new)
{
    return old > 0 ? old + newest_share * (new - old) : new;
}

void pace_note(struct pace *p, bool was_alone, double seconds)
{
    if (was_alone == p->is_alone) {
        double *time = was_alone ? &p->alone : &p->shared;
        *time = smooth(*time, seconds);
        if (!was_alone && (p->usual == 0 || seconds < p->usual))
            p->usual = seconds;
    } else if (was_alone && seconds < p->shared) {
        p->is_alone = true;
        p->alone = seconds;
    } else if (was_alone) {
        p->usual = p->shared / much_slower; /* this is how fast sharing is now: no more trials for a while */
    } else if (seconds < p->alone) {
        p->is_alone = false;
        p->shared = seconds;
    }
}
