/* report_cells.c - what stands in the table of runs, and the sentence above it. */
#include "record/report_cells.h"

#include <math.h>
#include <string.h>

#include "base/page.h"
#include "base/text.h"

void cell_real(double x, int decimals, char text[CELL_TEXT])
{
    if (!isfinite(x))
        snprintf(text, CELL_TEXT, "-");
    else if (fabs(x) < 1e7)
        snprintf(text, CELL_TEXT, "%.*f", decimals, x);
    else
        snprintf(text, CELL_TEXT, "%.4g", x);
}

static const char *label(const struct report_run *r)
{
    return r->label;
}

static const char *strategy(const struct report_run *r)
{
    return r->strategy;
}

static const char *topology(const struct report_run *r)
{
    return r->topology ? r->topology : "";
}

static const char *set(const struct report_run *r)
{
    return r->set ? r->set : "";
}

static void batch(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->batch)
        snprintf(text, CELL_TEXT, "%lld", (long long)r->batch);
}

static void agents(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->n_alive < r->n_agents)
        snprintf(text, CELL_TEXT, "%zu of %zu", r->n_alive, r->n_agents);
    else
        snprintf(text, CELL_TEXT, "%zu", r->n_agents);
}

/* The mean, and beside it the spread over the agents where there are several. */
static void spread_cell(const struct report_run *r, const struct spread *s, int decimals,
                        char text[CELL_TEXT])
{
    char mean[CELL_TEXT], std[CELL_TEXT];
    cell_real(s->mean, decimals, mean);
    cell_real(s->std, decimals, std);
    if (r->n_agents > 1 && isfinite(s->mean))
        snprintf(text, CELL_TEXT, "%.24s +- %.24s", mean, std);
    else
        snprintf(text, CELL_TEXT, "%.24s", mean);
}

static void accuracy(const struct report_run *r, char text[CELL_TEXT])
{
    spread_cell(r, &r->end.accuracy, 2, text);
}

static void rival(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->rival)
        cell_real(r->rival->end.accuracy.mean, 2, text);
}

static void averaged(const struct report_run *r, char text[CELL_TEXT])
{
    if (isfinite(r->end.averaged_accuracy))
        cell_real(r->end.averaged_accuracy, 2, text);
}

static void loss(const struct report_run *r, char text[CELL_TEXT])
{
    cell_real(r->end.loss.mean, 4, text);
}

static void epochs(const struct report_run *r, char text[CELL_TEXT])
{
    if (isfinite(r->end.epochs))
        snprintf(text, CELL_TEXT, "%.4g", r->end.epochs);
}

static void virtual_s(const struct report_run *r, char text[CELL_TEXT])
{
    if (!r->end.on_machines)
        cell_real(r->end.virtual_s, 1, text);
}

static void real_s(const struct report_run *r, char text[CELL_TEXT])
{
    cell_real(r->end.real_s, 1, text);
}

static void megabytes(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->n_agents > 1)
        cell_real((double)r->end.bytes / 1e6, 1, text);
}

static void messages(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->n_agents > 1)
        snprintf(text, CELL_TEXT, "%llu", (unsigned long long)r->end.messages);
}

static void waiting(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->n_agents > 1)
        cell_real(100 * r->end.waiting_share, 1, text);
}

static const char *waited_for(const struct report_run *r)
{
    return r->waited_for ? r->waited_for : "";
}

static void to_target(const struct report_run *r, char text[CELL_TEXT])
{
    if (isfinite(r->target_s))
        cell_real(r->target_s, 1, text);
}

static void staleness(const struct report_run *r, char text[CELL_TEXT])
{
    if (r->end.staleness_max > 0)
        cell_real(r->end.staleness_mean, 2, text);
}

static const char *state(const struct report_run *r)
{
    return r->end.status;
}

static const struct report_column columns[] = {
    {"run", "the run's folder", true, label, NULL},
    {"state", "whether the run came to its end", true, state, NULL},
    {"strategy", "by which method", true, strategy, NULL},
    {"topology", "who talks to whom", true, topology, NULL},
    {"data", "the samples", true, set, NULL},
    {"batch", "samples in one lesson of one agent", false, NULL, batch},
    {"agents", "how many; of them alive at the end", false, NULL, agents},
    {"accuracy %", "on the test samples: mean over the agents, and their spread", false, NULL, accuracy},
    {"single %", "accuracy of the rival: one model trained on the same data", false, NULL, rival},
    {"averaged %", "accuracy of the mean of all agents' models", false, NULL, averaged},
    {"loss", "on the test samples, mean over the agents", false, NULL, loss},
    {"epochs", "passes over an agent's own samples", false, NULL, epochs},
    {"s to target",
     "seconds, virtual ones where there are any, until the mean accuracy of the agents was that of the "
     "target",
     false, NULL, to_target},
    {"virtual s", "seconds on the machines and the network the experiment describes", false, NULL, virtual_s},
    {"real s", "seconds on the machine, or machines, that ran it", false, NULL, real_s},
    {"MB sent", "by all agents together", false, NULL, megabytes},
    {"messages", "by all agents together", false, NULL, messages},
    {"waiting %", "of the agents' time, virtual where it is, spent on nothing but waiting for others", false,
     NULL, waiting},
    {"waited for", "whom the others waited for most, and for how long together", true, waited_for, NULL},
    {"staleness", "steps a gradient was behind when it was applied, on average", false, NULL, staleness},
};

const struct report_column *report_columns(size_t *n)
{
    *n = sizeof columns / sizeof *columns;
    return columns;
}

const char *report_cell(const struct report_column *c, const struct report_run *r, char text[CELL_TEXT])
{
    if (c->whole)
        return c->whole(r);
    text[0] = 0;
    c->cell(r, text);
    return text;
}

bool report_has_column(const struct report *r, const struct report_column *c)
{
    char text[CELL_TEXT];
    bool any = false, differ = false, unfinished = false;
    for (size_t i = 0; i < r->n; i++) {
        any = any || *report_cell(c, &r->runs[i], text);
        differ = differ || (c->whole && !text_is(c->whole(&r->runs[0]), c->whole(&r->runs[i])));
        unfinished = unfinished || !r->runs[i].finished;
    }
    if (c->cell == to_target)
        return isfinite(r->target);
    return c->whole == set ? differ : c->whole == state ? differ || unfinished : any;
}

/* ---- the sentence ---- */

/* The word all runs share; `none` where they share that they have none, `several` where they differ. */
static const char *common(const struct report *r, const char *(*of)(const struct report_run *),
                          const char *none, const char *several)
{
    for (size_t i = 1; i < r->n; i++)
        if (!text_is(of(&r->runs[0]), of(&r->runs[i])))
            return several;
    return *of(&r->runs[0]) ? of(&r->runs[0]) : none;
}

static const char *model(const struct report_run *r)
{
    return r->model ? r->model : "";
}

static void say_one(FILE *to, const struct report_run *r)
{
    if (r->n_agents == 1) {
        fprintf(to, " by one agent (%s)", r->strategy);
        return;
    }
    fprintf(to, " by %zu agents with the strategy %s", r->n_agents, r->strategy);
    if (r->topology)
        fprintf(to, " over the topology %s", r->topology);
}

static void say(FILE *to, const struct report *r)
{
    const struct report_run *rival_run = NULL;
    size_t rivals = 0;
    for (size_t i = 0; i < r->n; i++)
        rivals += r->runs[i].is_single;
    for (size_t i = 0; i < r->n && !rival_run; i++)
        rival_run = r->runs[i].rival;
    fprintf(to, "%s was trained on %s", common(r, model, "A network", "More than one network"),
            common(r, set, "its data", "more than one data set"));
    if (r->n == 1) {
        say_one(to, &r->runs[0]);
    } else {
        fprintf(to,
                " in %zu runs, compared by the accuracy they reach and by what it costs in time and bytes",
                r->n);
        if (rival_run && rivals == 1)
            fprintf(to, "; the rival of the others is the single model of the run %s", rival_run->label);
        else if (rival_run)
            fprintf(to, "; each run of several agents has a single model on the same data as its rival");
    }
    fputs(".", to);
}

fault report_sentence(const struct report *r, char **out)
{
    struct page page;
    TRY(page_open(&page));
    say(page.out, r);
    return page_close(&page, OK, out);
}
