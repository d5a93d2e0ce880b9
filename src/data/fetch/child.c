/* child.c - a program in a process group of its own, its output in a pipe.
 *
 *   spawn -> every tenth of a second: read its output, measure the folder, tell the progress -> wait
 *
 * The group is killed as one, and the pipe's end tells when the last of the group is gone, so nothing writes
 * into the folder after child_run has returned.
 */
#include "data/fetch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "data/folder.h"

enum { KEPT = 8192, LOOK_MS = 100, DYING_LOOKS = 50, READS = 64 };

extern char **environ;

struct running {
    pid_t pid;
    int out;         /* our end of its output */
    char said[KEPT]; /* the beginning of what it said, and the end, when that is more than fits */
    size_t n_said;
};

static void keep_said(struct running *r, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (r->n_said == KEPT) {
            memmove(r->said + KEPT / 4, r->said + KEPT / 2, KEPT / 2);
            r->n_said = KEPT / 4 * 3;
        }
        r->said[r->n_said++] = text[i];
    }
}

/* Reads what is there within the time, though not for ever from one who never stops talking; false when
 * nobody can write any more. */
static bool hear(struct running *r, int wait_ms)
{
    struct pollfd p = {.fd = r->out, .events = POLLIN};
    for (int i = 0; i < READS && poll(&p, 1, wait_ms) > 0; i++) {
        char text[1024];
        ssize_t n = read(r->out, text, sizeof text);
        if (n == 0)
            return false;
        if (n < 0)
            return errno == EINTR || errno == EAGAIN;
        keep_said(r, text, (size_t)n);
        wait_ms = 0;
    }
    return true;
}

/* One line of what it said, cut out in place. */
static const char *telling_line(struct running *r, enum tells tells)
{
    size_t begin = 0, end = 0, at = 0;
    while (at < r->n_said) {
        const char *newline = memchr(r->said + at, '\n', r->n_said - at);
        size_t stop = newline ? (size_t)(newline - r->said) : r->n_said;
        if (stop > at) {
            begin = at;
            end = stop;
            if (tells == TELLS_FIRST)
                break;
        }
        at = stop + 1;
    }
    if (begin == end)
        return "it does not say why";
    if (end == KEPT)
        end--;
    r->said[end] = 0;
    return r->said + begin;
}

static void kill_all(struct running *r)
{
    kill(-r->pid, SIGKILL);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    for (int i = 0; i < DYING_LOOKS && hear(r, LOOK_MS); i++)
        continue;
}

static fault set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes, const char *folder,
                    int out)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(files, out, 1);
    error = error ? error : posix_spawn_file_actions_adddup2(files, out, 2);
    error = error ? error : posix_spawn_file_actions_addchdir_np(files, folder);
    error = error ? error : posix_spawnattr_setpgroup(attributes, 0);
    error = error ? error : posix_spawnattr_setsigmask(attributes, &none);
    error = error ? error : posix_spawnattr_setsigdefault(attributes, &all);
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    error = error ? error : posix_spawnattr_setflags(attributes, flags);
    return error ? FAIL(FAULT_MEMORY, "a program cannot be started: %s", strerror(error)) : OK;
}

static fault spawn(const struct child *c, int out, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0)
        return FAIL(FAULT_MEMORY, "out of memory");
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return FAIL(FAULT_MEMORY, "out of memory");
    }
    fault f = set_up(&files, &attributes, c->folder, out);
    if (!f) {
        int error =
            posix_spawnp(pid, c->argv[0], &files, &attributes, (char *const *)(uintptr_t)c->argv, environ);
        if (error)
            f = FAIL(FAULT_FILE, "the program %s cannot be run: %s", c->argv[0], strerror(error));
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return f;
}

static fault judge(const struct child *c, struct running *r, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return OK;
    if (WIFSIGNALED(status))
        return FAIL(FAULT_FILE, "%s was ended by signal %d", c->argv[0], WTERMSIG(status));
    return FAIL(FAULT_FILE, "%s failed with exit code %d: %s", c->argv[0], WEXITSTATUS(status),
                telling_line(r, c->tells));
}

static fault watch(const struct child *c, struct running *r, const struct listener *listener)
{
    uint64_t before = 0;
    double grew_s = clock_now_s();
    for (;;) {
        int status;
        bool open = hear(r, LOOK_MS);
        pid_t ended = waitpid(r->pid, &status, open ? WNOHANG : 0);
        if (ended == r->pid) {
            hear(r, 0);
            return judge(c, r, status);
        }
        uint64_t now = folder_bytes(c->folder);
        if (now > before)
            grew_s = clock_now_s();
        before = now;
        fault f = listener_tell(listener, c->what, c->total && now > c->total ? c->total : now, c->total);
        if (!f && clock_now_s() - grew_s > c->patience_s)
            f = FAIL(FAULT_TIMEOUT, "%s brought nothing for %g seconds", c->argv[0], c->patience_s);
        if (f) {
            kill_all(r);
            return f;
        }
    }
}

fault child_run(const struct child *c, const struct listener *listener)
{
    struct running r = {0};
    int ends[2];
    TRY(listener_tell(listener, c->what, 0, c->total));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return FAIL(FAULT_FILE, "%s cannot be run: %s", c->argv[0], strerror(errno));
    r.out = ends[0];
    fcntl(r.out, F_SETFL, O_NONBLOCK);
    fault f = spawn(c, ends[1], &r.pid);
    close(ends[1]);
    if (!f)
        f = watch(c, &r, listener);
    close(r.out);
    return f;
}
