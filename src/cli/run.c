/* run.c - `veche run`, `veche resume`: train with everything a person at a terminal expects.
 *
 * SIGINT and SIGTERM are taken by a thread of their own that asks the run to stop; a second one ends the
 * program at once (the last checkpoint stays whole, since files are replaced only by rename).
 */
#include <argp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

struct words {
    const char *file; /* an experiment or a run */
    char **overrides;
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

struct watchman {
    veche_run *run;
    sigset_t signals;
    pthread_t thread;
};

static void *watch_signals(void *arg)
{
    struct watchman *w = arg;
    for (int seen = 0;; seen++) {
        int signal_number;
        sigwait(&w->signals, &signal_number);
        if (signal_number == SIGUSR1)
            return NULL; /* the run is over */
        if (seen) {
            fputs("\nveche: stopped at once; the last checkpoint is whole\n", stderr);
            _exit(1);
        }
        fputs("\nveche: stopping after this round; once more to stop at once\n", stderr);
        veche_stop(w->run);
    }
}

static int print_end(const veche_run *r, bool json)
{
    char *text = NULL;
    int failed = cli_fault(json ? veche_summary(r, &text) : veche_table(r, &text));
    return failed ? failed : cli_print(text);
}

/* Trains a run that is open; the signals were blocked before its threads were made. */
static int train(veche_run *r, struct progress *progress, bool json, const sigset_t *signals)
{
    struct watchman watchman = {.run = r, .signals = *signals};
    bool watched = pthread_create(&watchman.thread, NULL, watch_signals, &watchman) == 0;
    fprintf(stderr, "%s\nrun: %s\n", veche_run_engine(r), veche_run_folder(r));
    veche_fault *f = veche_go(r);
    progress_end(progress);
    if (watched) {
        pthread_kill(watchman.thread, SIGUSR1);
        pthread_join(watchman.thread, NULL);
    }
    int failed = 0;
    if (!f || veche_fault_is_stop(f))
        failed = print_end(r, json);
    return cli_fault(f) || failed;
}

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGUSR1); /* from this program to its own watchman */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

static veche_fault *load_with_overrides(const struct words *w, veche_experiment **out)
{
    veche_fault *f = veche_load(w->file, out);
    for (size_t i = 0; !f && i < w->n_overrides; i++) {
        f = veche_override(*out, w->overrides[i]);
        if (f)
            veche_experiment_free(*out);
    }
    return f;
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
    struct progress progress;
    sigset_t signals;
    veche_experiment *e = NULL;
    veche_run *r = NULL;
    if (!w.overrides)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    progress_init(&progress);
    block_signals(&signals);
    int failed = cli_fault(load_with_overrides(&w, &e));
    free(w.overrides);
    if (failed)
        return failed;
    veche_options options = {.folder = w.folder, .watch = progress_watch, .ctx = &progress};
    failed = cli_fault(veche_start(e, &options, &r));
    veche_experiment_free(e);
    if (failed)
        return failed;
    failed = train(r, &progress, w.json, &signals);
    veche_close(r);
    return failed;
}

int cli_resume(int argc, char **argv)
{
    static const struct argp parser = {
        resume_options, take_word, "RUN", "Goes on with the run in folder RUN from its last checkpoint",
        NULL,           NULL,      NULL};
    struct words w = {0};
    struct progress progress;
    sigset_t signals;
    veche_run *r = NULL;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    progress_init(&progress);
    block_signals(&signals);
    veche_options options = {.watch = progress_watch, .ctx = &progress};
    if (cli_fault(veche_resume(w.file, &options, &r)))
        return 1;
    int failed = train(r, &progress, w.json, &signals);
    veche_close(r);
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
    int failed = cli_fault(load_with_overrides(&w, &e));
    free(w.overrides);
    if (failed)
        return failed;
    char *layers = NULL;
    failed = cli_fault(veche_describe_model(e, &layers));
    if (!failed) {
        failed = cli_fault(veche_print(e, &text)) || cli_print(text);
        putchar('\n');
        failed = cli_print(layers) || failed;
    }
    veche_experiment_free(e);
    return failed;
}
