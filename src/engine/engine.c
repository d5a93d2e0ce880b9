/* engine.c - the engines one may name, and opening one. The only place that asks what this build has. */
#include "engine/engine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/host.h"
#include "engine/mirror.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

#ifdef VECHE_HAS_DNNL
#define DNNL_ROW .row = &engine_dnnl
#else
#define DNNL_ROW .missing = "this veche was built without oneDNN"
#endif

#ifdef VECHE_HAS_CUDA
#define CUDA_ROW .row = &engine_cuda
#else
#define CUDA_ROW .missing = "this veche was built without CUDA; docs/gpu.md says how to build it with"
#endif

static const struct kind rows[] = {
    {.name = "auto", .help = "the first below that can be used"},
    {.name = "cuda", .help = "an NVIDIA GPU, all replicas at once", CUDA_ROW},
    {.name = "dnnl", .help = "oneDNN on the processor's cores", DNNL_ROW},
    {.name = "ref", .help = "naive loops: slow, the judge of the others", .row = &engine_ref},
    {.name = "null", .help = "computes nothing: to measure everything else", .row = &engine_null},
};

const struct kinds engine_kinds = {.rows = rows, .n = COUNT(rows)};

static bool is_auto(const struct kind *kind)
{
    return kind == &rows[0];
}

fault engine_usable(const struct kind *kind)
{
    const struct engine_ops *ops = kind->row;
    if (is_auto(kind))
        return OK;
    if (kind->missing)
        return FAIL(FAULT_ENGINE, "engine '%s' cannot be used: %s", kind->name, kind->missing);
    fault f = ops->usable ? ops->usable() : OK;
    return f ? fault_before(f, "engine '%s' cannot be used: ", kind->name) : OK;
}

fault engine_choose(const struct kind *kind, const struct engine_ops **out)
{
    bool any = is_auto(kind);
    fault f = any ? engine_usable(++kind) : engine_usable(kind);
    while (any && f) {
        fault_drop(f);
        f = engine_usable(++kind);
    }
    if (!f)
        *out = kind->row;
    return f;
}

static fault open_one(const struct engine_ops *ops, const struct engine_setup *setup, struct engine **out)
{
    bool is_far = setup->rows_on_host && !ops->floats;
    return is_far ? mirror_open(ops, setup, out) : ops->open(setup, out);
}

static bool has_nvidia_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library)
        dlclose(library);
    return library;
}

/* `ref` can always be opened, or its fault is the experiment's. What this build lacks is passed over in
 * silence unless the machine seems to have a GPU for it. */
static fault open_first(const struct engine_setup *setup, struct engine **out)
{
    char aside[sizeof(*out)->aside] = "";
    for (const struct kind *k = rows + 1;; k++) {
        const struct engine_ops *ops = k->row;
        if (k->missing && strcmp(k->name, "cuda") == 0 && has_nvidia_driver())
            snprintf(aside, sizeof aside, "%s", k->missing);
        if (k->missing)
            continue;
        fault f = open_one(ops, setup, out);
        if (!f)
            memcpy((*out)->aside, aside, sizeof aside);
        if (!f || !ops->usable || fault_kind_of(f) != FAULT_ENGINE)
            return f;
        snprintf(aside, sizeof aside, "%s", fault_text(f));
        fault_drop(f);
    }
}

fault engine_open(const struct kind *kind, const struct engine_setup *setup, struct engine **out)
{
    const struct engine_ops *ops;
    if (is_auto(kind))
        return open_first(setup, out);
    TRY(engine_choose(kind, &ops));
    return open_one(ops, setup, out);
}

void engine_describe(const struct engine *e, char *text, size_t n)
{
    e->ops->describe(e, text, n);
    size_t used = strlen(text);
    if (e->aside[0])
        snprintf(text + used, n - used, " (no GPU: %s)", e->aside);
}

void engine_processor(const struct engine *e, char *text, size_t n)
{
    if (e->ops->processor)
        e->ops->processor(text, n);
    else
        snprintf(text, n, "%s", isa_name(isa_of_processor()));
}

void engine_close(struct engine *e)
{
    if (e)
        e->ops->close(e);
}

static size_t floats_end(const struct graph *g, int param)
{
    return param >= 0 ? g->params[param].offset + g->params[param].size : 0;
}

size_t engine_dot_room(const struct engine *e)
{
    size_t longest = 0;
    for (enum row row = 0; !e->ops->floats && row < e->setup.rows.n; row++)
        longest = larger(longest, row_size(&e->setup, row));
    return 2 * longest;
}

fault engine_dot(struct engine *e, const struct dot *d, float *room, double *out)
{
    const float *row, *other;
    if (e->ops->floats) {
        row = e->ops->floats(e, d->row, d->replica);
        other = e->ops->floats(e, d->other, d->replica);
    } else {
        float *second = d->other == d->row ? room : room + engine_dot_room(e) / 2;
        TRY(e->ops->read(e, d->row, d->replica, room));
        if (second != room)
            TRY(e->ops->read(e, d->other, d->replica, second));
        row = room;
        other = second;
    }
    *out = host_dot(row + d->first, other + d->first + d->shift, d->end - d->first);
    return OK;
}

size_t op_floats_end(const struct graph *g, const struct op *op)
{
    size_t weight = floats_end(g, op->weight), bias = floats_end(g, op->bias);
    return weight > bias ? weight : bias;
}

void lessons_tell(const struct lesson *lessons, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lessons[i].ready)
            lessons[i].ready(lessons[i].ready_ctx, 0);
}

static fault check_samples(const struct samples *s, const struct graph *g, size_t most_channels)
{
    if (!s)
        return OK;
    if (s->kind != SAMPLES_PICTURES)
        return FAIL(FAULT_ENGINE, "samples of this kind are not known to any engine");
    if (s->c != g->input.c || s->h != g->input.h || s->w != g->input.w || s->classes != g->classes)
        return FAIL(
            FAULT_SHAPE,
            "samples of %zu x %zu x %zu in %zu classes do not fit a network for %zu x %zu x %zu in %zu", s->c,
            s->h, s->w, s->classes, g->input.c, g->input.h, g->input.w, g->classes);
    if (s->c > most_channels)
        return FAIL(FAULT_ENGINE, "samples of %zu channels: at most %zu can be normalised", s->c,
                    most_channels);
    return OK;
}

/* A part gives passes, never lessons, and has rows for what crosses. */
static fault check_passes(const struct engine_setup *s)
{
    const struct graph *g = s->graph;
    const size_t sizes[] = {g->input_size, g->output_size, g->output_grad_size, g->input_grad_size};
    if (s->micro_batches > s->batch)
        return FAIL(FAULT_USAGE, "a batch of %zu cannot be cut into %zu", s->batch, s->micro_batches);
    if (!s->flights && (g->n_sends || g->n_receives))
        return FAIL(FAULT_USAGE, "a part of a network needs room for a micro-batch under way");
    for (int i = 0; i < 4; i++)
        if (row_size(s, ROW_INPUTS + i) != s->flights * micro_most(s) * sizes[i])
            return FAIL(FAULT_USAGE, "a part of a network needs the rows of what crosses (rows_cross)");
    return OK;
}

fault engine_check_lessons(const struct engine *e)
{
    return e->setup.flights ? FAIL(FAULT_USAGE, "this engine was opened for passes and gives no lessons")
                            : OK;
}

fault engine_check_exams(const struct engine *e)
{
    return graph_is_whole(e->setup.graph) ? OK : FAIL(FAULT_USAGE, "a part of a network cannot be examined");
}

fault engine_check_passes(const struct engine *e, const struct pass *passes, size_t n)
{
    const struct engine_setup *s = &e->setup;
    if (!s->flights)
        return FAIL(FAULT_USAGE, "this engine was opened for lessons and gives no passes");
    for (size_t i = 0; i < n; i++) {
        const struct pass *p = &passes[i];
        bool apart = p->kind == PASS_INPUTS || p->kind == PASS_WEIGHTS;
        if (p->flight >= s->flights || p->micro >= micro_batches(s) || p->replica >= s->n_replicas)
            return FAIL(FAULT_USAGE, "there is no such replica, flight or micro-batch");
        if (p->kind != PASS_FORWARD && apart != s->splits)
            return FAIL(FAULT_USAGE, "this engine was opened to give %s",
                        s->splits ? "gradients of inputs and weights apart" : "backward in one pass");
    }
    return OK;
}

fault engine_check(const struct engine_setup *s, size_t most_channels)
{
    TRY(check_samples(s->train, s->graph, most_channels));
    TRY(check_samples(s->test, s->graph, most_channels));
    if (s->n_replicas == 0 || s->batch == 0)
        return FAIL(FAULT_USAGE, "an engine needs at least one replica and one sample in a batch");
    TRY(check_passes(s));
    if (row_size(s, ROW_PARAMS) != s->graph->size || row_size(s, ROW_GRADS) != s->graph->size ||
        row_size(s, ROW_STATS) != s->graph->stats_size)
        return FAIL(FAULT_USAGE, "an engine needs the rows of its network");
    return OK;
}
