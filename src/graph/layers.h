/* layers.h - the settings of each kind of layer, as written in an experiment's list. */
#ifndef VECHE_GRAPH_LAYERS_H
#define VECHE_GRAPH_LAYERS_H

#include "graph/names.h"

struct conv_layer {
    int64_t out, kernel, stride, pad;
    int64_t groups; /* 0 as 1 */
    bool bias;
    int init; /* enum layer_init */
};

struct batchnorm_layer {
    double eps, momentum;
};

struct linear_layer {
    int64_t out;
    bool bias;
    int init; /* enum layer_init */
};

struct pool_layer {
    int64_t kernel, stride, pad; /* stride 0: as the kernel */
};

struct dropout_layer {
    double rate;
};

/* How a conv or linear layer's weights start. A bias starts as PyTorch's, uniform within 1/sqrt(fan_in), or
 * at zero where the weights do. */
enum layer_init { LAYER_INIT_DEFAULT, LAYER_INIT_KAIMING_NORMAL, LAYER_INIT_XAVIER_UNIFORM, LAYER_INIT_ZERO };

struct layer_row { /* what struct kind.row of a layer points to */
    /* Adds the layer's ops and gives the tensor they end in; of a loss, the one it reads. */
    int (*add)(struct builder *b, const struct output *o);
    enum op_kind op; /* what it becomes; of several, the last */
};

/* Adds a network's list of layers after tensor x and gives the tensor it ends in. Their names are those written, or
 * their places in the list. */
int layers_add(struct builder *b, int x, const struct layer *first);

#endif
