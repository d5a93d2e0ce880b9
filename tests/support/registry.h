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
static const struct field toy_all_rows[] = {
    {"whole", FIELD_INT, offsetof(struct toy_all, whole), "3", .min = -5, .max = 9, .help = "a whole number"},
    {"real", FIELD_REAL, offsetof(struct toy_all, real), "0.5", .help = "any number"},
    {"flag", FIELD_FLAG, offsetof(struct toy_all, flag), "false", .help = "a flag"},
    {"text", FIELD_TEXT, offsetof(struct toy_all, text), "so so", .help = "a text"},
    {"mood", FIELD_CHOICE, offsetof(struct toy_all, mood), "calm", .choices = toy_moods, .help = "a mood"},
    {"every", FIELD_EVERY, offsetof(struct toy_all, every), "never", .help = "a time"},
    {"reals", FIELD_REALS, offsetof(struct toy_all, reals), "[1, 0.25]", .help = "some numbers"},
    {"may_count", FIELD_INT, offsetof(struct toy_all, may_count), .optional = true, .min = 1,
     .help = "a count"},
    {"may_text", FIELD_TEXT, offsetof(struct toy_all, may_text), .optional = true, .help = "a text, or none"},
};

struct toy_folder {
    const char *folder;
    int64_t size;
};
static const struct field toy_folder_rows[] = {
    {"folder", FIELD_TEXT, offsetof(struct toy_folder, folder), "/data", .help = "where the files lie"},
    {"size", FIELD_INT, offsetof(struct toy_folder, size), "10", .min = 1, .max = 1e6, .help = "how many"},
};
static const struct kind toy_sets[] = {
    {.name = "dots", .help = "dots"},
    {.name = "files", .help = "samples from files", FIELDS_OF(toy_folder_rows, toy_folder)},
};

struct toy_skew {
    double alpha;
    struct reals counts; /* whole */
};
static const struct field toy_skew_rows[] = {
    {"alpha", FIELD_REAL, offsetof(struct toy_skew, alpha), .min = 0, .max = 10, .help = "how much"},
    {"counts", FIELD_REALS, offsetof(struct toy_skew, counts), "[1, 2]", .min = 0, .max = 9, .whole = true,
     .help = "how many"},
};
struct toy_papers {
    struct texts papers;
};
static const struct field toy_papers_rows[] = {
    {"papers", FIELD_TEXTS, offsetof(struct toy_papers, papers), .help = "which"},
};
static const struct kind toy_splits[] = {
    {.name = "shuffle", .help = "in any order"},
    {.name = "skew", .help = "unequal", FIELDS_OF(toy_skew_rows, toy_skew)},
    {.name = "papers", .help = "as they say", FIELDS_OF(toy_papers_rows, toy_papers)},
};

static const struct kind toy_models[] = {
    {.name = "tower", .help = "a network"},
    {.name = "stairs", .help = "as many steps as the tail says", .pattern = "stairs:N-N-..."},
    {.name = "toys", .help = "takes everything", FIELDS_OF(toy_all_rows, toy_all)},
};

struct toy_conv {
    int64_t out, kernel;
    bool bias;
};
static const struct field toy_conv_rows[] = {
    {"out", FIELD_INT, offsetof(struct toy_conv, out), .min = 1, .max = 4096, .help = "channels"},
    {"kernel", FIELD_INT, offsetof(struct toy_conv, kernel), "3", .min = 1, .max = 11, .help = "pixels"},
    {"bias", FIELD_FLAG, offsetof(struct toy_conv, bias), "true", .help = "adds a number"},
};
struct toy_branch {
    double share;
};
static const struct field toy_branch_rows[] = {
    {"share", FIELD_REAL, offsetof(struct toy_branch, share), "0.5", .min = 0, .max = 1,
     .help = "of the body"},
};
static const struct kind toy_layers[] = {
    {.name = "conv", .help = "a convolution", FIELDS_OF(toy_conv_rows, toy_conv)},
    {.name = "relu", .help = "max(0, x)"},
    {.name = "residual", .help = "its layers and its input", .holds_layers = true},
    {.name = "branch",
     .help = "a share of its layers",
     FIELDS_OF(toy_branch_rows, toy_branch),
     .holds_layers = true},
    {.name = "join", .help = "several layers as one", .joins_layers = true},
};

struct toy_sgd {
    double lr, momentum;
};
static const struct field toy_sgd_rows[] = {
    {"lr", FIELD_REAL, offsetof(struct toy_sgd, lr), .min = 0, .max = INFINITY, .above_min = true,
     .help = "the step"},
    {"momentum", FIELD_REAL, offsetof(struct toy_sgd, momentum), "0", .min = 0, .max = 1,
     .help = "of the last step"},
};
struct toy_adam {
    double learning_rate, beta;
};
static const struct field toy_adam_rows[] = {
    {"learning_rate", FIELD_REAL, offsetof(struct toy_adam, learning_rate), "0.001", .min = 0, .max = 1,
     .help = "the step"},
    {"beta", FIELD_REAL, offsetof(struct toy_adam, beta), "0.9", .min = 0, .max = 1,
     .help = "how slowly it forgets"},
};
static const struct kind toy_optimisers[] = {
    {.name = "sgd", .help = "plain", FIELDS_OF(toy_sgd_rows, toy_sgd)},
    {.name = "adam", .help = "adaptive", FIELDS_OF(toy_adam_rows, toy_adam)},
};

struct toy_step {
    struct reals at;
    double factor;
};
static const struct field toy_step_rows[] = {
    {"at", FIELD_REALS, offsetof(struct toy_step, at), .min = 0, .max = INFINITY,
     .help = "epochs at which lr falls"},
    {"factor", FIELD_REAL, offsetof(struct toy_step, factor), "0.1", .min = 0, .max = 1,
     .help = "by how much"},
};
static const struct kind toy_schedules[] = {
    {.name = "constant", .help = "lr stays"},
    {.name = "step", .help = "lr falls", FIELDS_OF(toy_step_rows, toy_step)},
};

struct toy_consensus {
    int64_t every;
};
static const struct field toy_consensus_rows[] = {
    {"every", FIELD_INT, offsetof(struct toy_consensus, every), "1", .min = 1, .max = 1e6, .help = "rounds"},
};
static const struct kind toy_strategies[] = {
    {.name = "single", .help = "each for itself"},
    {.name = "consensus", .help = "with the neighbours", FIELDS_OF(toy_consensus_rows, toy_consensus)},
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
    [KIND_ENGINE] = KINDS_OF(toy_engines),
    [KIND_WORLD] = KINDS_OF(toy_worlds),
    [KIND_MACHINE] = KINDS_OF(machine_rows),
    [KIND_SPEED] = KINDS_OF(speed_rows),
    [KIND_STRAGGLER] = KINDS_OF(straggler_rows),
}};

#endif
