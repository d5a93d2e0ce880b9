/* examine.c - how good the agents are now, how far they disagree, and the account of a run at its end. */
#include "api/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/handle.h"
#include "base/sha256.h"

/* Whose parameters stand for the group's: those of its centre while it lives. */
static bool has_centre(const struct veche_run *r)
{
    return strategy_row(r->experiment)->has_centre && r->world->ops->is_alive(r->world, r->n_agents);
}

/* The group's model, in the spare row kept for it: the mean of the living agents' parameters, or the
 * centre's; and the mean of their statistics. */
static fault blend_model(struct veche_run *r)
{
    const struct addend centre = {.weight = 1, .row = ROW_PARAMS, .from = r->n_agents};
    struct addend *mean = calloc(r->n_agents, sizeof *mean);
    size_t n = 0;
    fault f = mean ? OK : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < r->n_agents; i++)
        if (r->world->ops->is_alive(r->world, i))
            mean[n++].from = i;
    static const enum row rows[] = {ROW_PARAMS, ROW_STATS};
    for (size_t k = 0; !f && n && k < 2; k++) {
        bool central = rows[k] == ROW_PARAMS && has_centre(r);
        for (size_t i = 0; i < n; i++)
            mean[i] = (struct addend){.weight = 1.0f / (float)n, .row = rows[k], .from = mean[i].from};
        if (row_size(&r->engine->setup, rows[k]))
            f = r->world->ops->blend(r->world, rows[k], central ? &centre : mean, central ? 1 : n);
    }
    free(mean);
    return f;
}

/* Distances of the living agents' parameters from the group's model, averaged over the agents; the variation
 * is the root mean square distance over the length of the model. */
static fault measure_disagreement(struct veche_run *r, struct disagreement *out)
{
    size_t n = r->graph->size, living = 0;
    struct block memory = {0};
    struct disagreement d = {0};
    double squares = 0, length = 0;
    TRY(block_open(2 * n * sizeof(float), &memory));
    float *mean = memory.bytes, *row = mean + n;
    fault f = r->world->ops->read(r->world, ROW_PARAMS, world_model_row(&r->stage), mean);
    for (size_t j = 0; j < n; j++)
        length += (double)mean[j] * mean[j];
    for (size_t i = 0; !f && i < r->n_agents; i++) {
        if (!r->world->ops->is_alive(r->world, i))
            continue;
        f = r->world->ops->read(r->world, ROW_PARAMS, i, row);
        double l1 = 0, l2 = 0, linf = 0;
        for (size_t j = 0; j < n; j++) {
            double x = fabs((double)row[j] - mean[j]);
            l1 += x;
            l2 += x * x;
            linf = x > linf ? x : linf;
        }
        d.l1 += l1;
        d.l2 += sqrt(l2);
        d.linf += linf;
        squares += l2;
        living++;
    }
    block_close(&memory);
    TRY(f);
    if (living) {
        d.l1 /= (double)living;
        d.l2 /= (double)living;
        d.linf /= (double)living;
        d.variation = length > 0 ? sqrt(squares / (double)living / length) : 0;
    }
    *out = d;
    return OK;
}

static void score(struct veche_run *r, size_t i, const struct exam *exam)
{
    struct agent *a = &r->agents[i];
    struct link_counts counts = r->world->ops->counts(r->world, i);
    const struct staleness *stale = &a->staleness;
    bool learnt = a->tally.lessons > 0;
    r->scores[i] = (struct score){
        .train_loss = learnt ? a->tally.loss / (double)a->tally.lessons : NAN,
        .train_accuracy = learnt ? 100.0 * (double)a->tally.hits / (double)a->tally.samples : NAN,
        .loss = exam->loss,
        .accuracy = 100.0 * (double)exam->hits / (double)exam->n,
        .lr = a->lr,
        .epoch = feed_epochs(&a->feed, a->lessons),
        .rounds = a->k,
        .waiting_s = counts.waiting_s,
        .bytes = counts.bytes,
        .messages = counts.messages,
        .staleness_mean = stale->n ? (double)stale->sum / (double)stale->n : 0,
        .staleness_max = (double)stale->most,
        .alive = r->world->ops->is_alive(r->world, i),
    };
    a->tally = (struct tally){0};
    if (!(r->best_accuracy >= r->scores[i].accuracy))
        r->best_accuracy = r->scores[i].accuracy;
}

/* All agents, and the group's model where there are several. */
static fault examine_all(struct veche_run *r)
{
    bool several = r->n_agents > 1;
    size_t n = r->n_agents + several;
    struct exam *exams = calloc(n, sizeof *exams);
    if (!exams)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        exams[i] = (struct exam){.replica = i < r->n_agents ? i : world_model_row(&r->stage),
                                 .n = r->dataset->test.n};
    fault f = several ? blend_model(r) : OK;
    if (!f)
        f = r->world->ops->examine(r->world, exams, n);
    for (size_t i = 0; !f && i < r->n_agents; i++)
        score(r, i, &exams[i]);
    if (!f && several) {
        r->averaged_loss = exams[r->n_agents].loss;
        r->averaged_accuracy = 100.0 * (double)exams[r->n_agents].hits / (double)exams[r->n_agents].n;
        f = measure_disagreement(r, &r->disagreement);
    }
    free(exams);
    return f;
}

fault session_evaluate(struct veche_run *r)
{
    TRY(r->world->ops->settle(r->world));
    TRY(examine_all(r));
    r->evaluated = session_totals(r).ended;
    struct evaluation e = {
        .step = r->world->ops->steps(r->world),
        .round = session_rounds(r),
        .epoch = session_epochs(r),
        .real_s = session_seconds(r),
        .virtual_s = r->world->ops->now_s(r->world),
        .samples = session_totals(r).samples,
        .scores = r->scores,
        .n_agents = r->n_agents,
        .averaged_loss = r->averaged_loss,
        .averaged_accuracy = r->averaged_accuracy,
        .disagreement = r->disagreement,
    };
    e.waiting = session_waiting(r, true);
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
        f = r->world->ops->read(r->world, ROW_PARAMS, i, row.bytes);
        if (!f)
            sha256_add(&hash, row.bytes, n_bytes);
    }
    if (hash.state)
        sha256_close(&hash, hex);
    block_close(&row);
    return f;
}

/* What a strategy calls those that help: servers where it has a setting for their number. */
static const char *helper_word(const struct kind *strategy)
{
    for (size_t i = 0; i < strategy->n_fields; i++)
        if (strcmp(strategy->fields[i].name, "servers") == 0)
            return "server";
    return "helper";
}

struct waiting session_waiting(const struct veche_run *r, bool thorough)
{
    const struct waits *waits = r->world->ops->waits(r->world);
    struct waiting w = {
        .waiting_s = r->waits,
        .waited_for_s = waits->for_agents,
        .n_agents = r->n_agents,
        .n_members = r->stage.n_members,
        .virtual_s = r->world->ops->now_s(r->world),
        .helper = helper_word(r->experiment->strategy.kind),
        .longest = NO_MEMBER,
        .link = {NO_MEMBER, NO_MEMBER},
    };
    size_t who, ends[2];
    for (size_t i = 0; i < w.n_members; i++)
        r->waits[i] = r->world->ops->counts(r->world, i).waiting_s;
    waiting_judge(&w, waits->for_helpers, r->waits + r->n_agents);
    if (w.most != NO_MEMBER && waits_longest_for(waits, (size_t)w.most, &who, &w.longest_s))
        w.longest = (int64_t)who;
    if (thorough && waits_slowest_link(waits, ends, &w.link_s)) {
        w.link[0] = (int64_t)ends[0];
        w.link[1] = (int64_t)ends[1];
    }
    return w;
}

/* What the agents did together: bytes, messages, waiting, staleness. */
static void add_up(const struct veche_run *r, struct summary *s)
{
    double waiting = 0, stale = 0, steps = 0, now = r->world->ops->now_s(r->world);
    for (size_t i = 0; i < r->stage.n_members; i++) {
        struct link_counts c = r->world->ops->counts(r->world, i);
        const struct staleness *st = &r->agents[i].staleness;
        s->bytes += c.bytes;
        s->messages += c.messages;
        s->dropped += r->agents[i].dropped;
        waiting += i < r->n_agents ? c.waiting_s : 0;
        stale += (double)st->sum;
        steps += (double)st->n;
        s->staleness_max = (double)st->most > s->staleness_max ? (double)st->most : s->staleness_max;
    }
    s->staleness_mean = steps > 0 ? stale / steps : 0;
    s->waiting_share = now > 0 ? waiting / (now * (double)r->n_agents) : 0;
}

fault session_summary(const struct veche_run *r, struct summary *out)
{
    const struct experiment *e = r->experiment;
    const struct spread unknown = {NAN, NAN, NAN, NAN};
    bool evaluated = r->evaluated != NOT_YET;
    double seconds = session_seconds(r);
    struct summary s = {
        .name = e->name,
        .strategy = e->strategy.kind->name,
        .status = r->status,
        .stopped_because = *r->standing.stopped_because ? r->standing.stopped_because : NULL,
        .run = r->folder.path,
        .version = veche_version(),
        .engine = r->engine_line,
        .agents = e->agents,
        .rounds = session_rounds(r),
        .samples = session_totals(r).samples,
        .epochs = session_epochs(r),
        .accuracy =
            evaluated ? spread_of_scores(r->scores, r->n_agents, offsetof(struct score, accuracy)) : unknown,
        .loss = evaluated ? spread_of_scores(r->scores, r->n_agents, offsetof(struct score, loss)) : unknown,
        .best_accuracy = r->best_accuracy,
        .averaged_accuracy = r->averaged_accuracy,
        .real_s = seconds,
        .virtual_s = r->world->ops->now_s(r->world),
        .on_machines = experiment_is_for_ranks(e),
        .images_per_s = seconds > 0 ? (double)session_totals(r).samples / seconds : 0,
        .notes = r->notes,
        .disagreement = r->disagreement,
    };
    add_up(r, &s);
    s.waiting = session_waiting(r, true);
    TRY(hash_parameters(r, s.params_sha256));
    memcpy(s.data_sha256, r->data_sha256, sizeof s.data_sha256);
    *out = s;
    return OK;
}
