/* experiment.h - what to train, with whom, how: text in, checked plain structs out.
 *
 *   text -> tree (tree.h) -> sections, each by its fields (field.h, kind.h) -> struct experiment
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

struct data_settings { /* data: */
    struct choice set;
    struct choice split; /* how the training samples are shared out among the agents   */
    int64_t batch;      /* samples in one lesson of one agent                          */
    int64_t limit;      /* use only this many training samples; 0: all                 */
    int64_t test_limit; /* likewise for the test samples                               */
    bool flip;          /* mirror half of the samples                                  */
    int64_t crop;       /* pad by this many pixels and cut the old size out at random  */
    struct reals mean, deviation; /* normalisation per channel; n == 0: the set's own  */
    bool stream;        /* samples stay on disk and are read ahead of need             */
    double window_mb;   /* into so much memory; 0: not written                         */
};

struct layer { /* one item of a network written as a list */
    const struct kind *kind;
    void *settings;
    const char *name; /* as written under `name`, or NULL */
    struct place place;
    struct texts from; /* names of the layers that it reads; none: the one before */
    struct place from_place;
    struct layer *body; /* a layer that holds layers (`residual`): the first; else NULL */
    struct layer *next;
};

struct model_settings { /* model: NAME, or a list of layers */
    struct choice named;  /* named.kind == NULL: `layers` holds the network */
    struct layer *layers;
    struct place place;
};

struct optim_settings { /* optim: */
    struct choice kind;     /* settings as its fields say; all have lr as their first member (double) */
    struct choice schedule; /* settings as its fields say                               */
    double warmup_epochs;   /* lr rises linearly over these, round by round             */
    double warmup_from;     /* the rate of the first round then; 0: one step above 0    */
    bool scale_lr;          /* linear scaling rule: lr times the number of agents       */
};

struct stop_settings { /* train.stop: 0 where it is not written; the first that is met ends the run */
    double accuracy, loss; /* in percent; at most */
    int64_t no_progress;   /* evaluations in a row */
    struct place place;
};

static inline bool stop_is_written(const struct stop_settings *s)
{
    return s->accuracy > 0 || s->loss > 0 || s->no_progress > 0;
}

struct train_settings { /* train: */
    double epochs;
    int64_t accumulate; /* micro-batches that a batch is cut into; at most data.batch */
    int64_t seed;
    struct every evaluate_every, checkpoint_every;
    int64_t keep; /* checkpoints kept */
    struct stop_settings stop;
};

struct engine_settings { /* engine: */
    struct choice kind;
    int precision;   /* enum precision */
    int64_t threads; /* 0: one for each core */
};

/* What to take for `weights: auto`: the topology room's usual kind. Smaller numbers are its enum weights_kind. */
enum { WEIGHTS_AUTO = 4 };

struct topology_settings { /* topology: SPEC, or a map */
    bool written;
    const char *graph;  /* the spec, "cycle:4"; NULL: there is none. Its name is known, its tail unchecked */
    int weights;        /* enum weights_kind, or WEIGHTS_AUTO */
    struct place place; /* of the spec */
};

struct machine_settings { /* machines: */
    struct choice kind; /* `given`, or `measured` until it is (machines.h) */
    double rate;        /* samples a second that a machine of speed 1 handles, for the virtual clock */
    double memory_gbps; /* gigabytes a second that its memory moves in steps and mixes; 0: they take no time */
    struct choice speed, stragglers; /* asked through machine_speeds and machine_slowdown (machines.h) */
};

/* What it takes to send n bytes: latency_s + n / bytes_per_s. */
struct wire {
    double latency_s, bytes_per_s;     /* bytes_per_s == 0: no limit */
    double latency_ms, bandwidth_mbps; /* the same as written; megabits */
};

struct wire_between { /* an item of network.links */
    uint32_t a, b; /* a < b */
    struct wire wire;
};

struct groups { /* agents told apart, no agent twice */
    const uint32_t *agents; /* [n]                        */
    const uint32_t *group;  /* [n] of each, < n_groups    */
    size_t n, n_groups;
};

struct network_settings { /* network: */
    bool written;         /* false: everything is free, and the members below say so too */
    struct wire within;   /* between agents of one site, or everywhere where there are no sites */
    struct wire across;   /* between agents of different sites */
    struct groups sites;              /* all agents; n == 0: no sites             */
    const uint32_t *site_of;          /* [agents]: the site of each; NULL: no sites */
    const struct wire_between *links; /* sorted by (a, b), no pair twice: other wires for single pairs */
    size_t n_links;
    double patience_s; /* how long one waits for a peer */
    double notice_s;   /* how long after a death the others know of it; without a network: at once */
};

/* The wire between two different agents, whatever decides it. */
struct wire network_wire(const struct network_settings *n, size_t a, size_t b);

enum event_kind {
    EVENT_CRASH,     /* all of `who` die                                             */
    EVENT_STALL,     /* all of `who` hang: the others notice after patience          */
    EVENT_RETURN,    /* all of `who` are back                                        */
    EVENT_CUT,       /* nothing passes between the two of `who`, either way          */
    EVENT_MEND,      /* it does again                                                */
    EVENT_PARTITION, /* nothing passes between agents of different groups            */
    EVENT_HEAL,      /* every cut is mended and the partition is over                */
    N_EVENTS
};

struct event { /* an item of events */
    enum event_kind kind;
    double at_s; /* virtual time, >= 0 */
    struct groups who; /* PARTITION: those not named are one more group. Others: a single group; HEAL: nobody */
    struct place place;
};

struct random_events { /* - random: ...; the mean times of exponential distributions; 0 as the first of two: never happens */
    double crash_every_s, down_s; /* of each agent; down_s == 0: for good */
    double cut_every_s, cut_s;    /* of each link; cut_s == 0: for good   */
    struct place place;
};

struct event_settings {     /* events: */
    const struct event *at; /* in the order written, which need not be that of time */
    size_t n;
    bool has_random;
    struct random_events random;
};

struct experiment {
    struct arena arena; /* owned: holds everything below */
    const char *name;
    const char *source; /* the file it came from */
    struct data_settings data;
    struct model_settings model;
    struct optim_settings optim;
    int64_t agents;  /* that learn; at most 100000 */
    int64_t members; /* with those that help: numbered after them */
    struct topology_settings topology;
    struct choice strategy, world;
    struct choice team; /* the machines of an agent; settings, where it has any, begin with `size` (int64_t) */
    int64_t team_size;  /* machines of each agent that learns; helpers have one */
    struct train_settings train;
    struct engine_settings engine;
    struct machine_settings machines;
    struct network_settings network;
    struct event_settings events;
};

/* Reads an experiment and puts `overrides` ("key.key=value") over it. On a fault *out is untouched. */
fault experiment_parse(const char *text, size_t n_bytes, const char *source, const char *const *overrides,
                       size_t n_overrides, const struct registry *registry, struct experiment **out);
void experiment_free(struct experiment *e);

/* The whole experiment, defaults included, as YAML that gives the same experiment again. Caller frees. */
fault experiment_print(const struct experiment *e, char **out);

/* A setting that two experiments have differently. */
struct change {
    const char *key;      /* "train.epochs"                               */
    const char *was, *is; /* as one would write it; "": it is not written */
};
/* In which settings an experiment differs from another, in the order of the file; both as experiment_print writes them. Texts
 * are in the arena, the list is the caller's to free. */
fault experiment_changes(const char *was, const char *is, struct arena *arena, struct change **out, size_t *n);

/* The fields of the sections that are not chosen by kind, for `veche list` and the documentation. */
struct section {
    const char *name, *help;
    const struct field *fields;
    size_t n_fields;
};
const struct section *experiment_sections(size_t *n);

#endif
