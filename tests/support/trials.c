/* trials.c - see trials.h. */
#include "support/trials.h"

#include <stdio.h>

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* The smallest and the largest number, nothing between them, and no normalisation. */
static void make_black_and_white(struct samples *s)
{
    uint8_t *pixels = (uint8_t *)s->pixels;
    for (size_t i = 0; i < s->n * s->c * s->h * s->w; i++)
        pixels[i] = pixels[i] < 128 ? 0 : 255;
    for (size_t c = 0; c < s->c; c++) {
        s->mean[c] = 0;
        s->deviation[c] = 1;
    }
}

/* Puts the network to the trial, and is done with it. */
static void put(struct trial *t, struct network *n, struct shape input, size_t classes,
                void (*check)(const struct trial *))
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(t->seed, input, classes, 50, 90);
    if (t->exact) {
        make_black_and_white(&d->train);
        make_black_and_white(&d->test);
    }
    t->g = g;
    t->data = d;
    check(t);
    random_dataset_free(d);
    graph_free(g);
    net_release(n);
}

void each_convolution(void (*check)(const struct trial *))
{
    static const size_t shapes[][7] = {
        /* in, out, kernel, stride, pad, side, batch */
        {1, 1, 1, 1, 0, 1, 1},    {3, 5, 3, 1, 1, 7, 3},    {16, 16, 3, 1, 1, 9, 5},
        {16, 32, 3, 2, 1, 8, 4},  {32, 32, 3, 1, 1, 13, 9}, {17, 33, 3, 1, 1, 5, 2},
        {33, 17, 3, 2, 1, 11, 3}, {64, 64, 3, 1, 1, 8, 8},  {70, 3, 5, 1, 2, 6, 2},
        {5, 70, 5, 2, 2, 9, 2},   {8, 24, 7, 1, 3, 10, 2},  {24, 8, 7, 3, 3, 15, 3},
        {32, 64, 3, 1, 0, 14, 6}, {16, 48, 3, 1, 2, 6, 3},  {48, 16, 1, 1, 0, 6, 7},
        {16, 16, 1, 2, 0, 7, 2},  {31, 31, 3, 3, 0, 10, 1}, {16, 16, 3, 1, 1, 1, 2},
        {4, 6, 3, 1, 0, 3, 4},    {20, 20, 5, 1, 0, 5, 3},  {48, 48, 3, 1, 1, 4, 11},
        {16, 32, 3, 1, 1, 20, 2}, {2, 9, 3, 2, 0, 12, 13},  {12, 40, 4, 2, 1, 10, 3},
        {68, 16, 3, 1, 1, 29, 2}, {4, 100, 3, 1, 1, 6, 3},  {64, 32, 3, 1, 1, 16, 2},
        {28, 68, 3, 1, 1, 5, 5},  {20, 64, 3, 1, 1, 15, 3}, {4, 4, 3, 1, 1, 32, 1},
        {16, 16, 3, 1, 1, 30, 2}, {36, 100, 3, 1, 1, 7, 2}, {100, 12, 3, 2, 1, 9, 2},
        {7, 16, 3, 1, 1, 12, 3},  {3, 40, 3, 1, 1, 16, 2},  {6, 10, 3, 2, 1, 6, 3},
        {48, 20, 3, 2, 1, 10, 2},
    };
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const size_t *s = shapes[i];
        struct network n = {0};
        struct trial t = {.batch = s[6], .i = i, .seed = s[0] * 1000 + s[1]};
        snprintf(t.what, sizeof t.what,
                 "conv %zu -> %zu, kernel %zu, stride %zu, pad %zu, side %zu, batch %zu", s[0], s[1], s[2],
                 s[3], s[4], s[5], s[6]);
        net_conv(&n, (int64_t)s[0], 1, 1, 0)->bias = true; /* so that the next one's input wants a gradient */
        net_layer(&n, "tanh");
        net_conv(&n, (int64_t)s[1], (int64_t)s[2], (int64_t)s[3], (int64_t)s[4])->bias = (s[0] + s[1]) % 2;
        net_layer(&n, "sigmoid");
        net_layer(&n, "globalpool");
        net_linear(&n, 3);
        put(&t, &n, (struct shape){2, s[5], s[5]}, 3, check);
    }
}

void each_convolution_of_groups(void (*check)(const struct trial *))
{
    static const size_t shapes[][8] = {
        /* in, out, groups, kernel, stride, pad, side, batch */
        {16, 16, 16, 3, 1, 1, 7, 5}, {24, 24, 24, 3, 2, 1, 8, 3}, {3, 6, 3, 3, 1, 1, 6, 2},
        {32, 32, 2, 3, 1, 1, 6, 4},  {64, 32, 8, 3, 1, 1, 5, 3},  {16, 64, 4, 1, 1, 0, 6, 2},
        {6, 4, 2, 5, 1, 2, 7, 9},    {48, 96, 3, 3, 2, 1, 9, 2},  {12, 36, 12, 3, 1, 0, 5, 6},
        {40, 40, 40, 5, 1, 2, 9, 8}, {96, 96, 24, 1, 2, 0, 7, 2},
    };
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const size_t *s = shapes[i];
        struct network n = {0};
        struct trial t = {.batch = s[7], .i = i, .seed = s[0] * 1000 + s[1] + s[2]};
        snprintf(t.what, sizeof t.what,
                 "conv %zu -> %zu, groups %zu, kernel %zu, stride %zu, pad %zu, side %zu, batch %zu", s[0],
                 s[1], s[2], s[3], s[4], s[5], s[6], s[7]);
        net_conv(&n, (int64_t)s[0], 1, 1, 0); /* so that the next one's input wants a gradient */
        net_layer(&n, "tanh");
        struct conv_layer *c = net_conv(&n, (int64_t)s[1], (int64_t)s[3], (int64_t)s[4], (int64_t)s[5]);
        c->groups = (int64_t)s[2];
        c->bias = i % 2;
        net_layer(&n, "sigmoid");
        net_layer(&n, "globalpool");
        net_linear(&n, 3);
        put(&t, &n, (struct shape){2, s[6], s[6]}, 3, check);
    }
}

/* Branches of a stem are joined to it, to the samples and to its mean; the stem is added as well. */
static void branches(struct network *n, const int64_t *channels)
{
    static const char *const parts[] = {"one", "two", "stem"}, *const vectors[] = {"few", "same", "mean"},
                             *const stem[] = {"stem"}, *const input[] = {"input"};
    net_conv(n, channels[0], 3, 1, 1);
    net_layer(n, "tanh");
    net_name(n, "stem");
    net_conv(n, channels[1], 1, 1, 0);
    net_name(n, "one");
    net_conv(n, channels[2], 3, 1, 1);
    net_name(n, "two");
    net_from(n, "stem");
    net_join(n, "concat", parts, 3);
    net_layer(n, "sigmoid");
    net_join(n, "concat", input, 1);
    net_conv(n, channels[0], 3, 1, 1);
    net_join(n, "add", stem, 1);
    net_layer(n, "globalpool");
    net_name(n, "mean");
    net_linear(n, 6);
    net_layer(n, "tanh");
    net_name(n, "few");
    net_layer(n, "flatten"); /* the same tensor by another name */
    net_name(n, "same");
    net_join(n, "concat", vectors, 3);
}

/* A sum whose batchnorms stand far from it, with other readers of all that they read in between. */
static void crossings(struct network *n, const int64_t *channels)
{
    static const char *const norms[] = {"a", "b"}, *const far[] = {"far"};
    net_conv(n, channels[0], 3, 1, 1);
    net_layer(n, "tanh");
    net_name(n, "stem");
    net_conv(n, channels[1], 3, 1, 1);
    net_batchnorm(n);
    net_name(n, "a");
    net_conv(n, channels[1], 1, 1, 0);
    net_from(n, "stem");
    net_batchnorm(n);
    net_name(n, "b");
    net_conv(n, channels[2], 3, 1, 1);
    net_from(n, "stem");
    net_name(n, "far");
    net_join(n, "add", norms, 2);
    net_layer(n, "relu");
    net_name(n, "sum");
    net_join(n, "concat", far, 1);
    net_conv(n, channels[1], 3, 1, 1);
    net_join(n, "add", (const char *const[]){"sum"}, 1);
    net_layer(n, "globalpool");
}

/* A vector is joined to itself, by another name or as the body of a residual, and read again behind that. The relu bends
 * nothing: what is above zero stays there. */
static void doubles(struct network *n, const int64_t *channels, bool has_relu)
{
    static const char *const both[] = {"stem", "same"}, *const ends[] = {"sum", "twice", "pair", "late"};
    net_linear(n, channels[0]);
    net_layer(n, has_relu ? "sigmoid" : "tanh");
    net_name(n, "stem");
    net_residual(n);
    net_layer(n, "flatten");
    net_end(n);
    net_layer(n, has_relu ? "relu" : "tanh");
    net_name(n, "sum");
    net_layer(n, "flatten");
    net_from(n, "stem");
    net_name(n, "same");
    net_join(n, "add", both, 2);
    net_name(n, "twice");
    net_join(n, "concat", both, 2);
    net_linear(n, channels[1]);
    net_layer(n, "tanh");
    net_name(n, "pair");
    net_linear(n, channels[2]);
    net_from(n, "stem");
    net_name(n, "late");
    net_join(n, "concat", ends, 4);
}

void each_join(void (*check)(const struct trial *))
{
    static const int64_t shapes[][5] = {/* three channels, side, batch */ {3, 5, 7, 6, 3},
                                        {16, 16, 32, 7, 5},
                                        {17, 33, 15, 5, 4},
                                        {2, 1, 1, 4, 9}};
    static const char *const kinds[] = {"branches", "crossings", "doubles"};
    for (size_t i = 0; i < 4 * COUNT(shapes); i++) {
        const int64_t *s = shapes[i % (2 * COUNT(shapes)) / 2];
        size_t kind = i < 2 * COUNT(shapes) ? i % 2 : 2;
        struct network n = {0};
        struct trial t = {.batch = (size_t)s[4], .i = i, .seed = 300 + i, .bends = kind == 1};
        snprintf(t.what, sizeof t.what, "%s of %d, %d and %d channels", kinds[kind], (int)s[0], (int)s[1],
                 (int)s[2]);
        if (kind == 2)
            doubles(&n, s, i % 2);
        else
            (kind ? crossings : branches)(&n, s);
        net_linear(&n, 4);
        put(&t, &n, (struct shape){3, (size_t)s[3], (size_t)s[3]}, 4, check);
    }
}

void each_pool(void (*check)(const struct trial *))
{
    static const int64_t shapes[][6] = {/* channels, kernel, stride, pad, side, batch */
                                        {5, 2, 2, 0, 8, 3},  {16, 2, 2, 0, 7, 2}, {20, 3, 2, 1, 9, 4},
                                        {33, 3, 1, 1, 6, 1}, {8, 3, 3, 0, 9, 5},  {16, 5, 2, 2, 11, 2},
                                        {3, 4, 4, 0, 4, 7},  {17, 2, 1, 0, 5, 3}};
    static const char *const ways[] = {"maxpool", "avgpool", "maxpool"};
    for (size_t i = 0; i < 3 * COUNT(shapes); i++) {
        const int64_t *s = shapes[i / 3];
        const char *kind = ways[i % 3];
        struct network n = {0};
        struct trial t = {.batch = (size_t)s[5], .i = i, .bends = i % 3 != 1, .exact = i % 3 == 2};
        t.seed = 50 + 2 * (i / 3) + (i % 3 == 1);
        snprintf(t.what, sizeof t.what, "%s of %d channels, kernel %d, stride %d, pad %d, side %d%s", kind,
                 (int)s[0], (int)s[1], (int)s[2], (int)s[3], (int)s[4], t.exact ? ", exactly" : "");
        net_conv(&n, s[0], 3, 1, 1)->bias = !t.exact;
        net_pool(&n, kind, s[1], s[2], s[3]);
        if (!t.exact)
            net_layer(&n, "tanh");
        net_linear(&n, 4);
        put(&t, &n, (struct shape){3, (size_t)s[4], (size_t)s[4]}, 4, check);
    }
}

void each_pool_of_the_input(void (*check)(const struct trial *))
{
    for (size_t i = 0; i < 2; i++) {
        struct network n = {0};
        struct trial t = {.batch = 5, .i = i, .seed = 9, .bends = i == 1, .what = "a pool first"};
        net_pool(&n, i ? "maxpool" : "avgpool", 2, 2, 0);
        net_batchnorm(&n);
        net_conv(&n, 6, 3, 1, 1);
        net_linear(&n, 3);
        put(&t, &n, (struct shape){3, 10, 10}, 3, check);
    }
}

void each_linear(void (*check)(const struct trial *))
{
    static const size_t sizes[][3] = {/* features, hidden, batch */ {1, 1, 1},
                                      {7, 5, 3},
                                      {16, 260, 4},
                                      {11, 600, 33},
                                      {13, 260, 5},
                                      {12, 70, 70}};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        const size_t *s = sizes[i / 2];
        struct network n = {0};
        struct trial t = {.batch = s[2], .i = i, .seed = 80 + i / 2};
        struct shape vector = {s[0], 1, 1}, picture = {s[0] % 5 + 1, 7, 9};
        snprintf(t.what, sizeof t.what, "linear layers of %zu and %zu%s", s[0], s[1],
                 i % 2 ? " over pixels" : "");
        net_linear(&n, (int64_t)s[1])->bias = i / 2 % 2;
        net_layer(&n, "tanh");
        net_dropout(&n, 0.3);
        if (s[2] > 20)
            net_batchnorm(&n);
        net_linear(&n, 4);
        net_layer(&n, "mse");
        put(&t, &n, i % 2 ? picture : vector, 4, check);
    }
}

void each_residual(void (*check)(const struct trial *))
{
    static const size_t channels[] = {6, 9, 16};
    for (size_t i = 0; i < 4 * COUNT(channels); i++) {
        size_t c = channels[i / 4], grows = 1 + i / 2 % 2;
        struct network n = {0};
        struct trial t = {.batch = 20, .i = i, .seed = 140 + i / 2, .bends = i % 2};
        snprintf(t.what, sizeof t.what, "a residual from %zu to %zu channels%s", c, grows * c,
                 t.bends ? ", relu" : "");
        net_residual(&n);
        net_conv(&n, (int64_t)(grows * c), 3, (int64_t)grows, 1);
        net_end(&n);
        net_layer(&n, t.bends ? "relu" : "tanh");
        net_layer(&n, "globalpool");
        net_linear(&n, 5);
        put(&t, &n, (struct shape){c, 8, 8}, 5, check);
    }
}

void each_chain_of_residuals(void (*check)(const struct trial *))
{
    static const int64_t channels[] = {6, 16, 24};
    for (size_t i = 0; i < COUNT(channels); i++) {
        int64_t c = channels[i];
        struct network n = {0};
        struct trial t = {.batch = 6, .i = i, .seed = 100 + i, .bends = true};
        snprintf(t.what, sizeof t.what, "residuals of %d channels", (int)c);
        net_conv(&n, c, 3, 1, 1);
        net_batchnorm(&n);
        net_layer(&n, "relu");
        net_residual(&n);
        net_conv(&n, 2 * c, 3, 2, 1);
        net_batchnorm(&n);
        net_layer(&n, "relu");
        net_conv(&n, 2 * c, 3, 1, 1);
        net_batchnorm(&n);
        net_end(&n);
        net_layer(&n, "relu");
        net_residual(&n);
        net_conv(&n, 2 * c, 3, 1, 1);
        net_end(&n);
        net_residual(&n);
        net_batchnorm(&n);
        net_end(&n);
        net_dropout(&n, 0.2);
        net_layer(&n, "globalpool");
        net_linear(&n, 5);
        put(&t, &n, (struct shape){3, 8, 8}, 5, check);
    }
}

void each_random_network(void (*check)(const struct trial *))
{
    for (uint64_t i = 0; i < 40; i++) {
        struct rng r = rng_stream(i, 0, RNG_TEST, 1);
        struct network n = {0};
        struct shape input = {1 + rng_below(&r, 5), 6, 6};
        input.h = input.w = 5 + rng_below(&r, 8);
        size_t classes = 2 + rng_below(&r, 20);
        struct trial t = {.batch = 2 + rng_below(&r, 19), .i = i, .seed = i, .bends = true};
        snprintf(t.what, sizeof t.what, "random network %d", (int)i);
        net_random(&n, &r, input, classes, 2 + rng_below(&r, 7));
        put(&t, &n, input, classes, check);
    }
}
