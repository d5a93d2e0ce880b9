/* plan.c - `veche plan FILE`: the best cut of a network over machines, as text or JSON, and the drawing of its round. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { CSV = 1000, FIRST_SETTING };

/* The options that are settings of veche_plan, by their keys. */
static const struct setting {
    const char *name, *option, *word, *help;
    bool is_list;
} table[] = {
    {"profile", "profile", "LAYERS.csv", "Take the layers from this file (columns layer, forward_ms, backward_ms, "
     "activation_bytes, parameter_bytes), not from FILE's network", false},
    {"machines", "machines", "V,V,...", "Speeds of the machines, in the order of the pipeline; 1: as fast as the times say", true},
    {"memory_mb", "memory-mb", "MB", "Memory of each machine, one number for all or one for each: a hard limit", true},
    {"bandwidth_mbs", "bandwidth-mbs", "MB/S", "What a network card moves each way, in millions of bytes a second", false},
    {"latency_ms", "latency-ms", "MS", "How long a message is on its way, beside its bytes", false},
    {"schedule", "schedule", "NAME", "gpipe, 1f1b (default), interleaved, zb-h1, pipedream or 2bw", false},
    {"microbatches", "microbatches", "N", "Micro-batches of a round (default: train.accumulate, else 8)", false},
    {"chunks", "chunks", "N", "Parts of each machine, for interleaved (default 2)", false},
    {"warmup", "warmup", "N", "Micro-batches in flight on the first machine, for 1f1b", false},
    {"cut", "cut", "LAYER,LAYER,...", "Price this cut: the first layer of each part but the first", false},
    {"times", "times", "measured|rate", "Times of layers: measured on this machine (default), or machines.rate shared out by "
     "multiplications", false},
};
enum { N_TABLE = sizeof table / sizeof *table };

struct words {
    const char *file, *svg;
    const char **overrides;
    size_t n_overrides;
    char **settings; /* owned, and the texts too */
    size_t n_settings;
    bool json, csv;
};

/* "1,,2" and "1," lack a number. */
static bool lacks_one(const char *list)
{
    size_t n = strlen(list);
    return n == 0 || list[0] == ',' || list[n - 1] == ',' || strstr(list, ",,");
}

static void add_setting(struct words *w, const char *name, bool is_list, const char *value)
{
    char *text;
    if (asprintf(&text, is_list ? "%s=[%s]" : "%s=%s", name, value) >= 0)
        w->settings[w->n_settings++] = text;
}

static error_t take_setting(struct words *w, const struct setting *s, const char *value, struct argp_state *state)
{
    if (s->is_list && lacks_one(value))
        argp_error(state, "--%s: '%s' lacks a number", s->option, value);
    add_setting(w, s->name, s->is_list, value);
    return 0;
}

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'j':
        w->json = true;
        return 0;
    case 's':
        w->svg = arg;
        return 0;
    case 'a':
        add_setting(w, "any_order", false, "true");
        return 0;
    case CSV:
        w->csv = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!w->file)
            w->file = arg;
        else
            w->overrides[w->n_overrides++] = arg;
        return 0;
    default:
        return key >= FIRST_SETTING && key < FIRST_SETTING + N_TABLE ? take_setting(w, &table[key - FIRST_SETTING], arg, state)
                                                                     : ARGP_ERR_UNKNOWN;
    }
}

/* The table's options, then those that are no settings. */
static void fill_options(struct argp_option *options)
{
    static const struct argp_option others[] = {
        {"any-order", 'a', 0, 0, "Take the machines in whatever order is best", 0},
        {"json", 'j', 0, 0, "Print one JSON object", 0},
        {"svg", 's', "FILE", 0, "Draw the time line of a round into FILE", 0},
        {"schedule-csv", CSV, 0, 0, "Print the schedule, a line of passes for each machine: 0F0,0F1,0B0", 0},
        {0}};
    for (int i = 0; i < N_TABLE; i++)
        options[i] = (struct argp_option){table[i].option, FIRST_SETTING + i, table[i].word, 0, table[i].help, 0};
    memcpy(options + N_TABLE, others, sizeof others);
}

static int show(const struct words *w, const veche_experiment *e)
{
    char *text = NULL, *svg = NULL;
    bool json = w->json && !w->csv;
    int failed = cli_fault(veche_plan(e, (const char *const *)w->settings, w->n_settings, w->csv || json ? NULL : &text,
                                      json ? &text : NULL, w->svg ? &svg : NULL, w->csv ? &text : NULL));
    if (!failed && w->svg)
        failed = cli_save(w->svg, svg);
    free(svg);
    if (failed)
        free(text);
    else
        cli_print(text);
    return failed;
}

int cli_plan(int argc, char **argv)
{
    struct argp_option options[N_TABLE + 5];
    const struct argp parser = {options, take_word, "FILE [key=value ...]",
                                "Cuts the network of the experiment in FILE over its machines, so that the machine that takes longest "
                                "takes as little time as can be, and compares that with other ways to use them. With --profile "
                                "and --machines no FILE is needed.",
                                NULL, NULL, NULL};
    struct words w = {.overrides = calloc((size_t)argc, sizeof(char *)), .settings = calloc((size_t)argc, sizeof(char *))};
    veche_experiment *e = NULL;
    if (!w.overrides || !w.settings)
        return 1;
    fill_options(options);
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    int failed = w.file ? cli_fault(veche_load_with(w.file, w.overrides, w.n_overrides, &e)) : 0;
    if (!failed)
        failed = show(&w, e);
    veche_experiment_free(e);
    for (size_t i = 0; i < w.n_settings; i++)
        free(w.settings[i]);
    free(w.settings);
    free(w.overrides);
    return failed;
}
