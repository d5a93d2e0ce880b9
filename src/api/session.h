/* session.h - one run alive: everything an experiment named, opened.
 *
 *   open (data -> network -> engine -> agents -> world) -> go (the world's turns) -> finish (summary, model)
 *                                                          | each moment: progress; when due: evaluate, save
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
#include "topology/topology.h"
#include "api/resume.h"
#include "veche.h"
#include "world/world.h"

/* How good the run has been at its evaluations so far, and whether it is good enough (stop.c). Of several agents it is their
 * mean that counts; the evaluation after the last round does not: nothing is left to be stopped. */
struct standing {
    double best_accuracy, lowest_loss; /* NaN before the first evaluation */
    uint64_t in_vain, longest_in_vain; /* evaluations in a row without a better accuracy: now, and ever */
    uint64_t is_mixed;                 /* train.evaluate_every has changed on the way */
    char stopped_because[200];         /* empty: it goes on */
};

struct veche_run {
    struct experiment *experiment; /* owned, as all pointers below */
    struct dataset *dataset;
    char data_sha256[65];     /* of all samples                                                     */
    char (*share_sha256)[65]; /* [agents]: of each agent's file, with the split `files`; else NULL */
    struct graph *graph;
    struct topology *topology; /* NULL: none was written */
    struct weights weights;
    struct team *team; /* NULL: every agent is one machine */
    struct split split;
    size_t longest_share;
    struct engine *engine;
    struct run_folder folder;
    struct stage stage;
    struct agent *agents;
    size_t n_agents;    /* that learn; stage.n_members of them in all */
    struct ranks ranks; /* this process among them */
    struct world *world;
    double *speeds; /* of machines: the agents', team_size each, then the helpers' */
    struct score *scores; /* of the last evaluation, one per agent */
    double *waits;        /* what each member has waited, as of session_waiting */
    double averaged_loss, averaged_accuracy;
    struct disagreement disagreement;
    struct block image; /* where rows are gathered to be saved or restored */
    struct arena arena; /* names of saved tensors */
    veche_options options;
    atomic_bool stop;
    const atomic_bool *stops_with; /* borrowed: a comparison's; NULL: none */

    double began_s, earlier_s; /* the clock when this process began; seconds of earlier ones */
    double seen_epochs,
        seen_rounds;           /* of the group, at the moment before this one: what falls between is due */
    bool is_changed;           /* it goes on with another experiment: saved before anything else */
    uint64_t evaluated, saved; /* the group's rounds then; NOT_YET before the first */
    uint64_t notes;
    char measured[256]; /* what `machines: measured` came to, to be noted; mostly empty */
    double best_accuracy;
    struct standing standing;
    struct throughput { /* samples lately, for the rate that people see */
        double at_s;
        uint64_t samples;
        double rate;
    } throughput;
    char status[16], engine_line[512];
};

#define NOT_YET           UINT64_MAX
#define CHECKPOINT_FORMAT "veche checkpoint 5"

/* The rounds that make up so many epochs. */
uint64_t session_rounds_of_epochs(double epochs, double rounds_per_epoch);

/* What can be found wrong with an experiment as a whole, before anything is opened. */
fault session_check(const struct experiment *e);
/* The same, against the graph of its agents (NULL: none) and its network: settings that ask for what these do not have. */
fault session_check_against(const struct experiment *e, const struct topology *t, const struct graph *g);

/* The graph an experiment names, which must have a vertex for each agent; NULL where it names none. */
fault session_topology(const struct experiment *e, struct topology **out);

/* What the engine of this process must have for its members; see world_door. `t`: the graph, or NULL. */
void session_furnish(const struct experiment *e, const struct topology *t, const struct ranks *ranks,
                     struct engine_setup *setup);

/* Opens all an experiment names; takes the experiment, also on a fault. `ranks`: those that live through its world together, and call this
 * together; NULL: this process alone. */
fault session_open(struct experiment *e, const struct ranks *ranks, const veche_options *options,
                   struct veche_run **out);
void session_close(struct veche_run *r);
fault session_go(struct veche_run *r);

double session_seconds(const struct veche_run *r);
void session_tell(struct veche_run *r, veche_event_kind kind, const char *text);

/* Of the group: rounds of all agents over their number, and the passes through the longest share they make up. */
double session_epochs(const struct veche_run *r);
uint64_t session_rounds(const struct veche_run *r);
struct totals session_totals(const struct veche_run *r);

/* identity.c: what is trained on what, in digests. */
fault session_digest(struct veche_run *r);
/* All ranks together: those that differ would train different things without a word, and are named. */
fault session_compare_ranks(struct veche_run *r);
/* A fault where a run would go on with other data, or by another engine, than it was trained with so far. */
fault session_is_same(const struct veche_run *r, const struct resumption *from);

/* examine.c: all agents, and their mean, on the test samples; one event, one line in the records. */
fault session_evaluate(struct veche_run *r);
fault session_summary(const struct veche_run *r, struct summary *out);
/* Who has waited for whom until now; `thorough`: the slowest link as well. Valid until the next call. */
struct waiting session_waiting(const struct veche_run *r, bool thorough);

/* stop.c: train.stop. What can be wrong with it; where the length of an epoch is not known yet it is 0. */
fault stop_check(const struct experiment *e, double rounds_per_epoch);
/* After an evaluation: how good the run is by now, and whether that is what it was to come to. */
fault session_judge(struct veche_run *r);
/* A run with these settings would have ended by now, or before. */
bool stop_is_met(const struct stop_settings *s, const struct standing *p);

/* save.c: the whole state to the run's folder and back, bit for bit. */
/* Writes to a disk, which may hold us up for longer than others have patience. */
fault session_aside(struct veche_run *r, fault (*task)(void *ctx), void *ctx);
fault session_save(struct veche_run *r);
fault session_restore(struct veche_run *r, const struct resumption *from);
fault session_save_model(struct veche_run *r);
/* What stands before a parameter's name where a row of an agent is saved by names: "", "optimizer.exp_avg.". */
struct row_text {
    char text[96];
};
struct row_text session_row_head(const struct veche_run *r, enum row row);
/* veche.c: the resolved experiment, under a few lines about the program and the machine. */
fault session_write_experiment(struct veche_run *r);
/* regroup.c: from a checkpoint of so many other agents. */
fault session_take_model(struct veche_run *r, const struct tensors *t, size_t saved_by);

#endif
