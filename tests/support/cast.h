/* cast.h - a cast of agents for tests: an experiment as text, opened as a run is, played without a folder.
 *
 *   struct cast g;
 *   cast_open(&g, TINY("gossip") "agents: 4\ntopology: cycle:4\n");
 *   cast_scatter(&g, 7);
 *   cast_keep_from_learning(&g);
 *   cast_play(&g);
 *   ... cast_row(&g, 0) ...
 *   cast_close(&g);
 *
 * Everything here asserts (cmocka) that it succeeds unless it returns a fault. A cast does not move once it
 * is open.
 */
#ifndef VECHE_TESTS_CAST_H
#define VECHE_TESTS_CAST_H

#include "api/session.h"
#include "support/must.h"
#include "world/local/inside.h"

/* The head of an experiment with 34 parameters; a lesson of one sample takes a millisecond. */
#define TINY(strategy)                                                                                       \
    "data: {set: {kind: blobs, classes: 2, features: 16, samples: 60, test_samples: 10}, batch: 1}\n"        \
    "model: logistic\n"                                                                                      \
    "optim: {kind: sgd, lr: 0.1}\n"                                                                          \
    "engine: {kind: ref, threads: 1}\n"                                                                      \
    "strategy: " strategy "\n"

struct cast {
    struct veche_run *run;
    struct local *world; /* of the run */
    size_t n, size;      /* agents; parameters of each */
    struct link_ops ops; /* the agents': the world's own, but for what a test puts in its place */
    char *notes;         /* owned: a line "seconds agent kind: text" each */
    size_t n_notes, notes_length, notes_room;
    float *rows;             /* owned: what cast_row gives */
    struct strategy_row row; /* of the test's own program, if it has one */
    struct kind kind;
    void *ctx; /* the test's own */
};

/* `train:` is added where the text has none: rounds of all agents, nothing evaluated, nothing saved. Where the text does not say how long it takes to
 * notice a death, it is known at once. */
fault cast_try(struct cast *g, const char *text, int rounds, unsigned seed);
void cast_open(struct cast *g, const char *text, int rounds);
void cast_close(struct cast *g);

fault cast_go(struct cast *g);
void cast_play(struct cast *g);

/* Every agent's parameters become random numbers with mean zero over the agents. */
void cast_scatter(struct cast *g, uint64_t seed);
/* Lessons take their time and steps are counted, but no parameter changes by them. */
void cast_keep_from_learning(struct cast *g);

/* Every agent runs this instead of its strategy. */
void cast_run_instead(struct cast *g, strategy_run *program);
/* Like cast_try, with a program whose agents are one group of collective/group.h from the start. */
void cast_form(struct cast *g, const char *text, int rounds, unsigned seed, strategy_run *program);
/* Like cast_try, with a program in place of the text's strategy for its agents and its helpers. */
void cast_serve(struct cast *g, const char *text, unsigned seed, strategy_run *program,
                fault (*rejoin)(struct agent *a));
/* The group an agent is of. */
struct cast *cast_of_agent(const struct agent *a);

/* As they are now. Valid until the next call for the same agent. */
const float *cast_row(struct cast *g, size_t agent);
void cast_write(struct cast *g, size_t agent, const float *floats);
/* The parameters of all agents, [n x size]; the caller frees. */
double *cast_rows(struct cast *g);
/* The sum of the squared distances from the mean over the agents. */
double disagreement_of(const double *rows, size_t n, size_t size);
double furthest_mean(const double *rows, const double *others, size_t n, size_t size);

struct link_counts cast_counts(const struct cast *g); /* of all agents together */
bool cast_noted(const struct cast *g, const char *words);

#endif
