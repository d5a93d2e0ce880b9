/* schedule.c - how the learning rate moves.
 *
 *   lr(k) = schedule(epoch of round k) * warm-up(k)      k = 0, 1, ...
 *
 *   warm-up(k) = L                                       after it
 *              = L (k + 1) / W                           while k + 1 < W
 *              = F + (L - F) k / (W - 1)                 the same from a rate F (Goyal et al. 2017)
 *
 * L is lr, times the agents under the linear scaling rule; W = warmup_epochs * rounds_per_epoch; F is
 * warmup_from. The second form is the third with F = L / W: the rate rises by the same amount every round and
 * is L in the last of them. To rise from the base rate to k times it, as the paper does, F is lr.
 *
 * A schedule is a pure factor between 0 and some number, a function of the epochs that lie behind (a fraction
 * inside an epoch) and of the epochs in all. Warm-up multiplies it, so that cosine and warm-up both start at
 * round 0 and neither moves the other's end.
 */
#include <math.h>

#include "optim/optim.h"
#include "optim/rules.h"

typedef double schedule_fn(const void *settings, double epoch, double epochs);
struct schedule_row {
    schedule_fn *factor;
    bool follows_epochs; /* it depends on the epochs in all, and not only on those that lie behind */
};

static double constant(const void *settings, double epoch, double epochs)
{
    (void)settings, (void)epoch, (void)epochs;
    return 1;
}

/* An epoch is rarely a whole number of rounds; the division that found `epoch` may have fallen just short of
 * one that is reached, which would delay the step by a round. */
static double step(const void *settings, double epoch, double epochs)
{
    (void)epochs;
    const struct step_settings *s = settings;
    double factor = 1;
    for (size_t i = 0; i < s->epochs.n; i++)
        if (epoch + 1e-9 >= s->epochs.at[i])
            factor *= s->factor;
    return factor;
}

static double cosine(const void *settings, double epoch, double epochs)
{
    const struct cosine_settings *s = settings;
    double share = epoch < epochs ? epoch / epochs : 1;
    return s->floor + (1 - s->floor) * 0.5 * (1 + cos(3.14159265358979323846 * share));
}

double optim_lr(const struct optim_settings *o, int64_t agents, uint64_t k, double rounds_per_epoch,
                double epochs)
{
    const struct schedule_row *schedule = o->schedule.kind->row;
    double lr = *(const double *)o->kind.settings;
    if (o->scale_lr)
        lr *= (double)agents;
    double factor = schedule->factor(o->schedule.settings, (double)k / rounds_per_epoch, epochs);
    double rise = o->warmup_epochs * rounds_per_epoch;
    if ((double)k + 1 >= rise)
        return lr * factor;
    if (o->warmup_from > 0)
        return (o->warmup_from + (lr - o->warmup_from) * (double)k / (rise - 1)) * factor;
    return lr * factor * (((double)k + 1) / rise);
}

static const struct schedule_row constant_row = {constant, false}, step_row = {step, false},
                                 cosine_row = {cosine, true};

bool optim_follows_epochs(const struct optim_settings *o)
{
    return ((const struct schedule_row *)o->schedule.kind->row)->follows_epochs;
}

static const struct field step_fields[] = {
    REALS_FIELD(struct step_settings, epochs, NULL, 0, 1e9,
                "when the rate is multiplied by factor, in epochs: [81, 122]"),
    REAL_FIELD(struct step_settings, factor, "0.1", 0, 1e6, "what the rate is multiplied by at each of these epochs"),
};

static const struct field cosine_fields[] = {
    REAL_FIELD(struct cosine_settings, floor, "0", 0, 1, "share of the rate that is left at the end of training"),
};

static const struct kind rows[] = {
    {.name = "constant", .help = "the rate stays as it is", .row = &constant_row},
    {.name = "step",
     .help = "the rate is multiplied by a factor at certain epochs",
     .fields = step_fields,
     .n_fields = 2,
     .size = sizeof(struct step_settings),
     .row = &step_row},
    {.name = "cosine",
     .help = "the rate falls along half a cosine over the whole training",
     .fields = cosine_fields,
     .n_fields = 1,
     .size = sizeof(struct cosine_settings),
     .row = &cosine_row},
};

const struct kinds schedule_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};
