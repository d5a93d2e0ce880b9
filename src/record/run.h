/* run.h - the folder of a run: everything needed to repeat it, to plot it and to go on with it.
 *
 *   experiment.yaml            resolved, with version, seed and machine in comments at its head
 *   events.jsonl               one object per evaluation, per note (a crash, a return) and per fault
 *   checkpoint-ROUND.safetensors   the last few; ROUND has eight digits or more
 *   model.safetensors          at the end: the network alone, PyTorch's names
 *   summary.json               at the end
 *   lock                       held (flock) while a process works in the folder
 *
 * The first two and the summary carry digests of themselves (seal.h), each line of the events with that of the line before it and the
 * summary with that of the last line; checkpoints and models have a hash (tensors.h): whatever reads them finds what has changed,
 * and whether a line is missing.
 */
#ifndef VECHE_RECORD_RUN_H
#define VECHE_RECORD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "record/folder.h"
#include "record/seal.h"
#include "record/tensors.h"

struct run_folder {
    char path[RUN_PATH];
    int lock;                         /* owned: the lock file's descriptor              */
    int events;                       /* owned: descriptor, open at the end of the events */
    int64_t keep;                     /* checkpoints kept, at least 1                   */
    char last_event[SEAL_DIGITS + 1]; /* the digest of the last line of the events, "" where there is none */
};

/* Makes PARENT/NAME, or PARENT/NAME-2, -3, ...: never one that is there. The folder appears with its
 * experiment.yaml in it or not at all. */
fault run_create(const char *parent, const char *name, const char *experiment_yaml, int64_t keep,
                 struct run_folder *out);
/* Opens an existing run to go on with it; sweeps what an interrupted write left. A run another process works
 * on is a fault that says so. */
fault run_open(const char *path, int64_t keep, struct run_folder *out);
void run_close(struct run_folder *r);

struct score {                         /* of one agent at one evaluation */
    double train_loss, train_accuracy; /* over the lessons since the last evaluation */
    double loss, accuracy;             /* on the test samples; accuracy in percent   */
    double lr;
    double epoch; /* passes over its own share                  */
    uint64_t rounds;
    double waiting_s; /* virtual seconds spent on nothing but waiting for others */
    uint64_t bytes, messages;
    double staleness_mean, staleness_max; /* of the gradients it applied; 0 where all are fresh */
    bool alive;
};

struct disagreement { /* of the agents' parameters from their mean */
    double l1, l2, linf, variation;
};

enum { NO_MEMBER = -1 };

/* Who waited for whom, in virtual seconds since the beginning. Members are the agents and after them those
 * that help. */
struct waiting {
    const double *waiting_s;    /* [n_agents], borrowed: of each agent                    */
    const double *waited_for_s; /* [n_members], borrowed: of all agents, for each member */
    size_t n_agents, n_members; /* 0: not known                                          */
    double virtual_s;
    const char *helper; /* what those that help are called: "server" */
    int64_t most;       /* the member waited for most ...            */
    int64_t longest;    /* ... and the agent that waited longest for it, for so long */
    double longest_s;
    int64_t slowest; /* who holds the others up; see waiting_judge */
    int64_t link[2]; /* the two that waited longest for each other */
    double link_s;
};

struct evaluation {
    uint64_t step, round; /* step: of the scheduler, never falls from event to event */
    double epoch, real_s, virtual_s;
    uint64_t samples;           /* seen by all agents together */
    const struct score *scores; /* borrowed */
    size_t n_agents;
    double averaged_loss, averaged_accuracy; /* of the mean of the agents' models; NaN with one agent */
    struct disagreement disagreement;
    struct waiting waiting;
};

/* Each appends one line and hands it to the system. The totals of bytes, messages and waiting in an
 * evaluation's line are the sums over its scores. */
fault run_record_evaluation(struct run_folder *r, const struct evaluation *e);
/* Something that happened to an agent, or to all of them (agent < 0): "crash", "return", "partition", ... */
fault run_record_note(struct run_folder *r, uint64_t step, double virtual_s, double real_s, int64_t agent,
                      const char *kind, const char *text);
fault run_record_fault(struct run_folder *r, uint64_t step, double real_s, const char *kind,
                       const char *sentence);

/* On resume: removes the events of steps after `step`, which will be lived through again. */
fault run_rewind_events(struct run_folder *r, uint64_t step);

/* Writes checkpoint-ROUND, then removes those beyond the last `keep` and those of later rounds: when a run
 * went on from an older checkpoint, they belong to a life that is being lived again. On a fault all older
 * ones are there. */
fault run_save(struct run_folder *r, uint64_t round, const struct named_floats *tensors, size_t n_tensors,
               const struct metadata *metadata, size_t n_metadata);
/* The newest checkpoint that is whole and, where `fits` is not NULL, fits. What is wrong with the newest of those that are not and were passed
 * over is written to `passed_over` (may be NULL; empty when there was none). A run without a whole checkpoint
 * is a fault. */
fault run_newest(const struct run_folder *r, bool (*fits)(const void *ctx, const struct tensors *t),
                 const void *ctx, struct tensors *out, char passed_over[RUN_PATH]);
/* A drawing of how its agents' machines share a lesson, for its page: team.svg. */
fault run_write_team(struct run_folder *r, const char *svg);
/* Puts another text in place of the run's experiment.yaml. */
fault run_write_experiment(struct run_folder *r, const char *experiment_yaml);

struct spread {
    double mean, std, min, max;
};

struct summary {
    const char *name, *strategy, *status; /* status: "done", "stopped" */
    const char *stopped_because;          /* done before its last round: why; NULL: it is not */
    const char *run, *version, *engine;
    int64_t agents;
    uint64_t rounds, samples;
    double epochs;
    struct spread accuracy, loss;
    double best_accuracy, averaged_accuracy; /* averaged: as in struct evaluation */
    double real_s, virtual_s, images_per_s;
    bool on_machines; /* the world's clock is that of real machines: what is called virtual is not */
    uint64_t bytes, messages, notes;
    uint64_t dropped;     /* gradients that came too late to count */
    double waiting_share; /* of the agents' virtual time, 0 to 1 */
    double staleness_mean, staleness_max;
    struct disagreement disagreement;
    struct waiting waiting;
    char params_sha256[65];
    char data_sha256[65]; /* of the samples it learnt from and was tested on */
};

/* The std is over n, not n - 1: the agents are all there are. */
struct spread spread_of(const double *values, size_t n);
/* Of one member of struct score (a double; `offset` by offsetof) over the agents that are alive, or over all
 * when none is. */
struct spread spread_of_scores(const struct score *scores, size_t n, size_t offset);

/* Fills `most` and `slowest` from the numbers. A slow member is waited for and hardly waits: the slowest
 * is, of those that waited less than half as long as the agents did on average, the one waited for most,
 * counting what helpers waited for it (`by_helpers`, [n_members]). Where all wait alike there is none. */
void waiting_judge(struct waiting *w, const double *by_helpers, const double *helpers_waiting_s);
double waiting_share(const struct waiting *w); /* of all agents' virtual time, 0 to 1 */

enum { MEMBER_NAME = 32 };
const char *waiting_name(const struct waiting *w, int64_t member, char name[MEMBER_NAME]); /* "agent 3" */
/* "others waited 31.0 s for agent 3, most of all agent 2 (12.0 s)"; empty where none waited. Caller frees. */
fault waiting_sentence(const struct waiting *w, char **out);

/* One JSON object. Caller frees. */
fault summary_json(const struct summary *s, char **out);
fault run_write_summary(struct run_folder *r, const struct summary *s);
fault run_remove_summary(struct run_folder *r); /* where there is one: the run goes on */
/* The final table, for people. Caller frees. */
fault summary_table(const struct summary *s, char **out);

#endif
