/* report.c - `veche report RUN...`: the table on stdout, the page and the figures as files. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

enum { PATH_ROOM = 4096 };

struct words {
    const char **runs;
    size_t n_runs;
    const char *html, *svg, *by;
    bool json;
};

static const struct argp_option options[] = {
    {"json", 'j', 0, 0, "Print one JSON object instead of the table; write a page only where --html says", 0},
    {"html", 'o', "FILE", 0,
     "Where the page goes (default: RUN/report.html for one run, else report.html here)", 0},
    {"svg", 's', "FOLDER", 0, "Write the figures as SVG files into FOLDER as well", 0},
    {"by", 'b', "AXIS", 0, "Draw against epochs (default), seconds or bytes; the page has all three", 0},
    {0},
};

static error_t take_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;
    switch (key) {
    case 'j':
        w->json = true;
        return 0;
    case 'o':
        w->html = arg;
        return 0;
    case 's':
        w->svg = arg;
        return 0;
    case 'b':
        if (strcmp(arg, "epochs") && strcmp(arg, "seconds") && strcmp(arg, "bytes"))
            argp_error(state, "--by takes epochs, seconds or bytes, and not '%s'", arg);
        w->by = arg;
        return 0;
    case ARGP_KEY_ARG:
        w->runs[w->n_runs++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!w->n_runs)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int write_page(const veche_report *r, const struct words *w)
{
    char path[PATH_ROOM];
    if (w->html)
        snprintf(path, sizeof path, "%s", w->html);
    else if (w->n_runs == 1 && !veche_is_comparison(w->runs[0])) /* which has a page of its own */
        snprintf(path, sizeof path, "%s/report.html", w->runs[0]);
    else
        snprintf(path, sizeof path, "report.html");
    int failed = cli_fault(veche_report_write(r, "html", w->by, path));
    if (!failed)
        fprintf(stderr, "report: %s\n", path);
    return failed;
}

static int write_figures(const veche_report *r, const struct words *w)
{
    static const char *const figures[] = {"accuracy", "loss", "disagreement", "variation"};
    if (mkdir(w->svg, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "veche: %s: cannot be made: %s\n", w->svg, strerror(errno));
        return 1;
    }
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char path[PATH_ROOM], format[32];
        snprintf(format, sizeof format, "svg:%s", figures[i]);
        snprintf(path, sizeof path, "%s/%s.svg", w->svg, figures[i]);
        if (cli_fault(veche_report_write(r, format, w->by, path)))
            return 1;
    }
    fprintf(stderr, "figures: %s\n", w->svg);
    return 0;
}

static int show(const veche_report *r, const struct words *w)
{
    char *text = NULL;
    int failed = cli_fault(veche_report_print(r, w->json ? "json" : "text", w->by, &text));
    if (!failed)
        cli_print(text);
    if (w->json)
        putchar('\n');
    if (!failed && (w->html || !w->json))
        failed = write_page(r, w);
    if (!failed && w->svg)
        failed = write_figures(r, w);
    return failed;
}

int cli_report(int argc, char **argv)
{
    static const struct argp parser = {
        options,
        take_word,
        "RUN ...",
        "Tables and figures over the runs in these folders. A run of the strategy "
        "`single` stands beside the others on its data as their rival.",
        NULL,
        NULL,
        NULL};
    struct words w = {.runs = calloc((size_t)argc, sizeof(char *))};
    veche_report *r = NULL;
    if (!w.runs)
        return 1;
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    int failed = cli_fault(veche_report_read(w.runs, w.n_runs, &r));
    if (!failed)
        failed = show(r, &w);
    veche_report_free(r);
    free(w.runs);
    return failed;
}
