/* topology.c - what there is to know about a graph of agents, and its drawing. */
#include "base/plain.h"
#include "topology/topology.h"

#include <stdlib.h>

#include "base/text.h"
#include "veche.h"

static const char *weights_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < N_WEIGHTS ? weights_name((enum weights_kind)i) : NULL;
}

static fault find_weights(const char *name, enum weights_kind *out)
{
    for (int k = 0; k < N_WEIGHTS; k++)
        if (text_is(name, weights_name((enum weights_kind)k))) {
            *out = (enum weights_kind)k;
            return OK;
        }
    struct shown said = text_shown(name);
    const char *nearest = text_nearest(name, weights_candidate, NULL);
    return nearest
               ? FAIL(FAULT_USAGE, "there are no weights '%s'; did you mean '%s'?", said.text, nearest)
               : FAIL(FAULT_USAGE,
                      "there are no weights '%s'; there are uniform, metropolis, best-constant and fastest",
                      said.text);
}

typedef fault view(const struct topology *t, const struct survey *s, char **text);

/* Writes the views that are asked for, all or none. */
static fault show(const struct topology *t, const struct survey *s, char **const asked[], size_t n)
{
    static view *const views[] = {survey_text, survey_json, survey_svg};
    char *made[sizeof views / sizeof *views] = {0};
    fault f = OK;
    for (size_t i = 0; !f && i < n; i++)
        f = asked[i] ? views[i](t, s, &made[i]) : OK;
    for (size_t i = 0; i < n; i++)
        if (f)
            free(made[i]);
        else if (asked[i])
            *asked[i] = made[i];
    return f;
}

static fault survey_and_show(const struct topology *t, const char *weights, char **const asked[], size_t n)
{
    enum weights_kind kind = weights_usual(t);
    struct survey s;
    if (weights)
        TRY(find_weights(weights, &kind));
    TRY(survey_make(t, kind, &s));
    fault f = show(t, &s, asked, n);
    survey_release(&s);
    return f;
}

veche_fault *veche_topology(const char *spec, const char *weights, uint64_t seed, char **text, char **json,
                            char **svg)
{
    PLAIN_NUMBERS;
    char **const asked[] = {text, json, svg};
    struct topology *t;
    TRY(topology_make(spec, seed, (struct place){.source = "topology"}, &t));
    fault f = survey_and_show(t, weights, asked, sizeof asked / sizeof *asked);
    topology_free(t);
    return f;
}
