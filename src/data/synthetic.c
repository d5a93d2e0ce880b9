/* synthetic.c - sets made from (settings, seed).
 *
 * Sample i has class i mod classes. What the classes look like comes from stream 0, the training samples from
 * stream 1, the test samples from stream 2, so that more samples of one never change the other. Values are
 * meant in [0, 1] and kept as bytes, cut off at both ends.
 */
#include "data/synthetic.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/rng.h"
#include "data/data.h"

enum { STREAM_CLASSES, STREAM_TRAIN, STREAM_TEST };

#define MOST_MADE 10000000

const struct field blobs_fields[5] = {
    INT_FIELD(struct blobs_settings, classes, "3", 2, 1000, "classes, one cloud of points each"),
    INT_FIELD(struct blobs_settings, features, "2", 1, MOST_CHANNELS, "numbers in one sample"),
    INT_FIELD(struct blobs_settings, samples, "600", 1, MOST_MADE, "training samples"),
    INT_FIELD(struct blobs_settings, test_samples, "300", 1, MOST_MADE, "test samples"),
    REAL_FIELD(struct blobs_settings, spread, "0.05", 0, 1,
               "standard deviation of a cloud; the centres lie in [0.2, 0.8]"),
};
const struct field spirals_fields[5] = {
    INT_FIELD(struct spirals_settings, classes, "2", 2, 100, "classes, one arm each"),
    INT_FIELD(struct spirals_settings, samples, "1000", 1, MOST_MADE, "training samples"),
    INT_FIELD(struct spirals_settings, test_samples, "500", 1, MOST_MADE, "test samples"),
    REAL_FIELD(struct spirals_settings, noise, "0.01", 0, 1,
               "standard deviation around the arm; the spiral has radius 0.45"),
    REAL_FIELD(struct spirals_settings, turns, "1", 0, 10, "turns of an arm"),
};
const struct field images_fields[6] = {
    INT_FIELD(struct images_settings, classes, "10", 2, 1000, "classes, one pattern each"),
    INT_FIELD(struct images_settings, channels, "1", 1, MOST_CHANNELS, "channels of a picture"),
    INT_FIELD(struct images_settings, size, "8", 1, 256, "rows and columns of a picture"),
    INT_FIELD(struct images_settings, samples, "1000", 1, MOST_MADE, "training samples"),
    INT_FIELD(struct images_settings, test_samples, "500", 1, MOST_MADE, "test samples"),
    REAL_FIELD(struct images_settings, noise, "0.2", 0, 1, "standard deviation of the noise; the patterns have 0.18"),
};

static uint8_t to_byte(double x)
{
    double v = floor(x * 255 + 0.5);
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Samples of the given class means plus noise: what blobs and images have in common. */
static void fill_around(struct intake *p, const double *means, size_t classes, double noise, struct rng r)
{
    size_t one = p->c * p->h * p->w;
    for (size_t i = 0; i < p->n; i++) {
        p->labels[i] = (uint16_t)(i % classes);
        for (size_t j = 0; j < one; j++)
            p->pixels[i * one + j] = to_byte(means[i % classes * one + j] + noise * rng_normal(&r));
    }
}

static fault grow_both(const char *name, int64_t n_train, int64_t n_test, size_t c, size_t side,
                       struct intake *train, struct intake *test)
{
    TRY(intake_grow(train, name, (size_t)n_train, c, side, side));
    return intake_grow(test, name, (size_t)n_test, c, side, side);
}

static struct rng stream(uint64_t seed, uint64_t index)
{
    return rng_stream(seed, 0, RNG_SYNTHETIC, index);
}

fault blobs_make(const struct blobs_settings *s, uint64_t seed, struct intake *train, struct intake *test)
{
    size_t classes = (size_t)s->classes, n = classes * (size_t)s->features;
    TRY(grow_both("blobs", s->samples, s->test_samples, (size_t)s->features, 1, train, test));
    double *centres = malloc(n * sizeof *centres);
    if (!centres)
        return OUT_OF_MEMORY;
    struct rng r = stream(seed, STREAM_CLASSES);
    for (size_t i = 0; i < n; i++)
        centres[i] = 0.2 + 0.6 * rng_uniform(&r);
    fill_around(train, centres, classes, s->spread, stream(seed, STREAM_TRAIN));
    fill_around(test, centres, classes, s->spread, stream(seed, STREAM_TEST));
    free(centres);
    return OK;
}

static void fill_spiral(struct intake *p, const struct spirals_settings *s, struct rng r)
{
    const double full_turn = 6.283185307179586;
    for (size_t i = 0; i < p->n; i++) {
        size_t arm = i % (size_t)s->classes;
        double t = rng_uniform(&r), angle = full_turn * (s->turns * t + (double)arm / (double)s->classes);
        p->labels[i] = (uint16_t)arm;
        p->pixels[2 * i] = to_byte(0.5 + 0.45 * t * cos(angle) + s->noise * rng_normal(&r));
        p->pixels[2 * i + 1] = to_byte(0.5 + 0.45 * t * sin(angle) + s->noise * rng_normal(&r));
    }
}

fault spirals_make(const struct spirals_settings *s, uint64_t seed, struct intake *train, struct intake *test)
{
    TRY(grow_both("spirals", s->samples, s->test_samples, 2, 1, train, test));
    fill_spiral(train, s, stream(seed, STREAM_TRAIN));
    fill_spiral(test, s, stream(seed, STREAM_TEST));
    return OK;
}

/* A wave with a random direction, at most one and a half periods long: smooth, so that a shift by a pixel or
 * two does not hide the class. */
static void draw_wave(double *plane, size_t side, struct rng *r)
{
    const double full_turn = 6.283185307179586;
    double fy = 3 * rng_uniform(r) - 1.5, fx = 3 * rng_uniform(r) - 1.5, phase = rng_uniform(r);
    for (size_t y = 0; y < side; y++)
        for (size_t x = 0; x < side; x++) {
            double along = (fy * (double)y + fx * (double)x) / (double)side + phase;
            plane[y * side + x] += 0.18 * cos(full_turn * along);
        }
}

static void draw_patterns(double *patterns, size_t n_planes, size_t side, struct rng r)
{
    for (size_t i = 0; i < n_planes; i++) {
        double *plane = patterns + i * side * side;
        for (size_t j = 0; j < side * side; j++)
            plane[j] = 0.5;
        draw_wave(plane, side, &r);
        draw_wave(plane, side, &r);
    }
}

fault images_make(const struct images_settings *s, uint64_t seed, struct intake *train, struct intake *test)
{
    size_t classes = (size_t)s->classes, channels = (size_t)s->channels, side = (size_t)s->size;
    TRY(grow_both("images", s->samples, s->test_samples, channels, side, train, test));
    double *patterns = malloc(classes * channels * side * side * sizeof *patterns);
    if (!patterns)
        return OUT_OF_MEMORY;
    draw_patterns(patterns, classes * channels, side, stream(seed, STREAM_CLASSES));
    fill_around(train, patterns, classes, s->noise, stream(seed, STREAM_TRAIN));
    fill_around(test, patterns, classes, s->noise, stream(seed, STREAM_TEST));
    free(patterns);
    return OK;
}
