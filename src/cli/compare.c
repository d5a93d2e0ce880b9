/* compare.c - `veche compare`: one experiment by several methods, and `veche resume` of such a comparison. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct words {
    const char *file;
    const char **overrides;
    const char **over;
    size_t n_overrides, n_over;
    const char *out;
    double target;
    bool json;
};

static const struct argp_option options[] = {
    {"over", 'v', "KEY=A,B,...", 0,
     "Compare over these values instead of all strategies that fit; several lists make every combination. A "
     "value may be "
     "a map or a list: --over 'strategy={kind: consensus, every: 5},gossip'",
     0},
    {"target", 't', "PERCENT", 0, "Time every method to this accuracy, for example 90%", 0},
    {"json", 'j', 0, 0, "Print one JSON object at the end instead of the table", 0},
    {"out", 'o', "FOLDER", 0, "Where the comparison is kept (default: runs/NAME-compare)", 0},
    {0},
};

static double read_target(const char *text, struct argp_state *state)
{
    char *end;
    double target = strtod(text, &end);
    if (end == text || (strcmp(end, "") && strcmp(end, "%")) || !(target > 0 && target <= 100))
        argp_error(state, "--target takes an accuracy above 0 and up to 100%%, and not '%s'", text);
    return target;
}

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'v':
        w->over[w->n_over++] = arg;
        return 0;
    case 't':
        w->target = read_target(arg, state);
        return 0;
    case 'j':
        w->json = true;
        return 0;
    case 'o':
        w->out = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!w->file)
            w->file = arg;
        else
            w->overrides[w->n_overrides++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!w->file)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void stop(void *comparison)
{
    char who[160];
    cli_leave_if_lost(veche_compare_lost(comparison, who, sizeof who), who);
    if (veche_compare_leads(comparison))
        cli_say_stopping();
    veche_compare_stop(comparison);
}

static int print_end(const veche_comparison *c, bool json)
{
    char *text = NULL;
    int failed = cli_fault(veche_compare_print(c, json, &text));
    if (!failed)
        cli_print(text);
    if (json)
        putchar('\n');
    return failed;
}

/* Trains a comparison that is open, and closes it. */
static int go(veche_comparison *c, struct progress_display *progress, bool json, struct watchman *watchman)
{
    bool leads = veche_compare_leads(c);
    if (leads)
        fprintf(stderr, "comparison: %s\n", veche_compare_folder(c));
    watchman_begin(watchman, stop, c);
    veche_fault *f = veche_compare_go(c);
    watchman_end(watchman);
    progress_end(progress);
    int failed = 0;
    if (leads && (!f || veche_fault_is_stop(f)))
        failed = print_end(c, json);
    if (leads && !f && !json)
        fprintf(stderr, "report: %s/report.html\n", veche_compare_folder(c));
    veche_compare_close(c);
    return cli_end(f) || failed;
}

int cli_compare(int argc, char **argv)
{
    static const struct argp parser = {options,
                                       take_word,
                                       "FILE [key=value ...]",
                                       "Trains the experiment in FILE by several methods on the same data, "
                                       "seed and machines, and shows them side by "
                                       "side. Without --over, by every strategy that fits. Under mpirun with "
                                       "world=mpi, on the machines themselves. A comparison that "
                                       "was interrupted goes on by `veche resume "
                                       "FOLDER`.",
                                       NULL,
                                       NULL,
                                       NULL};
    struct words w = {.overrides = calloc((size_t)argc, sizeof(char *)),
                      .over = calloc((size_t)argc, sizeof(char *))};
    struct progress_display progress;
    struct watchman watchman;
    veche_experiment *e = NULL;
    veche_comparison *c = NULL;
    int failed = !w.overrides || !w.over;
    argp_err_exit_status = 2;
    if (!failed)
        argp_parse(&parser, argc, argv, 0, NULL, &w);
    watchman_init(&watchman);
    progress_init(&progress, &watchman);
    if (!failed)
        failed = cli_fault(veche_agree(veche_load_with(w.file, w.overrides, w.n_overrides, &e))) || cli_refuse_crowd(e);
    veche_options o = {.watch = progress_watch, .ctx = &progress};
    if (!failed)
        failed = cli_fault(veche_compare(e, w.over, w.n_over, w.target, w.out, &o, &c));
    veche_experiment_free(e);
    free(w.overrides);
    free(w.over);
    if (!failed)
        failed = go(c, &progress, w.json, &watchman);
    watchman_end(&watchman);
    return failed;
}

int cli_resume_comparison(const char *folder, bool json)
{
    struct progress_display progress;
    struct watchman watchman;
    veche_comparison *c = NULL;
    watchman_init(&watchman);
    progress_init(&progress, &watchman);
    veche_options o = {.watch = progress_watch, .ctx = &progress};
    int failed = cli_fault(veche_compare_resume(folder, &o, &c));
    if (!failed)
        failed = go(c, &progress, json, &watchman);
    watchman_end(&watchman);
    return failed;
}
