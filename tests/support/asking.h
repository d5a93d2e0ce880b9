/* asking.h - strategies that ask for numbers, for tests: the registry with them in it.
 *
 *   asking:  in each round the norm of the gradient scales the step, and says for how long to sleep; a large one makes the agent ask
 *            for its loss, too. What the one before it in the circle hands over is kept where it shortens the way
 *   deaf:    the same messages and steps, and nothing is asked
 *
 * A test that includes this has this registry in place of the program's (src/strategy/kinds.c), so only one file of it may.
 */
#ifndef VECHE_TESTS_ASKING_H
#define VECHE_TESTS_ASKING_H

#include <stdio.h>

#include "strategy/strategies.h"

static fault asking_forgives(fault f)
{
    if (f && !is_about_peers(f))
        return f;
    fault_drop(f);
    return OK;
}

static fault asking_gives(struct agent *a, size_t next)
{
    if (!link_takes_part(a->link, next, a->k))
        return OK;
    return asking_forgives(link_send_rows(a->link, next, a->k, whole(ROWS_PARAMS)));
}

static fault asking_takes(struct agent *a, size_t before, double share)
{
    if (!link_takes_part(a->link, before, a->k))
        return OK;
    fault f = link_recv_rows(a->link, before, a->k, &a->parcels[0], NULL);
    if (f)
        return asking_forgives(f);
    a->shares[0] = share;
    return agent_mix(a, ROWS_PARAMS, 1 - share, 1);
}

static fault asking_step(struct agent *a, double norm)
{
    return link_update(a->link, 0, TO_END, agent_rate(a) / (1 + norm), ++a->steps);
}

static fault asking_run(struct agent *a)
{
    size_t n = a->stage->n_agents;
    while (agent_goes_on(a)) {
        double norm, across = 0, loss = 0, share = 0.5;
        TRY(agent_learn(a));
        TRY(agent_norm(a, ROW_GRADS, &norm));
        if (norm > 1)
            TRY(agent_loss(a, &loss));
        TRY(agent_dot(a, ROW_PARAMS, ROW_GRADS, &across));
        TRY(asking_step(a, norm));
        TRY(link_sleep(a->link, 1e-4 * norm));
        TRY(agent_norm(a, ROW_PARAMS, &norm));
        share = across > 0 ? 0.5 / (1 + norm) : 0.25 / (1 + loss);
        if (n > 1) {
            TRY(asking_gives(a, (a->index + 1) % n));
            TRY(asking_takes(a, (a->index + n - 1) % n, share));
        }
        TRY(agent_end_round(a));
    }
    return OK;
}

static fault deaf_run(struct agent *a)
{
    size_t n = a->stage->n_agents;
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(asking_step(a, 1));
        TRY(link_sleep(a->link, 1e-4));
        if (n > 1) {
            TRY(asking_gives(a, (a->index + 1) % n));
            TRY(asking_takes(a, (a->index + n - 1) % n, 0.5));
        }
        TRY(agent_end_round(a));
    }
    return OK;
}

static const struct strategy_row asking_row = {.run = asking_run, .hears_everyone = true},
                                 deaf_row = {.run = deaf_run, .hears_everyone = true};
static const struct kind asking_kind = {.name = "asking", .help = "asks", .row = &asking_row},
                         deaf_kind = {.name = "deaf", .help = "does not", .row = &deaf_row};
extern const struct kind strategy_single, strategy_consensus;

static const struct kind *const asking_kinds[] = {&asking_kind, &deaf_kind, &strategy_single,
                                                  &strategy_consensus};

const struct kinds strategy_kinds = {.each = asking_kinds, .n = sizeof asking_kinds / sizeof *asking_kinds};

fault strategy_check_native(const struct experiment *e, const char *setting, bool is_chosen)
{
    (void)e, (void)setting, (void)is_chosen;
    return OK;
}

#endif
