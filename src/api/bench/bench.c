/* bench.c - the kinds of bench, and `veche bench engine`: how many samples a second, and what share of the
 * machine's peak that is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/bench/bench.h"
#include "api/registry.h"
#include "base/plain.h"
#include "base/text.h"
#include "engine/bench.h"
#include "engine/peak.h"
#include "veche.h"

struct bench_settings {
    const char *model, *optim, *engine;
    int64_t batch, accumulate, replicas, threads, channels, size;
    int precision;
    double seconds;
};

static const char *const precisions[] = {"fp32", "bf16", NULL};


static const struct field engine_fields[] = {
    TEXT_FIELD(struct bench_settings, model, "resnet20", "the network"),
    INT_FIELD(struct bench_settings, batch, "32", 1, 65536, "samples a lesson"),
    INT_FIELD(struct bench_settings, accumulate, "1", 1, 65536, "micro-batches that a batch is cut into"),
    CHOICE_FIELD(struct bench_settings, precision, "fp32", precisions, "numbers the engine computes in"),
    INT_FIELD(struct bench_settings, threads, "0", 0, 1024, "0: one for each core"),
    INT_FIELD(struct bench_settings, replicas, "1", 1, 10000, "that learn side by side"),
    REAL_FIELD(struct bench_settings, seconds, "5", 0.01, 3600, "to measure"),
    TEXT_FIELD(struct bench_settings, engine, "auto", "the engine"),
    TEXT_FIELD(struct bench_settings, optim, "auto", "the optimiser; auto: sgd for resnets, else adam"),
    INT_FIELD(struct bench_settings, channels, "0", 0, MOST_CHANNELS, "of a sample; 0: 3 for resnets, else 1"),
    INT_FIELD(struct bench_settings, size, "0", 0, 256, "rows and columns of a sample; 0: 32 for resnets, else 28"),
};

enum { N_FIELDS = sizeof engine_fields / sizeof *engine_fields };

struct field_names {
    const struct field *fields;
    size_t n;
};

static const char *field_name(const void *ctx, size_t i)
{
    const struct field_names *names = ctx;
    return i < names->n ? names->fields[i].name : NULL;
}

/* One "key=value". */
static fault read_setting(const struct field_names *names, const char *text, struct arena *arena,
                          void *settings)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return FAIL(FAULT_USAGE, "command line: '%s' is not of the form key=value", text);
    char *key = arena_printf(arena, "%.*s", (int)(equals - text), text);
    if (!key)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < names->n; i++)
        if (text_is(key, names->fields[i].name)) {
            fault f = field_read(&names->fields[i], equals + 1, arena, settings);
            return f ? fault_before(f, "command line: %s: ", text) : OK;
        }
    const char *nearest = text_nearest(key, field_name, names);
    return FAIL(FAULT_USAGE, "command line: %s: unknown setting '%s'; did you mean '%s'?", text, key,
                nearest ? nearest : names->fields[0].name);
}

fault bench_settings(const struct field *fields, size_t n_fields, const char *const *texts, size_t n,
                     struct arena *arena, void *settings)
{
    struct field_names names = {fields, n_fields};
    TRY(field_defaults(fields, n_fields, arena, settings));
    for (size_t i = 0; i < n; i++)
        TRY(read_setting(&names, texts[i], arena, settings));
    return OK;
}

static fault read_settings(const char *const *texts, size_t n, struct arena *arena, struct bench_settings *s)
{
    TRY(bench_settings(engine_fields, N_FIELDS, texts, n, arena, s));
    bool resnet = text_starts(s->model, "resnet");
    if (!s->channels)
        s->channels = resnet ? 3 : 1;
    if (!s->size)
        s->size = resnet ? 32 : 28;
    if (text_is(s->optim, "auto"))
        s->optim =
            resnet ? "{kind: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.0001}" : "{kind: adam, lr: 0.001}";
    return OK;
}

/* The settings as an experiment, so that names are looked up and refused as everywhere else. */
static fault make_experiment(const struct bench_settings *s, struct experiment **out)
{
    char text[1024];
    struct registry registry = registry_of_everything();
    int n = snprintf(text, sizeof text,
                     "name: bench\ndata: {set: {kind: images, channels: %d, size: %d}, batch: %lld}\n"
                     "model: %s\noptim: %s\nengine: {kind: %s, precision: %s}\n"
                     "train: {epochs: 1, accumulate: %lld}\n",
                     (int)s->channels, (int)s->size, (long long)s->batch, s->model, s->optim, s->engine,
                     precisions[s->precision], (long long)s->accumulate);
    if (n < 0 || (size_t)n >= sizeof text)
        return FAIL(FAULT_USAGE, "command line: the settings are too long");
    return experiment_parse(text, (size_t)n, "command line", NULL, 0, &registry, out);
}

/* What a device moved, against what it can move, and which kernels took the time. */
static json_t *device_figures(const struct engine_bench *b)
{
    const struct engine_work *w = &b->work;
    double bytes_per_s = w->bytes / (b->round_ms / 1e3), all_ms = 0;
    json_t *kernels = json_array();
    for (size_t i = 0; i < w->n_kernels; i++)
        all_ms += w->kernels[i].ms;
    for (size_t i = 0; i < w->n_kernels; i++)
        json_array_append_new(kernels, json_pack("{s:s, s:I, s:f, s:f}", "name", w->kernels[i].name, "calls",
                                                 (json_int_t)w->kernels[i].calls, "ms", w->kernels[i].ms,
                                                 "share", w->kernels[i].ms / all_ms));
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "mbytes_per_step", w->bytes / 1e6, "gbytes_per_s",
                     bytes_per_s / 1e9, "peak_gbytes_per_s", w->peak_bytes_per_s / 1e9, "share_of_peak_bytes",
                     bytes_per_s / w->peak_bytes_per_s, "kernels", kernels);
}

static fault print(const struct bench_settings *s, const struct graph *g, const struct engine_bench *b,
                   double peak, char **json)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "engine",
        b->engine, "model", g->name, "batch", (json_int_t)s->batch, "accumulate", (json_int_t)s->accumulate,
        "replicas", (json_int_t)s->replicas, "threads", (json_int_t)s->threads, "precision",
        precisions[s->precision], "images_per_s", b->samples_per_s, "slowest_images_per_s", b->slowest_per_s,
        "fastest_images_per_s", b->fastest_per_s, "ms_per_step", b->round_ms, "update_ms", b->update_ms,
        "mflop_per_image", g->flops_learn / 1e6, "gflops", b->flops_per_s / 1e9, "peak_gflops", peak / 1e9,
        "share_of_peak", peak > 0 ? b->flops_per_s / peak : 0, "rounds", (json_int_t)b->rounds);
    if (object && b->on_device)
        json_object_set_new(object, "device", device_figures(b));
    return bench_print(object, json);
}

fault bench_print(json_t *object, char **json)
{
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
    char *line = NULL;
    json_decref(object);
    if (!text || asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    if (!line)
        return OUT_OF_MEMORY;
    *json = line;
    return OK;
}

static fault measure_peak(struct bench_settings *s, double *out)
{
    struct pool *pool;
    TRY(pool_open((int)s->threads, &pool));
    s->threads = pool_size(pool);
    *out = peak_flops(pool) *
           (s->precision == PRECISION_BF16 ? 2 : 1); /* a bf16 dot product is two multiply-adds */
    pool_close(pool);
    return OK;
}

static fault measure(struct bench_settings *s, const struct experiment *e, char **json)
{
    struct graph *graph;
    double peak;
    const struct engine_ops *ops;
    struct engine_bench figures;
    TRY(engine_choose(e->engine.kind.kind, &ops));
    TRY(measure_peak(s, &peak));
    struct shape shape = {(size_t)s->channels, (size_t)s->size, (size_t)s->size};
    TRY(graph_build(&e->model, shape, 10, &graph));
    struct engine_setup setup = {
        .graph = graph,
        .rows = rows_of(graph, &e->optim),
        .n_replicas = (size_t)s->replicas,
        .batch = (size_t)s->batch,
        .micro_batches = (size_t)s->accumulate,
        .precision = (enum precision)s->precision,
        .threads = (int)s->threads,
        .optim = &e->optim,
    };
    fault f = engine_bench(ops, &setup, s->seconds, &figures);
    if (!f && figures.on_device)
        peak = figures.work.peak_flops_per_s;
    if (!f)
        f = print(s, graph, &figures, peak, json);
    graph_free(graph);
    return f;
}

fault bench_engine(const char *const *settings, size_t n, char **json)
{
    struct arena arena = {0};
    struct bench_settings s = {0};
    struct experiment *e = NULL;
    fault f = read_settings(settings, n, &arena, &s);
    if (!f)
        f = make_experiment(&s, &e);
    if (!f)
        f = measure(&s, e, json);
    if (e)
        experiment_free(e);
    arena_release(&arena);
    return f;
}

veche_fault *veche_bench(const char *what, const char *const *settings, size_t n, char **json)
{
    PLAIN_NUMBERS;
    if (text_is(what, "engine"))
        return bench_engine(settings, n, json);
    if (text_is(what, "local") || text_is(what, "mix"))
        return bench_world(text_is(what, "mix"), settings, n, json);
    if (text_is(what, "allreduce"))
        return bench_allreduce(settings, n, json);
    return FAIL(FAULT_USAGE, "there is no bench '%s'; there are engine, local, mix and allreduce", what);
}
