/* signals.c - Ctrl+C at a long job.
 *
 * SIGINT and SIGTERM are taken by a thread of their own that asks the job to stop, and says so; a second one, or one that
 * comes before the job begins, ends the program at once (what is on the disk stays whole, since files are replaced only by
 * rename).
 */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

static void end_at_once(const char *words)
{
    fputs(words, stderr);
    _exit(1);
}

/* A launcher sends signals to all when one of its processes ends, which may be because all do: they get the time to say why. */
enum { GRACE_S = 2 };

/* False: it is over without having begun. */
static bool job_begins(struct watchman *w)
{
    sigset_t over;
    sigemptyset(&over);
    sigaddset(&over, SIGUSR1);
    if (veche_processes() > 1 && sigtimedwait(&over, NULL, &(struct timespec){GRACE_S, 0}) == SIGUSR1)
        return false;
    if (!atomic_load(&w->job))
        end_at_once("\nveche: stopped before it began\n");
    return true;
}

static void *watch_signals(void *arg)
{
    struct watchman *w = arg;
    for (int seen = 0;; seen++) {
        int signal_number;
        sigwait(&w->signals, &signal_number);
        if (signal_number == SIGUSR1)
            return NULL; /* the job is over */
        if (seen)
            end_at_once("\nveche: stopped at once; the last checkpoint is whole\n");
        if (!atomic_load(&w->job) && !job_begins(w))
            return NULL;
        w->stop(atomic_load(&w->job));
    }
}

void cli_say_stopping(void)
{
    fputs("\nveche: stopping after this round; once more to stop at once\n", stderr);
}

void watchman_init(struct watchman *w)
{
    *w = (struct watchman){0};
    sigemptyset(&w->signals);
    sigaddset(&w->signals, SIGINT);
    sigaddset(&w->signals, SIGTERM);
    sigaddset(&w->signals, SIGUSR1); /* from this program to its own watchman */
    pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
    w->watches = pthread_create(&w->thread, NULL, watch_signals, w) == 0;
}

void watchman_begin(struct watchman *w, void (*stop)(void *job), void *job)
{
    w->stop = stop;
    atomic_store(&w->job, job);
}

void watchman_end(struct watchman *w)
{
    if (!w->watches)
        return;
    pthread_kill(w->thread, SIGUSR1);
    pthread_join(w->thread, NULL);
    w->watches = false;
}

void cli_leave_if_lost(int gone, const char *who)
{
    if (!gone)
        return;
    if (gone == 1)
        fprintf(stderr, "\nveche: %s is gone, and the run with it; go on from its last checkpoint with veche resume\n", who);
    _exit(1);
}
