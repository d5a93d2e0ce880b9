/* report_figure.c - from runs to charts: which numbers against which, over which range.
 *
 * A run is a line, the mean over its agents, in a band from the worst to the best of them. Where only one run
 * has several agents there is room for more: each agent as a faint line, and the averaged model. A run that
 * does not move along the axis (one agent sends no bytes) is a level line at its last value.
 */
#include "record/report.h"

#include <math.h>
#include <string.h>

#include "base/page.h"
#include "base/text.h"
#include "record/svg.h"

enum { MOST_POINTS = 600, MOST_FAINT_POINTS = 160 };

static const double LATE = 0.4; /* of the axis: what comes after must be seen well */

const char *const figure_names[N_FIGURES] = {"accuracy", "loss", "disagreement", "variation"};
const char *const axis_names[N_AXES] = {"epochs", "seconds", "bytes"};

static const struct about {
    const char *title, *label;
} about[N_FIGURES] = {
    [FIGURE_ACCURACY] = {"Accuracy on the test samples", "accuracy (%)"},
    [FIGURE_LOSS] = {"Loss on the test samples", "loss"},
    [FIGURE_DISAGREEMENT] = {"Disagreement between the agents", "L2 distance from the mean"},
    [FIGURE_VARIATION] = {"Variation between the agents", "coefficient of variation"},
};

struct figure_maker {
    const struct report *report; /* borrowed */
    enum figure figure;
    enum axis axis;
    struct magnitude magnitude;   /* of x */
    struct arena arena; /* owned: all arrays of the chart */
    bool detailed;      /* one run of several agents: its agents are shown as well */
};

const char *report_clock(const struct report *r)
{
    size_t n_real = 0;
    for (size_t i = 0; i < r->n; i++)
        n_real += r->runs[i].end.on_machines;
    return n_real == 0 ? "virtual" : n_real == r->n ? "real" : "virtual or real";
}

/* ---- numbers ---- */

static double x_of(const struct report_point *p, enum axis axis)
{
    return axis == AXIS_EPOCHS ? p->e.epoch : axis == AXIS_SECONDS ? p->e.virtual_s : p->bytes;
}

static struct spread y_of(const struct report_point *p, enum figure figure)
{
    const struct disagreement *d = &p->e.disagreement;
    switch (figure) {
    case FIGURE_ACCURACY:
        return p->accuracy;
    case FIGURE_LOSS:
        return p->loss;
    case FIGURE_DISAGREEMENT:
        return (struct spread){d->l2, 0, d->l2, d->l2};
    default:
        return (struct spread){d->variation, 0, d->variation, d->variation};
    }
}

static bool is_of_agents(enum figure figure)
{
    return figure == FIGURE_ACCURACY || figure == FIGURE_LOSS;
}

static bool is_drawn(const struct report_run *run, enum figure figure)
{
    return run->n_agents > 1 || is_of_agents(figure);
}

static double farthest(const struct report_run *run, enum axis axis)
{
    double most = 0;
    for (size_t i = 0; i < run->n_points; i++)
        most = fmax(most, x_of(&run->points[i], axis));
    return most;
}

static double farthest_of_all(const struct report *r, enum figure figure, enum axis axis)
{
    double most = 0;
    for (size_t i = 0; i < r->n; i++)
        if (is_drawn(&r->runs[i], figure))
            most = fmax(most, farthest(&r->runs[i], axis));
    return most;
}

bool report_shows(const struct report *r, enum figure figure, enum axis by)
{
    return farthest_of_all(r, figure, by) > 0;
}

static size_t runs_of_many(const struct report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->runs[i].n_agents > 1;
    return n;
}

static bool has_target(const struct figure_maker *m)
{
    return m->figure == FIGURE_ACCURACY && isfinite(m->report->target);
}

/* ---- ranges ---- */

struct range {
    double lo, hi, least_positive;
};

static void widen(struct range *r, double x)
{
    if (!isfinite(x))
        return;
    r->lo = fmin(r->lo, x);
    r->hi = fmax(r->hi, x);
    if (x > 0)
        r->least_positive = fmin(r->least_positive, x);
}

/* Over the points of all runs that stand at or beyond `from`; of a run that ended before, the last. */
static struct range range_of(const struct figure_maker *m, double from)
{
    struct range range = {INFINITY, -INFINITY, INFINITY};
    for (size_t i = 0; i < m->report->n; i++) {
        const struct report_run *run = &m->report->runs[i];
        for (size_t k = 0; is_drawn(run, m->figure) && k < run->n_points; k++) {
            const struct report_point *p = &run->points[k];
            struct spread y = y_of(p, m->figure);
            if (x_of(p, m->axis) < from && k < run->n_points - 1)
                continue;
            widen(&range, y.min);
            widen(&range, y.max);
            if (m->detailed)
                widen(&range, m->figure == FIGURE_ACCURACY ? p->e.averaged_accuracy : p->e.averaged_loss);
        }
    }
    return range;
}

/* Accuracy and loss change most at the very beginning. Where that would press all the rest together, the
 * figure shows the later range and the lines come in from outside. */
static struct scale y_scale(const struct figure_maker *m, double farthest_x)
{
    struct range all = range_of(m, 0), late = range_of(m, LATE * farthest_x);
    bool rises = m->figure == FIGURE_ACCURACY;
    if (!rises && all.least_positive < all.hi / 30)
        return scale_log(all.least_positive, all.hi);
    bool pressed = is_of_agents(m->figure) && late.hi > late.lo && all.hi - all.lo > 3 * (late.hi - late.lo);
    if (has_target(m)) {
        widen(&all, m->report->target);
        widen(&late, m->report->target);
    }
    if (pressed && rises)
        all.lo = late.lo;
    else if (pressed)
        all.hi = late.hi;
    struct scale s = scale_linear(all.lo, all.hi);
    if (all.lo >= 0)
        s.lo = fmax(s.lo, 0);
    if (rises && all.hi <= 100)
        s.hi = fmin(s.hi, 100.5);
    return s.lo < s.hi ? s : scale_linear(0, 100);
}

/* ---- lines ---- */

static const char *value_text(const struct figure_maker *m, double y, char text[PLOT_TEXT])
{
    bool percent = m->figure == FIGURE_ACCURACY && fabs(y) < 1e6;
    snprintf(text, PLOT_TEXT, percent ? "%.2f" : "%.4g", y);
    return text;
}

static const char *tell(struct figure_maker *m, const struct report_run *run, const struct report_point *p)
{
    struct spread y = y_of(p, m->figure);
    char at[2 * PLOT_TEXT], mean[PLOT_TEXT], low[PLOT_TEXT], high[PLOT_TEXT], range[4 * PLOT_TEXT] = "";
    double x = x_of(p, m->axis) / m->magnitude.size;
    if (m->axis == AXIS_EPOCHS)
        snprintf(at, sizeof at, "epoch %.4g", x);
    else
        snprintf(at, sizeof at, "%.4g %s", x, m->magnitude.name);
    if (is_of_agents(m->figure) && run->n_agents > 1)
        snprintf(range, sizeof range, " (%s to %s)", value_text(m, y.min, low), value_text(m, y.max, high));
    return arena_printf(&m->arena, "%s: %s%s%s at %s", run->label, value_text(m, y.mean, mean),
                        m->figure == FIGURE_ACCURACY ? " %" : "", range, at);
}

struct columns { /* one array each, as a chart wants them */
    double *x, *y, *low, *high;
    const char **told;
    size_t n;
};

static fault take_columns(struct arena *arena, size_t n, struct columns *out)
{
    double *numbers = ARENA_NEW(arena, double, 4 * n);
    const char **told = ARENA_NEW(arena, const char *, n);
    if (!numbers || !told)
        return OUT_OF_MEMORY;
    *out = (struct columns){numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, told, 0};
    return OK;
}

static fault mean_line(struct figure_maker *m, const struct report_run *run, struct chart_line *out)
{
    struct columns c = {0};
    TRY(take_columns(&m->arena, run->n_points, &c));
    for (size_t i = 0; i < run->n_points; i = thin_next(i, run->n_points, MOST_POINTS)) {
        const struct report_point *p = &run->points[i];
        struct spread y = y_of(p, m->figure);
        c.x[c.n] = x_of(p, m->axis) / m->magnitude.size;
        c.y[c.n] = y.mean;
        c.low[c.n] = y.min;
        c.high[c.n] = y.max;
        c.told[c.n] = tell(m, run, p);
        c.n++;
    }
    bool band = is_of_agents(m->figure) && run->n_agents > 1, still = farthest(run, m->axis) == 0;
    *out = (struct chart_line){
        .name = run->label,
        .look = (size_t)(run - m->report->runs),
        .style = still ? LINE_LEVEL : LINE_MAIN,
        .x = c.x,
        .y = c.y,
        .low = band ? c.low : NULL,
        .high = band ? c.high : NULL,
        .told = still ? NULL : c.told,
        .n = c.n,
    };
    return OK;
}

static double agent_value(const struct figure_maker *m, const struct report_point *p, size_t agent)
{
    const struct score *s = &p->e.scores[agent];
    return !s->alive ? NAN : m->figure == FIGURE_ACCURACY ? s->accuracy : s->loss;
}

static fault agent_line(struct figure_maker *m, const struct report_run *run, size_t agent,
                        struct chart_line *out)
{
    struct columns c = {0};
    TRY(take_columns(&m->arena, run->n_points, &c));
    for (size_t i = 0; i < run->n_points; i = thin_next(i, run->n_points, MOST_FAINT_POINTS)) {
        c.x[c.n] = x_of(&run->points[i], m->axis) / m->magnitude.size;
        c.y[c.n++] = agent_value(m, &run->points[i], agent);
    }
    *out = (struct chart_line){
        .name = agent == 0 ? "each agent" : NULL,
        .look = (size_t)(run - m->report->runs),
        .style = LINE_FAINT,
        .x = c.x,
        .y = c.y,
        .n = c.n,
    };
    return OK;
}

/* Where the runs are to get to. */
static fault target_line(struct figure_maker *m, struct chart_line *out)
{
    double *xy = ARENA_NEW(&m->arena, double, 2);
    char *name = arena_printf(&m->arena, "target: %.4g %%", m->report->target);
    if (!xy || !name)
        return OUT_OF_MEMORY;
    xy[1] = m->report->target;
    *out = (struct chart_line){
        .name = name, .look = m->report->n + 1, .style = LINE_LEVEL, .x = xy, .y = xy + 1, .n = 1};
    return OK;
}

static fault averaged_line(struct figure_maker *m, const struct report_run *run, struct chart_line *out)
{
    struct columns c = {0};
    bool any = false;
    TRY(take_columns(&m->arena, run->n_points, &c));
    for (size_t i = 0; i < run->n_points; i = thin_next(i, run->n_points, MOST_POINTS)) {
        const struct evaluation *e = &run->points[i].e;
        c.x[c.n] = x_of(&run->points[i], m->axis) / m->magnitude.size;
        c.y[c.n] = m->figure == FIGURE_ACCURACY ? e->averaged_accuracy : e->averaged_loss;
        any = any || isfinite(c.y[c.n]);
        c.n++;
    }
    *out = (struct chart_line){
        .name = any ? "the averaged model" : NULL,
        .look = m->report->n,
        .x = c.x,
        .y = c.y,
        .n = any ? c.n : 0,
    };
    return OK;
}

/* Faint lines first, so that the others lie over them. */
static fault make_lines(struct figure_maker *m, struct chart *chart)
{
    const struct report *r = m->report;
    struct chart_line *lines = ARENA_NEW(&m->arena, struct chart_line, 2 * r->n + REPORT_AGENT_LINES + 1);
    size_t n = 0;
    if (!lines)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < r->n && m->detailed; i++)
        for (size_t k = 0;
             r->runs[i].n_agents > 1 && r->runs[i].n_agents <= REPORT_AGENT_LINES && k < r->runs[i].n_agents;
             k++)
            TRY(agent_line(m, &r->runs[i], k, &lines[n++]));
    for (size_t i = 0; i < r->n; i++) {
        if (!is_drawn(&r->runs[i], m->figure))
            continue;
        TRY(mean_line(m, &r->runs[i], &lines[n++]));
        if (m->detailed && r->runs[i].n_agents > 1)
            TRY(averaged_line(m, &r->runs[i], &lines[n++]));
    }
    if (has_target(m))
        TRY(target_line(m, &lines[n++]));
    chart->lines = lines;
    chart->n_lines = n;
    return OK;
}

/* ---- marks ---- */

/* Where on the axis the run was at a moment of virtual time: between two evaluations in proportion. */
static double x_at_time(const struct report_run *run, enum axis axis, double virtual_s)
{
    double time = 0, x = 0;
    if (axis == AXIS_SECONDS)
        return virtual_s;
    for (size_t i = 0; i < run->n_points; i++) {
        const struct report_point *p = &run->points[i];
        if (p->e.virtual_s >= virtual_s && p->e.virtual_s > time)
            return x + (x_of(p, axis) - x) * (virtual_s - time) / (p->e.virtual_s - time);
        time = p->e.virtual_s, x = x_of(p, axis);
    }
    return x;
}

static enum glyph glyph_of(const char *kind)
{
    return text_is(kind, "crash") || text_is(kind, "fault")   ? GLYPH_CROSS
           : text_is(kind, "return") || text_is(kind, "heal") ? GLYPH_RING
                                                              : GLYPH_FLAG;
}

/* How the others coped with something is told in the list of notes; drawn, it would hide what happened. */
static bool is_marked(const struct report_note *note)
{
    return isfinite(note->virtual_s) && !text_is(note->kind, "without") && !text_is(note->kind, "partner");
}

static fault make_marks(struct figure_maker *m, struct chart *chart)
{
    size_t most = 0;
    for (size_t i = 0; i < m->report->n; i++)
        most += m->report->runs[i].n_notes;
    struct chart_mark *marks = ARENA_NEW(&m->arena, struct chart_mark, most + 1);
    if (!marks)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < m->report->n; i++) {
        const struct report_run *run = &m->report->runs[i];
        for (size_t k = 0; is_drawn(run, m->figure) && k < run->n_notes; k++) {
            const struct report_note *note = &run->notes[k];
            if (!is_marked(note))
                continue;
            marks[chart->n_marks++] = (struct chart_mark){
                .x = x_at_time(run, m->axis, note->virtual_s) / m->magnitude.size,
                .look = i,
                .glyph = glyph_of(note->kind),
                .text = arena_printf(&m->arena, "%s: %s", run->label, note->text),
            };
            if (!marks[chart->n_marks - 1].text)
                return OUT_OF_MEMORY;
        }
    }
    chart->marks = marks;
    return OK;
}

/* ---- the chart ---- */

static const char *x_label(struct figure_maker *m)
{
    switch (m->axis) {
    case AXIS_EPOCHS:
        return "epochs (passes over an agent's own samples)";
    case AXIS_SECONDS:
        return arena_printf(&m->arena, "%s time (%s)", report_clock(m->report), m->magnitude.name);
    default:
        return arena_printf(&m->arena, "sent by all agents together (%s)", m->magnitude.name);
    }
}

static fault make_chart(struct figure_maker *m, struct chart *c)
{
    double most = farthest_of_all(m->report, m->figure, m->axis);
    m->magnitude = m->axis == AXIS_SECONDS ? magnitude_of_seconds(most)
              : m->axis == AXIS_BYTES ? magnitude_of_bytes(most)
                                      : (struct magnitude){"", 1};
    c->id = arena_printf(&m->arena, "%s-%s", figure_names[m->figure], axis_names[m->axis]);
    c->title = about[m->figure].title;
    c->x_label = x_label(m);
    c->x = (struct scale){0, most > 0 ? fmin(most, 1e300) / m->magnitude.size : 1, false};
    c->y = y_scale(m, most);
    c->y_label = arena_printf(&m->arena, "%s%s", about[m->figure].label, c->y.log ? ", logarithmic" : "");
    c->glyph_names[GLYPH_CROSS] = "crash";
    c->glyph_names[GLYPH_RING] = "return";
    c->glyph_names[GLYPH_FLAG] = "other event";
    if (!c->id || !c->x_label || !c->y_label)
        return OUT_OF_MEMORY;
    if (most <= 0)
        c->empty = m->axis == AXIS_BYTES && is_of_agents(m->figure) ? "Nothing was sent in these runs."
                   : is_of_agents(m->figure)                        ? "There is nothing to draw yet."
                                             : "One agent alone has no other to disagree with.";
    TRY(make_lines(m, c));
    return make_marks(m, c);
}

fault report_draw(const struct report *r, enum figure figure, enum axis by, bool alone, FILE *to)
{
    struct figure_maker m = {.report = r, .figure = figure, .axis = by};
    struct chart chart = {.alone = alone};
    m.detailed = is_of_agents(figure) && runs_of_many(r) == 1;
    fault f = make_chart(&m, &chart);
    if (!f)
        svg_chart(to, &chart);
    arena_release(&m.arena);
    return f;
}

fault report_svg(const struct report *r, enum figure figure, enum axis by, char **out)
{
    struct page page;
    TRY(page_open(&page));
    return page_close(&page, report_draw(r, figure, by, true, page.out), out);
}
