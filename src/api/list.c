/* list.c - all names one may write, straight from the fields that the parser reads. */
#include <stdio.h>

#include "api/registry.h"
#include "base/page.h"
#include "base/plain.h"
#include "base/text.h"
#include "engine/engine.h"
#include "experiment/experiment.h"
#include "veche.h"

static void print_range(FILE *out, const struct field *f)
{
    if (f->choices) {
        for (size_t i = 0; f->choices[i]; i++)
            fprintf(out, "%s%s", i ? " | " : "", f->choices[i]);
        return;
    }
    fputs(f->whole ? "a list of whole numbers" : field_kind_name(f->kind), out);
    bool any = f->min == 0 && f->max == 0;
    if (!any && f->max > f->min && f->max < 1e18)
        fprintf(out, ", %s%g to %g", f->above_min ? "above " : "", f->min, f->max);
    else if (!any)
        fprintf(out, ", %s %g", f->above_min ? "above" : "at least", f->min);
    if (f->word)
        fprintf(out, ", or %s", f->word);
}

static void print_fields(FILE *out, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &fields[i];
        fprintf(out, "      %-18s %s\n", f->name, f->help);
        fprintf(out, "      %-18s   ", "");
        print_range(out, f);
        if (f->fallback)
            fprintf(out, "; default %s", f->fallback[0] ? f->fallback : "''");
        else
            fputs(f->optional ? "; may be left out" : "; must be written", out);
        fputc('\n', out);
    }
}

/* What an engine of this build does not find on this machine. */
static void print_machine(FILE *out, const struct kind *k)
{
    fault f = engine_usable(k);
    if (f)
        fprintf(out, "  %-20s %s\n", "", fault_text(f));
    fault_drop(f);
}

static void print_category(FILE *out, const struct registry *registry, enum category c)
{
    fprintf(out, "%s (%s)\n", category_name(c), category_help(c));
    for (size_t i = 0; i < registry->of[c].n; i++) {
        const struct kind *k = kinds_at(&registry->of[c], i);
        fprintf(out, "  %-20s %s\n", k->pattern ? k->pattern : k->name, k->help);
        if (k->missing)
            fprintf(out, "  %-20s not in this build: %s\n", "", k->missing);
        else if (c == KIND_ENGINE)
            print_machine(out, k);
        print_fields(out, k->fields, k->n_fields);
    }
    fputc('\n', out);
}

static void print_sections(FILE *out)
{
    size_t n;
    const struct section *sections = experiment_sections(&n);
    fputs("settings (the sections of an experiment file)\n", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "  %-20s %s\n", sections[i].name, sections[i].help);
        print_fields(out, sections[i].fields, sections[i].n_fields);
    }
    fputc('\n', out);
}

static const char *category_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < N_CATEGORIES ? category_name((enum category)i) : i == N_CATEGORIES ? "settings" : NULL;
}

static fault print_asked(FILE *out, const char *category)
{
    struct registry registry = registry_of_everything();
    bool found = false;
    for (int c = 0; c < N_CATEGORIES; c++)
        if (!category || text_is(category, category_name((enum category)c))) {
            print_category(out, &registry, (enum category)c);
            found = true;
        }
    if (!category || text_is(category, "settings")) {
        print_sections(out);
        found = true;
    }
    if (found)
        return OK;
    const char *nearest = text_nearest(category, category_candidate, NULL);
    return nearest ? FAIL(FAULT_USAGE, "there is no list of '%s'; did you mean '%s'?", category, nearest)
                   : FAIL(FAULT_USAGE,
                          "there is no list of '%s'; there are sets, splits, models, layers, optimisers, "
                          "schedules, topologies, strategies, teams, engines, worlds, machines, speeds, stragglers "
                          "and settings",
                          category);
}

veche_fault *veche_list(const char *category, char **text)
{
    PLAIN_NUMBERS;
    struct page page;
    TRY(page_open(&page));
    return page_close(&page, print_asked(page.out, category), text);
}
