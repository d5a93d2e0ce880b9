/* mixed.h - what is mixed beside the parameters: a part of the settings of every strategy that mixes. */
#ifndef VECHE_STRATEGY_MIXED_H
#define VECHE_STRATEGY_MIXED_H

#include "base/field.h"
#include "link/link.h"

struct mixed {
    bool statistics, momentum;
};

/* The rows of settings for a `struct mixed` at this offset. */
#define MIXED_FIELDS(at)                                                                                     \
    {.name = "mix_statistics",                                                                               \
     .kind = FIELD_FLAG,                                                                                     \
     .offset = (at) + offsetof(struct mixed, statistics),                                                    \
     .fallback = "false",                                                                                    \
     .help = "mix batchnorm's running statistics, too"},                                                     \
    {                                                                                                        \
        .name = "mix_momentum", .kind = FIELD_FLAG, .offset = (at) + offsetof(struct mixed, momentum),       \
        .fallback = "false", .help = "mix the optimiser's slots, too"                                        \
    }

static inline row_set mixed_rows(const struct mixed *m)
{
    return ROWS_PARAMS | (m->statistics ? ROWS_STATS : 0) | (m->momentum ? ROWS_SLOTS : 0);
}

#endif
