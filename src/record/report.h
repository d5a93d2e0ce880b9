/* report.h - runs read back from their folders, and shown: a table, an object, figures, a page.
 *
 *   folders -> report_read -> struct report -> report_table | report_json | report_svg | report_html
 *
 * Reading takes no lock and changes nothing, so a run can be looked at while it goes on: what is not there
 * yet is not reported. All the writers are functions of the report alone and give the same text every time.
 */
#ifndef VECHE_RECORD_REPORT_H
#define VECHE_RECORD_REPORT_H

#include <stdio.h>

#include "base/arena.h"
#include "record/run.h"

struct report_point { /* one evaluation */
    struct evaluation e;
    double bytes, messages, waiting_s; /* of all agents, since the beginning     */
    struct spread accuracy, loss;      /* over the agents that were alive        */
};

struct report_note {
    double virtual_s, real_s; /* NaN where it is not known */
    int64_t agent;            /* -1: all of them           */
    const char *kind, *text;
};

struct report_run {
    const char *path;
    const char *label;                  /* the folder's own name; the whole path where two are called alike */
    const char *experiment;             /* the text of experiment.yaml                                      */
    const char *team;                   /* that of team.svg; NULL: there is none                            */
    const char *strategy;               /* with what sets it apart: "consensus, every 5"                    */
    const char *topology, *set, *model; /* as the experiment writes them; NULL where it does not */
    int64_t batch, limit, test_limit;
    bool is_single; /* trained by the strategy `single`: may be others' rival */
    size_t n_agents, n_alive;
    struct report_point *points; /* at least one */
    size_t n_points;
    struct report_note *notes; /* faults among them */
    size_t n_notes;
    char (*digests)[SEAL_DIGITS + 1]; /* of the events, in their order */
    size_t n_digests;
    bool finished;
    struct summary end;             /* as summary.json says, or as of the last evaluation    */
    const char *waited_for;         /* "agent 3 (12.1 s)"; NULL: not known, or none          */
    double target_s;                /* virtual seconds until the report's target; NaN: never */
    double waiting_s;               /* of all agents */
    const struct report_run *rival; /* the single run on the same data, or NULL */
};

struct report {
    struct arena arena; /* owned: holds everything below */
    struct report_run *runs;
    size_t n;
    double target;      /* accuracy in percent that runs are timed to; NaN: none */
    const char *remark; /* one more sentence for the head of the page; NULL: none */
};

/* A folder that is no run, a run without an evaluation, a line that is no event: a fault that names it. */
fault report_read(const char *const *paths, size_t n, struct report *out);
/* Times every run to the first evaluation at which the mean accuracy of its agents was `target` percent. */
void report_set_target(struct report *r, double target);
void report_release(struct report *r);

/* The most agents of a run that get a line each in the figures. */
enum { REPORT_AGENT_LINES = 40 };

enum figure { FIGURE_ACCURACY, FIGURE_LOSS, FIGURE_DISAGREEMENT, FIGURE_VARIATION, N_FIGURES };
enum axis { AXIS_EPOCHS, AXIS_SECONDS, AXIS_BYTES, N_AXES };

extern const char *const figure_names[N_FIGURES]; /* "accuracy", ... */
extern const char *const axis_names[N_AXES];      /* "epochs", ...   */

/* Of which kind the seconds of the runs are: "virtual", "real", or "virtual or real". */
const char *report_clock(const struct report *r);
/* Whether there is anything to draw: disagreement needs several agents, the axis of bytes a run that sent
 * some. */
bool report_shows(const struct report *r, enum figure figure, enum axis by);
/* Draws one figure, as a file of its own or as a part of a page. */
fault report_draw(const struct report *r, enum figure figure, enum axis by, bool alone, FILE *to);

/* Each text is the caller's to free. */
fault report_table(const struct report *r, char **out);
fault report_json(const struct report *r, char **out);
fault report_svg(const struct report *r, enum figure figure, enum axis by,
                 char **out);                                        /* a file of its own */
fault report_html(const struct report *r, enum axis by, char **out); /* `by`: the axis shown first */

#endif
