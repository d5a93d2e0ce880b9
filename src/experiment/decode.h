/* decode.h - from nodes to settings, by fields: what all sections share. */
#ifndef VECHE_EXPERIMENT_DECODE_H
#define VECHE_EXPERIMENT_DECODE_H

#include "experiment/experiment.h"
#include "experiment/sections.h"

struct document { /* an experiment that is being decoded, and by what */
    const struct registry *registry; /* borrowed */
    struct arena *arena;             /* borrowed: the experiment's */
    const struct node *top;
};

/* Fields and the struct they fill. */
struct fields {
    const struct field *at;
    size_t n;
    void *settings;
};

struct fields decode_fields_of(enum section_id id, void *settings);

/* What a map may hold: the fields of a chosen kind, those of the section, and keys that are read elsewhere. */
struct form {
    const struct kind *kind; /* or NULL */
    struct fields fields[2];
    const char *const *others; /* NULL-terminated, or NULL */
    const char *bare;          /* choices: the kind that a number or a list is the first setting of, or NULL  */
    const struct node *first;  /* set by decode_choice: fields[0]'s first setting, written under the kind's name */
    const struct kinds *short_kinds; /* set by decode_choice: kinds that could have stood as keys */
};

/* Fills all fields of the form from a map, or from the defaults where `map` is NULL. `blamed` is where a key
 * that must be written is missing. */
fault decode_map(const struct document *d, const struct node *map, const struct form *form,
                 const struct node *blamed);

/* One value, or a list of values, by its field. */
fault decode_field(const struct document *d, const struct node *node, const struct field *field, void *settings);

/* Reads `NAME`, `{kind: NAME, ...}` or `{NAME: its first setting, ...}`. `form` holds what the section has besides the kind's own settings;
 * `fallback` (or NULL) is the kind of a node that is NULL or names none. */
fault decode_choice(const struct document *d, const struct node *node, enum category category,
                    const char *fallback, struct form form, struct choice *out);

/* Where the first setting of a choice was written, or else the choice itself: the place of complaints about it. */
const struct node *decode_first_setting(const struct node *choice, const struct kind *kind);

/* The kind a name stands for, with room for its settings. */
fault decode_kind(const struct document *d, const struct node *node, const char *name, enum category category,
                  struct choice *out);

/* The network: a name, or a list of layers (layers.c). */
fault decode_model(const struct document *d, const struct node *node, struct model_settings *out);

/* The surroundings of the agents (machines.c, network.c, events.c). What they say of single agents is checked against
 * the number of agents. */
fault decode_topology(const struct document *d, struct topology_settings *out);
fault decode_machines(const struct document *d, int64_t agents, int64_t team_size, struct machine_settings *out);
fault decode_network(const struct document *d, int64_t agents, int64_t members, struct network_settings *out);
fault decode_events(const struct document *d, int64_t members, struct event_settings *out);

/* Agents named by number (roll.c): each is there, and none is called twice in one call. */
struct roll {
    const struct document *d; /* borrowed */
    int64_t agents;
    uint32_t *called; /* [agents]: the call in which each was named last */
    uint32_t call;
};

fault roll_init(struct roll *r, const struct document *d, int64_t agents);
/* `numbers` as decode_field read them from `node`: one number or a list. A single group of one or more. */
fault roll_agents(struct roll *r, const struct node *node, const struct reals *numbers, struct groups *out);
/* Likewise, exactly two. */
fault roll_pair(struct roll *r, const struct node *node, const struct reals *numbers, struct groups *out);
/* A list of lists. */
fault roll_groups(struct roll *r, const struct node *node, struct groups *out);

/* Whether a text can name a folder or a tensor; NAME_RULE says which can. */
bool experiment_is_name(const char *text);
#define NAME_RULE "a name is made of letters, digits, '.', '_' and '-', and begins with a letter or digit"

#endif
