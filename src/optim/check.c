/* check.c - what one row of settings cannot say alone: settings that need each other. */
#include "base/text.h"
#include "optim/optim.h"
#include "optim/rules.h"

static fault check_warmup(const struct optim_settings *o, int64_t agents)
{
    double lr = *(const double *)o->kind.settings * (o->scale_lr ? (double)agents : 1);
    if (o->warmup_from > 0 && o->warmup_epochs == 0)
        return fail_at(o->schedule.place,
                       "optim.schedule.warmup_from: without warmup_epochs there is no warm-up");
    if (o->warmup_from >= lr && o->warmup_from > 0)
        return fail_at(
            o->schedule.place,
            "optim.schedule.warmup_from: a warm-up rises, and %g is not below the rate it leads to, %g",
            o->warmup_from, lr);
    return OK;
}

fault optim_check(const struct optim_settings *o, int64_t agents)
{
    TRY(check_warmup(o, agents));
    if (!text_is(o->kind.kind->name, "sgd"))
        return OK;
    const struct sgd_settings *s = o->kind.settings;
    if (s->nesterov && s->momentum == 0)
        return fail_at(o->kind.place, "optim: nesterov requires a momentum above 0");
    return OK;
}
