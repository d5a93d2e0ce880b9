/* html.c - the whole report as one page that needs nothing else: no network and no other file; its one script shows values under
 * the pointer, and the page is whole without it.
 *
 *   title and sentence -> the table -> figures -> each run: its agents, what happened, its experiment
 */
#include "record/html.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "base/text.h"
#include "base/xml.h"
#include "record/report_cells.h"
#include "record/svg.h"

enum { MOST_AGENTS = 200, MOST_NOTES = 200, MOST_KINDS = 12 };

/* "+-" becomes the sign. */
static void put_cell(FILE *to, const char *text)
{
    const char *sign = strstr(text, "+-");
    if (!sign) {
        xml_text(to, *text ? text : "\xe2\x80\x93");
        return;
    }
    fprintf(to, "%.*s\xc2\xb1%s", (int)(sign - text), text, sign + 2);
}

/* ---- the table of runs ---- */

static void put_heads(FILE *to, const struct report *r)
{
    size_t n;
    const struct report_column *c = report_columns(&n);
    fputs("<thead><tr>", to);
    for (size_t i = 0; i < n; i++)
        if (report_has_column(r, &c[i]))
            fprintf(to, "<th%s title=\"%s\">%s</th>", c[i].is_text ? " class=\"t\"" : "", c[i].help,
                    c[i].head);
    fputs("</tr></thead>\n", to);
}

static void put_run_row(FILE *to, const struct report *r, const struct report_run *run)
{
    size_t n;
    const struct report_column *c = report_columns(&n);
    fputs("<tr>", to);
    for (size_t i = 0; i < n; i++) {
        char text[CELL_TEXT];
        if (!report_has_column(r, &c[i]))
            continue;
        fprintf(to, "<td%s>", i == 0 ? " class=\"t name\"" : c[i].is_text ? " class=\"t\"" : "");
        if (i == 0) {
            fputs("<div class=\"who\">", to);
            svg_swatch(to, (size_t)(run - r->runs));
            fputs("<span>", to);
        }
        if (c[i].whole)
            xml_text(to, *c[i].whole(run) ? c[i].whole(run) : "\xe2\x80\x93");
        else
            put_cell(to, report_cell(&c[i], run, text));
        fputs(i == 0 ? "</span></div></td>" : "</td>", to);
    }
    fputs("</tr>\n", to);
}

static void put_table(FILE *to, const struct report *r)
{
    size_t n;
    const struct report_column *c = report_columns(&n);
    fputs("<div class=\"box\"><table>", to);
    put_heads(to, r);
    fputs("<tbody>\n", to);
    for (size_t i = 0; i < r->n; i++)
        put_run_row(to, r, &r->runs[i]);
    fputs("</tbody></table></div>\n<details class=\"paper\"><summary>What the columns mean</summary><dl>",
          to);
    for (size_t i = 0; i < n; i++)
        if (report_has_column(r, &c[i]))
            fprintf(to, "<dt>%s</dt><dd>%s</dd>\n", c[i].head, c[i].help);
    fputs("</dl></details>\n", to);
}

/* ---- figures ---- */

static const char *const captions[N_FIGURES] = {
    [FIGURE_ACCURACY] =
        "The share of test samples that are recognised; higher is better. A line is the mean over a "
        "run's agents, its band reaches from the worst agent to the best. Lines may begin below the figure, "
        "so that their ends can be told apart.",
    [FIGURE_LOSS] =
        "The mean loss on the test samples; lower is better. Lines and bands as for the accuracy.",
    [FIGURE_DISAGREEMENT] =
        "How far the agents' parameters lie from their common mean. It grows while agents learn on "
        "their own and shrinks when they talk.",
    [FIGURE_VARIATION] =
        "The agents' spread relative to the size of their parameters, which makes networks of "
        "different sizes comparable.",
};

static bool has_agent_lines(const struct report *r)
{
    size_t many = 0, few_enough = 0;
    for (size_t i = 0; i < r->n; i++) {
        many += r->runs[i].n_agents > 1;
        few_enough += r->runs[i].n_agents > 1 && r->runs[i].n_agents <= REPORT_AGENT_LINES;
    }
    return many == 1 && few_enough == 1;
}

static void put_axis(FILE *to, const struct report *r, enum axis a)
{
    if (a == AXIS_SECONDS)
        fprintf(to, "by %s seconds", report_clock(r));
    else
        fputs(a == AXIS_EPOCHS ? "by epochs" : "by bytes sent", to);
}

static void put_buttons(FILE *to, const struct report *r, enum axis by)
{
    for (enum axis a = 0; a < N_AXES; a++)
        if (report_shows(r, FIGURE_ACCURACY, a)) {
            fprintf(
                to,
                "<input class=\"chosen\" type=\"radio\" name=\"by\" id=\"by-%s\"%s/><label class=\"pick\" "
                "for=\"by-%s\">",
                axis_names[a], a == by ? " checked=\"checked\"" : "", axis_names[a]);
            put_axis(to, r, a);
            fputs("</label>\n", to);
        }
    if (has_agent_lines(r))
        fputs("<input class=\"chosen\" type=\"checkbox\" id=\"each\" checked=\"checked\"/><label "
              "class=\"pick\" "
              "for=\"each\">each agent</label>\n",
              to);
}

static fault put_figures(FILE *to, const struct report *r, enum axis by)
{
    if (!report_shows(r, FIGURE_ACCURACY, by))
        by = AXIS_EPOCHS;
    fputs("<section><h2>Figures</h2>\n", to);
    put_buttons(to, r, by);
    for (enum axis a = 0; a < N_AXES; a++) {
        if (!report_shows(r, FIGURE_ACCURACY, a) && a != by)
            continue;
        fprintf(to, "<div class=\"figures by-%s\">\n", axis_names[a]);
        for (enum figure f = 0; f < N_FIGURES; f++) {
            if (!report_shows(r, f, a))
                continue;
            fputs("<figure>", to);
            TRY(report_draw(r, f, a, false, to));
            fprintf(to, "<figcaption>%s</figcaption></figure>\n", captions[f]);
        }
        fputs("</div>\n", to);
    }
    fputs("</section>\n", to);
    return OK;
}

/* ---- one run ---- */

struct order {
    size_t agent;
    double accuracy;
};

static int by_accuracy(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->accuracy != y->accuracy)
        return x->accuracy < y->accuracy ? -1 : 1;
    return x->agent < y->agent ? -1 : 1;
}

static int by_agent(const void *a, const void *b)
{
    return ((const struct order *)a)->agent < ((const struct order *)b)->agent ? -1 : 1;
}

static void put_real(FILE *to, double x, int decimals)
{
    char text[CELL_TEXT];
    cell_real(x, decimals, text);
    fputs(text, to);
}

static void put_real_cell(FILE *to, double x, int decimals)
{
    fputs("<td>", to);
    put_real(to, x, decimals);
    fputs("</td>", to);
}

static double share(double part, double whole)
{
    double x = whole > 0 ? 100 * part / whole : NAN;
    return fmin(fmax(x, 0), 100) + 0 * x;
}

static void put_agent(FILE *to, const struct report_run *run, size_t agent)
{
    const struct report_point *last = &run->points[run->n_points - 1];
    const struct score *s = &last->e.scores[agent];
    double place = share(s->accuracy - last->accuracy.min, last->accuracy.max - last->accuracy.min);
    double waiting = share(s->waiting_s, last->e.virtual_s);
    fprintf(to, "<tr%s><td>%zu%s</td><td>", s->alive ? "" : " class=\"gone\"", agent,
            s->alive ? "" : " (gone)");
    put_real(to, s->accuracy, 2);
    if (isfinite(place))
        fprintf(to, "<span class=\"place\"><i style=\"left:%.0f%%\"></i></span>", place);
    fputs("</td>", to);
    put_real_cell(to, s->loss, 4);
    put_real_cell(to, s->train_accuracy, 2);
    put_real_cell(to, s->epoch, 2);
    fprintf(to, "<td>%llu</td><td>", (unsigned long long)s->rounds);
    put_real(to, s->waiting_s, 1);
    if (isfinite(waiting))
        fprintf(to, "<span class=\"part\"><i style=\"width:%.0f%%\"></i></span>", waiting);
    fputs("</td>", to);
    if (last->e.waiting.waited_for_s)
        put_real_cell(to, last->e.waiting.waited_for_s[agent], 1);
    put_real_cell(to, (double)s->bytes / 1e6, 2);
    fprintf(to, "<td>%llu</td>", (unsigned long long)s->messages);
    if (run->end.staleness_max > 0) {
        put_real_cell(to, s->staleness_mean, 2);
        put_real_cell(to, s->staleness_max, 0);
    }
    fputs("</tr>\n", to);
}

/* The agents in their order; where they are too many for eyes, those that did worst. */
static fault put_agents(FILE *to, const struct report_run *run, bool open)
{
    size_t n = run->n_agents, shown = smaller(n, MOST_AGENTS);
    const struct score *scores = run->points[run->n_points - 1].e.scores;
    struct order *order = calloc(n, sizeof *order);
    if (!order)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        order[i] = (struct order){i, isfinite(scores[i].accuracy) ? scores[i].accuracy : -1};
    qsort(order, n, sizeof *order, by_accuracy);
    qsort(order, shown, sizeof *order, by_agent);
    fprintf(to, "<details class=\"paper\"%s><summary>", open ? " open=\"open\"" : "");
    if (shown < n)
        fprintf(to, "The %zu agents with the lowest accuracy, of %zu", shown, n);
    else
        fprintf(to, "The %zu agents at the last evaluation", n);
    fputs(
        "</summary><div class=\"box\"><table><thead><tr><th>agent</th><th>accuracy %, from worst to best</th>"
        "<th>loss</th><th>train accuracy %</th><th>epochs</th><th>rounds</th><th>waiting s, share of the "
        "time</th>",
        to);
    if (run->points[run->n_points - 1].e.waiting.waited_for_s)
        fputs("<th>others waited for it, s</th>", to);
    fputs("<th>MB sent</th><th>messages</th>", to);
    if (run->end.staleness_max > 0)
        fputs("<th>staleness, mean</th><th>most</th>", to);
    fputs("</tr></thead><tbody>\n", to);
    for (size_t i = 0; i < shown; i++)
        put_agent(to, run, order[i].agent);
    fputs("</tbody></table></div></details>\n", to);
    free(order);
    return OK;
}

/* "3 crash, 2 return": the kinds in the order in which they first come, the rest together. */
static void put_kinds(FILE *to, const struct report_run *run)
{
    const char *kinds[MOST_KINDS];
    size_t counts[MOST_KINDS] = {0}, n = 0, others = 0;
    for (size_t i = 0; i < run->n_notes; i++) {
        size_t k = 0;
        while (k < n && !text_is(kinds[k], run->notes[i].kind))
            k++;
        if (k == MOST_KINDS) {
            others++;
            continue;
        }
        if (k == n)
            kinds[n++] = run->notes[i].kind;
        counts[k]++;
    }
    for (size_t k = 0; k < n; k++) {
        fprintf(to, "%s%zu ", k ? ", " : "", counts[k]);
        xml_text(to, kinds[k]);
    }
    if (others)
        fprintf(to, ", %zu other", others);
}

static void put_notes(FILE *to, const struct report_run *run)
{
    size_t shown = smaller(run->n_notes, MOST_NOTES);
    fputs("<h3>What happened: ", to);
    put_kinds(to, run);
    fprintf(to,
            "</h3><div class=\"box tall\"><table><thead><tr><th>%s s</th><th>agent</th><th "
            "class=\"t\">kind</th>"
            "<th class=\"t\">what</th></tr></thead><tbody>\n",
            run->end.on_machines ? "real" : "virtual");
    for (size_t i = 0; i < shown; i++) {
        const struct report_note *note = &run->notes[i];
        fputs("<tr>", to);
        put_real_cell(to, note->virtual_s, 1);
        if (note->agent >= 0)
            fprintf(to, "<td>%lld</td><td class=\"t\">", (long long)note->agent);
        else
            fprintf(to, "<td>%s</td><td class=\"t\">", text_is(note->kind, "fault") ? "-" : "all");
        xml_text(to, note->kind);
        fputs("</td><td class=\"t wide\">", to);
        xml_text(to, note->text);
        fputs("</td></tr>\n", to);
    }
    fputs("</tbody></table></div>\n", to);
    if (shown < run->n_notes)
        fprintf(to, "<p class=\"soft\">And %zu more in events.jsonl.</p>\n", run->n_notes - shown);
}

static void put_facts(FILE *to, const struct report_run *run)
{
    const struct summary *s = &run->end;
    char agents[CELL_TEXT] = "One agent";
    if (run->n_agents > 1)
        snprintf(agents, sizeof agents, "%zu agents", run->n_agents);
    fprintf(to, "<p>%s, strategy ", agents);
    xml_text(to, run->strategy);
    fputs(". ", to);
    fprintf(to, run->finished ? "Trained for %.4g epochs" : "Not finished: after %.4g epochs", s->epochs);
    fputs(", in ", to);
    if (!s->on_machines) {
        put_real(to, s->virtual_s, 1);
        fputs(" virtual and ", to);
    }
    put_real(to, s->real_s, 1);
    fputs(" real seconds", to);
    if (run->n_alive < run->n_agents)
        fprintf(to, "; %zu of the agents %s gone at the end", run->n_agents - run->n_alive,
                run->n_agents - run->n_alive == 1 ? "was" : "were");
    if (run->waited_for) {
        fputs("; most waited for: ", to);
        xml_text(to, run->waited_for);
    }
    fputs(". Folder: <code>", to);
    xml_text(to, run->path);
    fputs("</code></p>\n", to);
}

/* As a picture: what a drawing may hold beside lines and texts does nothing in one. */
static void put_team(FILE *to, const struct report_run *run)
{
    fputs("<h3>How a team computes</h3>\n<div class=\"box\"><img alt=\"who computes which micro-batch when\" src=\"data:image/svg+xml,", to);
    for (const unsigned char *c = (const unsigned char *)run->team; *c; c++)
        fprintf(to, isalnum(*c) ? "%c" : "%%%02X", *c);
    fputs("\"/></div>\n<p class=\"soft\">A lesson of agent 0, by the schedule, on the machines and links that the experiment describes.</p>\n", to);
}

static fault put_run(FILE *to, const struct report *r, const struct report_run *run)
{
    fputs("<section><h2>", to);
    svg_swatch(to, (size_t)(run - r->runs));
    xml_text(to, run->label);
    fputs("</h2>\n", to);
    put_facts(to, run);
    if (run->n_agents > 1)
        TRY(put_agents(to, run, r->n == 1));
    if (run->team)
        put_team(to, run);
    if (run->n_notes)
        put_notes(to, run);
    fprintf(to, "<details%s><summary>The experiment</summary><pre>", r->n == 1 ? " class=\"paper\"" : "");
    xml_text(to, run->experiment);
    fputs("</pre></details></section>\n", to);
    return OK;
}

/* ---- the page ---- */

static void put_title(FILE *to, const struct report *r)
{
    const struct report_run *first = &r->runs[0];
    bool alike = true;
    for (size_t i = 1; i < r->n; i++)
        alike = alike && first->set && r->runs[i].set && text_is(first->set, r->runs[i].set);
    if (r->n == 1)
        xml_text(to, first->label);
    else
        fprintf(to, "%zu runs compared", r->n);
    if (alike && first->set) {
        fputs(r->n == 1 ? ": " : " on ", to);
        xml_text(to, first->set);
    }
}

static fault put_page(FILE *to, const struct report *r, enum axis by, const char *sentence)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
          "charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>",
          to);
    put_title(to, r);
    fprintf(to, "</title>\n<style>\n%s%s", html_style, html_style_paper);
    svg_style(to);
    fputs("</style></head>\n<body><main><h1>", to);
    put_title(to, r);
    fputs("</h1>\n<p class=\"lead\">", to);
    xml_text(to, sentence);
    if (r->remark) {
        fputc(' ', to);
        xml_text(to, r->remark);
    }
    fputs("</p>\n", to);
    put_table(to, r);
    TRY(put_figures(to, r, by));
    for (size_t i = 0; i < r->n; i++)
        TRY(put_run(to, r, &r->runs[i]));
    fprintf(to, "<p class=\"soft\">Written by veche %s.</p></main>\n<script>\n%s</script></body></html>\n",
            VECHE_VERSION, html_script);
    return OK;
}

fault report_html(const struct report *r, enum axis by, char **out)
{
    char *sentence;
    struct page page;
    TRY(report_sentence(r, &sentence));
    fault f = page_open(&page);
    if (!f)
        f = page_close(&page, put_page(page.out, r, by, sentence), out);
    free(sentence);
    return f;
}
