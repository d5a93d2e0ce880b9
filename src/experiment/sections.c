/* sections.c - the settings every experiment has, one field each. */
#include "experiment/sections.h"

#include <math.h>

static const char *const precisions[] = {[PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16", NULL};
static const char *const weights[] = {
    "uniform", "metropolis", "best-constant", "fastest", [WEIGHTS_AUTO] = "auto", NULL};
static const char *const everything[] = {"all", NULL};

static const struct field top_fields[] = {
    TEXT_FIELD(struct experiment, name, NULL,
               "names the run's folder; the file's own name if left out", .optional = true),
    INT_FIELD(struct experiment, agents, "1", 1, 1e5, "how many take part"),
};

static const struct field data_fields[] = {
    INT_FIELD(struct data_settings, batch, NULL, 1, 1e6, "samples in one lesson of one agent"),
    INT_FIELD(struct data_settings, limit, "0", 0, INFINITY, "use only this many training samples; 0: all"),
    INT_FIELD(struct data_settings, test_limit, "0", 0, INFINITY, "use only this many test samples; 0: all"),
    FLAG_FIELD(struct data_settings, flip, "false", "mirror half of the training samples, chosen at random"),
    INT_FIELD(struct data_settings, crop, "0", 0, 127, "pad by this many pixels and cut the old size out at random"),
    REALS_FIELD(struct data_settings, mean, NULL, 0, 0,
                "normalisation per channel; the set's own if left out", .optional = true),
    REALS_FIELD(struct data_settings, deviation, NULL, 0, INFINITY,
                "likewise; written together with mean", .optional = true, .above_min = true),
    FLAG_FIELD(struct data_settings, stream, "false",
               "leave the samples in their files and read them ahead of need: for sets larger than memory"),
    REAL_FIELD(struct data_settings, window_mb, NULL, 0, 1e9,
               "megabytes of memory that streamed samples may take; 64 if left out or 0", .optional = true),
};

static const struct field optim_fields[] = {
    FLAG_FIELD(struct optim_settings, scale_lr, "false", "linear scaling rule: lr times the number of agents"),
};

static const struct field schedule_fields[] = {
    REAL_FIELD(struct optim_settings, warmup_epochs, "0", 0, 1e6, "lr rises linearly over these, round by round"),
    REAL_FIELD(struct optim_settings, warmup_from, NULL, 0, 1e6,
               "the rate it rises from, that of the first round; from 0 before it if left out", .optional = true, .above_min = true),
};

static const struct field train_fields[] = {
    REAL_FIELD(struct train_settings, epochs, NULL, 0, 1e6, "how often every sample is met", .above_min = true),
    INT_FIELD(struct train_settings, accumulate, "1", 1, 1e6,
              "cut a batch into so many, computed one after the other, to need less memory"),
    INT_FIELD(struct train_settings, seed, "1", 0, INFINITY, "all chance follows from it"),
    EVERY_FIELD(struct train_settings, evaluate_every, "1 epoch", "when the test samples are judged"),
    EVERY_FIELD(struct train_settings, checkpoint_every, "1 epoch", "when everything is saved"),
    INT_FIELD(struct train_settings, keep, "2", 1, 1e6, "checkpoints kept"),
};

static const struct field stop_fields[] = {
    REAL_FIELD(struct stop_settings, accuracy, NULL, 0, 100,
               "once this much of the test samples, in percent, is recognised at an evaluation; of several agents on average",
               .optional = true, .above_min = true),
    REAL_FIELD(struct stop_settings, loss, NULL, 0, 1e12,
               "once the loss on the test samples is this or less, likewise", .optional = true, .above_min = true),
    INT_FIELD(struct stop_settings, no_progress, NULL, 1, 1e9,
              "once so many evaluations in a row brought no better accuracy", .optional = true),
};

static const struct field engine_fields[] = {
    CHOICE_FIELD(struct engine_settings, precision, "fp32", precisions, "of products; sums are fp32"),
    INT_FIELD(struct engine_settings, threads, "0", 0, 4096, "0: one for each core"),
};

static const struct field topology_fields[] = {
    TEXT_FIELD(struct topology_settings, graph, NULL, "who is whose neighbour, such as cycle:4"),
    CHOICE_FIELD(struct topology_settings, weights, "auto", weights,
                 "how much each listens to whom; auto: fastest, or metropolis where the graph is too large for it"),
};

/* Latencies and bandwidths beyond 1e12 would soon overflow in other units. */
static const struct field network_fields[] = {
    FIELD("latency_ms", FIELD_REAL, struct network_settings, within.latency_ms, .fallback = "0", .min = 0, .max = 1e12,
          .help = "how long a message is on its way, in milliseconds"),
    FIELD("bandwidth_mbps", FIELD_REAL, struct network_settings, within.bandwidth_mbps, .fallback = "0", .min = 0, .max = 1e12,
          .help = "megabits a second; 0: no limit"),
    REAL_FIELD(struct network_settings, patience_s, "60", 0, 1e12,
               "how long one waits for another before it is given up", .above_min = true),
    REAL_FIELD(struct network_settings, notice_s, "0.2", 0, 1e12,
               "how long after a machine's death the others know of it; without a network: at once"),
};

static const struct field wire_fields[] = {
    REAL_FIELD(struct wire, latency_ms, NULL, 0, 1e12,
               "how long a message is on its way, in milliseconds", .optional = true),
    REAL_FIELD(struct wire, bandwidth_mbps, NULL, 0, 1e12, "megabits a second; 0: no limit", .optional = true),
};

static const struct field link_fields[] = {
    REALS_FIELD(struct link_written, between, NULL, 0, INFINITY,
                "the two agents, [0, 1]; the link is the same both ways", .whole = true),
};

static const struct field event_fields[] = {
    REAL_FIELD(struct event_written, at_s, NULL, 0, INFINITY, "when, in virtual seconds"),
    FIELD("crash", FIELD_REALS, struct event_written, who[EVENT_CRASH], .optional = true, .max = INFINITY, .whole = true,
          .help = "an agent, or a list of them, dies"),
    FIELD("stall", FIELD_REALS, struct event_written, who[EVENT_STALL], .optional = true, .max = INFINITY, .whole = true,
          .help = "an agent, or a list of them, hangs: the others notice after patience"),
    FIELD("return", FIELD_REALS, struct event_written, who[EVENT_RETURN], .optional = true, .max = INFINITY, .whole = true,
          .help = "an agent, or a list of them, is back"),
    FIELD("cut", FIELD_REALS, struct event_written, who[EVENT_CUT], .optional = true, .max = INFINITY, .whole = true,
          .help = "nothing passes between two agents, [0, 1], any more"),
    FIELD("mend", FIELD_REALS, struct event_written, who[EVENT_MEND], .optional = true, .max = INFINITY, .whole = true,
          .help = "it does again"),
    CHOICE_FIELD(struct event_written, heal, NULL, everything,
                 "every cut is mended and a partition is over", .optional = true),
};

static const struct field random_fields[] = {
    REAL_FIELD(struct random_events, crash_every_s, "0", 0, INFINITY,
               "virtual seconds between crashes of an agent, on average; 0: it never crashes"),
    REAL_FIELD(struct random_events, down_s, "0", 0, INFINITY, "until it is back, on average; 0: never"),
    REAL_FIELD(struct random_events, cut_every_s, "0", 0, INFINITY,
               "virtual seconds between cuts of a link, on average; 0: it is never cut"),
    REAL_FIELD(struct random_events, cut_s, "0", 0, INFINITY, "until it is mended, on average; 0: never"),
};

static const struct field layer_fields[] = {
    TEXT_FIELD(struct layer, name, NULL, "the layer's name, in checkpoints and after from", .optional = true),
    TEXTS_FIELD(struct layer, from, NULL,
                "the earlier layer that it reads, in place of the one before; add and concat: those they join", .optional = true),
};

#define FIELDS(table) table, sizeof table / sizeof *table
const struct section section_table[N_SECTIONS] = {
    [SECTION_TOP] = {"experiment", "at the top of the file", FIELDS(top_fields)},
    [SECTION_DATA] = {"data", "what is learnt from; beside `set` and `split` (shuffle if left out)",
                      FIELDS(data_fields)},
    [SECTION_LAYER] = {"model", "every layer of a list may take these", FIELDS(layer_fields)},
    [SECTION_OPTIM] = {"optim", "beside `kind`, its settings and `schedule`", FIELDS(optim_fields)},
    [SECTION_SCHEDULE] = {"optim.schedule", "beside `kind` (constant if left out) and its settings",
                          FIELDS(schedule_fields)},
    [SECTION_TRAIN] = {"train", "how long, and what is recorded", FIELDS(train_fields)},
    [SECTION_STOP] = {"train.stop", "what ends a run before train.epochs; a map, or never", FIELDS(stop_fields)},
    [SECTION_ENGINE] = {"engine", "beside `kind` (auto if left out)", FIELDS(engine_fields)},
    [SECTION_TOPOLOGY] = {"topology", "a graph, or a map", FIELDS(topology_fields)},
    [SECTION_NETWORK] =
        {"network",
         "what sending costs, nothing if left out; beside `sites` (lists of agents), `across` "
         "and `links`",
         FIELDS(network_fields)},
    [SECTION_WIRE] = {"network.across", "between agents of different sites; as within a site where left out",
                      FIELDS(wire_fields)},
    [SECTION_LINK] = {"network.links", "a list of single pairs; each may take what network.across may",
                      FIELDS(link_fields)},
    [SECTION_EVENT] = {"events",
                       "a list of what happens when, one thing each; also `partition`, lists of agents that "
                       "reach only each other",
                       FIELDS(event_fields)},
    [SECTION_RANDOM] = {"events.random", "an item of events: what happens at any time", FIELDS(random_fields)},
};

const struct section *experiment_sections(size_t *n)
{
    *n = N_SECTIONS;
    return section_table;
}
