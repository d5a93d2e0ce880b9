/* tree.h - a YAML text as a tree of nodes that remember where they stood.
 *
 * Only what an experiment needs is let in: maps, lists and plain values. Anchors, tags, several documents,
 * duplicate keys, keys that are not words, more than TREE_DEPTH levels or TREE_NODES nodes are faults with
 * line and column.
 */
#ifndef VECHE_EXPERIMENT_TREE_H
#define VECHE_EXPERIMENT_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/fault.h"

enum { TREE_DEPTH = 32, TREE_NODES = 100000, TREE_KEYS = 256 /* in one map */ };

/* Where something was written: a file's line and column, or an override on the command line (line 0). */
struct place {
    const char *source;  /* the file's name, or "command line: optim.lr=0.1" */
    size_t line, column; /* from 1; 0 where there is none                    */
};

enum node_kind { NODE_VALUE, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    struct place place;
    struct place key_place;
    const char *key;     /* in a map: the key it stands under; else NULL */
    const char *text;    /* NODE_VALUE                                   */
    bool quoted;         /* NODE_VALUE: written in quotes, so a text     */
    struct node *parent; /* the list or map it stands in; NULL at the top */
    struct node *first;  /* NODE_LIST, NODE_MAP                          */
    struct node *next;   /* the next in the same list or map             */
    size_t n;            /* how many are in the list or map              */
};

/* All nodes and texts live in the arena. `source` names the text in faults. */
fault tree_read(const char *text, size_t n_bytes, const char *source, struct arena *arena, struct node **out);

/* Likewise for a text that stands wholly at one place without lines, such as the value of an override. */
fault tree_read_at(const char *text, size_t n_bytes, struct place place, struct arena *arena,
                   struct node **out);

/* Puts `key=value` ("strategy.every=5", "model.0.conv.out=32", "optim={kind: adam, lr: 0.1}") into the tree,
 * replacing what stood there and making the maps on the way; a plain value on the way becomes a map {kind:
 * value}, or, in a list, {value: {}}. The value is YAML. */
fault tree_override(struct node *root, const char *assignment, struct arena *arena);

/* The first of the overrides of which `assignment` would leave nothing, since it replaces the whole that they
 * set a part of: engine=cuda after engine.precision=bf16. NULL: none. */
const char *override_undone(const char *const *overrides, size_t n, const char *assignment);
fault overrides_agree(const char *const *overrides, size_t n); /* a fault where one undoes another */

const struct node *node_find(const struct node *map, const char *key); /* NULL when it is not there  */
bool node_is_nothing(const struct node *node);                         /* `key:` or `key: ~`         */
bool tree_is_key(const char *text);                                    /* letters, digits, '-', '_' */
void node_append(struct node *parent, struct node *child);

/* The keys from the top to the node: "optim.schedule.kind", "model.2.conv"; empty for the top itself. */
void node_path(const struct node *node, char *path, size_t n);

/* A fault that begins with the place: "file.yaml:3:7: ...". */
fault fail_at(struct place place, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Likewise with the node's path: "file.yaml:3:7: optim.lr: ...", at its value or at its key. */
fault fail_node(const struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
fault fail_key(const struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
