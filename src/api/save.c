/* save.c - the state of a run as named tensors and a few numbers, and back.
 *
 * A checkpoint holds, for every agent: parameters, running statistics, the optimiser's slots; and the
 * counters from which all else follows (random streams are made anew from seed and round, so they need no
 * saving).
 */
#include "api/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 32 };

#define FORMAT "veche checkpoint 1"

/* The tensors of one agent, laid out one after the other in `floats`; returns how many. `head` goes before
 * names. */
static size_t name_tensors(struct veche_run *r, const char *head, bool whole, float *floats,
                           struct named_floats *out)
{
    const struct graph *g = r->graph;
    const struct optim_row *optim = optim_row(&r->experiment->optim);
    size_t n = 0;
    for (size_t part = 0; part < 2 + (whole ? optim->n_slots : 0); part++) {
        bool stats = part == 1;
        const struct param *params = stats ? g->stats : g->params;
        for (size_t i = 0; i < (stats ? g->n_stats : g->n_params); i++, n++) {
            const char *slot = part < 2 ? "" : optim->slot_names[part - 2];
            out[n].name = arena_printf(&r->arena, "%s%s%s%s%s", head, part < 2 ? "" : "optimizer.", slot,
                                       part < 2 ? "" : ".", params[i].name);
            out[n].n_dims = params[i].n_dims;
            memcpy(out[n].dims, params[i].dims, sizeof out[n].dims);
            out[n].floats = floats + params[i].offset;
        }
        floats += stats ? g->stats_size : g->size;
    }
    return n;
}

static size_t tensors_per_agent(const struct veche_run *r)
{
    return r->graph->n_params * (1 + optim_row(&r->experiment->optim)->n_slots) + r->graph->n_stats;
}

static size_t floats_per_agent(const struct veche_run *r)
{
    return r->graph->size * (1 + optim_row(&r->experiment->optim)->n_slots) + r->graph->stats_size;
}

typedef fault move_row(struct engine *e, enum row row, size_t replica, float *floats);

static fault write_row(struct engine *e, enum row row, size_t replica, float *floats)
{
    return e->ops->write(e, row, replica, floats);
}

static fault read_row(struct engine *e, enum row row, size_t replica, float *floats)
{
    return e->ops->read(e, row, replica, floats);
}

/* Moves all rows of an agent between the engine and its stretch of the image. */
static fault move_rows(struct veche_run *r, size_t agent, move_row *move)
{
    static const enum row order[] = {ROW_PARAMS, ROW_STATS, ROW_SLOT0, ROW_SLOT1};
    float *floats = (float *)r->image.bytes + agent * floats_per_agent(r);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        size_t n = row_size(&r->engine->setup, order[i]);
        if (n)
            TRY(move(r->engine, order[i], agent, floats));
        floats += n;
    }
    return OK;
}

static fault make_image(struct veche_run *r)
{
    return r->image.bytes ? OK : block_open(r->n_agents * floats_per_agent(r) * sizeof(float), &r->image);
}

/* All tensors of the run, in an array of the arena. */
static fault name_all(struct veche_run *r, struct named_floats **out, size_t *n)
{
    arena_release(&r->arena);
    struct named_floats *tensors =
        ARENA_NEW(&r->arena, struct named_floats, r->n_agents * tensors_per_agent(r));
    if (!tensors)
        return OUT_OF_MEMORY;
    *n = 0;
    for (size_t i = 0; i < r->n_agents; i++) {
        char head[NUMBER];
        snprintf(head, sizeof head, "agent%zu.", i);
        *n += name_tensors(r, head, true, (float *)r->image.bytes + i * floats_per_agent(r), tensors + *n);
    }
    for (size_t i = 0; i < *n; i++)
        if (!tensors[i].name)
            return OUT_OF_MEMORY;
    *out = tensors;
    return OK;
}

/* The numbers of a checkpoint: one list serves writing and reading. */
struct number {
    const char *key;
    uint64_t *whole; /* one of the two */
    double *real;
};

enum { MOST_NUMBERS = 16 };

static size_t list_numbers(struct veche_run *r, struct number *n)
{
    struct agent *a = &r->agents[0];
    struct score *s = &r->scores[0];
    const struct number all[] = {
        {"round", &a->k, NULL},
        {"samples", &r->samples, NULL},
        {"evaluated", &r->evaluated, NULL},
        {"lr", NULL, &a->lr},
        {"tally.loss", NULL, &a->tally.loss},
        {"tally.hits", &a->tally.hits, NULL},
        {"tally.samples", &a->tally.samples, NULL},
        {"tally.lessons", &a->tally.lessons, NULL},
        {"real_s", NULL, &r->earlier_s},
        {"best_accuracy", NULL, &r->best_accuracy},
        {"score.train_loss", NULL, &s->train_loss},
        {"score.train_accuracy", NULL, &s->train_accuracy},
        {"score.loss", NULL, &s->loss},
        {"score.accuracy", NULL, &s->accuracy},
    };
    _Static_assert(sizeof all / sizeof *all <= MOST_NUMBERS, "MOST_NUMBERS is too small");
    memcpy(n, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t print_numbers(struct veche_run *r, struct metadata *out)
{
    struct number numbers[MOST_NUMBERS];
    size_t n = list_numbers(r, numbers);
    for (size_t i = 0; i < n; i++) {
        out[i].key = numbers[i].key;
        out[i].text =
            numbers[i].whole
                ? arena_printf(&r->arena, "%llu", (unsigned long long)*numbers[i].whole)
                : arena_printf(&r->arena, "%.17g",
                               numbers[i].real == &r->earlier_s ? session_seconds(r) : *numbers[i].real);
    }
    return n;
}

fault session_save(struct veche_run *r)
{
    struct named_floats *tensors;
    size_t n_tensors;
    TRY(make_image(r));
    for (size_t i = 0; i < r->n_agents; i++)
        TRY(move_rows(r, i, read_row));
    TRY(name_all(r, &tensors, &n_tensors));
    struct metadata metadata[MOST_NUMBERS + 2] = {
        {"format", FORMAT},
        {"veche", veche_version()},
    };
    size_t n = 2 + print_numbers(r, metadata + 2);
    for (size_t i = 0; i < n; i++)
        if (!metadata[i].text)
            return OUT_OF_MEMORY;
    TRY(run_save(&r->folder, r->agents[0].k, tensors, n_tensors, metadata, n));
    r->saved = r->agents[0].k;
    session_tell(r, VECHE_CHECKPOINT, r->folder.path);
    return OK;
}

fault session_save_model(struct veche_run *r)
{
    struct named_floats *tensors;
    char path[RUN_PATH + 32];
    TRY(make_image(r));
    TRY(move_rows(r, 0, read_row));
    arena_release(&r->arena);
    tensors = ARENA_NEW(&r->arena, struct named_floats, tensors_per_agent(r));
    if (!tensors)
        return OUT_OF_MEMORY;
    size_t n = name_tensors(r, "", false, r->image.bytes, tensors);
    struct metadata metadata[] = {{"format", "pt"},
                                  {"veche", veche_version()},
                                  {"model", r->graph->name},
                                  {"name", r->experiment->name}};
    snprintf(path, sizeof path, "%s/model.safetensors", r->folder.path);
    return tensors_write(path, tensors, n, metadata, sizeof metadata / sizeof *metadata);
}

static fault read_numbers(struct veche_run *r, const struct tensors *t)
{
    struct number numbers[MOST_NUMBERS];
    size_t n = list_numbers(r, numbers);
    for (size_t i = 0; i < n; i++) {
        const char *text = tensors_metadata(t, numbers[i].key);
        char *end = NULL;
        errno = 0;
        if (text && numbers[i].whole)
            *numbers[i].whole = strtoull(text, &end, 10);
        else if (text)
            *numbers[i].real = strtod(text, &end);
        if (!text || end == text || *end || errno == ERANGE)
            return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint has no good value for '%s'",
                        r->folder.path, numbers[i].key);
    }
    if (r->agents[0].k > r->stage.rounds)
        return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint is of round %llu, the experiment has %llu",
                    r->folder.path, (unsigned long long)r->agents[0].k, (unsigned long long)r->stage.rounds);
    return OK;
}

static fault take_tensor(const struct veche_run *r, const struct tensors *t, const struct named_floats *want)
{
    const struct named_floats *have = tensors_find(t, want->name);
    size_t n = 1;
    if (!have)
        return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint has no tensor '%s'", r->folder.path,
                    want->name);
    if (have->n_dims != want->n_dims || memcmp(have->dims, want->dims, have->n_dims * sizeof *have->dims))
        return FAIL(FAULT_CHECKPOINT,
                    "%s: tensor '%s' of the newest checkpoint has another shape than the network's",
                    r->folder.path, want->name);
    for (size_t i = 0; i < have->n_dims; i++)
        n *= have->dims[i];
    memcpy((float *)want->floats, have->floats, n * sizeof(float));
    return OK;
}

static fault take_all(struct veche_run *r, const struct tensors *t)
{
    struct named_floats *tensors;
    size_t n;
    const char *format = tensors_metadata(t, "format");
    if (!format || strcmp(format, FORMAT) != 0)
        return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint is '%s' and not '%s'", r->folder.path,
                    format ? format : "of no stated format", FORMAT);
    TRY(read_numbers(r, t));
    TRY(make_image(r));
    TRY(name_all(r, &tensors, &n));
    for (size_t i = 0; i < n; i++)
        TRY(take_tensor(r, t, &tensors[i]));
    for (size_t i = 0; i < r->n_agents; i++)
        TRY(move_rows(r, i, write_row));
    return OK;
}

fault session_restore(struct veche_run *r)
{
    struct tensors t = {0};
    char passed_over[RUN_PATH] = "";
    TRY(run_newest(&r->folder, &t, passed_over));
    fault f = take_all(r, &t);
    tensors_release(&t);
    TRY(f);
    r->saved = r->agents[0].k;
    TRY(run_rewind_events(&r->folder, r->agents[0].k));
    if (passed_over[0]) {
        char text[RUN_PATH + 64];
        snprintf(text, sizeof text, "%s is not whole; going back to round %llu", passed_over,
                 (unsigned long long)r->saved);
        session_tell(r, VECHE_NOTICE, text);
    }
    return OK;
}
