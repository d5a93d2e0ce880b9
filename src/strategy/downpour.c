/* downpour.c - Downpour SGD (Dean et al. 2012): asynchronous servers that hear of their workers now and then.
 *
 *   a worker, round k = 1, 2, ...:   g = gradient at theta^i;  s = s + g
 *     every `push_every` rounds:     the servers step by s as it comes: theta = theta - alpha s;  s = 0
 *     every `pull_every` rounds:     theta^i = theta
 *     in all others:                 theta^i = theta^i - alpha g
 *
 * A worker waits for the servers alone. theta - alpha g is whatever step the optimiser makes of g, on the
 * servers and in a worker's own steps (the paper's rule is `adagrad`). Both cadences 1 are `ps` in async.
 * What is left of s in the end is pushed, so no gradient is lost. Everything else is as ps.c has it.
 */
#include "strategy/ps/ps.h"
#include "strategy/strategies.h"

struct downpour {
    int64_t push_every, pull_every, servers, replicate_every;
};

static struct ps as_ps(const struct downpour *d)
{
    return (struct ps){.mode = PS_ASYNC,
                       .servers = d->servers,
                       .push_every = d->push_every,
                       .pull_every = d->pull_every,
                       .replicate_every = d->replicate_every};
}

static int64_t helpers(const void *settings, int64_t agents)
{
    struct ps s = as_ps(settings);
    return ps_helpers(&s, agents);
}

static bool sums(const struct experiment *e)
{
    return ((const struct downpour *)e->strategy.settings)->push_every > 1;
}

static fault downpour_open(const struct stage *stage, void **shared)
{
    return ps_open(stage, as_ps(stage->experiment->strategy.settings), shared);
}

static const struct field fields[] = {
    INT_FIELD(struct downpour, push_every, "5", 1, 1e9,
              "rounds from one push to the next; gradients are summed meanwhile"),
    INT_FIELD(struct downpour, pull_every, "5", 1, 1e9,
              "rounds from one pull to the next; an agent takes steps of its own meanwhile"),
    SERVERS_FIELD(struct downpour),
    REPLICATE_EVERY_FIELD(struct downpour),
};

static const struct strategy_row row = {
    .run = ps_run,
    .rejoin = ps_rejoin,
    .asynchronous = true,
    .hears_everyone = true,
    .kept = {{.name = "sum", .is_needed = sums}},
    .open = downpour_open,
    .close = ps_close,
};

const struct kind strategy_downpour = {
    .name = "downpour",
    .help = "asynchronous servers: agents push sums of gradients and pull parameters now and then",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct downpour),
    .row = &row,
    .helpers = helpers,
};
