/* print.c - an experiment as YAML, every default written out.
 *
 * The print follows the same fields as the reading, in one fixed order; texts are quoted where they need it and
 * reals keep every bit, so reading it gives the same experiment and printing that gives the same text.
 */
#include <stdio.h>

#include "base/page.h"
#include "experiment/experiment.h"
#include "experiment/sections.h"

struct printer {
    FILE *out;
    struct arena arena; /* the texts of values */
    bool full;          /* memory was out: what is written is not whole */
};

static void put(struct printer *p, int indent, const char *key, const char *value)
{
    if (!value)
        p->full = true;
    else
        fprintf(p->out, "%*s%s: %s\n", indent, "", key, value);
}

static void put_fields(struct printer *p, int indent, const struct field *fields, size_t n,
                     const void *settings)
{
    for (size_t i = 0; i < n; i++)
        if (!field_is_unset(&fields[i], settings))
            put(p, indent, fields[i].name, field_print(&fields[i], settings, &p->arena));
}

static void put_section(struct printer *p, int indent, enum section_id id, const void *settings)
{
    put_fields(p, indent, section_table[id].fields, section_table[id].n_fields, settings);
}

static void put_kind(struct printer *p, int indent, const char *key, const struct choice *c)
{
    const char *name = c->tail ? arena_printf(&p->arena, "%s:%s", c->kind->name, c->tail) : c->kind->name;
    put(p, indent, key, name ? field_print_text(name, &p->arena) : NULL);
}

static void put_chosen(struct printer *p, int indent, const struct choice *c)
{
    put_kind(p, indent, "kind", c);
    put_fields(p, indent, c->kind->fields, c->kind->n_fields, c->settings);
}

static void put_choice(struct printer *p, int indent, const char *key, const struct choice *c)
{
    if (c->kind->n_fields == 0) {
        put_kind(p, indent, key, c);
        return;
    }
    fprintf(p->out, "%*s%s:\n", indent, "", key);
    put_chosen(p, indent + 2, c);
}

/* Small maps on one line. */

static void put_value(struct printer *p, const char *before, const char *key, const char *value)
{
    if (!value)
        p->full = true;
    else
        fprintf(p->out, "%s%s: %s", before, key, value);
}

/* "a: 1, b: 2" of all fields; `before` stands before the first. */
static void put_inline(struct printer *p, const char *before, const struct field *fields, size_t n,
                       const void *settings, bool unset_too)
{
    for (size_t i = 0; i < n; i++)
        if (unset_too || !field_is_unset(&fields[i], settings)) {
            put_value(p, before, fields[i].name, field_print(&fields[i], settings, &p->arena));
            before = ", ";
        }
}

static void put_inline_choice(struct printer *p, int indent, const char *key, const struct choice *c)
{
    if (c->kind->n_fields == 0) {
        put_kind(p, indent, key, c);
        return;
    }
    fprintf(p->out, "%*s%s: {kind: %s", indent, "", key, c->kind->name);
    put_inline(p, ", ", c->kind->fields, c->kind->n_fields, c->settings, false);
    fputs("}\n", p->out);
}

/* A wire is written whole: what is left out is not 0, but as in the wire it stands for. */
static void put_wire(struct printer *p, const char *before, const struct wire *w)
{
    put_inline(p, before, section_table[SECTION_WIRE].fields, section_table[SECTION_WIRE].n_fields, w, true);
    fputs("}\n", p->out);
}

static void put_agents(struct printer *p, const uint32_t *agents, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(p->out, "%s%u", i ? ", " : "[", agents[i]);
    fputc(']', p->out);
}

static void put_groups(struct printer *p, const struct groups *g)
{
    for (size_t i = 0, end; i < g->n; i = end) {
        for (end = i; end < g->n && g->group[end] == g->group[i];)
            end++;
        fputs(i ? ", " : "[", p->out);
        put_agents(p, g->agents + i, end - i);
    }
    fputc(']', p->out);
}

static void put_network(struct printer *p, const struct network_settings *n)
{
    fprintf(p->out, "network:\n");
    put_section(p, 2, SECTION_NETWORK, n);
    if (n->sites.n) {
        fprintf(p->out, "  sites: ");
        put_groups(p, &n->sites);
        fprintf(p->out, "\n  across: {");
        put_wire(p, "", &n->across);
    }
    if (n->n_links)
        fprintf(p->out, "  links:\n");
    for (size_t i = 0; i < n->n_links; i++) {
        fprintf(p->out, "    - {between: [%u, %u]", n->links[i].a, n->links[i].b);
        put_wire(p, ", ", &n->links[i].wire);
    }
}

static void put_event(struct printer *p, const struct event *e)
{
    const struct event_written time = {.at_s = e->at_s};
    put_value(p, "  - {", "at_s", field_print(section_table[SECTION_EVENT].fields, &time, &p->arena));
    fprintf(p->out, ", %s: ", event_names[e->kind]);
    if (e->kind == EVENT_PARTITION)
        put_groups(p, &e->who);
    else if (e->kind == EVENT_HEAL)
        fputs("all", p->out);
    else
        put_agents(p, e->who.agents, e->who.n);
    fputs("}\n", p->out);
}

static void put_events(struct printer *p, const struct event_settings *e)
{
    if (e->n || e->has_random)
        fprintf(p->out, "events:\n");
    for (size_t i = 0; i < e->n; i++)
        put_event(p, &e->at[i]);
    if (!e->has_random)
        return;
    const struct section *random = &section_table[SECTION_RANDOM];
    put_inline(p, "  - {random: {", random->fields, random->n_fields, &e->random, true);
    fputs("}}\n", p->out);
}

static void put_stop(struct printer *p, const struct stop_settings *s)
{
    const struct section *stop = &section_table[SECTION_STOP];
    if (!stop_is_written(s))
        return;
    put_inline(p, "  stop: {", stop->fields, stop->n_fields, s, false);
    fputs("}\n", p->out);
}

static void put_topology(struct printer *p, const struct topology_settings *t)
{
    const struct section *topology = &section_table[SECTION_TOPOLOGY];
    put_inline(p, "topology: {", topology->fields, topology->n_fields, t, true);
    fputs("}\n", p->out);
}

static bool has_settings(const struct layer *layer)
{
    for (size_t i = 0; i < layer->kind->n_fields; i++)
        if (!field_is_unset(&layer->kind->fields[i], layer->settings))
            return true;
    return layer->name || layer->body || layer->from.n;
}

static void put_layers(struct printer *p, int indent, const struct layer *layers)
{
    for (const struct layer *l = layers; l; l = l->next) {
        fprintf(p->out, "%*s- %s%s\n", indent, "", l->kind->name, has_settings(l) ? ":" : "");
        put_section(p, indent + 4, SECTION_LAYER, l);
        put_fields(p, indent + 4, l->kind->fields, l->kind->n_fields, l->settings);
        if (l->body) {
            fprintf(p->out, "%*slayers:\n", indent + 4, "");
            put_layers(p, indent + 6, l->body);
        }
    }
}

static void put_experiment(struct printer *p, const struct experiment *e)
{
    put_section(p, 0, SECTION_TOP, e);
    fprintf(p->out, "data:\n");
    put_choice(p, 2, "set", &e->data.set);
    put_inline_choice(p, 2, "split", &e->data.split);
    put_section(p, 2, SECTION_DATA, &e->data);
    if (e->model.named.kind) {
        put_choice(p, 0, "model", &e->model.named);
    } else {
        fprintf(p->out, "model:\n");
        put_layers(p, 2, e->model.layers);
    }
    fprintf(p->out, "optim:\n");
    put_chosen(p, 2, &e->optim.kind);
    put_section(p, 2, SECTION_OPTIM, &e->optim);
    fprintf(p->out, "  schedule:\n");
    put_chosen(p, 4, &e->optim.schedule);
    put_section(p, 4, SECTION_SCHEDULE, &e->optim);
    if (e->topology.written)
        put_topology(p, &e->topology);
    put_choice(p, 0, "strategy", &e->strategy);
    put_choice(p, 0, "world", &e->world);
    if (e->team.kind->n_fields)
        put_choice(p, 0, "team", &e->team);
    fprintf(p->out, "train:\n");
    put_section(p, 2, SECTION_TRAIN, &e->train);
    put_stop(p, &e->train.stop);
    fprintf(p->out, "engine:\n");
    put_chosen(p, 2, &e->engine.kind);
    put_section(p, 2, SECTION_ENGINE, &e->engine);
    fprintf(p->out, "machines:\n");
    put_chosen(p, 2, &e->machines.kind);
    put_inline_choice(p, 2, "speed", &e->machines.speed);
    put_inline_choice(p, 2, "stragglers", &e->machines.stragglers);
    if (e->network.written)
        put_network(p, &e->network);
    put_events(p, &e->events);
}

fault experiment_print(const struct experiment *e, char **out)
{
    struct page page;
    TRY(page_open(&page));
    struct printer p = {.out = page.out};
    put_experiment(&p, e);
    arena_release(&p.arena);
    return page_close(&page, p.full ? OUT_OF_MEMORY : OK, out);
}
