/* kind.h - everything a user may name is a row in one registry.
 *
 * A room that offers something by name (an optimiser, a layer, a strategy) has a table of `struct kind`, each with the
 * settings it takes. The registry lists the tables; it is composed once, at the top of the program, because this room
 * may not know the others. `veche list`, the parser and the help read it.
 */
#ifndef VECHE_EXPERIMENT_KIND_H
#define VECHE_EXPERIMENT_KIND_H

#include <stdint.h>

#include "base/field.h"
#include "experiment/tree.h"

struct kind {
    const char *name; /* as written in the experiment file                                          */
    const char *help; /* one line                                                                   */
    const struct field *fields;
    size_t n_fields;
    size_t size;         /* of the settings struct the fields describe                              */
    const void *row;     /* the owning room's own row: functions, numbers                           */
    const char *missing; /* NULL, or why it cannot be used in this build: "built without oneDNN"    */
    const char *pattern; /* names with a tail, "mlp:N-N-...": the part up to the colon is `name`    */
    /* A strategy: agents it needs beside those that learn (servers); NULL: none. */
    int64_t (*helpers)(const void *settings, int64_t agents);
    bool holds_layers;   /* a layer made of layers, `residual: [conv: {...}, relu]`; with settings of its own:
                            `residual: {setting: ..., layers: [...]}` */
    bool joins_layers;   /* a layer that reads several: `concat: [a, b]` is short for `concat: {from: [a, b]}` */
};

/* What was chosen: the row and its settings, filled from the fields. */
struct choice {
    const struct kind *kind;
    void *settings;      /* kind->size bytes in the experiment's arena; NULL when the kind has no fields */
    const char *tail;    /* what followed the colon of a pattern, or NULL */
    struct place place;
};

struct kinds {
    const struct kind *rows;
    size_t n;
    const struct kind *const *each; /* instead of rows, where every row has a file of its own */
};

static inline const struct kind *kinds_at(const struct kinds *kinds, size_t i)
{
    return kinds->each ? kinds->each[i] : &kinds->rows[i];
}

/* The categories of names, in the order in which `veche list` shows them. */
#define CATEGORIES(X)                                                                                        \
    X(KIND_SET, "sets", "data sets, after data.set")                                                         \
    X(KIND_SPLIT, "splits", "how the training samples are shared out, after data.split")                     \
    X(KIND_MODEL, "models", "networks by name, after model")                                                 \
    X(KIND_LAYER, "layers", "layers of a network written as a list, under model")                            \
    X(KIND_OPTIM, "optimisers", "after optim.kind")                                                          \
    X(KIND_SCHEDULE, "schedules", "after optim.schedule.kind")                                               \
    X(KIND_TOPOLOGY, "topologies", "who is whose neighbour, after topology.graph")                           \
    X(KIND_STRATEGY, "strategies", "after strategy.kind")                                                    \
    X(KIND_TEAM, "teams", "the machines that one agent has, after team.kind")                                \
    X(KIND_ENGINE, "engines", "after engine.kind")                                                           \
    X(KIND_WORLD, "worlds", "after world")                                                                   \
    X(KIND_MACHINE, "machines", "how it is known how fast they are, after machines.kind")                    \
    X(KIND_SPEED, "speeds", "of the machines, after machines.speed")                                         \
    X(KIND_STRAGGLER, "stragglers", "machines that fall behind, after machines.stragglers")

enum category {
#define CATEGORY_ENUM(id, name, help) id,
    CATEGORIES(CATEGORY_ENUM)
#undef CATEGORY_ENUM
        N_CATEGORIES
};

struct registry {
    struct kinds of[N_CATEGORIES];
};

const char *category_name(enum category c);
const char *category_help(enum category c);

/* The row named `name` (up to a colon where the row has a pattern), or NULL. */
const struct kind *kind_find(const struct kinds *kinds, const char *name);
/* The nearest known name, or NULL. */
const char *kind_nearest(const struct kinds *kinds, const char *name);

#endif
