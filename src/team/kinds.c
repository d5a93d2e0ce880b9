/* kinds.c - what one may write after `team`. */
#include "team/team.h"

static const char *const recomputes[] = {[RECOMPUTE_NEVER] = "never",
                                         [RECOMPUTE_ALWAYS] = "always",
                                         [RECOMPUTE_EXCEPT_LAST] = "except-last",
                                         NULL};

static const struct field pipeline_fields[] = {
    INT_FIELD(struct pipeline, size, NULL, 1, 1024, "machines of each agent, which hold its network together"),
    TEXT_FIELD(struct pipeline, schedule, "1f1b",
               "who computes which micro-batch when: gpipe, 1f1b, interleaved or zb-h1, or file:NAME.csv"),
    INT_FIELD(struct pipeline, microbatches, "8", 1, 1e6,
              "pieces of a batch that go through the pipeline one after the other; at most data.batch"),
    INT_FIELD(struct pipeline, chunks, "1", 1, 1024, "interleaved: parts of the network that each machine has"),
    INT_FIELD(struct pipeline, warmup, "0", 0, 1e6,
              "1f1b: most micro-batches that the first machine has under way; more hide a slow network; 0: one for each machine"),
    CHOICE_FIELD(struct pipeline, recompute, "never", recomputes,
                 "compute forward again before backward, which saves memory: for no micro-batch, all, or all but the last"),
    TEXTS_FIELD(struct pipeline, cut, "auto",
                "where the network is cut: auto (by the machines' speeds), even (as if they were equal), or the first layer of "
                "every part but the first"),
};

static const struct kind rows[] = {
    {.name = "none", .help = "an agent is one machine"},
    {.name = "pipeline",
     .help = "a network cut into parts, one behind the other; micro-batches go through them",
     .fields = pipeline_fields,
     .n_fields = sizeof pipeline_fields / sizeof *pipeline_fields,
     .size = sizeof(struct pipeline)},
};

const struct kinds team_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};
