/* describe.c - a survey as a few lines for people and as one JSON object for scripts. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/page.h"
#include "base/text.h"
#include "topology/spectrum.h"

/* "0.2222 on edges", or "-0.05 to 0.31 on edges (4 below zero)". */
static void print_range(FILE *out, const char *where, const double *values, size_t n)
{
    double least = INFINITY, most = -INFINITY;
    size_t below = 0;
    for (size_t i = 0; i < n; i++) {
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
        below += values[i] < 0;
    }
    if (most - least > 1e-9)
        fprintf(out, "%.4g to ", least);
    fprintf(out, "%.4g on %s", most, where);
    if (below)
        fprintf(out, " (%zu below zero)", below);
}

static void print_gamma(FILE *out, const struct survey *s, enum weights_kind kind)
{
    double gamma = s->facts.gamma[kind];
    fprintf(out, "%c %-14s", kind == s->kind ? '>' : ' ', weights_name(kind));
    if (isnan(gamma))
        fputs("        -           -   the graph is too large", out);
    else if (gamma == 0)
        fputs(" 0.000000     at once", out);
    else
        fprintf(out, "%9.6f %11.2f", gamma, survey_rounds_to_halve(gamma));
    if (kind == WEIGHTS_FASTEST && s->kind == kind)
        fprintf(out, "   none is below %.6f", s->weights.certificate);
    fputc('\n', out);
}

static void print_facts(FILE *out, const struct topology *t, const struct topology_facts *facts)
{
    fprintf(out, "%s\n  vertices      %zu\n  edges         %zu\n", t->spec, t->n, t->n_edges);
    if (facts->diameter == DIAMETER_UNKNOWN)
        fputs("  diameter      -\n", out);
    else
        fprintf(out, "  diameter      %zu\n", facts->diameter);
    if (isnan(facts->connectivity))
        fputs("  connectivity  -\n", out);
    else
        fprintf(out, "  connectivity  %.6g\n", facts->connectivity);
}

fault survey_text(const struct topology *t, const struct survey *s, char **text)
{
    struct page page;
    TRY(page_open(&page));
    print_facts(page.out, t, &s->facts);
    fputs("\n  weights           gamma   rounds to halve the disagreement\n", page.out);
    for (int k = 0; k < N_WEIGHTS; k++)
        print_gamma(page.out, s, (enum weights_kind)k);
    fprintf(page.out, "\n> %s weights: ", weights_name(s->kind));
    if (t->n_edges) {
        print_range(page.out, "edges", s->weights.edge, t->n_edges);
        fputs("; ", page.out);
    }
    print_range(page.out, "oneself", s->weights.self, t->n);
    fputc('\n', page.out);
    return page_close(&page, OK, text);
}

static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_real(x);
}

static json_t *gammas(const struct topology_facts *facts)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "uniform", number(facts->gamma[WEIGHTS_UNIFORM]), "metropolis",
                     number(facts->gamma[WEIGHTS_METROPOLIS]), "best_constant",
                     number(facts->gamma[WEIGHTS_BEST_CONSTANT]), "fastest",
                     number(facts->gamma[WEIGHTS_FASTEST]));
}

static int append_weight(json_t *list, size_t i, size_t j, double w)
{
    return json_array_append_new(list, json_pack("[I, I, f]", (json_int_t)i, (json_int_t)j, w));
}

/* Every number that W holds on and above its diagonal: row by row, oneself before the larger neighbours. */
static json_t *weight_list(const struct topology *t, const struct weights *w)
{
    json_t *list = json_array();
    int failed = !list;
    for (size_t i = 0, e = 0; !failed && i < t->n; i++) {
        failed = append_weight(list, i, i, w->self[i]);
        for (; !failed && e < t->n_edges && t->edges[e].a == i; e++)
            failed = append_weight(list, i, t->edges[e].b, w->edge[e]);
    }
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

fault survey_json(const struct topology *t, const struct survey *s, char **json)
{
    json_t *spec = json_string(t->spec);
    if (!spec)
        return FAIL(FAULT_USAGE, "%s: a name in JSON must be UTF-8", text_shown(t->spec).text);
    json_t *diameter =
        s->facts.diameter == DIAMETER_UNKNOWN ? json_null() : json_integer((json_int_t)s->facts.diameter);
    json_t *object =
        json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "spec", spec, "vertices", (json_int_t)t->n, "edges",
                  (json_int_t)t->n_edges, "diameter", diameter, "connectivity", number(s->facts.connectivity),
                  "gamma", gammas(&s->facts), "weights", weight_list(t, &s->weights));
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    char *line = NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    json_decref(object);
    if (!line)
        return OUT_OF_MEMORY;
    *json = line;
    return OK;
}
