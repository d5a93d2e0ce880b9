/* registry.h - names to write experiments with where the real rooms are not the question.
 *
 * Between them the kinds take every kind of setting; one cannot be used, one has a tail, one holds layers,
 * one joins them.
 * Everything is constant and in this header, so that fuzz targets, which are single files, can use it as
 * well.
 */
#ifndef VECHE_TESTS_SUPPORT_REGISTRY_H
#define VECHE_TESTS_SUPPORT_REGISTRY_H

#include <math.h>
#include <stdint.h>

#include "experiment/machines.h"

#define KINDS_OF(table)                                                                                      \
    {                                                                                                        \
        .rows = table, .n = sizeof table / sizeof *table                                                     \
    }
#define FIELDS_OF(rows, type)                                                                                \
    .fields = rows, .n_fields = sizeof rows / sizeof *rows, .size = sizeof(struct type)

static const char *const toy_moods[] = {"calm", "eager", "stubborn", NULL};

/* One member of every kind. */
struct toy_all {
    int64_t whole;
    double real;
    bool flag;
    const char *text;
    int mood;
    struct every every;
    struct reals reals;
    int64_t may_count; /* optional: zero when left out, though zero cannot be written */
    const char *may_text;
};
static const struct field toy_all_fields[] = {
    INT_FIELD(struct toy_all, whole, "3", -5, 9, "a whole number"),
    REAL_FIELD(struct toy_all, real, "0.5", 0, 0, "any number"),
    FLAG_FIELD(struct toy_all, flag, "false", "a flag"),
    TEXT_FIELD(struct toy_all, text, "so so", "a text"),
    CHOICE_FIELD(struct toy_all, mood, "calm", toy_moods, "a mood"),
    EVERY_FIELD(struct toy_all, every, "never", "a time"),
    REALS_FIELD(struct toy_all, reals, "[1, 0.25]", 0, 0, "some numbers"),
    INT_FIELD(struct toy_all, may_count, NULL, 1, 0, "a count", .optional = true),
    TEXT_FIELD(struct toy_all, may_text, NULL, "a text, or none", .optional = true),
};

struct toy_folder {
    const char *folder;
    int64_t size;
};
static const struct field toy_folder_fields[] = {
    TEXT_FIELD(struct toy_folder, folder, "/data", "where the files lie"),
    INT_FIELD(struct toy_folder, size, "10", 1, 1e6, "how many"),
};
static const struct kind toy_sets[] = {
    {.name = "dots", .help = "dots"},
    {.name = "files", .help = "samples from files", FIELDS_OF(toy_folder_fields, toy_folder)},
};

struct toy_skew {
    double alpha;
    struct reals counts; /* whole */
};
static const struct field toy_skew_fields[] = {
    REAL_FIELD(struct toy_skew, alpha, NULL, 0, 10, "how much"),
    REALS_FIELD(struct toy_skew, counts, "[1, 2]", 0, 9, "how many", .whole = true),
};
struct toy_papers {
    struct texts papers;
};
static const struct field toy_papers_fields[] = {
    TEXTS_FIELD(struct toy_papers, papers, NULL, "which"),
};
static const struct kind toy_splits[] = {
    {.name = "shuffle", .help = "in any order"},
    {.name = "skew", .help = "unequal", FIELDS_OF(toy_skew_fields, toy_skew)},
    {.name = "papers", .help = "as they say", FIELDS_OF(toy_papers_fields, toy_papers)},
};

static const struct kind toy_models[] = {
    {.name = "tower", .help = "a network"},
    {.name = "stairs", .help = "as many steps as the tail says", .pattern = "stairs:N-N-..."},
    {.name = "toys", .help = "takes everything", FIELDS_OF(toy_all_fields, toy_all)},
};

struct toy_conv {
    int64_t out, kernel;
    bool bias;
};
static const struct field toy_conv_fields[] = {
    INT_FIELD(struct toy_conv, out, NULL, 1, 4096, "channels"),
    INT_FIELD(struct toy_conv, kernel, "3", 1, 11, "pixels"),
    FLAG_FIELD(struct toy_conv, bias, "true", "adds a number"),
};
struct toy_branch {
    double share;
};
static const struct field toy_branch_fields[] = {
    REAL_FIELD(struct toy_branch, share, "0.5", 0, 1, "of the body"),
};
static const struct kind toy_layers[] = {
    {.name = "conv", .help = "a convolution", FIELDS_OF(toy_conv_fields, toy_conv)},
    {.name = "relu", .help = "max(0, x)"},
    {.name = "residual", .help = "its layers and its input", .holds_layers = true},
    {.name = "branch",
     .help = "a share of its layers",
     FIELDS_OF(toy_branch_fields, toy_branch),
     .holds_layers = true},
    {.name = "join", .help = "several layers as one", .joins_layers = true},
};

struct toy_sgd {
    double lr, momentum;
};
static const struct field toy_sgd_fields[] = {
    REAL_FIELD(struct toy_sgd, lr, NULL, 0, INFINITY, "the step", .above_min = true),
    REAL_FIELD(struct toy_sgd, momentum, "0", 0, 1, "of the last step"),
};
struct toy_adam {
    double learning_rate, beta;
};
static const struct field toy_adam_fields[] = {
    REAL_FIELD(struct toy_adam, learning_rate, "0.001", 0, 1, "the step"),
    REAL_FIELD(struct toy_adam, beta, "0.9", 0, 1, "how slowly it forgets"),
};
static const struct kind toy_optimisers[] = {
    {.name = "sgd", .help = "plain", FIELDS_OF(toy_sgd_fields, toy_sgd)},
    {.name = "adam", .help = "adaptive", FIELDS_OF(toy_adam_fields, toy_adam)},
};

struct toy_step {
    struct reals at;
    double factor;
};
static const struct field toy_step_fields[] = {
    REALS_FIELD(struct toy_step, at, NULL, 0, INFINITY, "epochs at which lr falls"),
    REAL_FIELD(struct toy_step, factor, "0.1", 0, 1, "by how much"),
};
static const struct kind toy_schedules[] = {
    {.name = "constant", .help = "lr stays"},
    {.name = "step", .help = "lr falls", FIELDS_OF(toy_step_fields, toy_step)},
};

struct toy_consensus {
    int64_t every;
};
static const struct field toy_consensus_fields[] = {
    INT_FIELD(struct toy_consensus, every, "1", 1, 1e6, "rounds"),
};
static const struct kind toy_strategies[] = {
    {.name = "single", .help = "each for itself"},
    {.name = "consensus", .help = "with the neighbours", FIELDS_OF(toy_consensus_fields, toy_consensus)},
};

struct toy_team {
    int64_t size;
};
static const struct field toy_team_fields[] = {INT_FIELD(struct toy_team, size, "1", 1, 9, "machines")};
static const struct kind toy_teams[] = {
    {.name = "none", .help = "one machine"},
    {.name = "twins", .help = "several", FIELDS_OF(toy_team_fields, toy_team)},
};
static const struct kind toy_engines[] = {
    {.name = "auto", .help = "whichever there is"},
    {.name = "ref", .help = "plain loops"},
    {.name = "null", .help = "no work"},
    {.name = "dnnl", .help = "fast", .missing = "this build is without oneDNN"},
};
static const struct kind toy_worlds[] = {
    {.name = "local", .help = "in one process"},
    {.name = "mpi", .help = "on many machines"},
};

static const struct kind toy_topologies[] = {
    {.name = "ring", .help = "a cycle", .pattern = "ring:N"},
    {.name = "mesh", .help = "a mesh", .pattern = "mesh:NxN"},
};

static const struct registry toy_registry = {{
    [KIND_SET] = KINDS_OF(toy_sets),
    [KIND_SPLIT] = KINDS_OF(toy_splits),
    [KIND_MODEL] = KINDS_OF(toy_models),
    [KIND_LAYER] = KINDS_OF(toy_layers),
    [KIND_OPTIM] = KINDS_OF(toy_optimisers),
    [KIND_SCHEDULE] = KINDS_OF(toy_schedules),
    [KIND_TOPOLOGY] = KINDS_OF(toy_topologies),
    [KIND_STRATEGY] = KINDS_OF(toy_strategies),
    [KIND_TEAM] = KINDS_OF(toy_teams),
    [KIND_ENGINE] = KINDS_OF(toy_engines),
    [KIND_WORLD] = KINDS_OF(toy_worlds),
    [KIND_MACHINE] = KINDS_OF(machine_rows),
    [KIND_SPEED] = KINDS_OF(speed_rows),
    [KIND_STRAGGLER] = KINDS_OF(straggler_rows),
}};

#endif
