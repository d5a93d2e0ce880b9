/* single.c - one agent, plain stochastic gradient descent: the rival of every other method.
 *
 *   theta_{k+1} = theta_k - alpha_k g_k
 */
#include "strategy/strategies.h"

static fault single_run(struct agent *a)
{
    while (agent_goes_on(a)) {
        TRY(agent_learn(a));
        TRY(agent_update(a));
        TRY(agent_end_round(a));
    }
    return OK;
}

static const struct strategy_row row = {.run = single_run, .most_agents = 1};

const struct kind strategy_single = {
    .name = "single", .help = "one agent, plain training: the rival of every other method", .row = &row};
