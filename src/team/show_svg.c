/* show_svg.c - a plan's round as a drawing: a line for each stage, a box for each pass, time from left to right.
 *
 * Passes forward are light, backward dark, gradients of weights alone of a third colour; of a machine with several parts the
 * later ones are framed. A box that is wide enough has its micro-batch's number.
 */
#include <math.h>

#include "base/page.h"
#include "base/xml.h"
#include "team/show.h"

enum { DRAWN_MOST = 50000, TICKS = 8 };

static const double sheet = 1000, left = 150, right = 24, head = 84, foot = 62, row = 40, box = 28; /* in pixels */
static const double least_numbered = 13;

#define INK   "#1f2a44"
#define QUIET "#66708a"
#define PAPER "#fbfbf8"

static const struct look {
    const char *colour, *ink, *name;
} looks[N_ACTIONS] = {
    [ACTION_FORWARD] = {"#a9c6ea", INK, "forward"},
    [ACTION_BACKWARD] = {"#35618f", "#fff", "backward"},
    [ACTION_INPUTS] = {"#5b8fc4", "#fff", "backward, inputs"},
    [ACTION_WEIGHTS] = {"#e2b25c", INK, "backward, weights"},
};

struct drawing {
    FILE *to;
    const struct cut_plan *plan;
    double scale; /* pixels a second */
};

static double height_of(const struct drawing *d)
{
    return head + row * (double)d->plan->n_stages + foot;
}

static void draw_pass(const struct drawing *d, size_t stage, size_t i)
{
    const struct timeline *t = &d->plan->timeline;
    const struct action *a = &t->actions[stage].at[i];
    const struct event_s *e = &t->of[stage][i];
    const struct look *look = &looks[a->kind];
    double x = left + d->scale * e->begin_s, width = d->scale * (e->end_s - e->begin_s),
           y = head + row * (double)stage + (row - box) / 2;
    fprintf(d->to,
            "<g><title>%s: micro-batch %u, part %u, %.6g to %.6g ms</title><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
            "height=\"%.0f\" fill=\"%s\"%s/>",
            look->name, a->micro, a->part, e->begin_s * 1e3, e->end_s * 1e3, x, y, fmax(width - 0.6, 0.4), box, look->colour,
            a->part >= d->plan->n_stages ? " stroke=\"" INK "\" stroke-width=\"1.5\"" : "");
    if (width >= least_numbered)
        fprintf(d->to, "<text x=\"%.2f\" y=\"%.1f\" fill=\"%s\" text-anchor=\"middle\">%u</text>", x + width / 2, y + 19, look->ink,
                a->micro);
    fputs("</g>\n", d->to);
}

static void draw_stage(const struct drawing *d, size_t g)
{
    const struct cut_stage *s = &d->plan->stages[g];
    double y = head + row * (double)g + row / 2;
    fprintf(d->to, "<text x=\"%.0f\" y=\"%.1f\" font-size=\"13\" fill=\"" INK "\">stage %zu: machine %zu</text>", 24.0, y - 1, g,
            s->machine);
    fprintf(d->to, "<text x=\"%.0f\" y=\"%.1f\" fill=\"" QUIET "\">speed %.4g, %.4g ms</text>", 24.0, y + 13, s->speed,
            s->compute_s * 1e3);
    fprintf(d->to, "<rect x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" fill=\"#eceae2\"/>\n", left, y - box / 2,
            sheet - left - right, box);
    for (size_t i = 0; i < d->plan->timeline.actions[g].n; i++)
        draw_pass(d, g, i);
}

/* The largest of 1, 2, 5, 10, ... milliseconds that leaves about TICKS of them. */
static double tick_s(double end_s)
{
    double rough = end_s / TICKS, power = pow(10, floor(log10(rough)));
    double digit = rough / power;
    return power * (digit < 2 ? 1 : digit < 5 ? 2 : 5);
}

static void draw_axis(const struct drawing *d)
{
    double end = d->plan->timeline.end_s, step = tick_s(end), y = head + row * (double)d->plan->n_stages;
    for (double t = 0; t <= end * (1 + 1e-9); t += step)
        fprintf(d->to,
                "<path d=\"M%.2f %.1fv6\" stroke=\"" QUIET "\"/><text x=\"%.2f\" y=\"%.1f\" fill=\"" QUIET
                "\" text-anchor=\"middle\">%.4g</text>\n",
                left + d->scale * t, y, left + d->scale * t, y + 20, t * 1e3);
    fprintf(d->to, "<text x=\"%.0f\" y=\"%.1f\" fill=\"" QUIET "\" text-anchor=\"end\">ms</text>\n", left - 8, y + 20);
}

static bool is_drawn(const struct cut_plan *p, enum action_kind kind)
{
    for (size_t i = 0; i < p->timeline.actions[0].n; i++)
        if (p->timeline.actions[0].at[i].kind == kind)
            return true;
    return false;
}

static void draw_legend(const struct drawing *d)
{
    double x = left, y = height_of(d) - 16;
    for (enum action_kind k = 0; k < N_ACTIONS; k++)
        if (is_drawn(d->plan, k)) {
            fprintf(d->to,
                    "<rect x=\"%.0f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/><text x=\"%.0f\" y=\"%.1f\" fill=\"" QUIET
                    "\">%s</text>\n",
                    x, y - 11, looks[k].colour, x + 20, y, looks[k].name);
            x += 150;
        }
}

static void draw(const struct drawing *d)
{
    const struct cut_plan *p = d->plan;
    fprintf(d->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" font-size=\"11\" "
            "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>",
            sheet, height_of(d), sheet, height_of(d));
    xml_text(d->to, p->profile->source);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"" PAPER
          "\"/>\n<text x=\"24\" y=\"38\" font-size=\"22\" font-weight=\"600\" fill=\"" INK "\">",
          d->to);
    xml_text(d->to, p->profile->source);
    fprintf(d->to,
            "</text>\n<text x=\"24\" y=\"60\" font-size=\"13\" fill=\"" QUIET
            "\">%s: a round of %zu micro-batches takes %.6g ms, %.1f %% of the machines' time is idle; the bottleneck is %.6g ms a "
            "micro-batch</text>\n",
            p->schedule->name, p->schedule->n_micros, p->timeline.round_s * 1e3, 100 * p->timeline.bubble, p->bottleneck_s * 1e3);
    for (size_t g = 0; g < p->n_stages; g++)
        draw_stage(d, g);
    draw_axis(d);
    draw_legend(d);
    fputs("</svg>\n", d->to);
}

fault show_svg(const struct plan_shown *s, char **svg)
{
    const struct timeline *t = &s->plan->timeline;
    struct page page;
    size_t n = 0;
    for (size_t g = 0; g < s->plan->n_stages; g++)
        n += t->actions[g].n;
    if (n > DRAWN_MOST)
        return FAIL(FAULT_USAGE, "a round of %zu passes is too long for a drawing: up to %d are drawn", n, DRAWN_MOST);
    if (!(t->end_s > 0))
        return FAIL(FAULT_USAGE, "a round that takes no time cannot be drawn");
    TRY(page_open(&page));
    struct drawing d = {.to = page.out, .plan = s->plan, .scale = (sheet - left - right) / t->end_s};
    draw(&d);
    return page_close(&page, OK, svg);
}
