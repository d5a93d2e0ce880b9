/* streams.c - standard input, output and error, as they were handed to us.
 *
 * One that is closed would give its number to the next file that is opened, and a table would be written into
 * a run's events. So it becomes /dev/null, opened the wrong way round: what is read or written there fails,
 * as it would if it were still closed. What standard output could not take is said once, at the very end,
 * whatever part of the program wrote it; the exit code is then 1.
 *
 * A write beyond `ulimit -f` fails as one to a full disk does, in place of ending the program with half a
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

static void close_output(void)
{
    bool failed = ferror(stdout) != 0;
    if (fclose(stdout) == EOF || failed) {
        fputs("veche: standard output cannot be written\n", stderr);
        _exit(1);
    }
}

bool streams_open(void)
{
    static const int wrong_way[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int i = 0; i < 3; i++) /* the lowest number that is free is taken, so lower ones come first */
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", wrong_way[i]) != i)
            return false;
    signal(SIGXFSZ, SIG_IGN);
    return atexit(close_output) == 0;
}
