/* names.h - who reads whom in a list of layers.
 *
 *   names_collect (all names, before anything is built)  ->  names_read for each layer in turn  ->  names_check
 *
 * A name written after `from` is looked up in the layer's own list first, then in the lists around it: a residual's
 * body sees what stands around it, and a body with a name is seen from outside, layer by layer, as "block.norm". The
 * first list that has the name decides, and there it must stand earlier.
 */
#ifndef VECHE_GRAPH_NAMES_H
#define VECHE_GRAPH_NAMES_H

#include "graph/build.h"

/* What a layer can read: the samples, or another layer's output. */
struct output {
    const char *name;          /* in full: "block.norm", or by number where none is written: "block.2" */
    const struct layer *layer; /* NULL: the samples */
    const struct scope *scope; /* the list it stands in */
    int tensor;                /* -1: not made yet */
    bool is_read;
    struct output **in; /* what it reads itself, where names_read has been here */
    size_t n_in;
};

struct names {
    struct arena *arena; /* the graph's */
    struct output *at;   /* the samples, then every layer in the order in which they are written */
    size_t n, room;
    size_t n_begun; /* of these, how many have been built or are being built */
};

/* A list of layers: the network's own, or a residual's body. */
struct scope {
    struct names *names;
    const struct scope *around; /* NULL: the network's own */
    const char *prefix;         /* of its layers' names: "block." */
    size_t open;                /* lists whose prefix has at least so many characters can name its layers */
};

/* Fills `names` with all layers of a network that begins with tensor x. A name that stands twice is a fault of the
 * builder. */
void names_collect(struct builder *b, int x, const struct layer *first, struct names *names);
/* The next layer, which stands after `before`, with what it reads. NULL after a fault. */
struct output *names_read(struct builder *b, struct names *names, struct output *before);
/* A layer that nobody reads is a fault of the builder, with its place. */
void names_check(struct builder *b, const struct names *names);

#endif
