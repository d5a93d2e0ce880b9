/* show.c - see show.h. */
#include "team/show.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "base/text.h"

enum { RIVALS_SHOWN = 12 };

static const char *first_layer(const struct cut_plan *p, size_t part)
{
    return p->profile->layers[p->parts[part].first].name;
}

/* ---- for people ---- */

static void print_layers(FILE *to, const struct cut_plan *p, size_t stage)
{
    for (size_t k = stage; k < p->n_parts; k += p->n_stages) {
        const struct cut_part *part = &p->parts[k];
        const char *last = p->profile->layers[part->end - 1].name;
        fprintf(to, "%s%s", k == stage ? "" : ", then ", first_layer(p, k));
        if (part->end > part->first + 1)
            fprintf(to, " to %s", last);
    }
}

static void print_stages(FILE *to, const struct cut_plan *p)
{
    fputs("stage  machine    speed   compute ms      card ms  in flight   memory MB  layers\n", to);
    for (size_t g = 0; g < p->n_stages; g++) {
        const struct cut_stage *s = &p->stages[g];
        fprintf(to, "%5zu  %7zu  %7.4g  %11.3f  %11.3f  %9zu  %10.2f  ", g, s->machine, s->speed, s->compute_s * 1e3,
                s->card_s * 1e3, s->in_flight, s->memory_bytes / 1e6);
        print_layers(to, p, g);
        fputs(g == p->slowest ? "  <- the bottleneck\n" : "\n", to);
    }
}

static void print_figures(FILE *to, const struct cut_plan *p)
{
    const struct cut_stage *s = &p->stages[p->slowest];
    size_t m = p->schedule->n_micros;
    fprintf(to, "\nbottleneck   %11.3f ms a micro-batch (the %s of machine %zu); no cut has less than %.3f ms\n",
            p->bottleneck_s * 1e3, s->card_s > s->compute_s ? "card" : "processor", s->machine, p->lower_bound_s * 1e3);
    fprintf(to, "round        %11.3f ms for %zu micro-batch%s by %s%s\n", p->timeline.round_s * 1e3, m, m == 1 ? "" : "es",
            p->schedule->name, p->schedule->flushes ? "" : ", on average");
    fprintf(to, "bubble       %11.1f %% of the machines' time is idle\n", 100 * p->timeline.bubble);
}

static void print_rivals(FILE *to, const struct rivals *r)
{
    size_t shown = 0;
    fputs("\nThe same round in other ways               round ms    computing     messages    most MB\n", to);
    for (size_t i = 0; i < r->n && shown < RIVALS_SHOWN; i++, shown++) {
        const struct rival *it = &r->at[i];
        if (it->obstacle)
            break;
        fprintf(to, "  %-36s %12.3f %12.3f %12.3f %10.1f%s\n", it->name, it->round_s * 1e3, it->compute_s * 1e3,
                it->messages_s * 1e3, it->memory_bytes / 1e6, it->is_delayed ? "  with delayed gradients" : "");
    }
    if (r->n > shown)
        fprintf(to, "  and %zu more, or that cannot be: --json has them\n", r->n - shown);
}

fault show_text(const struct plan_shown *s, char **text)
{
    struct page page;
    TRY(page_open(&page));
    fprintf(page.out, "%s: %zu layers over %zu machine%s\n\n", s->plan->profile->source, s->plan->profile->n_layers,
            s->plan->n_stages, s->plan->n_stages == 1 ? "" : "s");
    print_stages(page.out, s->plan);
    print_figures(page.out, s->plan);
    fprintf(page.out, "\n%s", s->advice);
    print_rivals(page.out, s->rivals);
    fprintf(page.out, "\n%s", s->verdict);
    return page_close(&page, OK, text);
}

/* ---- for scripts ---- */

static json_t *layers_of(const struct cut_plan *p, size_t stage)
{
    json_t *names = json_array();
    for (size_t k = stage; k < p->n_parts; k += p->n_stages)
        for (size_t i = p->parts[k].first; i < p->parts[k].end; i++)
            json_array_append_new(names, json_string(p->profile->layers[i].name));
    return names;
}

static json_t *stages_of(const struct cut_plan *p)
{
    json_t *stages = json_array();
    for (size_t g = 0; g < p->n_stages; g++) {
        const struct cut_stage *s = &p->stages[g];
        json_array_append_new(
            stages, json_pack("{s:I, s:f, s:o, s:f, s:f, s:I, s:I, s:I}", "machine", (json_int_t)s->machine, "speed", s->speed,
                              "layers", layers_of(p, g), "compute_ms", s->compute_s * 1e3, "card_ms", s->card_s * 1e3,
                              "in_flight", (json_int_t)s->in_flight, "versions", (json_int_t)s->versions, "memory_bytes",
                              (json_int_t)llround(s->memory_bytes)));
    }
    return stages;
}

static json_t *cuts_of(const struct cut_plan *p)
{
    json_t *cuts = json_array();
    for (size_t k = 1; k < p->n_parts; k++)
        json_array_append_new(cuts, json_string(first_layer(p, k)));
    return cuts;
}

static json_t *order_of(const struct cut_plan *p)
{
    json_t *order = json_array();
    for (size_t g = 0; g < p->n_stages; g++)
        json_array_append_new(order, json_real(p->stages[g].speed));
    return order;
}

static json_t *rival_object(const struct rival *r)
{
    json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:s?, s:b, s:b}", "name", r->name, "way", way_name(r->way), "teams",
                               (json_int_t)r->n_teams, "size", (json_int_t)r->size, "schedule", r->schedule, "delayed",
                               (int)r->is_delayed, "possible", (int)!r->obstacle);
    if (!object)
        return NULL;
    if (r->obstacle)
        json_object_set_new(object, "why_not", json_string(r->obstacle));
    else
        json_object_update_new(object, json_pack("{s:f, s:f, s:f, s:I}", "round_ms", r->round_s * 1e3, "compute_ms",
                                                 r->compute_s * 1e3, "messages_ms", r->messages_s * 1e3, "memory_bytes",
                                                 (json_int_t)llround(r->memory_bytes)));
    return object;
}

static json_t *rivals_of(const struct rivals *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n; i++)
        json_array_append_new(list, rival_object(&r->at[i]));
    return list;
}

static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    json_decref(string);
    return string != NULL;
}

static fault check_names(const struct profile *p)
{
    const char *bad = is_utf8(p->source) ? NULL : p->source;
    for (size_t i = 0; i < p->n_layers && !bad; i++)
        bad = is_utf8(p->layers[i].name) ? NULL : p->layers[i].name;
    return bad ? FAIL(FAULT_USAGE, "'%s': a name in JSON must be UTF-8", text_shown(bad).text) : OK;
}

fault show_json(const struct plan_shown *s, char **json)
{
    const struct cut_plan *p = s->plan;
    const struct rival *fastest = rivals_fastest(s->rivals);
    TRY(check_names(p->profile));
    json_t *object = json_pack(
        "{s:s, s:f, s:f, s:o, s:o, s:f, s:f, s:s, s:I, s:o, s:s, s:o, s:s?, s:s}", "profile", p->profile->source, "bottleneck_ms",
        p->bottleneck_s * 1e3, "lower_bound_ms", p->lower_bound_s * 1e3, "cuts", cuts_of(p), "order", order_of(p), "round_ms",
        p->timeline.round_s * 1e3, "bubble", p->timeline.bubble, "schedule", p->schedule->name, "microbatches",
        (json_int_t)p->schedule->n_micros, "stages", stages_of(p), "advice", s->advice, "ways", rivals_of(s->rivals), "fastest",
        fastest ? fastest->name : NULL, "why", s->verdict);
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    if (!text)
        return OUT_OF_MEMORY;
    *json = text;
    return OK;
}

/* ---- a drawing ---- */

static void print_title(FILE *to, const struct cut_plan *p)
{
    fprintf(to, "%s by %s, cut before ", p->profile->source, p->schedule->name);
    for (size_t k = 1; k < p->n_parts; k++)
        fprintf(to, "%s%s", k > 1 ? ", " : "", first_layer(p, k));
    if (p->n_parts == 1)
        fputs("nothing", to);
}

fault show_svg(const struct plan_shown *s, char **svg)
{
    struct page page;
    char *title;
    TRY(page_open(&page));
    print_title(page.out, s->plan);
    TRY(page_close(&page, OK, &title));
    fault f = page_open(&page);
    if (!f)
        f = page_close(&page, timeline_draw(s->plan->schedule, &s->plan->timeline, title, page.out), svg);
    free(title);
    return f;
}
