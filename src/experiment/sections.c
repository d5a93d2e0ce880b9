/* sections.c - the settings every experiment has, one row each. */
#include "experiment/sections.h"

#include <math.h>

static const char *const precisions[] = {[PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16", NULL};
static const char *const weights[] = {
    "uniform", "metropolis", "best-constant", "fastest", [WEIGHTS_AUTO] = "auto", NULL};
static const char *const everything[] = {"all", NULL};

#define AT(member) offsetof(struct experiment, member)
static const struct field top_rows[] = {
    {"name", FIELD_TEXT, AT(name), .optional = true,
     .help = "names the run's folder; the file's own name if left out"},
    {"agents", FIELD_INT, AT(agents), "1", .min = 1, .max = 1e5, .help = "how many take part"},
};
#undef AT

#define AT(member) offsetof(struct data_settings, member)
static const struct field data_rows[] = {
    {"batch", FIELD_INT, AT(batch), .min = 1, .max = 1e6, .help = "samples in one lesson of one agent"},
    {"limit", FIELD_INT, AT(limit), "0", .min = 0, .max = INFINITY,
     .help = "use only this many training samples; 0: all"},
    {"test_limit", FIELD_INT, AT(test_limit), "0", .min = 0, .max = INFINITY,
     .help = "use only this many test samples; 0: all"},
    {"flip", FIELD_FLAG, AT(flip), "false", .help = "mirror half of the training samples, chosen at random"},
    {"crop", FIELD_INT, AT(crop), "0", .min = 0, .max = 127,
     .help = "pad by this many pixels and cut the old size out at random"},
    {"mean", FIELD_REALS, AT(mean), .optional = true,
     .help = "normalisation per channel; the set's own if left out"},
    {"deviation", FIELD_REALS, AT(deviation), .optional = true, .min = 0, .max = INFINITY, .above_min = true,
     .help = "likewise; written together with mean"},
    {"stream", FIELD_FLAG, AT(stream), "false",
     .help = "leave the samples in their files and read them ahead of need: for sets larger than memory"},
    {"window_mb", FIELD_REAL, AT(window_mb), .optional = true, .min = 0, .max = 1e9,
     .help = "megabytes of memory that streamed samples may take; 64 if left out or 0"},
};
#undef AT

#define AT(member) offsetof(struct optim_settings, member)
static const struct field optim_rows[] = {
    {"scale_lr", FIELD_FLAG, AT(scale_lr), "false",
     .help = "linear scaling rule: lr times the number of agents"},
};

static const struct field schedule_rows[] = {
    {"warmup_epochs", FIELD_REAL, AT(warmup_epochs), "0", .min = 0, .max = 1e6,
     .help = "lr rises linearly over these, round by round"},
    {"warmup_from", FIELD_REAL, AT(warmup_from), .optional = true, .min = 0, .max = 1e6, .above_min = true,
     .help = "the rate it rises from, that of the first round; from 0 before it if left out"},
};
#undef AT

#define AT(member) offsetof(struct train_settings, member)
static const struct field train_rows[] = {
    {"epochs", FIELD_REAL, AT(epochs), .min = 0, .max = 1e6, .above_min = true,
     .help = "how often every sample is met"},
    {"accumulate", FIELD_INT, AT(accumulate), "1", .min = 1, .max = 1e6,
     .help = "cut a batch into so many, computed one after the other, to need less memory"},
    {"seed", FIELD_INT, AT(seed), "1", .min = 0, .max = INFINITY, .help = "all chance follows from it"},
    {"evaluate_every", FIELD_EVERY, AT(evaluate_every), "1 epoch",
     .help = "when the test samples are judged"},
    {"checkpoint_every", FIELD_EVERY, AT(checkpoint_every), "1 epoch", .help = "when everything is saved"},
    {"keep", FIELD_INT, AT(keep), "2", .min = 1, .max = 1e6, .help = "checkpoints kept"},
};
#undef AT

#define AT(member) offsetof(struct stop_settings, member)
static const struct field stop_rows[] = {
    {"accuracy", FIELD_REAL, AT(accuracy), .optional = true, .min = 0, .max = 100, .above_min = true,
     .help = "once this much of the test samples, in percent, is recognised at an evaluation; of several "
             "agents on average"},
    {"loss", FIELD_REAL, AT(loss), .optional = true, .min = 0, .max = 1e12, .above_min = true,
     .help = "once the loss on the test samples is this or less, likewise"},
    {"no_progress", FIELD_INT, AT(no_progress), .optional = true, .min = 1, .max = 1e9,
     .help = "once so many evaluations in a row brought no better accuracy"},
};
#undef AT

#define AT(member) offsetof(struct engine_settings, member)
static const struct field engine_rows[] = {
    {"precision", FIELD_CHOICE, AT(precision), "fp32", .choices = precisions,
     .help = "of products; sums are fp32"},
    {"threads", FIELD_INT, AT(threads), "0", .min = 0, .max = 4096, .help = "0: one for each core"},
};
#undef AT

#define AT(member) offsetof(struct topology_settings, member)
static const struct field topology_rows[] = {
    {"graph", FIELD_TEXT, AT(graph), .help = "who is whose neighbour, such as cycle:4"},
    {"weights", FIELD_CHOICE, AT(weights), "auto", .choices = weights,
     .help =
         "how much each listens to whom; auto: fastest, or metropolis where the graph is too large for it"},
};
#undef AT

/* Latencies and bandwidths beyond 1e12 would soon overflow in other units. */
#define AT(member) offsetof(struct network_settings, member)
static const struct field network_rows[] = {
    {"latency_ms", FIELD_REAL, AT(within.latency_ms), "0", .min = 0, .max = 1e12,
     .help = "how long a message is on its way, in milliseconds"},
    {"bandwidth_mbps", FIELD_REAL, AT(within.bandwidth_mbps), "0", .min = 0, .max = 1e12,
     .help = "megabits a second; 0: no limit"},
    {"patience_s", FIELD_REAL, AT(patience_s), "60", .min = 0, .max = 1e12, .above_min = true,
     .help = "how long one waits for another before it is given up"},
    {"notice_s", FIELD_REAL, AT(notice_s), "0.2", .min = 0, .max = 1e12,
     .help = "how long after a machine's death the others know of it; without a network: at once"},
};
#undef AT

#define AT(member) offsetof(struct wire, member)
static const struct field wire_rows[] = {
    {"latency_ms", FIELD_REAL, AT(latency_ms), .optional = true, .min = 0, .max = 1e12,
     .help = "how long a message is on its way, in milliseconds"},
    {"bandwidth_mbps", FIELD_REAL, AT(bandwidth_mbps), .optional = true, .min = 0, .max = 1e12,
     .help = "megabits a second; 0: no limit"},
};
#undef AT

static const struct field link_rows[] = {
    {"between", FIELD_REALS, offsetof(struct link_written, between), .min = 0, .max = INFINITY, .whole = true,
     .help = "the two agents, [0, 1]; the link is the same both ways"},
};

#define AT(member) offsetof(struct event_written, member)
#define AGENTS_ROW .optional = true, .min = 0, .max = INFINITY, .whole = true
static const struct field event_rows[] = {
    {"at_s", FIELD_REAL, AT(at_s), .min = 0, .max = INFINITY, .help = "when, in virtual seconds"},
    {"crash", FIELD_REALS, AT(who[EVENT_CRASH]), AGENTS_ROW, .help = "an agent, or a list of them, dies"},
    {"stall", FIELD_REALS, AT(who[EVENT_STALL]), AGENTS_ROW,
     .help = "an agent, or a list of them, hangs: the others notice after patience"},
    {"return", FIELD_REALS, AT(who[EVENT_RETURN]), AGENTS_ROW,
     .help = "an agent, or a list of them, is back"},
    {"cut", FIELD_REALS, AT(who[EVENT_CUT]), AGENTS_ROW,
     .help = "nothing passes between two agents, [0, 1], any more"},
    {"mend", FIELD_REALS, AT(who[EVENT_MEND]), AGENTS_ROW, .help = "it does again"},
    {"heal", FIELD_CHOICE, AT(heal), .optional = true, .choices = everything,
     .help = "every cut is mended and a partition is over"},
};
#undef AT

#define AT(member) offsetof(struct random_events, member)
static const struct field random_rows[] = {
    {"crash_every_s", FIELD_REAL, AT(crash_every_s), "0", .min = 0, .max = INFINITY,
     .help = "virtual seconds between crashes of an agent, on average; 0: it never crashes"},
    {"down_s", FIELD_REAL, AT(down_s), "0", .min = 0, .max = INFINITY,
     .help = "until it is back, on average; 0: never"},
    {"cut_every_s", FIELD_REAL, AT(cut_every_s), "0", .min = 0, .max = INFINITY,
     .help = "virtual seconds between cuts of a link, on average; 0: it is never cut"},
    {"cut_s", FIELD_REAL, AT(cut_s), "0", .min = 0, .max = INFINITY,
     .help = "until it is mended, on average; 0: never"},
};
#undef AT

#define AT(member) offsetof(struct layer, member)
static const struct field layer_rows[] = {
    {"name", FIELD_TEXT, AT(name), .optional = true, .help = "the layer's name, in checkpoints and after from"},
    {"from", FIELD_TEXTS, AT(from), .optional = true,
     .help = "the earlier layer that it reads, in place of the one before; add and concat: those they join"},
};
#undef AT

#define ROWS(rows) rows, sizeof rows / sizeof *rows
const struct section section_rows[N_SECTIONS] = {
    [SECTION_TOP] = {"experiment", "at the top of the file", ROWS(top_rows)},
    [SECTION_DATA] = {"data", "what is learnt from; beside `set` and `split` (shuffle if left out)",
                      ROWS(data_rows)},
    [SECTION_LAYER] = {"model", "every layer of a list may take these", ROWS(layer_rows)},
    [SECTION_OPTIM] = {"optim", "beside `kind`, its settings and `schedule`", ROWS(optim_rows)},
    [SECTION_SCHEDULE] = {"optim.schedule", "beside `kind` (constant if left out) and its settings",
                          ROWS(schedule_rows)},
    [SECTION_TRAIN] = {"train", "how long, and what is recorded", ROWS(train_rows)},
    [SECTION_STOP] = {"train.stop", "what ends a run before train.epochs; a map, or never", ROWS(stop_rows)},
    [SECTION_ENGINE] = {"engine", "beside `kind` (auto if left out)", ROWS(engine_rows)},
    [SECTION_TOPOLOGY] = {"topology", "a graph, or a map", ROWS(topology_rows)},
    [SECTION_NETWORK] =
        {"network",
         "what sending costs, nothing if left out; beside `sites` (lists of agents), `across` "
         "and `links`",
         ROWS(network_rows)},
    [SECTION_WIRE] = {"network.across", "between agents of different sites; as within a site where left out",
                      ROWS(wire_rows)},
    [SECTION_LINK] = {"network.links", "a list of single pairs; each may take what network.across may",
                      ROWS(link_rows)},
    [SECTION_EVENT] = {"events",
                       "a list of what happens when, one thing each; also `partition`, lists of agents that "
                       "reach only each other",
                       ROWS(event_rows)},
    [SECTION_RANDOM] = {"events.random", "an item of events: what happens at any time", ROWS(random_rows)},
};

const struct section *experiment_sections(size_t *n)
{
    *n = N_SECTIONS;
    return section_rows;
}
