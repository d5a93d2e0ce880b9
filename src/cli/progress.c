/* progress.c - how a long job looks: a bar that moves on a terminal, a line an evaluation elsewhere. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

enum { BAR = 24 };

static const double MUCH_WAITING = 0.03; /* from here on it is worth a word */

void progress_init(struct progress_display *p, struct watchman *w)
{
    *p = (struct progress_display){.terminal = isatty(STDERR_FILENO) != 0, .last_s = -1, .watchman = w};
    setlocale(LC_CTYPE, "");
}

static const char *clock_text(double seconds, char text[24])
{
    long s = seconds > 0 && seconds < 1e8 ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(text, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 24, "%ld:%02ld", s / 60, s % 60);
    return text;
}

/* A bar of so many cells; the text may hold multi-byte characters. */
static const char *bar_text(double share, size_t cells, char text[4 * BAR + 1])
{
    int utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    size_t full = (size_t)(share < 0 ? 0 : share > 1 ? (double)cells : share * (double)cells);
    text[0] = 0;
    for (size_t i = 0; i < cells; i++)
        strcat(text, i < full ? (utf8 ? "\u2588" : "#") : (utf8 ? "\u2591" : "."));
    return text;
}

static size_t terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* What may stand beside the bar, in this order. Where there is no room for all, what counts least is left out
 * whole.
 */
enum item { METHOD, EPOCH, RATE, LOSS, TEST, APART, WAITING, LEFT, N_ITEMS };

static const enum item by_weight[N_ITEMS] = {METHOD, EPOCH, TEST, WAITING, LEFT, LOSS, RATE, APART};

struct items {
    char text[N_ITEMS][64]; /* empty: nothing to say */
};

static void say_items(const veche_event *e, double share, struct items *s)
{
    char left[24];
    *s = (struct items){0};
    if (e->method)
        snprintf(s->text[METHOD], sizeof s->text[0], "%zu/%zu %.24s", e->number, e->methods, e->method);
    snprintf(s->text[EPOCH], sizeof s->text[0], "epoch %.1f/%g", e->epoch, e->epochs);
    snprintf(s->text[RATE], sizeof s->text[0], "%.0f img/s", e->images_per_s);
    snprintf(s->text[LOSS], sizeof s->text[0], "loss %.4f", e->train_loss);
    if (!isnan(e->accuracy))
        snprintf(s->text[TEST], sizeof s->text[0], "test %.2f%%", e->accuracy);
    if (!isnan(e->accuracy) && e->agents > 1)
        snprintf(s->text[APART], sizeof s->text[0], "apart %.2g", e->disagreement);
    if (e->waiting > MUCH_WAITING && e->waited_for)
        snprintf(s->text[WAITING], sizeof s->text[0], "waits %.0f-%.0f%%: %.20s", 100 * e->waiting_min,
                 100 * e->waiting_max, e->waited_for);
    if (e->images_per_s > 0 && share > 0)
        snprintf(s->text[LEFT], sizeof s->text[0], "left %s",
                 clock_text(e->real_s / share * (1 - share), left));
}

/* Leaves out what does not fit; two blanks stand before each. */
static void make_room(struct items *s, size_t room)
{
    for (size_t i = 0; i < N_ITEMS; i++) {
        char *text = s->text[by_weight[i]];
        size_t n = strlen(text) + 2;
        if (n > room)
            *text = 0;
        else if (*text)
            room -= n;
    }
}

static void draw_training(struct progress_display *p, const veche_event *e)
{
    struct items items;
    char bar[4 * BAR + 1];
    size_t width = terminal_width(), cells = width < 110 ? BAR / 4 : BAR;
    double share = e->rounds ? (double)e->round / (double)e->rounds : 0;
    say_items(e, share, &items);
    make_room(&items, width > cells + 6 ? width - cells - 6 : 0);
    fprintf(stderr, "\r%s %3.0f%%", bar_text(share, cells, bar), 100 * share);
    for (size_t i = 0; i < N_ITEMS; i++)
        if (*items.text[i])
            fprintf(stderr, "  %s", items.text[i]);
    fputs("\033[K", stderr);
    fflush(stderr);
    p->bar_shown = true;
}

void progress_end(struct progress_display *p)
{
    if (p->bar_shown)
        fputs("\r\033[K", stderr);
    p->bar_shown = false;
}

static void print_evaluation(const veche_event *e)
{
    char time[24];
    fprintf(stderr, "epoch %6.2f", e->epoch);
    if (!isnan(e->train_loss)) /* there may have been no lesson since the last one */
        fprintf(stderr, "  train loss %.4f  accuracy %6.2f%%", e->train_loss, e->train_accuracy);
    fprintf(stderr, "   test loss %.4f  accuracy %6.2f%%   lr %.3g   %s\n", e->loss, e->accuracy, e->lr,
            clock_text(e->real_s, time));
}

static void show(struct progress_display *p, const veche_event *event)
{
    switch (event->kind) {
    case VECHE_PROGRESS:
        if (!p->terminal || (event->real_s - p->last_s < 0.1 && event->round < event->rounds))
            return;
        p->last_s = event->real_s;
        draw_training(p, event);
        break;
    case VECHE_EVALUATION:
        progress_end(p);
        print_evaluation(event);
        break;
    case VECHE_NOTICE:
        progress_end(p);
        fprintf(stderr, "note: %s\n", event->text);
        break;
    case VECHE_METHOD:
        progress_end(p);
        p->last_s = -1;
        fprintf(stderr, "method %zu of %zu: %s\n", event->number, event->methods, event->method);
        break;
    case VECHE_CHECKPOINT:
        break;
    }
}

void progress_watch(void *progress, const veche_event *event)
{
    struct progress_display *p = progress;
    errno = 0;
    show(p, event);
    if (errno == EPIPE)
        watchman_stop(p->watchman);
}
