/* list.c - `veche list [CATEGORY]`. */
#include <argp.h>

#include "cli/cli.h"

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    const char **category = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (*category)
        argp_usage(state);
    *category = arg;
    return 0;
}

int cli_list(int argc, char **argv)
{
    static const struct argp parser = {NULL,
                                       take_word,
                                       "[CATEGORY]",
                                       "Lists the names one may write in an experiment, with their settings. "
                                       "Categories: sets, splits, models, "
                                       "layers, optimisers, schedules, topologies, strategies, engines, "
                                       "worlds, machines, speeds, stragglers, settings.",
                                       NULL,
                                       NULL,
                                       NULL};
    const char *category = NULL;
    char *text = NULL;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &category);
    int failed = cli_fault(veche_list(category, &text));
    if (!failed)
        cli_print(text);
    return failed;
}
