/* asking.h - strategies that ask for numbers, for tests: the registry with them in it.
 *
 *   asking:  in each round the norm of the gradient scales the step, and says for how long to sleep; a large one makes the agent ask
 *            for its loss, too. What the one before it in the circle hands over is kept where it shortens the way
 *   deaf:    the same messages and steps, and nothing is asked
 *   hoarding: the last three gradients lie in one row, three times as long as the parameters, and some of them in a row of seven
 *            floats; it steps by their mean, asks what two of them have in common, and the next in the circle hears some of both
 *
 * A test that includes this has this registry in place of the program's (src/strategy/kinds.c), so only one file of it may.
 */
#ifndef VECHE_TESTS_ASKING_H
#define VECHE_TESTS_ASKING_H

#include <math.h>
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

/* ---- hoarding ---- */

#define ROW_HISTORY ROW_KEPT
#define ROW_FEW     (ROW_KEPT + 1)
enum { HISTORY = 3, FEW = 7 };

static size_t history_floats(const struct row_needs *n)
{
    return HISTORY * n->graph->size;
}

static size_t few_floats(const struct row_needs *n)
{
    (void)n;
    return FEW;
}

/* The newest gradient in the place of the oldest; then the mean of all in the gradient's row. */
static fault hoarding_keeps(struct agent *a, size_t at)
{
    size_t n = a->stage->n_params;
    const struct term newest = {1, ROW_GRADS, NULL, -(ptrdiff_t)at};
    const struct term few[] = {{0.5, ROW_FEW, NULL, 0}, {1, ROW_HISTORY, NULL, (ptrdiff_t)at + 2}};
    struct term all[HISTORY];
    for (size_t i = 0; i < HISTORY; i++)
        all[i] = (struct term){1.0 / HISTORY, ROW_HISTORY, NULL, (ptrdiff_t)(i * n)};
    TRY(link_mix(a->link, ROW_HISTORY, at, at + n, &newest, 1));
    TRY(link_mix(a->link, ROW_FEW, 0, TO_END, few, 2));
    return link_mix(a->link, ROW_GRADS, 0, n, all, HISTORY);
}

static fault hoarding_takes(struct agent *a, size_t before, size_t at)
{
    struct parcel *p = &a->parcels[0];
    if (!link_takes_part(a->link, before, a->k))
        return OK;
    fault f = link_recv_rows(a->link, before, a->k, p, NULL);
    if (f)
        return asking_forgives(f);
    const struct term params[] = {{1, ROW_PARAMS, NULL, 0}, {-0.01, ROW_HISTORY, p, (ptrdiff_t)at}},
                      few[] = {{0.5, ROW_FEW, NULL, 0}, {0.5, ROW_FEW, p, 0}};
    f = link_mix(a->link, ROW_PARAMS, 0, FEW, params, 2);
    if (!f)
        f = link_mix(a->link, ROW_FEW, 0, FEW, few, 2);
    link_drop(a->link, p);
    return f;
}

static fault hoarding_run(struct agent *a)
{
    size_t n = a->stage->n_agents, next = (a->index + 1) % n, before = (a->index + n - 1) % n,
           size = a->stage->n_params;
    while (agent_goes_on(a)) {
        size_t at = a->k % HISTORY * size;
        double common, few;
        TRY(agent_learn(a));
        TRY(hoarding_keeps(a, at));
        TRY(link_number(a->link,
                        &(struct question){NUMBER_DOT, ROW_HISTORY, ROW_HISTORY, 0, size, (ptrdiff_t)size},
                        &common));
        TRY(agent_norm(a, ROW_FEW, &few));
        TRY(asking_step(a, few + fabs(common)));
        if (n > 1) {
            if (link_takes_part(a->link, next, a->k))
                TRY(asking_forgives(link_send_rows(
                    a->link, next, a->k, (struct span){1u << ROW_HISTORY | 1u << ROW_FEW, 0, TO_END})));
            TRY(hoarding_takes(a, before, at));
        }
        TRY(agent_end_round(a));
    }
    return OK;
}

static const struct strategy_row asking_row = {.run = asking_run, .hears_everyone = true},
                                 deaf_row = {.run = deaf_run, .hears_everyone = true},
                                 hoarding_row = {.run = hoarding_run,
                                                 .hears_everyone = true,
                                                 .kept = {{.name = "history", .size = history_floats},
                                                          {.name = "few", .size = few_floats}}};
static const struct kind asking_kind = {.name = "asking", .help = "asks", .row = &asking_row},
                         deaf_kind = {.name = "deaf", .help = "does not", .row = &deaf_row},
                         hoarding_kind = {
                             .name = "hoarding", .help = "keeps gradients", .row = &hoarding_row};
extern const struct kind strategy_single, strategy_consensus;

static const struct kind *const asking_kinds[] = {&asking_kind, &deaf_kind, &hoarding_kind, &strategy_single,
                                                  &strategy_consensus};

const struct kinds strategy_kinds = {.each = asking_kinds, .n = sizeof asking_kinds / sizeof *asking_kinds};

fault strategy_check_native(const struct experiment *e, const char *setting, bool is_chosen)
{
    (void)e, (void)setting, (void)is_chosen;
    return OK;
}

#endif
