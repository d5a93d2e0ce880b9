/* network.c - lists of layers made by calls, random samples, engines over them. */
#include "support/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/page.h"

static const struct kind *row_named(const struct kinds *kinds, const char *name, size_t n_name)
{
    for (size_t i = 0; i < kinds->n; i++)
        if (strlen(kinds->rows[i].name) == n_name && memcmp(kinds->rows[i].name, name, n_name) == 0)
            return &kinds->rows[i];
    fail_msg("there is no kind named %s", name);
    return NULL;
}

struct layer *net_layer(struct network *n, const char *kind)
{
    struct layer *l = ARENA_NEW(&n->arena, struct layer, 1);
    assert_non_null(l);
    l->kind = row_named(&layer_kinds, kind, strlen(kind));
    l->settings = arena_take(&n->arena, l->kind->size);
    assert_non_null(l->settings);
    assert_null(field_defaults(l->kind->fields, l->kind->n_fields, &n->arena, l->settings));
    l->place = (struct place){"net", ++n->n_layers, 1};
    if (!n->end)
        n->end = &n->model.layers;
    *n->end = n->last = l;
    n->end = &l->next;
    return l;
}

struct conv_layer *net_conv(struct network *n, int64_t out, int64_t kernel, int64_t stride, int64_t pad)
{
    struct conv_layer *s = net_layer(n, "conv")->settings;
    s->out = out;
    s->kernel = kernel;
    s->stride = stride;
    s->pad = pad;
    return s;
}

struct linear_layer *net_linear(struct network *n, int64_t out)
{
    struct linear_layer *s = net_layer(n, "linear")->settings;
    s->out = out;
    return s;
}

struct batchnorm_layer *net_batchnorm(struct network *n)
{
    return net_layer(n, "batchnorm")->settings;
}

struct pool_layer *net_pool(struct network *n, const char *kind, int64_t kernel, int64_t stride, int64_t pad)
{
    struct pool_layer *s = net_layer(n, kind)->settings;
    *s = (struct pool_layer){kernel, stride, pad};
    return s;
}

void net_dropout(struct network *n, double rate)
{
    ((struct dropout_layer *)net_layer(n, "dropout")->settings)->rate = rate;
}

const char *net_name(struct network *n, const char *name)
{
    n->last->name = name ? name : arena_printf(&n->arena, "name%zu", n->n_layers);
    assert_non_null(n->last->name);
    return n->last->name;
}

void net_join(struct network *n, const char *kind, const char *const *names, size_t n_names)
{
    const char **copy = ARENA_NEW(&n->arena, const char *, n_names);
    assert_non_null(copy);
    memcpy(copy, names, n_names * sizeof *copy);
    struct layer *l = kind ? net_layer(n, kind) : n->last;
    l->from = (struct texts){copy, n_names};
    l->from_place = l->place;
}

void net_from(struct network *n, const char *name)
{
    net_join(n, NULL, &name, 1);
}

void net_residual(struct network *n)
{
    struct layer *l = net_layer(n, "residual");
    assert_true(n->depth < sizeof n->outer / sizeof *n->outer);
    n->outer[n->depth++] = n->end;
    n->end = &l->body;
}

void net_end(struct network *n)
{
    assert_true(n->depth > 0);
    n->end = n->outer[--n->depth];
}

fault net_try(const struct network *n, struct shape input, size_t classes, struct graph **out)
{
    return graph_build(&n->model, input, classes, out);
}

static struct graph *expect_graph(fault f, struct graph *g)
{
    if (f)
        fail_msg("%s", fault_text(f));
    return g;
}

struct graph *net_build(const struct network *n, struct shape input, size_t classes)
{
    struct graph *g = NULL;
    fault f = net_try(n, input, classes, &g);
    return expect_graph(f, g);
}

void net_release(struct network *n)
{
    arena_release(&n->arena);
    *n = (struct network){0};
}

fault model_try(const char *name, struct shape input, size_t classes, struct graph **out)
{
    const char *colon = strchr(name, ':');
    size_t n = colon ? (size_t)(colon - name) : strlen(name);
    struct model_settings model = {
        .named = {.kind = row_named(&model_kinds, name, n), .tail = colon ? colon + 1 : NULL},
        .place = {"net", 1, 1},
    };
    return graph_build(&model, input, classes, out);
}

struct graph *model_build(const char *name, struct shape input, size_t classes)
{
    struct graph *g = NULL;
    fault f = model_try(name, input, classes, &g);
    return expect_graph(f, g);
}

static void random_samples(struct rng *r, struct shape shape, size_t classes, size_t n, uint8_t *pixels,
                           uint16_t *labels, struct samples *out)
{
    *out = (struct samples){.n = n, .c = shape.c, .h = shape.h, .w = shape.w, .classes = classes};
    out->pixels = pixels;
    out->labels = labels;
    for (size_t i = 0; i < n * shape_size(shape); i++)
        pixels[i] = (uint8_t)rng_below(r, 256);
    for (size_t i = 0; i < n; i++)
        labels[i] = (uint16_t)rng_below(r, classes);
    for (size_t c = 0; c < shape.c && c < MOST_CHANNELS; c++) {
        out->mean[c] = 0.4f + 0.05f * (float)c;
        out->deviation[c] = 0.25f + 0.05f * (float)c;
    }
}

char *described(const struct graph *g)
{
    struct page page;
    char *text;
    assert_null(page_open(&page));
    fault f = graph_describe(g, page.out);
    assert_null(page_close(&page, f, &text));
    return text;
}

struct dataset *random_dataset(uint64_t seed, struct shape shape, size_t classes, size_t n_train,
                               size_t n_test)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 0);
    struct dataset *d = calloc(1, sizeof *d);
    assert_non_null(d);
    size_t n = n_train + n_test, n_labels = round_up(n * sizeof(uint16_t), 64);
    assert_null(block_open(n_labels + n * shape_size(shape), &d->memory));
    uint16_t *labels = d->memory.bytes;
    uint8_t *pixels = (uint8_t *)d->memory.bytes + n_labels;
    random_samples(&r, shape, classes, n_train, pixels, labels, &d->train);
    random_samples(&r, shape, classes, n_test, pixels + n_train * shape_size(shape), labels + n_train,
                   &d->test);
    return d;
}

void random_dataset_free(struct dataset *d)
{
    block_close(&d->memory);
    free(d);
}

void random_picks(struct rng *r, const struct samples *s, bool flip, int crop, struct pick *picks, size_t n)
{
    uint64_t shifts = 2 * (uint64_t)crop + 1;
    for (size_t i = 0; i < n; i++) {
        picks[i].sample = (uint32_t)rng_below(r, s->n);
        picks[i].flip = flip && rng_below(r, 2);
        picks[i].dy = (int8_t)((int)rng_below(r, shifts) - crop);
        picks[i].dx = (int8_t)((int)rng_below(r, shifts) - crop);
    }
}

/* A random network while it grows: what its last layer makes. */
struct growth {
    struct network *net;
    struct rng *r;
    struct shape input;
    size_t side, channels;
};

static size_t below(struct growth *g, size_t n)
{
    return rng_below(g->r, n);
}

static struct conv_layer *grow_conv(struct growth *g, size_t out, int64_t kernel, int64_t stride)
{
    g->channels = out;
    g->side = (g->side - 1) / (size_t)stride + 1;
    return net_conv(g->net, (int64_t)out, kernel, stride, kernel / 2);
}

static void grow_pointwise(struct growth *g)
{
    static const char *const plain[] = {"relu", "tanh", "sigmoid", "relu"};
    net_layer(g->net, plain[below(g, 4)]);
}

/* Few channels again, as residuals need them that widen to six. */
static void grow_narrow(struct growth *g)
{
    grow_conv(g, 1 + below(g, 5), 1, 1);
}

static void grow_groups(struct growth *g)
{
    size_t groups = 1 + below(g, g->channels);
    groups = g->channels % groups ? g->channels : groups;
    size_t out = groups * (1 + below(g, 6 / groups));
    grow_conv(g, out, 3, 1 + (int64_t)below(g, 2))->groups = (int64_t)groups;
}

static void grow_pool(struct growth *g)
{
    int64_t pad = (int64_t)below(g, 2), kernel = 1 + (int64_t)below(g, 3), stride = 1 + (int64_t)below(g, 2);
    if (g->side + 2 * (size_t)pad < (size_t)kernel || 2 * pad > kernel)
        return;
    net_pool(g->net, below(g, 2) ? "maxpool" : "avgpool", kernel, stride, pad);
    g->side = (g->side + 2 * (size_t)pad - (size_t)kernel) / (size_t)stride + 1;
}

static void grow_residual(struct growth *g)
{
    net_residual(g->net);
    net_batchnorm(g->net);
    net_layer(g->net, "relu");
    grow_conv(g, 6, 3, 1 + (int64_t)below(g, 2));
    net_end(g->net);
    grow_narrow(g);
}

/* Two or three ways from one layer, which are added or joined. */
static void grow_branches(struct growth *g)
{
    grow_pointwise(g);
    const char *stem = net_name(g->net, NULL), *ends[4];
    size_t n = 2 + below(g, 2), all = 0, before = g->channels;
    bool adds = below(g, 2);
    for (size_t i = 0; i < n; i++) {
        size_t out = adds ? before : 1 + below(g, 4);
        grow_conv(g, out, below(g, 2) ? 3 : 1, 1);
        net_from(g->net, stem);
        if (below(g, 2))
            grow_pointwise(g);
        ends[i] = net_name(g->net, NULL);
        all += out;
    }
    if (below(g, 2)) {
        ends[n++] = stem;
        all += before;
    }
    net_join(g->net, adds ? "add" : "concat", ends, n);
    g->channels = adds ? before : all;
    grow_narrow(g);
}

/* A layer is read again after some others: beside the layer before, and inside a residual. */
static void grow_skip(struct growth *g)
{
    size_t channels = g->channels;
    grow_pointwise(g);
    const char *stem = net_name(g->net, NULL);
    net_batchnorm(g->net);
    if (below(g, 2))
        net_layer(g->net, "relu");
    net_join(g->net, below(g, 2) ? "add" : "concat", &stem, 1);
    net_residual(g->net);
    net_layer(g->net, "tanh");
    net_join(g->net, "concat", &stem, 1);
    grow_conv(g, 2 * channels, 3, 1);
    net_end(g->net);
    grow_narrow(g);
}

/* The samples once more, where pictures are as large as they are. */
static void grow_from_input(struct growth *g)
{
    static const char *const input[] = {"input"};
    net_layer(g->net, "tanh");
    if (g->side != g->input.h)
        return;
    net_join(g->net, "concat", input, 1);
    g->channels += g->input.c;
    grow_narrow(g);
}

/* Means of pictures are a vector, of which a flatten makes nothing new: it is added to itself, and read again behind that. */
static void grow_double(struct growth *g)
{
    net_layer(g->net, "tanh");
    const char *stem = net_name(g->net, NULL);
    net_residual(g->net);
    net_layer(g->net, "flatten");
    net_end(g->net);
    net_layer(g->net, "sigmoid");
    net_join(g->net, below(g, 2) ? "add" : "concat", &stem, 1);
}

static void random_layer(struct growth *g)
{
    switch (below(g, 10)) {
    case 0:
        grow_conv(g, 1 + below(g, 5), 3, 1 + (int64_t)below(g, 2));
        break;
    case 1:
        net_batchnorm(g->net);
        break;
    case 2:
        grow_pointwise(g);
        break;
    case 3:
        grow_pool(g);
        break;
    case 4:
        net_dropout(g->net, 0.3);
        break;
    case 5:
        grow_groups(g);
        break;
    case 6:
        grow_branches(g);
        break;
    case 7:
        grow_skip(g);
        break;
    case 8:
        grow_from_input(g);
        break;
    default:
        grow_residual(g);
    }
}

void net_random(struct network *n, struct rng *r, struct shape input, size_t classes, size_t n_layers)
{
    static const char *const losses[] = {"cross-entropy", "mse", "hinge", "logistic"};
    struct growth g = {n, r, input, input.h, input.c};
    assert_true(input.h == input.w && input.c <= 6);
    for (size_t i = 0; i < n_layers; i++)
        random_layer(&g);
    if (below(&g, 2)) {
        net_layer(n, "globalpool");
        if (below(&g, 3) == 0)
            grow_double(&g);
    }
    net_linear(n, (int64_t)classes);
    net_layer(n, losses[below(&g, 4)]);
}

struct engine *engine_start(const struct engine_ops *ops, const struct graph *g, const struct dataset *d,
                            size_t n_replicas, size_t batch, int threads, uint64_t seed)
{
    struct engine_setup setup = {
        .graph = g, .rows = rows_of(g, NULL), .train = &d->train, .test = &d->test, .n_replicas = n_replicas};
    setup.batch = batch;
    setup.threads = threads;
    struct engine *e = NULL;
    fault f = ops->open(&setup, &e);
    if (f)
        fail_msg("%s", fault_text(f));
    float *params = calloc(g->size + g->stats_size + 1, sizeof *params);
    assert_non_null(params);
    graph_init(g, seed, params, params + g->size);
    for (size_t i = 0; i < n_replicas; i++) {
        assert_null(ops->write(e, ROW_PARAMS, i, params));
        assert_null(ops->write(e, ROW_STATS, i, params + g->size));
    }
    free(params);
    return e;
}
