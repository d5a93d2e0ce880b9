/* examine.c - how good the agents are now, and the account of a run at its end. */
#include "api/session.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

static fault examine_all(struct veche_run *r, struct exam *exams)
{
    for (size_t i = 0; i < r->n_agents; i++)
        exams[i] = (struct exam){.replica = i, .n = r->dataset->test.n};
    return r->engine->ops->examine(r->engine, exams, r->n_agents);
}

static void score(struct veche_run *r, const struct exam *exams)
{
    for (size_t i = 0; i < r->n_agents; i++) {
        struct agent *a = &r->agents[i];
        r->scores[i] = (struct score){
            .train_loss = a->tally.loss / (double)a->tally.lessons,
            .train_accuracy = 100.0 * (double)a->tally.hits / (double)a->tally.samples,
            .loss = exams[i].loss,
            .accuracy = 100.0 * (double)exams[i].hits / (double)exams[i].n,
            .lr = a->lr,
            .epoch = feed_epochs(&a->feed, a->k),
            .rounds = a->k,
            .alive = true,
        };
        a->tally = (struct tally){0};
        if (!(r->best_accuracy >= r->scores[i].accuracy))
            r->best_accuracy = r->scores[i].accuracy;
    }
}

static double virtual_seconds(const struct veche_run *r)
{
    return (double)r->agents[0].k * (double)r->experiment->data.batch / r->experiment->machines.rate;
}

fault session_evaluate(struct veche_run *r)
{
    struct exam *exams = calloc(r->n_agents, sizeof *exams);
    if (!exams)
        return OUT_OF_MEMORY;
    fault f = examine_all(r, exams);
    if (!f)
        score(r, exams);
    free(exams);
    TRY(f);
    r->evaluated = r->agents[0].k;
    struct evaluation e = {
        .step = r->agents[0].k,
        .round = r->agents[0].k,
        .epoch = feed_epochs(&r->agents[0].feed, r->agents[0].k),
        .real_s = session_seconds(r),
        .virtual_s = virtual_seconds(r),
        .samples = r->samples,
        .scores = r->scores,
        .n_agents = r->n_agents,
        .averaged_loss = NAN,
        .averaged_accuracy = NAN,
    };
    TRY(run_record_evaluation(&r->folder, &e));
    session_tell(r, VECHE_EVALUATION, NULL);
    return OK;
}

/* The hash over the parameters of all agents, in their order: two runs that learnt the same have the same. */
static fault hash_parameters(const struct veche_run *r, char hex[SHA256_HEX])
{
    struct block row = {0};
    struct sha256 hash = {0};
    size_t n_bytes = r->graph->size * sizeof(float);
    TRY(block_open(n_bytes, &row));
    fault f = sha256_open(&hash);
    for (size_t i = 0; !f && i < r->n_agents; i++) {
        f = r->engine->ops->read(r->engine, ROW_PARAMS, i, row.bytes);
        if (!f)
            sha256_add(&hash, row.bytes, n_bytes);
    }
    if (hash.state)
        sha256_close(&hash, hex);
    block_close(&row);
    return f;
}

fault session_summary(const struct veche_run *r, struct summary *out)
{
    const struct experiment *e = r->experiment;
    size_t n_scores = r->evaluated == NOT_YET ? 0 : r->n_agents;
    double seconds = session_seconds(r);
    struct summary s = {
        .name = e->name,
        .strategy = e->strategy.kind->name,
        .status = r->status,
        .run = r->folder.path,
        .version = veche_version(),
        .engine = r->engine_line,
        .agents = e->agents,
        .rounds = r->agents[0].k,
        .samples = r->samples,
        .epochs = feed_epochs(&r->agents[0].feed, r->agents[0].k),
        .accuracy = spread_of_scores(r->scores, n_scores, offsetof(struct score, accuracy)),
        .loss = spread_of_scores(r->scores, n_scores, offsetof(struct score, loss)),
        .best_accuracy = r->best_accuracy,
        .averaged_accuracy = NAN,
        .real_s = seconds,
        .virtual_s = virtual_seconds(r),
        .images_per_s = seconds > 0 ? (double)r->samples / seconds : 0,
    };
    TRY(hash_parameters(r, s.params_sha256));
    *out = s;
    return OK;
}
