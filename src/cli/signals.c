/* signals.c - Ctrl+C at a long job, and whatever else asks it to stop.
 *
 *   SIGINT, SIGTERM   taken by a thread of their own that asks the job to stop, and says so; one that comes a second later or
 *                     more, or before the job begins, ends the program at once (what is on the disk stays whole, since files
 *                     are replaced only by rename)
 *   SIGHUP            the same, but however often it comes it never means: at once. Not under `nohup`
 *   SIGXCPU           likewise; the kernel repeats it every second from `ulimit -St` on
 *   SIGPIPE           ignored: a progress line that is not read any more asks the job to stop (progress.c)
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
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

/* `timeout` and some launchers send a signal twice, to the process and to its group: that is one word. */
static const double TWICE_S = 1;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void watchman_stop(struct watchman *w)
{
    void *job = atomic_load(&w->job);
    if (job && !atomic_exchange(&w->has_asked, true))
        w->stop(job);
}

static bool is_in_earnest(int signal_number)
{
    return signal_number == SIGINT || signal_number == SIGTERM;
}

static void *watch_signals(void *arg)
{
    struct watchman *w = arg;
    double asked_s = 0; /* not yet, in earnest */
    for (;;) {
        int signal_number;
        sigwait(&w->signals, &signal_number);
        if (signal_number == SIGUSR1)
            return NULL; /* the job is over */
        if (is_in_earnest(signal_number) && asked_s > 0) {
            if (now_s() >= asked_s + TWICE_S)
                end_at_once("\nveche: stopped at once; the last checkpoint is whole\n");
            continue;
        }
        if (!atomic_load(&w->job) && !job_begins(w))
            return NULL;
        if (is_in_earnest(signal_number))
            asked_s = now_s();
        watchman_stop(w);
    }
}

/* A library may have made a thread that takes signals, or let ours take them: it gives the signal back for the watchman,
 * and takes no more. */
static void give_back(int signal_number, siginfo_t *unused, void *context)
{
    (void)unused;
    sigset_t *mask = &((ucontext_t *)context)->uc_sigmask, stops;
    cli_stop_signals(&stops);
    sigorset(mask, mask, &stops);
    kill(getpid(), signal_number);
}

void cli_say_stopping(void)
{
    fputs("\nveche: stopping after this round; once more to stop at once\n", stderr);
}

/* ---- nohup ---- */

/* A library may take SIGHUP for itself as it is loaded, though `nohup` had it ignored (libpsm2 does, which Open MPI 5 brings along). So
 * this is called before any library begins; that the signal is blocked tells cli_signals_open. No library is there yet, nor a sanitizer's:
 * the kernel is asked by itself. */
static void block_what_is_ignored(void)
{
    unsigned long action[8] = {0}, hangup = 1ul << (SIGHUP - 1); /* the kernel's struct begins with the handler */
    bool is_known = syscall(SYS_rt_sigaction, SIGHUP, NULL, action, sizeof hangup) == 0;
    if (is_known && action[0] == (unsigned long)SIG_IGN)
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &hangup, NULL, sizeof hangup);
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(void) = block_what_is_ignored;

void cli_signals_open(void)
{
    sigset_t now, hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    if (pthread_sigmask(SIG_SETMASK, NULL, &now) != 0 || sigismember(&now, SIGHUP) != 1)
        return;
    signal(SIGHUP, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, &hangup, NULL);
}

static bool is_ignored(int signal_number)
{
    struct sigaction now;
    return sigaction(signal_number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void cli_stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGXCPU);
    if (!is_ignored(SIGHUP))
        sigaddset(set, SIGHUP);
}

void watchman_init(struct watchman *w)
{
    *w = (struct watchman){0};
    sigset_t stops;
    cli_stop_signals(&stops);
    w->signals = stops;
    sigaddset(&w->signals, SIGUSR1); /* from this program to its own watchman */
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
    w->watches = pthread_create(&w->thread, NULL, watch_signals, w) == 0;
    if (!w->watches) {
        pthread_sigmask(SIG_UNBLOCK, &w->signals, NULL);
        return;
    }
    struct sigaction a = {.sa_sigaction = give_back, .sa_flags = SA_SIGINFO | SA_RESTART};
    a.sa_mask = w->signals;
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&stops, i) == 1)
            sigaction(i, &a, NULL);
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
