/* stop.c - train.stop: a run that has come to what it was to come to ends before its rounds do.
 *
 *   evaluation -> mean accuracy and loss of the agents -> met? -> a line in the events -> the run ends as it is at this moment
 *
 * What is decided by is kept in every checkpoint, also where nothing is to be stopped: so the same run ends at the same
 * evaluation however often it is resumed, and a target that is given later is known to have been missed so far.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/session.h"

/* ---- what can be wrong ---- */

/* Evaluations before the last round. */
static double evaluations_of(const struct experiment *e, double rounds_per_epoch)
{
    const struct every *every = &e->train.evaluate_every;
    bool in_rounds = every->unit == EVERY_ROUNDS;
    if (in_rounds && !(rounds_per_epoch > 0))
        return INFINITY;
    double whole = in_rounds ? (double)session_rounds_of_epochs(e->train.epochs, rounds_per_epoch) : e->train.epochs;
    return ceil(whole / every->count - 1e-9) - 1;
}

fault stop_check(const struct experiment *e, double rounds_per_epoch)
{
    const struct stop_settings *s = &e->train.stop;
    if (!stop_is_written(s))
        return OK;
    if (e->train.evaluate_every.unit == EVERY_NEVER)
        return fail_at(s->place, "train.stop: it is decided at evaluations, and with 'train.evaluate_every: "
                                 "never' there are none");
    if (strcmp(e->engine.kind.kind->name, "null") == 0)
        return fail_at(s->place, "train.stop: engine 'null' computes nothing that could be good enough");
    double n = evaluations_of(e, rounds_per_epoch);
    if (n < 1)
        return fail_at(s->place, "train.stop: with train.epochs and train.evaluate_every as they are nothing "
                                 "is evaluated before the end");
    if ((double)s->no_progress >= n)
        return fail_at(s->place,
                       "train.stop.no_progress: the first evaluation and %lld without progress are more than "
                       "the %.0f before the end",
                       (long long)s->no_progress, n);
    return OK;
}

/* ---- deciding ---- */

bool stop_is_met(const struct stop_settings *s, const struct standing *p)
{
    return (s->accuracy > 0 && p->best_accuracy >= s->accuracy) ||
           (s->loss > 0 && p->lowest_loss <= s->loss) ||
           (s->no_progress && p->longest_in_vain >= (uint64_t)s->no_progress);
}

static void count(struct standing *p, double accuracy, double loss)
{
    bool better = !(accuracy <= p->best_accuracy); /* than NaN anything is */
    p->in_vain = better ? 0 : p->in_vain + 1;
    p->best_accuracy = better ? accuracy : p->best_accuracy;
    p->lowest_loss = loss >= p->lowest_loss ? p->lowest_loss : loss;
    p->longest_in_vain = p->in_vain > p->longest_in_vain ? p->in_vain : p->longest_in_vain;
}

static void say_why(const struct stop_settings *s, struct standing *p, double accuracy, double loss)
{
    if (s->accuracy > 0 && accuracy >= s->accuracy)
        snprintf(p->stopped_because, sizeof p->stopped_because,
                 "accuracy is %.6g, and train.stop.accuracy is %.6g", accuracy, s->accuracy);
    else if (s->loss > 0 && loss <= s->loss)
        snprintf(p->stopped_because, sizeof p->stopped_because, "loss is %.6g, and train.stop.loss is %.6g",
                 loss, s->loss);
    else
        snprintf(p->stopped_because, sizeof p->stopped_because,
                 "%llu evaluation%s in a row brought no better accuracy than %.6g, and "
                 "train.stop.no_progress is %lld",
                 (unsigned long long)p->in_vain, p->in_vain == 1 ? "" : "s", p->best_accuracy,
                 (long long)s->no_progress);
}

fault session_judge(struct veche_run *r)
{
    const struct stop_settings *s = &r->experiment->train.stop;
    struct standing *p = &r->standing;
    double accuracy = spread_of_scores(r->scores, r->n_agents, offsetof(struct score, accuracy)).mean;
    double loss = spread_of_scores(r->scores, r->n_agents, offsetof(struct score, loss)).mean;
    count(p, accuracy, loss);
    if (!stop_is_written(s) || !stop_is_met(s, p))
        return OK;
    say_why(s, p, accuracy, loss);
    r->notes++;
    session_tell(r, VECHE_NOTICE, p->stopped_because);
    return run_record_note(&r->folder, r->world->ops->steps(r->world), r->world->ops->now_s(r->world),
                           session_seconds(r), -1, "stop", p->stopped_because);
}
