/* sections.c - the settings every experiment has, one row each. */
#include "experiment/sections.h"

#include <math.h>

static const char *const splits[] = {[SPLIT_SHUFFLE] = "shuffle", NULL};
static const char *const precisions[] = {[PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16", NULL};

#define AT(member) offsetof(struct experiment, member)
static const struct field top_rows[] = {
    {"name", FIELD_TEXT, AT(name), .optional = true,
     .help = "names the run's folder; the file's own name if left out"},
    {"agents", FIELD_INT, AT(agents), "1", .min = 1, .max = 1e6, .help = "how many take part"},
};
#undef AT

#define AT(member) offsetof(struct data_settings, member)
static const struct field data_rows[] = {
    {"split", FIELD_CHOICE, AT(split), "shuffle", .choices = splits,
     .help = "how the samples are shared out"},
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
};
#undef AT

#define AT(member) offsetof(struct optim_settings, member)
static const struct field optim_rows[] = {
    {"scale_lr", FIELD_FLAG, AT(scale_lr), "false",
     .help = "linear scaling rule: lr times the number of agents"},
};

static const struct field schedule_rows[] = {
    {"warmup_epochs", FIELD_REAL, AT(warmup_epochs), "0", .min = 0, .max = 1e6,
     .help = "lr rises linearly from 0 over these, round by round"},
};
#undef AT

#define AT(member) offsetof(struct train_settings, member)
static const struct field train_rows[] = {
    {"epochs", FIELD_REAL, AT(epochs), .min = 0, .max = 1e6, .above_min = true,
     .help = "how often every sample is met"},
    {"seed", FIELD_INT, AT(seed), "1", .min = 0, .max = INFINITY, .help = "all chance follows from it"},
    {"evaluate_every", FIELD_EVERY, AT(evaluate_every), "1 epoch",
     .help = "when the test samples are judged"},
    {"checkpoint_every", FIELD_EVERY, AT(checkpoint_every), "1 epoch", .help = "when everything is saved"},
    {"keep", FIELD_INT, AT(keep), "2", .min = 1, .max = 1e6, .help = "checkpoints kept"},
};
#undef AT

#define AT(member) offsetof(struct engine_settings, member)
static const struct field engine_rows[] = {
    {"precision", FIELD_CHOICE, AT(precision), "fp32", .choices = precisions,
     .help = "of products; sums are fp32"},
    {"threads", FIELD_INT, AT(threads), "0", .min = 0, .max = 4096, .help = "0: one for each core"},
};
#undef AT

#define AT(member) offsetof(struct machine_settings, member)
static const struct field machine_rows[] = {
    {"rate", FIELD_REAL, AT(rate), "1000", .min = 0, .max = INFINITY, .above_min = true,
     .help = "samples a second that a machine of speed 1 handles, for the virtual clock"},
};
#undef AT

#define AT(member) offsetof(struct layer, member)
static const struct field layer_rows[] = {
    {"name", FIELD_TEXT, AT(name), .optional = true, .help = "the layer's name in checkpoints"},
};
#undef AT

#define ROWS(rows) rows, sizeof rows / sizeof *rows
const struct section section_rows[N_SECTIONS] = {
    [SECTION_TOP] = {"experiment", "at the top of the file", ROWS(top_rows)},
    [SECTION_DATA] = {"data", "what is learnt from; beside `set`", ROWS(data_rows)},
    [SECTION_LAYER] = {"model", "every layer of a list may take these", ROWS(layer_rows)},
    [SECTION_OPTIM] = {"optim", "beside `kind`, its settings and `schedule`", ROWS(optim_rows)},
    [SECTION_SCHEDULE] = {"optim.schedule", "beside `kind` (constant if left out) and its settings",
                          ROWS(schedule_rows)},
    [SECTION_TRAIN] = {"train", "how long, and what is recorded", ROWS(train_rows)},
    [SECTION_ENGINE] = {"engine", "beside `kind` (auto if left out)", ROWS(engine_rows)},
    [SECTION_MACHINES] = {"machines", "how fast the machines are taken to be", ROWS(machine_rows)},
};

const struct section *experiment_sections(size_t *n)
{
    *n = N_SECTIONS;
    return section_rows;
}
