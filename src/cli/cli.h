/* cli.h - the commands. Each gets the words after its name and returns the exit code: 0 done, 1 a fault
 * (already told on stderr), 2 wrong usage. */
#ifndef VECHE_CLI_CLI_H
#define VECHE_CLI_CLI_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "veche.h"

int cli_run(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_list(int argc, char **argv);
int cli_data(int argc, char **argv);
int cli_topology(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_graph(int argc, char **argv);
int cli_resume(int argc, char **argv);
int cli_compare(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_bench(int argc, char **argv);

/* Tells a fault on stderr, frees it, and gives the exit code for it. */
int cli_fault(veche_fault *f);
/* The same for what a run ended with. A launcher makes one exit code of those of all processes: where the others go on without this
 * one it is theirs that counts. */
int cli_end(veche_fault *f);
/* Prints a text of the library on stdout and frees it. */
void cli_print(char *text);
/* save.c: a text as a file, which appears whole or not at all; the exit code. */
int cli_save(const char *path, const char *text);
/* streams.c: before anything is opened. False: there is no /dev/null. From then on a stdout that does not take what is printed is
 * said at the end, and makes the exit code 1. */
bool streams_open(void);

/* 1, and says so, where a launcher has started several of us for an experiment that is one process: each would train all
 * of it by itself. */
int cli_refuse_crowd(const veche_experiment *e);

/* compare.c: for `veche resume`. */
int cli_resume_comparison(const char *folder, bool json);

/* signals.c: the first signal that asks to stop calls stop(job) from another thread. A second SIGINT or SIGTERM, if it comes a second later or
 * more, ends the program, as does one that comes before there is a job. */
struct watchman {
    void (*stop)(void *job);
    _Atomic(void *) job; /* borrowed; NULL before it begins */
    sigset_t signals;
    pthread_t thread;
    bool watches;
    atomic_bool has_asked; /* the job to stop */
};
void cli_signals_open(void);                /* at the start: what `nohup` ignores is ignored, whatever a library has made of it */
void watchman_init(struct watchman *w); /* before any other thread is made: blocks the signals */
void watchman_begin(struct watchman *w, void (*stop)(void *job), void *job);
void watchman_end(struct watchman *w);
void watchman_stop(struct watchman *w); /* as one signal does, from any thread */
void cli_stop_signals(sigset_t *set);   /* those that ask to stop */
void cli_say_stopping(void);
/* A launcher that has lost a process sends the same signal to the others before it ends them: they could only wait for the
 * one that is gone, so they go at once. `gone`: as veche_run_lost says. */
void cli_leave_if_lost(int gone, const char *who);

/* witness.c: under MPICH's mpirun, a process that tells if this one is killed. Before any thread is made. */
void witness_begin(void);

/* progress.c: a bar on a terminal, plain lines elsewhere. */
struct progress_display {
    bool terminal, bar_shown;
    double last_s;
    struct watchman *watchman; /* borrowed: told when it is not read any more (`2>&1 | head -2`) */
};
void progress_init(struct progress_display *p, struct watchman *w);
void progress_watch(void *progress, const veche_event *event);
void progress_end(struct progress_display *p); /* leaves the cursor on a fresh line */

#endif
