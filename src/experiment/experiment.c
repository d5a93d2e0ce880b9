/* experiment.c - the sections in the order in which they are read.
 *
 *   text -> tree -> overrides -> sections -> struct experiment
 *
 * The tree lies in the experiment's arena, because the places of choices and layers point into it.
 */
#include "experiment/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "experiment/decode.h"

enum { MOST_BYTES = 1 << 20 };

static const char *const only_kind[] = {"kind", NULL};

static fault find_section(const struct document *d, const char *name, const struct node **out)
{
    *out = node_find(d->top, name);
    return *out ? OK : fail_node(d->top, "the section '%s' is missing", name);
}

static fault decode_data(const struct document *d, struct data_settings *out)
{
    static const char *const others[] = {"set", "split", NULL};
    const struct node *data;
    TRY(find_section(d, "data", &data));
    struct form form = {.fields = {decode_fields_of(SECTION_DATA, out)}, .others = others};
    TRY(decode_map(d, data, &form, data));
    const struct node *set = node_find(data, "set");
    if (!set)
        return fail_node(data, "the key 'set' is missing (one of the %s)", category_name(KIND_SET));
    if (out->mean.n != out->deviation.n)
        return fail_node(
            data,
            "mean and deviation are written together, one number for each channel; here are %zu and %zu",
            out->mean.n, out->deviation.n);
    struct form plain = {.others = only_kind};
    TRY(decode_choice(d, set, KIND_SET, NULL, plain, &out->set));
    TRY(decode_choice(d, node_find(data, "split"), KIND_SPLIT, "shuffle", plain, &out->split));
    if (!node_find(data, "split"))
        out->split.place = data->place; /* where complaints about it belong */
    return OK;
}

static fault decode_optim(const struct document *d, struct optim_settings *out)
{
    static const char *const others[] = {"kind", "schedule", NULL};
    const struct node *optim;
    TRY(find_section(d, "optim", &optim));
    struct form form = {.fields = {[1] = decode_fields_of(SECTION_OPTIM, out)}, .others = others};
    TRY(decode_choice(d, optim, KIND_OPTIM, NULL, form, &out->kind));
    struct form schedule = {.fields = {[1] = decode_fields_of(SECTION_SCHEDULE, out)}, .others = only_kind};
    return decode_choice(d, node_find(optim, "schedule"), KIND_SCHEDULE, "constant", schedule,
                         &out->schedule);
}

static fault decode_stop(const struct document *d, const struct node *node, struct stop_settings *out)
{
    if (!node || (node->kind == NODE_VALUE && text_is(node->text, "never")))
        return OK;
    if (node->kind != NODE_MAP)
        return fail_node(node, "what ends a run early is a map, such as { accuracy: 91 }, or never");
    TRY(decode_map(d, node, &(struct form){.fields = {decode_fields_of(SECTION_STOP, out)}}, node));
    out->place = node->place;
    return node->n ? OK : fail_node(node, "nothing is written here that could end a run: accuracy, loss or no_progress");
}

static fault decode_train(const struct document *d, int64_t batch, struct train_settings *out)
{
    static const char *const others[] = {"stop", NULL};
    const struct node *train;
    TRY(find_section(d, "train", &train));
    TRY(decode_map(d, train, &(struct form){.fields = {decode_fields_of(SECTION_TRAIN, out)}, .others = others}, train));
    if (out->accumulate > batch)
        return fail_node(node_find(train, "accumulate"),
                         "a batch of %lld sample%s cannot be cut into %lld micro-batches (data.batch)",
                         (long long)batch, batch == 1 ? "" : "s", (long long)out->accumulate);
    return decode_stop(d, node_find(train, "stop"), &out->stop);
}

/* The file's own name without ".yaml", what cannot stand in a folder's name made '-'. */
static char *name_of_file(const char *source, struct arena *arena)
{
    const char *slash = strrchr(source, '/');
    char *name = arena_text(arena, slash ? slash + 1 : source);
    if (!name)
        return NULL;
    char *dot = strrchr(name, '.');
    if (dot && (text_is(dot, ".yaml") || text_is(dot, ".yml")))
        *dot = '\0';
    if (strlen(name) > 100)
        name[100] = '\0';
    for (char *c = name; *c; c++)
        if (!experiment_is_name((const char[]){'a', *c, '\0'}))
            *c = '-';
    name += strspn(name, ".-");
    return *name ? name : arena_text(arena, "experiment");
}

static fault decode_top(const struct document *d, struct experiment *e)
{
    static const char *const others[] = {"data",  "model",  "optim",    "topology", "strategy", "world", "team",
                                         "train", "engine", "machines", "network",  "events",   NULL};
    TRY(decode_map(d, d->top, &(struct form){.fields = {decode_fields_of(SECTION_TOP, e)}, .others = others},
                   d->top));
    if (e->name && !experiment_is_name(e->name))
        return fail_node(node_find(d->top, "name"), "'%s' cannot name a run's folder: " NAME_RULE,
                         text_shown(e->name).text);
    if (!e->name)
        e->name = name_of_file(e->source, &e->arena);
    return e->name ? OK : OUT_OF_MEMORY;
}

static fault decode_experiment(const struct document *d, struct experiment *e)
{
    if (d->top->kind != NODE_MAP)
        return fail_node(d->top,
                         "an experiment is a map of sections (data: ..., model: ...), which this is not");
    const struct node *top = d->top, *model;
    struct form plain = {.others = only_kind};
    struct form engine = {.fields = {[1] = decode_fields_of(SECTION_ENGINE, &e->engine)}, .others = only_kind};
    TRY(decode_top(d, e));
    TRY(decode_data(d, &e->data));
    TRY(find_section(d, "model", &model));
    TRY(decode_model(d, model, &e->model));
    TRY(decode_optim(d, &e->optim));
    TRY(decode_topology(d, &e->topology));
    TRY(decode_choice(d, node_find(top, "strategy"), KIND_STRATEGY, "single", plain, &e->strategy));
    TRY(decode_choice(d, node_find(top, "world"), KIND_WORLD, "local", plain, &e->world));
    TRY(decode_choice(d, node_find(top, "team"), KIND_TEAM, "none", plain, &e->team));
    e->team_size = e->team.settings ? *(const int64_t *)e->team.settings : 1;
    TRY(decode_train(d, e->data.batch, &e->train));
    TRY(decode_choice(d, node_find(top, "engine"), KIND_ENGINE, "auto", engine, &e->engine.kind));
    TRY(decode_machines(d, e->agents, e->team_size, &e->machines));
    e->members = e->agents;
    if (e->strategy.kind->helpers)
        e->members += e->strategy.kind->helpers(e->strategy.settings, e->agents);
    TRY(decode_network(d, e->agents, e->members, &e->network));
    return decode_events(d, e->members, &e->events);
}

static fault parse_into(const char *text, size_t n_bytes, const char *const *overrides, size_t n_overrides,
                        const struct registry *registry, struct experiment *e)
{
    struct node *top = NULL;
    TRY(tree_read(text, n_bytes, e->source, &e->arena, &top));
    for (size_t i = 0; i < n_overrides; i++)
        TRY(tree_override(top, overrides[i], &e->arena));
    struct document d = {registry, &e->arena, top};
    return decode_experiment(&d, e);
}

fault experiment_parse(const char *text, size_t n_bytes, const char *source, const char *const *overrides,
                       size_t n_overrides, const struct registry *registry, struct experiment **out)
{
    if (n_bytes > MOST_BYTES)
        return FAIL(FAULT_EXPERIMENT, "%s: longer than 1 MiB, which no experiment needs", source);
    struct experiment *e = calloc(1, sizeof *e);
    if (!e)
        return OUT_OF_MEMORY;
    e->source = arena_text(&e->arena, source);
    fault f = e->source ? parse_into(text, n_bytes, overrides, n_overrides, registry, e) : OUT_OF_MEMORY;
    if (f)
        experiment_free(e);
    else
        *out = e;
    return f;
}

void experiment_free(struct experiment *e)
{
    if (!e)
        return;
    arena_release(&e->arena);
    free(e);
}
