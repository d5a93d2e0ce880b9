/* dataset.c - a loaded set, cut to the limits asked for, with its normalisation, in one block; or, where its samples stay on disk,
 * the labels in that block and the rest in a stream.
 *
 * A limit takes a random subset that follows from the seed, kept in the order of the files, so that a subset
 * is a small set of the same kind and the same for every agent.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/split.h"
#include "data/stream/stream.h"

enum { TRAIN, TEST };

/* Chooses `count` of n: each sample in turn is taken with the chance that the rest needs it. */
static void choose(struct rng r, size_t n, size_t count, uint32_t *chosen)
{
    size_t taken = 0;
    for (size_t i = 0; i < n && taken < count; i++)
        if (rng_below(&r, n - i) < count - taken)
            chosen[taken++] = (uint32_t)i;
}

static fault check_limit(const char *key, int64_t limit, size_t n, const char *what)
{
    if (limit >= 0 && (uint64_t)limit <= n)
        return OK;
    return FAIL(FAULT_DATA, "%s: %lld is not between 0 and the %zu %s samples of the set", key,
                (long long)limit, n, what);
}

static fault check_settings(const struct data_settings *s, const struct loaded *l)
{
    const struct intake *t = &l->train;
    TRY(check_limit("data.limit", s->limit, t->n, "training"));
    TRY(check_limit("data.test_limit", s->test_limit, l->test.n, "test"));
    if (t->c != l->test.c || t->h != l->test.h || t->w != l->test.w)
        return FAIL(FAULT_DATA,
                    "%s: training samples of %zu x %zu x %zu, but test samples of %zu x %zu x %zu",
                    s->set.kind->name, t->c, t->h, t->w, l->test.c, l->test.h, l->test.w);
    size_t smaller = t->h < t->w ? t->h : t->w;
    if (s->crop && (uint64_t)s->crop >= smaller)
        return FAIL(FAULT_DATA, "data.crop: a shift by %lld leaves nothing of samples of %zu x %zu",
                    (long long)s->crop, t->h, t->w);
    if (s->flip && t->w == 1)
        return FAIL(FAULT_DATA, "data.flip: samples of one column have no mirror image");
    if (s->mean.n && s->mean.n != t->c)
        return FAIL(FAULT_DATA, "data.mean: %zu numbers for %zu channels", s->mean.n, t->c);
    if (s->deviation.n && s->deviation.n != t->c)
        return FAIL(FAULT_DATA, "data.deviation: %zu numbers for %zu channels", s->deviation.n, t->c);
    for (size_t c = 0; c < s->deviation.n; c++)
        if (!(s->deviation.at[c] > 0))
            return FAIL(FAULT_DATA, "data.deviation: %g is not above 0", s->deviation.at[c]);
    return OK;
}

static void mean_of(const struct sums *of, size_t n_bytes, float *mean, float *deviation)
{
    double count = (double)n_bytes, m = (double)of->sum / count,
           variance = (double)of->squares / count - m * m;
    *mean = (float)(m / 255);
    *deviation =
        variance > 1e-9 ? (float)(sqrt(variance) / 255) : 1; /* a channel that never varies stays at 0 */
}

static void normalise(const struct data_settings *settings, const struct set_row *row, const struct intake *p,
                      struct samples *s)
{
    struct sums sums[MOST_CHANNELS] = {0};
    if (p->on_disk)
        memcpy(sums, p->sums, sizeof sums);
    else if (!row->mean)
        intake_measure(p, p->pixels, p->n, sums);
    for (size_t c = 0; c < s->c; c++) {
        if (row->mean) {
            s->mean[c] = row->mean[c];
            s->deviation[c] = row->deviation[c];
        } else {
            mean_of(&sums[c], p->n * p->h * p->w, &s->mean[c], &s->deviation[c]);
        }
        if (settings->mean.n)
            s->mean[c] = (float)settings->mean.at[c];
        if (settings->deviation.n)
            s->deviation[c] = (float)settings->deviation.at[c];
    }
}

static size_t kept(int64_t limit, const struct intake *p)
{
    return limit ? (size_t)limit : p->n;
}

static struct samples samples_of(const struct intake *p, size_t classes)
{
    return (struct samples){.n = p->n,
                            .c = p->c,
                            .h = p->h,
                            .w = p->w,
                            .classes = classes,
                            .pixels = p->pixels,
                            .labels = p->labels};
}

static size_t pixel_room(const struct samples *s, size_t n)
{
    return s->pixels ? round_up(n * samples_one(s), 64) : 0;
}

static size_t room(const struct samples *s, size_t n)
{
    return pixel_room(s, n) + round_up(n * sizeof *s->labels, 64);
}

/* Copies the n chosen samples (NULL: all), of those on disk the labels, to the memory at `at`; returns what comes after, aligned. */
static uint8_t *copy_samples(const struct samples *from, const uint32_t *chosen, size_t n, uint8_t *at,
                             struct samples *out)
{
    size_t one = samples_one(from);
    uint8_t *pixels = from->pixels ? at : NULL;
    uint16_t *labels = (uint16_t *)(void *)(at + pixel_room(from, n));
    for (size_t i = 0; i < n; i++) {
        size_t k = chosen ? chosen[i] : i;
        if (pixels)
            memcpy(pixels + i * one, from->pixels + k * one, one);
        labels[i] = from->labels[k];
    }
    struct samples copy = *from;
    copy.n = n;
    copy.pixels = pixels;
    copy.labels = labels;
    *out = copy;
    return at + room(from, n);
}

/* What is on disk becomes a stream's; `at` is where on disk the chosen samples of either are. */
static fault open_stream(const struct data_settings *settings, struct loaded *l, uint32_t *at[2],
                         struct dataset *d)
{
    struct on_disk from[2] = {{l->train.extents, at[TRAIN]}, {l->test.extents, at[TEST]}};
    l->train.extents = l->test.extents = (struct extents){0};
    at[TRAIN] = at[TEST] = NULL;
    TRY(stream_open(dataset_window_mb(settings), (size_t)settings->batch, from, &d->stream));
    d->train.stream = d->test.stream = d->stream;
    d->test.is_test = true;
    return OK;
}

static fault fill(const struct data_settings *settings, uint64_t seed, struct loaded *l, uint32_t *chosen[2],
                  struct dataset *d)
{
    size_t n = kept(settings->limit, &l->train), n_test = kept(settings->test_limit, &l->test);
    struct samples train = samples_of(&l->train, l->classes), test = samples_of(&l->test, l->classes);
    TRY(block_open(room(&train, n) + room(&test, n_test), &d->memory));
    choose(rng_stream(seed, 0, RNG_LIMIT, TRAIN), train.n, n, chosen[TRAIN]);
    uint8_t *at = copy_samples(&train, chosen[TRAIN], n, d->memory.bytes, &d->train);
    choose(rng_stream(seed, 0, RNG_LIMIT, TEST), test.n, n_test, chosen[TEST]);
    copy_samples(&test, chosen[TEST], n_test, at, &d->test);
    normalise(settings, settings->set.kind->row, &l->train, &d->train);
    memcpy(d->test.mean, d->train.mean, sizeof d->test.mean);
    memcpy(d->test.deviation, d->train.deviation, sizeof d->test.deviation);
    return settings->stream ? open_stream(settings, l, chosen, d) : OK;
}

static fault build(const struct data_settings *settings, uint64_t seed, struct loaded *l,
                   struct dataset **out)
{
    TRY(check_settings(settings, l));
    uint32_t *chosen[2] = {malloc((l->train.n + 1) * sizeof(uint32_t)),
                           malloc((l->test.n + 1) * sizeof(uint32_t))};
    struct dataset *d = calloc(1, sizeof *d);
    fault f = chosen[TRAIN] && chosen[TEST] && d ? fill(settings, seed, l, chosen, d) : OUT_OF_MEMORY;
    free(chosen[TRAIN]);
    free(chosen[TEST]);
    if (f)
        dataset_close(d);
    else
        *out = d;
    return f;
}

#define USUAL_WINDOW_MB 64.0

double dataset_window_mb(const struct data_settings *settings)
{
    return settings->window_mb > 0 ? settings->window_mb : USUAL_WINDOW_MB;
}

fault dataset_check(const struct data_settings *settings)
{
    const struct choice *set = &settings->set;
    const struct set_row *row = set->kind->row;
    if (settings->stream && !row->read_share)
        return fail_at(
            set->place,
            "data.stream: '%s' is made up and lies in memory; only sets that lie in files can be streamed",
            set->kind->name);
    if (!settings->stream && settings->window_mb > 0)
        return fail_at(set->place, "data.window_mb: samples are read through a window only with data.stream: "
                                   "true (0 is as if it were not "
                                   "written)");
    return OK;
}

fault dataset_check_window(const struct data_settings *settings, const struct sample_shape *shape)
{
    size_t one = shape->c * shape->h * shape->w;
    return settings->stream ? stream_check(dataset_window_mb(settings), (size_t)settings->batch, one) : OK;
}

void dataset_set_patience(struct dataset *d, double seconds)
{
    if (d->stream)
        stream_set_patience(d->stream, seconds);
}

void dataset_describe(const struct dataset *d, char *text, size_t n)
{
    *text = 0;
    if (!d->stream)
        return;
    struct stream_counts c = stream_counts(d->stream);
    snprintf(text, n, "samples: %.1f MB on disk, at most %.1f MB of them in memory", (double)c.on_disk / 1e6,
             (double)c.n_bytes / 1e6);
}

fault dataset_open_for(const struct data_settings *settings, uint64_t seed, int64_t only_agent,
                       struct dataset **out)
{
    const struct set_row *row = settings->set.kind->row;
    struct loaded l = {.train = {.on_disk = settings->stream, .is_measured = settings->stream && !row->mean},
                       .test = {.on_disk = settings->stream}};
    size_t *file_first = NULL;
    struct dataset *d = NULL;
    TRY(dataset_check(settings));
    fault f = split_is_files(settings) ? split_load_files(settings, only_agent, &l, &file_first)
                                       : row->load(row, &settings->set, seed, &l);
    if (!f)
        f = build(settings, seed, &l, &d);
    intake_close(&l.train);
    intake_close(&l.test);
    if (f) {
        free(file_first);
        return f;
    }
    d->train.file_first = d->file_first = file_first;
    *out = d;
    return OK;
}

fault dataset_open(const struct data_settings *settings, uint64_t seed, struct dataset **out)
{
    return dataset_open_for(settings, seed, -1, out);
}

static void renumber(struct split *s, size_t agent, size_t n_share)
{
    for (size_t i = 0; i < s->first[s->n_agents]; i++)
        s->samples[i] = 0;
    for (size_t i = 0; i < n_share; i++)
        s->samples[s->first[agent] + i] = (uint32_t)i;
}

fault dataset_keep(struct dataset *d, struct split *s, size_t agent)
{
    bool learns = agent < s->n_agents;
    size_t n = learns ? s->first[agent + 1] - s->first[agent] : 0;
    const uint32_t *share = learns ? s->samples + s->first[agent] : NULL;
    struct block memory;
    TRY(block_open(room(&d->train, n) + room(&d->test, d->test.n), &memory));
    fault f = d->stream ? stream_keep(d->stream, share, n) : OK;
    if (f) {
        block_close(&memory);
        return f;
    }
    uint8_t *at = copy_samples(&d->train, share, n, memory.bytes, &d->train);
    copy_samples(&d->test, NULL, d->test.n, at, &d->test);
    block_close(&d->memory);
    d->memory = memory;
    for (size_t i = 0; d->file_first && i <= s->n_agents; i++)
        d->file_first[i] = i > agent ? n : 0;
    renumber(s, agent, n);
    return OK;
}

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    stream_close(d->stream);
    block_close(&d->memory);
    free(d->file_first);
    free(d);
}
