/* tree.h - a YAML text as a tree of nodes that remember where they stood.
 *
 * Only what an experiment needs is let in: maps, lists and plain values. Anchors, tags, several documents, duplicate
 * keys, keys that are not words, more than TREE_DEPTH levels or TREE_NODES nodes are faults with line and column.
 */
#ifndef VECHE_EXPERIMENT_TREE_H
#define VECHE_EXPERIMENT_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/fault.h"

enum { TREE_DEPTH = 32, TREE_NODES = 100000 };

/* Where something was written: a file's line and column, or a command line's override (line 0). */
struct place {
    const char *source; /* the file's name, or "command line" */
    size_t line, column; /* from 1; 0 where there is none      */
};

enum node_kind { NODE_VALUE, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    struct place place;
    const char *key;     /* in a map: the key it stands under; else NULL */
    const char *text;    /* NODE_VALUE                                   */
    bool quoted;         /* NODE_VALUE: written in quotes, so a text     */
    struct node *first;  /* NODE_LIST, NODE_MAP                          */
    struct node *next;   /* the next in the same list or map             */
    size_t n;            /* how many are in the list or map              */
};

/* All nodes and texts live in the arena. `source` names the text in faults. */
fault tree_read(const char *text, size_t n_bytes, const char *source, struct arena *arena, struct node **out);

/* Puts `key=value` ("strategy.every=5", "optim={kind: adam, lr: 0.1}") into the tree, replacing what stood there
 * and making the maps on the way. The value is YAML. */
fault tree_override(struct node *root, const char *assignment, struct arena *arena);

const struct node *node_find(const struct node *map, const char *key); /* NULL when it is not there */

/* A fault that begins with the place: "file.yaml:3:7: optim.lr: ...". */
fault fail_at(struct place place, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
