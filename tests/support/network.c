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
    *n->end = l;
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
    graph_describe(g, page.out);
    assert_null(page_close(&page, OK, &text));
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

/* One random layer that fits a picture of side `*side`; keeps count of what is left of it. */
static void random_layer(struct network *n, struct rng *r, size_t *side)
{
    static const char *const plain[] = {"relu", "tanh", "sigmoid", "relu"};
    int64_t pad = (int64_t)rng_below(r, 2), kernel = 1 + (int64_t)rng_below(r, 3);
    int64_t stride = 1 + (int64_t)rng_below(r, 2);
    bool fits = *side + 2 * (size_t)pad >= (size_t)kernel && 2 * pad <= kernel;
    size_t after = fits ? (*side + 2 * (size_t)pad - (size_t)kernel) / (size_t)stride + 1 : 0;
    switch (rng_below(r, 6)) {
    case 0:
        net_conv(n, 1 + (int64_t)rng_below(r, 5), 3, stride, 1);
        *side = (*side - 1) / (size_t)stride + 1;
        break;
    case 1:
        net_batchnorm(n);
        break;
    case 2:
        net_layer(n, plain[rng_below(r, 4)]);
        break;
    case 3:
        if (!after)
            break;
        net_pool(n, rng_below(r, 2) ? "maxpool" : "avgpool", kernel, stride, pad);
        *side = after;
        break;
    case 4:
        net_dropout(n, 0.3);
        break;
    default:
        net_residual(n);
        net_batchnorm(n);
        net_layer(n, "relu");
        net_conv(n, 6, 3, stride, 1);
        net_end(n);
        net_conv(n, 1 + (int64_t)rng_below(r, 5), 1, 1, 0); /* so that the next residual can widen again */
        *side = (*side - 1) / (size_t)stride + 1;
    }
}

void net_random(struct network *n, struct rng *r, struct shape input, size_t classes, size_t n_layers)
{
    static const char *const losses[] = {"cross-entropy", "mse", "hinge", "logistic"};
    size_t side = input.h;
    assert_true(input.h == input.w && input.c <= 6);
    for (size_t i = 0; i < n_layers; i++)
        random_layer(n, r, &side);
    if (rng_below(r, 2))
        net_layer(n, "globalpool");
    net_linear(n, (int64_t)classes);
    net_layer(n, losses[rng_below(r, 4)]);
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
