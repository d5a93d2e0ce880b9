/* topology.c - `veche topology SPEC`: figures and mixing weights of a graph, as text or JSON, and its
 * drawing. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#include "cli/cli.h"

struct words {
    const char *spec, *weights, *svg;
    uint64_t seed;
    bool json;
};

static uint64_t read_seed(const char *text, struct argp_state *state)
{
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        argp_error(state, "the seed '%s' is not a whole number from 0 on", text);
    return seed;
}

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'w':
        w->weights = arg;
        return 0;
    case 'j':
        w->json = true;
        return 0;
    case 's':
        w->svg = arg;
        return 0;
    case 'r':
        w->seed = read_seed(arg, state);
        return 0;
    case ARGP_KEY_ARG:
        if (w->spec)
            argp_usage(state);
        w->spec = arg;
        return 0;
    case ARGP_KEY_END:
        if (!w->spec)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int show(const struct words *w)
{
    char *text = NULL, *svg = NULL;
    int failed = cli_fault(veche_topology(w->spec, w->weights, w->seed, w->json ? NULL : &text,
                                          w->json ? &text : NULL, w->svg ? &svg : NULL));
    if (failed)
        return failed;
    if (w->svg)
        failed = cli_save(w->svg, svg);
    free(svg);
    if (failed) {
        free(text);
        return failed;
    }
    cli_print(text);
    return 0;
}

int cli_topology(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"weights", 'w', "KIND", 0,
         "uniform, metropolis, best-constant or fastest (fastest, unless the graph is large)", 0},
        {"json", 'j', 0, 0, "Print one JSON object", 0},
        {"svg", 's', "FILE", 0, "Draw the graph into FILE", 0},
        {"seed", 'r', "N", 0, "Of graphs that are drawn at random, as train.seed (1)", 0},
        {0}};
    static const struct argp parser = {
        options,
        take_word,
        "SPEC",
        "Shows a graph of agents, how its mixing weights look and how fast they bring agreement. SPEC is "
        "cycle:N, "
        "chords:N:K, expander:N, torus:RxC, grid:RxC, complete:N, star:N, path:N, hypercube:D, "
        "exponential:N, random:N:P, "
        "regular:N:D, small-world:N:K:P, tree:N:FANOUT or file:PATH (two numbers on a line for each edge).",
        NULL,
        NULL,
        NULL};
    struct words w = {.seed = 1};
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    return show(&w);
}
