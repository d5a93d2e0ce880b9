/* experiment.h - what to train, with whom, how: text in, checked plain structs out.
 *
 *   text -> tree (tree.h) -> sections, each by its rows of settings (field.h, kind.h) -> struct experiment
 *
 * Everything that can be known to be wrong without opening anything is found here and named with file, line, column,
 * key and the nearest known name. Nothing is guessed: an unknown or repeated key is a fault.
 */
#ifndef VECHE_EXPERIMENT_EXPERIMENT_H
#define VECHE_EXPERIMENT_EXPERIMENT_H

#include <stdint.h>

#include "base/field.h"
#include "experiment/kind.h"
#include "experiment/tree.h"

enum precision { PRECISION_FP32, PRECISION_BF16 };
enum split { SPLIT_SHUFFLE };

struct data_settings { /* data: */
    struct choice set;
    int split;          /* enum split                                                  */
    int64_t batch;      /* samples in one lesson of one agent                          */
    int64_t limit;      /* use only this many training samples; 0: all                 */
    int64_t test_limit; /* likewise for the test samples                               */
    bool flip;          /* mirror half of the samples                                  */
    int64_t crop;       /* pad by this many pixels and cut the old size out at random  */
    struct reals mean, deviation; /* normalisation per channel; n == 0: the set's own  */
};

struct layer { /* one item of a network written as a list */
    const struct kind *kind;
    void *settings;
    const char *name; /* as written under `name`, or NULL */
    struct place place;
    struct layer *body; /* a layer that holds layers (`residual`): the first; else NULL */
    struct layer *next;
};

struct model_settings { /* model: NAME, or a list of layers */
    struct choice named;  /* named.kind == NULL: `layers` holds the network */
    struct layer *layers;
    struct place place;
};

struct optim_settings { /* optim: */
    struct choice kind;     /* settings as the optimiser's rows say; all have lr as their first member (double) */
    struct choice schedule; /* settings as the schedule's rows say                      */
    double warmup_epochs;   /* lr rises linearly from 0 over these, per round           */
    bool scale_lr;          /* linear scaling rule: lr times the number of agents       */
};

struct train_settings { /* train: */
    double epochs;
    int64_t seed;
    struct every evaluate_every, checkpoint_every;
    int64_t keep; /* checkpoints kept */
};

struct engine_settings { /* engine: */
    struct choice kind;
    int precision;   /* enum precision */
    int64_t threads; /* 0: one for each core */
};

struct machine_settings { /* machines: */
    double rate; /* samples a second that a machine of speed 1 handles, for the virtual clock */
};

struct experiment {
    struct arena arena; /* owned: holds everything below */
    const char *name;
    const char *source; /* the file it came from */
    struct data_settings data;
    struct model_settings model;
    struct optim_settings optim;
    int64_t agents;
    struct choice strategy, world;
    struct train_settings train;
    struct engine_settings engine;
    struct machine_settings machines;
};

/* Reads an experiment and puts `overrides` ("key.key=value") over it. On a fault *out is untouched. */
fault experiment_parse(const char *text, size_t n_bytes, const char *source, const char *const *overrides,
                       size_t n_overrides, const struct registry *registry, struct experiment **out);
fault experiment_read(const char *path, const char *const *overrides, size_t n_overrides,
                      const struct registry *registry, struct experiment **out);
void experiment_free(struct experiment *e);

/* The whole experiment, defaults included, as YAML that gives the same experiment again. Caller frees. */
fault experiment_print(const struct experiment *e, char **out);

/* The rows of the sections that are not chosen by kind, for `veche list` and the documentation. */
struct section {
    const char *name, *help;
    const struct field *fields;
    size_t n_fields;
};
const struct section *experiment_sections(size_t *n);

#endif
