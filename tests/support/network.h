/* network.h - networks, samples and lessons for tests, without files.
 *
 *   struct network net = {0};
 *   net_conv(&net, 4, 3, 1, 1);
 *   net_layer(&net, "relu");
 *   struct graph *g = net_build(&net, (struct shape){1, 5, 5}, 3);
 *   ...
 *   graph_free(g);
 *   net_release(&net);
 *
 * Everything here asserts (cmocka) that it succeeds unless it returns a fault.
 */
#ifndef VECHE_TESTS_NETWORK_H
#define VECHE_TESTS_NETWORK_H

#include "base/arena.h"
#include "base/rng.h"
#include "data/data.h"
#include "engine/engine.h"
#include "graph/graph.h"
#include "graph/layers.h"

struct network {
    struct arena arena;
    struct model_settings model;
    struct layer *last;       /* the layer that was added last */
    struct layer **end;       /* where the next layer goes; NULL: the list is empty */
    struct layer **outer[16]; /* the lists around the residual being written        */
    size_t depth;
    size_t n_layers; /* each stands on its own line of "net" */
};

/* Each adds a layer at the end. Line i of the source "net" is the i-th layer (from 1), for faults. */
struct layer *net_layer(struct network *n,
                        const char *kind); /* with its kind's defaults: relu, flatten, mse, ... */
struct conv_layer *net_conv(struct network *n, int64_t out, int64_t kernel, int64_t stride, int64_t pad);
struct linear_layer *net_linear(struct network *n, int64_t out);
struct batchnorm_layer *net_batchnorm(struct network *n);
struct pool_layer *net_pool(struct network *n, const char *kind, int64_t kernel, int64_t stride, int64_t pad);
void net_dropout(struct network *n, double rate);
/* Of the layer that was added last: its name (NULL: one that no other has), which is given back; what it reads. */
const char *net_name(struct network *n, const char *name);
void net_from(struct network *n, const char *name);
/* An add or a concat of these, or of the layer before and one. */
void net_join(struct network *n, const char *kind, const char *const *names, size_t n_names);
void net_residual(struct network *n); /* the layers from here to net_end are its body */
void net_end(struct network *n);

struct graph *net_build(const struct network *n, struct shape input, size_t classes);
fault net_try(const struct network *n, struct shape input, size_t classes, struct graph **out);
void net_release(struct network *n);

/* A named model: "resnet20", "mlp:100-50". */
struct graph *model_build(const char *name, struct shape input, size_t classes);
fault model_try(const char *name, struct shape input, size_t classes, struct graph **out);

/* As `veche check` tells of it; the caller frees. */
char *described(const struct graph *g);

/* n random pictures with random labels in memory, means 0.4 + 0.05 c, deviations 0.25 + 0.05 c. */
struct dataset *random_dataset(uint64_t seed, struct shape shape, size_t classes, size_t n_train,
                               size_t n_test);
void random_dataset_free(struct dataset *d);

/* Random picks with flips and shifts within `crop` pixels; flips only where flip is set. */
void random_picks(struct rng *r, const struct samples *s, bool flip, int crop, struct pick *picks, size_t n);

/* A random network of `n_layers` layers or small groups of such: residuals, branches that are joined again, skips into
 * and out of bodies, convolutions of groups, pools and all the pointwise ops; where it makes a vector, this may be added
 * to itself. It ends in `classes` outputs and any loss. */
void net_random(struct network *n, struct rng *r, struct shape input, size_t classes, size_t n_layers);

/* Opens an engine of these ops with n replicas, all starting from graph_init(seed). */
struct engine *engine_start(const struct engine_ops *ops, const struct graph *g, const struct dataset *d,
                            size_t n_replicas, size_t batch, int threads, uint64_t seed);

#endif
