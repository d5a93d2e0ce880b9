/* witness.c - says which rank was killed, where the launcher does not, and sees to it that a job that failed ends as failed.
 *
 * MPICH's mpirun ends all other ranks at once when one is gone, and names one of them, as likely as not
 * another one. It notices by the end of the rank's connection to it. So a small process, forked before
 * anything else, holds that connection open, too: when its rank has ended it looks how, says so, and lets go.
 * A rank that mpirun itself ends takes its witness along, since both are of one process group. Once the
 * connection ends mpirun may leave without reading what was said before, so that is waited for.
 *
 * When a connection ends MPICH 4.2 takes the exit codes of all other ranks that it has not asked for yet to be 0. Of two ranks
 * that leave at one time each may so undo the other's, and a run that failed ends with exit code 0. So the witness lets go only
 * when its rank's code has been asked for:
 *
 *   the rank has ended -> its output is closed, at which mpirun asks for exit codes -> it has this one -> the connection ends
 *
 * A rank whose output goes into files leaves nothing to be noticed: then the connection ends a little later all the same, and mpirun
 * asks at that.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* The signal that killed a process whose parent has not asked for it yet; 0: it has ended by itself, -1: it
 * still ends. */
static int signal_that_killed(pid_t process)
{
    enum { STATE = 3, THREADS = 20, EXIT_CODE = 52 }; /* fields of the file, counted from one */
    char path[32], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    char *at = strrchr(text, ')'); /* its name may hold anything */
    if (!at || at[1] != ' ' || at[2] != 'Z')
        return -1;
    for (int field = STATE - 1; at && field < EXIT_CODE; field++) {
        if (field == THREADS && atoi(at) > 1) /* until the last has ended its parent is told nothing */
            return -1;
        at = strchr(at + 1, ' ');
    }
    return at ? atoi(at) & 0x7f : 0;
}

static void say(const char *rank, pid_t process, const char *host, int by)
{
    int unread = 0;
    dprintf(STDERR_FILENO, "veche: rank %s (process %d on %s) was killed by signal %d\n", rank, (int)process, host, by);
    for (int i = 0; i < 200 && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* and passed on, by launchers that may have other work */
}

/* Its parent has its exit code. */
static bool is_asked_for(pid_t process)
{
    return kill(process, 0) != 0 && errno == ESRCH;
}

static void watch_rank(int pipe_from_rank, const char *rank, pid_t process)
{
    char host[64] = "", word;
    sigset_t all;
    int by = -1;
    sigfillset(&all); /* what mpirun is told to pass on goes to the whole group */
    sigprocmask(SIG_BLOCK, &all, NULL);
    gethostname(host, sizeof host - 1);
    close(STDIN_FILENO);
    if (read(pipe_from_rank, &word, 1) != 0) /* nothing is ever written: this waits for its end */
        _exit(0);
    for (int i = 0; i < 1000 && (by = signal_that_killed(process)) < 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (by > 0)
        say(rank, process, host, by);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    for (int i = 0; i < 300 && !is_asked_for(process); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    _exit(0);
}

void witness_begin(void)
{
    const char *rank = getenv("PMI_RANK");
    int ends[2];
    pid_t self = getpid();
    if (!rank || !getenv("PMI_FD") || pipe(ends) != 0)
        return;
    if (fork() == 0) {
        close(ends[1]);
        watch_rank(ends[0], rank, self);
    }
    close(ends[0]); /* the other end is closed when this process is gone */
}
