/* data.c - veche data list | get NAME [--from PATH] | verify NAME.
 *
 * The progress is a bar that redraws itself on a terminal, and a line for each new step elsewhere. Signals that ask to stop are
 * held back and looked for between steps, so that a stopped fetch can clean up; for the same reason a pipe that is not read
 * does not end it.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { WRONG_USAGE = 2, BAR = 30, PATH_ROOM = 4096 };

struct display {
    const char *name;
    bool terminal, drawn;
    char what[64]; /* the step last shown */
};

static int usage(void)
{
    fputs("usage: veche data list\n"
          "       veche data get NAME [--from FOLDER-OR-ARCHIVE]\n"
          "       veche data verify NAME\n",
          stderr);
    return WRONG_USAGE;
}

/* One that asks to stop is held back. */
static bool is_stopped(void)
{
    sigset_t stops, pending;
    cli_stop_signals(&stops);
    sigpending(&pending);
    sigandset(&pending, &pending, &stops);
    return !sigisemptyset(&pending);
}

static void draw_bar(struct display *d, const char *what, uint64_t done, uint64_t total)
{
    char bar[BAR + 1];
    size_t full = total ? (size_t)((double)done / (double)total * BAR) : 0;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = 0;
    fprintf(stderr, "\r\033[K%s: %s [%s]", d->name, what, bar);
    if (total)
        fprintf(stderr, " %3.0f %%", 100.0 * (double)done / (double)total);
    fflush(stderr);
    d->drawn = true;
}

static bool show(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct display *d = ctx;
    if (d->terminal)
        draw_bar(d, what, done, total);
    else if (strncmp(d->what, what, sizeof d->what - 1) != 0)
        fprintf(stderr, "%s: %s\n", d->name, what);
    snprintf(d->what, sizeof d->what, "%s", what);
    return !is_stopped();
}

static void clear_bar(const struct display *d)
{
    if (d->drawn)
        fputs("\r\033[K", stderr);
}

static veche_fault *say_where(const char *name)
{
    veche_dataset d;
    for (size_t i = 0; i < veche_dataset_count(); i++) {
        veche_fault *f = veche_dataset_at(i, &d);
        if (f)
            return f;
        if (strcmp(d.name, name) == 0)
            printf("%s is in %s, every file as it should be\n", name, d.folder);
    }
    return NULL;
}

/* Runs get or verify with the signals held back, then says where the set lies. */
static int work_on(const char *name, bool get, const char *from)
{
    struct display d = {.name = name, .terminal = isatty(STDERR_FILENO)};
    sigset_t stops, before;
    cli_stop_signals(&stops);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &stops, &before);
    veche_fault *f = get ? veche_dataset_get(name, from, show, &d) : veche_dataset_verify(name, show, &d);
    while (is_stopped() && sigtimedwait(&stops, NULL, &(struct timespec){0}) > 0)
        continue; /* it has been heeded */
    sigprocmask(SIG_SETMASK, &before, NULL);
    clear_bar(&d);
    return cli_fault(f ? f : say_where(name));
}

static veche_fault *print_list(void)
{
    veche_dataset d;
    char folder[PATH_ROOM];
    printf("%-15s %-9s %s\n", "name", "", "what it is");
    for (size_t i = 0; i < veche_dataset_count(); i++) {
        veche_fault *f = veche_dataset_at(i, &d);
        if (f)
            return f;
        printf("%-15s %-9s %s\n", d.name, d.here ? "here" : "not here", d.help);
        if (d.here)
            printf("%-15s %-9s in %s\n", "", "", d.folder);
    }
    veche_fault *f = veche_data_folder(folder, sizeof folder);
    if (!f)
        printf("\nData folder: %s (VECHE_DATA sets it)\n", folder);
    return f;
}

int cli_data(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return cli_fault(print_list());
    if (argc == 3 && strcmp(argv[1], "verify") == 0)
        return work_on(argv[2], false, NULL);
    if (argc == 3 && strcmp(argv[1], "get") == 0)
        return work_on(argv[2], true, NULL);
    if (argc == 5 && strcmp(argv[1], "get") == 0 && strcmp(argv[3], "--from") == 0)
        return work_on(argv[2], true, argv[4]);
    return usage();
}
