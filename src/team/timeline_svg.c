/* timeline_svg.c - a time line as a drawing: a row for each member, a box for each pass, blank where it waits.
 *
 *   1f1b
 *   4 machines, 4 parts, 8 micro-batches; 33 ms a round, 27.3 % idle
 *   [ ] forward  [ ] backward                               idle  most in flight
 *   machine 0 |0|1|2|3|         | 0 |4| 1 |5| ...           27.3 %              4
 *   machine 1   |0|1|2|      | 0 |3| 1 |4| ...              27.3 %              3
 *             0       10       20       30 ms
 *
 * A box bears the number of its micro-batch, counted from the first of all rounds, where there is room for it; a pointer over it
 * reads what it is and when. Later parts of a member are paler.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/xml.h"
#include "team/timeline.h"

enum { DRAWN_MOST = 20000, TICKS = 10 };

/* in pixels */
static const double left = 92, plot = 760, right = 176, head = 84, most_row = 26, gap = 4, foot = 40, digit = 6.2;

#define INK   "#1f2a44"
#define QUIET "#66708a"
#define PAPER "#fbfbf8"
#define TRACK "#efefe9"
#define GRID  "#d9d9d0"

static const struct look {
    const char *name;
    int red, green, blue;
} looks[N_ACTIONS] = {
    [ACTION_FORWARD] = {"forward", 0x7f, 0xae, 0xe6},
    [ACTION_BACKWARD] = {"backward", 0xf0, 0xa2, 0x6a},
    [ACTION_INPUTS] = {"gradients of inputs", 0xf0, 0xa2, 0x6a},
    [ACTION_WEIGHTS] = {"gradients of weights", 0x7d, 0xc4, 0x9c},
};

struct drawing {
    FILE *to;
    const struct schedule *s;
    const struct timeline *t;
    double row; /* height */
    double unit_s;
    const char *unit;
};

static void choose_unit(struct drawing *d)
{
    static const struct {
        double s;
        const char *name;
    } units[] = {{1e-6, "\xc2\xb5s"}, {1e-3, "ms"}, {1, "s"}};
    size_t i = 0;
    while (i < 2 && d->t->end_s >= 2 * units[i + 1].s)
        i++;
    d->unit_s = units[i].s;
    d->unit = units[i].name;
}

static double x_of(const struct drawing *d, double s)
{
    return left + plot * (d->t->end_s > 0 ? s / d->t->end_s : 0);
}

static double y_of(const struct drawing *d, size_t member)
{
    return head + (double)member * (d->row + gap);
}

static double bottom(const struct drawing *d)
{
    return y_of(d, d->t->n_members);
}

/* ---- boxes ---- */

/* Of a member's last part more than half of the way to white. */
static int pale(const struct drawing *d, size_t part, int colour)
{
    size_t p = d->s->n_members, v = d->s->n_parts / p;
    double share = v > 1 ? 0.6 * (double)(part / p) / (double)(v - 1) : 0;
    return (int)lround(colour + share * (255 - colour));
}

static void put_fill(const struct drawing *d, enum action_kind kind, size_t part)
{
    const struct look *l = &looks[kind];
    fprintf(d->to, " fill=\"#%02x%02x%02x\"", (unsigned)pale(d, part, l->red), (unsigned)pale(d, part, l->green),
            (unsigned)pale(d, part, l->blue));
}

static void put_box(const struct drawing *d, size_t member, struct action a, struct event_s e)
{
    double x = x_of(d, e.begin_s), width = x_of(d, e.end_s) - x, y = y_of(d, member);
    char number[16];
    int digits = snprintf(number, sizeof number, "%u", a.micro);
    fprintf(d->to, "<g><title>%s, part %u, micro-batch %u: %.4g to %.4g %s</title>", looks[a.kind].name, a.part, a.micro,
            e.begin_s / d->unit_s, e.end_s / d->unit_s, d->unit);
    fprintf(d->to, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", x, y, width, d->row);
    put_fill(d, a.kind, a.part);
    fputs(width > 3 ? " stroke=\"" PAPER "\" stroke-width=\"0.8\"/>" : "/>", d->to);
    if (width >= digit * digits + 1 && d->row >= 11)
        fprintf(d->to, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x + width / 2, y + d->row / 2 + 4, number);
    fputs("</g>\n", d->to);
}

static void put_boxes(const struct drawing *d)
{
    fprintf(d->to, "<g font-size=\"11\" fill=\"" INK "\">\n");
    for (size_t r = 0; r < d->t->n_members; r++)
        for (size_t i = 0; i < d->t->actions[r].n; i++)
            put_box(d, r, d->t->actions[r].at[i], d->t->of[r][i]);
    fputs("</g>\n", d->to);
}

/* ---- what stands round them ---- */

static size_t in_flight(const struct actions *list)
{
    size_t now = 0, most = 0;
    for (size_t i = 0; i < list->n; i++) {
        now += list->at[i].kind == ACTION_FORWARD;
        most = larger(most, now);
        now -= list->at[i].kind == ACTION_BACKWARD || list->at[i].kind == ACTION_WEIGHTS;
    }
    return most;
}

static void put_rows(const struct drawing *d)
{
    fprintf(d->to, "<g font-size=\"%.0f\" fill=\"" INK "\">\n", fmin(13, d->row));
    for (size_t r = 0; r < d->t->n_members; r++) {
        double y = y_of(d, r), base = y + d->row / 2 + 4.5, idle = d->t->end_s > 0 ? 1 - timeline_busy_s(d->t, r) / d->t->end_s : 0;
        fprintf(d->to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"" TRACK "\"/>", left, y, plot, d->row);
        fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">machine %zu</text>", left - 8, base, r);
        fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.1f %%</text>", left + plot + 58, base, 100 * fmax(0, idle));
        fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%zu</text>\n", left + plot + right - 12, base,
                in_flight(&d->t->actions[r]));
    }
    fputs("</g>\n", d->to);
}

/* 1, 2 or 5 times a power of ten. */
static double tick_step(double end)
{
    double step = pow(10, floor(log10(end / TICKS)));
    static const double times[] = {1, 2, 5, 10};
    size_t i = 0;
    while (i < 3 && end / (times[i] * step) > TICKS)
        i++;
    return times[i] * step;
}

static void put_axis(const struct drawing *d)
{
    double end = d->t->end_s / d->unit_s, step = end > 0 ? tick_step(end) : 1;
    fprintf(d->to, "<g font-size=\"12\" fill=\"" QUIET "\" text-anchor=\"middle\">\n");
    for (size_t i = 0; i <= TICKS && (double)i * step <= end * (1 + 1e-12); i++) {
        double x = x_of(d, (double)i * step * d->unit_s);
        fprintf(d->to, "<path d=\"M%.2f %.1fV%.1f\" stroke=\"" GRID "\"/>", x, head - 4, bottom(d) + 2);
        fprintf(d->to, "<text x=\"%.2f\" y=\"%.1f\">%.4g</text>\n", x, bottom(d) + 17, (double)i * step);
    }
    fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%s</text></g>\n", left + plot + 12, bottom(d) + 17, d->unit);
}

static bool has_kind(const struct drawing *d, enum action_kind kind)
{
    for (size_t i = 0; i < d->t->actions[0].n; i++)
        if (d->t->actions[0].at[i].kind == kind)
            return true;
    return false;
}

static void put_legend(const struct drawing *d)
{
    double x = left, y = head - 18;
    fprintf(d->to, "<g font-size=\"12\" fill=\"" QUIET "\">\n");
    for (enum action_kind k = 0; k < N_ACTIONS; k++) {
        if (!has_kind(d, k))
            continue;
        fprintf(d->to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"12\"", x, y - 10);
        put_fill(d, k, 0);
        fprintf(d->to, "/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 20, y, looks[k].name);
        x += 20 + 7 * (double)strlen(looks[k].name) + 16;
    }
    if (d->s->n_parts > d->s->n_members)
        fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\">later parts of a machine are paler</text>\n", x, y);
    fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">idle</text>", left + plot + 58, y);
    fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">most in flight</text></g>\n", left + plot + right - 12, y);
}

static void put_head(const struct drawing *d, const char *title)
{
    const struct timeline *t = d->t;
    fprintf(d->to, "<text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"600\" fill=\"" INK "\">");
    xml_text(d->to, title);
    fprintf(d->to, "</text>\n<text x=\"16\" y=\"46\" font-size=\"13\" fill=\"" QUIET "\">%zu machine%s, %zu part%s, %zu micro-batch%s",
            t->n_members, t->n_members == 1 ? "" : "s", d->s->n_parts, d->s->n_parts == 1 ? "" : "s", d->s->n_micros,
            d->s->n_micros == 1 ? "" : "es");
    if (t->end_s > t->round_s * 1.5)
        fprintf(d->to, " a round, %.0f rounds", t->end_s / t->round_s);
    fprintf(d->to, "; %.4g %s a round, %.1f %% idle</text>\n", t->round_s / d->unit_s, d->unit, 100 * t->bubble);
}

static void draw(const struct drawing *d, const char *title)
{
    double width = left + plot + right, height = bottom(d) + foot;
    fprintf(d->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>",
            width, height, width, height);
    xml_text(d->to, title);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"" PAPER "\"/>\n", d->to);
    put_head(d, title);
    put_legend(d);
    put_rows(d);
    put_axis(d);
    put_boxes(d);
    fputs("</svg>\n", d->to);
}

fault timeline_draw(const struct schedule *s, const struct timeline *t, const char *title, FILE *to)
{
    size_t n = 0;
    for (size_t r = 0; r < t->n_members; r++)
        n += t->actions[r].n;
    if (n > DRAWN_MOST)
        return FAIL(FAULT_USAGE, "a time line of %s passes is too long to be drawn: %s are the most", text_count(n).text,
                    text_count(DRAWN_MOST).text);
    struct drawing d = {.to = to, .s = s, .t = t, .row = fmax(4, fmin(most_row, 1200 / (double)t->n_members - gap))};
    choose_unit(&d);
    draw(&d, title);
    return ferror(to) ? FAIL(FAULT_FILE, "a time line cannot be written: %s", strerror(errno)) : OK;
}
