/* decode.h - from nodes to settings, by rows: what all sections share. */
#ifndef VECHE_EXPERIMENT_DECODE_H
#define VECHE_EXPERIMENT_DECODE_H

#include "experiment/experiment.h"
#include "experiment/sections.h"

struct decoder {
    const struct registry *registry; /* borrowed */
    struct arena *arena;             /* borrowed: the experiment's */
    const struct node *top;
};

/* Rows and the struct they fill. */
struct rows {
    const struct field *fields;
    size_t n;
    void *settings;
};

struct rows rows_of(enum section_id id, void *settings);

/* What a map may hold: the rows of a chosen kind, those of the section, and keys that are read elsewhere. */
struct form {
    const struct kind *kind; /* or NULL */
    struct rows rows[2];
    const char *const *others; /* NULL-terminated, or NULL */
};

/* Fills all rows of the form from a map, or from the defaults where `map` is NULL. `blamed` is where a key
 * that must be written is missing. */
fault decode_map(const struct decoder *d, const struct node *map, const struct form *form,
                 const struct node *blamed);

/* Reads `NAME` or `{kind: NAME, ...}`. `form` holds what the section has besides the kind's own settings;
 * `fallback` (or NULL) is the kind of a node that is NULL or names none. */
fault decode_choice(const struct decoder *d, const struct node *node, enum category category,
                    const char *fallback, struct form form, struct choice *out);

/* The kind a name stands for, with room for its settings. */
fault decode_kind(const struct decoder *d, const struct node *node, const char *name, enum category category,
                  struct choice *out);

/* The network: a name, or a list of layers (layers.c). */
fault decode_model(const struct decoder *d, const struct node *node, struct model_settings *out);

/* Whether a text can name a folder or a tensor; NAME_RULE says which can. */
bool experiment_is_name(const char *text);
#define NAME_RULE "a name is made of letters, digits, '.', '_' and '-', and begins with a letter or digit"

#endif
