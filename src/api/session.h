/* session.h - one run alive: everything an experiment named, opened.
 *
 *   open (data -> network -> engine -> agents) -> go (the strategy, round by round) -> finish (summary,
 * model) | each round: progress; when due: evaluate, save
 */
#ifndef VECHE_API_SESSION_H
#define VECHE_API_SESSION_H

#include <stdatomic.h>

#include "data/data.h"
#include "engine/engine.h"
#include "experiment/experiment.h"
#include "graph/graph.h"
#include "record/run.h"
#include "strategy/agent.h"
#include "veche.h"

struct veche_run {
    struct experiment *experiment; /* owned */
    struct dataset *dataset;       /* owned */
    struct graph *graph;           /* owned */
    struct engine *engine;         /* owned */
    struct run_folder folder;      /* owned */
    struct stage stage;
    struct agent *agents; /* owned */
    size_t n_agents;      /* agents that were initialised */
    uint32_t *share;      /* owned: the samples, as agents share them */
    struct score *scores; /* owned: of the last evaluation, one per agent */
    struct block image;   /* owned: where rows are gathered to be saved or restored */
    struct arena arena;   /* owned: names of saved tensors */
    veche_options options;
    atomic_bool stop;

    double began_s, earlier_s; /* the clock when this process began; seconds of earlier ones */
    uint64_t samples;          /* learnt by all agents together */
    uint64_t evaluated, saved; /* rounds; NOT_YET before the first */
    double best_accuracy;
    struct pace { /* samples lately, for the rate that people see */
        double at_s;
        uint64_t samples;
        double rate;
    } pace;
    char status[16], engine_line[512];
};

#define NOT_YET UINT64_MAX

/* What can be found wrong with an experiment as a whole, before anything is opened. */
fault session_check(const struct experiment *e);

/* Opens all an experiment names; takes the experiment, also on a fault. */
fault session_open(struct experiment *e, const veche_options *options, struct veche_run **out);
void session_close(struct veche_run *r);
fault session_go(struct veche_run *r);

double session_seconds(const struct veche_run *r);
void session_tell(struct veche_run *r, veche_event_kind kind, const char *text);

/* examine.c: all agents on the test samples; one event, one line in the records. */
fault session_evaluate(struct veche_run *r);
fault session_summary(const struct veche_run *r, struct summary *out);

/* save.c: the whole state to the run's folder and back, bit for bit. */
fault session_save(struct veche_run *r);
fault session_restore(struct veche_run *r);
fault session_save_model(struct veche_run *r);

/* Whether something that happens `every` so often is due after k rounds. */
bool is_due(const struct every *every, const struct feed *feed, uint64_t k);

#endif
