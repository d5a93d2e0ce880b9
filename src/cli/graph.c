/* graph.c - `veche graph FILE`: the operations of an experiment's network, its parts and what crosses between them, as text or
 * JSON, and its drawing. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct words {
    const char *file, *svg;
    const char **overrides;
    size_t n_overrides;
    const char **cut; /* borrowed, as the overrides: pieces of the arguments */
    size_t n_cut;
    bool json;
};

/* Cuts the argument up at its commas. */
static void add_layers(struct words *w, char *list, struct argp_state *state)
{
    char *rest = list;
    for (char *layer; (layer = strsep(&rest, ",")) != NULL;) {
        const char **more = realloc(w->cut, (w->n_cut + 1) * sizeof *more);
        if (!more)
            argp_failure(state, 1, 0, "out of memory");
        if (!*layer)
            argp_error(state, "a layer's name is missing in the cut");
        w->cut = more;
        w->cut[w->n_cut++] = layer;
    }
}

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'c':
        add_layers(w, arg, state);
        return 0;
    case 'j':
        w->json = true;
        return 0;
    case 's':
        w->svg = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (w->file)
            w->overrides[w->n_overrides++] = arg;
        else
            w->file = arg;
        return 0;
    case ARGP_KEY_END:
        if (!w->file)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int show(const struct words *w, const veche_experiment *e)
{
    char *text = NULL, *svg = NULL;
    int failed = cli_fault(veche_graph(e, w->cut, w->n_cut, w->json ? NULL : &text, w->json ? &text : NULL,
                                       w->svg ? &svg : NULL));
    if (!failed && w->svg)
        failed = cli_save(w->svg, svg);
    free(svg);
    if (failed)
        free(text);
    else
        cli_print(text);
    return failed;
}

int cli_graph(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"cut", 'c', "LAYER,...", 0,
         "Show the network in parts that begin with these layers, not in those of its team", 0},
        {"json", 'j', 0, 0, "Print one JSON object", 0},
        {"svg", 's', "FILE", 0, "Draw the network into FILE", 0},
        {0}};
    static const struct argp parser = {
        options,
        take_word,
        "FILE [key=value ...]",
        "Shows the network of the experiment in FILE: its operations as they are written, what is "
        "simplified, what is "
        "computed, and how large it is. With --cut also its parts, and what crosses from one to another.",
        NULL,
        NULL,
        NULL};
    struct words w = {.overrides = calloc((size_t)argc, sizeof(char *))};
    veche_experiment *e = NULL;
    if (!w.overrides)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    int failed = cli_fault(veche_load_with(w.file, w.overrides, w.n_overrides, &e));
    if (!failed)
        failed = show(&w, e);
    veche_experiment_free(e);
    free(w.overrides);
    free(w.cut);
    return failed;
}
