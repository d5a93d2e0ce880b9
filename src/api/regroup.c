/* regroup.c - a run goes on with another number of agents than it was saved by.
 *
 * Every agent starts from the mean of what the earlier agents had - parameters, statistics, the optimiser's memory - at the
 * same epoch. That is right for methods whose agents keep nothing else; the others say which number they need.
 */
#include "api/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fault refuse(const struct veche_run *r, size_t saved_by)
{
    return FAIL(FAULT_CHECKPOINT,
                "%s: was saved by %zu agents, and the strategy '%s' keeps something of its own for each of them: it goes on with "
                "that number of agents only, and not with %zu",
                r->folder.path, saved_by, r->experiment->strategy.kind->name, r->n_agents);
}

/* The mean over the earlier agents of one tensor. */
static fault mean_tensor(const struct veche_run *r, const struct tensors *t, size_t saved_by, const char *name, size_t n,
                         float *out)
{
    double *sum = calloc(n + 1, sizeof *sum);
    fault f = sum ? OK : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < saved_by; i++) {
        char whole[512];
        snprintf(whole, sizeof whole, "agent%zu.%s", i, name);
        const struct named_floats *have = tensors_find(t, whole);
        size_t size = 1;
        for (size_t d = 0; have && d < have->n_dims; d++)
            size *= have->dims[d];
        if (!have || !have->floats || size != n)
            f = FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint has no tensor '%s' of the network's shape", r->folder.path,
                     whole);
        for (size_t j = 0; !f && j < n; j++)
            sum[j] += have->floats[j];
    }
    for (size_t j = 0; !f && j < n; j++)
        out[j] = (float)(sum[j] / (double)saved_by);
    free(sum);
    return f;
}

static fault mean_row(const struct veche_run *r, const struct tensors *t, size_t saved_by, enum row row, float *floats)
{
    bool stats = row == ROW_STATS;
    const struct graph *g = r->graph;
    const struct param *params = stats ? g->stats : g->params;
    for (size_t i = 0; i < (stats ? g->n_stats : g->n_params); i++) {
        char name[480];
        snprintf(name, sizeof name, "%s%s", session_row_head(r, row).text, params[i].name);
        TRY(mean_tensor(r, t, saved_by, name, params[i].size, floats + params[i].offset));
    }
    return OK;
}

static fault give_to_all(struct veche_run *r, const struct tensors *t, size_t saved_by)
{
    struct block memory = {0};
    TRY(block_open((r->graph->size + r->graph->stats_size) * sizeof(float), &memory));
    fault f = OK;
    for (enum row row = 0; !f && row < ROW_KEPT; row++) {
        if (!row_lasts(row) || !row_size(&r->engine->setup, row))
            continue;
        f = mean_row(r, t, saved_by, row, memory.bytes);
        for (size_t a = 0; !f && a < r->n_agents; a++)
            f = r->world->ops->write(r->world, row, a, memory.bytes);
    }
    block_close(&memory);
    return f;
}

static bool keeps_rows(const struct veche_run *r)
{
    for (enum row row = ROW_KEPT; row < N_ROWS; row++)
        if (row_size(&r->engine->setup, row))
            return true;
    return false;
}

fault session_take_model(struct veche_run *r, const struct tensors *t, size_t saved_by)
{
    const char *epoch = tensors_metadata(t, "epoch"), *seconds = tensors_metadata(t, "real_s");
    if (keeps_rows(r) || r->stage.n_members != r->n_agents || saved_by == 0)
        return refuse(r, saved_by);
    if (!epoch || !seconds)
        return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint has no good 'epoch'", r->folder.path);
    uint64_t k = (uint64_t)llround(strtod(epoch, NULL) * r->stage.rounds_per_epoch);
    r->earlier_s = strtod(seconds, NULL);
    TRY(r->world->ops->restore(r->world, k));
    TRY(give_to_all(r, t, saved_by));
    struct account a = {.k = k, .lessons = k, .steps = k};
    for (size_t i = 0; i < r->n_agents; i++)
        r->world->ops->set_account(r->world, i, &a);
    r->saved = k;
    r->seen_rounds = (double)k;
    r->seen_epochs = (double)k / r->stage.rounds_per_epoch;
    return OK;
}
