/* allreduce.c - synchronous SGD: every agent steps with the mean gradient of all.
 *
 *   g_k = 1/m sum_t g^t_k                 by an all-reduce of the gradients (`algorithm`)
 *   theta_{k+1} = theta_k - alpha_k g_k   everywhere alike
 *
 * All start from the same parameters and take the same steps, and an all-reduce gives all of them the same
 * bits: the replicas never part. With batch b on m agents this is plain SGD with batch m b.
 *
 * The gradient becomes ready from its end on; with `bucket_kb` it is cut into buckets, and each is summed as
 * soon as it is ready, while the backward pass goes on. When an agent dies or comes back, the living re-form
 * (group.h) and do the round again; an agent that is behind takes over the rows of the one that is
 * furthest. With `backups` only the first m - b gradients of a round count (backups.h).
 */
#include "strategy/backups.h"
#include "strategy/strategies.h"

static const struct collective *algorithm_of(const struct allreduce *s)
{
    return collective_rows[s->algorithm];
}

static size_t bucket_floats(const struct agent *a, const struct allreduce *s)
{
    size_t floats = (size_t)(s->bucket_kb * 1024 / sizeof(float));
    return s->bucket_kb > 0 && floats < a->stage->n_params ? floats : a->stage->n_params;
}

/* g_k, bucket by bucket from the end. */
static fault mean_gradient(struct agent *a, const struct allreduce *s)
{
    size_t bucket = bucket_floats(a, s), first, end;
    for (end = a->stage->n_params; end; end = first) {
        first = end > bucket ? end - bucket : 0;
        TRY(agent_await(a, first));
        TRY(group_mean(agent_group(a), algorithm_of(s), ROW_GRADS, first, end));
    }
    return s->mix_statistics ? group_mean(agent_group(a), algorithm_of(s), ROW_STATS, 0, TO_END) : OK;
}

static fault one_round(struct agent *a, const struct allreduce *s)
{
    if (group_is_incomplete(agent_group(a)))
        return FAIL(FAULT_PEER, "an agent can be reached again");
    TRY(agent_begin(a));
    return mean_gradient(a, s);
}

static fault learn_together(struct agent *a, const struct allreduce *s)
{
    while (agent_goes_on(a)) {
        fault f = one_round(a, s);
        if (f) { /* what the round has learnt is lost with the one who is gone: it is done again */
            TRY(agent_regroup_after(a, f));
            continue;
        }
        TRY(agent_update(a));
        TRY(agent_end_round(a));
    }
    return OK;
}

static fault allreduce_run(struct agent *a)
{
    const struct allreduce *s = a->settings;
    if (s->backups == 0) {
        TRY(learn_together(a, s));
        return agent_agree(a);
    }
    if (agent_helps(a))
        return backups_count(a, s);
    TRY(backups_learn(a, s, algorithm_of(s)));
    return learn_together(a, s); /* where the counter was lost before the end */
}

static int64_t helpers(const void *settings, int64_t agents)
{
    (void)agents;
    return ((const struct allreduce *)settings)->backups > 0;
}

static bool skips_rounds(const struct experiment *e)
{
    return ((const struct allreduce *)e->strategy.settings)->backups > 0;
}

static fault allreduce_check(const struct experiment *e, size_t n_agents)
{
    const struct allreduce *s = e->strategy.settings;
    if (s->bucket_kb > 0 && s->bucket_kb * 1024 < sizeof(float))
        return fail_at(e->strategy.place, "strategy.bucket_kb: %g is less than one number, %g", s->bucket_kb,
                       sizeof(float) / 1024.0);
    if (s->backups && (size_t)s->backups >= n_agents)
        return fail_at(e->strategy.place, "strategy.backups: %lld of %zu agents cannot all be spared",
                       (long long)s->backups, n_agents);
    if (s->backups && s->algorithm == NATIVE)
        return fail_at(
            e->strategy.place,
            "strategy.algorithm: 'native' sums over all agents; it cannot be with strategy.backups");
    if (s->backups && s->bucket_kb > 0)
        return fail_at(
            e->strategy.place,
            "strategy.bucket_kb: who counts in a round is known when its gradient is whole; it cannot be "
            "with strategy.backups");
    return strategy_check_native(e, "algorithm", s->algorithm == NATIVE);
}

static const char *asks_for_early_gradients(const struct experiment *e)
{
    return ((const struct allreduce *)e->strategy.settings)->bucket_kb > 0 ? "bucket_kb" : NULL;
}

static fault allreduce_rejoin(struct agent *a)
{
    const struct allreduce *s = a->settings;
    return s->backups ? backups_rejoin(a) : agent_rejoin_group(a);
}

static const struct field fields[] = {
    CHOICE_FIELD(struct allreduce, algorithm, "auto", collective_names, "how the gradients are summed"),
    REAL_FIELD(struct allreduce, bucket_kb, "0", 0, 1e9,
               "gradients go in buckets of so many KiB while the backward pass goes on; 0: in one piece after it"),
    INT_FIELD(struct allreduce, backups, "0", 0, 1e5,
              "so many agents need not be waited for: the first gradients of a round count, late ones are dropped"),
    FLAG_FIELD(struct allreduce, mix_statistics, "false", "average batchnorm's running statistics, too"),
};

static const struct strategy_row row = {.run = allreduce_run,
                                        .forms_group = true,
                                        .skips_rounds = skips_rounds,
                                        .asks_for_early_gradients = asks_for_early_gradients,
                                        .rejoin = allreduce_rejoin,
                                        .open = backups_open,
                                        .close = backups_close,
                                        .check = allreduce_check};

const struct kind strategy_allreduce = {
    .name = "allreduce",
    .help = "every agent steps with the mean gradient of all",
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
    .size = sizeof(struct allreduce),
    .row = &row,
    .helpers = helpers,
};
