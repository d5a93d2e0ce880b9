/* check.c - what one row of settings cannot say alone: settings that need each other. */
#include "base/text.h"
#include "optim/optim.h"
#include "optim/rules.h"

fault optim_check(const struct optim_settings *o)
{
    if (!text_is(o->kind.kind->name, "sgd"))
        return OK;
    const struct sgd_settings *s = o->kind.settings;
    if (s->nesterov && s->momentum == 0)
        return fail_at(o->kind.place, "optim: nesterov requires a momentum above 0");
    return OK;
}
