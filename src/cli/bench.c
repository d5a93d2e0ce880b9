/* bench.c - `veche bench`: figures as JSON. */
#include <argp.h>
#include <stdlib.h>

#include "cli/cli.h"

struct words {
    const char *what;
    const char **settings;
    size_t n_settings;
};

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'j':
        return 0; /* figures are always JSON */
    case ARGP_KEY_ARG:
        if (!w->what)
            w->what = arg;
        else
            w->settings[w->n_settings++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!w->what)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_bench(int argc, char **argv)
{
    static const struct argp_option options[] = {{"json", 'j', 0, 0, "Print JSON (always so)", 0}, {0}};
    static const struct argp parser = {options,
                                       take_word,
                                       "engine|local|mix|allreduce [key=value ...]",
                                       "engine: how many samples a second an engine trains on. Settings and "
                                       "defaults: model=resnet20 batch=32 accumulate=1 "
                                       "precision=fp32 threads=0 replicas=1 seconds=5 engine=auto "
                                       "optim=auto channels=0 size=0. local: what a message costs in the local "
                                       "world, with an engine that does nothing. mix: what the world and "
                                       "mixing cost beside an engine at work. Both take "
                                       "overrides of an experiment: agents=100 topology=cycle:100. "
                                       "allreduce: how long a sum over agents takes on a network by every "
                                       "algorithm, and should by its formula. Settings and defaults: "
                                       "agents=16 floats=1000000 latency_ms=1 bandwidth_mbps=1000. Under "
                                       "mpirun with world=mpi: how long it really takes, beside the MPI's own; "
                                       "shortest_kb=1 longest_kb=102400 repeats=15.",
                                       NULL,
                                       NULL,
                                       NULL};
    struct words w = {.settings = calloc((size_t)argc, sizeof(char *))};
    char *text = NULL;
    if (!w.settings)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    int failed = cli_fault(veche_bench(w.what, w.settings, w.n_settings, &text));
    free(w.settings);
    if (!failed)
        cli_print(text);
    return failed;
}
