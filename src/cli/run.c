/* run.c - `veche run`, `veche resume`: train with everything a person at a terminal expects. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

struct words {
    const char *file; /* an experiment or a run */
    const char **overrides;
    size_t n_overrides;
    const char *folder;
    bool json, takes_overrides;
};

static const struct argp_option run_options[] = {
    {"json", 'j', 0, 0, "Print one JSON object at the end instead of the table", 0},
    {"folder", 'd', "FOLDER", 0, "Where run folders are made (default: runs)", 0},
    {0},
};

static const struct argp_option resume_options[] = {
    {"json", 'j', 0, 0, "Print one JSON object at the end instead of the table", 0},
    {0},
};

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'j':
        w->json = true;
        return 0;
    case 'd':
        w->folder = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!w->file)
            w->file = arg;
        else if (w->takes_overrides)
            w->overrides[w->n_overrides++] = arg;
        else
            argp_usage(state);
        return 0;
    case ARGP_KEY_END:
        if (!w->file)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void stop(void *run)
{
    char who[160];
    cli_leave_if_lost(veche_run_lost(run, who, sizeof who), who);
    if (veche_run_leads(run))
        cli_say_stopping();
    veche_stop(run);
}

static int print_end(const veche_run *r, bool json)
{
    char *text = NULL;
    int failed = cli_fault(json ? veche_summary(r, &text) : veche_table(r, &text));
    if (!failed)
        cli_print(text);
    return failed;
}

static void print_start(const veche_run *r)
{
    char *places = NULL;
    fprintf(stderr, "%s\nrun: %s\n", veche_run_engine(r), veche_run_folder(r));
    if (!cli_fault(veche_run_places(r, &places)))
        fputs(places, stderr);
    free(places);
}

/* Trains a run that is open; the signals were blocked before its threads were made. */
static int train(veche_run *r, struct progress_display *progress, bool json, struct watchman *watchman)
{
    bool leads = veche_run_leads(r);
    watchman_begin(watchman, stop, r);
    if (leads)
        print_start(r);
    veche_fault *f = veche_go(r);
    progress_end(progress);
    watchman_end(watchman);
    int failed = 0;
    if (leads && (!f || veche_fault_is_stop(f)))
        failed = print_end(r, json);
    return cli_end(f) || failed;
}

int cli_refuse_crowd(const veche_experiment *e)
{
    if (veche_processes() < 2 || strcmp(veche_experiment_world(e), veche_launched_world()) == 0)
        return 0;
    fprintf(stderr,
            "veche: %zu processes were started, but the experiment's world is '%s', which is one process: "
            "write world=%s\n",
            veche_processes(), veche_experiment_world(e), veche_launched_world());
    return 1;
}

int cli_run(int argc, char **argv)
{
    static const struct argp parser = {
        run_options,
        take_word,
        "FILE [key=value ...]",
        "Trains the experiment in FILE. Any value can be overridden: optim.lr=0.01",
        NULL,
        NULL,
        NULL};
    struct words w = {.takes_overrides = true, .overrides = calloc((size_t)argc, sizeof(char *))};
    struct progress_display progress;
    struct watchman watchman;
    veche_experiment *e = NULL;
    veche_run *r = NULL;
    if (!w.overrides)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    watchman_init(&watchman);
    progress_init(&progress, &watchman);
    int failed = cli_fault(veche_agree(veche_load_with(w.file, w.overrides, w.n_overrides, &e)));
    free(w.overrides);
    failed = failed ? failed : cli_refuse_crowd(e);
    veche_options options = {.folder = w.folder, .watch = progress_watch, .ctx = &progress};
    failed = failed ? failed : cli_fault(veche_start(e, &options, &r));
    veche_experiment_free(e);
    if (!failed)
        failed = train(r, &progress, w.json, &watchman);
    veche_close(r);
    watchman_end(&watchman);
    return failed;
}

static int resume_comparison(const struct words *w)
{
    int failed = w->n_overrides > 0;
    if (failed)
        fprintf(stderr,
                "veche: %s: a comparison goes on as it was begun, with the same settings for all: %s cannot "
                "change\n",
                w->file, w->overrides[0]);
    free(w->overrides);
    return failed ? failed : cli_resume_comparison(w->file, w->json);
}

int cli_resume(int argc, char **argv)
{
    static const struct argp parser = {resume_options,
                                       take_word,
                                       "RUN [key=value ...]",
                                       "Goes on with the run in folder RUN from its last checkpoint, or with "
                                       "the comparison in folder RUN. A few values of a run may "
                                       "change: train.epochs=20 to go on for longer, train.stop=never, "
                                       "engine.threads, how often to evaluate and save",
                                       NULL,
                                       NULL,
                                       NULL};
    struct words w = {.takes_overrides = true, .overrides = calloc((size_t)argc, sizeof(char *))};
    struct progress_display progress;
    struct watchman watchman;
    veche_run *r = NULL;
    if (!w.overrides)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    if (veche_is_comparison(w.file))
        return resume_comparison(&w);
    watchman_init(&watchman);
    progress_init(&progress, &watchman);
    veche_options options = {.watch = progress_watch, .ctx = &progress};
    int failed = cli_fault(veche_resume_with(w.file, w.overrides, w.n_overrides, &options, &r));
    free(w.overrides);
    if (!failed)
        failed = train(r, &progress, w.json, &watchman);
    veche_close(r);
    watchman_end(&watchman);
    return failed;
}

int cli_check(int argc, char **argv)
{
    static const struct argp parser = {
        NULL,
        take_word,
        "FILE [key=value ...]",
        "Checks the experiment in FILE and prints it with every default, and its layers",
        NULL,
        NULL,
        NULL};
    struct words w = {.takes_overrides = true, .overrides = calloc((size_t)argc, sizeof(char *))};
    veche_experiment *e = NULL;
    char *text = NULL;
    if (!w.overrides)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    int failed = cli_fault(veche_load_with(w.file, w.overrides, w.n_overrides, &e));
    free(w.overrides);
    if (failed)
        return failed;
    char *layers = NULL;
    failed = cli_fault(veche_describe_model(e, &layers)) || cli_fault(veche_print(e, &text));
    if (!failed) {
        cli_print(text);
        putchar('\n');
        cli_print(layers);
    } else {
        free(layers);
    }
    veche_experiment_free(e);
    return failed;
}
