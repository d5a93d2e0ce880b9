/* progress.c - how a long job looks: a bar that moves on a terminal, a line an evaluation elsewhere. */
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

void progress_init(struct progress *p)
{
    *p = (struct progress){.terminal = isatty(STDERR_FILENO) != 0, .last_s = -1};
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

/* A bar of BAR cells; the text may hold multi-byte characters. */
static const char *bar_text(double share, char text[4 * BAR + 1])
{
    int utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    size_t full = (size_t)(share < 0 ? 0 : share > 1 ? BAR : share * BAR);
    text[0] = 0;
    for (size_t i = 0; i < BAR; i++)
        strcat(text, i < full ? (utf8 ? "\u2588" : "#") : (utf8 ? "\u2591" : "."));
    return text;
}

static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Draws one line over the last one; `tail` is cut to the terminal's width. */
static void draw(struct progress *p, double share, const char *tail)
{
    char bar[4 * BAR + 1];
    int room = terminal_width() - BAR - 8;
    fprintf(stderr, "\r%s %3.0f%% %.*s\033[K", bar_text(share, bar), 100 * share, room > 0 ? room : 0, tail);
    fflush(stderr);
    p->bar_shown = true;
}

static void draw_training(struct progress *p, const veche_event *e)
{
    char tail[256], left[24];
    double share = e->rounds ? (double)e->round / (double)e->rounds : 0;
    size_t n = 0;
    if (e->method)
        n = (size_t)snprintf(tail, sizeof tail, " %zu/%zu %.24s ", e->number, e->methods, e->method);
    n += (size_t)snprintf(tail + n, sizeof tail - n, " epoch %.2f/%g  %.0f img/s  loss %.4f", e->epoch,
                          e->epochs, e->images_per_s, e->train_loss);
    if (!isnan(e->accuracy) && n < sizeof tail)
        n += (size_t)snprintf(tail + n, sizeof tail - n, "  test %.2f%%", e->accuracy);
    if (!isnan(e->accuracy) && e->agents > 1 && n < sizeof tail)
        n += (size_t)snprintf(tail + n, sizeof tail - n, "  apart %.2g", e->disagreement);
    if (e->waiting > MUCH_WAITING && e->waited_for && n < sizeof tail)
        n += (size_t)snprintf(tail + n, sizeof tail - n, "  waiting %.0f-%.0f%% for %s", 100 * e->waiting_min,
                              100 * e->waiting_max, e->waited_for);
    if (e->images_per_s > 0 && share > 0 && n < sizeof tail)
        snprintf(tail + n, sizeof tail - n, "  left %s", clock_text(e->real_s / share * (1 - share), left));
    draw(p, share, tail);
}

void progress_end(struct progress *p)
{
    if (p->bar_shown)
        fputs("\r\033[K", stderr);
    p->bar_shown = false;
}

static void print_evaluation(const veche_event *e)
{
    char time[24];
    fprintf(stderr, "epoch %6.2f", e->epoch);
    if (!isnan(e->train_loss)) /* nobody may have learnt since the last one */
        fprintf(stderr, "  train loss %.4f  accuracy %6.2f%%", e->train_loss, e->train_accuracy);
    fprintf(stderr, "   test loss %.4f  accuracy %6.2f%%   lr %.3g   %s\n", e->loss, e->accuracy, e->lr,
            clock_text(e->real_s, time));
}

void progress_watch(void *progress, const veche_event *event)
{
    struct progress *p = progress;
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
